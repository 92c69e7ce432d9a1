"""The baseline of an analysis: everything that the report compares with one system compares with it."""

import random

import pytest

from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.report.charts import baseline_of, difference_chart
from posnmt.evaluation.report.sheets import overall
from posnmt.evaluation.report.words import words_sheet
from tests.support.report_case import WORDS, analysed, noisy, without_figures

SHARES = {"a:1": 0.2, "a:2": 0.22, "b": 0.35, "c": 0.6}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The results with b as the baseline, those without, and those with b as the first system."""
    draw = random.Random(5)
    references = [" ".join(draw.choices(WORDS, k=8 + number % 20)) for number in range(80)]
    orders = {"asked": [*SHARES], "not asked": [*SHARES], "first": ["b", "c", "a:1", "a:2"]}
    found = {}
    for name, order in orders.items():
        outputs = {system: noisy(references, SHARES[system], system) for system in order}
        more = {"baseline": "b"} if name == "asked" else {}
        more |= {"bin_width": 10, "resampling": Resampling(40, correction="none")}
        folder = tmp_path_factory.mktemp("baseline") / name
        with without_figures():
            found[name] = analysed(folder, outputs, references=references, **more)
        page = (folder / "out/report.html").read_text(encoding="utf-8")
        found[name]["selected"] = [line for line in page.splitlines() if "<option" in line and " selected" in line]
    return found


def marks(results):
    """(table, row, column) → the mark."""
    sheets = overall(results), words_sheet(results)
    return {
        (sheet.name, number, row.label.split(" ")[0], column): cell.sign
        for sheet in sheets
        for number, grid in enumerate(sheet.grids)
        for row in grid.rows
        for column, cell in enumerate(row.cells)
    }


def differences(results):
    """(metric, system) → [value, low, high] on the lengths that occur."""
    return {
        (metric, panel.title): [
            [value, *ends] for value, ends in zip(curve.values, curve.intervals, strict=True) if ends is not None
        ]
        for metric in ("bleu", "ter")
        for panel in difference_chart(results, metric).panels
        for curve in panel.curves
    }


def test_a_baseline_is_compared_with_as_if_it_were_the_first(made):
    """The marks of the tables, the differences, and the choice of the page."""
    asked, first, other = (made[name] for name in ("asked", "first", "not asked"))
    assert [baseline_of(each).name for each in (asked, first, other)] == ["b", "b", "a"]
    assert marks(asked) == marks(first) != marks(other)
    for table in ("overall", "words"):
        assert {sign[:1] for (name, *_), sign in marks(asked).items() if name == table} == {"", "<", ">"}
    of_asked, of_first = differences(asked), differences(first)
    assert {system for _, system in of_asked} == {"a", "c"}
    for key, figures in of_asked.items():
        assert figures == [pytest.approx(each) for each in of_first[key]]
        assert len(figures) > 2
        assert all(low < value < high for value, low, high in figures)
    for results, name in ((asked, "b"), (first, "b"), (other, "a")):
        assert any(f'value="{name}"' in line for line in results["selected"])
