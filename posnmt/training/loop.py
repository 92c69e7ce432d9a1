"""The training loop, top to bottom.

All randomness in an update is a function of (seed, step, process, batch): the order of batches depends on the seed, and
dropout is reseeded for each batch. So a resumed run needs no random state to compute the same updates as an
uninterrupted one.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from lightning_fabric import Fabric
from numpy.typing import NDArray

from posnmt.base.files import replacing
from posnmt.base.interrupt import Interrupted, StopSignal
from posnmt.base.progress import Display, duration
from posnmt.config.schema import Config
from posnmt.data.exposure import histogram
from posnmt.data.learn import text_folder
from posnmt.data.marks import marks_in
from posnmt.data.prepare import changed, dropped, prepare, sampled
from posnmt.data.suspicions import warnings
from posnmt.model.weights import average, load_model, save_model, save_tensors
from posnmt.run.resolve import clashes, origins, resumed
from posnmt.run.run import Run, claimed, is_unfinished, refuse_existing, refuse_other_config, refuse_other_text
from posnmt.training.checkpoint import MODEL, Checkpoints, load_checkpoint, optimizer_tensors
from posnmt.training.checks import check_before, refuse_too_long, try_largest_batch
from posnmt.training.continued import continue_from, described, refuse_other_model
from posnmt.training.device import first_alone, make_fabric
from posnmt.training.doubts import doubts
from posnmt.training.evaluate import describe, evaluate, selection_score
from posnmt.training.kept import saying_what_is_kept
from posnmt.training.loggers import require_loggers
from posnmt.training.loss import TrainingLoss
from posnmt.training.non_finite import are_finite, refuse
from posnmt.training.progress import Progress, Window
from posnmt.training.record import Metrics, changes, computed_with, provenance
from posnmt.training.schedule import learning_rate
from posnmt.training.sharding import copy_unsharded
from posnmt.training.stop import INTERRUPTED, agreed, why_counted, why_stop
from posnmt.training.update import Updater, new_model
from posnmt.translate.several import sentences_per_line
from posnmt_position.processor import multiplies_bf16

if TYPE_CHECKING:
    from posnmt.data.store import Store
    from posnmt.training.update import Corpus


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
        about: added to the record of a new run.

    Returns:
        The finished run.

    Raises:
        UserError: the folder exists, the config differs from the run's, the corpus does not fit the model, or
            something is not finite and `train.non_finite` does not let the run go on.
        Interrupted: a stop signal was received; the state is saved.
    """
    display = display or Display(quiet=True)
    if resume and is_unfinished(out):
        display.say(f"the run in {out} was stopped before its first update; starting it")
        resume = False
    config, begun = _admitted(out, config, resume)
    require_loggers(config.train)
    if begun is None:
        refuse_other_model(config)
    else:
        config = begun.with_own_text(config)
    fabric = make_fabric(config.train)
    display.hush(not fabric.is_global_zero)
    store = _prepared(config, fabric, display, begun)
    signs = (f"warning: {sign}" for sign in (*clashes(config), *warnings(store, config)))
    for sentence in (*dropped(store), *sampled(store), *changed(store), *signs):
        display.say(sentence)
    if not fabric.is_global_zero:
        return _train(config, out, resume, fabric, store, display, about or {})
    with claimed(out), saying_what_is_kept(out):
        _admitted(out, config, resume)  # again: another training may have run there in between
        return _train(config, out, resume, fabric, store, display, about or {})


def _admitted(out: Path, config: Config, resume: bool) -> tuple[Config, Run | None]:
    """The configuration, in the format of the resumed run, and that run; checks that the folder may be trained in.

    Raises:
        UserError: the folder exists, or the run to resume has another configuration.
    """
    if not resume:
        refuse_existing(out)
        return config, None
    begun = Run.open(out)
    config = resumed(config, begun.config.format)
    refuse_other_config(begun, config)
    return config, begun


def _train(
    config: Config, out: Path, resume: bool, fabric: Fabric, store: Store, display: Display, about: Mapping[str, Any]
) -> Run:
    """`train`, in a folder that this process has claimed."""
    updater = Updater(_frozen_as_begun(config, out) if resume else config, store, fabric)
    model = updater.model
    refuse_too_long(updater, store)
    checkpoints = Checkpoints(out / "checkpoints", config.train.average)
    newest = fabric.broadcast(checkpoints.undamaged(display.say) if resume and fabric.is_global_zero else None)
    progress = Progress()
    if newest is not None:
        progress = Progress.from_json(load_checkpoint(newest, model, updater.optimizer))
    elif config.train.init is not None:
        taken = continue_from(model, config, store.text)
        about = {**about, "init": taken}
        for sentence in described(taken):
            display.say(sentence)
    fixed = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    if fixed:
        about = {**about, "frozen": fixed}
        display.say(f"frozen: {len(fixed)} of {len(list(model.parameters()))} tensors")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    tried = try_largest_batch(updater, config.train, progress.cursor.epoch)
    if fabric.is_global_zero and not resume:
        before = text_folder(config) if config.train.init is not None and config.subword.pieces == "extended" else None
        record = {**_first_record(config, store, updater.corpus, parameters), "largest_batch": tried and asdict(tried)}
        record["computed_with"] = [{"step": 0, **computed_with(fabric)}]
        Run.create(out, config, store.text, {**record, **about}, before, store.target_counts())
    elif fabric.is_global_zero:
        Run.open(out).change(config, progress.step)
        _resumed_with(Run.open(out), computed_with(fabric), progress.step, display)
    fabric.barrier()
    run = Run.open(out)
    size = f"{parameters:,} parameters, {len(updater.corpus):,} pairs"
    place = f"{fabric._precision.precision} on {fabric.device}"
    if config.train.precision == "bf16" and fabric.device.type == "cpu" and not multiplies_bf16():
        display.say(
            "warning: this processor has no bf16 instructions and emulates them; train.precision: auto is faster"
        )
    display.say(f"{size}, {place}" + (f", resuming after step {progress.step:,}" if resume else ""))
    if tried is not None:
        display.say(f"the largest batch fits: {tried}")
    if not config.data.has_dev:
        display.say("there is no dev corpus to choose a checkpoint by, so the model is the last checkpoint")
    training = Training(fabric, config, run, store, updater, checkpoints, progress, display)
    with StopSignal() as stop:
        try:
            reason = training.loop(stop)
        finally:
            updater.close()
    if reason == INTERRUPTED:
        raise Interrupted(f"stopped after step {training.progress.step}, state saved; resume with --out {out} --resume")
    return run


@dataclass
class Training:
    """The training of one process."""

    fabric: Fabric
    config: Config
    run: Run
    store: Store
    updater: Updater
    checkpoints: Checkpoints
    progress: Progress
    display: Display

    def loop(self, stop: StopSignal) -> str:
        """Make updates until there is a reason to stop, and return the reason."""
        self.open_metrics()
        if self.metrics is not None:
            if self.metrics.lost:
                self.display.say(f"warning: {self.metrics.lost} lines of {self.metrics.path} are damaged or missing")
            self.checkpoints.prune()  # removes what a killed process left
        settings = self.config.train
        if (settings.non_finite == "back-off" or settings.init is not None) and self.progress.saved < 0:
            # so that there is always a checkpoint to go back to, and the run of `train.init` is no longer needed
            self.save(self.unsharded(), evaluated=False)
        self.on_dev: dict[str, Any] = {}  # as last measured
        self.clock = time.monotonic()
        while True:
            own, counted = why_stop(settings, self.progress, stop), why_counted(settings, self.progress)
            if not (reason := agreed(self.fabric, own, counted, self.progress.step)):
                self.update()
            elif reason == INTERRUPTED or self.progress.evaluated == self.progress.step or self.evaluate_and_save():
                break

        if reason == INTERRUPTED:
            if self.progress.saved != self.progress.step:
                self.save_interrupted()
        else:
            self.finish(reason)
        if self.metrics is not None:
            self.metrics.close()
        self.fabric.barrier()
        return reason

    def open_metrics(self) -> None:
        """Open the metrics in the first process, without the lines of updates after this one."""
        self.metrics = None
        if self.fabric.is_global_zero:
            self.metrics = Metrics(self.run.folder, self.config, self.warn, self.progress.step, self.progress.metrics)

    def warn(self, message: str) -> None:
        """Show a warning."""
        self.display.say(f"warning: {message}")

    def update(self) -> None:
        """Make the next update, and evaluate where it is time to."""
        fabric, settings, progress, plan = self.fabric, self.config.train, self.progress, self.updater.plan
        share = progress.share(settings, len(plan.epoch(progress.cursor.epoch)))  # of the budget
        if settings.minutes is not None:
            share = fabric.broadcast(share)  # the processes' clocks differ
        batches, progress.cursor = plan.take(progress.cursor, self.updater.batches)
        source_tokens, tokens = plan.tokens(batches)  # without padding
        progress.step += 1
        rate = learning_rate(progress.step, settings, self.config.model.d_model, progress.plateau.decays, share)
        rate *= 0.5**progress.halvings
        outcome = self.updater.update(progress.step, rate, batches, tokens)
        if outcome.fault is None:
            progress.skipped = 0
            progress.window.add(outcome, source_tokens, tokens, self.spend())
            self.display.show("training", *progress.shown(settings, len(plan.epoch(progress.cursor.epoch))))
            if progress.step % settings.log_every == 0:
                figures = {**progress.window.figures(), "learning_rate": rate, "epoch": progress.cursor.epoch}
                self.write("train", figures)
                progress.window = Window()
        elif not self.skip(outcome.fault, batches):
            return
        if progress.step % settings.evaluate_every == 0:
            self.evaluate_and_save()

    def skip(self, fault: str, batches: Sequence[NDArray[np.int64]]) -> bool:
        """Respond to an update that was not made, by `train.non_finite`.

        Returns:
            Whether the run goes on from this step; if not, it went back to an earlier checkpoint.

        Raises:
            UserError: the run does not go on.
        """
        progress, policy, corpus = self.progress, self.config.train.non_finite, self.updater.corpus
        progress.skipped += 1
        self.spend()
        pairs = [corpus.where(int(number)) for numbers in batches for number in numbers]
        named = ", ".join(pairs[:3]) + (", …" if len(pairs) > 3 else "")
        what = f"the {fault} is not finite at step {progress.step:,}, of {len(pairs):,} pairs ({named})"
        figures = {"update": progress.step, "what": fault, "pairs": pairs}
        if policy == "back-off":
            self.back_off(what, figures)
            return False
        self.write("non-finite", figures)
        refuse(what, policy, progress, self.run)
        self.display.say(f"warning: {what}; this update is left out")
        return True

    def back_off(self, what: str, figures: dict[str, Any]) -> None:
        """Go back to the newest checkpoint, with half the learning rate, and write it again with that.

        Args:
            what: is not finite, and where.
            figures: the same for the metrics.

        Raises:
            UserError: the rate was halved often enough.
        """
        refuse(what, "back-off", self.progress, self.run)
        first, before = self.fabric.is_global_zero, self.progress
        newest = self.fabric.broadcast(self.checkpoints.undamaged(self.display.say) if first else None)
        assert newest is not None  # one of the start was written
        self.progress = Progress.from_json(load_checkpoint(newest, self.updater.model, self.updater.optimizer))
        self.progress.seconds, self.progress.halvings = before.seconds, before.halvings + 1
        if self.metrics is not None:
            self.metrics.close()
        self.open_metrics()
        self.write("non-finite", figures)
        self.display.say(
            f"warning: {what}; training goes on from the checkpoint of step {self.progress.step:,}"
            f" with 1/{2**self.progress.halvings} of the learning rate"
        )
        # so that a run that dies before its next checkpoint resumes with this rate; `evaluated` stays as it was
        self.save(self.unsharded(), evaluated=False)

    def spend(self) -> float:
        """Add the time since the last call to the time spent; that time in seconds."""
        now = time.monotonic()
        spent, self.clock = now - self.clock, now
        self.progress.seconds += spent
        return spent

    def write(self, kind: str, figures: dict[str, Any]) -> None:
        """Write one line of metrics, in the first process."""
        if self.metrics is not None:
            self.metrics.write(kind, self.progress.step, {**figures, "seconds": self.progress.seconds})

    def evaluate_and_save(self) -> bool:
        """Evaluate on dev, save the weights if they are the best so far, and write a checkpoint.

        Returns:
            Whether that was done; if not, the run went back to an earlier checkpoint.

        Raises:
            UserError: weights or dev perplexity are not finite, and the run does not go on.
        """
        progress, settings, full = self.progress, self.config.train, self.unsharded()
        better, figures, finite = True, self.evaluate(full), self.are_finite(full)
        if not finite or not math.isfinite(figures.get("perplexity", 0.0)):
            what = f"{'dev perplexity is' if finite else 'weights are'} not finite at step {progress.step:,}"
            if settings.non_finite != "back-off":  # leaving updates out does not mend weights
                refuse(what, "stop", progress, self.run)
            self.back_off(what, {"update": progress.step, "what": what})
            return False
        if figures:
            better = progress.observe(selection_score(figures, settings))
            if settings.schedule.type == "plateau":
                progress.plateau.observe(figures["perplexity"], settings.schedule)
            self.display.say(f"step {progress.step:,}  dev {describe(figures)}{'  best' if better else ''}")
        if better and self.fabric.is_global_zero:
            for name in ("best", "model"):
                save_model(full.model, self.run.weights(name), self.about(figures))
        self.spend()
        if figures:
            self.write("dev", figures)
        self.save(full, evaluated=True)
        return True

    def save_interrupted(self) -> None:
        """Write a checkpoint for a resumed run, unless the weights are not finite."""
        full = self.unsharded()
        if self.are_finite(full):
            self.save(full, evaluated=False)
        else:
            self.display.say("warning: weights are not finite and are not saved; the newest checkpoint stays")

    def are_finite(self, loss: TrainingLoss) -> bool:
        """Whether all weights are finite, by the first process, which has them all."""
        return bool(self.fabric.broadcast(are_finite(loss.model) if self.fabric.is_global_zero else None))

    def unsharded(self) -> TrainingLoss:
        """The loss module; if its weights are sharded, the first process gets a copy with all of them."""
        if not self.config.train.shard:
            return self.updater.loss_of
        copy = None
        if self.fabric.is_global_zero:
            copy = TrainingLoss(new_model(self.config, self.store, self.fabric), self.config.train.label_smoothing)
        copy_unsharded(self.updater.loss_of, copy)
        return copy or self.updater.loss_of

    def evaluate(self, loss: TrainingLoss) -> dict[str, Any]:
        """Dev figures, computed by the first process and broadcast; empty without a dev corpus."""
        figures: dict[str, Any] = {}
        if self.config.data.has_dev:
            if self.fabric.is_global_zero:
                dev = self.store.split("dev")
                figures = evaluate(loss, dev, self.store.text, self.config, self.fabric)
            figures = self.fabric.broadcast(figures)
            self.on_dev = figures
        return figures

    def save(self, loss: TrainingLoss, evaluated: bool) -> None:
        """Write a checkpoint from which the run can be resumed, in the first process.

        Args:
            evaluated: whether dev was evaluated at this step; only such checkpoints are averaged at the end.
        """
        progress = self.progress
        progress.saved = progress.step
        progress.evaluated = progress.step if evaluated else progress.evaluated
        moments = optimizer_tensors(self.updater.model, self.updater.optimizer, keep=self.metrics is not None)
        if self.metrics is not None:
            self.metrics.sync()
            progress.metrics = self.metrics.count
            self.checkpoints.commit(loss.model, moments, asdict(progress), self.about({}))
            self.checkpoints.prune()

    def about(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Metadata for the header of a file of weights."""
        model = self.config.model.model_dump(mode="json")
        return {"format": "posnmt", "model": model, "step": self.progress.step, "dev": figures}

    def finish(self, reason: str) -> None:
        """Average the last checkpoints, choose `model.safetensors` by dev, and complete the record."""
        run, progress = self.run, self.progress
        chosen, first = "best" if self.config.data.has_dev else "last", self.fabric.is_global_zero
        places = self.fabric.broadcast(self.checkpoints.sound_to_average(self.display.say) if first else [])
        if len(places) > 1:
            full = self.unsharded()
            if first:
                save_tensors(average([place / MODEL for place in places]), run.weights("average"), self.about({}))
                load_model(full.model, run.weights("average"))
            figures = self.evaluate(full)
            if figures:
                self.write("average", {**figures, "checkpoints": len(places)})
                self.display.say(f"average of the last {len(places)} checkpoints: dev {describe(figures)}")
            if figures and (progress.best is None or selection_score(figures, self.config.train) > progress.best):
                chosen = "average"
        if first:
            with replacing(run.weights("model")) as new:
                shutil.copyfile(run.weights("average" if chosen == "average" else "best"), new)
            ending = {"stopped": reason, "steps": progress.step, "epochs": progress.cursor.epoch}
            ending |= {"seconds": round(progress.seconds, 1), "best_step": progress.best_step, "model": chosen}
            run.write_record({**run.record, **ending})
            for doubt in doubts(self.config, progress, self.on_dev, self.store, run.record.get("chosen", ())):
                self.display.say(f"warning: {doubt}")
        self.display.say(
            f"stopped after {reason}: {progress.step:,} updates in {duration(progress.seconds)}; model: {chosen}"
        )


def _prepared(config: Config, fabric: Fabric, display: Display, begun: Run | None) -> Store:
    """The prepared store: built by the first process if it is missing, then opened by the others.

    Raises:
        UserError: the run to resume was started on another store; the store is damaged; dev cannot be measured.
    """
    check = None if begun is None else partial(refuse_other_text, begun)
    store = None
    with first_alone(fabric):
        if fabric.is_global_zero:
            store = prepare(config, report=display.say, check=check)
            check_before(config, store)
    return store or prepare(config)


def _frozen_as_begun(config: Config, out: Path) -> Config:
    """The configuration with what a run recorded as frozen, as earlier versions read some patterns otherwise."""
    frozen = Run.open(out).record.get("frozen", config.train.freeze)
    return config.model_copy(update={"train": config.train.model_copy(update={"freeze": frozen})})


def _resumed_with(run: Run, now: dict[str, Any], step: int, display: Display) -> None:
    """Warn of what a run is computed with from a step on, and was not before, and write it into its record."""
    record = run.record
    before = record.get("computed_with", [])
    sentences = changes(before[-1], now) if before else []
    for sentence in sentences:
        display.say(f"warning: {sentence}")
    if sentences or not before:
        run.write_record({**record, "computed_with": [*before, {"step": step, **now}]})


def _first_record(config: Config, store: Store, corpus: Corpus, parameters: int) -> dict[str, Any]:
    """The record of a new run."""
    lengths = {"source": corpus.source_lengths, "target": corpus.target_lengths}
    spread = {side: {"shortest": int(each.min()), "longest": int(each.max())} for side, each in lengths.items()}
    record = {**provenance(config.train.seed, store.manifest["key"], parameters), "training_lengths": spread}
    record["training_histograms"] = {side: histogram(each) for side, each in lengths.items()}
    alone = store.split("train") if config.train.context else corpus  # joined lines of a context are still lines
    more = {
        "sentences_per_line": sentences_per_line(alone, store.text),
        "plugins": [origin.as_json() for origin in origins(config)],
        "marks": marks_in(store.split("train"), store.text.source.subwords),
    }
    return record | {name: value for name, value in more.items() if value}
