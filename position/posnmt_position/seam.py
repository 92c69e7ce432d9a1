"""The seam: the one interface between a position scheme and a Transformer stack.

A stack holds a list of schemes. A scheme may change the embeddings (`Scheme.embed`). It has one view of each layer, a
`LayerPosition`, which may restrict the features that a head projects, rotate queries and keys, keep values of each
token, add to the attention logits, add to the attended values, mask keys, and refine the sub-layer's output. The
defaults add nothing. Attention and layers do not depend on the scheme: `LayerPositions` joins the views that all
schemes have of a layer.

The schemes of a list add up. What `rotate` returns enters the product of queries and keys and nothing else, so the
logits of a layer are `q k^T` plus the term of each scheme; at most one view of a layer may rotate, since two rotations
of one product do not add up. Value terms are summed, masks and readable features are intersected. None of this depends
on the order of the list. `embed` and `refine` are applied in the order of the list, which makes no difference if each
adds a term that does not depend on its input.

Shapes: B rows, T tokens, Tq queries, Tk keys, H heads, D width of a head, d model width (H x D).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from posnmt_position.diagonal import clipped, toeplitz
from posnmt_position.options import Options

Carry = Any
"""The state of a recurrent scheme between two calls: None, a tensor with rows first, or a tuple of tensors."""


@dataclass(frozen=True)
class Stack:
    """The properties of a stack that a scheme may depend on.

    Attributes:
        cross: whether the scheme is for the decoder's attention to the source, which sees all of it: `causal` is False.
    """

    d_model: int
    heads: int
    layers: int
    causal: bool
    max_length: int
    norm_epsilon: float = 1e-5
    cross: bool = False

    @property
    def d_head(self) -> int:
        """Return the width of one head: D = d / H."""
        return self.d_model // self.heads


Value = TypeVar("Value")


class once(Generic[Value]):
    """A property that is computed once for each object.

    Unlike functools.cached_property before Python 3.12 it takes no lock, which torch.compile cannot trace.
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
    """The tokens of this call: `length` tokens, after the `start` tokens of earlier calls.

    Attributes:
        start: tokens of earlier calls, a number; the position of a token is in `first`, `queries` and `keys`.
        length: tokens of this call, padding included.
        device: device of index tensors.
        lengths: [B] real tokens of each right-padded row; None: no row is padded.
        width: number of keys, if keys extend to the right of the last query; None: the last query is the last key.
        origin: position of the first token of all, 0 but where positions are shifted (`TranslationModel.shift`).
    """

    start: int
    length: int
    device: torch.device
    lengths: Tensor | None = None
    width: int | None = None
    origin: int = 0

    def in_graph(self) -> Self:
        """These tokens for one layer: under torch.compile a copy that shares nothing with other layers.

        What a layer finds or leaves in a span would else be part of its graph, and the first layer a graph of its own.
        """
        return replace(self) if torch.compiler.is_compiling() else self

    @property
    def end(self) -> int:
        """Return the number of keys Tk: `width` if keys extend beyond the last query, else start + length."""
        return self.start + self.length if self.width is None else self.width

    @property
    def first(self) -> int:
        """The position of the first token of this call: origin + start."""
        return self.origin + self.start

    @once
    def queries(self) -> Tensor:
        """[Tq] positions of the tokens of this call: first .. first + length - 1."""
        return torch.arange(self.first, self.first + self.length, device=self.device)

    @once
    def keys(self) -> Tensor:
        """[Tk] positions of all keys: origin .. origin + end - 1."""
        return torch.arange(self.origin, self.origin + self.end, device=self.device)

    @once
    def before(self) -> Tensor:
        """[Tq] the number of tokens before each token of this call, wherever positions begin."""
        return torch.arange(self.start, self.start + self.length, device=self.device)

    @once
    def offsets(self) -> Tensor:
        """[Tq, Tk] key position minus query position; every scheme uses this sign."""
        return self.keys[None, :] - self.queries[:, None]

    @once
    def diagonals(self) -> Tensor:
        """[Tq + Tk - 1] the offsets that occur, in ascending order."""
        return torch.arange(1 - self.start - self.length, self.end - self.start, device=self.device)

    def matrix(self, table: Tensor) -> Tensor:
        """[..,Tq,Tk] from a table [..,W] by the offsets `diagonals`."""
        return toeplitz(table, self.length)

    @once
    def tables(self) -> dict[LayerPosition, Tensor]:
        """View -> its `by_offset` for these tokens, computed here or sliced from the table of a longer span."""
        return {}

    def table(self, view: LayerPosition) -> Tensor:
        """[..,W] the `by_offset` of a view that defines one, computed once for these tokens."""
        table = self.tables.get(view)
        if table is None:
            table = table_of(view, self)
            if table is None:
                raise ValueError(f"{type(view).__name__}.by_offset returned None; an override must return a table")
            self.tables[view] = table
        return table

    @once
    def kept(self) -> dict[LayerPosition, Tensor]:
        """View -> [B,H,Tk,m] what it kept of all tokens so far, in the layer that is computed."""
        return {}

    def share(self, key: LayerPosition | type[LayerPosition], compute: Callable[[], Tensor]) -> Tensor:
        """The tensor in `shared` under a key, computed on the first call."""
        value = self.shared.get(key)
        if value is None:
            value = self.shared[key] = compute()
        return value

    @once
    def shared(self) -> dict[LayerPosition | type[LayerPosition], Tensor]:
        """Tensors that several layers share for these tokens, by view or by class of view."""
        return {}


@dataclass(frozen=True)
class CrossSpan(Span):
    """The positions of attention to the source: target tokens are the queries, source tokens the keys.

    The query at target position i stands at the source position `ratio * i`. So `queries`, `offsets` and `diagonals`
    are real numbers, in float64. The length of the target has no part in them: a step has the offsets of training.

    The hypotheses of a source share its keys. Their queries follow one another, those of the first hypothesis, then
    those of the next: Tq = hypotheses x length. Positions count from the first token of each side, also where those of
    self-attention are shifted.

    Attributes:
        lengths: [B] real tokens of each source; None: no source is padded.
        width: Tk, the tokens of a source, padding included.
        ratio: [] source tokens for each target token, known from training.
        hypotheses: the number of hypotheses of each source.
    """

    ratio: Tensor | float = 1.0
    hypotheses: int = 1

    @once
    def places(self) -> Tensor:
        """[length] the source position of each target token of one hypothesis."""
        return torch.arange(self.start, self.start + self.length, dtype=torch.float64, device=self.device) * self.ratio

    @once
    def queries(self) -> Tensor:
        """[Tq] the source positions of all queries."""
        return self.places.repeat(self.hypotheses)

    @once
    def diagonals(self) -> Tensor:
        """[W] the offsets of one hypothesis, W = length x Tk: of its first query, then of the next one."""
        return (self.keys - self.places[:, None]).flatten()

    def matrix(self, table: Tensor) -> Tensor:
        """[..,Tq,Tk] from a table [..,W] by the offsets `diagonals`."""
        one = table.unflatten(-1, (self.length, self.end))
        return torch.cat([one] * self.hypotheses, dim=-2)


def nearest(offsets: Tensor) -> Tensor:
    """Offsets as whole numbers, for views with a value for each. Halves go up, so neighbouring keys stay neighbours."""
    return (offsets + 0.5).floor().long() if offsets.is_floating_point() else offsets


class LayerPosition(nn.Module):
    """A scheme's view of one layer's attention. The defaults add nothing; a scheme overrides what it needs.

    The attention is that of a sequence to itself. A scheme that serves attention to the source (`Scheme.not_cross`)
    receives a `CrossSpan`, and defines `by_offset`, `rotate`, or `logits` and `values`.

    Attributes:
        reads_keys: whether `logits` depends on the values of the keys. If False, it may read only their shape and type,
            and the unrotated keys need not be cached where another view rotates them.
        reach: the largest distance in `by_offset`'s table; longer ones have the values of this one. None: no limit.
    """

    reads_keys: bool = True
    reach: int | None = None

    def reads(self) -> Tensor | None:
        """[H, d] bool: the input features that each head may project; None means all."""
        return None

    def rotate(self, q: Tensor, k: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """Queries and keys [B,H,Tq,D] of the tokens of this call, rotated or shifted for their product alone.

        `q` is already scaled. Keys are rotated once, before they are cached, so the rotation of a key may depend only
        on its own position. `logits` of every view reads the queries and keys before rotation. In attention to the
        source, queries are given a `CrossSpan` and keys a span of the source, each for both arguments.
        """
        return q, k

    def keep(self, x: Tensor, span: Span) -> Tensor | None:
        """[B,H,T,m] values of each token that `logits` needs beside its key; an override returns a tensor.

        They are computed with the keys, once for each token, and cached beside them. `logits` reads those of all keys
        as `span.kept[self]` [B,H,Tk,m]. The dimensions H and m may be 1.

        Args:
            x: [B,T,d] the input of the layer's self-attention.
        """
        return None

    def logits(self, q: Tensor, k: Tensor, span: Span) -> Tensor | None:
        """Finite terms that broadcast to [B,H,Tq,Tk], added to the attention logits.

        `q` is already scaled; neither `q` [B,H,Tq,D] nor `k` [B,H,Tk,D] is rotated (see `reads_keys`). The default is
        the view's table by offset, in the type of the queries, computed once for all layers that share the view.
        """
        if not is_offset_bias(self):
            return None
        return span.share(self, lambda: span.matrix(span.table(self).to(q.dtype)))

    def by_offset(self, span: Span) -> Tensor | None:
        """A table [..,W] by the offsets `span.diagonals`, which does not depend on the words; an override returns one.

        A view that overrides this and not `logits` is an offset bias: the table, [H,W], or [B,H,W] if rows differ, is
        added to the logits. A view that overrides both reads the table as `span.table(self)`. Attention in blocks of
        queries computes it once.
        """
        return None

    def values(self, weights: Tensor, span: Span) -> Tensor | None:
        """Terms [B,H,Tq,D] added to the attended values, from the attention weights [B,H,Tq,Tk]."""
        return None

    def allows(self, span: Span) -> Tensor | None:
        """[H,W] bool, by the offsets `span.diagonals`: a mask on keys, combined with the causal and the padding mask.

        A padding query may see every key, so that no query is without keys.
        """
        return None

    def refine(self, before: Tensor, after: Tensor, span: Span) -> Tensor:
        """The input of the next sub-layer [B,T,d], from the normalised input and output of the self-attention.

        In a post-norm layer these are H and H', and the residual connection of the next sub-layer keeps `after` (C19a
        eq. 9). In a pre-norm layer, which C19a does not have, both are the outputs of layer normalisations in front of
        sub-layers, and residual connections keep the inputs of these normalisations.

        Args:
            before: [B,T,d] the input of the layer's self-attention.
            after: [B,T,d] the input of the next sub-layer before refinement.
        """
        return after


def table_of(view: LayerPosition, span: Span) -> Tensor | None:
    """The `by_offset` of a view, with distances clipped to its `reach`."""
    if view.reach is None:
        return view.by_offset(span)
    near = view.by_offset(Span(0, view.reach + 1, span.device))
    return None if near is None else clipped(near, 1 - span.start - span.length, span.length + span.end - 1)


@dataclass(frozen=True)
class Temperature:
    """Attention that does not become flatter as a text becomes longer: logits times `max(1, log n / log L)`.

    n is the number of tokens that a query may see: of its sentence in an encoder, up to itself in a decoder. L is that
    number for the longest sentence of training, so sentences within the trained lengths do not change. Chiang & Cholak
    (2022, section 5.3) scale by log n in training; the ratio for a model trained without it is Su's (2021, "log-n").

    Attributes:
        trained: L.
        causal: whether it is a decoder's.
    """

    trained: int
    causal: bool

    def of(self, span: Span) -> Tensor:
        """float64 factors that broadcast to [B,H,Tq,Tk]."""
        if self.causal:
            tokens = span.before[:, None] + 1
        elif span.lengths is not None:
            tokens = span.lengths[:, None, None, None]
        else:
            tokens = torch.full((), span.end, device=span.device)
        return (tokens.to(torch.float64).log() / math.log(max(2, self.trained))).clamp(min=1.0)


class Scheme(nn.Module):
    """A position scheme for one stack; it owns all its parameters, whether layers share them or not.

    A subclass takes (stack, settings) and defines its options as `Settings`.

    Attributes:
        longest: the largest number of tokens that have positions; None: no limit.
        limited_by: the property of the stack, or the option, that a larger `longest` needs; None: there is none.
        dropout_after: dropout on the input of the first layer, in place of the model's; None: the model's.
        placed: the layers of the whole stack that have the scheme, in ascending order; None: all. The constructor and
            `layer` know these layers alone, as 0, 1, ..; the registry sets it.
        not_cross: why the scheme cannot serve attention to the source, to continue "it"; None: it can, and its views
            take a `CrossSpan`.
    """

    placed: tuple[int, ...] | None = None
    not_cross: str | None = "was made for the words of one sentence"
    Settings: type[Options] = Options
    longest: int | None = None
    limited_by: str | None = "max_length"
    dropout_after: float | None = None

    @classmethod
    def refuses(cls, stack: Stack, settings: Any, others: Collection[str] = ()) -> list[str]:
        """Why the scheme cannot serve a stack: sentences that continue its name, with rule and value; empty if it can.

        Args:
            others: the names of the other schemes in the list; see `clashes`.
        """
        return []

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor` from now on, at inference; False if the scheme does not support it.

        Position interpolation (Chen S. et al. 2023): a text `factor` times as long as the training texts then has
        positions within the range of training.
        """
        return False

    def ntk(self, factor: float) -> bool:
        """Rotate with a larger base from now on, at inference; False if the scheme does not rotate. See `Rope.ntk`."""
        return False

    def yarn(self, factor: float, trained: int) -> bool:
        """Divide the frequencies of a rotation, each by its own number, at inference; False if there is no rotation.

        Args:
            trained: tokens of the longest training sentence. See `Rope.yarn`.
        """
        return False

    def clip(self, reach: int, group: int | None = None) -> bool:
        """Let distances beyond `reach` count as `reach`, at inference; False if the scheme has none to clip.

        Views may be replaced, so the views of a stack must be joined again.

        Args:
            group: let longer distances grow by 1 for every `group` tokens instead; for rotations only.
        """
        return False

    def embed(self, x: Tensor, span: Span, carry: Carry) -> tuple[Tensor, Carry]:
        """Word embeddings [B,T,d] with position information, and the new carry.

        `x` is scaled as the model scales embeddings, and has passed the schemes before this one in the list.
        """
        return x, carry

    def layer(self, index: int) -> LayerPosition | None:
        """The scheme's view of one layer; None: the scheme does nothing inside layers."""
        return None

    def view_in(self, index: int) -> LayerPosition | None:
        """The scheme's view of a layer of the whole stack; None: it does nothing inside this layer."""
        if self.placed is None:
            return self.layer(index)
        return self.layer(self.placed.index(index)) if index in self.placed else None


class LayeredScheme(Scheme):
    """A scheme with a separate view for each layer, in `layers`."""

    layers: nn.ModuleList

    def layer(self, index: int) -> LayerPosition:
        """Return the view of a layer, counted among the layers that the scheme serves."""
        view = self.layers[index]
        assert isinstance(view, LayerPosition)
        return view


class LayerPositions:
    """The views that all schemes of a stack have of one layer, joined. Not a module: the schemes own the parameters.

    Args:
        temperature: of the layer's attention at inference; None: logits are as they are.

    Raises:
        ValueError: more than one view rotates; the check of a configuration reports this earlier.
    """

    def __init__(self, views: Sequence[LayerPosition] = (), temperature: Temperature | None = None) -> None:
        self.temperature = temperature
        self.rotating = [view for view in views if _overrides(view, "rotate")]
        self.biasing = [view for view in views if _overrides(view, "logits") or _overrides(view, "by_offset")]
        self.adding = [view for view in views if _overrides(view, "values")]
        self.hiding = [view for view in views if _overrides(view, "allows")]
        self.refining = [view for view in views if _overrides(view, "refine")]
        self.reading = [view for view in views if _overrides(view, "reads")]
        self.keeping = [view for view in views if _overrides(view, "keep")]
        if len(self.rotating) > 1:
            raise ValueError("only one view of a layer may rotate queries and keys: two rotations do not add up")

    @property
    def reads_unrotated(self) -> bool:
        """Whether logit terms need queries other than those of the product."""
        return len(self.biasing) > 0 and (len(self.rotating) > 0 or self.temperature is not None)

    @property
    def reads_unrotated_keys(self) -> bool:
        """Whether logit terms need keys other than those of the product, so that both must be cached."""
        return len(self.rotating) > 0 and any(view.reads_keys for view in self.biasing)

    @property
    def adds_values(self) -> bool:
        """Whether some view reads the attention weights, so that they must exist as a tensor."""
        return len(self.adding) > 0  # bool() of a list breaks a graph of PyTorch 2.11

    def tables(self, span: Span) -> dict[LayerPosition, Tensor]:
        """View -> table by offset, for the views that define one."""
        if self.temperature is not None:
            return {}  # it multiplies the terms of each query by a number of its own
        tables = {view: table_of(view, span) for view in self.biasing}
        return {view: table for view, table in tables.items() if table is not None}

    def trained(self) -> list[nn.Parameter]:
        """The parameters that the logit and value terms read."""
        views = dict.fromkeys([*self.biasing, *self.adding])
        parameters = [each for view in views for each in view.parameters() if each.requires_grad]
        return list(dict.fromkeys(parameters))

    def reads(self) -> Tensor | None:
        """[H, d] bool: the features that a head may project according to every view."""
        return _joined([view.reads() for view in self.reading], torch.logical_and)

    def rotate(self, q: Tensor, k: Tensor, span: Span) -> tuple[Tensor, Tensor]:
        """Queries and keys for their product."""
        for view in self.rotating:
            q, k = view.rotate(q, k, span)
        return (q if self.temperature is None else q * self.temperature.of(span).to(q.dtype)), k

    def keep(self, x: Tensor, span: Span) -> dict[LayerPosition, Tensor]:
        """View -> what it keeps of the tokens of this call; attention puts what was kept in earlier calls before it.

        Raises:
            ValueError: an override returns None.
        """
        kept = {}
        for view in self.keeping:
            value = view.keep(x, span)
            if value is None:
                raise ValueError(f"{type(view).__name__}.keep returned None; an override must return a tensor")
            kept[view] = value
        return kept

    def logits(self, q: Tensor, k: Tensor, span: Span, excluded: Collection[LayerPosition] = ()) -> Tensor | None:
        """The sum of the views' logit terms, except those of the excluded views."""
        terms = _joined([view.logits(q, k, span) for view in self.biasing if view not in excluded], torch.add)
        return terms if terms is None or self.temperature is None else terms * self.temperature.of(span).to(q.dtype)

    def values(self, weights: Tensor, span: Span) -> Tensor | None:
        """The sum of the views' value terms."""
        return _joined([view.values(weights, span) for view in self.adding], torch.add)

    def allows(self, span: Span) -> Tensor | None:
        """[H,W] bool: offsets that every view allows; None if no view masks keys."""
        return _joined([view.allows(span) for view in self.hiding], torch.logical_and)

    def mask(self, span: Span) -> Tensor | None:
        """`allows` as [H,Tq,Tk], or [B,H,Tq,Tk] if rows are padded; a padding query sees every key."""
        allowed = self.allows(span)
        if allowed is None:
            return None
        seen = span.matrix(allowed)
        return seen if span.lengths is None else seen | (span.before >= span.lengths[:, None])[:, None, :, None]

    def refine(self, before: Tensor, after: Tensor, span: Span) -> Tensor:
        """The input of the next sub-layer, refined by each view in order."""
        for view in self.refining:
            after = view.refine(before, after, span)
        return after


def join(schemes: Sequence[Scheme], layers: int, temperature: Temperature | None = None) -> list[LayerPositions]:
    """One joined view for each of `layers` layers."""
    views = [[scheme.view_in(index) for scheme in schemes] for index in range(layers)]
    return [LayerPositions([view for view in row if view is not None], temperature) for row in views]


def rotated(scheme: Scheme, layers: int) -> list[int]:
    """The layers of a stack in which a scheme rotates queries or keys."""
    views = {index: scheme.view_in(index) for index in range(layers)}
    return [index for index, view in views.items() if view is not None and _overrides(view, "rotate")]


def is_offset_bias(view: LayerPosition) -> bool:
    """Whether a view's logit terms are its table by offset alone."""
    return _overrides(view, "by_offset") and not _overrides(view, "logits")


def changes_embeddings(kind: type[Scheme]) -> bool:
    """Whether a class of schemes overrides `embed`."""
    return kind.embed is not Scheme.embed


def clashes(others: Collection[str], *names: str) -> list[str]:
    """Refusals, for `Scheme.refuses`: a sentence for each of `names` that is among the other schemes of the list."""
    return [f"cannot stand beside {name} in one stack; choose one of them" for name in sorted({*names} & {*others})]


def _overrides(view: LayerPosition, method: str) -> bool:
    return getattr(type(view), method) is not getattr(LayerPosition, method)


def _joined(terms: Sequence[Tensor | None], operation: Any) -> Tensor | None:
    """The terms that are not None, reduced with a binary operation; None if there are none."""
    result: Tensor | None = None
    for term in terms:
        if term is not None:
            result = term if result is None else operation(result, term)
    return result


def project_onto(q: Tensor, vectors: Tensor) -> Tensor:
    """Products of the queries [B,H,Tq,D] with vectors [m,D] that all of them share: [B,H,Tq,m].

    Computed as one product of two matrices. `q @ vectors.T` copies the vectors for every row and head if the queries of
    a token are contiguous in memory, as those of a fused projection are.
    """
    rows = q.transpose(1, 2)  # [B,Tq,H,D], the memory layout
    products = rows.flatten(0, 2) @ vectors.to(q.dtype).transpose(0, 1)
    return products.unflatten(0, rows.shape[:3]).transpose(1, 2)


def weighted_sum(weights: Tensor, vectors: Tensor) -> Tensor:
    """Sums [B,H,Tq,D] of vectors [m,D] that all queries share, each with its weight [B,H,Tq,m].

    Computed as one product of two matrices, in the memory layout of the weights.
    """
    rows = weights.transpose(1, 2)
    return (rows @ vectors.to(weights.dtype)).transpose(1, 2)
