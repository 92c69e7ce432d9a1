"""Bands of differences over all cuts of the lengths: against loops, and how often they are wrong."""

import math
import statistics

import numpy as np
import pytest

from posnmt.evaluation.analyse.bins import Bin
from posnmt.evaluation.analyse.length_bands import (
    CHANGE,
    FEWEST,
    FEWEST_DOCUMENTS,
    LONGER,
    SHORTER,
    Cuts,
    bands,
)
from posnmt.evaluation.analyse.resample import bootstrap_sums
from tests.support.length_case import BINS, ERRORS, equal, lengths_of, scored, step

PAIR = ("a", "b")
SYSTEMS = {"a": [0], "b": [1]}


def figures_of(additive, lengths, samples=200, seed=1, systems=SYSTEMS, pairs=(PAIR,), **more):
    cuts = Cuts.of(lengths, BINS, additive.documents)
    return bands(additive, "quality", systems, list(pairs), cuts, samples, seed, **more)


@pytest.mark.parametrize("seed", range(6))
def test_sides_and_bins_have_enough_sentences_and_documents(seed):
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, 900))
    lengths = (generator.gamma(2, 10, count)).astype(int)
    documents = generator.integers(0, 1 + count // 8, count) if seed % 2 else None
    cuts = Cuts.of(lengths, BINS, documents)
    assert cuts.bins[0].first == 0
    assert cuts.bins[-1].last is None
    assert [each.first for each in cuts.bins[1:]] == [each.last + 1 for each in cuts.bins[:-1]]
    assert {each.first for each in cuts.bins} <= {each.first for each in BINS}
    for part in cuts.parts():
        last = math.inf if part.last is None else part.last
        inside = (lengths >= part.first) & (lengths <= last)
        if part.kind != CHANGE:
            assert part.sentences == inside.sum() >= FEWEST
            assert part.units == (part.sentences if documents is None else len({*documents[inside].tolist()}))
        assert part.units >= (FEWEST if documents is None else FEWEST_DOCUMENTS)
    assert count > 3 * FEWEST or not cuts.cuts or documents is None


def test_bins_are_merged_until_they_have_enough():
    lengths = np.repeat([5, 15, 25, 35, 65], [29, 1, 30, 40, 29])
    assert Cuts.of(lengths, BINS).bins == [Bin(0, 19), Bin(20, 29), Bin(30, None)]


@pytest.mark.parametrize(
    ("lengths", "documents"), [(np.full(500, 9), None), (np.arange(59), None), (np.arange(300), np.zeros(300, int))]
)
def test_text_that_cannot_be_parted_has_no_figures(lengths, documents):
    assert Cuts.of(lengths, BINS, documents).cuts == []
    assert figures_of(scored(lengths, [equal, equal], documents=documents), lengths).figures[PAIR] == []


@pytest.mark.parametrize("grouped", [False, True])
def test_intervals_are_those_of_plain_loops(grouped):
    """The largest deviation of all parts in each sample, by loops over sentences with the samples' weights."""
    lengths = lengths_of(150, longest=30)
    documents = np.arange(150) // 2 if grouped else None
    additive = scored(lengths, [step(12, 3, -3), equal], seed=3, documents=documents, of_documents=1.0)
    found = figures_of(additive, lengths, samples=120)
    cuts = Cuts.of(lengths, BINS, documents)
    cell = np.searchsorted(np.array([0, *cuts.cuts]), lengths, side="right") - 1
    eye = np.eye(150)[:, None, :]
    drawn = bootstrap_sums(eye, cell, len(cuts.cuts) + 1, 120, 1, documents=documents)
    weights = np.concatenate(list(drawn))[:, 0, 0].tolist()
    gains = (additive.rows[:, 0, 0] - additive.rows[:, 1, 0]).tolist()

    def mean(first, last, weight):
        inside = [row for row in range(150) if first <= lengths[row] <= (math.inf if last is None else last)]
        return sum(weight[row] * gains[row] for row in inside) / sum(weight[row] for row in inside)

    def figure(part, weight):
        if part.kind == CHANGE:
            return mean(part.cut, None, weight) - mean(0, part.cut - 1, weight)
        return mean(part.first, part.last, weight)

    of_parts = [[figure(each.part, weight) for weight in weights] for each in found.figures[PAIR]]
    errors = [statistics.pstdev(values) for values in of_parts]
    apart = [
        max(
            abs(values[sample] - statistics.fmean(values)) / error
            for values, error in zip(of_parts, errors, strict=True)
        )
        for sample in range(120)
    ]
    critical = sorted(apart)[math.ceil(0.95 * 119)]
    assert found.critical[PAIR] == pytest.approx(critical)
    for each, error in zip(found.figures[PAIR], errors, strict=True):
        freedom = each.part.units - 1
        student = critical + (critical**3 + critical) / (4 * freedom)
        student += (5 * critical**5 + 16 * critical**3 + 3 * critical) / (96 * freedom**2)
        value = figure(each.part, [1] * 150)
        assert each.difference == pytest.approx(value)
        assert (each.low, each.high) == pytest.approx((value - student * error, value + student * error))
        assert each.sign == (abs(value) > student * error) * (1 if value > 0 else -1)
        assert (each.p < 0.06) == (each.sign != 0) or abs(each.p - 0.05) < 0.02


def test_lower_scores_may_be_better():
    lengths = lengths_of(600)
    plain = figures_of(scored(lengths, [step(20, 4, -4), equal]), lengths).figures[PAIR]
    lower = figures_of(scored(lengths, [step(20, 4, -4), equal], ERRORS), lengths).figures[PAIR]
    assert [each.difference for each in plain] == [each.difference for each in lower]
    assert [each.sign for each in plain] == [-each.sign for each in lower]
    assert {each.sign for each in plain} == {-1, 0, 1} or {each.sign for each in plain} == {-1, 1}


def test_the_other_way_round_is_the_same():
    lengths = lengths_of(300)
    additive = scored(lengths, [step(20, 2, -2), equal])
    one = figures_of(additive, lengths).figures[PAIR]
    other = figures_of(additive, lengths, pairs=[("b", "a")]).figures["b", "a"]
    for each, back in zip(one, other, strict=True):
        assert back == each.turned()


def test_all_pairs_of_seeds_must_show_it():
    lengths = lengths_of(600)
    effects = [step(20, 4, -4), step(20, 4, 4), equal]
    both = figures_of(scored(lengths, effects), lengths, systems={"a": [0, 1], "b": [2]}).figures[PAIR]
    at = {(each.part.kind, each.part.cut): each for each in both}
    assert at[SHORTER, 20].sign == 1
    assert at[LONGER, 20].sign == 0, "the seeds contradict each other on the longer side"
    assert at[SHORTER, 20].difference == pytest.approx(4, abs=1)
    assert at[LONGER, 20].difference == pytest.approx(0, abs=1)


def test_pairs_are_corrected_for_together():
    lengths = lengths_of(300)
    additive = scored(lengths, [equal] * 5)
    systems = {name: [number] for number, name in enumerate("abcde")}
    pairs = [(one, other) for one in "abcde" for other in "abcde" if one < other]
    together = figures_of(additive, lengths, systems=systems, pairs=pairs)
    alone = figures_of(additive, lengths, systems=systems, pairs=pairs, jointly=False)
    assert len({*together.critical.values()}) == 1
    assert all(together.critical[pair] >= alone.critical[pair] for pair in pairs)
    assert together.critical[PAIR] > max(alone.critical.values())
    assert figures_of(additive, lengths, pairs=[PAIR]).critical[PAIR] == alone.critical[PAIR]


def wrong(corpora, sentences, effect, drawn=True, **more):
    """The number of corpora of which an interval does not hold the truth, and of which a sign is wrong."""
    missed, signs = 0, 0
    for number in range(corpora):
        lengths = lengths_of(sentences, seed=number)
        documents = np.arange(sentences) // 10 if more else None
        additive = scored(lengths, [effect, equal], seed=number, documents=documents, **more)
        if not drawn:
            additive = type(additive)(additive.rows, additive.columns, additive.elsewhere)
        cuts = Cuts.of(lengths, BINS, additive.documents)
        found = bands(additive, "quality", SYSTEMS, [PAIR], cuts, 200, number).figures[PAIR]
        truth = effect(np.arange(51))
        holds, right = True, True
        for each in found:
            if each.part.kind == CHANGE:
                continue
            last = 50 if each.part.last is None else each.part.last
            inside = lengths[(lengths >= each.part.first) & (lengths <= last)]
            true = truth[inside].mean()  # scores are given the lengths of the corpus
            holds &= bool(each.low <= true <= each.high)
            right &= each.sign * true > 0 or each.sign == 0
        missed += not holds
        signs += not right
    return missed, signs


@pytest.mark.parametrize("effect", [equal, step(25, 6, 0)], ids=["equal", "ahead on the shorter half"])
def test_intervals_hold_together_in_nearly_all_corpora(effect):
    """Of 60 corpora about 3 may be wrong; 9 or more are so with a probability below 1 in 200."""
    missed, signs = wrong(60, 200, effect)
    assert signs <= missed <= 8


def test_sentences_of_a_document_are_drawn_together():
    """Systems that differ by document and not by length: drawn by sentence, much is found that is not there."""
    by_sentence, _ = wrong(25, 600, equal, drawn=False, of_documents=8.0)
    by_document, _ = wrong(25, 600, equal, of_documents=8.0)
    assert by_document <= 5 < 10 <= by_sentence
