"""FoX, the Forgetting Transformer: each token decides how much of the text before it is forgotten (Lin et al. 2025)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt_position.linear import Linear
from posnmt_position.options import Options
from posnmt_position.seam import LayeredScheme, LayerPosition, Span, Stack


class ForgetGate(LayerPosition):
    """The logit term `D_ij = sum_{l=j+1}^{i} log f_l`, with the gate `f_l = sigmoid(w x_l + b)` of each head.

    (Lin et al. 2025, section 3.) x is the input of the layer's self-attention. The paper is about decoders. In an
    encoder a key can be to the right of its query; then the sum is that of i and j exchanged:
    `D_ij = D_ji = sum_{l=i+1}^{j} log f_l`. Padding at the end of a row is never between two words.

    The sums are computed in float32 at least. At first w is small and b = 0, so that f is about 1/2.
    """

    reads_keys = False

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.gate = Linear(d_model, heads)
        nn.init.normal_(self.gate.weight, std=0.02)
        nn.init.zeros_(self.gate.bias)

    def keep(self, x: Tensor, span: Span) -> Tensor:
        """Compute log f_l of each token, [B,H,T,1], in float32 or wider."""
        opened = self.gate(x).transpose(1, 2).unsqueeze(-1)
        return functional.logsigmoid(opened.to(torch.promote_types(opened.dtype, torch.float32)))

    def logits(self, q: Tensor, k: Tensor, span: Span) -> Tensor:
        """Sum log f_l over the tokens between query and key: [B,H,Tq,Tk], 0 or less."""
        sums = span.kept[self].cumsum(2)  # up to each token, itself included
        of_queries = sums[:, :, span.start : span.start + span.length]
        return -(of_queries - sums.mT).abs().to(q.dtype)


class Fox(LayeredScheme):
    """`e_ij = q_i k_j + sum log f_l`, f_l the forget gate of each token l between i and j (Lin et al. 2025).

    Each layer has its own gates; `ForgetGate` has the equations.
    """

    not_cross = "forgets the words between a query and a key, which are in one sentence"

    class Settings(Options):
        """Take no options: all numbers of `fox` are trained."""

    def __init__(self, stack: Stack, settings: Settings) -> None:
        super().__init__()
        self.layers = nn.ModuleList(ForgetGate(stack.d_model, stack.heads) for _ in range(stack.layers))
