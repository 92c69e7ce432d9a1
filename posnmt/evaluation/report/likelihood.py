"""The report of likelihood by position: what is stated, tables, figures, a CSV file and a page that stands alone."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from posnmt.evaluation.analyse.length_claims import SCOPE, claims
from posnmt.evaluation.analyse.length_effects import LengthEffects, length_effects
from posnmt.evaluation.analyse.losses import Losses
from posnmt.evaluation.analyse.losses_files import AFTER_LONG, AFTER_SHORT, PLAIN, SHIFTED, read_losses
from posnmt.evaluation.report.charts import Chart
from posnmt.evaluation.report.grid import Sheet
from posnmt.evaluation.report.likelihood_charts import likelihood_charts
from posnmt.evaluation.report.likelihood_tables import likelihood_csv, likelihood_sheets

PAGE, TABLE = "likelihood.html", "likelihood.csv"


@dataclass(frozen=True)
class LikelihoodReport:
    """What there is to show.

    Attributes:
        effects: every figure with its interval.
        sentences: what may be said of each system beside the baseline, and last what no figure says.
        notes: what was left out or could not be computed.
        sheets, charts: tables and figures.
    """

    effects: LengthEffects
    sentences: Sequence[str]
    notes: Sequence[str]
    sheets: Sequence[Sheet]
    charts: Sequence[Chart]

    @property
    def csv(self) -> str:
        """Every figure in full precision."""
        return likelihood_csv(self.effects)

    def named(self, prefix: str) -> LikelihoodReport:
        """The same with names of sheets and charts that are unique on a page with others."""
        sheets = [replace(sheet, name=f"{prefix}-{sheet.name}") for sheet in self.sheets]
        charts = [replace(chart, name=f"{prefix}-{chart.name}") for chart in self.charts]
        return replace(self, sheets=sheets, charts=charts)


def likelihood_report(
    losses: Losses,
    after_short: Losses | None = None,
    after_long: Losses | None = None,
    shifted: Mapping[str, Losses] | None = None,
    baseline: str | None = None,
    notes: Sequence[str] = (),
) -> LikelihoodReport:
    """Compute all figures and lay them out; arguments and errors as in `length_effects`.

    Args:
        notes: what is to be said of the input, such as that lines have no documents.
    """
    effects = length_effects(losses, after_short, after_long, shifted, baseline)
    sentences, notes = [*claims(effects), SCOPE], [*notes, *effects.notes]
    return LikelihoodReport(effects, sentences, notes, likelihood_sheets(effects), likelihood_charts(effects))


def read_report(folder: Path) -> LikelihoodReport:
    """The report of losses that `posnmt score --by-position --out` wrote, with the baseline of the folder's table.

    Raises:
        UserError: there are none, they are damaged, or of systems with different subwords.
    """

    def losses_of(name: str) -> Losses | None:
        return read_losses(path) if (path := folder / f"{name}.npz").exists() else None

    losses = read_losses(folder / f"{PLAIN}.npz")
    shifted = {path.stem.removeprefix(SHIFTED): read_losses(path) for path in sorted(folder.glob(f"{SHIFTED}*.npz"))}
    return likelihood_report(losses, losses_of(AFTER_SHORT), losses_of(AFTER_LONG), shifted, _baseline(folder / TABLE))


def _baseline(table: Path) -> str | None:
    """The baseline that a table names; None: it names none, or is not there."""
    if not table.exists():
        return None
    with table.open(encoding="utf-8", newline="") as file:
        return next((row["baseline"] for row in csv.DictReader(file) if row.get("baseline")), None)
