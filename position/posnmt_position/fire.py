"""FIRE: a bias that a small network computes from the normalised distance (Li S. et al. 2023)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt_position.linear import Matrix
from posnmt_position.options import Options, option
from posnmt_position.seam import LayerPosition, Scheme, Span, Stack

FEW = 1 << 14
"""Up to this number of distances, the network is faster than a table of its linear pieces."""

_EPSILON = 1e-6  # as published: keeps the quotient finite if c or the normaliser is 0


class InterpolatedBias(LayerPosition):
    """`b_h(i, j) = f_h( psi(i - j) / (psi(max(L, i)) + 1e-6) )`, `psi(x) = log(|c x| + 1)` (published code).

    f is `W relu(w x + v)`, `width` units wide, with one output for each head; c and L are trained, L as a multiple of
    its initial value. i counts from 0, so the normaliser is the largest distance of a query, or L if L is larger, and
    the argument x of f is within 0 .. 1. The published network adds a constant for each head, which the softmax
    cancels; it is omitted.

    Both largest distances are numbers of tokens, whatever number positions begin at.

    In an encoder the largest distance of a sentence of J tokens is J - 1 for all its queries:
    `x = sign(i - j) psi(|i - j|) / (psi(max(L, J - 1)) + 1e-6)`, within -1 .. 1, positive to the left as above. J is
    the length without padding, so padding changes nothing.
    """

    reads_keys = False

    def __init__(self, heads: int, width: int, threshold: float) -> None:
        super().__init__()
        self.first_threshold = threshold
        self.c = nn.Parameter(torch.tensor(0.1))
        self.threshold = nn.Parameter(torch.tensor(1.0))
        self.rise, self.fall = Matrix(1, width), Matrix(width, heads, bias=False)

    def _network(self, offsets: Tensor, farthest: Tensor) -> Tensor:
        """[..,H] from offsets i - j [..] and largest distances that broadcast to them."""
        kind = self.c.dtype
        with torch.autocast(offsets.device.type, enabled=False):  # half precision cannot distinguish large distances
            normaliser = self._psi(torch.maximum((self.threshold * self.first_threshold).abs(), farthest.to(kind)))
            distances = offsets.to(kind)
            x = distances.sign() * self._psi(distances) / (normaliser + _EPSILON)
            return self._in_units(x) if x.numel() <= FEW else self._in_lines(x)

    def _in_units(self, x: Tensor) -> Tensor:
        """f of x [..] as [..,H], with a hidden layer [..,width]."""
        bias: Tensor = self.fall((x[..., None] * self.rise.weight[:, 0] + self.rise.bias).relu())
        return bias

    def _in_lines(self, x: Tensor) -> Tensor:
        """The same without the hidden layer, from a table of the slope and height of each linear piece of f."""
        slopes, heights = self.rise.weight[:, 0], self.rise.bias
        with torch.no_grad():
            turns = torch.where(slopes == 0, 0, -heights / slopes).sort().values
            within = torch.cat([turns[:1] - 1, (turns[1:] + turns[:-1]) / 2, turns[-1:] + 1])  # a point on each piece
            rising = (within[:, None] * slopes + heights > 0).to(x.dtype)  # [width+1,width] active units
            line = torch.bucketize(x, turns)
        lines = torch.cat([rising @ (self.fall.weight * each).transpose(0, 1) for each in (slopes, heights)], dim=1)
        slope, height = functional.embedding(line, lines).chunk(2, dim=-1)
        return slope * x[..., None] + height

    def _psi(self, x: Tensor) -> Tensor:
        """psi, a logarithmic scale of distances."""
        return (self.c * x).abs().log1p()


class EncoderBias(InterpolatedBias):
    """The bias of an encoder, which depends on the offset and on the length of the sentence.

    In attention to the source, J is the length of the source. There x can leave -1 .. 1: where a target word stands
    past the end of its source.
    """

    def by_offset(self, span: Span) -> Tensor:
        """[H,W], or [B,H,W] where rows are padded."""
        farthest = torch.full((), span.end - 1, device=span.device)
        if span.lengths is not None:
            farthest = span.lengths[:, None] - 1
        return self._network(-span.diagonals, farthest).transpose(-1, -2)


class DecoderBias(InterpolatedBias):
    """The bias of a decoder, which depends on the offset and on the position of the query."""

    def logits(self, q: Tensor, k: Tensor, span: Span) -> Tensor:
        """[H,Tq,Tk], computed once for all layers that share the view."""

        def compute() -> Tensor:
            network = self._network((-span.offsets).clamp(min=0), span.before[:, None])
            return network.movedim(-1, 0).to(q.dtype)

        return span.share(self, compute)


class Fire(Scheme):
    """FIRE (Li S. et al. 2023): a small network computes a bias from the distance, divided by the length.

    `InterpolatedBias` has the equations.
    """

    not_cross = None

    class Settings(Options):
        """Set the network of `fire`, its threshold, and whether the layers share one network."""

        width: int = option(32, ge=1, help="hidden units of the network")
        threshold: float = option(512.0, gt=0, help="initial L, trained: normaliser of the distances up to L")
        shared: bool = option(False, help="one network for all layers of a stack instead of one for each layer")

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.networks = nn.ModuleList(
            (DecoderBias if stack.causal else EncoderBias)(stack.heads, settings.width, settings.threshold)
            for _ in range(1 if settings.shared else stack.layers)
        )

    def layer(self, index: int) -> LayerPosition:
        """Return the bias of a layer; with `shared` all layers have the same one."""
        view = self.networks[index % len(self.networks)]
        assert isinstance(view, LayerPosition)
        return view
