"""`posnmt analyse --likelihood`: losses that `posnmt score --by-position` wrote, in the report of outputs."""

import csv
import io
import shutil

import pytest

from posnmt.evaluation.analyse.losses import write_losses
from posnmt.evaluation.report.likelihood import likelihood_report, read_report
from tests.support.commands import refused, run
from tests.support.losses_case import random_losses
from tests.support.report_case import without_figures

SECTION = '<h2 id="likelihood"'


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Losses as the command writes them, with `b` as the baseline, and a report of an output with them."""
    folder = tmp_path_factory.mktemp("likelihood")
    losses = folder / "losses"
    losses.mkdir()
    parts = {"losses": 1, "after-short": 2, "after-long": 3, "shift-source": 4}
    scored = {
        name: random_losses(sentences=300, documents=40, longest=47, seed=1, beyond={"a": beyond})
        for name, beyond in parts.items()
    }
    for name, each in scored.items():
        write_losses(losses / f"{name}.npz", each)
    report = likelihood_report(scored["losses"], baseline="b")
    (losses / "likelihood.csv").write_text(report.csv, encoding="utf-8")
    for name in ("source", "reference", "output"):
        (folder / name).write_text("one two three\nfour five six seven\n" * 12)
    with without_figures():
        run(*words(folder), "--likelihood", losses)
    return folder


def words(folder):
    texts = ("--source", folder / "source", "--reference", folder / "reference", "--output", f"x={folder / 'output'}")
    return ("analyse", *texts, "--samples", 0, "--no-significance", "--metrics", "bleu", "--out", folder / "out")


def test_losses_are_read_with_all_designs_and_their_baseline(place):
    report = read_report(place / "losses")
    assert report.effects.systems == ["b", "a"]
    assert {"D1", "D2"} <= report.effects.designs.keys()
    assert any(name.startswith("D3") and "source" in name for name in report.effects.designs)


def test_without_a_table_the_first_system_is_the_baseline(place, tmp_path):
    shutil.copyfile(place / "losses" / "losses.npz", tmp_path / "losses.npz")
    assert read_report(tmp_path).effects.systems == ["a", "b"]


def test_the_report_has_sentences_figures_and_the_table(place):
    page, report = (place / "out" / "report.html").read_text(encoding="utf-8"), read_report(place / "losses")
    section = page[page.index(SECTION) :]
    for chart in report.charts:
        assert f'<figure data-name="likelihood-{chart.name}">' in section
        assert (place / "out" / "figures" / f"likelihood-{chart.name}.svg").exists()
    for sheet in report.sheets:
        assert f'id="likelihood-{sheet.name}"' in section
    assert report.sentences[-1] in section
    table = (place / "out" / "tables" / "likelihood.csv").read_text(encoding="utf-8")
    assert table == report.csv
    assert {row["system"] for row in csv.DictReader(io.StringIO(table))} == {"a", "b"}
    assert "tables/likelihood.csv" in section


def test_another_analysis_without_losses_has_none(place, tmp_path):
    out = shutil.copytree(place / "out", tmp_path / "out")
    with without_figures():
        run(*words(place)[:-1], out)
    assert SECTION not in (out / "report.html").read_text(encoding="utf-8")
    assert not (out / "tables" / "likelihood.csv").exists()


def test_a_folder_without_losses_is_refused(place, tmp_path):
    [told] = refused(*words(place)[:-1], tmp_path / "out", "--likelihood", tmp_path)
    assert "losses.npz" in told
    assert not (tmp_path / "out").exists()


def test_parentheses_are_explained_by_what_decides_of_losses(place):
    page, report = (place / "out" / "report.html").read_text(encoding="utf-8"), read_report(place / "losses")
    section = page[page.index(SECTION) :].split("<h2 ")[1]
    assert section.count("In parentheses: too few sentences or documents to decide.</p>") == sum(
        sheet.few for sheet in report.sheets
    ) > 0  # fmt: skip
    assert "fewer than 20 sentences" not in section
