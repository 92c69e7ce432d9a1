"""Transformer-XL's terms against XLNet's attention in Hugging Face transformers, which has the same four."""

from __future__ import annotations

import pytest
import torch

from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt_position.absolute import sinusoids
from posnmt_position.seam import LayerPositions, Span, Stack
from posnmt_position.xl import TransformerXL

peer = pytest.importorskip(
    "transformers.models.xlnet.modeling_xlnet", reason="transformers is not installed: make test-peers"
)
HEADS, WIDTH, D, LENGTH = 3, 4, 12, 9


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_xlnet(causal):
    torch.manual_seed(0)
    scheme = TransformerXL(Stack(D, HEADS, 1, causal, 64), TransformerXL.Settings()).double()
    torch.nn.init.normal_(scheme.biases)
    view = scheme.layer(0)
    q, k, v = torch.randn(3, 2, HEADS, LENGTH, WIDTH, dtype=torch.float64)
    views, span = LayerPositions([view]), Span(0, LENGTH, q.device)
    scaled = q * WIDTH**-0.5
    ours = attend(Attention(*views.rotate(scaled, k, span), v, views, span, None, causal, 0.0, (scaled,)))

    settings = peer.XLNetConfig(d_model=D, n_head=HEADS, d_head=WIDTH, dropout=0.0)
    theirs = peer.XLNetRelativeAttention(settings).double().eval()
    with torch.no_grad():
        theirs.r_w_bias.copy_(scheme.biases[0])
        theirs.r_r_bias.copy_(scheme.biases[1])
    distances = torch.arange(LENGTH, -LENGTH, -1)
    r = view.project(sinusoids(distances, D)).unflatten(-1, (HEADS, WIDTH))[:, None].expand(-1, 2, -1, -1)
    hidden = torch.ones(LENGTH, LENGTH).triu(1)[:, :, None, None].double() if causal else None
    heads = [each.permute(2, 0, 1, 3) for each in (q, k, v)]  # [T,B,H,D]
    want = theirs.rel_attn_core(*heads, r, attn_mask=hidden).permute(1, 2, 0, 3)
    torch.testing.assert_close(ours, want, rtol=0, atol=1e-12)
