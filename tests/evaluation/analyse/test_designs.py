"""The designs of likelihood by position against plain loops over subwords, with a document really left out."""

import math
from dataclasses import replace
from statistics import fmean, median

import numpy as np
import pytest

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.crossed import difference_of
from posnmt.evaluation.analyse.designs import (
    adjusted_contrast,
    index_shift,
    of_tokens,
    source_contrast,
    swap,
    zone_contrast,
)
from posnmt.evaluation.analyse.jackknife import difference_of_ratios, subwords
from posnmt.evaluation.analyse.suspect_references import unusual_ratios, worst_by_average
from posnmt.evaluation.analyse.zones import BEYOND, SPARSE
from tests.support.losses_case import EXPOSURE, random_losses, without_document


@pytest.fixture(scope="module")
def losses():
    return random_losses(beyond={"a": 0.5})


def tokens(losses, model):
    """(sentence, position, loss) of every subword."""
    return list(zip(losses.sentence.tolist(), losses.position.tolist(), losses.losses[model].tolist(), strict=True))


def zone(position):
    return "beyond" if position >= len(EXPOSURE) else "sparse" if EXPOSURE[position] < 0.1 else "dense"


def gamma(losses, model, name, by):
    """D1 by loops."""
    having = {s for s, p, _ in tokens(losses, model) if zone(p) == name}
    values = {}
    for s, p, loss in tokens(losses, model):
        if s in having and zone(p) in ("dense", name):
            values.setdefault(zone(p), {}).setdefault(s, []).append(loss)
    if by == "token":
        means = {each: fmean([v for of in by_sentence.values() for v in of]) for each, by_sentence in values.items()}
    else:
        means = {each: fmean(map(fmean, by_sentence.values())) for each, by_sentence in values.items()}
    return means[name] - means["dense"]


@pytest.mark.parametrize("by", ["token", "sentence"])
@pytest.mark.parametrize(("number", "name"), [(BEYOND, "beyond"), (SPARSE, "sparse")])
def test_the_zone_contrast_and_its_replicates(losses, number, name, by):
    statistic = zone_contrast(losses, number, by=by)
    for model in (0, 4):
        assert statistic.whole[model] == pytest.approx(gamma(losses, model, name, by), rel=1e-10)
    # only documents with a subword in the zone count, in the order of their numbers
    having = np.unique(losses.documents[losses.sentence[[zone(p) == name for p in losses.position.tolist()]]])
    assert len(statistic.without) == len(having) == len(statistic.weights)
    for row in (0, len(having) // 2):
        rest = without_document(losses, having[row])
        assert statistic.without[row, 4] == pytest.approx(gamma(rest, 4, name, by), rel=1e-10)
    inside = [s for s, p, _ in tokens(losses, 0) if zone(p) == name]
    assert statistic.sentences == len(set(inside))
    units = inside if by == "token" else sorted(set(inside))
    weights = [sum(losses.documents[s] == document for s in units) for document in having]
    assert statistic.weights.tolist() == weights
    assert statistic.support.effective == pytest.approx(sum(weights) ** 2 / sum(each**2 for each in weights))


def test_the_effect_at_untrained_positions_is_that_of_the_systems(losses):
    each = difference_of(zone_contrast(losses), losses.models, "a", "b")
    assert each.value == pytest.approx(0.5, abs=0.02)
    assert each.seeds == 3


def test_sentences_that_are_left_out_count_nowhere(losses):
    kept = np.arange(len(losses.documents)) % 3 > 0
    part = of_tokens(losses, kept[losses.sentence])
    one, two = zone_contrast(losses, kept=kept), zone_contrast(part)
    assert one.whole == pytest.approx(two.whole)
    assert one.without == pytest.approx(two.without)
    assert one.support == two.support


def test_the_same_positions_under_longer_sources():
    losses = random_losses(seed=3)
    seen = (losses.source_lengths <= len(EXPOSURE))[losses.sentence]
    places = (losses.position >= 10) & (losses.position < 20)
    statistic = source_contrast(subwords(losses), seen, places)
    values = [
        [loss for (s, p, loss) in tokens(losses, 2) if 10 <= p < 20 and (losses.source_lengths[s] <= 28) == each]
        for each in (False, True)
    ]
    assert statistic.whole[2] == pytest.approx(fmean(values[0]) - fmean(values[1]))


def test_undefined_ratios_are_undefined():
    losses = random_losses(sentences=20, longest=20)
    assert np.isnan(zone_contrast(losses).whole).all()
    one = np.where(losses.documents[losses.sentence] == losses.documents[3], 0, 1)
    without = difference_of_ratios(subwords(losses), one, [1, 1]).without
    assert np.isnan(without[losses.documents[3]]).all()
    assert np.isfinite(np.delete(without, losses.documents[3], axis=0)).all()


# --- the swap of the sentence before, and the shift of the index


def test_the_swap_is_the_difference_without_the_first_three_subwords(losses):
    after_long = replace(losses, losses=losses.losses + np.where(losses.position < 3, 100, 0.25))
    statistic = swap(losses, after_long)
    assert statistic.whole == pytest.approx(np.full(6, 0.25))
    kept = losses.position >= 3
    assert statistic.weights.sum() == kept.sum()
    assert statistic.without == pytest.approx(np.full((len(np.unique(losses.documents)), 6), 0.25))


def test_the_swap_is_by_seed_and_document(losses):
    generator = np.random.default_rng(1)
    after_long = replace(losses, losses=losses.losses + generator.normal(0.1, 1, losses.losses.shape))
    statistic = swap(losses, after_long)
    kept = (losses.position >= 3) & (losses.documents[losses.sentence] != 4)
    change = after_long.losses - losses.losses
    assert statistic.without[4] == pytest.approx(change[:, kept].mean(axis=1))


def test_other_subwords_are_refused(losses):
    other = of_tokens(losses, losses.position > 0)
    with pytest.raises(UserError, match="same references"):
        swap(losses, other)
    with pytest.raises(UserError, match="same references"):
        swap(losses, replace(losses, models=losses.models[::-1]))
    with pytest.raises(UserError, match="same references"):
        index_shift(other, losses)


def test_the_index_shift_is_of_the_sentences_that_were_shifted(losses):
    chosen = losses.sentence % 2 == 0
    part = of_tokens(losses, chosen)
    shifted = replace(part, losses=part.losses + np.array([0.5, 0, 0, 0, 0, 0])[:, None])
    assert index_shift(losses, shifted).whole == pytest.approx([0.5, 0, 0, 0, 0, 0], abs=1e-12)
    assert index_shift(losses, shifted).weights.sum() == chosen.sum()
    backwards = of_tokens(losses, np.arange(len(losses.sentence))[::-1])
    assert index_shift(backwards, shifted).whole == pytest.approx([0.5, 0, 0, 0, 0, 0], abs=1e-12)


# --- regression of subwords


def rows_of(losses):
    """The columns of the regression by loops, of the sentences with a subword beyond."""
    frequencies = losses.unigrams.tolist()
    rarest = min(each for each in frequencies if each > 0)
    having = {s for s, p, _ in tokens(losses, 0) if zone(p) == "beyond"}
    seen, rows, places = set(), [], []
    for place, (s, p, _) in enumerate(tokens(losses, 0)):
        subword = int(losses.subword[place])
        repeated = (s, subword) in seen
        seen.add((s, subword))
        if s in having:
            last = losses.target_lengths[s] - p <= 10
            log = math.log(frequencies[subword] or rarest)
            rows.append([zone(p) == "beyond", 1, zone(p) == "sparse", log, last, repeated])
            places.append(place)
    return np.array(rows, dtype=float), np.array(places)


def test_the_regression_is_that_of_least_squares(losses):
    statistic = adjusted_contrast(losses)
    rows, places = rows_of(losses)
    assert 0 < rows[:, 4].mean() < 1
    assert 0 < rows[:, 5].mean() < 1
    expected = np.linalg.lstsq(rows, losses.losses[:, places].T, rcond=None)[0][0]
    assert statistic.whole == pytest.approx(expected, rel=1e-8)
    documents = losses.documents[losses.sentence[places]]
    for number in (0, 5):
        kept = documents != np.unique(documents)[number]
        part = np.linalg.lstsq(rows[kept], losses.losses[:, places[kept]].T, rcond=None)[0][0]
        assert statistic.without[number] == pytest.approx(part, rel=1e-8)
    assert difference_of(statistic, losses.models, "a", "b").value == pytest.approx(0.5, abs=0.03)


def test_covariates_that_do_not_vary_are_left_out_and_what_cannot_be_told_apart_is_undefined(losses):
    alone = replace(losses, subword=losses.position, unigrams=np.full(60, 1 / 60))
    assert np.isfinite(adjusted_contrast(alone).whole).all(), "no repeated subword, all frequencies equal"
    short = random_losses(sentences=20, longest=20)
    assert np.isnan(adjusted_contrast(short).whole).all()
    assert adjusted_contrast(short).sentences == 0
    same = replace(losses, target_lengths=np.full_like(losses.target_lengths, len(EXPOSURE) + 10))
    assert np.isnan(adjusted_contrast(same).whole).all(), "the last ten are those beyond"


# --- references that may be wrong


def test_unusual_ratios_are_flagged_within_their_length(losses):
    lengths = np.repeat([5, 15, 25], 100)
    target = (lengths * np.repeat([1.0, 2.0, 1.0], 100) * np.tile(np.linspace(0.9, 1.1, 100), 3) * 100).astype(int)
    target[[7, 150]] = 100 * lengths[[7, 150]] * [4, 1]
    lines = replace(
        losses, source_lengths=100 * lengths, target_lengths=target, documents=np.arange(300) % 30,
    )  # fmt: skip
    flagged = unusual_ratios(lines)
    assert flagged[[7, 150]].all(), "150 has a ratio that is usual elsewhere"
    for number in range(3):
        inside = range(100 * number, 100 * number + 100)
        ratios = {line: math.log(target[line] / (100 * lengths[line])) for line in inside}
        centre = median(ratios.values())
        limit = 2 * 1.4826 * median(abs(each - centre) for each in ratios.values())
        assert [line for line in inside if flagged[line]] == [
            line for line in inside if abs(ratios[line] - centre) > limit
        ]


def test_a_line_without_subwords_is_unusual(losses):
    empty = losses.source_lengths.copy()
    empty[4] = 0
    assert unusual_ratios(replace(losses, source_lengths=empty))[4]


def test_the_worst_sentences_are_those_of_the_average_of_all_systems():
    losses = random_losses((("a", (1, 2, 3)), ("b", (1,))), sentences=100)
    losses.losses[3] += np.random.default_rng(1).normal(0, 1, 100)[losses.sentence]
    average = [
        fmean([fmean([losses.losses[m][losses.sentence == s].mean() for m in range(3)]),
               losses.losses[3][losses.sentence == s].mean()])
        for s in range(100)
    ]  # fmt: skip
    worst = sorted(range(100), key=lambda s: -average[s])[:5]
    assert np.flatnonzero(worst_by_average(losses)).tolist() == sorted(worst)


def test_sentences_without_subwords_make_no_others_bad():
    losses = random_losses((("a", (1,)),), sentences=100)
    kept = losses.sentence >= 50
    half = replace(
        losses, losses=losses.losses[:, kept], sentence=losses.sentence[kept], position=losses.position[kept],
        subword=losses.subword[kept],
    )  # fmt: skip
    assert worst_by_average(half).sum() == 2
    assert not worst_by_average(half)[:50].any()
