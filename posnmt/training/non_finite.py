"""How a run responds to losses, gradients, weights and dev figures that are NaN or infinite.

An update is not made if its loss or gradient is not finite, and weights that are not finite are never saved. So all
checkpoints, averages and models are finite. `train.non_finite` determines how the run goes on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from posnmt.base.errors import UserError
from posnmt.base.words import counted
from posnmt.training.build import Training
from posnmt.training.keep import Keeper, restore
from posnmt.training.loss import TrainingLoss
from posnmt.training.metrics import Metrics
from posnmt.training.progress import Update

SKIPS = 10
"""The most consecutive updates that are left out."""

HALVINGS = 5
"""How often at most a run goes back and halves its learning rate."""

_TODO = (
    "lower train.learning_rate, lengthen train.schedule.warmup, or set train.precision: fp32;"
    " or go on with --resume --set train.non_finite=back-off (or skip)"
)


@dataclass(frozen=True)
class NonFinite:
    """The response to values that are not finite, by `train.non_finite`."""

    metrics: Metrics
    keeper: Keeper

    def respond(self, t: Training, update: Update, fault: str) -> None:
        """Go on without an update that was not made, or go back to a checkpoint.

        Raises:
            UserError: the run does not go on.
        """
        progress, policy = t.progress, t.config.train.non_finite
        progress.skipped += 1
        t.spend()
        pairs = [t.corpus.where(int(number)) for numbers in update.batches for number in numbers]
        named = ", ".join(pairs[:3]) + (", …" if len(pairs) > 3 else "")
        what = f"the {fault} is not finite at step {update.step:,}, of {counted(len(pairs), 'pair')} ({named})"
        figures = {"update": update.step, "what": fault, "pairs": pairs}
        if policy == "back-off":
            self._back_off(t, what, figures)
            return
        self.metrics.write("non-finite", replace(progress, step=update.step), figures)
        self._refuse(t, what, policy)
        t.display.say(f"warning: {what}; this update is left out")

    def accepts(self, t: Training, whole: TrainingLoss, figures: dict[str, Any]) -> bool:
        """Whether all weights and the dev perplexity are finite; if not, the run went back to a checkpoint.

        Raises:
            UserError: the run does not go on.
        """
        finite = t.is_finite(whole)
        if finite and math.isfinite(figures.get("perplexity", 0.0)):
            return True
        what = f"{'dev perplexity is' if finite else 'weights are'} not finite at step {t.progress.step:,}"
        if t.config.train.non_finite != "back-off":  # leaving out updates does not repair weights
            self._refuse(t, what, "stop")
        self._back_off(t, what, {"update": t.progress.step, "what": what})
        return False

    def _back_off(self, t: Training, what: str, figures: dict[str, Any]) -> None:
        """Go back to the newest checkpoint, with half the learning rate, and write it again with that."""
        self._refuse(t, what, "back-off")
        before = t.progress
        restored = restore(t, self.keeper.checkpoints)
        assert restored  # one of the start was written
        t.progress.seconds, t.progress.halvings = before.seconds, before.halvings + 1
        self.metrics.rewind(t.progress)
        self.metrics.write("non-finite", t.progress, figures)
        t.display.say(
            f"warning: {what}; training goes on from the checkpoint of step {t.progress.step:,}"
            f" with 1/{2**t.progress.halvings} of the learning rate"
        )
        # a run that dies before its next checkpoint shall resume with this rate; `evaluated` stays as it was
        self.keeper.checkpoint(t, t.whole(), evaluated=False)

    def _refuse(self, t: Training, what: str, policy: str) -> None:
        """Raise an error unless a policy, `stop`, `skip` or `back-off`, lets the run go on.

        Args:
            what: a clause that says what is not finite, and where.
        """
        skipped, halvings, saved = t.progress.skipped, t.progress.halvings, t.progress.saved
        if (policy == "skip" and skipped <= SKIPS) or (policy == "back-off" and halvings < HALVINGS):
            return
        tried = {
            "skip": f", and {SKIPS} updates before it were left out",
            "back-off": f", with 1/{2**HALVINGS} of the rate",
        }
        kept = "there is no checkpoint yet" if saved < 0 else f"the checkpoint of step {saved:,} is kept"
        raise UserError(f"{what}{tried.get(policy, '')}; {kept}", self.keeper.run.folder, _TODO)
