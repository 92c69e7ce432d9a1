"""Positions that begin at k: schemes of distances give the same, absolute ones do not."""

from __future__ import annotations

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.ordered import OrderedTranslator
from posnmt.model.positions import SCHEMES
from posnmt.testing import blocks_of
from posnmt.translate.subwords import force_subwords
from posnmt_position.seam import Span
from tests.support.tiny import MODELS, TRANSFORMERS, both, build, each_of, tokens

ABSOLUTE = {"sinusoidal", "learned", "shape", "cape", "randomised", "additional", "reordering", "recurrent-heads"}
"""Schemes that read the index of a word; all others read distances, or words alone."""

SHIFT = 40
SOURCES = [tokens(1, length, seed=length)[0].tolist() for length in (9, 4, 30)]
TARGETS = [tokens(1, length, seed=20 + length)[0].tolist() for length in (8, 3, 28)]
SHIFTS = {"source": (SHIFT, 0), "target": (0, SHIFT), "both": (SHIFT, SHIFT)}


def losses(model):
    forced = force_subwords(model, SOURCES, TARGETS, 1000, torch.device("cpu"))
    return torch.cat([torch.from_numpy(each.losses) for each in forced])


def is_absolute(model, side):
    return bool({choice.scheme for choice in getattr(model.config, side).position} & ABSOLUTE)


@pytest.mark.parametrize("side", SHIFTS)
@pytest.mark.parametrize("name", each_of())
def test_only_absolute_schemes_notice_where_positions_begin(name, side):
    model = build(**MODELS[name])
    before, known = losses(model), model.shift(*SHIFTS[side])
    assert known == isinstance(model, OrderedTranslator)
    changed = (losses(model) - before).abs().max()
    sides = {"source": ["encoder"], "target": ["decoder"], "both": ["encoder", "decoder"]}[side]
    if any(is_absolute(model, each) for each in sides):
        assert changed > 1e-3
    else:
        assert changed < 1e-9
    model.shift(0, 0)
    assert torch.equal(losses(model), before)


def test_every_scheme_is_in_some_model():
    """So that each is tested above."""
    shown = {choice["scheme"] for part in MODELS.values() for choice in schemes(build(**part))}
    assert shown == {*SCHEMES} >= ABSOLUTE


def schemes(model):
    return [each.model_dump() for side in ("encoder", "decoder") for each in getattr(model.config, side).position]


@pytest.mark.parametrize("name", each_of(TRANSFORMERS))
def test_in_single_precision_and_in_blocks(name):
    """Distances are the same to 1e-4; blocks of queries give what the whole gives."""
    model = build(**MODELS[name]).float()
    with blocks_of(5, long=False):
        before = losses(model)
        model.shift(SHIFT, SHIFT)
        after = losses(model)
    if not (is_absolute(model, "encoder") or is_absolute(model, "decoder")):
        assert (after - before).abs().max() < 1e-4
    with blocks_of(5):
        assert (losses(model) - after).abs().max() < 1e-4


def test_temperature_counts_the_tokens_that_are_seen():
    model = build(system="relative")
    plain = losses(model)
    model.join_positions((3, 3))
    before = losses(model)
    model.shift(SHIFT, SHIFT)
    assert (losses(model) - before).abs().max() < 1e-9 < (before - plain).abs().max()


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned"])
def test_a_shifted_position_is_that_of_a_later_word(scheme):
    """The vectors that are added are those of the words k places on."""
    model = build(**both({"scheme": scheme}))
    words, cpu = torch.full((1, 20), 5), torch.device("cpu")
    of_later, _ = model.source(words, Span(0, 20, cpu), [None])
    shifted, _ = model.source(words[:, :5], Span(0, 5, cpu, origin=7), [None])
    assert torch.equal(shifted, of_later[:, 7:12])


def test_a_table_ends_where_it_did():
    model = build(max_length=48, **both({"scheme": "learned"}))
    model.shift(18, 20)
    assert (model.longest_source, model.longest_target) == (30, 28)
    force_subwords(model, [[5] * 29], [[5] * 27], 100, torch.device("cpu"))
    with pytest.raises(UserError, match="48 learned positions, and position 49"):
        force_subwords(model, [[5] * 30], [[5] * 27], 100, torch.device("cpu"))
