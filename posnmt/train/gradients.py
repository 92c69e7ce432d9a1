"""The loss and the gradients of one batch: as a whole on a GPU or in one of several processes, in parts on a CPU.

On a CPU the rows of a batch are dealt into parts, each a forward and a backward pass of its own on its share of the
cores; their gradients are added in order. How many parts there are, and what each draws for dropout, depends on the
batch and the seed alone, so that one core computes what two do, to the last bit. Where there are more cores than parts,
a part's sums are split over several, and rounded differently. Rows with sources of like length stand in one part: less
of it is padding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from posnmt.data.batch import Pair, collate
from posnmt.model.lookup import Words, recording
from posnmt.parallel.threads import Workers
from posnmt.randomness import drawing_from
from posnmt.train.loss import TrainingLoss

PART = 2048
"""Padded target tokens that a part has, about; there is an even number of parts."""

SMALL = 256
"""Padded target tokens up to which a batch is not divided."""


class Gradients(Protocol):
    """Adds a batch's gradients to those of the parameters."""

    def add(self, batch: Sequence[Pair], scale: float, seed: tuple[int, ...], last: bool) -> Tensor:
        """Gradients of the loss times `scale`, added to what there is.

        Args:
            batch: sentence pairs, subwords without bos and eos.
            scale: what the loss is multiplied by, for the gradients alone.
            seed: integers that determine the random numbers of this batch.
            last: whether this process adds no further batch to the update.

        Returns:
            [2] float64: the smoothed loss and the likelihood, each summed over the tokens.
        """
        ...

    def close(self) -> None:
        """Nothing more is added."""
        ...


class Whole:
    """A batch as a whole, by the loss module as Fabric wraps it.

    Args:
        sharded: whether each process keeps only a slice of the gradients.
    """

    def __init__(self, fabric: Fabric, shared_loss: Any, sharded: bool = False) -> None:
        self.fabric, self.shared_loss, self.sharded = fabric, shared_loss, sharded

    def add(self, batch: Sequence[Pair], scale: float, seed: tuple[int, ...], last: bool) -> Tensor:
        """See `Gradients`; processes add up their gradients after the last batch, or after each to keep slices only."""
        torch.manual_seed(_number(seed))
        with self.fabric.no_backward_sync(self.shared_loss, enabled=not (last or self.sharded)):
            with self.fabric.autocast():  # else Fabric rounds what the module returns to float32, in float64 too
                loss, likelihood = self.shared_loss(*collate(batch).to(self.fabric.device).tensors)
            self.fabric.backward(loss * scale)
        return torch.stack([loss.detach(), likelihood]).double()

    def close(self) -> None:
        """Nothing is held."""


class InParts:
    """A batch in parts of its rows, on the cores of one process."""

    def __init__(self, fabric: Fabric, loss_of: TrainingLoss) -> None:
        self.fabric, self.loss_of = fabric, loss_of
        self.parameters = [parameter for parameter in loss_of.parameters() if parameter.requires_grad]
        self.workers = Workers()

    def add(self, batch: Sequence[Pair], scale: float, seed: tuple[int, ...], last: bool) -> Tensor:
        """See `Gradients`."""
        ordered = sorted(batch, key=lambda pair: -len(pair[0]))
        ends = dealt([1 + len(source) for source, _ in ordered], 1 + max(len(target) for _, target in batch))

        def part(number: int) -> tuple[Tensor, tuple[Tensor | None, ...], list[tuple[Words, Tensor]]]:
            generator = torch.Generator().manual_seed(_number((*seed, number)))
            rows = ordered[ends[number - 1] if number else 0 : ends[number]]
            with drawing_from(generator), recording() as words:
                loss, likelihood = self.loss_of(*collate(rows).tensors)
            inputs = [*self.parameters, *(each.embeddings for each in words)]
            gradients = torch.autograd.grad(loss * scale, inputs, allow_unused=True)
            word_gradients = gradients[len(self.parameters) :]
            lookups = [pair for pair in zip(words, word_gradients, strict=True) if pair[1] is not None]
            return torch.stack([loss.detach(), likelihood]).double(), gradients[: len(self.parameters)], lookups

        with self.fabric.autocast():
            results = self.workers.map(part, range(len(ends)), alone=True)
        summands = [
            [each for each in (parameter.grad, *gradients) if each is not None]
            for parameter, *gradients in zip(self.parameters, *(each for _, each, _ in results), strict=True)
        ]
        places = Counter(terms[0].data_ptr() for terms in summands if terms)
        for parameter, terms in zip(self.parameters, summands, strict=True):
            if terms:  # in place, but not where autograd gave two parameters one tensor, or all elements one number
                own = terms[0].is_contiguous() and places[terms[0].data_ptr()] == 1
                parameter.grad = terms[0] if own else terms[0].clone(memory_format=torch.contiguous_format)
                for term in terms[1:]:
                    parameter.grad += term
        for words, gradients in (each for *_, lookups in results for each in lookups):
            if words.weight.grad is None:
                words.weight.grad = torch.zeros_like(words.weight)
            words.add_gradients(gradients)
        return torch.stack([sums for sums, *_ in results]).sum(0)

    def close(self) -> None:
        """End the threads."""
        self.workers.close()


def dealt(sources: Sequence[int], target: int) -> list[int]:
    """Where the parts of a batch end, so that the costliest part costs as little as it can.

    Args:
        sources: source tokens of each row, the most first.
        target: target tokens that each row is padded to. One costs about two of the source: it passes the decoder's
            two attentions and the output projection.
    """
    tokens = len(sources) * target
    count = 1 if tokens <= SMALL else 2 * max(1, round(tokens / (2 * PART)))

    def filled(cost: int) -> list[int]:
        """Parts up to that cost, each padded to its first row, or of one row."""
        ends = [0]
        while ends[-1] < len(sources):
            rows = max(1, cost // (sources[ends[-1]] + 2 * target))
            ends.append(min(ends[-1] + rows, len(sources)))
        return ends[1:]

    costs = range(len(sources) * (sources[0] + 2 * target) + 1)
    return filled(bisect_left(costs, True, key=lambda cost: len(filled(cost)) <= min(count, len(sources))))


def _number(seed: tuple[int, ...]) -> int:
    """64 bits from the integers of a seed."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
