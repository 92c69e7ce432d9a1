"""The files of a training in its run folder: checkpoints, the best weights, and at the end the model.

All processes call all functions; the first process writes the files. `whole` is the result of `t.whole`.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from typing import Any

from posnmt.base.output import replacing, write_text
from posnmt.base.progress import duration
from posnmt.base.words import counted
from posnmt.model.weights import average, load_model, save_model, save_tensors
from posnmt.run.run import DEV, Run
from posnmt.training.build import Training
from posnmt.training.checkpoint import MODEL, Checkpoints, load_checkpoint, optimizer_tensors
from posnmt.training.continued import continue_from, described
from posnmt.training.doubts import doubts
from posnmt.training.evaluate import describe, measure, selection_score
from posnmt.training.loss import TrainingLoss
from posnmt.training.metrics import Metrics
from posnmt.training.progress import Progress
from posnmt.training.stop import INTERRUPTED


def first_weights(t: Training, checkpoints: Checkpoints, origin: Run | None) -> dict[str, Any]:
    """Load the weights of the newest checkpoint, or of another run; without either, the initial weights stay.

    Returns:
        The entries of a new run's record about its weights.

    Raises:
        UserError: every checkpoint is damaged, or a weight of the other run has another shape.
    """
    about: dict[str, Any] = {}
    if not restore(t, checkpoints) and origin is not None:
        about["init"] = continue_from(t.model, origin, t.store.text)
        for sentence in described(about["init"]):
            t.display.say(sentence)
    fixed = [name for name, parameter in t.model.named_parameters() if not parameter.requires_grad]
    if fixed:
        about["frozen"] = fixed
        t.display.say(f"frozen: {len(fixed)} of {len(list(t.model.parameters()))} tensors")
    return about


def restore(t: Training, checkpoints: Checkpoints) -> bool:
    """Load the newest undamaged checkpoint; False if there is none.

    Raises:
        UserError: every checkpoint is damaged.
    """
    newest = t.fabric.broadcast(checkpoints.undamaged(t.display.say) if t.fabric.is_global_zero else None)
    if newest is None:
        return False
    t.progress = Progress.from_json(load_checkpoint(newest, t.model, t.optimizer))
    return True


@dataclass(frozen=True)
class Keeper:
    """Writes the files of a training."""

    run: Run
    checkpoints: Checkpoints
    metrics: Metrics

    def begin(self, t: Training) -> None:
        """Remove the remains of a killed process, and write a first checkpoint if the run may have to go back to it."""
        if t.fabric.is_global_zero:
            self.checkpoints.prune()
        train = t.config.train
        if (train.non_finite == "back-off" or train.init is not None) and t.progress.saved < 0:
            # with `train.init`, the run that it names is no longer needed from here on
            self.checkpoint(t, t.whole(), evaluated=False)

    def checkpoint(self, t: Training, whole: TrainingLoss, evaluated: bool) -> None:
        """Write a checkpoint from which the run can be resumed.

        Args:
            evaluated: whether dev was evaluated at this step; only such checkpoints are averaged at the end.
        """
        progress, first = t.progress, t.fabric.is_global_zero
        progress.saved = progress.step
        progress.evaluated = progress.step if evaluated else progress.evaluated
        moments = optimizer_tensors(t.model, t.optimizer, keep=first)
        if first:
            self.metrics.sync()
            progress.metrics = self.metrics.count
            self.checkpoints.commit(whole.model, moments, asdict(progress), _header(t, {}))
            self.checkpoints.prune()

    def keep_best(self, t: Training, whole: TrainingLoss, figures: dict[str, Any]) -> None:
        """Write the weights as the best so far; they are the model until there are better ones."""
        if t.fabric.is_global_zero:
            for name in ("best", "model"):
                save_model(whole.model, self.run.weights(name), _header(t, figures))

    def finish(self, t: Training, reason: str) -> None:
        """Write a checkpoint if the training was interrupted, otherwise the model."""
        if reason != INTERRUPTED:
            self._choose(t, reason)
        elif t.progress.saved != t.progress.step:
            whole = t.whole()
            if t.is_finite(whole):
                self.checkpoint(t, whole, evaluated=False)
            else:
                t.display.say("warning: weights are not finite and are not saved; the newest checkpoint stays")
        t.fabric.barrier()

    def _choose(self, t: Training, reason: str) -> None:
        """Average the last checkpoints, choose `model.safetensors` by dev, and complete the record."""
        run, progress, first = self.run, t.progress, t.fabric.is_global_zero
        chosen = "best" if t.config.data.has_dev else "last"
        if self._average_is_better(t):
            chosen = "average"
        if first:
            with replacing(run.weights("model")) as new:
                shutil.copyfile(run.weights("average" if chosen == "average" else "best"), new)
            ending = {"stopped": reason, "steps": progress.step, "epochs": progress.cursor.epoch}
            ending |= {"seconds": round(progress.seconds, 1), "best_step": progress.best_step, "model": chosen}
            run.write_record({**run.record, **ending})
            _write_dev(t, run)
            in_pass, chosen_for = len(t.plan.of(progress.cursor)), run.record.get("chosen", ())
            for doubt in doubts(t.config, progress, t.on_dev, t.store, in_pass, chosen_for):
                t.display.say(f"warning: {doubt}")
        spent = f"{counted(progress.step, 'update')} in {duration(progress.seconds)}"
        t.display.say(f"stopped after {reason}: {spent}; model: {chosen}")

    def _average_is_better(self, t: Training) -> bool:
        """Write the average of the last evaluated checkpoints, and compare it with the best weights on dev."""
        run, progress, first = self.run, t.progress, t.fabric.is_global_zero
        places = t.fabric.broadcast(self.checkpoints.sound_to_average(t.display.say) if first else [])
        if len(places) < 2:
            return False
        whole = t.whole()
        if first:
            save_tensors(average([place / MODEL for place in places]), run.weights("average"), _header(t, {}))
            load_model(whole.model, run.weights("average"))
        figures = measure(t, whole)
        if not figures:
            return False
        self.metrics.write("average", progress, {**figures, "checkpoints": len(places)})
        t.display.say(f"average of the last {len(places)} checkpoints: dev {describe(figures)}")
        if is_better := progress.best is None or selection_score(figures, t.config.train) > progress.best:
            t.on_dev = figures
        return is_better


def _write_dev(t: Training, run: Run) -> None:
    """Write the dev pairs into the run folder, if they were held out of the training text or are in a table."""
    data = t.config.data
    if data.has_dev and (data.dev is None or data.dev.tsv is not None):
        dev = t.store.split("dev")
        for name, lines in zip(DEV, (dev.source_texts, dev.target_texts), strict=True):
            write_text(run.folder / name, "".join(f"{line}\n" for line in lines))


def _header(t: Training, figures: dict[str, Any]) -> dict[str, Any]:
    model = t.config.model.model_dump(mode="json")
    dev = {name: value for name, value in figures.items() if name != "examples"}
    return {"format": "posnmt", "model": model, "step": t.progress.step, "dev": dev}
