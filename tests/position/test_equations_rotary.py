"""RoPE and xPos against complex numbers, one pair of features, one query and one key at a time, in float64."""

from __future__ import annotations

import cmath
import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.attention import SelfAttention
from posnmt.model.state import LayerCache
from posnmt_position.absolute import Sinusoidal, sinusoids
from posnmt_position.errors import PositionError
from posnmt_position.rotary import Rope, Xpos
from posnmt_position.seam import LayerPositions, Span, Stack
from tests.support.loops import attended, same_with_gradients
from tests.support.tiny import build, config, decoder, encoder, tokens

HEADS, D, LENGTH = 2, 12, 7


def scheme_of(kind, causal, **options):
    return kind(Stack(D, HEADS, 1, causal, 64), kind.Settings(**options)).double()


def product(q, k, distance, base, zeta_power):
    """Su et al. 2021 eq. 12 and 16: the real part of sum q_n conj(k_n) e^(i distance theta_n), and xPos's decay."""
    total = torch.zeros((), dtype=torch.float64)
    for n in range(len(q) // 2):
        turn = cmath.exp(1j * distance * base ** (-2 * n / len(q)))
        zeta = (2 * n / len(q) + 0.4) / 1.4
        real = q[2 * n] * k[2 * n] + q[2 * n + 1] * k[2 * n + 1]
        imaginary = q[2 * n + 1] * k[2 * n] - q[2 * n] * k[2 * n + 1]
        total = total + zeta ** (zeta_power * distance) * (real * turn.real - imaginary * turn.imag)
    return total


def attention_by_loops(x, attention, causal, base, zeta_power, factor=1.0):
    width = D // HEADS
    mixed = x @ attention.project.weight.T + attention.project.bias
    rows = []
    for i in range(len(x)):
        heads = []
        for head in range(HEADS):
            q, k, v = (mixed[:, part * D + head * width : part * D + (head + 1) * width] for part in range(3))
            seen = range(i + 1 if causal else len(x))
            e = [product(q[i], k[j], (i - j) / factor, base, zeta_power) / math.sqrt(width) for j in seen]
            heads.append(attended(e, [v[j] for j in seen]))
        rows.append(torch.cat(heads))
    return torch.stack(rows) @ attention.output.weight.T + attention.output.bias


@pytest.mark.parametrize(("kind", "causal"), [(Rope, False), (Rope, True), (Xpos, True)])
@pytest.mark.parametrize(
    ("base", "factor", "compiling"), [(10_000.0, 1.0, False), (50.0, 1.0, False), (50.0, 2.5, False), (50.0, 2.5, True)]
)
def test_products_know_distances(kind, causal, base, factor, compiling, monkeypatch):
    monkeypatch.setattr("torch.compiler.is_compiling", lambda: compiling)
    torch.manual_seed(0)
    scheme = scheme_of(kind, causal, base=base)
    assert scheme.interpolate(factor)
    attention = SelfAttention(D, HEADS, 0.0, causal).double()
    torch.nn.init.normal_(attention.project.bias)
    x = torch.randn(LENGTH, D, dtype=torch.float64, requires_grad=True)
    got = attention(x[None], LayerPositions([scheme.layer(0)]), Span(0, LENGTH, x.device), None)[0]
    want = attention_by_loops(x, attention, causal, base, 1 / 512 if kind is Xpos else 0, factor)
    same_with_gradients(got, want, [x, *attention.parameters()])


@pytest.mark.parametrize("kind", [Rope, Xpos])
@pytest.mark.parametrize("factor", [1.0, 2.5])
def test_the_last_query_alone_meets_the_keys_that_were_remembered(kind, factor):
    torch.manual_seed(0)
    scheme = scheme_of(kind, True, base=50.0)
    scheme.interpolate(factor)
    views = LayerPositions([scheme.layer(0)])
    attention = SelfAttention(D, HEADS, 0.0, True).double()
    x = torch.randn(LENGTH, D, dtype=torch.float64, requires_grad=True)
    cache, before = LayerCache(), LENGTH - 1
    attention(x[None, :before], views, Span(0, before, x.device), None, cache)
    got = attention(x[None, before:], views, Span(before, 1, x.device), None, cache)[0]
    want = attention_by_loops(x, attention, True, 50.0, 1 / 512 if kind is Xpos else 0, factor)[before:]
    same_with_gradients(got, want, [x, *attention.parameters()])


@pytest.mark.parametrize("kind", [Rope, Xpos])
def test_twice_the_factor_at_twice_the_place(kind):
    """Chen S. et al. 2023: divided by 2, position 2p is what position p was."""
    q, k = torch.randn(2, 1, 1, 1, 6, dtype=torch.float64)
    plain, halved = scheme_of(kind, True), scheme_of(kind, True)
    assert halved.interpolate(2.0)
    for place in (0, 1, 7, 100):
        near = plain.layer(0).rotate(q, k, Span(place, 1, q.device))
        far = halved.layer(0).rotate(q, k, Span(2 * place, 1, q.device))
        for one, other in zip(near, far, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("system", ["rope", "xpos"])
def test_moving_a_sentence_changes_nothing(system):
    """What makes them relative: the same encoder layer at positions 0.. and 1000.. gives the same."""
    model = build(system=system)
    x = torch.randn(1, 6, 16, dtype=torch.float64)
    for layers, views in ((model.encoder, model.encoder_views), (model.decoder, model.decoder_views)):
        attention, view = layers[0].attention, views[0]
        near, far = (attention(x, view, _placed(start), None) for start in (0, 1000))
        torch.testing.assert_close(near, far, rtol=0, atol=1e-9)


def _placed(start):
    """A span whose positions begin at `start`, with no tokens before."""
    span = Span(0, 6, torch.device("cpu"))
    assert span.offsets.shape == (6, 6)  # computed, and kept, at positions from 0: what the causal mask reads
    span.__dict__["queries"] = torch.arange(start, start + 6)
    return span


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_xpos_scales_are_numbers_up_to_its_longest(dtype):
    scheme, ones = scheme_of(Xpos, True), torch.ones(1, 1, 1, D // HEADS, dtype=dtype)
    end = scheme.longest
    q, k = scheme.layer(0).rotate(ones, ones, Span(end - 1, 1, ones.device))
    pairs = (each.double().unflatten(-1, (-1, 2)).norm(dim=-1) for each in (q, k))  # a turn changes no pair's norm
    for of_pairs in pairs:
        assert of_pairs.isfinite().all()
        assert of_pairs.all()
    torch.testing.assert_close((q.double() * k.double()).sum(), torch.tensor(D / HEADS).double(), rtol=0.01, atol=0)
    sentence = f"there are {end} xpos positions, and position {end + 1} is needed; use shorter texts"
    with pytest.raises(PositionError, match=sentence):
        scheme.layer(0).rotate(ones, ones, Span(end, 1, ones.device))
    scheme.interpolate(2.0)
    assert scheme.longest == 2 * end
    assert scheme.layer(0).rotate(ones, ones, Span(2 * end - 1, 1, ones.device))[1].isfinite().all()


@pytest.mark.parametrize("system", ["rope", "xpos", "transformer", "randomised"])
def test_interpolated_positions(system):
    """Another function, whose steps still equal the whole; and divided by 1 again, the old one."""
    model, source, target = build(system=system), tokens(2, 6), tokens(2, 9, seed=1)
    before = model(source, None, target)
    assert model.interpolate(2.0)
    whole = model(source, None, target)
    assert (whole - before).abs().max() > 1e-4
    state = model.start(model.encode(source, None), None)
    steps = torch.cat([model.advance(target[:, [place]], state) for place in range(9)], dim=1)
    torch.testing.assert_close(steps, whole, rtol=0, atol=1e-12)
    assert model.interpolate(1.0)
    torch.testing.assert_close(model(source, None, target), before, rtol=0, atol=0)


def test_interpolated_sinusoids():
    x = torch.zeros(1, 9, D, dtype=torch.float64)
    plain, halved = scheme_of(Sinusoidal, False), scheme_of(Sinusoidal, False)
    halved.interpolate(2.0)
    near, _ = plain.embed(x, Span(0, 9, x.device), None)
    far, _ = halved.embed(torch.zeros(1, 17, D, dtype=torch.float64), Span(0, 17, x.device), None)
    torch.testing.assert_close(far[:, ::2], near, rtol=0, atol=0)


def test_interpolated_sinusoids_stand_between():
    model = build(system="transformer")
    model.interpolate(4.0)
    [scheme] = model.source.position_schemes()
    x = torch.zeros(1, 9, 16, dtype=torch.float64)
    got, _ = scheme.embed(x, Span(0, 9, x.device), None)
    torch.testing.assert_close(got[0], sinusoids(torch.arange(9) / 4, 16), rtol=0, atol=1e-12)
    assert not build(system="relative").interpolate(2.0)


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (
            {**encoder({"scheme": "rope"}), "d_model": 12},
            "rope needs an even width of a head; d_model / heads = 3 is odd",
        ),
        (
            encoder({"scheme": "xpos"}),
            "xpos decays to the left and grows to the right, so it cannot serve the encoder; choose rope there",
        ),
        (decoder({"scheme": "rope"}, {"scheme": "xpos"}), "rope cannot stand beside xpos in one stack; choose one"),
        (decoder({"scheme": "rope", "base": 1}), "rope.base: Input should be greater than 1, got 1"),
    ],
)
def test_refusals(part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(**part)
