"""How the linear layers of a Transformer's sub-layers start: `model.init`.

Every way draws each matrix from a uniform distribution around 0, in the same order, so one seed gives the same numbers
under every way: only the bounds differ. d_in and d_out are the inputs and outputs of one matrix; queries, keys and
values are three matrices, however they are stored. The Xavier bound (Glorot & Bengio 2010, eq. 16) is
`gain * sqrt(6 / (d_in + d_out))`, PyTorch's bound for linear layers is `1 / sqrt(d_in)`.

| | queries, keys | values | output of attention | inner matrix | output of feed-forward |
|---|---|---|---|---|---|
| `xavier` | gain 1 | gain 1 | gain 1 | gain 1 | gain 1 |
| `pytorch` | PyTorch's | PyTorch's | PyTorch's | PyTorch's | PyTorch's |
| `fairseq` | gain 1/sqrt(2) | gain 1/sqrt(2) | gain 1 | PyTorch's | PyTorch's |
| `small-output` | gain 1/sqrt(2) | gain 1/sqrt(2) | gain 1/2 | gain 1 | gain 1/2 |
| `depth-scaled` | gain 1/sqrt(2) | gain 1/sqrt(2) | gain 1/sqrt(N) | gain 1 | gain 1/sqrt(N) |
| `deepnorm` | gain 1 | gain beta | gain beta | gain beta | gain beta |

Biases start from 0, except with PyTorch's bound, which then is theirs too, and those of queries, keys and values in
`fairseq`, which have PyTorch's bound.

Sources: `xavier` is tensor2tensor's. `pytorch` is what N19's published code leaves as it is. `fairseq` is fairseq
0.12.2: MultiheadAttention.reset_parameters and the plain `nn.Linear` of TransformerEncoderLayer. `depth-scaled` divides
what is added to the residual stream by the root of the number N of additions (Radford et al. 2019, section 2.3; the
paper does not say whether N counts layers or sub-layers; Megatron-LM counts sub-layers, and so does this): 2 for each
encoder layer, 3 for each decoder layer. `deepnorm` is the start that goes with `model.norm: deep` (Wang et al. 2022,
figure 2, from normal distributions of the same deviations there).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from posnmt.config.schema import Init, Model

Part = Literal["query", "key", "value", "attention-output", "inner", "feed-forward-output"]
"""Which matrix of a sub-layer."""

_PYTORCH = None
"""In place of a gain: PyTorch's bound."""


@dataclass(frozen=True)
class Start:
    """Draws the linear layers of one stack's sub-layers.

    Attributes:
        init: the way, a row of the table above.
        sub_layers: N, the sub-layers of the stack.
        beta: the gain of DeepNorm.
    """

    init: Init = "xavier"
    sub_layers: int = 1
    beta: float = 1.0

    def __call__(self, linear: nn.Linear, *parts: Part) -> None:
        """Draw the weight and bias of a linear layer that was just constructed.

        Args:
            linear: its bias is still as `nn.Linear` draws it.
            parts: the matrices [d_out,d_in] that its weight is made of, one below the other.
        """
        for part, matrix in zip(parts, linear.weight.data.chunk(len(parts), dim=0), strict=True):
            gain = self._gain(part)
            if gain is _PYTORCH:
                bound = linear.in_features**-0.5
                nn.init.uniform_(matrix, -bound, bound)
            else:
                nn.init.xavier_uniform_(matrix, gain)
        if self.init != "pytorch" and (self.init != "fairseq" or parts[0] == "attention-output"):
            nn.init.zeros_(linear.bias)  # otherwise it stays as `nn.Linear` draws it

    def _gain(self, part: Part) -> float | None:
        """The gain of a matrix's Xavier bound, or `_PYTORCH`."""
        if self.init == "xavier":
            return 1.0
        if self.init == "pytorch":
            return _PYTORCH
        if self.init == "deepnorm":
            return 1.0 if part in ("query", "key") else self.beta
        if part in ("query", "key", "value"):
            return 2**-0.5
        if self.init == "fairseq":
            return 1.0 if part == "attention-output" else _PYTORCH
        if part == "inner":
            return 1.0
        return 0.5 if self.init == "small-output" else self.sub_layers**-0.5


XAVIER = Start()
"""Vaswani et al. 2017: what parts have that are built without a configuration."""


def start_of(config: Model, causal: bool) -> Start:
    """How the sub-layers of the encoder, or of the decoder (`causal`), start."""
    sub_layers = 3 * config.decoder.layers if causal else 2 * config.encoder.layers
    return Start(config.init, sub_layers, deepnorm(config, causal)[1])


def deepnorm(config: Model, causal: bool) -> tuple[float, float]:
    """The scale alpha of residual connections and the gain beta of the start, of the encoder or decoder (`causal`).

    Wang et al. 2022 (DeepNet), figure 2, for N encoder and M decoder layers: 0.81 (N^4 M)^(1/16) and 0.87 (N^4
    M)^(-1/16) in the encoder, (3 M)^(1/4) and (12 M)^(-1/4) in the decoder.
    """
    encoder, decoder = config.encoder.layers, config.decoder.layers
    if causal:
        return (3 * decoder) ** 0.25, (12 * decoder) ** -0.25
    depth = (encoder**4 * decoder) ** (1 / 16)
    return 0.81 * depth, 0.87 / depth
