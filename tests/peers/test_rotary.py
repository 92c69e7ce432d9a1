"""RoPE and xPos against x-transformers, RoPE against RoFormer in Hugging Face transformers."""

from __future__ import annotations

import pytest
import torch

from posnmt_position.rotary import Rope, Xpos
from posnmt_position.seam import Span, Stack


@pytest.mark.parametrize("kind", [Rope, Xpos])
def test_products_are_those_of_x_transformers(kind):
    peer = pytest.importorskip(
        "x_transformers.x_transformers", reason="x-transformers is not installed: make test-peers"
    )
    torch.manual_seed(0)
    view = kind(Stack(32, 2, 1, True, 64), kind.Settings()).layer(0)
    q, k = torch.randn(2, 1, 2, 40, 16, dtype=torch.float64)
    ours_q, ours_k = view.rotate(q, k, Span(0, 40, q.device))
    rotary = peer.RotaryEmbedding(16, use_xpos=kind is Xpos).double()
    angles, scale = rotary.forward_from_seq_len(40)
    theirs_q = peer.apply_rotary_pos_emb(q, angles, scale)
    theirs_k = peer.apply_rotary_pos_emb(k, angles, 1 / scale if kind is Xpos else 1.0)
    # the two place xPos's scales at other middles, so that only products compare; angles are single precision there
    seen = torch.ones(40, 40).tril().bool()
    ours, theirs = ours_q @ ours_k.transpose(-1, -2), theirs_q @ theirs_k.transpose(-1, -2)
    torch.testing.assert_close(ours[..., seen], theirs[..., seen], rtol=1e-5, atol=1e-4)


def test_turned_queries_and_keys_are_those_of_roformer():
    peer = pytest.importorskip(
        "transformers.models.roformer.modeling_roformer", reason="transformers is not installed: make test-peers"
    )
    torch.manual_seed(0)
    view = Rope(Stack(32, 2, 1, False, 64), Rope.Settings()).layer(0)
    q, k = torch.randn(2, 1, 2, 40, 16)
    table = peer.RoFormerSinusoidalPositionalEmbedding(64, 16)
    table.weight.data = table.create_weight()
    positions = table(torch.Size([1, 40]))[None, None]
    theirs = peer.RoFormerSelfAttention.apply_rotary_position_embeddings(positions, q, k)
    for mine, other in zip(view.rotate(q, k, Span(0, 40, q.device)), theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-5)
