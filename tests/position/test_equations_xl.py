"""Transformer-XL's terms against loops from the paper, in float64, forward and gradients."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt_position.diagonal import skew
from posnmt_position.seam import LayerPositions, Span, Stack
from posnmt_position.xl import TransformerXL
from tests.support.loops import attended, same_with_gradients, scaled
from tests.support.tiny import config, encoder

HEADS, WIDTH, D = 3, 4, 12


def scheme_of(causal):
    torch.manual_seed(1)
    scheme = TransformerXL(Stack(D, HEADS, 2, causal, 64), TransformerXL.Settings()).double()
    torch.nn.init.normal_(scheme.biases)
    return scheme


def by_loops(q, k, v, view, head, causal, start):
    """Dai et al. 2019, section 3.3, one head, one query and one key at a time: q [Tq,D], k and v [Tk,D]."""
    u, w = view.biases[:, head]
    w_r = view.project.weight[head * WIDTH : (head + 1) * WIDTH]
    rows = []
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if not causal or j <= start + i]
        e = []
        for j in seen:
            distance = start + i - j
            r = torch.tensor(
                [(math.sin, math.cos)[n % 2](distance / 10000 ** (2 * (n // 2) / D)) for n in range(D)],
                dtype=torch.float64,
            )
            e.append((q[i] @ k[j] + q[i] @ (w_r @ r) + u @ k[j] + w @ (w_r @ r)) / math.sqrt(WIDTH))
        rows.append(attended(e, [v[j] for j in seen]))
    return torch.stack(rows)


@pytest.mark.parametrize(("causal", "start", "queries"), [(False, 0, 6), (True, 0, 6), (True, 4, 2), (True, 5, 1)])
def test_the_four_terms(causal, start, queries):
    view = scheme_of(causal).layer(1)
    q = torch.randn(2, HEADS, queries, WIDTH, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, HEADS, 6, WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(2))
    views, span = LayerPositions([view]), Span(start, queries, q.device)
    turned = views.rotate(scaled(q), k, span)
    got = attend(Attention(*turned, v, views, span, None, causal, 0.0, (scaled(q),)))
    want = torch.stack(
        [
            torch.stack([by_loops(q[b, h], k[b, h], v[b, h], view, h, causal, start) for h in range(HEADS)])
            for b in range(2)
        ]
    )
    same_with_gradients(got, want, [q, k, v, *view.parameters()])


def test_u_and_v_are_those_of_all_layers():
    scheme = scheme_of(causal=False)
    assert scheme.layer(0).biases is scheme.layer(1).biases
    assert scheme.layer(0).project is not scheme.layer(1).project


@pytest.mark.parametrize("compiling", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 5), (3, 3), (4, 7)])
def test_skewing_reads_each_row_from_its_place(queries, keys, compiling, monkeypatch):
    monkeypatch.setattr("torch.compiler.is_compiling", lambda: compiling)
    values = torch.randn(2, queries, queries + keys - 1)
    got = skew(values)
    for i in range(queries):
        for j in range(keys):
            assert torch.equal(got[:, i, j], values[:, i, j - i + queries - 1])


def test_an_odd_width_is_refused():
    with pytest.raises(UserError, match="transformer-xl needs an even d_model; 15 is odd"):
        config(**encoder({"scheme": "transformer-xl"}), d_model=15, heads=3)
