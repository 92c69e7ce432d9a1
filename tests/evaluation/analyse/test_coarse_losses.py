"""Losses in a published copy: a byte a value, sums that stay, and the same after another round."""

from dataclasses import fields, replace

import numpy as np
import pytest

from posnmt.evaluation.analyse.losses import (
    UNITS,
    Losses,
    Scored,
    coarse,
    of_models,
    read_losses,
    together,
    without_text,
)
from tests.support.losses_case import random_losses


def read_back(losses, folder):
    path = folder / "losses.npz"
    path.write_bytes(coarse(losses))
    return read_losses(path)


def test_what_is_read_is_near_what_was_written(tmp_path):
    losses = random_losses()
    losses.losses[1, 40:60] = np.nan
    found = read_back(losses, tmp_path)
    assert found.models == losses.models
    np.testing.assert_array_equal(np.isnan(found.losses), np.isnan(losses.losses))
    for name, unit in UNITS.items():
        before, after = (np.nan_to_num(getattr(each, name)) for each in (losses, found))
        assert np.abs(after - before).max() <= unit + 1e-9
        assert np.abs(np.cumsum(after - before, axis=1)).max() <= unit / 2 + 1e-9  # so any sum is true to a unit
    np.testing.assert_array_equal(found.subword, without_text(losses).subword)
    exact = {each.name for each in fields(Losses)} - {"losses", "ends", "early_ends", "models", "subword", "unigrams"}
    for name in exact:
        np.testing.assert_array_equal(getattr(found, name), getattr(losses, name))


def test_a_second_round_changes_nothing(tmp_path):
    """Also beside models with larger losses."""
    losses = random_losses()
    once = read_back(losses, tmp_path)
    more = together([once, without_text(replace(losses, losses=3 * losses.losses))])
    twice = read_back(more, tmp_path)
    np.testing.assert_array_equal(twice.losses[: len(losses.models)], once.losses)
    assert coarse(twice) == coarse(more)


def test_a_byte_a_value():
    few, many = (random_losses(systems=(("a", tuple(range(count))),)) for count in (2, 12))
    assert len(coarse(many)) - len(coarse(few)) < 10 * (many.losses.shape[1] + 2 * len(many.documents)) + 2000


def test_models_of_several_files(tmp_path):
    losses = random_losses()
    models = [Scored("x", "A", 1), Scored("y", "B", 2)]
    some = of_models(losses, [4, 0], models)
    np.testing.assert_array_equal(some.losses, losses.losses[[4, 0]])
    both = together([some, losses])
    assert both.models == [*models, *losses.models]
    np.testing.assert_array_equal(both.ends[2:], losses.ends)
    with pytest.raises(ValueError, match="subword"):
        together([losses, replace(losses, subword=losses.subword[::-1])])


def test_a_model_without_losses(tmp_path):
    losses = random_losses(systems=(("a", (1,)),))
    for value in (0.0, np.nan):
        same = replace(losses, losses=np.full_like(losses.losses, value))
        np.testing.assert_array_equal(read_back(same, tmp_path).losses, same.losses)


def test_the_references_cannot_be_read():
    """Which subwords of a sentence are the same is kept, and how frequent each is; which they are is not."""
    losses = random_losses()
    found = without_text(losses)
    for sentence in np.unique(losses.sentence):
        here = losses.sentence == sentence
        for before, after in ((losses, found), (found, losses)):
            pairs = {*zip(before.subword[here].tolist(), after.subword[here].tolist(), strict=True)}
            assert len(pairs) == len({first for first, _ in pairs})
    assert len(np.unique(found.subword)) == len({*zip(losses.sentence.tolist(), losses.subword.tolist(), strict=True)})
    assert (np.diff(np.unique(found.subword, return_index=True)[1]) > 0).all()  # numbered as they occur
    wanted = losses.unigrams[losses.subword]
    np.testing.assert_allclose(found.unigrams[found.subword], wanted, rtol=0.06)
    positive = losses.unigrams[losses.unigrams > 0]
    assert found.unigrams[-1] == pytest.approx(positive.min(), rel=0.06)
    again = without_text(found)
    np.testing.assert_array_equal(again.subword, found.subword)
    np.testing.assert_allclose(again.unigrams, found.unigrams, rtol=1e-12)
