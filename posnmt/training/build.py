"""Builds a training in one process: the model, the order of batches, the gradients, the optimizer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch.optim import Optimizer

from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.config.schema import Config, Model, Train
from posnmt.data.batch import BatchPlan, Pair
from posnmt.data.joined import Alternating, Concatenated, InContext, Joined
from posnmt.data.mixture import Mixture
from posnmt.data.store import Split, Store
from posnmt.model.base import TranslationModel
from posnmt.model.registry import build_model
from posnmt.training.freeze import freeze
from posnmt.training.gradients import Gradients, InParts, Whole
from posnmt.training.loss import TrainingLoss
from posnmt.training.optimizer import make_optimizer
from posnmt.training.prefetch import Prefetch
from posnmt.training.progress import Progress
from posnmt.training.sharding import copy_unsharded

Corpus = Split | Joined | Alternating


@dataclass
class Training:
    """A training in one process.

    Attributes:
        fabric: the devices and the processes.
        corpus: the training pairs, joined pairs included.
        plan: the order of their batches.
        loss: the loss module, which contains the model.
        gradients: computes the loss of a batch and its gradients.
        optimizer: of the model's parameters.
        wrapped_loss, wrapped_optimizer: loss and optimizer as wrapped by Fabric.
        prefetch: makes batches in a thread; None where nothing waits for them.
        lag: how many updates the device has been given before the values of the first of them are read. With 0 the
            process decides whether an update is made, otherwise the device does.
        display: shows progress.
        progress: the state of the training besides weights and moments.
        on_dev: the figures of the best weights, if this process evaluated them; else, and without a dev corpus, empty.
        clock: the time of the last call of `spend`, in seconds.
        evaluating: whether dev is being evaluated.
    """

    config: Config
    store: Store
    fabric: Fabric
    corpus: Corpus
    plan: BatchPlan
    loss: TrainingLoss
    gradients: Gradients
    optimizer: Optimizer
    wrapped_loss: Any
    wrapped_optimizer: Any
    display: Display
    prefetch: Prefetch | None = None
    lag: int = 0
    progress: Progress = field(default_factory=Progress)
    on_dev: dict[str, Any] = field(default_factory=dict)
    clock: float = field(default_factory=time.monotonic)
    evaluating: bool = False

    @property
    def model(self) -> TranslationModel:
        """The model, or this process's slice of it."""
        return self.loss.model

    @property
    def batches(self) -> int:
        """Batches of one update, over all processes and accumulation rounds."""
        return self.fabric.world_size * self.config.train.accumulate

    def share(self) -> float:
        """The share of the budget that is spent, by the clock of the first process (collective)."""
        train, progress = self.config.train, self.progress
        share = progress.share(train, len(self.plan.of(progress.cursor)))
        return share if train.minutes is None else self.fabric.broadcast(share)

    def evaluation_is_due(self) -> bool:
        """Whether to evaluate after this update: by its number, or by the clock of the first process (collective)."""
        train, progress = self.config.train, self.progress
        if train.evaluate_every is not None:
            return progress.step % train.evaluate_every == 0
        return bool(self.fabric.broadcast(progress.clock.is_due(train, progress.seconds)))

    def pairs(self, numbers: NDArray[np.int64]) -> list[Pair]:
        """The training pairs with some numbers."""
        return [self.corpus.pair(int(number)) for number in numbers]

    def prepared(self, numbers: NDArray[np.int64]) -> Any:
        """The batch of the pairs with some numbers, as `gradients` reads it."""
        return self.gradients.prepared(self.pairs(numbers))

    def rehearse(self, numbers: NDArray[np.int64]) -> None:
        """Compute the gradient of a batch as an update does, and discard it."""
        seed = (self.config.train.seed, 0, self.fabric.global_rank, 0)
        self.gradients.add(self.prepared(numbers), 1 / len(numbers), seed, last=True)
        self.wrapped_optimizer.zero_grad(set_to_none=True)

    def whole(self) -> TrainingLoss:
        """The loss module; where weights are sharded, the first process gets a copy with all of them (collective)."""
        if not self.config.train.shard:
            return self.loss
        copy = None
        if self.fabric.is_global_zero:
            copy = TrainingLoss(_new_model(self.config.model, self.store, self.fabric), self.loss.smoothing)
        copy_unsharded(self.loss, copy)
        return copy or self.loss

    def is_finite(self, whole: TrainingLoss) -> bool:
        """Whether all weights are finite, as checked by the first process, which has all of them (collective)."""
        finite = self.fabric.is_global_zero and all(
            bool(weight.detach().isfinite().all()) for weight in whole.model.parameters()
        )
        return bool(self.fabric.broadcast(finite))

    def spend(self) -> float:
        """Add the seconds since the last call to the time spent, and return them."""
        now = time.monotonic()
        spent, self.clock = now - self.clock, now
        self.progress.seconds += spent
        return spent

    def close(self) -> None:
        """End the threads that prepare batches and compute gradients."""
        if self.prefetch is not None:
            self.prefetch.close()
        self.gradients.close()


COMPILES = "2.13"
"""The oldest PyTorch that is known to compile the layers; 2.8, the oldest for all else, does not."""


def build(config: Config, store: Store, fabric: Fabric, display: Display | None = None) -> Training:
    """A training with a new model, on the device of this process. Without a display nothing is shown.

    Raises:
        UserError: `train.freeze` names no part of the model, or all of it; `train.compile` with a model without layers
            that are compiled, or with a PyTorch older than `COMPILES`.
    """
    train = config.train
    torch.manual_seed(train.seed)
    model = _new_model(config.model, store, fabric)
    freeze(model, train.freeze)
    loss = TrainingLoss(model, train.label_smoothing)
    if train.compile and not model.compile_training():
        raise UserError(
            f"{config.model.architecture} has no layers that torch.compile translates",
            "train.compile",
            "set it to false",
        )
    if train.compile and torch.__version__ < COMPILES:
        what = f"torch.compile translates these layers from PyTorch {COMPILES} on, and this is {torch.__version__}"
        raise UserError(what, "train.compile", "set it to false, or install a newer PyTorch")
    wrapped_loss = fabric.setup_module(loss)
    optimizer = make_optimizer(model, train)  # after `setup_module`, which may replace parameters by slices
    wrapped_optimizer: Any = fabric.setup_optimizers(optimizer)
    alone_on_cpu = fabric.device.type == "cpu" and fabric.world_size == 1 and not train.compile
    gradients: Gradients = InParts(fabric, loss) if alone_on_cpu else Whole(fabric, wrapped_loss, train.shard)
    wrapped_loss.train()
    corpus = training_pairs(train, store)
    plan = batch_plan(config, corpus, fabric.world_size * train.accumulate)
    t = Training(
        config, store, fabric, corpus, plan, loss, gradients, optimizer, wrapped_loss, wrapped_optimizer,
        display or Display(quiet=True),
    )  # fmt: skip
    if is_ahead(fabric.device):
        mine = slice(fabric.global_rank, None, fabric.world_size)
        t.prefetch = Prefetch(plan, t.batches, mine, t.prepared, fabric.device)
        t.lag = int(not train.shard)  # AdamW's decision on the device is not made for slices
    return t


def is_ahead(device: torch.device) -> bool:
    """Whether this process prepares work while the device computes."""
    return device.type == "cuda"


def _new_model(model: Model, store: Store, fabric: Fabric) -> TranslationModel:
    with fabric.init_module(), fabric.device:  # a strategy that shards would not put the model on the device
        text = store.text
        built = build_model(model, text.source.size, text.target.size, text.pairs)
        built.learn_lengths(*_tokens(store.trained()))
        return built


def _tokens(splits: Sequence[Split]) -> tuple[int, int]:
    """The number of source and of target tokens, with an end symbol for each line."""
    pairs = sum(map(len, splits))
    sides = ([split.source_lengths for split in splits], [split.target_lengths for split in splits])
    source, target = (pairs + sum(int(each.sum()) for each in side) for side in sides)
    return source, target


def batch_plan(config: Config, corpus: Corpus, batches: int = 1) -> BatchPlan:
    """The order of a training corpus's batches.

    Args:
        batches: of an update, over all processes and accumulation rounds.

    Raises:
        UserError: a corpus of a list is never used.
    """
    train = config.train
    segmentations = len(corpus.segmentations) if isinstance(corpus, Alternating) else 1
    size, unit = train.batch, train.batch_unit
    mixture = None
    if config.data.corpora:
        mixture = Mixture(corpus.corpora, config.data.corpora, train.seed, train.steps, train.epochs, batches)
    return BatchPlan(corpus, size, unit, train.seed, train.sort_by, segmentations, train.with_replacement, mixture)


def training_pairs(train: Train, store: Store) -> Corpus:
    """The training corpus, with the joined pairs and the random segmentations that the configuration asks for."""
    splits = store.trained()
    corpora: Sequence[Split | Joined] = splits
    if train.context:
        corpora = [InContext(split, train.context) for split in splits]
    elif train.concatenate:
        corpora = [Concatenated(split, train.concatenate, train.seed) for split in splits]
    return Alternating(corpora) if len(corpora) > 1 else corpora[0]
