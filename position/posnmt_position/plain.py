"""A Transformer of plain PyTorch that takes any scheme: where each hook belongs, and what the checks run on.

Shapes: B rows, J source tokens, T target tokens, Tk keys, H heads, D width of a head, d model width; S sentences with
N rows of hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt_position.seam import Carry, CrossSpan, LayerPositions, Scheme, Span, Stack, join


class Attention(nn.Module):
    """Multi-head attention with the joined views of a layer."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.v, self.output = (nn.Linear(d_model, d_model) for _ in range(3))
        self.k = nn.Linear(d_model, d_model, bias=False)  # it would change no weight

    def forward(
        self, x: Tensor, memory: Tensor, seen: Tensor, view: LayerPositions, span: Span, cache: list[Tensor] | None
    ) -> Tensor:
        """[B,T,d] from the queries' x [B,T,d] and the keys' memory [B,Tk,d].

        Args:
            seen: bool, broadcasts to [B,H,T,Tk].
            cache: keys, rotated keys, values and what the views kept in earlier calls; this call's are appended.
        """
        q, k, v = (self._heads(part, y, view) for part, y in ((self.q, x), (self.k, memory), (self.v, memory)))
        q = q * q.shape[-1] ** -0.5
        rotated_q, rotated_k = view.rotate(q, k, span) if x is memory else _rotated_apart(q, k, view, span)
        kept = view.keep(x, span)
        if cache is not None:
            new = [k, rotated_k, v, *kept.values()]
            cache[:] = [torch.cat(pair, 2) for pair in zip(cache, new, strict=True)] if cache else new
            k, rotated_k, v, *of_all = cache
            kept = dict(zip(kept, of_all, strict=True))
        span.kept.update(kept)
        logits, terms = rotated_q @ rotated_k.mT, view.logits(q, k, span)  # the terms read queries and keys unrotated
        weights = (logits if terms is None else logits + terms).masked_fill(~seen, -torch.inf).softmax(-1)
        attended, added = weights @ v, view.values(weights, span)
        attended = attended if added is None else attended + added
        output: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return output

    def _heads(self, part: nn.Linear, x: Tensor, view: LayerPositions) -> Tensor:
        """[B,H,T,D], each head projected from the features that the views let it read."""
        weight, reads = part.weight.unflatten(0, (self.heads, -1)), view.reads()
        weight = weight if reads is None else weight * reads[:, None]
        return functional.linear(x, weight.flatten(0, 1), part.bias).unflatten(-1, (self.heads, -1)).transpose(1, 2)


def _rotated_apart(q: Tensor, k: Tensor, view: LayerPositions, span: Span) -> tuple[Tensor, Tensor]:
    """Queries at their positions in the source, and keys at their own."""
    return view.rotate(q, q, span)[0], view.rotate(k, k, Span(0, k.shape[2], k.device))[1]


@dataclass(frozen=True)
class Source:
    """What the layers of a decoder read of the source.

    Attributes:
        encoded: [B,J,d] the encoder output.
        seen: [B,1,1,J] its real tokens.
        span: the positions of target tokens in it.
    """

    encoded: Tensor
    seen: Tensor
    span: CrossSpan


class Layer(nn.Module):
    """Self-attention, in a decoder attention to the source, and feed-forward, each with a residual and a norm."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        d = stack.d_model
        self.own, self.norm = Attention(d, stack.heads), nn.LayerNorm(d)
        self.source = Attention(d, stack.heads) if stack.causal else None
        self.source_norm = nn.LayerNorm(d) if stack.causal else None
        self.feed_forward = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.feed_forward_norm = nn.LayerNorm(d)

    def forward(
        self, x: Tensor, seen: Tensor, view: LayerPositions, span: Span, cache: list[Tensor] | None,
        source: Source | None, cross: LayerPositions,
    ) -> Tensor:  # fmt: skip
        """[B,T,d] -> [B,T,d]; `cross` is the joined view of attention to the source."""
        h = self.norm(x + self.own(x, x, seen, view, span, cache))
        refined = view.refine(x, h, span)
        if self.source is not None and self.source_norm is not None and source is not None:
            attended = self.source(refined, source.encoded, source.seen, cross, source.span, None)
            h = refined = self.source_norm(h + attended)
        output: Tensor = self.feed_forward_norm(h + self.feed_forward(refined))
        return output


class Side(nn.Module):
    """The encoder or the decoder: embeddings, schemes, layers.

    Attributes:
        origin: position of the first token.
    """

    def __init__(self, stack: Stack, schemes: Sequence[Scheme], vocabulary: int, cross: Sequence[Scheme] = ()) -> None:
        super().__init__()
        self.stack, self.origin = stack, 0
        self.table = nn.Embedding(vocabulary, stack.d_model)
        self.layers = nn.ModuleList(Layer(stack) for _ in range(stack.layers))
        self.schemes = nn.ModuleList(schemes)
        self.cross = nn.ModuleList(cross)
        self.views, self.cross_views = join(schemes, stack.layers), join(cross, stack.layers)

    def forward(
        self, tokens: Tensor, start: int, lengths: Tensor | None, carries: list[Carry],
        caches: list[list[Tensor]] | None = None, source: Source | None = None,
    ) -> tuple[Tensor, list[Carry]]:  # fmt: skip
        """Tokens [B,T] after `start` earlier ones -> [B,T,d], and the carry of each scheme."""
        span = Span(start, tokens.shape[1], tokens.device, lengths, origin=self.origin)
        x, after = self.table(tokens), []
        for scheme, carry in zip(self.schemes, carries, strict=True):
            x, carry = scheme.embed(x, span, carry)  # type: ignore[operator]
            after.append(carry)
        seen = span.offsets <= 0 if self.stack.causal else torch.ones_like(span.offsets, dtype=torch.bool)
        if lengths is not None:
            seen = seen & (span.keys - span.origin < lengths[:, None])[:, None, None]
        for index, (layer, view, cross) in enumerate(zip(self.layers, self.views, self.cross_views, strict=True)):
            mask = view.mask(span)
            cache = None if caches is None else caches[index]
            x = layer(x, seen if mask is None else seen & mask, view, span, cache, source, cross)
        return x, after


@dataclass
class State:
    """What the decoder remembers between two steps.

    Attributes:
        source: [S,J,d] the encoder output.
        seen: [S,1,1,J] its real tokens.
        caches: for each layer the keys, the rotated keys and the values [N,H,T,D], and what views kept [N,H,T,m].
        carries: of each scheme.
        length: tokens so far.
    """

    source: Tensor
    seen: Tensor
    caches: list[list[Tensor]]
    carries: list[Carry]
    length: int = field(default=0)

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep hypotheses `rows` [N'] in this order, and `sentences` [S'] if some have left the batch."""
        self.caches = [[each[rows] for each in cache] for cache in self.caches]
        self.carries = [_rows(carry, rows) for carry in self.carries]
        if sentences is not None:
            self.source, self.seen = self.source[sentences], self.seen[sentences]


class PlainTransformer(nn.Module):
    """An encoder and a decoder (Vaswani et al. 2017, post-norm) with any schemes on each side.

    Args:
        encoder, decoder: the stacks.
        source, target: the schemes of each.
        vocabulary: the number of different tokens.
        cross: the schemes of attention to the source.
        ratio: source tokens for each target token in the training text, for these schemes.
    """

    ratio: Tensor

    def __init__(
        self, encoder: Stack, decoder: Stack, source: Sequence[Scheme], target: Sequence[Scheme], vocabulary: int,
        cross: Sequence[Scheme] = (), ratio: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.encoder, self.decoder = Side(encoder, source, vocabulary), Side(decoder, target, vocabulary, cross)
        self.register_buffer("ratio", torch.tensor(ratio, dtype=torch.float64))
        self.output = nn.Linear(decoder.d_model, vocabulary)

    def encode(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """Tokens [B,J], right-padded, with real lengths [B] (None: no padding) -> [B,J,d]."""
        encoded: Tensor = self.encoder(source, 0, lengths, [None] * len(self.encoder.schemes))[0]
        return encoded

    def start(self, encoded: Tensor, lengths: Tensor | None) -> State:
        """The state before the first target token."""
        places = torch.arange(encoded.shape[1], device=encoded.device)
        real = (
            places < places.new_full((len(encoded),), len(places))[:, None]
            if lengths is None
            else places < lengths[:, None]
        )
        caches: list[list[Tensor]] = [[] for _ in self.decoder.layers]
        return State(encoded, real[:, None, None], caches, [None] * len(self.decoder.schemes))

    def advance(self, tokens: Tensor, state: State) -> Tensor:
        """Read target tokens [N,T] after those in `state` -> [N,T,d], and update the state."""
        encoded, seen = (each.repeat_interleave(len(tokens) // len(each), 0) for each in (state.source, state.seen))
        lengths, width = seen.sum(-1).flatten(), seen.shape[-1]
        span = CrossSpan(state.length, tokens.shape[1], tokens.device, lengths, width, ratio=self.ratio)
        source = Source(encoded, seen, span)
        hidden, state.carries = self.decoder(tokens, state.length, None, state.carries, state.caches, source)
        state.length += tokens.shape[1]
        return hidden  # type: ignore[no-any-return]

    def forward(self, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
        """Source [B,J] and target [B,T] -> [B,T,d]; `project` gives logits."""
        return self.advance(target, self.start(self.encode(source, lengths), lengths))

    def project(self, hidden: Tensor) -> Tensor:
        """Map decoder states [..,d] to logits [..,V] of the vocabulary, without softmax."""
        logits: Tensor = self.output(hidden)
        return logits

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor` from now on; whether a scheme supports it."""
        schemes = [each for side in (self.encoder, self.decoder) for each in side.schemes]
        return sum(scheme.interpolate(factor) for scheme in schemes) > 0  # type: ignore[operator]

    def shift(self, source: int, target: int) -> None:
        """Let positions begin at these numbers from now on."""
        self.encoder.origin, self.decoder.origin = source, target


def _rows(carry: Carry, rows: Tensor) -> Carry:
    if isinstance(carry, tuple):
        return tuple(_rows(each, rows) for each in carry)
    return None if carry is None else carry[rows]
