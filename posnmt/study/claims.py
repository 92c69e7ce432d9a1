"""Claims of a paper: each is decided by one comparison of figures of a study (`posnmt.study.verdict`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, model_validator

from posnmt.config.yaml import Section
from posnmt.evaluation.analyse.zones import ZONES
from posnmt.study.measures import LOSS, SPEEDS, ClaimedMeasure, unit

Scale = Literal["smoke", "small", "paper"]
Lengths = Literal["all", "seen", "longer", "shorter"]
TextClass = Literal["dense", "sparse", "beyond", "D1", "D2", "D3 source", "D3 target", "D3 both"]
"""Classes of subwords of references by their places, and designs: differences of two classes (docs/metrics.md)."""
# Standard deviations in BLEU: of a training's figure over seeds, and of two systems' difference over single sentences.
DEVIATION, SPREAD = 0.3, 5.0
CHRF_EXPECTED = {"spread": 3.0, "interaction": 8.0, "deviation": 0.15}
"""The same in chrF, and what a seed does to single sentences (docs/verdicts.md)."""
LOSS_MARGIN = 0.02
"""Of equality, in nats a subword."""
LOSS_EXPECTED = {"spread": 0.43, "interaction": 0.0, "deviation": 0.02}
"""Standard deviations in nats. In a pilot of one seed D1 had an error of 0.027 over the documents of 251 sentences,
0.43 by the root of their number. What seeds vary beyond the trained lengths is assumed (docs/verdicts.md)."""


def _in_order(ends: list[int | None]) -> list[int | None]:
    first, last = ends
    if first is not None and last is not None and first > last:
        raise ValueError(f"a range of lengths is [first, last]; {last} is less than {first}")
    return ends


Range = Annotated[list[int | None], Field(min_length=2, max_length=2), AfterValidator(_in_order)]


class Figures(Section):
    """A figure of one system, or the difference of two: `system` minus `minus`.

    `lengths` selects sentences by source length: `seen`, `longer` and `shorter` are relative to the lengths in the
    training of `system`; [first, last] is a range, with null for an open end.
    """

    system: str = Field(description="system, or system/training")
    minus: str | None = Field(None, description="another one, to be subtracted")
    lengths: Lengths | Range | dict[Scale, Range] = Field("all", description="sentences by source length; see above")
    share: float = Field(0, ge=0, le=1, description="share of swapped source words")

    def lengths_at(self, scale: Scale) -> Lengths | Range | None:
        """The lengths at a scale; None if they are specified by scale, but not for this one."""
        return self.lengths.get(scale) if isinstance(self.lengths, dict) else self.lengths

    @property
    def variants(self) -> list[str]:
        """The systems whose figures are used."""
        return [self.system, *([self.minus] if self.minus else [])]


class Expected(Section):
    """What is expected of a comparison before its study runs, so that its power can be calculated.

    Two standard deviations are stated, on n sentences: spread / sqrt(n) over samples of sentences, for the difference
    of two systems' means over many seeds; and sqrt(deviation^2 + interaction^2 / n) over seeds, for the figure of a
    training. The defaults are those of BLEU in our studies of captions and short sentences (docs/verdicts.md).
    """

    effect: float = Field(description="the expected `of` - `than`; with `relative: true` its fraction of `than`")
    sentences: Annotated[list[Annotated[int, Field(gt=0)]], Field(min_length=1, max_length=2)] = Field(
        description="number of sentences: one number, or one for each side if the sides are measured on different "
        "sentences"
    )
    score: float = Field(30.0, gt=0, description="the expected figure of `than`, with `relative: true`")
    spread: float = Field(SPREAD, gt=0, description="standard deviation of systems over single sentences; see above")
    interaction: float = Field(
        10.0, ge=0, description="standard deviation of what a seed does to single sentences; see above"
    )
    deviation: float = Field(
        DEVIATION, ge=0, description="standard deviation over seeds, on as many sentences as one likes"
    )
    documents: float | None = Field(
        None,
        ge=2,
        description="G*: number of documents of equal size that the sentences are worth; default: sentences are drawn "
        "one by one",
    )


class Comparison(Section):
    """A comparison of figures that holds or does not.

    `higher` and `lower`: `of` differs from `than` (or from 0) by more than `by`; `equal`: by less than `within`. With
    `relative: true`, for example for speeds, `by` and `within` are fractions of `than`.

    `loss` is the mean loss of reference subwords, in nats; a higher one is a worse prediction. It needs a likelihood of
    the recipe and a `class` of its subwords. The default of `within` is then 0.02.
    """

    analysis: str = Field(description="an analysis of the recipe, or for `loss` a likelihood")
    measure: ClaimedMeasure = Field("bleu", description="a metric of the analysis, or another measure")
    class_: TextClass | None = Field(None, alias="class", description="for `loss`: the zone or the design")
    of: Figures = Field(description="the figure that the claim is about")
    is_: Literal["higher", "lower", "equal"] = Field(alias="is", description="what the claim says of it")
    than: Figures | None = Field(None, description="the figure that it is compared with; default: 0")
    by: float = Field(0.0, ge=0, description="for `higher` and `lower`: the difference must exceed this")
    within: float | None = Field(None, gt=0, description="for `equal`: the margin")
    relative: bool = Field(False, description="whether `by` and `within` are fractions of `than`")
    expects: dict[Scale, Expected] = Field({}, description="what the power of a claim's test is calculated from")

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_loss(cls, tree: Any) -> Any:
        if not isinstance(tree, dict) or tree.get("measure") != LOSS:
            return tree
        filled = {"within": LOSS_MARGIN, **tree} if tree.get("is") == "equal" else dict(tree)
        if isinstance(expects := tree.get("expects"), dict):
            filled["expects"] = {
                scale: {**LOSS_EXPECTED, **each} if isinstance(each, dict) else each for scale, each in expects.items()
            }
        return filled

    @model_validator(mode="after")
    def _of_loss(self) -> Comparison:
        if (self.measure == LOSS) != (self.class_ is not None):
            raise ValueError("`class` belongs to `measure: loss`, which needs it")
        if self.measure == LOSS:
            if self.relative or any(side.minus or side.share or side.lengths != "all" for side in self.sides):
                raise ValueError(
                    "`loss` is compared between systems: it has no `minus`, `lengths`, `share`, `relative`"
                )
            if self.class_ in ZONES and self.than is None:
                raise ValueError("the loss of a zone is compared between two systems: it has `than`")
            if any(expected.documents is None for expected in self.expects.values()):
                raise ValueError("what is expected of `loss` has `documents`, how many the sentences count as")
        return self

    @model_validator(mode="after")
    def _margins(self) -> Comparison:
        if (self.is_ == "equal") != (self.within is not None):
            raise ValueError("`within` belongs to `is: equal`, which needs it")
        if self.is_ == "equal" and self.by:
            raise ValueError("`by` belongs to `is: higher` or `is: lower`; `is: equal` has `within`")
        if self.relative and self.than is None:
            raise ValueError("`relative` needs `than`: a share of what?")
        if self.measure in SPEEDS and any(side.lengths != "all" for side in self.sides):
            raise ValueError(f"{self.measure} is a measure of runs: it has no `lengths`")
        if self.measure in SPEEDS and (self.than is None or any(side.minus for side in self.sides)):
            raise ValueError(f"{self.measure} is compared between two systems: it has `than` and no `minus`")
        return self

    @property
    def sides(self) -> list[Figures]:
        """`of`, and `than` if there is one."""
        return [self.of, self.than] if self.than else [self.of]


class PublishedEffect(Section):
    """The paper's figures for the two systems of a claim's test, in BLEU, each of one training.

    The claim's test has no `minus`: the error of a published difference is known for two trainings only
    (`posnmt.study.compatible`).
    """

    of: float = Field(ge=0, description="BLEU of the system `of`")
    than: float = Field(gt=0, description="BLEU of the system `than`")
    sentences: Annotated[int, Field(gt=0)] | None = Field(description="that both were measured on; null: not known")
    differs: str | dict[Scale, str] = Field(
        {}, description="how its measure, text or systems differ from those of the test, at all scales or at some"
    )

    def differs_at(self, scale: Scale) -> str | None:
        """Why it cannot be compared with the study at a scale; None if it can."""
        return self.differs if isinstance(self.differs, str) else self.differs.get(scale)


class Claim(Section):
    """A statement, and the one comparison that decides whether the study supports it."""

    claim: int | str = Field(description="the number of the paper's claim, with a letter if the paper makes several")
    says: str = Field(description="what `test` tests, and no more")
    published: str | None = Field(None, description="the paper's own figures, in words")
    test: Comparison = Field(description="the comparison that decides it")
    primary: bool = Field(True, description="whether Holm's correction counts the claim")
    registered: bool = Field(
        True, description="false: added, made primary or given another test after the trainings of the published study"
    )
    published_effect: PublishedEffect | None = Field(None, description="the paper's two figures")
    beside: list[Comparison] = Field([], description="shown with their own results; they decide nothing")
    scales: list[Scale] = Field([*get_args(Scale)], description="scales at which the claim is asked")

    @model_validator(mode="after")
    def _like_the_test(self) -> Claim:
        if self.published_effect is not None and (
            unit(self.test.measure) != "BLEU" or self.test.than is None or any(side.minus for side in self.test.sides)
        ):
            raise ValueError(
                "`published_effect` is the BLEU of two systems: `test` measures BLEU, of one `than` another"
            )
        return self

    def comparisons(self) -> Iterator[tuple[tuple[str, ...], Comparison]]:
        """The test, then the comparisons beside it, each with its keys in the claim."""
        yield ("test",), self.test
        for number, comparison in enumerate(self.beside):
            yield ("beside", str(number)), comparison

    def analyses(self) -> list[str]:
        """Return the analyses that its comparisons need; comparisons of likelihoods need none."""
        return [comparison.analysis for _, comparison in self.comparisons() if comparison.measure != LOSS]

    def variants(self) -> list[str]:
        """Return the systems that its comparisons name, without duplicates."""
        sides = [side for _, comparison in self.comparisons() for side in comparison.sides]
        return list(dict.fromkeys(variant for side in sides for variant in side.variants))
