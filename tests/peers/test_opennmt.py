"""Self-attention with copied weights against OpenNMT-py: Shaw's vectors, RoPE, ALiBi.

OpenNMT-py takes the softmax in single precision, whatever the type of its input; so the tolerance.
"""

from __future__ import annotations

import pytest
import torch

from posnmt.model.attention import SelfAttention
from posnmt.model.positions import scheme_class
from posnmt_position.seam import LayerPositions, Span, Stack
from tests.peers.opennmt import opennmt

HEADS, D, LENGTH = 4, 32, 23


def ours(name, causal, **options):
    torch.manual_seed(0)
    kind = scheme_class(name)
    stack = Stack(D, HEADS, 1, causal, 64)
    scheme = kind(stack, kind.Settings(**options)).double()
    return SelfAttention(D, HEADS, 0.0, causal).double().eval(), scheme.layer(0)


def theirs(attention, maximum):
    """OpenNMT-py's attention with the weights of ours."""
    peer = opennmt("modules.multi_headed_attn").MultiHeadedAttention(
        HEADS, D, dropout=0.0, is_decoder=False, max_relative_positions=maximum, attn_type="self", add_qkvbias=True
    )
    peer = peer.double().eval()
    with torch.no_grad():
        for part, name in zip(range(3), ("linear_query", "linear_keys", "linear_values"), strict=True):
            getattr(peer, name).weight.copy_(attention.project.weight.chunk(3)[part])
            getattr(peer, name).bias.copy_(attention.project.bias.chunk(3)[part])
        peer.final_linear.weight.copy_(attention.output.weight)
        peer.final_linear.bias.copy_(attention.output.bias)
    return peer


def compare(attention, view, peer, causal, tolerance):
    torch.manual_seed(1)
    x = torch.randn(2, LENGTH, D, dtype=torch.float64, requires_grad=True)
    got = attention(x, LayerPositions([view]), Span(0, LENGTH, x.device), None)
    hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1) if causal else None
    mask = None if hidden is None else hidden.expand(2, 1, -1, -1)  # True where a key is hidden
    want, _ = peer(x, x, x, mask=mask, return_attn=True)
    torch.testing.assert_close(got, want, rtol=0, atol=tolerance)
    upstream = torch.randn_like(got)
    torch.testing.assert_close(
        torch.autograd.grad(got, x, upstream)[0], torch.autograd.grad(want, x, upstream)[0], rtol=0, atol=tolerance
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("distance", [3, 16])
def test_shaw(causal, distance):
    """OpenNMT-py has one table for keys and values; ours are made equal."""
    attention, view = ours("relative", causal, distance=distance)
    peer = theirs(attention, distance)
    with torch.no_grad():
        view.additions.copy_(view.keys)
        peer.relative_positions_embeddings.weight.copy_(view.keys)
    compare(attention, view, peer, causal, 1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_rope(causal):
    """OpenNMT-py turns by single-precision angles."""
    attention, view = ours("rope", causal)
    compare(attention, view, theirs(attention, -1), causal, 1e-5)


def test_alibi():
    attention, view = ours("alibi", causal=True)
    compare(attention, view, theirs(attention, -2), True, 1e-5)
