"""The report of likelihood by position: its files say what the figures are, and the page stands alone."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest

from posnmt.evaluation.analyse.length_claims import SCOPE
from posnmt.evaluation.report.figures import draw
from posnmt.evaluation.report.figures.lines import shaded
from posnmt.evaluation.report.likelihood import CSV_HEAD, PAGE, TABLE, likelihood_report
from posnmt.evaluation.report.write import likelihood_files
from tests.support.losses_case import random_losses
from tests.support.report_case import without_figures

SEEDS = (1, 2, 3)
PAIR = (("sinusoids", SEEDS), ("relative", SEEDS))


def losses_of(systems=PAIR, **options):
    # 60 sentences at the highest positions: shown, and nothing is decided on them
    return random_losses(
        systems, **{"sentences": 300, "documents": 40, "longest": 47, "beyond": {"sinusoids": 0.4}, **options}
    )


@pytest.fixture(scope="module")
def report():
    losses = losses_of()
    return likelihood_report(
        losses, losses, replace(losses, losses=losses.losses + 0.1), {"source +40": losses}, notes=["No ids <here>."]
    )


@pytest.fixture(scope="module")
def page(report):
    with without_figures():
        return likelihood_files(report)[PAGE].decode("utf-8")


def test_the_csv_file_has_every_figure_of_every_system(report):
    rows = list(csv.DictReader(io.StringIO(report.csv)))
    assert list(rows[0]) == list(CSV_HEAD)
    assert [name for name in CSV_HEAD if name in ("axis", "bin", "sentences", "documents", "G*", "L", "Delta", "SE",
                                                  "df")] == [
        "axis", "bin", "sentences", "documents", "G*", "L", "Delta", "SE", "df",
    ]  # fmt: skip
    keys = [(each["axis"], each["bin"], each["system"]) for each in rows]
    assert len(set(keys)) == len(keys) == 2 * len(report.effects.rows)
    by_key = dict(zip(keys, rows, strict=True))
    for each in report.effects.rows:
        first, second = (by_key[each.axis, each.bin, name] for name in ("sinusoids", "relative"))
        estimate = each.differences["relative"]
        assert float(first["L"]) == each.levels["sinusoids"].value
        assert float(second["L"]) == each.levels["relative"].value
        assert first["Delta"] == first["SE"] == first["df"] == first["baseline"] == ""
        assert second["baseline"] == "sinusoids"
        assert float(second["Delta"]) == estimate.value
        assert float(second["SE"]) == estimate.error
        assert (float(second["low"]), float(second["high"])) == estimate.interval()
        assert second["df"] == str(estimate.freedom)
        support = each.support
        assert [second[name] for name in ("sentences", "documents", "G*", "status")] == [
            str(support.sentences), str(support.documents), str(support.effective), support.status,
        ]  # fmt: skip


def test_what_has_no_interval_has_empty_cells():
    losses = losses_of()
    one = likelihood_report(replace(losses, documents=np.zeros(300, dtype=int)))
    rows = [each for each in csv.DictReader(io.StringIO(one.csv)) if each["Delta"]]
    assert rows
    assert {(each["SE"], each["df"], each["low"], each["status"]) for each in rows} == {("", "", "", "few")}
    assert all(cell.low is None for sheet in one.sheets for cell in sheet.cells)


def chart_named(report, name):
    return next(chart for chart in report.charts if chart.name == name)


def test_charts_show_the_curves_with_simultaneous_bands(report):
    rows = report.effects.positions
    loss, difference = (chart_named(report, f"{name}-by-target-position") for name in ("loss", "difference"))
    assert loss.labels == difference.labels == [each.bin for each in rows]
    assert [curve.name for curve in loss.panels[0].curves] == ["sinusoids", "relative"]
    (curve,) = difference.panels[0].curves
    assert curve.values == [each.differences["relative"].value for each in rows]
    for each, ends in zip(rows, curve.intervals, strict=True):
        assert ends == each.differences["relative"].interval(1 - 0.05 / len(rows))
        low, high = each.differences["relative"].interval()
        assert ends[0] < low < high < ends[1]
    (share,) = loss.panels[1].curves
    assert share.values == [100 * each.exposure for each in rows]
    assert loss.training == [each.training for each in rows]
    assert {"seen", "unseen"} <= set(loss.training)
    assert "fewer than 1 in 1,000" in draw([loss])[loss.name].svg
    assert "Reached in training" in [head.title for head in loss.by_place().heads]


def test_bins_that_decide_nothing_are_pale(report):
    chart = chart_named(report, "difference-by-target-position")
    pale = [place for place, each in enumerate(report.effects.positions) if each.support.status == "pale"]
    assert pale == [len(chart.labels) - 1] == chart.few
    assert all(count >= 50 for count in chart.counts[1]), "far more than the 20 of other charts"
    svg = draw([chart])[chart.name].svg
    assert "too few sentences or documents" in svg
    decided = likelihood_report(losses_of(sentences=900))
    assert chart_named(decided, "difference-by-target-position").few == []
    assert [any(cell.few for cell in row.cells) for row in chart.by_place().rows] == [
        place in pale for place in range(len(chart.labels))
    ]


def test_with_more_systems_each_has_a_panel():
    names = ("relative", "rope", "alibi")
    report = likelihood_report(losses_of((("sinusoids", SEEDS), *((name, SEEDS) for name in names))))
    chart = chart_named(report, "difference-by-target-position")
    assert chart.kind == "whiskers"
    assert chart.title == "Difference in loss from sinusoids by target position"
    assert [panel.title for panel in chart.panels] == list(names)
    assert chart.labels == ["all", *(each.bin for each in report.effects.positions)]
    whole = report.effects.overall[0]
    assert [panel.curves[0].values[0] for panel in chart.panels] == [whole.differences[name].value for name in names]
    assert len(report.sentences) == 4


def test_one_system_has_no_differences():
    report = likelihood_report(losses_of((("only", SEEDS),)))
    assert report.sentences == [SCOPE]
    assert not any("difference" in chart.name for chart in report.charts)
    with without_figures():
        assert "Difference from" not in likelihood_files(report)[PAGE].decode("utf-8")


def test_the_page_has_sentences_notes_figures_and_tables(report, page):
    text = re.sub("<[^>]+>", "", page)
    assert all(sentence in text for sentence in report.sentences)
    assert "No ids &lt;here&gt;." in page
    assert re.findall('<h2 id="([^"]+)"', page) == ["curves", *(sheet.name for sheet in report.sheets), "made"]
    assert [sheet.name for sheet in report.sheets] == [
        "designs",
        "zones",
        "same-positions",
        "ends",
        "shifted-ends",
        "all",
    ]
    assert re.findall('<figure data-name="([^"]+)"', page) == [chart.name for chart in report.charts]
    assert "://" not in page.split("<script")[0], "nothing is loaded; the script names the namespace of SVG"


def test_figures_of_too_little_text_are_in_parentheses():
    report = likelihood_report(losses_of(sentences=190))
    with without_figures():
        page = likelihood_files(report)[PAGE].decode("utf-8")
    statuses = [each.support.status == "decided" for each in report.effects.designs.values()]
    assert 0 < sum(statuses) < len(statuses)
    designs = page.split('<h2 id="designs">')[1].split("<h2 ")[0]
    assert len(re.findall(r"<td[^>]*>\(", designs)) == 3 * (len(statuses) - sum(statuses))


def test_files_are_the_page_the_table_and_every_figure(report):
    with without_figures():
        files = likelihood_files(report)
    assert set(files) == {
        PAGE, TABLE, *(f"figures/{chart.name}.{kind}" for chart in report.charts for kind in ("svg", "pdf")),
    }  # fmt: skip
    assert files[TABLE].decode("utf-8") == report.csv


def test_tables_have_the_figures_of_the_designs(report):
    (grid,) = next(sheet.grids for sheet in report.sheets if sheet.name == "designs")
    for row, each in zip(grid.rows, report.effects.designs.values(), strict=True):
        assert [cell.mean for cell in row.cells] == [
            each.levels["sinusoids"].value, each.levels["relative"].value, each.differences["relative"].value,
            each.support.sentences, each.support.documents, each.support.effective,
        ]  # fmt: skip
        assert (row.cells[2].low, row.cells[2].high) == each.differences["relative"].interval()
    assert [row.label.split(":")[0] for row in grid.rows if "D" in row.label[:1]] == [
        "D1", "D1, by sentence", "D1 without unusual lengths", "D1 without the worst 5 %", "D2", "D3 source +40", "D5",
    ]  # fmt: skip


def test_figures_have_their_unit_in_a_heading_or_in_their_row(report):
    for sheet in report.sheets:
        (grid,) = sheet.grids
        group, others = grid.heads[0].group, {head.group for head in grid.heads[2:]}
        assert group not in others
        units = [group, sheet.caption, *(row.label for row in grid.rows)]
        assert "nats" in group or all("p of the end" in label or "per" in label for label in units[2:])


def test_the_legend_has_what_lies_beyond_training_before_what_does_in_part(report):
    chart = next(chart for chart in report.charts if chart.name == "loss-by-target-position")
    whole, part = "reached by fewer than 1 in 1,000 training pairs", "part of the bin is"
    assert shaded(replace(chart, training=["seen", "partly unseen", "unseen"])) == [whole, part]
    assert shaded(replace(chart, training=["seen", "partly unseen"])) == [f"in part {whole}"]
