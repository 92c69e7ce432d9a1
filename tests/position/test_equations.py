"""Each part against plain loops written from its paper, in float64, forward and gradients."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt_position import relative
from posnmt_position.absolute import Learned, Sinusoidal, sinusoids
from posnmt_position.diagonal import collect, skew, spread, unskew
from posnmt_position.relative import Relative
from posnmt_position.seam import LayerPositions, Span, Stack
from tests.support.loops import (
    attended,
    cross_attention,
    feed_forward,
    linear,
    normalised,
    same_with_gradients,
    scaled,
    self_attention,
)
from tests.support.tiny import build, tokens

STACK = Stack(d_model=12, heads=3, layers=1, causal=False, max_length=32)


def clipped(offset: int, k: int) -> int:
    return max(-k, min(k, offset))


def relative_by_loops(q, k, v, keys, values, distance, causal, start=0):
    """N19 eq. 4-6 for one head, one query and one key at a time: q [Tq,D], k and v [Tk,D]."""
    rows = []
    for i in range(len(q)):
        visible = [j for j in range(len(k)) if not causal or j <= start + i]
        rel = [clipped(j - (start + i), distance) + distance for j in visible]
        e = [q[i] @ (k[j] + keys[r]) / math.sqrt(q.shape[1]) for j, r in zip(visible, rel, strict=True)]
        w_v = [0 if values is None else values[r] for r in rel]
        rows.append(attended(e, [v[j] + w for j, w in zip(visible, w_v, strict=True)]))
    return torch.stack(rows)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("distance", [1, 3, 16])
@pytest.mark.parametrize("with_values", [True, False])
@pytest.mark.parametrize("short", [True, False], ids=["by offset", "by clipped distance"])
def test_relative_is_shaw(causal, distance, with_values, short, monkeypatch):
    monkeypatch.setattr(relative, "SHORT", 1000 if short else 0)
    torch.manual_seed(1)
    scheme = Relative(STACK, Relative.Settings(distance=distance, values=with_values)).double()
    view = scheme.layer(0)
    q, k, v = (torch.randn(2, 3, 9, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    got = attend(Attention(scaled(q), k, v, LayerPositions([view]), Span(0, 9, q.device), None, causal, 0.0))
    additions = view.additions if with_values else None
    want = torch.stack(
        [
            torch.stack(
                [relative_by_loops(q[b, h], k[b, h], v[b, h], view.keys, additions, distance, causal) for h in range(3)]
            )
            for b in range(2)
        ]
    )
    same_with_gradients(got, want, [q, k, v, *view.parameters()])


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("frequencies", ["model", "head"])
def test_sinusoidal_vectors_are_the_first_features_of_the_encoding(frequencies, values):
    """R19 eq. 8-9, with eq. 1-2 for the encoding, whose exponent is over d_model; head: over the width of a head."""
    options = {"vectors": "sinusoidal", "distance": 5, "values": values}
    chosen = options if frequencies == "model" else {**options, "frequencies": "head"}  # model is the default
    scheme = Relative(STACK, Relative.Settings(**chosen))
    assert list(scheme.parameters()) == []  # nothing is trained
    assert scheme.state_dict() == {}
    view = scheme.layer(0)
    tables = [view.keys, *([view.additions] if values else [])]
    width = {"model": 12, "head": 4}[frequencies]
    for row, distance in enumerate(range(-5, 6)):
        for feature in range(4):
            beta = feature // 2
            angle = distance / 10000 ** (2 * beta / width)
            want = math.cos(angle) if feature % 2 else math.sin(angle)
            for table in tables:
                assert table[row, feature] == pytest.approx(want, abs=1e-12)
    assert all(table.shape == (11, 4) for table in tables)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("frequencies", ["model", "head"])
def test_relative_sinusoidal_attention_is_shaw_with_these_vectors(frequencies, causal):
    torch.manual_seed(1)
    settings = Relative.Settings(vectors="sinusoidal", distance=3, frequencies=frequencies)
    view = Relative(STACK, settings).double().layer(0)
    width = {"model": 12, "head": 4}[frequencies]
    vectors = torch.tensor(
        [
            [(math.sin if f % 2 == 0 else math.cos)(r / 10000 ** (2 * (f // 2) / width)) for f in range(4)]
            for r in range(-3, 4)
        ],
        dtype=torch.float64,
    )
    q, k, v = torch.randn(3, 1, 1, 9, 4, dtype=torch.float64)
    got = attend(Attention(scaled(q), k, v, LayerPositions([view]), Span(0, 9, q.device), None, causal, 0.0))
    want = relative_by_loops(q[0, 0], k[0, 0], v[0, 0], vectors, vectors, 3, causal)
    torch.testing.assert_close(got[0, 0], want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("short", [True, False], ids=["by offset", "by clipped distance"])
def test_relative_in_the_middle_of_a_target(short, monkeypatch):
    monkeypatch.setattr(relative, "SHORT", 1000 if short else 0)
    torch.manual_seed(1)
    view = Relative(STACK, Relative.Settings(distance=2)).double().layer(0)
    q = torch.randn(1, 1, 3, 4, dtype=torch.float64)
    k, v = torch.randn(2, 1, 1, 8, 4, dtype=torch.float64)
    got = attend(Attention(scaled(q), k, v, LayerPositions([view]), Span(5, 3, q.device), None, True, 0.0))
    want = relative_by_loops(q[0, 0], k[0, 0], v[0, 0], view.keys, view.additions, 2, True, start=5)
    torch.testing.assert_close(got[0, 0], want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("outer", [(), (2,), (2, 3)])
@pytest.mark.parametrize("tokens_first", [True, False])
@pytest.mark.parametrize(("queries", "keys"), [(1, 4), (4, 4), (3, 7), (5, 2)])
def test_skewing_reads_each_row_from_its_own_offset(queries, keys, tokens_first, outer):
    torch.manual_seed(1)
    by_offset = torch.randn(*outer, queries, queries + keys - 1, dtype=torch.float64)
    if tokens_first and outer:  # as products of queries with vectors lie
        by_offset = by_offset.transpose(-3, -2).contiguous().transpose(-3, -2)
    places = torch.arange(keys) - torch.arange(queries)[:, None] + queries - 1
    index = places.expand(*outer, queries, keys)
    torch.testing.assert_close(skew(by_offset), by_offset.gather(-1, index), rtol=0, atol=0)
    torch.autograd.gradcheck(skew, by_offset.requires_grad_(), fast_mode=True)
    if len(outer) < 2:
        return
    weights = torch.randn(*outer, queries, keys, dtype=torch.float64)
    want = torch.zeros(by_offset.shape, dtype=torch.float64).scatter(-1, index, weights)
    torch.testing.assert_close(unskew(weights), want, rtol=0, atol=0)
    torch.autograd.gradcheck(unskew, weights.requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("reach", [1, 2, 5, 20])
@pytest.mark.parametrize("start", [0, 1, 3, 9])
@pytest.mark.parametrize("queries", [1, 2, 4, 7])
def test_diagonals_equal_an_index(reach, start, queries, monkeypatch):
    torch.manual_seed(0)
    keys = start + queries
    table = torch.randn(2, queries, 2 * reach + 1, dtype=torch.float64)
    offsets = torch.arange(keys)[None] - (start + torch.arange(queries))[:, None]
    index = (offsets.clamp(-reach, reach) + reach).expand(2, queries, keys)
    torch.testing.assert_close(spread(table, start, keys), table.gather(-1, index), rtol=0, atol=0)
    weights = torch.randn(2, queries, keys, dtype=torch.float64)
    summed = torch.zeros_like(table).scatter_add(-1, index, weights)
    torch.testing.assert_close(collect(weights, start, reach), summed, rtol=0, atol=1e-13)
    torch.autograd.gradcheck(lambda rows: spread(rows, start, keys), table.requires_grad_(), fast_mode=True)
    torch.autograd.gradcheck(lambda found: collect(found, start, reach), weights.requires_grad_(), fast_mode=True)
    monkeypatch.setattr("torch.compiler.is_compiling", lambda: True)  # the form that the compiler is given
    torch.testing.assert_close(spread(table, start, keys), table.gather(-1, index), rtol=0, atol=0)
    torch.testing.assert_close(collect(weights, start, reach), summed, rtol=0, atol=0)


def test_sinusoids_are_vaswani():
    table = sinusoids(torch.arange(-3, 200), 10)
    for row, position in enumerate(range(-3, 200)):
        for i in range(5):
            angle = position / 10000 ** (2 * i / 10)
            assert table[row, 2 * i] == pytest.approx(math.sin(angle), abs=1e-12)
            assert table[row, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-12)


def test_absolute_schemes_add_a_vector_a_position():
    x = torch.randn(2, 3, 12, dtype=torch.float64)
    added, carry = Sinusoidal(STACK, Sinusoidal.Settings()).embed(x, Span(4, 3, x.device), None)
    torch.testing.assert_close(added - x, sinusoids(torch.tensor([4, 5, 6]), 12).expand(2, -1, -1), rtol=0, atol=1e-12)
    assert carry is None
    learned = Learned(STACK, Learned.Settings()).double()
    added, _ = learned.embed(x, Span(4, 3, x.device), None)
    torch.testing.assert_close(added - x, learned.table[4:7].expand(2, -1, -1), rtol=0, atol=1e-12)


def test_the_whole_model_is_a_post_norm_transformer():
    """One sentence through a 2+2 layer model, written out from the paper: scaling, sinusoids, LN(x + Sublayer(x))."""
    model, heads, d = build(system="transformer"), 4, 16
    source, target = tokens(1, 6)[0], tokens(1, 5, seed=1)[0]

    x = model.source.table.weight[source] * math.sqrt(d) + sinusoids(torch.arange(6), d)
    for layer in model.encoder:
        x = normalised(x + self_attention(x, layer.attention, heads, causal=False), layer.attention_norm)
        x = normalised(x + feed_forward(x, layer.feed_forward), layer.feed_forward_norm)
    y = model.target.table.weight[target] * math.sqrt(d) + sinusoids(torch.arange(5), d)
    for layer in model.decoder:
        y = normalised(y + self_attention(y, layer.attention, heads, causal=True), layer.attention_norm)
        y = normalised(y + cross_attention(y, x, layer.cross, heads), layer.cross_norm)
        y = normalised(y + feed_forward(y, layer.feed_forward), layer.feed_forward_norm)
    torch.testing.assert_close(model(source[None], None, target[None])[0], y, rtol=0, atol=1e-12)
    torch.testing.assert_close(model.project(y), linear(y, model.output), rtol=0, atol=1e-12)


@pytest.mark.parametrize("system", ["none", "relative-key", "relative"])
def test_every_attention_path_agrees_with_the_plain_one(system, monkeypatch):
    """Small and large, training and evaluation, masks or none: one function, gradients included."""
    model, source, target = build(system=system), tokens(2, 9), tokens(2, 7, seed=1)
    lengths = torch.tensor([9, 4])

    def run(small):
        monkeypatch.setattr("posnmt.model.kernels.choose.SMALL", small)
        model.zero_grad()
        hidden = model(source, lengths, target)
        hidden.square().sum().backward()
        return [hidden.detach(), *(weight.grad.clone() for weight in model.parameters() if weight.grad is not None)]

    for plain, fused in zip(run(1 << 20), run(0), strict=True):
        torch.testing.assert_close(plain, fused, rtol=0, atol=1e-10)


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_the_sign_of_the_distance_only_renames_features_of_a_head(side, values):
    """R19 eq. 3 and 8 read: query minus key, eq. 4: key minus query. Sines change their sign, cosines do not.

    A model whose queries, keys and values have the other sign in these features, as has what reads the values, is the
    same function; and weights that start symmetrically around 0 are as probable.
    """
    scheme = {"scheme": "relative", "vectors": "sinusoidal", "distance": 3, "values": values}
    part = {name: {"position": [scheme]} for name in ("encoder", "decoder")}
    ours, printed = build(**part), build(**part)
    printed.load_state_dict(ours.state_dict())
    layers, views = getattr(printed, side), getattr(printed, f"{side}_views")
    sines = torch.tensor([-1.0, 1.0] * 8, dtype=torch.float64)  # of each head: sin, cos, sin, cos
    source, target = tokens(2, 9), tokens(2, 7, seed=1)
    want = ours(source, None, target)
    for view in views:
        for each in view.biasing:
            each.keys.copy_(each.keys.flip(0))  # of the distance i - j
            if values:
                each.additions.copy_(each.additions.flip(0))
    assert (printed(source, None, target) - want).abs().max() > 1e-3
    with torch.no_grad():
        for layer in layers:
            attention = layer.attention
            parts = sines.repeat(3) if values else torch.cat([sines.repeat(2), torch.ones(16)])
            attention.project.weight.mul_(parts[:, None])
            attention.project.bias.mul_(parts)
            if values:
                attention.output.weight.mul_(sines)
    torch.testing.assert_close(printed(source, None, target), want, rtol=0, atol=1e-12)
