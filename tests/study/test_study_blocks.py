"""Which trainings share their seeds, and the variance over seeds of a contrast in a block, against plain loops."""

import copy
import csv
import lzma
import math
from pathlib import Path
from statistics import fmean, variance

import numpy as np
import pytest

from posnmt.evaluation.analyse.moderated import components, interaction, moderated
from posnmt.study.blocks import Training, Unit, planned, shares, units
from posnmt.study.contrast import Contrast, Term
from posnmt.study.estimate import Estimate, Part
from posnmt.study.load import load
from posnmt.study.verdict import Decision, Verdict, corrected, counts, p_of, word_of
from tests.support.verdict_case import claim, compare, drawn, one, resolve

# --- which trainings share seeds

CONFIG = {
    "data": {"root": "here", "train": {"source": "a"}, "dev": {}, "held_out": None, "store": "s", "max_length": 28},
    "subword": {"text": None, "vocabulary": 100},
    "model": {
        "system": "relative", "without": None, "max_length": 512, "d_model": 128, "architecture": "transformer",
        "encoder": {"layers": 3, "position": [{"scheme": "relative"}]},
        "decoder": {"layers": 3, "position": [], "cross": []},
    },
    "train": {"seed": 1, "steps": 1600, "batch": 2048, "optimizer": "adam", "muon_every": 1, "log_every": 50,
              "loggers": []},
    "decode": {"beam": 4},
}  # fmt: skip
RECORD = {"data": "d", "steps": 1600, "posnmt": "1"}


def changed(place, value):
    config, record = copy.deepcopy((CONFIG, RECORD))
    section, *keys = place.split(".")
    at = record if section == "record" else config[section]
    for key in keys[:-1]:
        at = at[key]
    assert at[keys[-1]] != value
    at[keys[-1]] = value
    return shares(config, record)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("model.system", "transformer"), ("model.without", "decoder"), ("model.max_length", 1024),
        ("model.encoder.position", [{"scheme": "sinusoidal"}]), ("model.decoder.position", [{"scheme": "rope"}]),
        ("model.decoder.cross", [{"scheme": "rope"}]),
        ("data.root", "there"), ("data.train", {"source": "b"}), ("data.store", "t"), ("subword.text", "folder"),
        ("train.log_every", 9), ("train.muon_every", None), ("decode.beam", 1),
    ],
)  # fmt: skip
def test_the_scheme_folders_and_search_leave_a_block_as_it_is(place, value):
    assert changed(place, value) == shares(CONFIG, RECORD)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("model.encoder.layers", 2), ("model.decoder.layers", 2), ("model.d_model", 256), ("train.seed", 2),
        ("model.architecture", "rnn-nmt"), ("train.batch", 1024), ("train.steps", 800), ("train.optimizer", "muon"),
        ("data.max_length", 21), ("subword.vocabulary", 200), ("record.data", "e"), ("record.steps", 900),
        ("record.posnmt", "2"),
    ],
)  # fmt: skip
def test_other_weights_batches_or_updates_are_another_block(place, value):
    assert changed(place, value) != shares(CONFIG, RECORD)


def block(systems, seeds=3, shared="all"):
    return {resolve(name): {seed: Training(name, shared) for seed in range(1, seeds + 1)} for name in systems}


def of(names, seeds=3):
    return {resolve(name): range(1, seeds + 1) for name in names}


A, B, C, D, E = (resolve(name) for name in "abcde")


def test_a_block_of_four_systems_has_peers_and_a_smaller_one_is_paired_from_five_seeds_on():
    (unit,) = units(of("ab"), block("abcd"))
    assert (unit.variants, unit.seeds, [*unit.peers]) == ((A, B), (1, 2, 3), [C, D])
    assert units(of("ab"), block("abc")) == [Unit((A,), (1, 2, 3)), Unit((B,), (1, 2, 3))]
    assert units(of("ab", 5), block("abc", 5)) == [Unit((A, B), (1, 2, 3, 4, 5))]
    assert units(of("ab"), {}) == [Unit((A,), (1, 2, 3)), Unit((B,), (1, 2, 3))]


def test_four_systems_of_two_seeds_are_too_few_and_five_are_enough():
    assert not any(unit.peers for unit in units(of("ab", 2), block("abcd", 2)))
    (unit,) = units(of("ab", 2), block("abcde", 2))
    assert unit.systems == 5


def test_the_seeds_that_all_systems_of_a_comparison_have_are_compared():
    """Peers may have fewer, if two or more."""
    trainings = block("ab", 5) | block("c", 2) | block("d", 4) | block("e", 1)
    (unit,) = units({A: range(1, 6), D: range(1, 5)}, trainings)
    assert unit.seeds == (1, 2, 3, 4)
    assert unit.peers == {B: (1, 2, 3, 4), C: (1, 2)}


def test_systems_of_other_blocks_are_apart():
    """Of two texts, say: each pair of a difference of differences is compared in its own block."""
    names = [f"{system}/{training}" for training in ("x", "y") for system in "abcd"]
    trainings = block(names[:4], shared="x") | block(names[4:], shared="y")
    first, second = units(of(["a/x", "b/x", "a/y", "b/y"]), trainings)
    assert [name for name, _ in first.members] == [name for name, _ in second.members] == ["a", "b", "c", "d"]
    assert {training for _, training in first.members} == {"x"}


def test_systems_that_share_a_training_count_once():
    trainings = block("abc") | {resolve(f"a-{search}"): block("a")[A] for search in ("beam", "clipped")}
    assert [unit.systems for unit in units(of("ab"), trainings)] == [1, 1]
    trainings |= block("d")
    assert [unit.systems for unit in units(of("ab"), trainings)] == [4]


@pytest.mark.parametrize(
    ("name", "systems"),
    [("chen2019a", 6), ("chen2019b", 12), ("schemes", 15), ("neishi2019", 1)],
)
def test_the_blocks_of_the_recipes(name, systems):
    """The RNN has other weights, and RNN- and RR-Transformer one layer less than the other two Transformers."""
    recipe = load(name, check_configs=False)
    own = {recipe.variant(text) for side in recipe.claims_at("small")[0].test.sides for text in side.variants}
    seeds = {variant: range(1, 1 + recipe.seeds(variant, "small")) for variant in own}
    assert max(unit.systems for unit in units(seeds, planned(recipe, "small"))) == systems


# --- the variance


def plain(figures, weights):
    """The variances of components, of complete blocks, from loops."""
    systems, seeds, classes = range(len(figures)), range(len(figures[0])), range(len(figures[0][0]))
    of_seed = [[fmean(figures[t][r][k] for t in systems) for k in classes] for r in seeds]
    total = [sum(weights[t][k] for t in systems) for k in classes]
    shared = [sum(total[k] * of_seed[r][k] for k in classes) for r in seeds]
    own = [sum(weights[t][k] * (figures[t][r][k] - of_seed[r][k]) for t in systems for k in classes) for r in seeds]

    def residual(t, r, k):
        mean = fmean(figures[t][each][k] for each in seeds)
        return figures[t][r][k] - mean - of_seed[r][k] + fmean(of_seed[each][k] for each in seeds)

    usual = 0.0
    for t in systems:  # the mean square of the interaction of u_t's figures
        u = [weights[t][k] - total[k] / len(systems) for k in classes]
        squares = sum(sum(u[k] * residual(each, r, k) for k in classes) ** 2 for each in systems for r in seeds)
        usual += squares / (len(systems) - 1) / (len(seeds) - 1)
    return variance(shared) / len(seeds), variance(own) / len(seeds), usual / len(seeds)


PAIR = [[1], [-1], [0], [0], [0]]
TWO_LENGTHS = [[1, -1], [-1, 1], [0, 0], [0, 0], [0, 0]]
ONE_SYSTEM = [[1, -1], [0, 0], [0, 0], [0, 0], [0, 0]]
RELATIVE = [[0.05], [-0.04], [0], [0], [0]]


@pytest.mark.parametrize("weights", [PAIR, TWO_LENGTHS, ONE_SYSTEM, RELATIVE])
def test_the_components_are_those_of_plain_loops(weights):
    weights = np.array(weights, float)
    figures = np.random.default_rng(1).normal(30, 1, (5, 3, weights.shape[1]))
    found = components(figures, weights, np.ones((5, 3), bool))
    assert [found.shared, found.own, found.usual] == pytest.approx(plain(figures.tolist(), weights.tolist()))


def test_of_a_pair_the_usual_variance_is_twice_the_mean_square():
    figures = np.random.default_rng(2).normal(0, 1, (6, 4, 1))
    found = components(figures, np.array([[1], [-1], [0], [0], [0], [0]], float), np.ones((6, 4), bool))
    assert found.usual == pytest.approx(2 * float(interaction(figures, np.ones((6, 4), bool))[0, 0]) / 4)
    assert found.shared == 0
    difference = figures[0, :, 0] - figures[1, :, 0]
    assert found.own == pytest.approx(difference.var(ddof=1) / 4)


def test_a_seed_that_shifts_all_systems_changes_nothing_between_two_of_them():
    generator, present = np.random.default_rng(3), np.ones((5, 3), bool)
    figures, weights = generator.normal(0, 1, (5, 3, 1)), np.array(PAIR, float)
    shifted = figures + generator.normal(0, 50, (1, 3, 1))
    for name in ("shared", "own", "usual"):
        before, after = (getattr(components(each, weights, present), name) for each in (figures, shifted))
        assert after == pytest.approx(before)
    alone = np.array([[1], [0], [0], [0], [0]], float)
    assert components(shifted, alone, present).shared > 100 * components(figures, alone, present).shared


def test_missing_outputs_are_left_out_of_the_fit():
    """Without interaction none is found, whatever is missing; with it, its variance is that of the others."""
    generator, present = np.random.default_rng(4), np.ones((6, 4), bool)
    present[3, 2:] = present[5, 0] = False
    additive = generator.normal(0, 3, (6, 1, 1)) + generator.normal(0, 3, (1, 4, 1))
    assert interaction(additive, present) == pytest.approx(0, abs=1e-12)
    noise = generator.normal(0, 2, (4000, 6, 4, 1))
    noise[:, ~present] = np.nan
    assert interaction(np.where(present[..., None], noise, 0), present).mean() == pytest.approx(4, rel=0.03)


def test_the_moderated_variance():
    """W = max((4 m + (R - 1) q) / (R + 3), q)."""
    for q, m, seeds in ((1.0, 3.0, 2), (1.0, 3.0, 5), (5.0, 1.0, 3)):
        expected = max((4 * m + (seeds - 1) * q) / (seeds + 3), q)
        assert moderated(np.array(q), np.array(m), seeds) == pytest.approx(expected)


def test_a_contrast_in_a_block_has_the_variance_of_the_rule():
    """From the counts of sentences, by way of terms, to the degrees of freedom."""
    generator = np.random.default_rng(7)
    evidence = drawn(generator, dict.fromkeys("abcdef", 0.0), np.full(80, 30), 3, 2.0, 8.0)
    scores = {(each.system, each.seed): fmean(evidence.counts[:, place, 1]) - 1000
              for place, each in enumerate(evidence.outputs)}  # fmt: skip
    terms = [
        Term(resolve(name), evidence.places(resolve(name), 0.0), np.ones(80, bool), 1, name == "b") for name in "ab"
    ]
    estimate = Contrast.of(evidence, "length_difference", terms, trainings=block("abcdef")).estimate()
    figures = [[[scores[name, seed]] for seed in (1, 2, 3)] for name in "abcdef"]
    _, q, m = plain(figures, [[1], [-1], [0], [0], [0], [0]])
    (part,) = estimate.over_seeds
    assert (part.variance, part.freedom, part.seeds) == (pytest.approx(max((4 * m + 2 * q) / 6, q)), 6, 3)
    over_sentences = estimate.variance - part.variance
    assert 0 < over_sentences < 2 * 2 * 8**2 / 80
    assert estimate.freedom == pytest.approx(estimate.variance**2 / (part.variance**2 / 6))


RESULTS = Path(__file__).parents[2] / "docs" / "results" / "chen2019a-small" / "results.csv.xz"


@pytest.mark.parametrize(
    ("of", "than", "value", "low", "high", "p"),
    [("re-both", "transformer", 0.29, 0.05, 0.54, 0.022), ("relative", "re-both", 0.55, 0.25, 0.84, 0.0015)],
)
def test_the_worked_example_of_the_specification(of, than, value, low, high, p):
    """Six systems with five seeds of Chen et al. (2019); 4,500 sentences, 3.7 BLEU each.

    The specification has 0.27 to 0.82 for the second pair, which is its W without the bound q.
    """
    figures: dict[str, dict[int, float]] = {}
    with lzma.open(RESULTS, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if (row["test_condition"], row["bin"], row["measure"], row["unit"]) == ("test", "all", "bleu", "subwords"):
                figures.setdefault(row["system"], {})[int(row["seed"])] = float(row["value"])
    systems = [of, than, *(name for name in figures if name not in (of, than))]
    table = np.array([[[figures[name][seed]] for seed in range(1, 6)] for name in systems])
    among = components(table, np.array([[1], [-1], [0], [0], [0], [0]], float), np.ones((6, 5), bool))
    difference = float(table[0].mean() - table[1].mean())
    part = Part(float(moderated(among.own, among.usual, 5)), 8, 5)
    estimate = Estimate.of(difference, 3.7**2 / 4500, [part])
    assert estimate.value == pytest.approx(value, abs=0.005)
    assert estimate.interval(0.95) == (pytest.approx(low, abs=0.005), pytest.approx(high, abs=0.005))
    assert estimate.p() == pytest.approx(p, abs=0.0006)


def test_welch_is_shown_beside_and_has_all_seeds():
    evidence = drawn(np.random.default_rng(8), dict.fromkeys("abcde", 0.0), np.full(80, 30), 4, 2.0)
    kept = [place for place, each in enumerate(evidence.outputs) if (each.system, each.seed) != ("b", 4)]
    evidence = type(evidence)(evidence.counts[:, kept], evidence.columns, evidence.source_lengths,
                              [evidence.outputs[place] for place in kept])  # fmt: skip
    rules = {"seeds": lambda variant: 3 if variant == B else 4}
    alone, blocked = (one(evidence, compare("higher"), trainings=each, **rules) for each in ({}, block("abcde", 4)))
    assert (alone.systems, blocked.systems) == (0, 5)
    assert (blocked.welch.value, blocked.welch.freedom) == (alone.value, alone.freedom)
    assert "with 3 to 4 seeds of each system:" in alone.why
    assert "with 3 seeds of each system in a block of 5 systems:" in blocked.why
    assert blocked.value != alone.value
    assert "by Welch's test" in blocked.why
    assert "by Welch's test" not in alone.why


def test_more_seeds_lower_a_part_and_add_degrees_of_freedom():
    """Of a moderated variance R + 3 become R' + 3."""
    assert Part(1.0, 6, 3).with_seeds(6) == Part(0.5, 9, 6)
    assert Part(1.0, 6, 3).with_seeds(2) == Part(1.0, 6, 3)
    assert Part(1.0, 6, 3).with_seeds(math.inf).variance == 0


# --- p, and Holm


def comparison_of(asked):
    return claim(asked).test


@pytest.mark.parametrize(
    "asked",
    [
        compare("higher"),
        compare("higher", by=1),
        compare("lower"),
        compare("lower", by=1),
        compare("equal", within=1.5),
    ],
)
def test_p_and_the_intervals_agree(asked):
    """p < 0.05 and the right side is support, for each kind of comparison."""
    comparison, words = comparison_of(asked), set()
    for value in np.linspace(-4, 4, 81):
        for freedom in (2.0, 6.0, math.inf):
            estimate = Estimate(float(value), 0.16, freedom)
            word, p = word_of(comparison, estimate), p_of(comparison, estimate)
            words.add(word)
            assert 0 < p <= 1
            if comparison.is_ == "equal":
                assert (p < 0.05) == (word == "supported")
            else:
                assert (p < 0.05) == (word != "undecided")
    assert words == {"supported", "contradicted", "undecided"}


def family(*words_and_p):
    """Verdicts; a claim with the p "beside" is not primary."""
    asked = claim(compare("higher"))
    return [
        Verdict(
            asked.model_copy(update={"primary": p != "beside"}),
            [Decision(asked.test, "it is", word, "so", p=0.0001 if p == "beside" else p)],
        )
        for word, p in words_and_p
    ]


def test_holm_over_the_primary_comparisons():
    """The smallest of four p is multiplied by four, the next by three, and none is less than one before it."""
    found = corrected(
        family(("supported", 0.02), ("contradicted", 0.001), ("supported", 0.012), ("undecided", None),
               ("supported", "beside"))
    )  # fmt: skip
    assert [each.holm for each in found] == [pytest.approx(0.04), pytest.approx(0.004), pytest.approx(0.036), 1.0, None]
    assert [each.after_holm for each in found] == [True, False, True, False, False]
    assert counts(found) == "3 supported (2 after Holm), 1 contradicted, 1 undecided"


def test_what_cannot_be_decided_counts_in_the_family():
    alone = corrected(family(("supported", 0.03)))
    beside = corrected(family(("supported", 0.03), ("undecided", None)))
    assert (alone[0].after_holm, beside[0].after_holm) == (True, False)
    assert beside[0].holm == pytest.approx(0.06)


def test_holm_keeps_order_and_never_exceeds_one():
    found = corrected(family(("supported", 0.03), ("undecided", 0.9), ("supported", 0.01)))
    assert [each.holm for each in found] == [pytest.approx(0.06), pytest.approx(0.9), pytest.approx(0.03)]
    assert counts(found) == "2 supported (1 after Holm), 1 undecided"
