"""Biases with copied weights against x-transformers (ALiBi, T5, CoPE) and transformers (T5)."""

from __future__ import annotations

import pytest
import torch

from posnmt_position.bias import Alibi, T5Bias, bucket
from posnmt_position.cope import Cope
from posnmt_position.seam import Span, Stack

peer = pytest.importorskip("x_transformers", reason="x-transformers is not installed: make test-peers")
CPU = torch.device("cpu")
SPANS = [(0, 37), (36, 1), (20, 17)]


def stack(causal, heads):
    return Stack(d_model=4 * heads, heads=heads, layers=1, causal=causal, max_length=64)


def bias(view, span, heads):
    q = torch.randn(1, heads, span.length, 4)
    return view.logits(q, q, span)


@pytest.mark.parametrize("heads", [1, 6, 8, 12])
@pytest.mark.parametrize(("start", "queries"), SPANS)
@pytest.mark.parametrize("causal", [False, True])
def test_alibi(causal, start, queries, heads):
    ours = Alibi(stack(causal, heads), Alibi.Settings()).layer(0)
    theirs = peer.x_transformers.AlibiPositionalBias(heads)
    want = theirs(queries, start + queries)
    torch.testing.assert_close(bias(ours, Span(start, queries, CPU), heads), want, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("start", "queries"), SPANS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20)])
def test_t5_bias_of_x_transformers(causal, start, queries, buckets, distance):
    ours = T5Bias(stack(causal, 6), T5Bias.Settings(buckets=buckets, distance=distance)).layer(0)
    theirs = peer.x_transformers.RelativePositionBias(
        1.0, causal=causal, num_buckets=buckets, max_distance=distance, heads=6
    )
    with torch.no_grad():
        theirs.relative_attention_bias.weight.copy_(ours.table)
    want = theirs(queries, start + queries)
    torch.testing.assert_close(bias(ours, Span(start, queries, CPU), 6), want, rtol=0, atol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_t5_bias_of_transformers(causal):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: make test-peers")
    from transformers.models.t5.modeling_t5 import T5Attention

    ours = T5Bias(stack(causal, 6), T5Bias.Settings()).layer(0)
    config = transformers.T5Config(d_model=24, d_kv=4, num_heads=6, is_decoder=causal)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    with torch.no_grad():
        theirs.relative_attention_bias.weight.copy_(ours.table)
    got = bias(ours, Span(0, 300, CPU), 6)
    torch.testing.assert_close(got, theirs.compute_bias(300, 300)[0], rtol=0, atol=0)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (16, 64), (8, 20), (64, 500), (32, 100)])
def test_every_bucket_is_that_of_transformers(causal, buckets, distance):
    """Double precision here, single precision there: no offset falls on the other side of a bound."""
    pytest.importorskip("transformers", reason="transformers is not installed: make test-peers")
    from transformers.models.t5.modeling_t5 import T5Attention

    offsets = range(-2 * distance, 2 * distance + 1)
    want = T5Attention._relative_position_bucket(torch.tensor(offsets), not causal, buckets, distance)
    assert [bucket(offset, buckets, distance, causal) for offset in offsets] == want.tolist()


@pytest.mark.parametrize("positions", [3, 64])
def test_cope(positions):
    """x-transformers takes the masked, scaled attention logits; its term is ours where a key may be seen."""
    torch.manual_seed(0)
    ours = Cope(stack(True, 6), Cope.Settings(positions=positions)).double().layer(0)
    theirs = peer.x_transformers.CoPE(4, 6, positions).double()
    with torch.no_grad():
        theirs.pos_emb.copy_(ours.vectors[0])
    q, k = (torch.randn(2, 6, 23, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    hidden = torch.ones(23, 23, dtype=torch.bool).triu(1)
    logits = (q @ k.transpose(-1, -2)).masked_fill(hidden, -1e9)
    got = ours.logits(q, k, Span(0, 23, CPU)).masked_fill(hidden, 0)
    want = theirs(q, logits).masked_fill(hidden, 0)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
    upstream = torch.randn_like(got)
    grads = (torch.autograd.grad(each, [q, k], upstream) for each in (got, want))
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)
