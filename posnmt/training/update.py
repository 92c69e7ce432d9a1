"""One update: a batch or several, their gradients, and a step of the optimizer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor

from posnmt.config.schema import Config, Train
from posnmt.data.alternate import Alternating
from posnmt.data.batch import BatchPlan
from posnmt.data.concatenate import Concatenated
from posnmt.data.context import InContext
from posnmt.model.base import TranslationModel
from posnmt.model.registry import build_model
from posnmt.model.slices import full_tensor
from posnmt.training.freeze import freeze
from posnmt.training.gradients import Gradients, InParts, Whole
from posnmt.training.loss import TrainingLoss
from posnmt.training.optimizer import make_optimizer

if TYPE_CHECKING:
    from posnmt.data.joined import Joined
    from posnmt.data.store import Split, Store

    Corpus = Split | Joined | Alternating


@dataclass(frozen=True)
class Outcome:
    """One update, over all processes.

    Attributes:
        loss, likelihood: the loss and the negative log-likelihood, summed over the target tokens.
        norm: of the gradient, before it was clipped.
    """

    loss: float
    likelihood: float
    norm: float

    @property
    def fault(self) -> str | None:
        """What is not finite, so that the update was not made; None where all is."""
        named = {"loss": self.loss + self.likelihood, "gradient": self.norm}
        return next((name for name, value in named.items() if not math.isfinite(value)), None)


class Updater:
    """A new model, its corpus and its optimizer, on this process's device.

    Attributes:
        corpus: the training pairs, joined ones included.
        plan: the order of their batches.
        loss_of: the loss module, which has the model.
        optimizer: of the model's parameters.
    """

    def __init__(self, config: Config, store: Store, fabric: Fabric) -> None:
        self.config, self._fabric = config, fabric
        settings = config.train
        torch.manual_seed(settings.seed)
        model = new_model(config, store, fabric)
        freeze(model, settings.freeze)
        self.corpus = training_pairs(config, store)
        self.plan = batch_plan(config, self.corpus)
        self.loss_of = TrainingLoss(model, settings.label_smoothing)
        if settings.compile:
            self.loss_of.compile(dynamic=True)
        self._wrapped_loss = fabric.setup_module(self.loss_of)  # for Fabric's devices
        self.optimizer = make_optimizer(model, settings)  # of the slices of parameters that setting up leaves
        self._wrapped_optimizer: Any = fabric.setup_optimizers(self.optimizer)
        alone_on_cpu = fabric.device.type == "cpu" and fabric.world_size == 1 and not settings.compile
        self._gradients: Gradients = (
            InParts(fabric, self.loss_of) if alone_on_cpu else Whole(fabric, self._wrapped_loss, settings.shard)
        )
        self._wrapped_loss.train()

    @property
    def model(self) -> TranslationModel:
        """The model, as this process has it."""
        return self.loss_of.model

    @property
    def batches(self) -> int:
        """Batches of one update, over all processes and accumulation rounds."""
        return self._fabric.world_size * self.config.train.accumulate

    def update(self, step: int, rate: float, batches: Sequence[NDArray[np.int64]], tokens: int) -> Outcome:
        """Make one update, unless its loss or gradient is not finite.

        Args:
            step: its number, from 1; it determines dropout.
            rate: the learning rate.
            batches: the numbers of the pairs of each batch, over all processes and accumulation rounds.
            tokens: real target tokens in them.
        """
        fabric, settings = self._fabric, self.config.train
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        sums = torch.zeros(2, dtype=torch.float64, device=fabric.device)
        mine = batches[fabric.global_rank :: fabric.world_size]
        for index, numbers in enumerate(mine):
            batch = [self.corpus.pair(int(number)) for number in numbers]
            seed, last = (settings.seed, step, fabric.global_rank, index), index + 1 == len(mine)
            # gradients are averaged over processes, so this is the mean over all tokens of the update
            sums += self._gradients.add(batch, fabric.world_size / tokens, seed, last)
        norm = fabric.clip_gradients(  # by a factor of 1 where nothing is clipped
            self._wrapped_loss, self._wrapped_optimizer, max_norm=settings.clip or math.inf, error_if_nonfinite=False
        )
        assert norm is not None
        total = fabric.all_reduce(sums, reduce_op="sum")
        assert isinstance(total, Tensor)
        loss, likelihood = total.tolist()
        outcome = Outcome(loss, likelihood, float(full_tensor(norm)))  # the same in every process
        if outcome.fault is None:
            self._wrapped_optimizer.step()
        self._wrapped_optimizer.zero_grad(set_to_none=True)
        return outcome

    def rehearse(self, numbers: NDArray[np.int64]) -> None:
        """Compute the gradient of a batch as an update does, and throw it away."""
        seed = (self.config.train.seed, 0, self._fabric.global_rank, 0)
        self._gradients.add([self.corpus.pair(int(number)) for number in numbers], 1 / len(numbers), seed, True)
        self._wrapped_optimizer.zero_grad(set_to_none=True)

    @property
    def device(self) -> torch.device:
        """Of this process."""
        return self._fabric.device

    def moments_to_come(self) -> int:
        """Bytes that the first update adds: of two moments of each weight, unless the optimizer has them."""
        if self.optimizer.state:
            return 0
        return 2 * sum(weight.numel() * weight.element_size() for weight in self.model.parameters())

    def close(self) -> None:
        """Let the threads that compute gradients go."""
        self._gradients.close()


def new_model(config: Config, store: Store, fabric: Fabric) -> TranslationModel:
    """A new model on this process's device."""
    with fabric.init_module(), fabric.device:  # which a strategy that shards would leave to its own set-up
        text = store.text
        return build_model(config.model, text.source.size, text.target.size, text.pairs)


def batch_plan(config: Config, corpus: Corpus) -> BatchPlan:
    """The order of a training corpus's batches."""
    train = config.train
    segmentations = len(corpus.corpora) if isinstance(corpus, Alternating) else 1
    return BatchPlan(corpus, train.batch, train.batch_unit, train.seed, train.sort_by, segmentations)


def training_pairs(config: Config, store: Store) -> Corpus:
    """The training corpus, with joined pairs and random segmentations where the configuration asks for them."""
    corpora = [_with_joined(config.train, split) for split in store.trained()]
    return Alternating(corpora) if len(corpora) > 1 else corpora[0]


def _with_joined(settings: Train, split: Split) -> Split | Joined:
    """A split with the joined pairs that the settings ask for."""
    if settings.context:
        return InContext(split, settings.context)
    return Concatenated(split, settings.concatenate, settings.seed) if settings.concatenate else split
