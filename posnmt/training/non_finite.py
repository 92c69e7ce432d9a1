"""Losses, gradients, weights and dev figures that are NaN or infinite, and what a run does about them.

An update whose loss or gradient is not finite is never made, and weights that are not finite are never saved, so no
checkpoint, average or model has any. `train.non_finite` says how the run goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from posnmt.base.errors import UserError

if TYPE_CHECKING:
    from posnmt.run.run import Run
    from posnmt.training.progress import Progress

SKIPS = 10
"""The largest number of consecutive updates that are left out."""

HALVINGS = 5
"""The largest number of times that a run goes back and halves its rate."""

_TODO = (
    "lower train.learning_rate, lengthen train.schedule.warmup, or set train.precision: fp32;"
    " or go on with --resume --set train.non_finite=back-off (or skip)"
)


def are_finite(model: nn.Module) -> bool:
    """Whether every weight is finite."""
    return all(bool(weight.detach().isfinite().all()) for weight in model.parameters())


def refuse(what: str, policy: str, progress: Progress, run: Run) -> None:
    """End the run where a policy does not let it go on.

    Args:
        what: is not finite, and where.
        policy: `stop`, `skip` or `back-off`.

    Raises:
        UserError: the policy is to stop, or its number of tries is used up.
    """
    if (policy == "skip" and progress.skipped <= SKIPS) or (policy == "back-off" and progress.halvings < HALVINGS):
        return
    tried = {
        "skip": f", and {SKIPS} updates before it were left out",
        "back-off": f", with 1/{2**HALVINGS} of the rate",
    }
    kept = "there is no checkpoint yet" if progress.saved < 0 else f"the checkpoint of step {progress.saved:,} is kept"
    raise UserError(f"{what}{tried.get(policy, '')}; {kept}", run.folder, _TODO)
