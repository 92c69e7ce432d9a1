"""Claims on likelihood by position: against plain loops, what is decided and why not, and what a recipe may ask."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import numpy as np
import pytest

from posnmt.evaluation.analyse.length_effects import length_effects
from posnmt.evaluation.analyse.losses import Losses
from posnmt.evaluation.analyse.seeds import t_quantile
from posnmt.study.blocks import Training, Trainings, Unit, paired_unit
from posnmt.study.claims import LOSS_EXPECTED, Claim, Comparison, Expected
from posnmt.study.load import load
from posnmt.study.loss import LossContrast, ScoredText
from posnmt.study.plan import plan
from posnmt.study.power import of_recipe, power
from posnmt.study.registration import content
from posnmt.study.verdict import Decision, Rules, corrected, decide
from tests.support.losses_case import EXPOSURE, random_losses
from tests.support.recipe_case import SMALL, faults_of, written
from tests.support.verdict_case import resolve

SEEDS = (1, 2, 3)
PAIR = (("a", SEEDS), ("b", SEEDS))
FIVE = tuple((name, SEEDS) for name in "abcde")
LARGE = {"sentences": 600, "documents": 60, "longest": 47}


def asked(text_class: str, is_: str = "higher", than: str | None = "b", **more: Any) -> dict[str, Any]:
    sides = {"of": {"system": "a"}, **({"than": {"system": than}} if than else {})}
    return {"analysis": "natural", "measure": "loss", "class": text_class, "is": is_, **sides, **more}


def claim(test: dict[str, Any], **more: Any) -> Claim:
    return Claim.model_validate({"claim": 1, "says": "so", "test": test, **more})


def text_of(losses: Losses, *swapped: Losses, **shifted: Losses) -> ScoredText:
    effects = length_effects(losses, *swapped, shifted=shifted)
    return ScoredText(effects, {(name, "all"): name for name in effects.systems})


def sharing(losses: Losses, *alone: str) -> Trainings:
    """Trainings that share their seeds, but for those of some systems."""
    trainings: dict[tuple[str, str], dict[int, Training]] = {}
    for model in losses.models:
        shares = model.system if model.system in alone else "all"
        trainings.setdefault((model.system, "all"), {})[model.seed] = Training(model.name, shares)
    return trainings


def decided(text: ScoredText | None, test: dict[str, Any], trainings: Trainings | None = None, **more: Any) -> Decision:
    scored = {} if text is None else {"natural": text}
    rules = Rules(resolve, "small", trainings=trainings or {}, scored=scored, **more)
    return decide(claim(test), {}, rules).primary


# --- the equations


def d1(losses: Losses, model: int, left_out: int | None = None) -> float:
    """D1 of a model by loops, without a document."""
    with_beyond = {
        int(losses.sentence[place]) for place, at in enumerate(losses.position.tolist()) if at >= len(EXPOSURE)
    }
    of: dict[bool, list[float]] = {False: [], True: []}
    for place, at in enumerate(losses.position.tolist()):
        sentence = int(losses.sentence[place])
        if sentence in with_beyond and losses.documents[sentence] != left_out:
            exposure = EXPOSURE[at] if at < len(EXPOSURE) else 0.0
            if exposure >= 0.1 or exposure < 0.001:
                of[exposure < 0.001].append(float(losses.losses[model, place]))
    return fmean(of[True]) - fmean(of[False])


def jackknife(values: list[float]) -> float:
    centre = fmean(values)
    return (len(values) - 1) / len(values) * math.fsum((value - centre) ** 2 for value in values)


def weights(losses: Losses) -> list[int]:
    """Subwords beyond training, by document."""
    beyond = losses.documents[losses.sentence[losses.position >= len(EXPOSURE)]].tolist()
    return [beyond.count(document) for document in sorted(set(beyond))]


def by_loops(losses: Losses, figures: list[list[float]], parts: list[tuple[float, float]]) -> tuple[float, float]:
    """V and its degrees of freedom, from D_r of all documents and without each of them, and the parts over seeds."""
    seeds, leaving = len(figures[0]), figures[1:]
    over_documents = jackknife([fmean(row) for row in leaving])
    both = math.fsum(jackknife([row[place] - fmean(row) for row in leaving]) for place in range(seeds))
    over_seeds = math.fsum(part for part, _ in parts)
    total = max(over_documents + over_seeds - both / (seeds * (seeds - 1)), over_documents, over_seeds)
    sizes = weights(losses)
    effective = sum(sizes) ** 2 / sum(size**2 for size in sizes)
    below = over_documents**2 / (effective - 1) + math.fsum(part**2 / freedom for part, freedom in parts)
    return total, total**2 / below


@pytest.mark.parametrize("block", [False, True])
def test_the_interval_is_that_of_plain_loops(block: bool) -> None:
    """Crossed, seed by seed; over seeds R - 1 degrees of freedom, in a block the moderated variance with R + 3."""
    losses = random_losses(FIVE if block else PAIR, documents=14, sentences=90)
    trainings = sharing(losses)
    names = [(model.system, model.seed) for model in losses.models]
    documents = [None, *sorted(set(losses.documents[losses.sentence[losses.position >= len(EXPOSURE)]].tolist()))]
    of = {name: [d1(losses, place, document) for document in documents] for place, name in enumerate(names)}
    figures = [[of["a", seed][row] - of["b", seed][row] for seed in SEEDS] for row in range(len(documents))]
    q = variance(figures[0]) / 3
    part = (q, 2.0)
    if block:
        means = {name: fmean(of[name, seed][0] for seed in SEEDS) for name in "abcde"}
        of_seed = {seed: fmean(of[name, seed][0] for name in "abcde") for seed in SEEDS}
        centre = fmean(means.values())
        residuals = [of[name, seed][0] - means[name] - of_seed[seed] + centre for name in "abcde" for seed in SEEDS]
        m = 2 * math.fsum(each**2 for each in residuals) / (4 * 2) / 3
        part = (max((4 * m + 2 * q) / 6, q), 6.0)
    own = {("a", "all"): {1: 0, 2: 1, 3: 2}, ("b", "all"): {1: 3, 2: 4, 3: 5}}
    contrast = LossContrast.of(text_of(losses), "D1", own, trainings)
    estimate = contrast.estimate()
    total, freedom = by_loops(losses, figures, [part])
    assert contrast.systems == (5 if block else 2)
    assert estimate.value == contrast.value == pytest.approx(fmean(figures[0]))
    assert (estimate.variance, estimate.freedom) == (pytest.approx(total), pytest.approx(freedom))


def test_welch_takes_the_seeds_of_each_system_for_itself() -> None:
    """All of them: one system has a fourth."""
    losses = random_losses((("a", SEEDS), ("b", (1, 2, 3, 4))), documents=14, sentences=90)
    own = {("a", "all"): {1: 0, 2: 1, 3: 2}, ("b", "all"): {1: 3, 2: 4, 3: 5, 4: 6}}
    contrast = LossContrast.of(text_of(losses), "D1", own, {})
    documents = [None, *sorted(set(losses.documents[losses.sentence[losses.position >= len(EXPOSURE)]].tolist()))]
    of = [[d1(losses, place, document) for document in documents] for place in range(7)]
    groups = (of[:3], of[3:])
    means = [[fmean(each[row] for each in group) for group in groups] for row in range(len(documents))]
    over_documents = jackknife([one - other for one, other in means[1:]])
    parts = [(variance([each[0] for each in group]) / len(group), len(group) - 1.0) for group in groups]
    both = math.fsum(
        jackknife([each[row] - means[row][number] for row in range(1, len(documents))])
        / (len(group) * (len(group) - 1))
        for number, group in enumerate(groups)
        for each in group
    )
    over_seeds = math.fsum(part for part, _ in parts)
    total = max(over_documents + over_seeds - both, over_documents, over_seeds)
    sizes = weights(losses)
    effective = sum(sizes) ** 2 / sum(size**2 for size in sizes)
    below = over_documents**2 / (effective - 1) + math.fsum(part**2 / freedom for part, freedom in parts)
    welch = contrast.welch()
    assert welch.value == pytest.approx(means[0][0] - means[0][1])
    assert (welch.variance, welch.freedom) == (pytest.approx(total), pytest.approx(total**2 / below))
    assert contrast.unit.seeds == SEEDS


def test_one_system_alone_keeps_the_effect_of_its_seeds() -> None:
    """What a seed does to all systems of a block is no less for being known: two parts, with R - 1 and R + 3."""
    losses = random_losses(FIVE, documents=14, sentences=90)
    contrast = LossContrast.of(text_of(losses), "D1", {("a", "all"): {1: 0, 2: 1, 3: 2}}, sharing(losses))
    of = [[d1(losses, 3 * system + seed) for seed in range(3)] for system in range(5)]
    shared, own = contrast.estimate().over_seeds
    means = [fmean(row[seed] for row in of) for seed in range(3)]
    assert (shared.variance, shared.freedom) == (pytest.approx(variance(means) / 3), 2)
    residuals = [value - mean - fmean(row) + fmean(means) for row in of for value, mean in zip(row, means, strict=True)]
    m = 4 / 5 * math.fsum(each**2 for each in residuals) / 8 / 3  # 1 - 1/T of a mean square
    q = variance([value - mean for value, mean in zip(of[0], means, strict=True)]) / 3
    assert (own.variance, own.freedom) == (pytest.approx(max((4 * m + 2 * q) / 6, q)), 6)


def test_systems_that_share_no_seeds_have_no_peers() -> None:
    seeds = {(name, "all"): list(SEEDS) for name in "ab"}
    losses = random_losses(FIVE)
    assert paired_unit(seeds, sharing(losses)).systems == 5
    assert paired_unit(seeds, sharing(losses, "b")) == Unit((("a", "all"), ("b", "all")), SEEDS)
    fewer = {("a", "all"): [1, 2, 3], ("b", "all"): [4, 3, 2]}
    assert paired_unit(fewer, {}).seeds == (2, 3)


# --- the verdicts


@pytest.fixture(scope="module")
def text() -> ScoredText:
    """a loses 0.4 to b at positions beyond training, after long sentences and with shifted positions; c is as b."""
    systems = (("a", SEEDS), ("b", SEEDS), ("c", SEEDS))
    losses = random_losses(systems, beyond={"a": 0.4}, **LARGE)
    worse = np.array([0.4 * (model.system == "a") for model in losses.models])[:, None]
    noise = np.random.default_rng(1).normal(0, 0.1, losses.losses.shape)
    long = replace(losses, losses=losses.losses + worse + noise)
    return text_of(losses, losses, long, **{"both +40": long, "source +40": losses})


@pytest.mark.parametrize(
    ("test", "word"),
    [
        (asked("D1"), "supported"),
        (asked("D1", "lower"), "contradicted"),
        (asked("D1", by=0.3), "supported"),
        (asked("D1", by=0.7), "contradicted"),
        (asked("beyond"), "supported"),
        (asked("dense", "equal", within=0.1), "supported"),
        (asked("beyond", "equal"), "contradicted"),
        (asked("D2"), "supported"),
        (asked("D3 both"), "supported"),
        (asked("D3 both", than=None), "supported"),
        (asked("D3 both", "equal", than=None), "contradicted"),
        (asked("D1", "equal", within=0.9), "supported"),
        ({**asked("D1"), "of": {"system": "c"}}, "undecided"),
    ],
)
def test_true_effects_are_found(text: ScoredText, test: dict[str, Any], word: str) -> None:
    decision = decided(text, test)
    assert decision.word == word
    assert decision.low is not None
    assert decision.high is not None
    assert decision.value is not None
    assert decision.low < decision.value < decision.high
    assert decision.welch is not None
    [verdict] = corrected([decide(claim(test), {}, Rules(resolve, "small", scored={"natural": text}))])
    assert verdict.holm == decision.p


def test_losses_equal_within_two_hundredths_of_a_nat(text: ScoredText) -> None:
    """Where nothing else is written, and as two one-sided tests."""
    test = Comparison.model_validate(asked("dense", "equal"))
    assert test.within == 0.02
    decision = decided(text, asked("dense", "equal"))
    assert decision.p is not None
    assert decision.freedom is not None
    assert decision.value is not None
    assert decision.high is not None
    error = (decision.high - decision.value) / t_quantile(0.975, decision.freedom)
    inner = abs(decision.value) + t_quantile(0.95, decision.freedom) * error
    for within, word in ((inner * 1.001, "supported"), (inner * 0.999, "undecided")):
        assert decided(text, asked("dense", "equal", within=within)).word == word


def test_longer_text_is_said_only_where_both_designs_agree() -> None:
    losses = random_losses(PAIR, beyond={"a": 0.4}, **LARGE)
    worse = np.array([0.4 * (model.system == "a") for model in losses.models])[:, None]
    noise = np.random.default_rng(1).normal(0, 0.1, losses.losses.shape)
    swapped = {
        "the same": replace(losses, losses=losses.losses + worse + noise),
        "the other": replace(losses, losses=losses.losses - worse + noise),
        "nothing": replace(losses, losses=losses.losses + noise),
    }
    texts = {name: text_of(losses, losses, after) for name, after in swapped.items()}
    for text_class in ("D1", "D2"):
        other = {"D1": "D2", "D2": "D1"}[text_class]
        said = {name: decided(text, asked(text_class)).why for name, text in texts.items()}
        assert [name for name, why in said.items() if "longer text" in why] == ["the same"]
        assert f"{other} is decided with the same sign, so on longer text a loses ground to b" in said["the same"]
        assert f"of design {text_class} alone" in said["the other"].replace("for design", "of design")
        assert "other sign" in said["the other"]
    assert "D2 is undecided" in decided(texts["nothing"], asked("D1")).why
    assert "there is no D2" in decided(text_of(losses), asked("D1")).why
    turned = {**asked("D1", "lower"), "of": {"system": "b"}, "than": {"system": "a"}}
    assert "on longer text a loses ground to b" in decided(texts["the same"], turned).why
    assert "longer" not in decided(texts["nothing"], asked("D2")).why
    assert "longer" not in decided(texts["the same"], asked("beyond")).why


@pytest.mark.parametrize(
    ("test", "statement"),
    [
        (asked("beyond"), "a predicts the reference worse than b, given a correct prefix, at target positions that"),
        (
            asked("beyond", "lower", by=0.1),
            "a predicts the reference better than b, .* by more than 0.1 nats a subword",
        ),
        (asked("dense", "equal"), "a predicts the reference as well as b, .* within 0.02 nats a subword"),
        (asked("D1"), r"a loses more than b in predicting the reference, given a correct prefix, from .* \(D1\)"),
        (asked("D2", "lower"), "a loses less than b .* from one short to one long sentence before"),
        (asked("D3 both", than=None), "a loses in predicting the reference, .* where positions of both sides begin"),
        (asked("D3 both", "equal", than=None), "a neither loses nor gains .* within 0.02"),
    ],
)
def test_what_is_asked_is_said_of_a_correct_prefix(text: ScoredText, test: dict[str, Any], statement: str) -> None:
    decision = decided(text, test)
    assert re.match(statement, decision.asked)
    assert "correct prefix" in decision.asked
    assert "longer" not in decision.asked
    assert re.search(r"[+\N{MINUS SIGN}]\d\.\d{3,} nats a subword", decision.why)


def test_why_nothing_is_decided(text: ScoredText) -> None:
    few = text_of(random_losses(PAIR, beyond={"a": 5.0}))
    one = text_of(random_losses((("a", (1,)), ("b", (1,))), beyond={"a": 5.0}, **LARGE))
    other = ScoredText(None, {("a", "all"): "a", ("b", "all"): "b"})
    same = random_losses(PAIR, **LARGE)
    same = replace(same, losses=np.repeat(same.losses[:1], 6, axis=0))
    reasons = {
        "natural was not made": (None, asked("D1"), {}),
        "so few sentences and documents": (few, asked("D1"), {}),
        "one seed says nothing": (one, asked("D1"), {}),
        "there is no D3 target of this text": (text, asked("D3 target"), {}),
        "there is no score of a, seed 4": (text, asked("D1"), {"seeds": lambda variant: 4}),
        "there are no scores of a, seeds 4 and 5": (text, asked("D1"), {"seeds": lambda variant: 5}),
        "there is no score of d": (text, {**asked("D1"), "of": {"system": "d"}}, {}),
        "different subwords": (other, asked("D1"), {}),
        "no figure varies": (text_of(same), asked("D1"), {}),
    }
    for reason, (scored, test, more) in reasons.items():
        decision = decided(scored, test, **more)
        assert (decision.word, decision.low, decision.p) == ("undecided", None, None), reason
        assert reason in decision.why


def test_what_seeds_it_takes_is_told_of_losses() -> None:
    """Documents stay as they are: a difference that is smaller than their error is decided by no number of seeds."""
    losses = random_losses(PAIR, **LARGE)
    seeds = np.array([0.0, 0.3, -0.3] * 2)[:, None] * np.array([1.0] * 3 + [-1.0] * 3)[:, None]
    beyond = (losses.position >= len(EXPOSURE))[None, :]
    varied = replace(losses, losses=losses.losses + (0.15 * np.array([[1.0]] * 3 + [[0.0]] * 3) + seeds) * beyond)
    decision = decided(text_of(varied), asked("D1"))
    assert decision.word == "undecided"
    assert re.search(r"some \d+ seeds would decide it", decision.why)
    assert "no number of seeds" in decided(text_of(losses), asked("D1")).why


# --- what a recipe may ask

LIKELIHOOD = {"test": "test", "trainings": ["all"]}
OWN = {
    "analysis": "own", "measure": "loss", "class": "D1", "of": {"system": "relative"}, "is": "higher",
    "than": {"system": "transformer"},
}  # fmt: skip
EXPECTS = {"effect": 0.1, "sentences": [250], "documents": 13}


def recipe_with(folder: Path, test: dict[str, Any], likelihood: dict[str, Any] = LIKELIHOOD, **more: Any) -> str:
    asks = {"claim": "1a", "says": "worse", "test": test, **more}
    return written(folder, {**SMALL, "likelihoods": {"own": likelihood}, "claims": [asks]})


@pytest.mark.parametrize(
    ("test", "likelihood", "fault"),
    [
        (OWN | {"class": "D4"}, {}, "claims.0.test.class: input should be 'dense'"),
        ({key: value for key, value in OWN.items() if key != "class"}, {}, "`class` belongs to `measure: loss`"),
        (OWN | {"measure": "bleu"}, {}, "`class` belongs to `measure: loss`"),
        (OWN | {"relative": True}, {}, "`loss` is compared between systems"),
        (OWN | {"of": {"system": "relative", "lengths": "longer"}}, {}, "it has no `minus`, `lengths`"),
        ({key: value for key, value in OWN.items() if key != "than"} | {"class": "beyond"}, {}, "it has `than`"),
        (OWN | {"expects": {"small": {"effect": 1, "sentences": [9]}}}, {}, "what is expected of `loss` has `doc"),
        (OWN | {"analysis": "owns"}, {}, "did you mean 'own'?"),
        (OWN | {"analysis": "test"}, {}, "there are own"),
        (OWN | {"class": "D2"}, {}, "the likelihood own has no D2"),
        (OWN | {"class": "D3 both"}, {}, "the likelihood own has no D3"),
        (OWN, {"systems": ["relative"]}, "does not score transformer/all"),
        (OWN | {"than": {"system": "relative/all"}}, {}, "a system is compared with itself"),
        (OWN, {"scales": ["small"]}, "the likelihood own is not computed at scale smoke"),
        (OWN, {"test": "joined"}, "the test joined has joined lines"),
    ],
)
def test_faults_are_told_with_their_lines(
    tmp_path: Path, test: dict[str, Any], likelihood: dict[str, Any], fault: str
) -> None:
    name = recipe_with(tmp_path, test, {**LIKELIHOOD, **likelihood})
    told = faults_of(name)
    assert told.count("\n") == 0
    assert fault in told
    [number] = re.findall(r"own\.yaml:(\d+)", told)
    lines = Path(name).read_text(encoding="utf-8").splitlines()
    assert int(number) > lines.index("claims:")
    assert load(recipe_with(tmp_path, OWN)).claims[0].analyses() == []


def test_what_a_comparison_of_losses_rests_on_is_registered(tmp_path: Path) -> None:
    def registered(test: dict[str, Any], **likelihood: Any) -> dict[str, Any]:
        recipe = load(recipe_with(tmp_path, test, {**LIKELIHOOD, **likelihood}))
        kept: dict[str, Any] = json.loads(json.dumps(content(recipe, "small")["claims"]["1a"]["test"]))
        return kept

    plain = registered(OWN)
    assert (plain["class"], plain["measure"], plain["analysis"]["corpus"]) == ("D1", "loss", "test")
    assert (plain["analysis"]["least_dense"], plain["analysis"]["least_reached"]) == (0.1, 0.001)
    changed = [
        registered(OWN | {"class": "beyond"}),
        registered(OWN | {"by": 0.02}),
        registered(OWN | {"expects": {"small": EXPECTS}}),
        registered(OWN, systems=["relative", "transformer"]),
        registered(OWN, shift=40),
    ]
    assert len({json.dumps(each, sort_keys=True) for each in [plain, *changed]}) == 6
    assert registered(OWN | {"is": "equal"})["within"] == 0.02
    assert changed[2]["expects"] == {**EXPECTS, "score": 30.0, **LOSS_EXPECTED}


# --- power


def test_power_is_the_share_of_simulated_studies() -> None:
    """By loops over studies: D of three seeds and of documents, decided with the variance that each study estimates."""
    expected = Expected.model_validate({**LOSS_EXPECTED, **EXPECTS})
    test = Comparison.model_validate(asked("D1"))
    found = power(test, expected, [Unit((("a", "all"), ("b", "all")), SEEDS)], resolve, studies=4000)
    generator, error, supported = np.random.default_rng(7), 0.43 / math.sqrt(250), 0
    for _ in range(3000):
        seeds = generator.normal(0, 0.02 * math.sqrt(2), 3)
        documents = error**2 * generator.chisquare(12) / 12
        over_seeds = seeds.var(ddof=1) / 3
        total = documents + over_seeds
        freedom = total**2 / (documents**2 / 12 + over_seeds**2 / 2)
        value = 0.1 + generator.normal(0, error) + seeds.mean()
        supported += value > t_quantile(0.975, round(max(1, freedom))) * math.sqrt(total)
    assert 0.5 < found < 0.9
    assert found == pytest.approx(supported / 3000, abs=0.04)


def test_the_plan_says_what_cannot_be_decided(tmp_path: Path) -> None:
    def of(seeds: int, **expects: Any) -> Any:
        tree = OWN | {"expects": {"smoke": {**EXPECTS, **expects}}}
        recipe = load(recipe_with(tmp_path, tree), (f"scales.smoke.seeds={seeds}",))
        [found] = of_recipe(recipe, "smoke")
        return found

    enough = of(5, effect=0.2)
    assert (enough.power > 0.8, enough.cannot_be_decided) == (True, False)
    assert of(5, effect=0.01).cannot_be_decided
    assert of(5, effect=0.2, documents=9).power == 0  # as few as a verdict is never made of
    assert of(5, effect=0.2, sentences=[99]).power == 0
    assert of(1, effect=0.2).power == 0
    assert plan(load(recipe_with(tmp_path, OWN)), "smoke", None).trainings


@pytest.mark.parametrize("measure", ["loss", "bleu"])
def test_few_documents_support_a_false_claim_in_25_of_1000_studies(measure: str) -> None:
    """Their variance is an estimate with two degrees of freedom, whose t the verdict has."""
    test = asked("D1") if measure == "loss" else {**asked("D1"), "measure": "bleu"}
    test = Comparison.model_validate({key: each for key, each in test.items() if measure == "loss" or key != "class"})
    common = {"effect": 0, "spread": 1, "interaction": 0, "deviation": 0.0001, "sentences": [400]}
    unit = [Unit((("a", "all"), ("b", "all")), SEEDS)]
    documents = 12 if measure == "loss" else 3
    few = Expected.model_validate({**common, "documents": documents})
    assert power(test, few, unit, resolve, studies=4000) == pytest.approx(0.025, abs=0.01)
