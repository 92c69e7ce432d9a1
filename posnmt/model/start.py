"""The initialisation of the linear layers of a Transformer's sub-layers: `model.init`.

Each method draws each matrix from a uniform distribution around 0, in the same order, so that with one seed only the
bounds differ between methods. d_in and d_out are the inputs and outputs of one matrix; queries, keys and values are
three matrices, however they are stored. The Xavier bound (Glorot & Bengio 2010, eq. 16) is
`gain * sqrt(6 / (d_in + d_out))`, PyTorch's bound for linear layers is `1 / sqrt(d_in)`.

| | queries, keys | values | output of attention | inner matrix | output of feed-forward |
|---|---|---|---|---|---|
| `xavier` | gain 1 | gain 1 | gain 1 | gain 1 | gain 1 |
| `pytorch` | PyTorch's | PyTorch's | PyTorch's | PyTorch's | PyTorch's |
| `fairseq` | gain 1/sqrt(2) | gain 1/sqrt(2) | gain 1 | PyTorch's | PyTorch's |
| `small-output` | gain 1/sqrt(2) | gain 1/sqrt(2) | gain 1/2 | gain 1 | gain 1/2 |
| `depth-scaled` | gain 1/sqrt(2) | gain 1/sqrt(2) | gain 1/sqrt(N) | gain 1 | gain 1/sqrt(N) |
| `deepnorm` | gain 1 | gain beta | gain beta | gain beta | gain beta |

Biases start from 0, except those of matrices with PyTorch's bound and those of queries, keys and values in `fairseq`,
which have PyTorch's bound.

Sources: `xavier` is tensor2tensor's. `pytorch` is PyTorch's default, which N19's published code keeps. `fairseq` is
fairseq 0.12.2: MultiheadAttention.reset_parameters and the plain `nn.Linear` of TransformerEncoderLayer. `depth-scaled`
divides the terms of the residual stream by the square root of the number N of terms (Radford et al. 2019, section 2.3;
the paper does not specify whether N counts layers or sub-layers; here, as in Megatron-LM, it counts sub-layers): 2 for
each encoder layer, 3 for each decoder layer. `deepnorm` is the initialisation for `model.norm: deep` (Wang et al. 2022,
figure 2, which has normal distributions of the same deviations).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from posnmt.config.schema import Init, Model

Part = Literal["query", "key", "value", "attention-output", "inner", "feed-forward-output"]
"""Which matrix of a sub-layer."""

_PYTORCH = None
"""Instead of a gain: PyTorch's bound."""


@dataclass(frozen=True)
class Start:
    """Initialises the linear layers of one stack's sub-layers.

    Attributes:
        init: the method, a row of the table above.
        sub_layers: N, the sub-layers of the stack.
        beta: the gain of DeepNorm.
    """

    init: Init = "xavier"
    sub_layers: int = 1
    beta: float = 1.0

    def __call__(self, linear: nn.Linear, *parts: Part) -> None:
        """Initialise the weight and bias of a linear layer.

        Args:
            linear: just constructed, so that its bias has PyTorch's initial values.
            parts: the matrices [d_out,d_in] that its weight consists of, from top to bottom.
        """
        for part, matrix in zip(parts, linear.weight.data.chunk(len(parts), dim=0), strict=True):
            gain = self._gain(part)
            if gain is _PYTORCH:
                bound = linear.in_features**-0.5
                nn.init.uniform_(matrix, -bound, bound)
            else:
                nn.init.xavier_uniform_(matrix, gain)
        if self.init != "pytorch" and (self.init != "fairseq" or parts[0] == "attention-output"):
            nn.init.zeros_(linear.bias)  # otherwise it keeps PyTorch's initial values

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
"""Vaswani et al. 2017; the default of modules that are built without a configuration."""


def start_of(config: Model, causal: bool) -> Start:
    """The initialisation of the sub-layers of the encoder, or of the decoder (`causal`)."""
    sub_layers = 3 * config.decoder.layers if causal else 2 * config.encoder.layers
    return Start(config.init, sub_layers, deepnorm(config, causal)[1])


def deepnorm(config: Model, causal: bool) -> tuple[float, float]:
    """The factor alpha of residual connections and the initial gain beta, of the encoder or decoder (`causal`).

    Wang et al. 2022 (DeepNet), figure 2, for N encoder and M decoder layers: 0.81 (N^4 M)^(1/16) and 0.87 (N^4
    M)^(-1/16) in the encoder, (3 M)^(1/4) and (12 M)^(-1/4) in the decoder.
    """
    encoder, decoder = config.encoder.layers, config.decoder.layers
    if causal:
        return (3 * decoder) ** 0.25, (12 * decoder) ** -0.25
    depth = (encoder**4 * decoder) ** (1 / 16)
    return 0.81 * depth, 0.87 / depth
