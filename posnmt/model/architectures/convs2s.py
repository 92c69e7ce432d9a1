"""ConvS2S: a convolutional encoder, and a causal convolutional decoder with attention (Gehring et al. 2017).

Shapes: B rows, J source tokens, T target tokens, d model width; S sentences, N hypotheses; k words under a kernel,
c and c' width of a layer's input and output.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt.config.schema import Model
from posnmt.model.base import Faults, output_projection
from posnmt.model.ordered import OrderedTranslator
from posnmt.model.state import padding_mask, select_rows
from posnmt_position.dropout import Dropout
from posnmt_position.options import Options, option
from posnmt_position.seam import Carry, Span

HALF = math.sqrt(0.5)
"""Factor of each sum of two terms, which preserves the variance (section 3.4)."""

EMBEDDING = 0.1
"""Initial standard deviation of word embeddings (section 3.5)."""


class Settings(Options):
    """Options of the architecture `convs2s` beside the common settings of a model."""

    kernels: tuple[int, ...] = option(
        (3,), min_length=1, ge=1, help="words under a kernel: one number for all layers, or one for each layer"
    )
    widths: tuple[int, ...] = option(
        (), ge=1, help="units of the layers: one number for all, or one for each layer; empty: d_model"
    )


class WeightNorm(nn.Module):
    """`W x + b` with `W = g v / |v|`, a length g and a direction v for each output unit (Salimans and Kingma 2016).

    Initially W is v, drawn from N(0, deviation^2), and b is 0.
    """

    def __init__(self, inputs: int, outputs: int, deviation: float) -> None:
        super().__init__()
        self.direction = nn.Parameter(nn.init.normal_(torch.empty(outputs, inputs), std=deviation))
        self.length = nn.Parameter(self.direction.detach().norm(dim=1, keepdim=True))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def weight(self) -> Tensor:
        """Return W [outputs,inputs]: each row's direction, scaled to its learned length."""
        return self.direction * (self.length / self.direction.norm(dim=1, keepdim=True))

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """[..,inputs] -> [..,outputs]; `weight` is W if it is already computed."""
        return functional.linear(x, self.weight() if weight is None else weight, self.bias)


@dataclass
class ConvolutionState:
    """The state of the decoder for S sentences and N = S x hypotheses rows.

    Attributes:
        keys: [S,J,d], the encoder's output z; one for all hypotheses and layers, as the next two.
        values: [S,J,d], z + e, scaled for the weighted sum of m source tokens.
        mask: [S,1,J] bool, True at real source tokens, or None when no row is padded.
        weights: the decoder's matrices, normalised once for each batch.
        inputs: [N,k-1,c] for each layer, the kernel's inputs at earlier tokens; None before the first token.
        carry: the carry of each position scheme.
        length: target tokens consumed.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None
    weights: dict[WeightNorm, Tensor]
    inputs: list[Tensor | None]
    carry: list[Carry]
    length: int = 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep hypotheses `rows` [N'] in this order, and `sentences` [S'] if some have left the batch.

        The rows of a sentence are adjacent, the same number for each sentence.
        """
        self.inputs = [select_rows(cached, rows) for cached in self.inputs]
        self.carry = [select_rows(carry, rows) for carry in self.carry]
        if sentences is not None:
            self.keys, self.values = self.keys.index_select(0, sentences), self.values.index_select(0, sentences)
            if self.mask is not None:
                self.mask = self.mask.index_select(0, sentences)


class Convolution(nn.Module):
    """`GLU(W [x_1; ..; x_k] + b)` over each k neighbours (section 3.2).

    Computed as one matrix product for all words, which on a CPU is faster than a convolution.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.kernel = kernel
        self.dropout = Dropout(dropout)
        self.map = WeightNorm(kernel * inputs, 2 * outputs, math.sqrt(4 * (1 - dropout) / (kernel * inputs)))
        self.residual = None if inputs == outputs else WeightNorm(inputs, outputs, inputs**-0.5)

    def gated(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Convolve [B,k-1+T,c] and apply the gated linear unit, which gives [B,T,c']."""
        length = x.shape[1] - self.kernel + 1
        neighbours = torch.cat([x[:, place : place + length] for place in range(self.kernel)], dim=-1)
        return functional.glu(self.map(neighbours, weight), dim=-1)


class EncoderLayer(Convolution):
    """A convolution over as many words to the left as to the right, or one more to the right if k is even."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """[B,J,c] -> [B,J,c']; mask [B,J,1] is True at real tokens."""
        residual = x if self.residual is None else self.residual(x)
        inputs = self.dropout(x if mask is None else x.masked_fill(~mask, 0.0))
        return (self.gated(functional.pad(inputs, (0, 0, (self.kernel - 1) // 2, self.kernel // 2))) + residual) * HALF


class DecoderLayer(Convolution):
    """A causal convolution, then attention (section 3.3):

        d = W_d h + b_d + g,   a = softmax_j(d . z_j),   c = sum_j a_j (z_j + e_j),   h' = h + W_c c + b_c

    Each sum of two terms, z + e among them, has a factor of sqrt(1/2) (section 3.4).
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, d_model: int, dropout: float) -> None:
        super().__init__(inputs, outputs, kernel, dropout)
        self.query = WeightNorm(outputs, d_model, outputs**-0.5)
        self.context = WeightNorm(d_model, outputs, d_model**-0.5)

    def forward(
        self, x: Tensor, words: Tensor, before: Tensor | None, state: ConvolutionState
    ) -> tuple[Tensor, Tensor]:
        """From x [N,T,c] and the embeddings [N,T,d] of the same words.

        Args:
            before: [N,k-1,c], the kernel's input at the words before; None at the beginning of a target.

        Returns:
            ([N,T,c'], `before` of the next words)
        """
        weights = state.weights
        residual = x if self.residual is None else self.residual(x, weights[self.residual])
        inputs = self.dropout(x)
        if before is None:
            before = inputs.new_zeros(inputs.shape[0], self.kernel - 1, inputs.shape[2])
        inputs = torch.cat([before, inputs], dim=1)
        h = self.gated(inputs, weights[self.map])
        query = (self.query(h, weights[self.query]) + words) * HALF
        h = (h + self.context(attended(query, state), weights[self.context])) * HALF
        return (h + residual) * HALF, inputs[:, x.shape[1] :]


class ConvolutionalTranslator(OrderedTranslator):
    """ConvS2S (Gehring et al. 2017): convolutions with gated linear units, and attention in every decoder layer.

    Encoder and decoder read words with their positions, e and g, mapped to the width of the first layer. A layer is
    `h^l = (GLU(W^l [h^{l-1}_{i-k/2}; ..; h^{l-1}_{i+k/2}] + b^l) + h^{l-1}_i) sqrt(1/2)`; a decoder layer reads the
    k words up to its own, and adds the context of its attention between the gates and the residual. The encoder's last
    layer is mapped back to the width of the words: z. Each layer's attention weighs `(z_j + e_j) sqrt(1/2)` by
    `softmax_j((W h_i + b + g_i) sqrt(1/2) . z_j)` and multiplies the sum by `m sqrt(1/m)`, m the real source tokens.
    The decoder's last layer is mapped to d and predicts the next word.

    All maps except the projection to the vocabulary have weight normalisation. Initial weights are from N(0, 1/n), n
    the inputs; those of the embeddings from N(0, p/n), p the share that dropout keeps; those before gates from
    N(0, 4p/n); word embeddings have a deviation of 0.1. Dropout is applied to the embeddings, before each convolution
    and before the projection to the vocabulary.

    Details from the authors' published code (fairseq's fconv): the residual of a layer that changes the width is also
    mapped; the context is mapped from the width of the words to that of the layer; the gradient of z is divided by
    twice the number of attentions, that of the source embeddings in z + e is not (section 3.4: by their number). The
    projection to the vocabulary is a plain matrix here. The paper's networks have 15 or 20 layers on each side, kernels
    of 3 and widths of 512 and more; here `model` sets the number of layers.
    """

    Settings = Settings

    def __init__(self, config: Model, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        settings = Settings(**config.options)
        d, dropout = config.d_model, config.dropout
        for embedding in (self.source, self.target):
            nn.init.normal_(embedding.table.weight, std=EMBEDDING / embedding.scale)
        read, written = (_shape(settings, side.layers, d) for side in (config.encoder, config.decoder))
        self.source_rise = WeightNorm(d, read[0][0], math.sqrt((1 - dropout) / d))
        self.encoder = nn.ModuleList(EncoderLayer(*shape, dropout) for shape in read)
        self.source_fall = WeightNorm(read[-1][1], d, read[-1][1] ** -0.5)
        self.target_rise = WeightNorm(d, written[0][0], math.sqrt((1 - dropout) / d))
        self.decoder = nn.ModuleList(DecoderLayer(*shape, d, dropout) for shape in written)
        self.target_fall = WeightNorm(written[-1][1], d, written[-1][1] ** -0.5)
        self.dropout = Dropout(dropout)
        self.output = output_projection(config, self.target.table)
        self.attach_schemes()

    @classmethod
    def refuses(cls, config: Model, settings: Any) -> Faults:
        """Also lists whose length is not the number of layers."""
        faults = super().refuses(config, settings)
        if config.embedding_init != "scaled-normal":
            what = f"convs2s initialises word embeddings with a deviation of {EMBEDDING}; leave it out"
            what += f", got {config.embedding_init}"
            faults.append((("embedding_init",), what))
        for name in ("kernels", "widths"):
            count = len(getattr(settings, name))
            for side in ("encoder", "decoder"):
                layers = getattr(config, side).layers
                if count > 1 and count != layers:
                    what = f"convs2s.{name} has {count} numbers for the {layers} layers of the {side}"
                    faults.append((("options",), f"{what}; write one, or one for each layer"))
        return faults

    def encode(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """Source tokens [B,J], right-padded, with real lengths [B] (None: no padding) -> [B,J,2d]: z and z + e."""
        span = Span(0, source.shape[1], source.device, lengths, origin=self.source.origin)
        words, _ = self.source(source, span, [None] * len(self.source.schemes))
        mask = padding_mask(lengths, source.shape[1])
        real = None if mask is None else mask[:, 0, 0, :, None]  # [B,J,1]
        x = self.source_rise(words)
        for layer in self.encoder:
            x = layer(x, real)
        z = ScaledGradient.apply(self.source_fall(x), 0.5 / len(self.decoder))
        return torch.cat([z, (z + words) * HALF], dim=-1)

    def start(self, encoded: Tensor, lengths: Tensor | None) -> ConvolutionState:
        """The decoder's state before the first target token, from the encoder output [S,J,2d]."""
        keys, values = encoded.chunk(2, dim=-1)
        mask = padding_mask(lengths, encoded.shape[1])
        tokens = encoded.shape[1] if lengths is None else lengths[:, None, None].to(values.dtype)
        parts = [self.target_rise, self.target_fall, *self.decoder.modules()]
        return ConvolutionState(
            keys=keys,
            values=values * tokens**0.5,
            mask=None if mask is None else mask[:, 0],
            weights={part: part.weight() for part in parts if isinstance(part, WeightNorm)},
            inputs=[None] * len(self.decoder),
            carry=[None] * len(self.target.schemes),
        )

    def advance(self, tokens: Tensor, state: ConvolutionState, lengths: Tensor | None = None) -> Tensor:
        """Read target tokens [N,T] after those already in `state`, and update the state.

        Returns:
            [N,T,d] at each token the hidden state that predicts the next one.
        """
        span = Span(state.length, tokens.shape[1], tokens.device, lengths, origin=self.target.origin)
        words, state.carry = self.target(tokens, span, state.carry)
        x = self.target_rise(words, state.weights[self.target_rise])
        for index, layer in enumerate(self.decoder):
            x, state.inputs[index] = layer(x, words, state.inputs[index], state)
        state.length += tokens.shape[1]
        return self.dropout(self.target_fall(x, state.weights[self.target_fall]))


class ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        """Return x, of any shape, unchanged."""
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        """The gradient of the result, scaled."""
        return upstream[0] * ctx.scale, None


def attended(query: Tensor, state: ConvolutionState) -> Tensor:
    """Sums [N,T,d] of the values, from queries [N,T,d]; the N / S hypotheses of a sentence are adjacent."""
    scores = query.reshape(len(state.keys), -1, query.shape[2]) @ state.keys.transpose(1, 2)  # [S,N/S x T,J]
    if state.mask is not None:
        scores = scores.masked_fill(~state.mask, -torch.inf)
    return (scores.softmax(-1).to(state.values.dtype) @ state.values).view_as(query)


def _shape(settings: Settings, layers: int, d_model: int) -> list[tuple[int, int, int]]:
    """Width of the input, width of the output and kernel of each layer; the first layer reads its own width."""
    widths, kernels = (
        sizes if len(sizes) == layers else sizes[:1] * layers
        for sizes in (settings.widths or (d_model,), settings.kernels)
    )
    return list(zip((widths[0], *widths), widths, kernels, strict=False))
