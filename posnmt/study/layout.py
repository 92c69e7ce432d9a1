"""The sections of a recipe that define tables and figures of the report: in the paper's layout, beside its figures."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from posnmt.config.yaml import Section
from posnmt.evaluation.analyse.measures import LENGTHS
from posnmt.study.claims import Scale
from posnmt.study.measures import OutputMeasure, ShownMeasure

Published = float | str | None
TestName = Literal["paired_bootstrap", "sign_test", "approximate_randomisation"]
Words = str | Annotated[dict[Scale, str], Field(min_length=1)]
"""Text that may differ by scale, because a column at scale `small` seldom shows the same as at scale `paper`."""
# Our columns in tables of kind `parts` and `corpora`.
PARTS = ("Shortest", "Longest", "Pairs", "Source tokens")
CORPORA = ("Pairs", "Source tokens", "Target tokens")
OF_SYSTEMS = ("scores", "by-length", "significance")
"""The kinds of tables whose rows are systems."""


def words_at(words: Words, scale: Scale) -> str:
    """The text for a scale; if it has none, the text for the scale `paper`, or else the first one."""
    if isinstance(words, str):
        return words
    return words.get(scale) or words.get("paper") or next(iter(words.values()))


class Column(Section):
    """One column: a measure of each row's system.

    Measures of outputs need an analysis. `parameters`, `training_speed` and `decoding_speed` (source tokens per second,
    on the test of the analysis if there is one) do not.
    """

    title: Words = Field(description="heading of the column")
    measure: ShownMeasure = Field("bleu", description="what it shows")
    analysis: str | None = Field(None, description="an analysis of the recipe")
    published: list[Published] = Field([], description="the paper's figure in each row, null if there is none")
    published_unit: float = Field(1, gt=0, description="what a published figure counts: 1000 for K, 1000000 for M")


class Marks(Section):
    """Signs after figures that differ significantly from those of a baseline."""

    baseline: str = Field(description="a row; rows below it, up to the next baseline, are compared with it")
    analysis: str = Field(description="an analysis of the recipe")
    test: TestName = Field("sign_test", description="a test of significance")
    signs: dict[str, float] = Field({"++": 0.01, "+": 0.05}, description="sign -> p below which it stands")


class Table(Section):
    """A table.

    `scores`: a row per system, a column per measure. `by-length`: a row per system, and a column per bin and measure.
    `significance`: the matrix of one test. `parts`: the length-controlled training texts. `corpora`: pairs and tokens
    of every corpus.

    A published figure is in the same cell as ours if their headings agree, and otherwise in a column of its own. A
    column of `scores`, or a table, without an analysis shows only the published figures.
    """

    table: int | str = Field(description="its number or name in the paper")
    caption: Words = Field(description="the text above it")
    kind: Literal["scores", "by-length", "significance", "parts", "corpora"] = Field(
        "scores", description="what it shows; see above"
    )
    rows: list[str] = Field(
        [],
        description="systems, as system or system/training; for `parts` trainings, and for `corpora` corpora; default: "
        "all",
    )
    groups: dict[str, int] = Field({}, description="heading -> the number of the row, from 0, that it stands above")
    columns: list[Column] = Field([], description="columns of `scores`")
    cited: dict[str, list[Published]] = Field({}, description="rows that the paper cites: name -> figure by column")
    marks: list[Marks] = Field([], description="signs of significance in `scores`")
    analysis: str | None = Field(None, description="an analysis of the recipe, for `by-length` and `significance`")
    measures: list[OutputMeasure] = Field(
        ["bleu"], min_length=1, description="measures in `by-length`; `significance` takes the first"
    )
    test: TestName = Field("paired_bootstrap", description="the test in `significance`")
    published_columns: list[str] = Field(
        [],
        description="headings of the published figures, written as ours are: `0-25 BLEU` (bin and measure), or a row "
        "of the matrix; default for `parts` and `corpora`: ours",
    )
    published_n: dict[str, int] = Field({}, description="for `by-length`: bin of the paper -> sentences in it")
    published: list[list[Published]] = Field(
        [], description="for all kinds except `scores`: the paper's figures, by row"
    )
    note: Words | None = Field(None, description="a sentence below it")

    @model_validator(mode="after")
    def _complete(self) -> Table:
        if self.kind in ("by-length", "significance") and self.analysis is None and not self.published:
            raise ValueError(f"a table of kind {self.kind} needs an analysis, or published figures")
        if self.kind == "by-length" and self.published and not self.published_columns:
            raise ValueError("published figures by length need published_columns: the paper's bins may not be ours")
        if self.kind == "scores" and not self.columns:
            raise ValueError("a table of kind scores needs columns")
        for marks in self.marks:
            if marks.baseline not in self.rows:
                raise ValueError(f"the baseline {marks.baseline!r} is not one of the rows")
        return self

    @model_validator(mode="after")
    def _as_many_figures(self) -> Table:
        """Published figures are as many as the rows and columns that they belong to."""
        width = len(self.published_columns or {"parts": PARTS, "corpora": CORPORA}.get(self.kind, self.rows))
        if any(len(row) != width for row in self.published):
            raise ValueError(f"every row of `published` needs {width} figures, one a heading")
        for name, figures in self.cited.items():
            if len(figures) != len(self.columns):
                raise ValueError(f"cited {name!r} has {len(figures)} figures for {len(self.columns)} columns")
        for column in self.columns:
            if column.published and len(column.published) != len(self.rows):
                raise ValueError(
                    f"column {column.title!r} has {len(column.published)} published figures for {len(self.rows)} rows"
                )
        if self.published and len(self.published) != len(self.rows):
            raise ValueError(f"there are {len(self.published)} rows of published figures for {len(self.rows)} rows")
        return self

    def analyses(self) -> list[str]:
        """Return the analyses whose figures it shows, without duplicates."""
        named = [
            self.analysis,
            *(column.analysis for column in self.columns),
            *(marks.analysis for marks in self.marks),
        ]
        return [name for name in dict.fromkeys(named) if name]

    def variants(self) -> list[str]:
        """Return the systems that it shows, and the baselines of its marks."""
        rows = self.rows if self.kind in OF_SYSTEMS else []
        return [*rows, *(marks.baseline for marks in self.marks)]


class Panel(Section):
    """One plot of a figure, from one analysis."""

    analysis: str = Field(description="an analysis of the recipe")
    title: str | None = Field(None, description="heading of the panel")
    systems: list[str] | None = Field(None, description="systems to draw; default: all of the analysis")
    lengths: list[int | None] | dict[Scale, list[int | None]] | None = Field(
        None,
        description="for `length-distribution` and `sweep`: first and last source length of a bin of the analysis; "
        "default for `sweep`: all",
    )


class Figure(Section):
    """A figure of one or more panels.

    `length-curve`: a measure over source length. `length-distribution`: output lengths for the sources of one bin.
    `swap`: a measure over the share of swapped words. `sweep`: a measure over a hyperparameter of the systems, with
    `lines`, or over the first dimension of a `sweep` of the recipe.
    `corpus-lengths`: the source lengths of the training and test texts. `examples`: sentences with the translations of
    the two systems of a panel, chosen by their scores.
    """

    figure: int | str = Field(description="its number or name in the paper")
    caption: Words = Field(description="the text above it")
    kind: Literal["length-curve", "length-distribution", "swap", "sweep", "corpus-lengths", "examples"] = Field(
        "length-curve", description="what it shows; see above"
    )
    measure: OutputMeasure = Field("bleu", description="what the vertical axis shows")
    panels: list[Panel] = Field([], description="its plots; `corpus-lengths` needs none")
    lines: dict[str, dict[str, float]] = Field({}, description="for `sweep`: line -> system -> its place on the axis")
    sweep: str | None = Field(None, description="for `sweep`, instead of `lines`: a sweep of the recipe")
    axis: str | None = Field(None, description="for `sweep`: title of the axis")
    published: str | None = Field(None, description="what the paper's figure shows, in words")

    @model_validator(mode="after")
    def _complete(self) -> Figure:
        if not self.panels and self.kind != "corpus-lengths":
            raise ValueError(f"a figure of kind {self.kind} needs panels")
        if [bool(self.lines), self.sweep is not None].count(True) != (self.kind == "sweep"):
            raise ValueError(
                "a figure of kind sweep needs `lines`, or the name of a `sweep`; no other figure has these"
            )
        if self.kind == "examples":
            if any(len(panel.systems or []) != 2 for panel in self.panels):
                raise ValueError("a panel of a figure of kind examples needs two systems")
            if self.measure in LENGTHS:
                raise ValueError("a figure of kind examples needs a measure of quality, which is a metric")
        return self

    def analyses(self) -> list[str]:
        """Return the analysis of each of its panels."""
        return [panel.analysis for panel in self.panels]

    def variants(self) -> list[str]:
        """Return the systems that its panels and its lines name."""
        named = [system for panel in self.panels for system in panel.systems or []]
        return [*named, *(system for line in self.lines.values() for system in line)]
