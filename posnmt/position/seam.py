"""The seam: how a position scheme speaks to a Transformer stack, and nothing else does.

A stack holds a list of schemes. A scheme may change the embeddings (`Scheme.embed`), and through one `LayerPosition` a
layer it may restrict what each head projects, rotate queries and keys, add to the attention logits, add to the attended
values, hide keys, and refine the sub-layer's output. The defaults add nothing. Attention and layers never ask which
scheme they have: `LayerPositions` joins the views of all schemes of a layer into one.

The schemes of a list add up. What `rotate` returns enters the product of queries and keys and nothing else, so the
logits of a layer are `q k^T` plus what each scheme contributes alone; at most one view of a layer may rotate, since two
turns of one product do not add up. Value terms are summed, masks and readable features are intersected. None of this
depends on the order of the list. `embed` and `refine` are applied one after another, in the order of the list, which
makes no difference where all of them add a term that does not depend on their input.

Shapes: B rows, T tokens, Tq queries, Tk keys, H heads, D width of a head, d model width (H x D).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from posnmt.position.diagonal import toeplitz

Carry = Any
"""What a recurrent scheme remembers between two calls: None, a tensor with rows first, or a tuple of them."""


class Options(BaseModel):
    """A scheme's own options: frozen, and an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Stack:
    """What a scheme may know of the stack that it serves."""

    d_model: int
    heads: int
    layers: int
    causal: bool
    max_length: int
    norm_epsilon: float = 1e-5

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.heads


Value = TypeVar("Value")


class once(Generic[Value]):
    """A property that is computed once for each object: functools.cached_property without the lock that it takes before
    Python 3.12, which torch.compile cannot follow.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute, self.name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    def __get__(self, owner: Any, kind: type | None = None) -> Value:
        if owner is None:
            return self  # type: ignore[return-value]
        value = self.compute(owner)
        owner.__dict__[self.name] = value  # shadows this descriptor from now on
        return value


@dataclass(frozen=True)
class Span:
    """The tokens computed now: `length` of them, after `start` that are already consumed.

    Attributes:
        start: tokens consumed before.
        length: tokens computed now (padded).
        device: where index tensors live.
        lengths: [B] real tokens of each right-padded row, or None when no row is padded.
        width: keys there are, where they go on to the right of the last query; None: they end with it.
    """

    start: int
    length: int
    device: torch.device
    lengths: Tensor | None = None
    width: int | None = None

    @property
    def end(self) -> int:
        """Tk, the position behind the last key."""
        return self.start + self.length if self.width is None else self.width

    @once
    def queries(self) -> Tensor:
        """[Tq] positions of the tokens computed now: start .. start + length - 1."""
        return torch.arange(self.start, self.start + self.length, device=self.device)

    @once
    def keys(self) -> Tensor:
        """[Tk] positions of all keys: 0 .. end - 1."""
        return torch.arange(self.end, device=self.device)

    @once
    def offsets(self) -> Tensor:
        """[Tq, Tk] key position minus query position: the one sign convention."""
        return self.keys[None, :] - self.queries[:, None]

    @once
    def diagonals(self) -> Tensor:
        """[Tq + Tk - 1] the offsets that occur, in rising order."""
        return torch.arange(1 - self.start - self.length, self.end - self.start, device=self.device)

    @once
    def tables(self) -> dict[LayerPosition, Tensor]:
        """View -> its `by_offset` for these tokens, computed here or handed over by a longer span."""
        return {}

    def table(self, view: LayerPosition) -> Tensor:
        """[..,W] the `by_offset` of a view that has one, computed once for these tokens."""
        table = self.tables.get(view)
        if table is None:
            table = view.by_offset(self)
            if table is None:
                raise ValueError(f"{type(view).__name__}.by_offset gave None; where it is overridden it gives a table")
            self.tables[view] = table
        return table

    @once
    def shared(self) -> dict[LayerPosition | type[LayerPosition], Tensor]:
        """What a view or its kind computed once for these tokens and several layers read; it goes with the span."""
        return {}


class DistanceVectors(NamedTuple):
    """What stands for the clipped distance r = clip(j - i, -k, k) from query i to key j, in row r + k of each table.

    Attributes:
        keys: [2k+1,D] added to the keys, or None.
        values: [2k+1,D] added to the values, or None.
    """

    keys: Tensor | None
    values: Tensor | None


class LayerPosition(nn.Module):
    """What a scheme does in one layer's self-attention. The defaults add nothing; a scheme overrides what it needs.

    Attributes:
        reads_keys: whether `logits` depends on the values of the keys. False allows their shape and type alone; then
            nothing is kept for it where another view rotates the keys.
    """

    reads_keys: bool = True

    def reads(self) -> Tensor | None:
        """[H, d] bool: the input features that each head may project; None means all."""
        return None

    def rotate(self, q: Tensor, k: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """Queries and keys [B,H,Tq,D] of the tokens computed now, turned or moved for their product and nothing else.

        `q` is already scaled. Keys are turned once, before they are cached, so a turn may depend on nothing but the
        key's own position. `logits` of every view has the queries and keys as they were before.
        """
        return q, k

    def logits(self, q: Tensor, k: Tensor, span: Span) -> Tensor | None:
        """Finite terms that broadcast to [B,H,Tq,Tk], added to the attention logits.

        `q` is already scaled; neither `q` [B,H,Tq,D] nor `k` [B,H,Tk,D] is turned by any view (see `reads_keys`).
        By default the view's table by offset, in the type of the queries, once for all layers that have this view.
        """
        if not is_offset_bias(self):
            return None
        bias = span.shared.get(self)
        if bias is None:
            bias = span.shared[self] = toeplitz(span.table(self).to(q.dtype), span.length)
        return bias

    def by_offset(self, span: Span) -> Tensor | None:
        """A table by the offsets `span.diagonals`, whatever the words, [..,W]; where it is overridden there is one.

        A view that overrides this and not `logits` is a bias: [H,W], or [B,H,W] where rows differ, added to the logits.
        One that overrides both reads the table as `span.table(self)`. Attention in blocks of queries computes it once.
        """
        return None

    def values(self, weights: Tensor, span: Span) -> Tensor | None:
        """Terms [B,H,Tq,D] added to the attended values, from the attention weights [B,H,Tq,Tk]."""
        return None

    def allows(self, span: Span) -> Tensor | None:
        """[H,W] bool, by the offsets `span.diagonals`: keys that may be seen, besides the causal and the padding mask.

        A query that is padding may see every key, so that it does not see none.
        """
        return None

    def distance_vectors(self) -> DistanceVectors | None:
        """`logits` and `values` said as vectors for the clipped distance; None where they are anything else.

        A kernel may then compute both without a Tq x Tk tensor.
        """
        return None

    def refine(self, before: Tensor, after: Tensor, span: Span) -> Tensor:
        """What the next sub-layer reads [B,T,d], from what the self-attention read and what it led to, normalised.

        In a post-norm layer these are H and H', and the residual connection of the next sub-layer keeps `after` (C19a
        eq. 9). In a pre-norm layer, which C19a does not have, both are the outputs of layer normalisations in front of
        sub-layers, and residual connections keep what these read.

        Args:
            before: [B,T,d] what the layer's self-attention read.
            after: [B,T,d] what the next sub-layer reads where no view refines it.
        """
        return after


class Scheme(nn.Module):
    """A position scheme for one stack; it owns all its parameters, shared by the layers or one set a layer.

    A subclass takes (stack, settings) and has `Settings`, its options.

    Attributes:
        longest: most tokens that the scheme can place, or None where there is no limit.
        dropout_after: dropout on what the first layer reads, in place of `model.dropout`; None leaves that as it is.
    """

    Settings: type[Options] = Options
    longest: int | None = None
    dropout_after: float | None = None

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """Why it cannot serve a stack: sentences that go on from its name, with rule and value; empty where it can.

        Args:
            settings: its options.
            beside: the names of the other schemes in the list; see `clashes`.
        """
        return []

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor` from now on, at inference; False where the scheme knows no such thing.

        Position interpolation (Chen S. et al. 2023): a text `factor` times longer than the training texts then has
        the positions that the model has seen.
        """
        return False

    def embed(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """Word embeddings [B,T,d] with their order, and what to remember.

        `x` is scaled as `model.scale_embeddings` says, and changed already by the schemes that stand before this one in
        the list.
        """
        return x, carry

    def layer(self, index: int) -> LayerPosition | None:
        """The scheme's view of one layer, or None where it does nothing inside layers."""
        return None


class LayeredScheme(Scheme):
    """A scheme that has a view of its own for each layer, in `layers`."""

    layers: nn.ModuleList

    def layer(self, index: int) -> LayerPosition:
        """The view of one layer."""
        view = self.layers[index]
        assert isinstance(view, LayerPosition)
        return view


class LayerPositions:
    """The views that all schemes of a stack have of one layer, joined. Not a module: the schemes own the parameters.

    Raises:
        ValueError: more than one view rotates. A configuration with such a list is refused before it comes here.
    """

    def __init__(self, views: Sequence[LayerPosition] = ()) -> None:
        self.rotating = [view for view in views if _overrides(view, "rotate")]
        self.biasing = [view for view in views if _overrides(view, "logits") or _overrides(view, "by_offset")]
        self.adding = [view for view in views if _overrides(view, "values")]
        self.hiding = [view for view in views if _overrides(view, "allows")]
        self.refining = [view for view in views if _overrides(view, "refine")]
        self.reading = [view for view in views if _overrides(view, "reads")]
        if len(self.rotating) > 1:
            raise ValueError("only one view of a layer may rotate queries and keys: two turns do not add up")

    @property
    def reads_unturned(self) -> bool:
        """Whether logit terms need queries that differ from those of the product."""
        return bool(self.rotating and self.biasing)

    @property
    def reads_unturned_keys(self) -> bool:
        """Whether logit terms need keys that differ from those of the product, so that both must be kept."""
        return bool(self.rotating) and any(view.reads_keys for view in self.biasing)

    @property
    def adds_values(self) -> bool:
        """Whether attention weights must exist as a tensor, because some view reads them."""
        return bool(self.adding)

    def tables(self, span: Span) -> dict[LayerPosition, Tensor]:
        """The tables by offset of the views that have one."""
        tables = {view: view.by_offset(span) for view in self.biasing}
        return {view: table for view, table in tables.items() if table is not None}

    def trained(self) -> list[nn.Parameter]:
        """The parameters that the logit and value terms read."""
        views = dict.fromkeys([*self.biasing, *self.adding])
        parameters = [each for view in views for each in view.parameters() if each.requires_grad]
        return list(dict.fromkeys(parameters))

    def reads(self) -> Tensor | None:
        """[H, d] bool: features that every view lets a head project."""
        return _joined([view.reads() for view in self.reading], torch.logical_and)

    def rotate(self, q: Tensor, k: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """Queries and keys for their product."""
        for view in self.rotating:
            q, k = view.rotate(q, k, span)
        return q, k

    def logits(self, q: Tensor, k: Tensor, span: Span, excluded: Collection[LayerPosition] = ()) -> Tensor | None:
        """The sum of the views' logit terms, without those of some views."""
        return _joined([view.logits(q, k, span) for view in self.biasing if view not in excluded], torch.add)

    def values(self, weights: Tensor, span: Span) -> Tensor | None:
        """The sum of the views' value terms."""
        return _joined([view.values(weights, span) for view in self.adding], torch.add)

    def allows(self, span: Span) -> Tensor | None:
        """[H,W] bool: offsets that every view allows; None where none hides keys."""
        return _joined([view.allows(span) for view in self.hiding], torch.logical_and)

    def mask(self, span: Span) -> Tensor | None:
        """`allows` as [H,Tq,Tk], or [B,H,Tq,Tk] where rows are padded; a query that is padding sees every key."""
        allowed = self.allows(span)
        if allowed is None:
            return None
        seen = toeplitz(allowed, span.length)
        return seen if span.lengths is None else seen | (span.queries >= span.lengths[:, None])[:, None, :, None]

    def distance_vectors(self) -> DistanceVectors | None:
        """Those of the one view that adds to logits and values; None where there are others or keys are hidden."""
        adding = {*self.biasing, *self.adding}
        return adding.pop().distance_vectors() if len(adding) == 1 and not self.hiding else None

    def refine(self, before: Tensor, after: Tensor, span: Span) -> Tensor:
        """The sub-layer's output, refined by each view in order."""
        for view in self.refining:
            after = view.refine(before, after, span)
        return after


def join(schemes: Sequence[Scheme], layers: int) -> list[LayerPositions]:
    """One joined view for each of `layers` layers."""
    views = [[scheme.layer(index) for scheme in schemes] for index in range(layers)]
    return [LayerPositions([view for view in row if view is not None]) for row in views]


def rotates(scheme: Scheme, layers: int) -> bool:
    """Whether a scheme turns queries or keys in any of the layers."""
    views = [scheme.layer(index) for index in range(layers)]
    return any(view is not None and _overrides(view, "rotate") for view in views)


def is_offset_bias(view: LayerPosition) -> bool:
    """Whether a view's logit terms are its table by offset and nothing else."""
    return _overrides(view, "by_offset") and not _overrides(view, "logits")


def clashes(others: Collection[str], *names: str) -> list[str]:
    """A refusal, for `Scheme.refuses`, for each of these schemes that stands beside the one that asks."""
    return [f"cannot stand beside {name} in one stack; choose one of them" for name in sorted({*names} & {*others})]


def _overrides(view: LayerPosition, method: str) -> bool:
    return getattr(type(view), method) is not getattr(LayerPosition, method)


def _joined(terms: Sequence[Tensor | None], operation: Any) -> Tensor | None:
    """The terms that are there, folded with a binary operation; None when there is none."""
    result: Tensor | None = None
    for term in terms:
        if term is not None:
            result = term if result is None else operation(result, term)
    return result


def project_onto(q: Tensor, vectors: Tensor) -> Tensor:
    """Products of the queries [B,H,Tq,D] with vectors [m,D] that all of them share: [B,H,Tq,m].

    As one product of two matrices. `q @ vectors.T` would copy the vectors for every row and head where the queries of a
    token lie side by side in memory, as those of a fused projection do.
    """
    rows = q.transpose(1, 2)  # [B,Tq,H,D], as they lie
    products = rows.flatten(0, 2) @ vectors.to(q.dtype).transpose(0, 1)
    return products.unflatten(0, rows.shape[:3]).transpose(1, 2)


def weighted_sum(weights: Tensor, vectors: Tensor) -> Tensor:
    """Sums [B,H,Tq,D] of vectors [m,D] that all queries share, each with its weight [B,H,Tq,m].

    As one product of two matrices, whose rows lie as those of the weights do.
    """
    rows = weights.transpose(1, 2)
    return (rows @ vectors.to(weights.dtype)).transpose(1, 2)
