"""`posnmt figure` and `posnmt.Analysis.figure`: the same figure from everything that holds results."""

import csv
import io
import json
import lzma
import shutil
from statistics import fmean

import pytest
from click.testing import CliRunner

import posnmt
from posnmt.cli import figure as command
from posnmt.cli.main import main
from posnmt.evaluation.report import printed
from posnmt.evaluation.report.charts import charts
from posnmt.evaluation.report.figures import style
from posnmt.evaluation.report.grid import dashed
from posnmt.evaluation.report.likelihood import likelihood_charts, likelihood_report
from posnmt.evaluation.report.likelihood_table import read_curves
from posnmt.study.packed import unpack
from tests.support.documents import ROOT
from tests.support.losses_case import random_losses
from tests.support.report_case import everything, without_figures

RESULTS = ROOT / "docs" / "results"
COPY = RESULTS / "neishi2019-small"
NATURAL = RESULTS / "natural-small"


@pytest.fixture(scope="module")
def analysis(tmp_path_factory):
    folder = tmp_path_factory.mktemp("analysis")
    with without_figures():
        everything(folder)
    return folder / "out"


def figure(*words):
    """The lines that the command prints."""
    done = CliRunner().invoke(main, ["figure", *map(str, words)])
    assert done.exit_code == 0, done.output + str(done.exception)
    return done.stdout.splitlines()


def rows(path):
    """(column, row) -> value of a figure's CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["column"], row["row"]): row["mean"] and float(row["mean"]) for row in csv.DictReader(file)}


def test_an_analysis_gives_the_formats_that_were_asked_for_and_a_caption(analysis, tmp_path):
    out = tmp_path / "plots" / "by-length"
    *paths, caption = figure(analysis, "--width", "14cm", "--font", "serif", "--format", "svg,tex,csv", "--out", out)
    assert paths == [f"{out}.{kind}" for kind in ("svg", "tex", "csv")]
    assert sorted(path.name for path in out.parent.iterdir()) == ["by-length.csv", "by-length.svg", "by-length.tex"]
    svg = out.with_suffix(".svg").read_text(encoding="utf-8")
    assert f'width="{14 / 2.54 * 72:.6g}' in svg
    assert "STIXGeneral" in svg
    results = json.loads((analysis / "results.json").read_text(encoding="utf-8"))
    assert results["signatures"]["bleu"] in caption
    shown = rows(out.with_suffix(".csv"))
    assert shown["c", "5–9"] == results["systems"][4]["bins"][1]["bleu"]
    assert shown["a", "5–9"] == pytest.approx(fmean(each["bins"][1]["bleu"] for each in results["systems"][:2]))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("length", ["ter-by-length"]),
        ("difference", ["ter-differences"]),
        ("swap", ["ter-by-swap"]),
        ("place", ["bleu-by-relative-position"]),
        ("output-length", [f"output-lengths-{first}-{first + 4}" for first in range(0, 25, 5)]),
    ],
)
def test_each_kind_is_the_chart_of_the_report(analysis, tmp_path, kind, names):
    measure = [] if kind in ("place", "output-length") else ["--measure", "ter"]
    *paths, _ = figure(analysis, "--kind", kind, *measure, "--format", "csv", "--out", tmp_path / "f")
    results = json.loads((analysis / "results.json").read_text(encoding="utf-8"))
    of_report = {chart.name: chart for section in charts(results).values() for chart in section}
    written = [path for path in paths if path.endswith(".csv")]
    assert len(written) == len(names)
    for path, name in zip(written, names, strict=True):
        assert path.endswith(f"f-{name}.csv" if len(names) > 1 else "f.csv")
        expected = {cell.mean for row in of_report[name].by_place().rows for cell in row.cells}
        assert set(rows(tmp_path / path.rsplit("/", 1)[1]).values()) <= expected | {""}


def test_an_analysis_in_memory_gives_the_same_figure(tmp_path):
    source = [f"one two three {number}" for number in range(6)] + ["a b c d e f g h i j k l"] * 6
    reference = [line.upper() for line in source]
    outputs = {"good": reference, "poor": [line.replace("T", "D").replace("A", "X") for line in reference]}
    made = posnmt.analyse(source, reference, outputs, samples=50, bin_edges=[10])
    with without_figures():
        made.report(tmp_path / "report")
    shown = made.figure("length", "chrf", width=5.0, font="serif")
    assert isinstance(shown, posnmt.Figure)
    *paths, caption = figure(
        tmp_path / "report", "--measure", "chrf", "--width", "5in", "--font", "serif", "--out", tmp_path / "f"
    )
    assert caption == shown.caption
    for path in paths:
        kind = path.rsplit(".", 1)[1]
        assert (tmp_path / f"f.{kind}").read_bytes() == shown.content(kind, "f")
    assert [curve.name for curve in made.figure(systems="poor").chart.panels[0].curves] == ["poor"]
    for arguments in ({"kind": "x"}, {"font": "x"}, {"bands": "x"}, {"width": 1.0}, {"measure": "x"}, {"systems": 3}):
        with pytest.raises(posnmt.UserError):
            made.figure(**arguments)


@pytest.mark.parametrize(
    ("study", "analysis", "system", "measure"),
    [
        ("neishi2019-small", "overall", ("relative", "Rel-Transformer"), "chrf"),
        ("chen2019a-small", "swapped", ("re-both", "+Both REs"), "bleu"),
    ],
)
def test_a_copy_of_a_study_has_means_over_the_seeds_of_its_table(tmp_path, study, analysis, system, measure):
    words = ["--analysis", analysis, "--measure", measure, "--format", "csv"]
    figure(RESULTS / study, *words, "--out", tmp_path / "f")
    packed = (RESULTS / study / "results.csv.xz").read_bytes()
    table = list(csv.DictReader(io.StringIO(lzma.decompress(packed).decode("utf-8"))))
    of_seeds: dict = {}
    for row in table:
        wanted = (system[0], analysis, measure, "0.0")
        if (
            (row["system"], row["test_condition"], row["measure"], row["swapped"]) == wanted
            and row["first"]
            and row["value"]
        ):
            of_seeds.setdefault(row["bin"], []).append(float(row["value"]))
    assert len(of_seeds) > 2
    assert min(map(len, of_seeds.values())) > 1
    swapped = {float(row["swapped"]) for row in table if row["test_condition"] == analysis}
    assert len(swapped) == (1 if analysis == "overall" else 6), "rows of swapped sources are there, and left out"
    shown = rows(tmp_path / "f.csv")
    for label, values in of_seeds.items():
        assert shown[system[1], dashed(label)] == pytest.approx(fmean(values))


def test_two_analyses_of_a_study_share_their_vertical_axis(tmp_path):
    copy, out = RESULTS / "schemes-small", tmp_path / "f"
    words = ["--system", "Sinusoids", "--system", "Relative", "--format", "svg", "--out", out]
    figure(copy, "--analysis", "single", "--analysis", "joined", *words)
    texts = [(tmp_path / f"f-{name}-bleu-by-length.svg").read_text(encoding="utf-8") for name in ("single", "joined")]
    ticks = [[line for line in text.split("\n") if 'id="ytick' in line] for text in texts]
    assert len(ticks[0]) == len(ticks[1]) > 2


def test_the_caption_of_each_analysis_of_a_copy_has_the_signature_of_its_own_metric(tmp_path):
    printed_lines = figure(
        COPY, "--analysis", "words", "--analysis", "overall", "--format", "csv", "--out", tmp_path / "f"
    )
    signatures = json.loads((COPY / "published.json").read_text(encoding="utf-8"))["signatures"]
    multi_bleu, bleu = signatures["words"]["multi-bleu"], signatures["overall"]["bleu"]
    captions = [line for line in printed_lines if not line.startswith(str(tmp_path))]
    assert [(multi_bleu in caption, bleu in caption) for caption in captions] == [(True, False), (False, True)]
    [caption] = figure(COPY, "--measure", "length_ratio", "--format", "csv", "--out", tmp_path / "f")[1:]
    assert "nrefs" not in caption


def test_a_table_of_losses_has_the_curves_of_its_losses():
    systems = (("sinusoids", (1, 2)), ("relative", (1, 2)), ("rope", (1, 2)))
    losses = random_losses(systems, sentences=300, documents=40, longest=47, beyond={"sinusoids": 0.4})
    report = likelihood_report(losses)
    expected, found = report.charts, likelihood_charts(read_curves(report.csv, "likelihood.csv"))
    assert [chart.name for chart in found] == [chart.name for chart in expected]
    for one, other in zip(expected, found, strict=True):
        assert (other.labels, other.counts, other.training, other.few) == (
            one.labels,
            one.counts,
            one.training,
            one.few,
        )
        for panel, of_table in zip(one.panels, other.panels, strict=False):  # a table has no exposure
            for curve, read in zip(panel.curves, of_table.curves, strict=True):
                assert (read.name, read.values, read.outputs) == (curve.name, curve.values, curve.outputs)
                if one.name.startswith("difference"):
                    assert [ends and pytest.approx(ends) for ends in curve.intervals] == list(read.intervals)


def test_losses_are_drawn_from_a_table_a_folder_and_a_copy(tmp_path):
    table = RESULTS / "likelihood" / "long.csv"
    figure(table, "--kind", "position", "--format", "csv", "--out", tmp_path / "table")
    shutil.copy(table, tmp_path / "likelihood.csv")
    figure(tmp_path, "--kind", "position", "--format", "csv", "--out", tmp_path / "folder")
    assert rows(tmp_path / "folder.csv") == rows(tmp_path / "table.csv")
    with table.open(encoding="utf-8", newline="") as file:
        of_table = {
            (row["system"], row["bin"]): row for row in csv.DictReader(file) if row["axis"] == "target position"
        }
    assert rows(tmp_path / "table.csv")["relative", "40–49"] == float(of_table["relative", "40-49"]["L"])
    natural = RESULTS / "natural-small"
    figure(natural, "--kind", "position", "--analysis", "remedies", "--format", "csv", "--out", tmp_path / "copy")
    text = unpack(natural / "tables.tar.xz")["tables/likelihood-remedies.csv"].decode("utf-8")
    first = next(row for row in csv.DictReader(io.StringIO(text)) if row["axis"] == "target position")
    assert rows(tmp_path / "copy.csv")[first["system"], first["bin"].replace("-", "–")] == float(first["L"])


def test_a_row_for_each_system_shows_what_is_beyond_training(tmp_path):
    """The likelihood's D1 and the longest bin of an analysis, from a copy; the least rise in loss is on top."""
    path = tmp_path / "f.csv"
    for chosen, test in (([], "sample"), (["--analysis", "joined"], "joined")):
        words = [NATURAL, "--kind", "beyond", *chosen, "--format", "csv,svg", "--out", path.with_suffix("")]
        *_, caption = figure(*words)
        assert "left, 95 % intervals over documents and seeds; right, from the lowest to the highest seed" in caption
        drawn = rows(path)
        table = unpack(NATURAL / "tables.tar.xz")["tables/likelihood-natural.csv"].decode("utf-8")
        designs = [row for row in csv.DictReader(io.StringIO(table)) if row["bin"] == "D1"]
        rises = {row["system"]: float(row["Delta"] or 0) for row in designs}
        column = "Beyond training, rise in loss"
        assert {row: value for (of, row), value in drawn.items() if of == column} == rises
        assert [row for of, row in drawn if of == column] == sorted(rises, key=rises.__getitem__)
        omitted = [
            float(row["value"])
            for row in csv.DictReader(
                io.StringIO(lzma.decompress((NATURAL / "results.csv.xz").read_bytes()).decode("utf-8"))
            )
            if (row["system"], row["training_condition"], row["test_condition"]) == ("relative", "all", test)
            and (row["first"], row["measure"]) == ("61", "omitted_sentences")
        ]
        assert len(omitted) == 3
        [(found,)] = [[value] for (of, row), value in drawn.items() if of != column and row == "Relative"]
        assert found == pytest.approx(fmean(omitted))
        names = path.with_suffix(".svg").read_text(encoding="utf-8")
        assert all(f">{name}</text>" in names for name in rises)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--width", "5.5"], "5.5in"),
        (["--width", "1in"], "2in"),
        (["--width", "nanin"], "5.5in"),
        (["--format", "png"], "pdf"),
        (["--format", ""], "pdf"),
        (["--measure", "comet"], "bleu"),
        (["--kind", "place", "--measure", "bleu"], "--measure"),
        (["--kind", "position"], "posnmt score --by-position"),
        (["--kind", "beyond"], "only a study"),
        (["--system", "x"], "a, b, c"),
        (["--analysis", "x"], "--analysis"),
        (["--kind", "difference", "--bands", "sd"], "ci"),
        (["--kind", "swap", "--measure", "length_ratio"], "swap"),
        (["--out", "a.pdf"], ".pdf"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_a_line_and_nothing_is_written(analysis, tmp_path, monkeypatch, words, fault):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["figure", str(analysis), *words])
    assert done.exit_code == 2
    assert (done.stderr.count("\n"), list(tmp_path.iterdir())) == (1, [])
    assert fault in done.stderr


def spoilt(folder):
    """Places that hold no results, each with a word of its message."""
    (folder / "results.json").write_text("[]", encoding="utf-8")
    (folder / "no.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    whole = (RESULTS / "likelihood" / "long.csv").read_text(encoding="utf-8")
    (folder / "bad.csv").write_text(whole.replace("1194,91,", "x,91,", 1), encoding="utf-8")
    (folder / "bytes.csv").write_bytes(b"\xff\xfe")
    shutil.copytree(COPY, folder / "copy")
    (folder / "copy" / "results.csv.xz").write_bytes(b"x")
    return [
        ([folder / "none"], "does not exist"),
        ([folder], "results.json"),
        ([folder / "no.csv", "--kind", "position"], "no column axis"),
        ([folder / "bad.csv", "--kind", "position"], "bad.csv:2"),
        ([folder / "bytes.csv", "--kind", "position"], "likelihood"),
        ([folder / "copy"], "results.csv.xz"),
        ([COPY, "--kind", "place"], "published copy"),
        ([COPY, "--kind", "position"], "has no likelihood"),
        ([COPY, "--analysis", "no"], "no analysis of this study"),
        ([COPY, "--kind", "beyond"], "has no likelihood"),
        ([NATURAL, "--kind", "beyond", "--analysis", "no"], "no likelihood or analysis of completeness"),
    ]


def test_damaged_and_missing_results_are_said_in_a_line(tmp_path):
    for words, fault in spoilt(tmp_path):
        done = CliRunner().invoke(main, ["figure", *map(str, words), "--out", str(tmp_path / "f")])
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
        assert fault in done.stderr
    assert not list(tmp_path.glob("f.*"))


def test_what_the_command_offers_is_what_is_drawn():
    """The command names kinds and limits itself, so that its help imports nothing."""
    assert tuple(printed.KINDS) == command.KINDS
    assert printed.FORMATS == command.FORMATS
    assert (style.NARROWEST, style.WIDEST) == (command.NARROWEST, command.WIDEST)


@pytest.mark.parametrize(
    ("text", "inches"), [("5.5in", 5.5), ("14cm", 14 / 2.54), ("140 mm", 14 / 2.54), ("397.485pt", 5.5)]
)
def test_a_width_has_a_unit(text, inches):
    assert command.Width().convert(text, None, None) == pytest.approx(inches)
