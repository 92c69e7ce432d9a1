"""What verdicts rest on: the counts that are stored, and an estimate whose variance is that of plain loops."""

import json
import math
import re
from dataclasses import replace
from statistics import fmean, variance

import numpy as np
import pytest

from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.seeds import t_quantile, t_tails
from posnmt.evaluation.analyse.settings import Settings
from posnmt.metrics.registry import METRICS
from posnmt.study import contrast as contrast_module
from posnmt.study import evidence as stored
from posnmt.study.contrast import SEED, Contrast, Term
from posnmt.study.estimate import Estimate, Part
from posnmt.study.evidence import Evidence
from tests.support.metrics_case import CORPUS_SCORE, texts
from tests.support.verdict_case import compare, drawn, one, output

# --- what is stored


@pytest.fixture
def additive():
    generator = np.random.default_rng(5)
    statistics = {"bleu": [generator.integers(0, 300, (30, 10)) for _ in range(3)],
                  "ter": [generator.integers(1, 30, (30, 2)) for _ in range(3)]}  # fmt: skip
    return Additive.of(statistics, [generator.integers(1, 40, 30) for _ in range(3)], generator.integers(1, 40, 30))


def as_step(made):
    return {**vars(made), "file": "a path"}


def test_what_is_stored_gives_the_same_measures(additive, tmp_path):
    outputs = [output("a", 1), output("a", 2), output("a", 1, 0.1, trained_lengths=None)]
    stored.save(tmp_path, additive, np.arange(30), map(as_step, outputs))
    found = stored.load(tmp_path)
    assert found.outputs == outputs
    assert found.measures == (*additive.measures, "near_longest")
    assert found.counts.dtype == np.uint16
    assert found.source_lengths.tolist() == list(range(30))
    assert found.places(("a", "all"), 0) == {1: 0, 2: 1}
    assert found.places(("a", "all"), 0.1) == {1: 2}
    sentences = np.array([3, 17, 28])
    expected = additive.measure(additive.rows[sentences].sum(axis=0))
    for measure in additive.measures:
        table = found.table(measure, sentences, [2, 0])
        assert table.measure(table.rows.sum(axis=0))[measure] == pytest.approx(expected[measure][[2, 0]])
    assert "file" not in json.loads((tmp_path / "outputs.json").read_text())[0]


def test_what_is_stored_must_be_whole_and_named(additive, tmp_path):
    with pytest.raises(ValueError, match="2 outputs are named, and 3 were counted"):
        stored.save(tmp_path, additive, np.arange(30), map(as_step, [output("a", 1), output("a", 2)]))
    additive.rows[0, 0, 0] = 0.5
    with pytest.raises(ValueError, match="counts must be integers"):
        stored.save(tmp_path, additive, np.arange(30), [as_step(output("a", seed)) for seed in range(3)])


def test_counts_of_an_analysis_give_its_own_figures(tmp_path):
    """From texts, plain and swapped, by way of the files, to values that are sacreBLEU's."""
    references, first = texts(60, seed=1)
    lines = {("a", 1, 0.0): first, ("a", 2, 0.0): texts(60, seed=1)[1][::-1], ("b", 1, 0.0): references,
             ("b", 2, 0.0): references[1:] + references[:1], ("a", 1, 0.2): references[::-1],
             ("a", 2, 0.2): first[1:] + first[:1]}  # fmt: skip
    files = {}
    for number, (key, translation) in enumerate(lines.items()):
        files[key] = tmp_path / f"{number}.txt"
        files[key].write_text("".join(f"{line}\n" for line in translation), encoding="utf-8")
    outputs = [output(*key, trained_lengths=[3, 9]) for key in lines]
    source = files["b", 1, 0]
    analysis = analyse(
        source, source, {f"{system}:{seed}": path for (system, seed, share), path in files.items() if not share},
        Settings(resampling=Resampling(samples=0), bin_edges=[5]),
        {(f"{system}:{seed}", share): path for (system, seed, share), path in files.items() if share},
    )  # fmt: skip
    stored.save(tmp_path, analysis.additive, analysis.source_lengths, map(as_step, outputs))
    evidence = stored.load(tmp_path)
    chosen = [row for row, line in enumerate(references) if len(line.split()) > 9]
    assert 0 < len(chosen) < 60

    def score(metric, *keys, rows):
        wanted = [references[row] for row in rows]
        return fmean(metric([lines[key][row] for row in rows], [wanted]).score for key in keys)

    for measure, metric in CORPUS_SCORE.items():
        plain, swapped = (score(metric, ("a", 1, share), ("a", 2, share), rows=range(60)) for share in (0.0, 0.2))
        decision = one(evidence, compare("higher", {"system": "a", "share": 0.2}, "a", measure=measure))
        assert decision.value == pytest.approx(swapped - plain)
        gap = {"system": "a", "minus": "b", "lengths": "longer"}
        expected = score(metric, ("a", 1, 0.0), ("a", 2, 0.0), rows=chosen) - score(
            metric, ("b", 1, 0.0), ("b", 2, 0.0), rows=chosen
        )
        assert one(evidence, compare("higher", gap, None, measure=measure)).value == pytest.approx(expected)


# --- the estimate


@pytest.mark.parametrize(
    ("share", "freedom", "t"),
    [
        (0.975, 1, 12.7062047364), (0.975, 2, 4.3026527297), (0.975, 4, 2.7764451052), (0.95, 4, 2.1318467863),
        (0.975, 120, 1.9799304051), (0.975, math.inf, 1.9599639845), (0.95, math.inf, 1.6448536270),
    ],
)  # fmt: skip
def test_quantiles_are_those_of_the_tables(share, freedom, t):
    assert t_quantile(share, freedom) == pytest.approx(t, rel=1e-9)


def bleu_evidence(seeds=3, sentences=40):
    """BLEU counts of two systems at random; sources of 10 to 49 tokens."""
    generator = np.random.default_rng(8)
    lengths = generator.integers(10, 50, sentences)
    statistics, rows, outputs = [], [], []
    for system, best in (("a", 1.0), ("b", 0.9)):
        quality = generator.uniform(best - 0.4, best, sentences)  # sentences are difficult for all seeds
        for seed in range(seeds):
            length = lengths + generator.integers(0, 4, sentences)
            totals = [length - order for order in range(4)]
            correct = [generator.binomial(total, (quality - 0.03 * seed) ** order)
                       for order, total in enumerate(totals, 1)]  # fmt: skip
            statistics.append(np.stack([length, lengths, *correct, *totals], axis=1))
            rows.append(length)
            outputs.append(output(system, seed, trained_lengths=[10, 29]))
    additive = Additive.of({"bleu": statistics}, rows, lengths)
    return Evidence(additive.rows, additive.columns, lengths, outputs)


@pytest.mark.parametrize("relative", [False, True])
def test_the_variance_is_that_of_plain_loops(relative, monkeypatch):
    """(a - b on long sentences) against (a on all of them): lengths overlap, and a's seeds are on both sides."""
    monkeypatch.setattr(contrast_module, "SAMPLES", 100)
    evidence = bleu_evidence()
    a, b = ("a", "all"), ("b", "all")
    longer, everything = evidence.source_lengths > 29, np.ones(40, bool)
    of_a, of_b = {0: 0, 1: 1, 2: 2}, {0: 3, 1: 4, 2: 5}
    terms = [Term(a, of_a, longer, 1, False), Term(b, of_b, longer, -1, False), Term(a, of_a, everything, 1, True)]
    contrast = Contrast.of(evidence, "bleu", terms, relative)

    def scores(place, chosen, sample):
        rows = [evidence.counts[row, place, :10] for row in sample if chosen[row]]
        return float(METRICS["bleu"].score(np.sum(rows, axis=0)))

    def means(sample):
        return [[scores(place, term.chosen, sample) for place in term.places] for term in terms]

    def value(found):
        of, than = fmean(found[0]) - fmean(found[1]), fmean(found[2])
        return of / than - 1 if relative else of - than

    whole = means(range(40))
    assert contrast.value == pytest.approx(value(whole))
    generator = np.random.default_rng([SEED, 0])
    by_group = np.argsort(longer, kind="stable")  # the order in which sentences are drawn
    sampled = [means(by_group[generator.integers(0, 40, size=40)]) for _ in range(100)]
    of, than = fmean(whole[0]) - fmean(whole[1]), fmean(whole[2])
    per_of, per_than = (1 / than, -of / than**2) if relative else (1, -1)

    def over_seeds(found):
        a = variance(per_of * longs + per_than * alls for longs, alls in zip(found[0], found[2], strict=True)) / 3
        return a, variance(per_of * longs for longs in found[1]) / 3

    by_a, by_b = over_seeds(whole)
    in_samples = [fmean(parts) for parts in zip(*map(over_seeds, sampled), strict=True)]
    assert in_samples[0] > by_a
    assert in_samples[1] > by_b
    by_sentences = variance(map(value, sampled)) - (in_samples[0] - by_a) - (in_samples[1] - by_b)
    estimate = contrast.estimate()
    assert estimate.variance == pytest.approx(by_sentences + by_a + by_b)
    assert estimate.freedom == pytest.approx((by_sentences + by_a + by_b) ** 2 / (by_a**2 / 2 + by_b**2 / 2))
    low, high = estimate.interval(0.95)
    assert (low + high) / 2 == pytest.approx(estimate.value)
    assert (high - low) / 2 == pytest.approx(t_quantile(0.975, estimate.freedom) * estimate.variance**0.5)


def test_documents_are_sampled_whole(monkeypatch):
    """By plain loops, on long sentences against all: what is drawn, the degrees of freedom, and what samples lack."""
    monkeypatch.setattr(contrast_module, "SAMPLES", 100)
    documents = np.array([0] * 9 + [1] * 3 + [2] * 8 + [3, 4, 5] * 5 + [6] * 5)
    evidence = replace(bleu_evidence(), documents=documents)
    longer, everything = evidence.source_lengths > 29, np.ones(40, bool)
    of_a, of_b = {0: 0, 1: 1, 2: 2}, {0: 3, 1: 4, 2: 5}
    terms = [Term(("a", "all"), of_a, longer, 1, False), Term(("b", "all"), of_b, everything, 1, True)]
    contrast = Contrast.of(evidence, "bleu", terms)

    def means(sample):
        return [
            [
                float(METRICS["bleu"].score(np.sum([evidence.counts[row, place, :10] for row in rows], axis=0)))
                for place in term.places
            ]
            for term in terms
            for rows in [[row for row in sample if term.chosen[row]]]
        ]

    def over_seeds(found):
        return [variance(of_term) / 3 for of_term in found]

    whole = means(range(40))
    generator = np.random.default_rng([SEED, 0])
    drawn_documents = [generator.integers(0, 7, size=7) for _ in range(100)]
    samples = [[row for each in drawn for row in np.flatnonzero(documents == each)] for drawn in drawn_documents]
    sampled = [means(sample) for sample in samples if longer[sample].any()]
    own, in_samples = over_seeds(whole), [fmean(parts) for parts in zip(*map(over_seeds, sampled), strict=True)]
    excess = math.fsum(max(0.0, one - other) for one, other in zip(in_samples, own, strict=True))
    of_samples = variance(fmean(of) - fmean(than) for of, than in sampled) - excess
    references = evidence.counts[:, 0, -1]
    sizes = [
        [math.fsum(references[chosen & (documents == each)]) for each in range(7)] for chosen in (longer, everything)
    ]
    effective = min(math.fsum(size) ** 2 / math.fsum(each**2 for each in size) for size in sizes)
    assert contrast.documents == pytest.approx(effective)
    over_documents = of_samples * effective / (effective - 1)
    total = over_documents + sum(own)
    below = over_documents**2 / (effective - 1) + math.fsum(part**2 / 2 for part in own)
    estimate = contrast.estimate()
    assert (estimate.variance, estimate.freedom) == (pytest.approx(total), pytest.approx(total**2 / below))


def test_a_verdict_says_how_many_documents_there_are():
    """Of one document nothing is decided; and a sentence for each document is as good as none known."""
    evidence = bleu_evidence(sentences=60)
    asked = compare("higher", measure="bleu")
    plain, each, one_only = (
        one(replace(evidence, documents=documents), asked) for documents in (None, np.arange(60), np.zeros(60, int))
    )
    assert each.value == plain.value == one_only.value
    assert each.high - each.low == pytest.approx(plain.high - plain.low, rel=0.1)
    assert re.search(r"on 60 sentences in documents that count as 5\d of equal size", each.why)
    assert "document" not in plain.why
    assert (one_only.word, one_only.low) == ("undecided", None)
    assert "fewer than 2 documents" in one_only.why


def test_documents_are_stored_with_the_counts(tmp_path):
    additive = Additive.of({}, [np.arange(4)], np.arange(4))
    for documents in (np.array([0, 0, 1, 1]), None):
        stored.save(tmp_path, additive, np.arange(4), [as_step(output("a", 1))], documents)
        found = stored.load(tmp_path).documents
        assert (found is None) == (documents is None)
        assert documents is None or found.tolist() == [0, 0, 1, 1]


def test_chunks_of_samples_make_no_difference(monkeypatch):
    evidence = bleu_evidence()
    before = one(evidence, compare("higher", measure="bleu"))
    monkeypatch.setattr("posnmt.evaluation.analyse.resample.bootstrap_sums.__defaults__", (40 * 7, None))
    assert one(evidence, compare("higher", measure="bleu")).low == pytest.approx(before.low, rel=1e-12)


@pytest.mark.parametrize(("over_seeds", "over_sentences"), [(0.0, 10.0), (5.0, 10.0), (5.0, 1.0)])
def test_intervals_hold_the_truth_in_95_of_100_studies(monkeypatch, over_seeds, over_sentences):
    """With sentences alone to blame, with both, with seeds alone; and "higher" is found by chance in 2.5 of 100."""
    monkeypatch.setattr(contrast_module, "SAMPLES", 150)
    generator = np.random.default_rng(12)
    held, found = [], []
    for _ in range(120):
        evidence = drawn(generator, {"a": 0, "b": 0}, np.full(60, 30), 3, over_seeds, over_sentences)
        decision = one(evidence, compare("higher"))
        held.append(decision.low <= 0 <= decision.high)
        found.append(decision.word == "supported")
    assert 0.91 <= fmean(held) <= 0.99
    assert fmean(found) <= 0.06


@pytest.mark.parametrize(("seeds", "others", "share"), [(2, 5, 0.06), (2, 2, 0.06), (3, 3, 0.04), (5, 5, 0.03)])
def test_few_seeds_that_differ_much_support_more_than_nominal(seeds, others, share):
    """As docs/verdicts.md has it: seeds that differ up to ten times as much as the others, sentences besides."""
    generator, studies, found = np.random.default_rng(3), 3000, []
    for ratio, over_sentences in ((5, 1.0), (10, 3.0)):
        of, than = generator.normal(0, ratio, (studies, seeds)), generator.normal(0, 1, (studies, others))
        values = of.mean(axis=1) - than.mean(axis=1) + generator.normal(0, over_sentences**0.5, studies)
        parts = [(each.var(axis=1, ddof=1) / each.shape[1], each.shape[1]) for each in (of, than)]
        estimates = [
            Estimate.of(value, over_sentences, [Part(part[number], count - 1, count) for part, count in parts])
            for number, value in enumerate(values)
        ]
        p = [t_tails(each.value / each.variance**0.5, each.freedom) for each in estimates]
        found.append(fmean((values > 0) & (np.array(p) < 0.05)))
    assert max(found) == pytest.approx(share, abs=0.012)


@pytest.mark.parametrize(("over_seeds", "of_each"), [(0.0, 30.0), (3.0, 30.0), (3.0, 0.0)])
def test_the_variance_is_that_of_the_studies(monkeypatch, over_seeds, of_each):
    """What a seed does to single sentences counts once."""
    monkeypatch.setattr(contrast_module, "SAMPLES", 200)
    generator = np.random.default_rng(5)
    estimates = []
    for _ in range(400):
        evidence = drawn(generator, {"a": 0, "b": 0}, np.full(60, 30), 3, over_seeds, 4.0, of_each)
        terms = [Term((name, "all"), {seed: first + seed for seed in range(3)}, np.ones(60, bool), 1, name == "b")
                 for name, first in (("a", 0), ("b", 3))]  # fmt: skip
        estimates.append(Contrast.of(evidence, "length_difference", terms).estimate())
    truth = 2 * (4.0**2 / 60 + over_seeds**2 / 3 + of_each**2 / 60 / 3)
    assert variance(each.value for each in estimates) == pytest.approx(truth, rel=0.2)
    assert fmean(each.variance for each in estimates) == pytest.approx(truth, rel=0.15)
