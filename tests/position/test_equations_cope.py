"""CoPE against plain loops from its paper, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt_position.cope import Cope
from posnmt_position.seam import LayerPositions, Span, Stack
from tests.support.loops import attended, same_with_gradients, scaled
from tests.support.tiny import config, encoder


def cope(causal, positions):
    stack = Stack(d_model=12, heads=3, layers=2, causal=causal, max_length=32)
    torch.manual_seed(3)
    return Cope(stack, Cope.Settings(positions=positions)).double()


def interpolated(vectors, place):
    """e[p] for a p between two integers."""
    low, high = math.floor(place.item()), math.ceil(place.item())
    share = place - low
    return share * vectors[high] + (1 - share) * vectors[low]


def row_by_loops(q, k, v, vectors, i, visible):
    """One query at position i: q [D], k and v [Tk,D], vectors [directions,P,D]."""
    scale = 1 / math.sqrt(len(q))
    e = []
    for j in visible:
        between = range(j, i + 1) if j <= i else range(i, j + 1)
        place = sum(torch.sigmoid(scale * (q @ k[n])) for n in between)
        limit = vectors.shape[1] - 1
        if place > limit:
            place = torch.tensor(float(limit), dtype=torch.float64)
        e.append(scale * (q @ (k[j] + interpolated(vectors[0 if j <= i else 1], place))))
    return attended(e, [v[j] for j in visible])


@pytest.mark.parametrize("positions", [2, 4, 64])  # few: most places are clamped
@pytest.mark.parametrize(("start", "queries"), [(0, 9), (11, 1), (3, 4)])
def test_cope_in_a_decoder(start, queries, positions):
    scheme = cope(True, positions)
    view = scheme.layer(1)
    assert view.vectors.shape == (1, positions, 4)
    q = torch.randn(2, 3, queries, 4, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, 3, start + queries, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    got = attend(Attention(scaled(q), k, v, LayerPositions([view]), Span(start, queries, q.device), None, True, 0.0))
    want = torch.stack(
        [
            row_by_loops(q[b, h, t], k[b, h], v[b, h], view.vectors, start + t, range(start + t + 1))
            for b in range(2)
            for h in range(3)
            for t in range(queries)
        ]
    ).view_as(got)
    same_with_gradients(got, want, [q, k, v, *view.parameters()])


@pytest.mark.parametrize("positions", [2, 4, 64])
@pytest.mark.parametrize("padded", [False, True])
def test_cope_in_an_encoder(padded, positions):
    scheme = cope(False, positions)
    view = scheme.layer(0)
    assert view.vectors.shape == (2, positions, 4)
    q, k, v = (torch.randn(2, 3, 8, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    lengths = torch.tensor([8, 6]) if padded else None
    real = [8, 6] if padded else [8, 8]
    mask = (torch.arange(8) < lengths[:, None])[:, None, None] if padded else None
    got = attend(Attention(scaled(q), k, v, LayerPositions([view]), Span(0, 8, q.device, lengths), mask, False, 0.0))
    places = [(b, h, i) for b in range(2) for h in range(3) for i in range(real[b])]
    want = torch.stack(
        [row_by_loops(q[b, h, i], k[b, h], v[b, h], view.vectors, i, range(real[b])) for b, h, i in places]
    )
    same_with_gradients(torch.stack([got[place] for place in places]), want, [q, k, v, *view.parameters()])


def test_open_gates_count_tokens():
    """Where every gate is 1, CoPE is a vector for the number of tokens, clipped: q . e[i - j + 1]."""
    view = cope(True, 4).layer(0)
    q = torch.full((1, 1, 6, 4), 30.0, dtype=torch.float64)
    got = view.logits(q, q, Span(0, 6, q.device))
    for i in range(6):
        for j in range(i + 1):
            assert got[0, 0, i, j].item() == pytest.approx((q[0, 0, i] @ view.vectors[0, min(i - j + 1, 3)]).item())


def test_half_precision_counts_in_single_precision():
    """Places of a long text are added up in float32, whatever the type of the queries."""
    view = cope(True, 2000).layer(0)
    with torch.no_grad():
        view.vectors.copy_(torch.arange(2000.0)[None, :, None].expand(1, 2000, 4) / 4096)
    q, k = torch.full((1, 1, 1, 4), 4.0), torch.full((1, 1, 1500, 4), 4.0)
    wide = view.float().logits(q, k, Span(1499, 1, q.device))
    half = view.logits(q.bfloat16(), k.bfloat16(), Span(1499, 1, q.device))
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), wide, rtol=0.01, atol=0.01)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"positions": 1}, "cope.positions: Input should be greater than or equal to 2, got 1"),
        ({"maximum": 9}, "cope has no option 'maximum'; its options: positions"),
    ],
)
def test_refusals(options, sentence):
    with pytest.raises(UserError) as refused:
        config(**encoder({"scheme": "cope", **options}))
    assert sentence in str(refused.value)
