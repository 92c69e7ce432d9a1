"""Whether a result is compatible with the published effect: the prediction interval, and when there is none."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from posnmt.study.compatible import compatibility
from posnmt.study.estimate import Estimate
from posnmt.study.verdict import Decision, Word
from tests.support.verdict_case import claim, compare


def asked(of: float, than: float, sentences: int | None, differs: Any = None, **comparison: Any) -> Any:
    effect = {"of": of, "than": than, "sentences": sentences, **({"differs": differs} if differs else {})}
    return claim(compare(comparison.pop("is_", "higher"), measure="bleu", **comparison), published_effect=effect)


def found(of_claim: Any, value: float, error: float, freedom: float = 8.0, word: Word = "undecided") -> Decision:
    """Our result, with the 95 % interval of this standard error."""
    low, high = Estimate(value, error**2, freedom).interval(0.95)
    return Decision(of_claim.test, "it is", word, "of 60 sentences", value, low, high, freedom, primary=True)


@pytest.mark.parametrize(
    ("published", "comparison", "ours", "word", "ends", "within"),
    [
        # claim 9 of C19a, claim 11 of C19b, claim 12 (a share), claim 2 of R19 (a share): docs/papers.md
        ((28.22, 27.24, 3003), {}, (0.29, 0.113, 13.8), "yes", (0.10, 1.86), 0.005),
        ((28.35, 27.25, 3003), {}, (1.15, 0.225, 8.0), "yes", (0.14, 2.06), 0.005),
        ((10.71, 27.25, 3003), {"is_": "lower", "relative": True}, (-0.248, 0.0077, 5.0), "no", (-0.64, -0.57), 0.005),
        ((31.4, 31.8, 2109), {"is_": "equal", "relative": True, "within": 0.03}, (-0.055, 0.0056, 8.0), "no",
         (-0.041, 0.017), 0.001),
        # R19's 40 sentences over 100
        ((15.3, 27.2, 40), {"is_": "lower"}, (-3.3, 0.36, 8.0), "no", (-13.8, -10.0), 0.05),
    ],
)  # fmt: skip
def test_results_of_our_studies(published, comparison, ours, word, ends, within):
    made = asked(*published, **comparison)
    answer = compatibility(made, found(made, *ours), "small")
    assert answer.word == word
    assert (answer.low, answer.high) == pytest.approx(ends, abs=within)
    assert answer.sentence.startswith(word)


@pytest.mark.parametrize("relative", [False, True])
def test_the_interval_holds_95_of_100_repetitions(relative):
    """Of two single trainings in the paper, and of ours, with the standard deviations of the module's equation."""
    generator = np.random.default_rng(7)
    sentences, level, effect, studies = 500, 30.0, -1.5, 4000
    unit = 1 / level if relative else 1.0
    published = (
        effect + generator.normal(0, 0.3, (studies, 2)) @ [1, -1] + generator.normal(0, 5 / sentences**0.5, studies)
    )
    ours = unit * (effect + generator.normal(0, 0.4, studies))
    inside = 0
    for of_paper, of_study in zip(published.tolist(), ours.tolist(), strict=True):
        made = asked(level + of_paper, level, sentences, is_="lower", relative=relative)
        inside += compatibility(made, found(made, of_study, unit * 0.4, math.inf), "small").word == "yes"
    assert inside / studies == pytest.approx(0.95, abs=0.012)  # three and a half standard deviations


def test_the_answer_is_that_of_the_result_and_not_of_the_verdict():
    """An undecided result may be compatible, a supported one not; the same result has one answer."""
    made = asked(30.0, 29.0, 3003)
    for word in ("supported", "contradicted", "undecided"):
        answers = {value: compatibility(made, found(made, value, 0.1, word=word), "small").word for value in (0.4, 3.0)}
        assert answers == {0.4: "yes", 3.0: "no"}


@pytest.mark.parametrize(("of", "imprecise"), [(29.8, True), (29.95, False), (28.2, True), (28.05, False)])
def test_a_published_effect_within_its_own_error_is_imprecise(of, imprecise):
    """The interval then holds 0: no difference would be compatible, too."""
    made = asked(of, 29.0, 3003)
    answer = compatibility(made, found(made, of - 29.0, 0.1), "small")
    assert answer.word == "yes"
    assert answer.imprecise == imprecise == (answer.low < 0 < answer.high)
    assert ("imprecise" in answer.sentence) == imprecise


def test_what_cannot_be_compared():
    made = asked(30.0, 29.0, 3003)
    result = found(made, 1.0, 0.2)
    assert compatibility(made, result, "small").word == "yes"
    below = Decision(made.test, "it is", "undecided", "below the floor: a has 3.0 BLEU", primary=True)
    one_seed = Decision(made.test, "it is", "undecided", "one seed says nothing of others", 1.0, primary=True)
    of_text = asked(30.0, 29.0, 3003, differs={"small": "they are captions"})
    for each, decision, why in (
        (claim(compare("higher", measure="bleu")), result, "the paper has no figures for this comparison"),
        (asked(30.0, 29.0, None), result, "the number of sentences behind the published figures is not known"),
        (of_text, result, "they are captions"),
        (asked(30.0, 29.0, 3003, differs="they are others"), result, "they are others"),
        (made, below, below.why),
        (made, one_seed, one_seed.why),
    ):
        answer = compatibility(each, decision, "small")
        assert (answer.word, answer.sentence) == ("not comparable", f"not comparable: {why}")
        assert (answer.published, answer.low, answer.high, answer.imprecise) == (None, None, None, False)
    assert compatibility(of_text, result, "paper").word == "yes"


def test_the_reach_is_that_of_95_of_100():
    made = asked(30.0, 29.0, 2**31 - 1)
    answer = compatibility(made, found(made, 1.0, 1e-9, math.inf), "small")
    assert (answer.high - answer.low) / 2 == pytest.approx(NormalDist().inv_cdf(0.975) * 0.3 * 2**0.5, rel=1e-4)
