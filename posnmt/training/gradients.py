"""The loss and the gradients of one batch: as a whole on a GPU or in one of several processes, in parts on a CPU.

On a CPU the rows of a batch are divided into parts, each with its own forward and backward pass on its share of the
cores; their gradients are added in order. The number of parts and the dropout of each depend on the batch and the seed
only, so the result is bitwise the same on one core as on two. With more cores than parts, the sums of a part are split
over several cores and rounded differently. Rows with sources of similar length are in the same part, to reduce padding.
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

from posnmt.base.parallel.threads import Workers
from posnmt.data.batch import Batch, Pair, collate
from posnmt.model.lookup import Words, recording
from posnmt.training.loss import TrainingLoss
from posnmt_position.randomness import drawing_from

PART = 2048
"""Approximate number of padded target tokens of a part; the number of parts is even."""

SMALL = 256
"""A batch with at most this number of padded target tokens is not divided."""


class Gradients(Protocol):
    """Computes the gradients of a batch and adds them to those of the parameters."""

    def prepared(self, pairs: Sequence[Pair]) -> Any:
        """What `add` reads of a batch of sentence pairs; another thread may call this.

        Args:
            pairs: subwords without bos and eos.
        """
        ...

    def add(self, batch: Any, scale: float, seed: tuple[int, ...], last: bool) -> Tensor:
        """Add the gradients of the loss times `scale` to those of the parameters.

        Args:
            batch: a result of `prepared`.
            scale: factor of the loss, for the gradients only.
            seed: integers that seed the random numbers of this batch.
            last: whether this is the last batch of this process for the update.

        Returns:
            [2] float64: the smoothed loss and the likelihood, each summed over the tokens.
        """
        ...

    def close(self) -> None:
        """Release threads and buffers; the object is not used afterwards."""
        ...


class Whole:
    """Computes a batch as a whole, with the loss module as Fabric wraps it.

    Args:
        sharded: whether each process keeps only a slice of the gradients.
    """

    def __init__(self, fabric: Fabric, shared_loss: Any, sharded: bool = False) -> None:
        self.fabric, self.shared_loss, self.sharded = fabric, shared_loss, sharded

    def prepared(self, pairs: Sequence[Pair]) -> Batch:
        """The padded batch, in pinned memory if it goes to a GPU."""
        batch = collate(pairs)
        return batch.pinned() if self.fabric.device.type == "cuda" else batch

    def add(self, batch: Batch, scale: float, seed: tuple[int, ...], last: bool) -> Tensor:
        """See `Gradients`. Gradients are reduced over processes after the last batch; if sharded, after each batch."""
        torch.manual_seed(_number(seed))
        with self.fabric.no_backward_sync(self.shared_loss, enabled=not (last or self.sharded)):
            with self.fabric.autocast():  # otherwise Fabric rounds the results to float32, even from float64
                loss, likelihood = self.shared_loss(*batch.to(self.fabric.device, non_blocking=True).tensors)
            self.fabric.backward(loss * scale)
        return torch.stack([loss.detach(), likelihood]).double()

    def close(self) -> None:
        """Do nothing: a whole batch needs no threads of its own."""


class InParts:
    """Computes a batch in parts of its rows, on the cores of one process."""

    def __init__(self, fabric: Fabric, loss_of: TrainingLoss) -> None:
        self.fabric, self.loss_of = fabric, loss_of
        self.parameters = [parameter for parameter in loss_of.parameters() if parameter.requires_grad]
        self.workers = Workers()

    def prepared(self, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """The pairs; each part of them is padded in the thread that computes it."""
        return pairs

    def add(self, batch: Sequence[Pair], scale: float, seed: tuple[int, ...], last: bool) -> Tensor:
        """Compute the parts in threads and add up their gradients; see `Gradients.add`."""
        ordered = sorted(batch, key=lambda pair: -len(pair[0]))
        ends = part_ends([1 + len(source) for source, _ in ordered], 1 + max(len(target) for _, target in batch))

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
            if terms:  # in place, unless the tensor is shared by two parameters or is an expanded view
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
        """End the threads that compute parts."""
        self.workers.close()


def part_ends(sources: Sequence[int], target: int) -> list[int]:
    """The ends of the parts of a batch, chosen to minimise the cost of the most expensive part.

    Args:
        sources: source tokens of each row, in descending order.
        target: target tokens that each row is padded to. A target token costs about twice as much as a source token,
            for the two attentions of the decoder and the output projection.
    """
    tokens = len(sources) * target
    count = 1 if tokens <= SMALL else 2 * max(1, round(tokens / (2 * PART)))

    def filled(cost: int) -> list[int]:
        """The ends of parts up to a cost. A part is padded to its first row and has at least one row."""
        ends = [0]
        while ends[-1] < len(sources):
            rows = max(1, cost // (sources[ends[-1]] + 2 * target))
            ends.append(min(ends[-1] + rows, len(sources)))
        return ends[1:]

    costs = range(len(sources) * (sources[0] + 2 * target) + 1)
    return filled(bisect_left(costs, True, key=lambda cost: len(filled(cost)) <= min(count, len(sources))))


def _number(seed: tuple[int, ...]) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
