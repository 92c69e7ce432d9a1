"""Training, top to bottom: prepare, build, loop, finish.

All randomness in an update is a function of (seed, step, process, batch): the order of batches depends on the seed, and
dropout is reseeded for each batch. So a resumed run needs no random state to compute the same updates as an
uninterrupted one.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from posnmt.base.cancel import Cancelled, cancelled_if
from posnmt.base.interrupt import Interrupted, StopSignal
from posnmt.base.progress import Display
from posnmt.config.schema import Config
from posnmt.model.slices import full_tensor
from posnmt.run.run import Run, resuming
from posnmt.training.build import Training, build
from posnmt.training.checkpoint import Checkpoints
from posnmt.training.checks import refuse_too_long, try_largest_batch
from posnmt.training.device import make_fabric
from posnmt.training.evaluate import describe, examples, measure, selection_score
from posnmt.training.keep import Keeper, first_weights
from posnmt.training.metrics import Metrics
from posnmt.training.non_finite import NonFinite
from posnmt.training.progress import Update, on_host
from posnmt.training.record import recorded
from posnmt.training.schedule import learning_rate
from posnmt.training.start import admitted, held, prepared
from posnmt.training.stop import INTERRUPTED, answer, refuse_passed, why_all_stop


def train(
    config: Config,
    out: Path,
    resume: bool = False,
    display: Display | None = None,
    about: Mapping[str, Any] | None = None,
) -> Run:
    """Train a model into a run folder, or resume a run.

    Args:
        out: the run folder; new, unless `resume`.
        resume: continue from the newest checkpoint, with the same result as an uninterrupted run.
        display: shows progress; default: nothing is shown.
        about: further entries of a new run's record.

    Returns:
        The finished run.

    Raises:
        UserError: the folder exists, the config differs from the run's, the corpus does not fit the model, or
            something is not finite and `train.non_finite` does not let the run go on.
        Interrupted: a stop signal was received; the state is saved.
    """
    # prepare
    display = display or Display(quiet=True)
    config, resumed, origin = admitted(config, out, resume, display)
    fabric = make_fabric(config.train)
    display.silence(not fabric.is_global_zero)
    store = prepared(config, resumed, fabric, display, again=bool(about))

    # build
    with held(config, out, resumed, fabric), closing(build(config, store, fabric, display)) as t:
        refuse_too_long(t)
        checkpoints = Checkpoints(out / "checkpoints", config.train.average)
        about = {**(about or {}), **first_weights(t, checkpoints, origin)}
        if resumed is not None:
            refuse_passed(resumed.config.train, t)
        if "seconds_an_evaluation" in about:  # a new run, for which it was measured
            t.progress.clock.evaluations = [about["seconds_an_evaluation"]]
        largest = try_largest_batch(t)
        run = recorded(t, out, resumed is not None, largest, about)

        # loop and finish
        stop_signal = StopSignal(partial(answer, t), display.say)
        with stop_signal as stop, cancelled_if(lambda: stop.heard), closing(Metrics(t, out)) as metrics:
            keeper = Keeper(run, checkpoints, metrics)
            try:
                keeper.begin(t)
                reason = loop(t, stop, metrics, keeper, NonFinite(metrics, keeper))
                keeper.finish(t, reason)
            except Cancelled:  # in an evaluation
                reason = INTERRUPTED
                keeper.finish(t, reason)
    if reason == INTERRUPTED:
        raise Interrupted(f"stopped after step {t.progress.step}, state saved; go on with `{resuming(out)}`")
    return run


def loop(t: Training, stop: StopSignal, metrics: Metrics, keeper: Keeper, non_finite: NonFinite) -> str:
    """Make updates and evaluations until there is a reason to stop, and return the reason."""
    train, d_model = t.config.train, t.config.model.d_model
    t.clock = time.monotonic()
    given = deque[Update]()  # whose values are still to be read
    while True:
        progress = t.progress  # another one after a return to a checkpoint
        reason = why_all_stop(t, stop)
        pending = progress.evaluated != progress.step
        due = reason != INTERRUPTED and pending and (reason or (progress.step and t.evaluation_is_due()))
        if given and (due or reason):
            settle(t, given, metrics, non_finite)  # which may go back to a checkpoint
            continue
        if due:
            evaluate(t, metrics, keeper, non_finite)
            continue
        if reason:
            return reason

        share = t.share()  # of the budget
        batches, progress.cursor = t.plan.take(progress.cursor, t.batches)
        progress.step += 1
        rate = learning_rate(progress.step, train, d_model, progress.plateau.decays, share) * 0.5**progress.halvings
        given.append(update(t, rate, batches))
        if len(given) > t.lag:
            settle(t, given, metrics, non_finite)


def settle(t: Training, given: deque[Update], metrics: Metrics, non_finite: NonFinite) -> None:
    """Read the values of the oldest update of `given`, and add them to the metrics or respond to their fault."""
    progress, update = t.progress, given.popleft()
    outcome = update.outcome()
    if outcome.fault is None:
        progress.skipped = 0
        metrics.add(t, update, outcome)
    else:
        non_finite.respond(t, update, outcome.fault)
    if t.progress is not progress:  # the run went back to a checkpoint, and makes the others again
        given.clear()


def update(t: Training, rate: float, batches: Sequence[NDArray[np.int64]]) -> Update:
    """Make the update of this step, unless its loss or gradient is not finite.

    With `t.lag`, nothing in here waits for the device: it decides by itself whether weights and moments change.

    Args:
        rate: the learning rate.
        batches: the numbers of the pairs of each batch, over all processes and accumulation rounds.
    """
    fabric, train = t.fabric, t.config.train
    for group in t.optimizer.param_groups:
        group["lr"], group["turn"] = rate, t.progress.step
    _, tokens = t.plan.tokens(batches)
    if t.prefetch is not None:
        mine: Sequence[Any] = t.prefetch.get(batches, t.progress.cursor)
    else:
        mine = [t.prepared(numbers) for numbers in batches[fabric.global_rank :: fabric.world_size]]
    sums = torch.zeros(2, dtype=torch.float64, device=fabric.device)
    for index, batch in enumerate(mine):
        seed, last = (train.seed, t.progress.step, fabric.global_rank, index), index + 1 == len(mine)
        # forward and backward; gradients are averaged over processes, so this is the mean over all tokens of the update
        sums += t.gradients.add(batch, fabric.world_size / tokens, seed, last)
    norm = fabric.clip_gradients(  # by a factor of 1 where nothing is clipped
        t.wrapped_loss, t.wrapped_optimizer, max_norm=train.clip or math.inf, error_if_nonfinite=False
    )
    assert norm is not None
    if fabric.world_size > 1:
        torch.distributed.all_reduce(sums)  # that of Fabric waits for all processes
    values = torch.cat([sums, full_tensor(norm).double().view(1)])  # the same in every process
    update = Update(t.progress.step, t.progress.cursor, rate, batches, *on_host(values))
    if t.lag:
        t.optimizer.found_inf = 1 - values.isfinite().all().float()  # type: ignore[attr-defined]
    if t.lag or update.outcome().fault is None:
        t.wrapped_optimizer.step()
    t.wrapped_optimizer.zero_grad(set_to_none=True)
    return update


def evaluate(t: Training, metrics: Metrics, keeper: Keeper, non_finite: NonFinite) -> None:
    """Evaluate on dev, keep the weights if they are the best so far, and write a checkpoint.

    The run goes back to an earlier checkpoint instead if the evaluation is not accepted.

    Raises:
        Cancelled: a stop signal was heard; nothing is changed.
        UserError: weights or dev perplexity are not finite, and the run does not go on.
    """
    train, progress, whole = t.config.train, t.progress, t.whole()
    figures, better = measure(t, whole), True
    if not non_finite.accepts(t, whole, figures):
        return
    if figures:
        better = progress.observe(selection_score(figures, train))
        if train.schedule.type == "plateau":
            progress.plateau.observe(figures["perplexity"], train.schedule)
        t.display.say(f"step {progress.step:,}  dev {describe(figures)}{'  best' if better else ''}")
        for line in examples(figures):
            t.display.brief(line)
    if better:
        t.on_dev = figures
        keeper.keep_best(t, whole, figures)
    progress.clock.add_evaluation(t.spend(), progress.seconds)
    if figures:
        metrics.write("dev", progress, figures)
    keeper.checkpoint(t, whole, evaluated=True)
