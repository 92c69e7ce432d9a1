"""Verdicts on claims: known effects are found, the variance is that of plain loops, each reason to abstain is said."""

import json
import math
from dataclasses import replace
from statistics import fmean, variance

import numpy as np
import pytest
from pydantic import ValidationError
from test_metrics import CORPUS_SCORE, texts

from posnmt.analyse.additive import Additive
from posnmt.analyse.analyse import analyse
from posnmt.analyse.measure import Resampling
from posnmt.analyse.scores import corpus_scores
from posnmt.study import contrast as contrast_module
from posnmt.study import evidence as stored
from posnmt.study.claims import Claim, Figures
from posnmt.study.contrast import SAMPLES, SEED, Contrast, Term, t_quantile
from posnmt.study.evidence import Evidence, Output
from posnmt.study.verdict import FEWEST_SENTENCES, decide

REFERENCE = 1000  # a length in the artificial evidence, to which differences are added


def resolve(text):
    system, _, training = text.partition("/")
    return system, training or "all"


def output(system, seed, share=0.0, training="all", **more):
    facts = {"trained_lengths": [2, 49], "parameters": 7, "training_speed": None, "decoding_speed": None, **more}
    return Output(f"{system}/{training}:{seed}", system, training, seed, share, **facts)


def evidence_of(differences, lengths):
    """Evidence of length differences.

    Args:
        differences: of each output with its difference of each sentence, whole numbers.
        lengths: of the sources.
    """
    rows = [REFERENCE + np.asarray(each) for _, each in differences]
    additive = Additive.of({}, rows, np.full(len(lengths), REFERENCE))
    return Evidence(additive.rows.astype(int), additive.columns, np.asarray(lengths), [made for made, _ in differences])


def drawn(generator, effects, lengths, seeds=3, over_seeds=1.0, over_sentences=8.0):
    """Evidence of systems whose true difference is a number, or a function of the source lengths."""
    lengths = np.asarray(lengths)
    common = generator.normal(0, 20, len(lengths))
    differences = []
    for system, effect in effects.items():
        own = generator.normal(0, over_sentences, len(lengths)) + (effect(lengths) if callable(effect) else effect)
        for seed in range(1, seeds + 1):
            found = common + own + generator.normal(0, over_seeds)
            differences.append((output(system, seed), np.round(found).astype(int)))
    return evidence_of(differences, lengths)


def claim(*comparisons):
    common = {"analysis": "test", "measure": "length_difference"}
    return Claim.model_validate(
        {"claim": 1, "says": "so", "holds_if": [{**common, **comparison} for comparison in comparisons]}
    )


def compare(is_, of="a", than="b", **more):
    sides = {
        name: {"system": side} if isinstance(side, str) else side for name, side in (("of", of), ("than", than)) if side
    }
    return {"is": is_, **sides, **more}


def decided(evidence, *comparisons, scale="small"):
    return decide(claim(*comparisons), {"test": evidence}, resolve, scale)


def one(evidence, comparison, scale="small"):
    return decided(evidence, comparison, scale=scale).comparisons[0]


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
    assert found.measures == additive.measures
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
    with pytest.raises(ValueError, match="counts are whole numbers"):
        stored.save(tmp_path, additive, np.arange(30), [as_step(output("a", seed)) for seed in range(3)])


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
    for system, quality in (("a", 0.9), ("b", 0.8)):
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
def test_the_variance_is_that_of_plain_loops(relative):
    """(a - b on long sentences) against (a on all of them): lengths overlap, and a's seeds are on both sides."""
    evidence = bleu_evidence()
    a, b = ("a", "all"), ("b", "all")
    longer, everything = evidence.source_lengths > 29, np.ones(40, bool)
    terms = [Term(a, [0, 1, 2], longer, 1, False), Term(b, [3, 4, 5], longer, -1, False),
             Term(a, [0, 1, 2], everything, 1, True)]  # fmt: skip
    contrast = Contrast(evidence, "bleu", terms, relative)

    def scores(place, chosen, sample):
        rows = [evidence.counts[row, place, :10] for row in sample if chosen[row]]
        return float(corpus_scores("bleu", np.sum(rows, axis=0)))

    def means(sample):
        return [[scores(place, term.chosen, sample) for place in term.places] for term in terms]

    def value(found):
        of, than = fmean(found[0]) - fmean(found[1]), fmean(found[2])
        return of / than - 1 if relative else of - than

    whole = means(range(40))
    assert contrast.value == pytest.approx(value(whole))
    generator = np.random.default_rng([SEED, 0])
    by_group = np.argsort(longer, kind="stable")  # the order in which sentences are drawn
    by_sentences = variance(value(means(by_group[generator.integers(0, 40, size=40)])) for _ in range(SAMPLES))
    of, than = fmean(whole[0]) - fmean(whole[1]), fmean(whole[2])
    per_of, per_than = (1 / than, -of / than**2) if relative else (1, -1)
    by_a = variance(per_of * longs + per_than * alls for longs, alls in zip(whole[0], whole[2], strict=True)) / 3
    by_b = variance(per_of * longs for longs in whole[1]) / 3
    estimate = contrast.estimate()
    assert estimate.variance == pytest.approx(by_sentences + by_a + by_b)
    assert estimate.freedom == pytest.approx((by_sentences + by_a + by_b) ** 2 / (by_a**2 / 2 + by_b**2 / 2))
    low, high = estimate.interval(0.95)
    assert (low + high) / 2 == pytest.approx(estimate.value)
    assert (high - low) / 2 == pytest.approx(t_quantile(0.975, estimate.freedom) * estimate.variance**0.5)


def test_chunks_of_samples_make_no_difference(monkeypatch):
    evidence = bleu_evidence()
    before = one(evidence, compare("higher", measure="bleu"))
    monkeypatch.setattr("posnmt.analyse.resample.bootstrap_sums.__defaults__", (40 * 7,))
    assert one(evidence, compare("higher", measure="bleu")).low == pytest.approx(before.low, rel=1e-12)


@pytest.mark.parametrize(("over_seeds", "over_sentences"), [(0.0, 10.0), (5.0, 10.0), (5.0, 1.0)])
def test_intervals_hold_the_truth_in_95_of_100_studies(monkeypatch, over_seeds, over_sentences):
    """With sentences alone to blame, with both, with seeds alone; and "higher" is found by chance in 2.5 of 100."""
    monkeypatch.setattr(contrast_module, "SAMPLES", 300)
    generator = np.random.default_rng(12)
    held, found = [], []
    for _ in range(200):
        evidence = drawn(generator, {"a": 0, "b": 0}, np.full(60, 30), 3, over_seeds, over_sentences)
        decision = one(evidence, compare("higher"))
        held.append(decision.low <= 0 <= decision.high)
        found.append(decision.word == "supported")
    assert 0.91 <= fmean(held) <= 0.99
    assert fmean(found) <= 0.06


# --- the verdicts


@pytest.fixture(scope="module")
def study():
    """b is as a; c is 12 more; d is 12 more on long sentences alone."""
    lengths = np.arange(10, 90).repeat(5)
    effects = {"a": 0.0, "b": 0.0, "c": 12.0, "d": lambda length: np.where(length > 49, 12.0, 0.0)}
    return drawn(np.random.default_rng(3), effects, lengths)


@pytest.mark.parametrize(
    ("comparison", "word"),
    [
        (compare("higher", "c", "a"), "supported"),
        (compare("higher", "a", "c"), "not supported"),
        (compare("higher", "a", "b"), "undecided"),
        (compare("lower", "a", "c"), "supported"),
        (compare("lower", "c", "a"), "not supported"),
        (compare("lower", "a", "b"), "undecided"),
        (compare("higher", "c", "a", by=5), "supported"),
        (compare("higher", "c", "a", by=12), "undecided"),
        (compare("higher", "c", "a", by=25), "not supported"),
        (compare("lower", "a", "c", by=25), "not supported"),
        (compare("equal", "a", "b", within=6), "supported"),
        (compare("equal", "a", "b", within=0.5), "undecided"),
        (compare("equal", "a", "c", within=6), "not supported"),
        (compare("equal", "c", "a", within=6), "not supported"),
        (compare("higher", {"system": "c", "minus": "a"}, None), "supported"),
        (compare("lower", {"system": "c", "minus": "a"}, None), "not supported"),
        (compare("higher", {"system": "d", "lengths": "longer"}, {"system": "a", "lengths": "longer"}), "supported"),
        (compare("equal", {"system": "d", "lengths": "seen"}, {"system": "a", "lengths": "seen"}, within=6),
         "supported"),
        (compare("higher", {"system": "d", "minus": "a", "lengths": "longer"},
                 {"system": "d", "minus": "a", "lengths": "seen"}, by=3), "supported"),
        (compare("higher", {"system": "c", "minus": "a", "lengths": "longer"},
                 {"system": "c", "minus": "a", "lengths": "seen"}), "undecided"),
        (compare("equal", {"system": "c", "minus": "a", "lengths": [50, None]},
                 {"system": "c", "minus": "a", "lengths": [None, 49]}, within=8), "supported"),
    ],
)  # fmt: skip
def test_true_effects_are_found(study, comparison, word):
    decision = one(study, comparison)
    assert decision.word == word
    assert decision.low < decision.value < decision.high
    assert decision.freedom > 2


def test_equality_is_two_one_sided_tests(study):
    """Supported as soon as the 90 % interval is inside, whatever the 95 % interval."""
    decision = one(study, compare("equal", "a", "b", within=6))
    reach = (decision.high - decision.value) / t_quantile(0.975, decision.freedom)
    inner = abs(decision.value) + t_quantile(0.95, decision.freedom) * reach
    outer = max(-decision.low, decision.high)
    assert inner < outer
    for within, word in ((inner * 1.001, "supported"), (inner * 0.999, "undecided")):
        assert one(study, compare("equal", "a", "b", within=within)).word == word


def test_longer_and_shorter_go_by_the_training_of_the_system():
    lengths = np.arange(1, 101)
    differences = [
        (output(system, seed, trained_lengths=trained), lengths + seed)
        for system, trained in (("a", [21, 40]), ("b", [31, 60]))
        for seed in (1, 2)
    ]
    evidence = evidence_of(differences, lengths)
    means = {
        "seen": (30.5, 45.5), "longer": (70.5, 80.5), "shorter": (10.5, 15.5), "all": (50.5, 50.5),
    }  # fmt: skip
    for name, (of_a, of_b) in means.items():
        sides = [{"system": system, "lengths": name} for system in "ab"]
        decision = one(evidence, compare("lower", *sides))
        assert decision.value == pytest.approx(of_a - of_b)
    fixed = {"system": "a", "lengths": {"smoke": [1, 20], "small": [None, 50]}}
    assert one(evidence, compare("higher", fixed, None)).value == pytest.approx(25.5 + 1.5)
    assert one(evidence, compare("higher", fixed, None), "smoke").value == pytest.approx(10.5 + 1.5)


def test_a_training_is_named_with_a_slash():
    generator = np.random.default_rng(1)
    differences = [
        (output("a", seed, training=training), generator.integers(low, low + 9, 50))
        for training, low in (("all", 0), ("short", 20))
        for seed in (1, 2, 3)
    ]
    evidence = evidence_of(differences, np.full(50, 9))
    assert one(evidence, compare("higher", "a/short", "a")).word == "supported"


def test_swapped_sources_are_outputs_of_their_own():
    generator = np.random.default_rng(1)
    differences = [
        (output(system, seed, share), generator.integers(0, 5, 50) - round(loss * share * 100))
        for share in (0.0, 0.1, 0.3)
        for system, loss in (("a", 1), ("b", 2))
        for seed in (1, 2, 3)
    ]
    evidence = evidence_of(differences, np.full(50, 9))
    gaps = [{"system": "a", "minus": "b", "share": share} for share in (0.3, 0.1)]
    decision = one(evidence, compare("higher", *gaps, by=10))
    assert decision.word == "supported"
    assert decision.value == pytest.approx(20, abs=2)


def speeds(**of_systems):
    """Evidence of speeds alone: system -> its seeds' training speeds."""
    differences = [
        (output(system, seed, training_speed=speed), [0])
        for system, figures in of_systems.items()
        for seed, speed in enumerate(figures)
    ]
    return evidence_of(differences, [9])


def test_speeds_have_no_part_of_sentences():
    evidence = speeds(a=[4400, 4500, 4600], b=[9900, 10000, 10100])
    decision = one(evidence, compare("lower", measure="training_speed", by=5000))
    assert (decision.word, decision.value) == ("supported", -5500)
    assert decision.freedom == pytest.approx(4)
    assert decision.high - decision.value == pytest.approx(2.7764451052 * math.sqrt(2 * 100**2 / 3))
    assert decision.why == ("3 seeds a system: −5,500 source tokens a second, 95 % interval −5,727 to −5,273")


def test_relative_margins_are_shares_of_than():
    evidence = speeds(a=[4400, 4500, 4600], b=[9900, 10000, 10100])

    def asked(is_, **margin):
        return one(evidence, compare(is_, measure="training_speed", relative=True, **margin))

    assert asked("lower", by=0.5).word == "supported"
    assert asked("lower", by=0.55).word == "undecided"
    assert asked("lower", by=0.6).word == "not supported"
    assert asked("equal", within=0.1).word == "not supported"
    decision = asked("equal", within=0.6)
    assert decision.value == pytest.approx(-0.55)
    by_a, by_b = (100 / 10_000) ** 2 / 3, (4500 * 100 / 10_000**2) ** 2 / 3
    assert decision.freedom == pytest.approx((by_a + by_b) ** 2 / (by_a**2 / 2 + by_b**2 / 2))
    reach = t_quantile(0.975, decision.freedom) * (by_a + by_b) ** 0.5
    assert (decision.low, decision.high) == (pytest.approx(-0.55 - reach), pytest.approx(-0.55 + reach))
    assert decision.sentence == (
        "training speed of a equal to of b, within 60 %: supported; "
        "3 seeds a system: −55.00 %, 90 % interval −56.54 to −53.46, 95 % interval −57.11 to −52.89"
    )


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
    analyse(
        source, source, {f"{system}:{seed}": path for (system, seed, share), path in files.items() if not share},
        swapped={(f"{system}:{seed}", share): path for (system, seed, share), path in files.items() if share},
        resampling=Resampling(samples=0), out=tmp_path / "out", bin_edges=[5],
        counts=lambda additive, lengths: stored.save(tmp_path, additive, lengths, map(as_step, outputs)),
    )  # fmt: skip
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


# --- what is said


def test_the_documented_sentence(study):
    sides = [{"system": system, "lengths": "longer"} for system in "ca"]
    decision = one(study, compare("higher", *sides, by=1))
    assert decision.why == (
        f"3 seeds a system, 200 sentences longer than 49 subwords: +{decision.value:.2f} subwords, "
        f"95 % interval +{decision.low:.2f} to +{decision.high:.2f}"
    )
    assert decision.sentence.startswith(
        "length difference of c (longer) higher than of a (longer), by more than 1 subwords: supported; 3 seeds"
    )


def test_two_kinds_of_sentences_are_both_said(study):
    sides = [{"system": "d", "minus": "a", "lengths": lengths} for lengths in ("longer", [12, 49])]
    decision = one(study, compare("higher", *sides))
    assert decision.asked == "length difference of d − a (longer) higher than of d − a (of 12 to 49 subwords)"
    assert decision.why.startswith(
        "3 seeds a system, 200 sentences longer than 49 subwords and 190 sentences of 12 to 49 subwords: +"
    )


def test_a_claim_is_as_good_as_its_comparisons(study):
    yes, no, unknown = compare("higher", "c", "a"), compare("higher", "a", "c"), compare("higher", "a", "b")
    for comparisons, word, why in (
        ([yes], "supported", "3 seeds a system, 400 sentences: +"),
        ([yes, yes], "supported", "all 2 comparisons are supported"),
        (
            [yes, unknown, yes],
            "undecided",
            "1 of 3 comparisons undecided: length difference of a higher than of b: 3 s",
        ),
        (
            [unknown, no, yes, no],
            "not supported",
            "2 of 4 comparisons not supported: length difference of a higher tha",
        ),
    ):
        verdict = decided(study, *comparisons)
        assert verdict.word == word
        assert verdict.why.startswith(why)
        assert verdict.why.endswith("; and 1 more") == (len(comparisons) == 4)
        assert [decision.comparison for decision in verdict.comparisons] == verdict.claim.holds_if


def without(evidence, *gone):
    """The evidence without the outputs of those systems and seeds."""
    kept = [place for place, each in enumerate(evidence.outputs) if (each.system, each.seed) not in gone]
    return replace(evidence, counts=evidence.counts[:, kept], outputs=[evidence.outputs[place] for place in kept])


def test_a_missing_output_is_named(study):
    for gone, why in (
        ([("b", 2)], "there is no output of b/all, seed 2: it was not run, or it failed"),
        ([("b", 1), ("b", 3)], "there is no output of b/all, seed 1, 3: it was not run, or it failed"),
        ([("b", seed) for seed in (1, 2, 3)], "there is no output of b/all: it was not run, or it failed"),
    ):
        decision = one(without(study, *gone), compare("higher"))
        assert (decision.word, decision.why, decision.value) == ("undecided", why, None)
        assert one(without(study, *gone), compare("higher", "c", "a")).word == "supported"
    swapped = compare("higher", {"system": "a", "share": 0.25}, "b")
    assert one(study, swapped).why.startswith("there is no output of a/all with 25 % of the words swapped: ")


def test_one_seed_has_a_value_and_no_verdict(study):
    gone = [(system, seed) for system in "abcd" for seed in (2, 3)]
    decision = one(without(study, *gone), compare("higher", "c", "a"))
    assert decision.word == "undecided"
    assert decision.value > 5
    assert (decision.low, decision.high, decision.freedom) == (None, None, None)
    assert decision.why == (
        f"1 seed a system, 400 sentences: +{decision.value:.2f} subwords, and one seed says nothing of others"
    )


def test_few_sentences_have_a_value_and_no_verdict(study):
    for last, word in ((13, "supported"), (12, "undecided")):
        sides = [{"system": system, "lengths": [None, last]} for system in "ca"]
        decision = one(study, compare("higher", *sides))
        assert decision.word == word
        assert decision.value > 5
    assert (decision.low, decision.high) == (None, None)
    assert decision.why == (
        f"3 seeds a system, 15 sentences of 1 to 12 subwords: +{decision.value:.2f} subwords, "
        f"and fewer than {FEWEST_SENTENCES} sentences say nothing of others"
    )
    nothing = one(study, compare("higher", {"system": "c", "lengths": [200, None]}, "a"))
    assert (nothing.word, nothing.why) == ("undecided", "the test has no sentences longer than 199 subwords")
    nothing = one(study, compare("higher", {"system": "c", "lengths": "shorter"}, "a"))
    assert nothing.why == "the test has no sentences of 1 to 1 subwords"


def test_other_reasons_to_decide_nothing(study):
    def why(evidence, comparison, scale="small"):
        decision = one(evidence, comparison, scale)
        assert decision.word == "undecided"
        return decision.why

    missing = decide(claim(compare("higher", analysis="other")), {"test": study}, resolve, "small")
    assert (missing.word, missing.why) == ("undecided", "the analysis other was not made")
    assert why(study, compare("higher", measure="chrf")) == "the analysis test does not measure chrf"
    by_scale = {"system": "a", "lengths": {"paper": [1, 9]}}
    assert why(study, compare("higher", by_scale)) == "the claim names no lengths for the scale small"
    unknown = replace(study, outputs=[replace(each, trained_lengths=None) for each in study.outputs])
    longer = {"system": "a", "lengths": "longer"}
    assert why(unknown, compare("higher", longer)) == "the source lengths in the training of a are not known"
    slow = compare("lower", measure="training_speed")
    assert why(study, slow) == "the training speed of a/all was not measured"
    some = speeds(a=[1.0, 2.0], b=[1.0, None])
    assert why(some, slow) == "the training speed of b/all was not measured"
    still = speeds(a=[2.0, 2.0], b=[1.0, 1.0])
    assert why(still, slow) == "2 seeds a system: no figure varies, so that nothing is known of chance"
    share = compare("lower", "a", {"system": "a", "minus": "c"}, relative=True)
    assert "and nothing is a share of that" in why(study, share)


def test_figures_that_are_not_defined_decide_nothing():
    differences = [(output(system, seed), np.arange(30)) for system in "ab" for seed in (1, 2)]
    evidence = evidence_of(differences, np.full(30, 9))
    evidence.counts[..., -1] = 0
    decision = one(evidence, compare("higher", measure="length_ratio"))
    assert (decision.word, decision.value) == ("undecided", None)
    assert decision.why == "the figure is not defined: there is nothing to divide by"


# --- what may be asked


@pytest.mark.parametrize(
    ("comparison", "fault"),
    [
        (compare("higher", {"system": "a", "lengths": [9, 3]}), "a range of lengths is .*; 3 is less than 9"),
        (compare("higher", {"system": "a", "lengths": [9]}), "at least 2 items"),
        (compare("higher", measure="meteor"), "Input should be 'bleu'"),
        (compare("lower", {"system": "a", "lengths": "longer"}, measure="training_speed"), "has no `lengths`"),
        (compare("equal"), "`within` belongs to `is: equal`"),
        (compare("higher", than=None, relative=True), "`relative` needs `than`"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(comparison, fault):
    with pytest.raises(ValidationError, match=fault):
        claim(comparison)


def test_lengths_by_scale():
    figures = Figures.model_validate({"system": "a", "lengths": {"small": [1, None]}})
    assert (figures.lengths_at("small"), figures.lengths_at("paper")) == ([1, None], None)
    assert Figures(system="a").lengths_at("paper") == "all"
