"""The backward pass of attention in blocks: the gradients of each block, and their sums.

The weights of a block are computed again. From the gradient of its output follow those of its weights, of its scores,
and of everything that the scores read; each part of this is a method of `BlockGradients`.

Shapes: B rows, H heads, G = B x H, D width of a head; n queries of a block, which see s keys; k the clipping distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posnmt.model.kernels.block_weights import Block, Blocks, Problem
from posnmt.model.kernels.distances import add_by_distance, sum_by_distance
from posnmt_position.diagonal import summed


class Sum:
    """A sum over blocks, in float32 at least."""

    def __init__(self, like: Tensor) -> None:
        self.total = torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))
        self.wide = torch.empty_like(self.total)


class Sums:
    """The gradients of everything that attention reads.

    Args:
        problem: whose parameters and vectors are read.
        saved: queries, keys, values, the unrotated queries and keys, what views kept, and the tables by offset.

    Attributes:
        q, k, v: of the product.
        read_q, read_k: of the queries and keys that logit terms read; those of the product, unless these are rotated.
        kept: of what each view kept.
        tables: view -> of its table by offset.
        trained: of each parameter of the views.
        on_keys, on_values: of the vectors for clipped distances; None: there are none.
    """

    def __init__(self, problem: Problem, saved: Sequence[Tensor]) -> None:
        self._inputs = (*saved, *problem.trained, *(each for each in problem.vectors if each is not None))
        self._all = [Sum(each) for each in self._inputs]
        remaining = iter(self._all)
        self.q, self.k, self.v = islice(remaining, 3)
        unrotated = islice(remaining, problem.unrotated)
        self.read_q, self.read_k = *unrotated, *(self.q, self.k)[problem.unrotated :]
        self.kept = list(islice(remaining, len(problem.view.keeping)))
        self.tables = {view: next(remaining) for view in problem.reading}
        self.trained = list(islice(remaining, len(problem.trained)))
        self.on_keys, self.on_values = (None if each is None else next(remaining) for each in problem.vectors)

    def totals(self) -> Iterator[Tensor]:
        """The sums, each in the type of its tensor, in the order in which attention reads the tensors."""
        return (each.total.to(of.dtype) for each, of in zip(self._all, self._inputs, strict=True))


class Term(NamedTuple):
    """The term of a block for a part of a sum, or None."""

    to: Sum
    term: Tensor | None
    part: Any

    def add(self) -> None:
        """Add it, after a conversion: adding to a tensor of another type takes ten times as long."""
        if self.term is not None:
            self.to.total[self.part] += self.to.wide[self.part].copy_(self.term)


class BlockGradients:
    """The terms of blocks, from the gradient [G,Tq,D] of the attended values of all queries.

    Autograd differentiates the terms of the views, and nothing else.
    """

    def __init__(self, blocks: Blocks, sums: Sums, d_attended: Tensor) -> None:
        self.blocks, self.sums, self.d_attended = blocks, sums, d_attended
        self.problem = blocks.problem

    def of(self, block: Block) -> list[Term]:
        """The terms of a block for all sums, in an order that depends on the problem alone."""
        leaves, terms = self._logit_terms(block)
        weights, d_output = self.blocks.weights(block, terms), self.d_attended[:, block.rows]
        of_values = self._of_values(block, weights, d_output)
        d_weights = self._through_values(block, d_output)
        of_value_terms = self._add_value_terms(block, weights, d_output, d_weights)
        of_value_vectors = self._add_value_vectors(block, weights, d_output, d_weights)
        d_scores = _through_softmax(weights, d_weights)
        return [
            *of_values,
            *of_value_terms,
            *of_value_vectors,
            *self._of_products(block, d_scores),
            *self._of_key_vectors(block, d_scores),
            *self._of_logit_terms(block, leaves, terms, d_scores),
            *self._of_biases(block, d_scores),
        ]

    def _logit_terms(self, block: Block) -> tuple[list[Tensor], Tensor | None]:
        """What the views' logit terms read, and the terms, with a graph.

        That is queries [B,H,n,D], keys [B,H,s,D], what was kept of the keys, and tables.
        """
        words, kept, tables = self.blocks.words(block), self.blocks.kept(block), self.blocks.tables(block)
        leaves = [each.detach().requires_grad_() for each in (*words, *kept, *tables)]
        block.span.kept.update(zip(self.problem.view.keeping, leaves[2:], strict=False))
        block.span.tables.update(zip(self.blocks.read, leaves[2 + len(kept) :], strict=True))
        with torch.enable_grad():
            terms = self.problem.view.logits(leaves[0], leaves[1], block.span, excluded=self.blocks.biases)
        return leaves, terms

    def _of_values(self, block: Block, weights: Tensor, d_output: Tensor) -> list[Term]:
        """Values: the gradients [G,n,D] of the output, summed with the weights [G,n,s]."""
        return [Term(self.sums.v, self.blocks.by_row(torch.bmm(weights.mT, d_output)), _tokens(block.keys))]

    def _through_values(self, block: Block, d_output: Tensor) -> Tensor:
        """[G,n,s] the gradient of the weights from the product with the values, in the first buffer."""
        return torch.bmm(d_output, self.blocks.v[:, block.keys].mT, out=self.blocks.buffer(block, 0))

    def _add_value_terms(self, block: Block, weights: Tensor, d_output: Tensor, d_weights: Tensor) -> list[Term]:
        """Add the part of the views' value terms to `d_weights`, and return the terms of their parameters."""
        if not self.problem.view.adds_values:
            return []
        seen = self.blocks.by_row(weights).detach().requires_grad_()
        with torch.enable_grad():
            added = self.problem.view.values(seen, block.span)
        d_seen, *of_trained = _gradients(added, self.blocks.by_row(d_output), [seen, *self.problem.trained])
        if d_seen is not None:
            self.blocks.by_row(d_weights).add_(d_seen)
        return [Term(to, term, ...) for to, term in zip(self.sums.trained, of_trained, strict=True)]

    def _add_value_vectors(self, block: Block, weights: Tensor, d_output: Tensor, d_weights: Tensor) -> list[Term]:
        """Add the part of vectors for distances on the values to `d_weights`, and return their term [2k+1,D]."""
        vectors, to = self.problem.vectors.values, self.sums.on_values
        if vectors is None or to is None:
            return []
        counted = sum_by_distance(weights, block.span.start, len(vectors) // 2, 1.0)
        terms = [Term(to, _gathered(counted, d_output), ...)]
        add_by_distance(d_weights, d_output @ vectors.to(d_output.dtype).mT, block.span.start)
        return terms

    def _of_products(self, block: Block, d_scores: Tensor) -> list[Term]:
        """Queries and keys of the product, from the gradient [G,n,s] of the scores."""
        of_queries = torch.bmm(d_scores, self.blocks.k[:, block.keys])
        of_keys = torch.bmm(d_scores.mT, self.blocks.q[:, block.rows])
        return [
            Term(self.sums.q, self.blocks.by_row(of_queries), _tokens(block.rows)),
            Term(self.sums.k, self.blocks.by_row(of_keys), _tokens(block.keys)),
        ]

    def _of_key_vectors(self, block: Block, d_scores: Tensor) -> list[Term]:
        """Vectors for distances on the keys [2k+1,D], and the queries that they are multiplied with."""
        vectors, to = self.problem.vectors.keys, self.sums.on_keys
        if vectors is None or to is None:
            return []
        d_products = sum_by_distance(d_scores, block.span.start, len(vectors) // 2, 0.0)
        of_queries = self.blocks.by_row(d_products @ vectors.to(d_products.dtype))
        return [
            Term(self.sums.read_q, of_queries, _tokens(block.rows)),
            Term(to, _gathered(d_products, self.blocks.read_q[:, block.rows]), ...),
        ]

    def _of_logit_terms(
        self, block: Block, leaves: Sequence[Tensor], terms: Tensor | None, d_scores: Tensor
    ) -> list[Term]:
        """What the views' logit terms read: queries, keys, what was kept of these, tables and parameters."""
        sums, trained = self.sums, self.problem.trained
        into = [sums.read_q, sums.read_k, *sums.kept, *(sums.tables[view] for view in self.blocks.read), *sums.trained]
        tables = [(..., block.offsets)] * len(self.blocks.read)
        of_keys = [_tokens(block.keys)] * (1 + len(sums.kept))
        parts = [_tokens(block.rows), *of_keys, *tables, *[...] * len(trained)]
        gradients = _gradients(terms, self.blocks.by_row(d_scores), [*leaves, *trained])
        return list(map(Term, into, gradients, parts))

    def _of_biases(self, block: Block, d_scores: Tensor) -> list[Term]:
        """The tables of offset biases that are trained: sums along the diagonals of the scores' gradient."""
        terms = []
        for view, table in self.blocks.biases.items():
            if table.requires_grad:
                by_offset = summed(self.blocks.by_row(d_scores))
                term = by_offset.sum_to_size((*table.shape[:-1], by_offset.shape[-1]))
                terms.append(Term(self.sums.tables[view], term, (..., block.offsets)))
        return terms


def _tokens(part: slice) -> tuple[Any, ...]:
    """The index of some tokens in [B,H,T,D]."""
    return (..., part, slice(None))


def _through_softmax(weights: Tensor, d_weights: Tensor) -> Tensor:
    """[G,n,s] the gradient of the scores, in the memory of the weights' gradient."""
    return torch._softmax_backward_data(d_weights, weights, -1, weights.dtype, grad_input=d_weights)


def _gradients(output: Tensor | None, gradient: Tensor, inputs: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """The gradients of `inputs` from the gradient of the output; None for inputs that it does not depend on."""
    if output is None or not output.requires_grad:
        return [None] * len(inputs)
    return torch.autograd.grad(output, inputs, gradient.sum_to_size(output.shape).to(output.dtype), allow_unused=True)


def _gathered(by_distance: Tensor, tokens: Tensor) -> Tensor:
    """[2k+1,D] the gradients of vectors for distances: sums of tokens [G,n,D] with weights [G,n,2k+1]."""
    return by_distance.flatten(0, 1).mT @ tokens.flatten(0, 1)
