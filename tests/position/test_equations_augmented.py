"""Sinusoids at moved positions: what training draws is what the papers say, and inference draws nothing."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.training.build import COMPILES
from posnmt_position.absolute import sinusoids
from posnmt_position.augmented import Cape, Randomised, Shape
from posnmt_position.seam import Span, Stack
from tests.support.tiny import build, config, encoder, tokens

STACK = Stack(d_model=8, heads=2, layers=1, causal=False, max_length=32)
SPAN = Span(0, 10, torch.device("cpu"))


def made(kind, **options):
    return kind(STACK, kind.Settings(**options)).double()


@pytest.mark.parametrize("kind", [Shape, Cape, Randomised])
def test_training_adds_the_sinusoids_of_the_drawn_positions(kind):
    scheme, x = made(kind), torch.randn(3, 10, 8, dtype=torch.float64)
    torch.manual_seed(1)
    got, _ = scheme.embed(x, SPAN, None)
    torch.manual_seed(1)
    positions = scheme.training_positions(3, SPAN)
    for row in range(3):
        for place in range(10):
            for i in range(4):
                angle = positions[row, place].item() / 10000 ** (2 * i / 8)
                pair = got[row, place, 2 * i : 2 * i + 2] - x[row, place, 2 * i : 2 * i + 2]
                assert pair.tolist() == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-12)


@pytest.mark.parametrize(("kind", "step"), [(Shape, 1), (Cape, 1), (Randomised, 8)])
def test_inference_draws_nothing(kind, step):
    scheme, x = made(kind).eval(), torch.zeros(1, 10, 8, dtype=torch.float64)
    for _ in range(2):
        got, _ = scheme.embed(x, SPAN, None)
        torch.testing.assert_close(got[0], sinusoids(torch.arange(10) * step, 8), rtol=0, atol=1e-12)
    alone, _ = scheme.embed(x[:, :1], Span(9, 1, x.device), None)  # the last word after the others
    torch.testing.assert_close(alone, got[:, 9:], rtol=0, atol=0)


def test_shape_shifts_each_sentence_as_a_whole():
    """Kiyono et al. 2021: k uniform over 0 .. K."""
    positions = made(Shape, shift=3).training_positions(4000, SPAN)
    shifts = positions - SPAN.queries
    assert (shifts == shifts[:, :1]).all()
    counts = torch.bincount(shifts[:, 0], minlength=5)
    assert counts[4] == 0
    assert counts[:4].tolist() == pytest.approx([1000] * 4, abs=5 * math.sqrt(4000 * 0.25 * 0.75))


def test_cape_shifts_moves_and_stretches():
    """Likhomanenko et al. 2021, section 3: each of the three by itself within its bounds, and spread over them."""
    places = SPAN.queries.double()
    shifts = made(Cape, local_shift=0, scaling=1).training_positions(2000, SPAN) - places
    assert (shifts - shifts[:, :1]).abs().max() < 1e-12
    assert -5 <= shifts.min() < -4.9 < 4.9 < shifts.max() <= 5
    local = made(Cape, global_shift=0, scaling=1).training_positions(2000, SPAN) - places
    assert -0.5 <= local.min() < -0.49 < 0.49 < local.max() <= 0.5
    assert local.mean().abs() < 0.02
    assert (local[:, 0] * local[:, 1]).mean().abs() < 0.02  # each word by itself
    ratios = made(Cape, global_shift=0, local_shift=0, scaling=1.5).training_positions(2000, SPAN)[:, 1:] / places[1:]
    assert (ratios - ratios[:, :1]).abs().max() < 1e-12
    logs = ratios[:, 0].log()
    assert -math.log(1.5) <= logs.min() < -0.4 < 0.4 < logs.max() <= math.log(1.5)
    assert logs.mean().abs() < 0.03
    together = made(Cape).training_positions(2000, SPAN)
    assert (together.diff(dim=1) >= 0).all()  # the words keep their order


def test_randomised_positions_are_a_sorted_draw_without_replacement():
    """Ruoss et al. 2023, section 3; of a padded row, only the words are drawn."""
    lengths = torch.tensor([10, 3] * 1000)
    drawn = made(Randomised, positions=12).training_positions(2000, Span(0, 10, SPAN.device, lengths))
    long, short = drawn[::2], drawn[1::2, :3]
    for rows in (long, short):
        assert (rows.diff(dim=1) > 0).all()
        assert rows.min() == 0
        assert rows.max() == 11
    # every position is as likely as any other: 3 of 12 for the short rows
    counts = torch.bincount(short.flatten(), minlength=12)
    assert counts.tolist() == pytest.approx([250] * 12, abs=5 * math.sqrt(1000 * 0.25 * 0.75))


@pytest.mark.parametrize("system", ["shape", "cape", "randomised"])
def test_a_seed_decides_what_is_drawn(system):
    model, source = build(system=system).train(), tokens(3, 6)
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(model.encode(source, None))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


@pytest.mark.skipif(torch.__version__ < COMPILES, reason=f"layers are compiled from PyTorch {COMPILES} on")
@pytest.mark.parametrize("kind", [Shape, Cape, Randomised])
def test_compiled_training_draws_the_same(kind):
    """For every length with one graph, as `train.compile` has it."""
    scheme = made(kind)
    compiled = torch.compile(scheme.training_positions, backend="eager", dynamic=True)
    for rows, length in ((3, 10), (4, 7)):
        drawn = []
        for draw in (scheme.training_positions, compiled):
            torch.manual_seed(1)
            drawn.append(draw(rows, Span(0, length, SPAN.device)))
        assert torch.equal(*drawn)


def test_the_longest_training_sentence_of_randomised_positions():
    model = build(**encoder({"scheme": "randomised", "positions": 9}))
    assert model.longest_source is None
    assert model.train().longest_source == 9


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (encoder({"scheme": "shape"}, {"scheme": "sinusoidal"}), "shape cannot stand beside sinusoidal in one stack"),
        (encoder({"scheme": "learned"}, {"scheme": "cape"}), "cape cannot stand beside learned in one stack"),
        (
            {**encoder({"scheme": "randomised"}), "d_model": 15, "heads": 3},
            "randomised needs an even d_model; 15 is odd",
        ),
        (encoder({"scheme": "cape", "scaling": 0.5}), "cape.scaling: Input should be greater than or equal to 1"),
    ],
)
def test_refusals(part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(**part)
