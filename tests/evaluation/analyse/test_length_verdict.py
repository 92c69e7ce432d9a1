"""The verdict on length: what is found of a pair, and that the sentence has its figures."""

import re
from itertools import pairwise

import numpy as np
import pytest

from posnmt.evaluation.analyse.length_bands import BIN, CHANGE, LONGER, SHORTER, Cuts, Figure, Part
from posnmt.evaluation.analyse.length_verdict import _sentence, find, length_verdict
from posnmt.evaluation.analyse.measure import Resampling
from tests.support.length_case import BINS, ERRORS, QUALITY, equal, lengths_of, scored, step

NUMBER = re.compile(r"[+\N{MINUS SIGN}]?\d+\.\d")


def verdict_of(effects, sentences=800, metric=QUALITY, baseline=None, correction="holm", best=None, **more):
    lengths = lengths_of(sentences)
    additive = scored(lengths, effects, metric, **more)
    systems = {name: [number] for number, name in enumerate("abcdefgh"[: len(effects)])}
    cuts = Cuts.of(lengths, BINS, additive.documents)
    resampling = Resampling(samples=300, correction=correction)
    return length_verdict(additive, systems, best or "a", cuts, "words", resampling, baseline)


def numbers(sentence):
    return [float(each.replace("\N{MINUS SIGN}", "-")) for each in NUMBER.findall(sentence)]


def at(pair, kind):
    [found] = [each for each in pair["figures"] if (each["kind"], each["cut"]) == (kind, pair["cut"])]
    return found


@pytest.mark.parametrize(
    ("effects", "metric", "says"),
    [
        ([step(20, 4, -4), equal], QUALITY, "a is ahead of b up to 19 words"),
        ([step(20, -4, 4), equal], QUALITY, "a is behind b up to 19 words"),
        ([step(20, 4, -4), equal], ERRORS, "a is behind b up to 19 words"),
    ],
)
def test_a_crossover_is_found_where_it_is(effects, metric, says):
    result = verdict_of(effects, metric=metric)
    [pair] = result["pairs"]
    assert (pair["kind"], pair["system"], pair["other"]) == ("crossover", "a", "b")
    assert 18 <= pair["cut"] <= 22
    assert pair["held"][0] <= pair["cut"] <= pair["held"][1]
    assert re.sub(r"to \d+ words", "to 19 words", result["sentence"]).startswith(says)
    shorter, longer = at(pair, SHORTER), at(pair, LONGER)
    assert shorter["sign"] * longer["sign"] == -1
    shown = [round(each[key], 1) for each in (shorter, longer) for key in ("difference", "low", "high")]
    assert numbers(result["sentence"]) == shown
    assert f"up to {pair['cut'] - 1} words" in result["sentence"]
    assert f"from {pair['cut']} (" in result["sentence"]


def test_a_lead_at_every_length():
    result = verdict_of([step(30, 6, 6), equal])
    [pair] = result["pairs"]
    bins = [each for each in pair["figures"] if each["kind"] == BIN]
    assert (pair["kind"], pair["ahead"]) == ("every length", "a")
    assert len(bins) > 2
    assert all(each["low"] > 0 for each in bins)
    sizes = sorted(each["difference"] for each in bins)
    assert numbers(result["sentence"])[:2] == [round(sizes[0], 1), round(sizes[-1], 1)]
    turned = verdict_of([equal, step(30, 6, 6)])
    assert turned["pairs"][0]["ahead"] == "b"
    assert turned["sentence"].startswith("b is ahead of a at every length: by ")
    assert numbers(turned["sentence"])[0] > 0


def test_a_lead_that_grows_is_said_to_grow():
    result = verdict_of([step(30, 4, 12), equal])
    [pair] = result["pairs"]
    assert (pair["kind"], pair["ahead"]) == ("every length", "a")
    assert f"the lead is larger from {pair['cut']} words on (" in result["sentence"]
    assert 28 <= pair["cut"] <= 32
    falling = verdict_of([step(30, 12, 4), equal])
    assert f"the lead is smaller from {falling['pairs'][0]['cut']} words on (" in falling["sentence"]


@pytest.mark.parametrize(
    ("effects", "starts", "ahead"),
    [
        ([step(25, 0, 5), equal], "a gains on b on longer sources: ", "a"),
        ([step(25, 0, -5), equal], "a loses ground to b on longer sources: ", "b"),
    ],
)
def test_a_lead_on_one_side_is_a_change(effects, starts, ahead):
    result = verdict_of(effects)
    [pair] = result["pairs"]
    assert (pair["kind"], pair["ahead"]) == ("change", ahead)
    assert result["sentence"].startswith(starts)
    shown = [at(pair, kind)[key] for kind in (SHORTER, LONGER, CHANGE) for key in ("difference", "low", "high")]
    assert numbers(result["sentence"]) == [round(each, 1) for each in shown]


def test_equal_systems_have_no_difference_by_length():
    result = verdict_of([equal, equal])
    assert [pair["kind"] for pair in result["pairs"]] == ["none"]
    assert result["sentence"] == "No lead on shorter or longer sources is shown between a and b."


def test_too_few_sentences_are_not_compared():
    result = verdict_of([step(20, 40, -40), equal], sentences=59)
    assert (result["cuts"], result["pairs"][0]["kind"]) == ([], "none")
    assert "30 sentences" in result["sentence"]


def figure(kind, cut, sign, difference, last=None, first=0, surety=4.0):
    return Figure(
        Part(kind, cut, first, last, 100, 100), difference, difference - 1, difference + 1, sign, surety, 0.01
    )


def figures(*cuts, bins=()):
    """Figures of cuts (cut, sign below, sign above, sign of the change), and of bins by their signs."""
    kinds = [(SHORTER, 1), (LONGER, 2), (CHANGE, 3)]
    sides = [figure(kind, each[0], each[place], 2.0 * each[place]) for kind, place in kinds[:2] for each in cuts]
    of_bins = [figure(BIN, 0, sign, 2.0 * sign, first=10 * number) for number, sign in enumerate(bins)]
    return [*sides, *of_bins, *(figure(CHANGE, each[0], each[3], 2.0 * each[3]) for each in cuts)]


@pytest.mark.parametrize(
    ("given", "kind", "sign", "held"),
    [
        (figures((10, 1, 0, 0), (20, 1, -1, -1), (30, 1, -1, -1), bins=(1, 0, -1)), "crossover", 1, (20, 30)),
        (figures((10, 1, 1, 0), bins=(1, 1)), "every length", 1, None),
        (figures((10, -1, -1, 1), bins=(-1, -1)), "every length", -1, (10, 10)),
        (figures((10, 1, 1, 0), bins=(1,)), "one side", 1, (10, 10)),
        (figures((10, 0, 1, 1), (20, 0, 0, 1), bins=(0, 1)), "change", 1, (10, 20)),
        (figures((10, 0, -1, 0), (20, 0, 0, 0), bins=(0, 0)), "one side", -1, (10, 10)),
        (figures((10, 1, 0, 0), (15, 1, 0, 0), (20, 0, -1, 0), bins=(0, 0)), "one side", 1, (10, 15)),
        (figures((10, 0, 0, 0), bins=(0, 1)), "none", 0, None),
        (figures(bins=(1,)), "none", 0, None),
    ],
)
def test_findings_have_an_order(given, kind, sign, held):
    found = find("a", "b", given)
    assert (found.kind, found.sign, found.held) == (kind, sign, held)
    back = found.turned()
    assert (back.system, back.other, back.sign, back.kind) == ("b", "a", -sign, kind)


@pytest.mark.parametrize("sign", [1, -1])
def test_leads_of_both_that_no_cut_shows_together_are_both_said(sign):
    given = figures((10, sign, 0, 0), (20, 0, -sign, 0), bins=(0, 0))
    text = _sentence(find("a", "b", given), QUALITY, "words")
    assert "at another cut it is behind" in text
    assert "not shown" not in text


@pytest.mark.parametrize(
    ("given", "places"),
    [
        (
            figures((10, 1, 0, 0), bins=(0, 0)),
            ["up to 9 words (", "no lead is shown from 10 words, nor that its lead "],
        ),
        (
            figures((10, 0, -1, 0), bins=(0, 0)),
            ["from 10 words (", "no lead is shown up to 9 words, nor that its lead "],
        ),
        (figures((10, 1, 1, 0), bins=(0, 1)), ["up to 9 words (", "from 10 words (", "; that its lead "]),
        (figures((10, 1, 1, 0), bins=(1, 1)), ["at every length", "; that its lead "]),
    ],
)
def test_what_is_said_of_a_lead_says_what_is_not_shown(given, places):
    """A lead on one side says nothing of the other one; nothing that is said denies what stands before it."""
    text = _sentence(find("a", "b", given), QUALITY, "words")
    at = [text.index(place) for place in places]
    assert at == sorted(at)
    assert text.count("no lead is shown") == ("no lead" in places[-1])
    assert "no difference" not in text


def test_where_nothing_differs_no_interval_is_claimed():
    text = verdict_of([equal, step(20, 0, 4)], noise=0.0)["sentence"]
    assert "the same Quality" in text
    assert 0.0 not in numbers(text)


def test_a_lead_on_both_sides_names_the_leader():
    """One bin alone: not every length, and yet who is ahead is said, with the leader's figures."""
    lengths = np.repeat(np.arange(1, 10), 60)
    additive = scored(lengths, [equal, step(5, 9, 3)])
    cuts = Cuts.of(lengths, BINS)
    assert len(cuts.bins) == 1
    result = length_verdict(additive, {"a": [0], "b": [1]}, "a", cuts, "words", Resampling(samples=300))
    assert result["sentence"].startswith("b is ahead of a, by less on longer sources: +")


def test_several_systems_are_compared_with_the_best_or_the_baseline():
    effects = [equal, step(20, 8, -8), step(20, 3, 3), equal]
    best = verdict_of(effects, best="c", sentences=1500)
    assert [(pair["system"], pair["other"]) for pair in best["pairs"]] == [("c", "a"), ("c", "b"), ("c", "d")]
    assert best["pairs_corrected_for"] == 6, "the best is not known before"
    based = verdict_of(effects, baseline="d", best="c", sentences=1500)
    assert [(pair["system"], pair["other"]) for pair in based["pairs"]] == [("a", "d"), ("b", "d"), ("c", "d")]
    assert based["pairs_corrected_for"] == 3
    assert [pair["kind"] for pair in based["pairs"]] == ["none", "crossover", "every length"]
    assert based["sentence"].endswith("No lead on shorter or longer sources is shown between a and d.")
    assert len({pair["critical"] for pair in based["pairs"]}) == 1
    alone = verdict_of(effects, baseline="d", correction="none", sentences=1500)
    assert alone["pairs_corrected_for"] == 1
    assert all(one["critical"] <= other["critical"] for one, other in zip(alone["pairs"], based["pairs"], strict=True))
    assert best["pairs"][0]["critical"] >= based["pairs"][0]["critical"]


def test_many_systems_are_counted():
    effects = [equal, *(step(20, 9, -9) for _ in range(7))]
    result = verdict_of(effects, sentences=500)
    assert result["sentence"].count("up to") == 5
    assert "2 more systems" in result["sentence"]
    silent = verdict_of([equal] * 8, sentences=500)
    assert silent["sentence"] == "No lead on shorter or longer sources is shown between a and each of 7 other systems."


def test_names_with_braces_and_dollars_are_names():
    lengths = lengths_of(300)
    additive = scored(lengths, [step(20, 9, -9), equal])
    result = length_verdict(
        additive, {"{x} %s": [0], "{}": [1]}, "{x} %s", Cuts.of(lengths, BINS), "words", Resampling(samples=100)
    )
    assert result["sentence"].startswith("{x} %s is ahead of {} up to")


def test_what_is_found_does_not_depend_on_the_order_of_systems():
    lengths = lengths_of(400)
    effects = {"a": step(20, 3, -3), "b": equal, "c": step(30, 1, 2)}
    results = []
    for order in ("abc", "cba"):
        additive = scored(lengths, [effects[name] for name in "abc"])
        additive = type(additive)(
            additive.rows[:, ["abc".index(name) for name in order]], additive.columns, additive.elsewhere
        )
        systems = {name: [number] for number, name in enumerate(order)}
        cuts = Cuts.of(lengths, BINS)
        results.append(length_verdict(additive, systems, "c", cuts, "words", Resampling(samples=100)))
    one, other = ({(pair["system"], pair["other"]): pair for pair in result["pairs"]} for result in results)
    assert one == other
    assert all(first["cut"] <= second["cut"] for first, second in pairwise(one["c", "a"]["figures"][:10]))
