"""The statement on likelihood by position has the figures of the published CSV files; its tables are generated."""

from __future__ import annotations

from docs.scripts.results import OTHER, figures
from tests.support.documents import ROOT, read

PAGE = ROOT / "docs" / "results" / "likelihood.md"


def test_the_statement_has_the_figures_of_its_designs() -> None:
    rows = figures("all", "design")
    for name in ("D1", "D2"):
        row = rows[name][OTHER]
        low, high = sorted(abs(float(row[end])) for end in ("low", "high"))
        assert f"{abs(float(row['Delta'])):.3f} nats a subword (95 % {low:.3f} to {high:.3f})" in read(PAGE)
