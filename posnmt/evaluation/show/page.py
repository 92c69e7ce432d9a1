"""The page and its files: which sections there are follows from what the runs have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from posnmt.base.progress import Display
from posnmt.base.version import __version__
from posnmt.evaluation.report.embed import SHARED
from posnmt.evaluation.report.figures import Drawing
from posnmt.evaluation.report.grid import to_csv
from posnmt.evaluation.report.page import page
from posnmt.evaluation.report.write import figure_files
from posnmt.evaluation.show import by_distance, by_position, by_word
from posnmt.evaluation.show.lines import Lines
from posnmt.evaluation.show.sections import Section, Shown


@dataclass(frozen=True)
class Page:
    """What the page is of.

    Attributes:
        runs: what is drawn of each.
        lines: that means are over.
        notes: what was left out or cannot be shown, in sentences.
    """

    runs: Sequence[Shown]
    lines: Lines
    notes: Sequence[str]

    def sections(self) -> list[Section]:
        """Those that have a figure."""
        counted = by_distance.counted(self.runs)
        every = [
            by_word.attention(self.runs),
            by_distance.attention(self.runs),
            by_distance.logits(self.runs),
            replace(counted, groups=[*counted.groups, *by_word.counted(self.runs)]),
            by_position.similarity(self.runs),
            by_word.penalties(self.runs),
            by_position.moved(self.runs),
            by_position.vectors(self.runs),
        ]
        return [section for section in every if section.charts]


def files_of(what: Page, name: str, display: Display) -> dict[str, bytes]:
    """The page under a name, and the SVG, PDF and CSV files of its figures, by their paths in the page's folder."""
    from posnmt.evaluation.report.figures import draw

    sections = what.sections()
    charts = [chart for section in sections for chart in section.charts]
    drawings: dict[str, Drawing] = {}
    for number, chart in enumerate(charts):
        display.show("drawing", number / len(charts), chart.title)
        drawings |= draw([chart])
    files = figure_files(drawings)
    for chart in charts:
        files[f"figures/{chart.name}.csv"] = to_csv([chart.by_place()]).encode("utf-8")
    text = page(
        "show.html",
        SHARED,
        charts,
        drawings,
        runs=what.runs,
        lines=what.lines,
        notes=what.notes,
        sections=sections,
        marked=any(chart.training and set(chart.training) != {"seen"} for chart in charts),
        version=__version__,
    )
    return {**files, name: text.encode("utf-8")}
