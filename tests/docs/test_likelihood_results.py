"""The tables of likelihood by position are those of the published CSV files."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator

import pytest

from tests.support.documents import ROOT, read

FOLDER = ROOT / "docs" / "results" / "likelihood"
PAGE = ROOT / "docs" / "results" / "likelihood.md"
BASE, OTHER = "transformer", "relative"
DESIGNS = {
    "D1": ("all", "**D1**: beyond − dense"),
    "D1 by sentence": ("all", "the same by sentence"),
    "D1 sparse": ("all", "sparse − dense"),
    "D1 without unusual lengths": ("all", "D1 without unusual lengths"),
    "D1 without the worst 5 %": ("all", "D1 without the worst 5 %"),
    "D5": ("all", "D5: D1 with covariates"),
    "D2": ("all", "**D2**: after a long − after a short sentence"),
    "D3 source +40": ("short", "D3: source positions from 40"),
    "D3 target +40": ("short", "D3: target positions from 40"),
    "D3 both +40": ("short", "D3: both from 40"),
}
"""Design -> its test, and what the page calls it."""
ENDS = {"none": "from 0", "source +40": "source from 40", "target +40": "target from 40", "both +40": "both from 40"}
BEFORE, AT_END = "p of the end before it", "-ln p of the end at the end"


def figures(test: str, axis: str) -> dict[str, dict[str, dict[str, str]]]:
    """Bin -> system -> its row."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    with (FOLDER / f"{test}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["axis"] == axis:
                found.setdefault(row["bin"], {})[row["system"]] = row
    return found


def signed(value: str) -> str:
    return f"{float(value):+.3f}".replace("-", "−")


def difference(row: dict[str, str] | None) -> str:
    """A difference with its interval; in parentheses where it decides nothing, empty where there is none."""
    if row is None or not row["low"]:
        return ""
    text = f"{signed(row['Delta'])} ({signed(row['low'])} to {signed(row['high'])})"
    return text if row["status"] == "decided" else f"({text})"


def by_position() -> Iterator[str]:
    """Differences by target position in both kinds of sentences."""
    short, long = (figures(test, "target position") for test in ("short", "long"))
    for place in sorted({*short, *long}, key=lambda name: [int(each) for each in name.split("-")]):
        cells = []
        for rows in (short, long):
            row = rows.get(place, {}).get(OTHER)
            cells += [difference(row), f"{int(row['sentences']):,}" if row else ""]
        yield f"| {place.replace('-', '–')} | {' | '.join(cells)} |"


def zones() -> Iterator[str]:
    """Differences by zone, under sources within and beyond the lengths that training reaches."""
    of_zones, of_both = figures("all", "zone"), figures("all", "zone, source")
    for zone, rows in of_zones.items():
        parts = [of_both.get(f"{zone}, source {side}", {}).get(OTHER) for side in ("within", "beyond")]
        yield f"| {zone} | {' | '.join(map(difference, [rows[OTHER], *parts]))} |"


def designs() -> Iterator[str]:
    """Every design: what each system loses, and the difference."""
    for design, (test, label) in DESIGNS.items():
        rows = figures(test, "design")[design]
        row = rows[OTHER]
        effective = f"{float(row['G*']):.0f}"
        cells = [signed(rows[BASE]["L"]), signed(row["L"]), difference(row), f"{int(row['sentences']):,}"]
        yield f"| {label} | {' | '.join([*cells, row['documents'], effective])} |"


def ends() -> Iterator[str]:
    """The end symbol with shifted positions."""
    before, at_end = figures("short", BEFORE), figures("short", AT_END)
    for shift, label in ENDS.items():
        cells = [f"{float(before[f'shift {shift}'][name]['L']):.4f}" for name in (BASE, OTHER)]
        cells += [f"{float(at_end[f'shift {shift}'][name]['L']):.3f}" for name in (BASE, OTHER)]
        yield f"| {label} | {' | '.join(cells)} |"


@pytest.mark.parametrize("table", [by_position, zones, designs, ends], ids=lambda table: table.__name__)
def test_tables_have_the_figures_of_the_files(table: Callable[[], Iterator[str]]) -> None:
    rows = list(table())
    assert rows
    assert "\n".join(rows) + "\n" in read(PAGE)


def test_the_statement_has_the_figures_of_its_designs() -> None:
    rows = figures("all", "design")
    for name in ("D1", "D2"):
        row = rows[name][OTHER]
        low, high = sorted(abs(float(row[end])) for end in ("low", "high"))
        assert f"{abs(float(row['Delta'])):.3f} nats a subword (95 % {low:.3f} to {high:.3f})" in read(PAGE)
