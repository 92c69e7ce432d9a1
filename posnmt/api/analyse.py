"""`posnmt.analyse`: the command `posnmt analyse` as a function that returns values."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from pydantic import Field, NonNegativeInt, PositiveInt

from posnmt.api.arguments import checked, typed
from posnmt.base.errors import UserError, UserErrors, refuse_unknown
from posnmt.base.progress import Display
from posnmt.data.lines import checked_lines, listed
from posnmt.evaluation.analyse.analyse import Analysis as Measured
from posnmt.evaluation.analyse.analyse import analyse as measure
from posnmt.evaluation.analyse.citation import citation
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.settings import Settings
from posnmt.evaluation.report.bands import BANDS, Bands
from posnmt.evaluation.report.figures.style import COLUMN, NARROWEST, WIDEST, Font, Style
from posnmt.evaluation.report.printed import OF_ONE_CHART, Figure, figures_of, of_analysis
from posnmt.metrics.registry import DEFAULT_METRICS

Lines = str | Path | Sequence[str]
"""A text: the path of a file, or a list of its lines."""

Numbers = str | Path | Sequence[float]
"""A score for each sentence: the path of a file, or a list."""

_NAMES = ("metrics", "lower_is_better")
"""Settings that are lists, and for which a single string is accepted too."""
_TEXTS = ("trained_on", "documents", "word_frequencies")
"""Settings that are texts."""
_RESAMPLING = tuple(each.name for each in fields(Resampling))
_SETTINGS = tuple(each.name for each in fields(Settings) if each.name != "resampling")


@dataclass(frozen=True, kw_only=True)
class _Checked(Settings):
    """Settings of an analysis with limits. On the command line, the options have these limits."""

    metrics: Annotated[Sequence[str], Field(min_length=1)] = DEFAULT_METRICS
    metric_batch: PositiveInt = 8
    processes: PositiveInt = 1


@dataclass(frozen=True)
class Analysis:
    """The result of `posnmt.analyse`.

    Attributes:
        measured: all values, with the texts and the counts of every sentence.
    """

    measured: Measured

    @property
    def results(self) -> dict[str, Any]:
        """All figures, as in `results.json`; docs/files.md describes the fields."""
