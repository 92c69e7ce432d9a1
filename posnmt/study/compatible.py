"""Whether a result is compatible with the effect that the paper published, whatever the verdict on the claim is.

The published effect is the difference of two single trainings on n sentences. If the paper's trainings and sentences
vary as ours do, its standard error in BLEU is

    SE_pub = sqrt(2 * 0.3^2 + 5^2 / n)

For a relative comparison, this is divided by the published figure of `than`. A result with the standard error SE_ours
is compatible if it lies in the prediction interval of Patil, Peng and Leek (2016, "What should researchers expect when
they replicate studies?"), D_pub +- 1.96 sqrt(SE_pub^2 + SE_ours^2). The papers' own tests account for sentences only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from posnmt.evaluation.analyse.seeds import t_quantile
from posnmt.study.claims import DEVIATION, SPREAD, Claim, PublishedEffect, Scale
from posnmt.study.verdict import LEVEL, Decision
from posnmt.study.wording import amount

Answer = Literal["yes", "no", "not comparable"]
REACH = 1.96


@dataclass(frozen=True)
class Compatibility:
    """Whether a result is compatible with the published effect.

    Attributes:
        word: the answer.
        sentence: the answer with its figures, or the reason why there is none.
        published: D_pub in the unit of the test, BLEU or a share; None without an answer.
        low, high: the prediction interval; None without an answer.
    """

    word: Answer
    sentence: str
    published: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def imprecise(self) -> bool:
        """Whether the interval is so wide that it contains 0, which is no effect."""
        return self.published is not None and self.high is not None and self.high - self.published > abs(self.published)


def compatibility(claim: Claim, decision: Decision, scale: Scale) -> Compatibility:
    """Compare a result with the published effect.

    Args:
        claim: a claim.
        decision: of its test.
        scale: of the study.
    """
    effect = claim.published_effect
    if effect is None:
        return _incomparable("the paper has no figures for this comparison")
    if (why := effect.differs_at(scale)) is not None:
        return _incomparable(why)
    if effect.sentences is None:
        return _incomparable("the number of sentences behind the published figures is not known")
    if decision.value is None or decision.low is None or decision.high is None or decision.freedom is None:
        return _incomparable(decision.why)
    value, error = published_difference(effect, effect.sentences, claim.test.relative)
    ours = (decision.high - decision.low) / 2 / t_quantile((1 + LEVEL) / 2, decision.freedom)
    reach = REACH * math.hypot(error, ours)
    low, high = value - reach, value + reach
    word: Answer = "yes" if low <= decision.value <= high else "no"
    answer = Compatibility(word, "", value, low, high)
    published, least, most, measured = (amount(claim.test, each) for each in (value, low, high, decision.value))
    sentence = (
        f"{word}{', but the published effect is imprecise' if answer.imprecise else ''}: published {published}, so a "
        f"result like ours would be from {least} to {most}, and is {measured}"
    )
    return Compatibility(word, sentence, value, low, high)


def published_difference(effect: PublishedEffect, sentences: int, relative: bool) -> tuple[float, float]:
    """The published difference and its standard error, in BLEU or as shares of the published `than`."""
    unit = 1 / effect.than if relative else 1.0
    return unit * (effect.of - effect.than), unit * math.sqrt(2 * DEVIATION**2 + SPREAD**2 / sentences)


def _incomparable(why: str) -> Compatibility:
    return Compatibility("not comparable", f"not comparable: {why}")
