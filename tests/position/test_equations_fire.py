"""FIRE against plain loops from its published code, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt_position.fire import Fire
from posnmt_position.seam import LayerPositions, Span, Stack
from tests.support.loops import attended, same_with_gradients, scaled
from tests.support.tiny import both, build, config, encoder, tokens


def fire(causal, **options):
    stack = Stack(d_model=12, heads=3, layers=2, causal=causal, max_length=32)
    torch.manual_seed(2)
    return Fire(stack, Fire.Settings(width=5, **options)).double()


def psi(view, x):
    return torch.log(torch.abs(view.c * x) + 1)


def bias_by_loops(view, h, i, j, farthest, first_threshold):
    """One head, query i, key j; `farthest` is the largest distance that the normaliser is to cover."""
    threshold = torch.abs(view.threshold * first_threshold)
    normaliser = psi(view, max(threshold, torch.tensor(float(farthest), dtype=torch.float64))) + 1e-6
    x = psi(view, abs(i - j)) / normaliser * (1 if i > j else -1)
    total = 0
    for unit in range(5):
        value = view.rise.weight[unit, 0] * x + view.rise.bias[unit]
        total = total + view.fall.weight[h, unit] * (value if value > 0 else 0 * value)
    return total


@pytest.mark.parametrize("threshold", [4.5, 512.0])  # 4.5: later queries are past it
@pytest.mark.parametrize(("start", "queries"), [(0, 9), (11, 1), (3, 4)])
def test_fire_in_a_decoder(start, queries, threshold):
    scheme = fire(True, threshold=threshold)
    view = scheme.layer(1)
    q = torch.randn(2, 3, queries, 4, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, 3, start + queries, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    got = attend(Attention(scaled(q), k, v, LayerPositions([view]), Span(start, queries, q.device), None, True, 0.0))

    def row(b, h, t):
        i = start + t
        e = [q[b, h, t] @ k[b, h, j] / math.sqrt(4) + bias_by_loops(view, h, i, j, i, threshold) for j in range(i + 1)]
        return attended(e, v[b, h, : i + 1])

    want = torch.stack([row(b, h, t) for b in range(2) for h in range(3) for t in range(queries)]).view_as(got)
    same_with_gradients(got, want, [q, k, v, *view.parameters()])


@pytest.mark.parametrize("threshold", [4.5, 512.0])
@pytest.mark.parametrize("padded", [False, True])
def test_fire_in_an_encoder(threshold, padded):
    scheme = fire(False, threshold=threshold)
    view = scheme.layer(0)
    q, k, v = (torch.randn(2, 3, 8, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    lengths = torch.tensor([8, 6]) if padded else None
    real = [8, 6] if padded else [8, 8]
    mask = (torch.arange(8) < lengths[:, None])[:, None, None] if padded else None
    got = attend(Attention(scaled(q), k, v, LayerPositions([view]), Span(0, 8, q.device, lengths), mask, False, 0.0))

    def row(b, h, i):
        last = real[b] - 1
        e = [
            q[b, h, i] @ k[b, h, j] / math.sqrt(4) + bias_by_loops(view, h, i, j, last, threshold)
            for j in range(real[b])
        ]
        return attended(e, v[b, h, : real[b]])

    places = [(b, h, i) for b in range(2) for h in range(3) for i in range(real[b])]
    want = torch.stack([row(*place) for place in places])
    same_with_gradients(torch.stack([got[place] for place in places]), want, [q, k, v, *view.parameters()])


def test_one_network_a_layer_or_one_for_all():
    apart, shared = fire(True), fire(True, shared=True)
    assert apart.layer(0) is not apart.layer(1)
    assert shared.layer(0) is shared.layer(1)
    assert sum(p.numel() for p in apart.parameters()) == 2 * sum(p.numel() for p in shared.parameters())


def test_the_gradient_of_a_shared_network_is_the_sum_over_layers(monkeypatch):
    model = build(**both({"scheme": "fire", "shared": True, "threshold": 3})).train()
    source, target, lengths = tokens(2, 6), tokens(2, 5), torch.tensor([6, 3])

    def gradients():
        model.zero_grad()
        model(source, lengths, target).square().sum().backward()
        return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    once = gradients()
    monkeypatch.setattr(Span, "shared", property(lambda span: {}))
    monkeypatch.setattr(Span, "tables", property(lambda span: {}))
    for one, other in zip(once, gradients(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_half_precision_tells_far_neighbours_apart():
    """The network computes in single precision under autocast: 1,000 and 1,001 tokens are not one distance."""
    view = fire(False).float().layer(0)
    span = Span(0, 1100, torch.device("cpu"))
    q = torch.zeros(1, 4, 1100, 4)
    plain = view.logits(q, q, span)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(view.logits(q, q, Span(0, 1100, torch.device("cpu"))), plain, rtol=0, atol=0)
    assert plain.dtype == torch.float32
    assert (plain[:, 0, 1000] - plain[:, 0, 1001]).abs().max() > 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"width": 0}, "fire.width: Input should be greater than or equal to 1, got 0"),
        ({"threshold": 0}, "fire.threshold: Input should be greater than 0, got 0"),
        ({"treshold": 9}, "fire has no option 'treshold'; did you mean 'threshold'?"),
    ],
)
def test_refusals(options, sentence):
    with pytest.raises(UserError) as refused:
        config(**encoder({"scheme": "fire", **options}))
    assert sentence in str(refused.value)


def test_lines_are_the_network_with_its_gradients(monkeypatch):
    view = fire(True).layer(0)
    with torch.no_grad():
        view.rise.weight[1] = 0  # a unit that never turns
        view.rise.weight[2], view.rise.bias[2] = view.rise.weight[3], view.rise.bias[3]  # two that turn together

    def found(few):
        monkeypatch.setattr("posnmt_position.fire.FEW", few)
        q = torch.zeros(1, 1, 40, 1, dtype=torch.float64)
        bias = view.logits(q, q, Span(3, 40, torch.device("cpu")))
        return [bias, *torch.autograd.grad(bias.square().sum(), list(view.parameters()))]

    for one, other in zip(found(0), found(10**6), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
