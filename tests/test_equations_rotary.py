"""RoPE and xPos against complex numbers, one pair of features, one query and one key at a time, in float64."""

from __future__ import annotations

import cmath
import math

import pytest
import torch

from loops import same_with_gradients
from posnmt.errors import UserError
from posnmt.model.attention import SelfAttention
from posnmt.position.absolute import sinusoids
from posnmt.position.rotary import Rope, Xpos
from posnmt.position.seam import LayerPositions, Span, Stack
from tiny import build, config, decoder, encoder, tokens

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
            heads.append(sum(w * v[j] for w, j in zip(torch.stack(e).softmax(0), seen, strict=True)))
        rows.append(torch.cat(heads))
    return torch.stack(rows) @ attention.output.weight.T + attention.output.bias


@pytest.mark.parametrize(("kind", "causal"), [(Rope, False), (Rope, True), (Xpos, True)])
@pytest.mark.parametrize(("base", "factor"), [(10_000.0, 1.0), (50.0, 1.0), (50.0, 2.5)])
def test_products_know_distances(kind, causal, base, factor):
    torch.manual_seed(0)
    scheme = scheme_of(kind, causal, base=base)
    assert scheme.interpolate(factor)
    attention = SelfAttention(D, HEADS, 0.0, causal).double()
    torch.nn.init.normal_(attention.project.bias)
    x = torch.randn(LENGTH, D, dtype=torch.float64, requires_grad=True)
    got = attention(x[None], LayerPositions([scheme.layer(0)]), Span(0, LENGTH, x.device), None)[0]
    want = attention_by_loops(x, attention, causal, base, 1 / 512 if kind is Xpos else 0, factor)
    same_with_gradients(got, want, [x, *attention.parameters()])


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


def test_xpos_scales_are_numbers_up_to_its_longest():
    view, end = scheme_of(Xpos, True).layer(0), Xpos.longest
    ones = torch.ones(1, 1, 1, D // HEADS)
    q, k = view.rotate(ones, ones, Span(end - 1, 1, torch.device("cpu")))
    assert q.isfinite().all()
    assert k.isfinite().all()
    assert (q.abs().amax() > 0) & (k.abs().amin() > 0)


@pytest.mark.parametrize("system", ["rope", "xpos", "transformer", "randomised"])
def test_interpolated_positions(system):
    """Twice the factor at twice the place; and steps still equal the whole."""
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
            "xpos falls off to the left and grows to the right, so it cannot serve the encoder; choose rope there",
        ),
        (decoder({"scheme": "rope"}, {"scheme": "xpos"}), "rope cannot stand beside xpos in one stack; choose one"),
        (decoder({"scheme": "rope", "base": 1}), "rope.base: Input should be greater than 1, got 1"),
    ],
)
def test_refusals(part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(**part)
