"""FoX against plain loops from its paper, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.model.attention import SelfAttention
from posnmt.model.state import LayerCache
from posnmt_position.forgetting import Fox
from posnmt_position.seam import LayerPositions, Span, Stack
from tests.support.loops import same_with_gradients

HEADS, WIDTH, LENGTH = 3, 4, 8


def fox(causal):
    torch.manual_seed(3)
    scheme = Fox(Stack(HEADS * WIDTH, HEADS, layers=2, causal=causal, max_length=32), Fox.Settings()).double()
    for parameter in scheme.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return scheme.layer(1)


def attention_by_loops(layer, view, x, i, visible):
    """[d] what token i of x [T,d] attends to among the visible tokens."""
    d = HEADS * WIDTH
    weight, bias = layer.project.weight, layer.project.bias
    heads = []
    for h in range(HEADS):
        q, k, v = (
            [weight[part * d + h * WIDTH :][:WIDTH] @ each + bias[part * d + h * WIDTH :][:WIDTH] for each in x]
            for part in range(3)
        )
        e = []
        for j in visible:
            between = range(j + 1, i + 1) if j <= i else range(i + 1, j + 1)
            forgotten = 1.0
            for n in between:
                forgotten = forgotten * torch.sigmoid(view.gate.weight[h] @ x[n] + view.gate.bias[h])
            e.append(torch.exp(q[i] @ k[j] / math.sqrt(WIDTH)) * forgotten)  # the paper's F_ij exp(q_i k_j)
        heads.append(sum(each * v[j] for each, j in zip(e, visible, strict=True)) / sum(e))
    return layer.output(torch.cat(heads))


def attention(causal):
    torch.manual_seed(4)
    x = torch.randn(2, LENGTH, HEADS * WIDTH, dtype=torch.float64, requires_grad=True)
    return SelfAttention(HEADS * WIDTH, HEADS, 0.0, causal).double(), x


@pytest.mark.parametrize("pieces", [(8,), (3, 1, 4), (1,) * 8])
def test_fox_in_a_decoder(pieces):
    (layer, x), view, cache, start, got = attention(True), fox(True), LayerCache(), 0, []
    for length in pieces:
        span = Span(start, length, x.device)
        got.append(layer(x[:, start : start + length], LayerPositions([view]), span, None, cache))
        start += length
    want = torch.stack([attention_by_loops(layer, view, row, i, range(i + 1)) for row in x for i in range(LENGTH)])
    same_with_gradients(torch.cat(got, 1), want.view_as(x), [x, *layer.parameters(), *view.parameters()])


@pytest.mark.parametrize("real", [(8, 8), (8, 5)])
def test_fox_in_an_encoder(real):
    (layer, x), view, lengths = attention(False), fox(False), torch.tensor(real)
    mask = (torch.arange(LENGTH) < lengths[:, None])[:, None, None]
    got = layer(x, LayerPositions([view]), Span(0, LENGTH, x.device, lengths), mask)
    places = [(b, i) for b in range(2) for i in range(real[b])]
    want = torch.stack([attention_by_loops(layer, view, x[b], i, range(real[b])) for b, i in places])
    got = torch.stack([got[place] for place in places])
    same_with_gradients(got, want, [x, *layer.parameters(), *view.parameters()])


def test_gates_are_summed_in_single_precision():
    """The sums of a long text are computed in float32, whatever the type of the queries."""
    view, length = fox(True).bfloat16(), 1500
    x = torch.randn(1, length, HEADS * WIDTH).bfloat16()
    span = Span(length - 2, 2, x.device, width=length)
    span.kept[view] = view.keep(x, span)
    assert span.kept[view].dtype == torch.float32
    got = view.logits(*torch.zeros(2, 1, HEADS, 2, WIDTH).bfloat16(), span)[0, :, -1, -3]
    opened = [torch.nn.functional.logsigmoid(view.gate(x[0, place]).float()) for place in (-2, -1)]
    torch.testing.assert_close(got, (opened[0] + opened[1]).bfloat16(), rtol=0.01, atol=0.01)
