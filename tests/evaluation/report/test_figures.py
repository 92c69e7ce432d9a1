"""Figures for print: what is drawn, and that it stays within its axes, its width and its letters."""

import csv
import io
import random
import re
import shutil
import statistics
import subprocess
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from matplotlib.collections import LineCollection

from posnmt.base.errors import UserError
from posnmt.evaluation.report.bands import banded, in_words
from posnmt.evaluation.report.charts import Chart, Curve, Panel, curve_through, ends_of, sharing
from posnmt.evaluation.report.figures import Style, canvas, draw
from posnmt.evaluation.report.figures.canvas import MARKERS, STROKES, legend_shape, line_style, marker_style
from posnmt.evaluation.report.figures.lines import step, ticked
from posnmt.evaluation.report.figures.style import COLUMN
from posnmt.evaluation.report.page import inline_svg
from posnmt.evaluation.report.printed import FORMATS, figures_of
from posnmt.metrics.measure import Measure

BLEU = Measure("BLEU", higher=True)
LENGTH = Measure("Length difference", signed=True, neutral=0)
LABELS = ("0-9", "10-19", "20-29", "30-")
COUNTS = (2429, 310, 88, 11)
ANY_NAME = ("_a & b", "日本語 $x$", "naïve 100 %")


def chart(systems=3, seeds=3, measure=BLEU, seed=1, low=0.0):
    """A chart by length of random values; the last bin has few sentences."""
    draw = random.Random(seed)
    names = [ANY_NAME[number] if number < len(ANY_NAME) else f"system {number}" for number in range(systems)]
    curves = [
        curve_through(
            name, number, [([low + 40 * draw.random() for _ in range(seeds)], (low, low + 50)) for _ in LABELS]
        )
        for number, name in enumerate(names)
    ]
    training = ["seen", "seen", "partly unseen", "unseen"]
    return Chart("by-length", "BLEU by source length", "source length in words", LABELS, [Panel(measure, curves)],
                 counts=("n", COUNTS), training=training)  # fmt: skip


def drawn(charts, monkeypatch, style=None):
    """The matplotlib figures of charts."""
    kept = []
    save = canvas.save
    monkeypatch.setattr(canvas, "save", lambda figure, *rest: kept.append(figure) or save(figure, *rest))
    draw(charts, *([style] if style else []))
    return kept


def bars(axes):
    """(place, low, high) of each bar."""
    found = [each.get_segments() for each in axes.collections if isinstance(each, LineCollection)]
    return [(line[0][0], line[0][1], line[1][1]) for lines in found for line in lines]


@pytest.mark.parametrize("systems", [3, 7])
def test_of_three_systems_and_more_each_interval_is_a_bar_at_a_place_of_its_own(systems, monkeypatch):
    made = chart(systems)
    [axes] = drawn([made], monkeypatch)[0].axes
    known = range(3)  # the last bin has few sentences, and no interval
    expected = sorted(tuple(curve.intervals[place]) for curve in made.panels[0].curves for place in known)
    found = bars(axes)
    assert sorted((low, high) for _, low, high in found) == [pytest.approx(each) for each in expected]
    places = sorted(place for place, _, _ in found)
    assert all(later - earlier > 0.05 for earlier, later in pairwise(places))
    assert [round(place) for place in places] == sorted(list(known) * systems), "a bar stands above its own label"
    markers = {line.get_marker(): line.get_xdata() for line in axes.get_lines() if line.get_linestyle() != "None"}
    assert sorted(place for xs in list(markers.values()) for place in xs[:3]) == pytest.approx(places)


def test_two_systems_have_bands(monkeypatch):
    [axes] = drawn([chart(2)], monkeypatch)[0].axes
    assert bars(axes) == []
    assert [type(each).__name__ for each in axes.collections] == ["FillBetweenPolyCollection"] * 2


def test_without_bands_nothing_is_drawn_around_the_points(monkeypatch):
    [axes] = drawn([banded(chart(3), "none")], monkeypatch, Style(bands=False))[0].axes
    assert list(axes.collections) == []
    assert [list(line.get_xdata()) for line in axes.get_lines()[::2]] == [[0, 1, 2, 3]] * 3


def test_curves_are_told_apart_without_colour():
    looks = [(str(line_style(number)["linestyle"]), marker_style(number)["marker"]) for number in range(44)]
    assert len(STROKES) * len(MARKERS) == 44
    assert len(set(looks)) == 44


def test_an_axis_of_values_of_0_and_more_has_no_place_below_0():
    draw = random.Random(3)
    for _ in range(200):
        values = [draw.choice([0.0, draw.random() * 10 ** draw.randint(-2, 2)]) for _ in range(4)]
        spread = draw.random() * 30
        curve = Curve("a", 0, values, [(value - spread, value + spread) for value in values])
        low, high = ends_of([curve], BLEU)
        assert 0 <= low <= min(values)
        assert high >= max(values) + spread
        below, _ = ends_of([curve], LENGTH)
        assert below < min(values) - spread, "a signed measure may be below 0"


def test_plots_of_one_measure_share_their_vertical_axis(monkeypatch):
    one, other, third = chart(low=5, seed=1), chart(low=50, seed=2), chart(measure=LENGTH)
    limits = [figure.axes[0].get_ylim() for figure in drawn(sharing([one, other, third]), monkeypatch)]
    assert limits[0] == limits[1] != limits[2]
    values = [value for each in (one, other) for curve in each.panels[0].curves for value in curve.values]
    assert limits[0][0] < min(values) < max(values) < limits[0][1]


def test_counts_stand_in_a_row_with_a_heading_and_open_bins_are_words(monkeypatch):
    [figure] = drawn([chart()], monkeypatch, Style(5.5))
    [axes] = figure.axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["0–9\n2,429", "10–19\n310", "20–29\n88", "30 and more\n11"]
    assert " \nn" in [text.get_text() for text in axes.texts]
    assert (ticked("60-", 0.3), ticked("60-", 1.0), ticked("t5-", 1.0)) == ("≥ 60", "60 and more", "t5-")


def test_labels_of_an_axis_do_not_touch():
    draw = random.Random(4)
    letter = canvas.TICK_FONT * canvas.POINT * canvas.LETTER
    for _ in range(300):
        labels = ["x" * draw.randint(1, 12) for _ in range(draw.randint(1, 30))]
        width = draw.uniform(1, 8)
        every = step(labels, width)
        places = range((len(labels) - 1) % every, len(labels), every)
        assert places[-1] == len(labels) - 1
        middles = [(place + 0.5) * width / len(labels) for place in places]
        ends = [
            (at - len(labels[place]) * letter / 2, at + len(labels[place]) * letter / 2)
            for at, place in zip(middles, places, strict=True)
        ]
        assert all(left[1] < right[0] for left, right in pairwise(ends))


@pytest.mark.parametrize("width", [3.3, 5.5])
def test_the_legend_has_the_rows_that_matplotlib_makes_and_the_figure_its_width(width, monkeypatch):
    for systems in (1, 5, 9, 14):
        [figure] = drawn([chart(systems, seeds=1)], monkeypatch, Style(width))
        assert figure.get_size_inches()[0] == pytest.approx(width)
        entries = [text.get_text() for text in figure.legends[0].get_texts()]
        rows, columns = legend_shape(entries, Style(width))
        assert rows == -(-len(entries) // columns)
        box, axes = figure.legends[0].get_window_extent(), figure.axes[0].get_window_extent()
        assert box.y0 >= axes.y1, "the legend stands outside the plot"


@pytest.mark.parametrize("systems", [12, 13, 14, 20])
def test_the_legend_is_read_across_and_each_entry_has_its_own_line(systems, monkeypatch):
    given = chart(systems, seeds=1)
    curves = [
        replace(curve, name=f"{'long ' * (number % 3)}{number}") for number, curve in enumerate(given.panels[0].curves)
    ]
    made = replace(given, panels=[Panel(BLEU, curves)] * 2)
    expected = [*canvas.entries(made.panels[0].curves), "fewer than 20 sentences"]
    kept = []
    monkeypatch.setattr(canvas, "save", lambda figure, *_: kept.append(figure) or canvas.Drawing("", b""))
    draw([made], Style(4.0))
    [legend] = kept[0].legends
    texts, handles = legend.get_texts(), legend.legend_handles
    kept[0].draw_without_rendering()  # places the legend
    at = [tuple(text.get_transform().transform(text.get_position()).round() * (1, -1))[::-1] for text in texts]
    read = sorted(range(len(texts)), key=at.__getitem__)
    assert [texts[place].get_text() for place in read][: len(expected)] == expected
    markers = [handles[place].get_marker() for place in read[:systems]]
    assert markers == [marker_style(number)["marker"] for number in range(systems)]
    assert max(text.get_window_extent().x1 for text in texts) <= kept[0].bbox.x1


def test_seeds_that_all_systems_have_are_said_once(monkeypatch):
    made = chart(14)
    [figure] = drawn([made], monkeypatch)
    assert figure.legends[0].get_texts()[0].get_text() == ANY_NAME[0]
    assert canvas.entries(made.panels[0].curves)[:3] == list(ANY_NAME)
    assert figure.axes[0].get_title(loc="left") == "BLEU (higher is better), means of 3 seeds"
    single = chart(1, seeds=1).panels[0].curves[0]
    mixed = Chart("m", "t", "x", LABELS, [Panel(BLEU, [single, *made.panels[0].curves[1:]])])
    assert canvas.entries(mixed.panels[0].curves)[:2] == [ANY_NAME[0], f"{ANY_NAME[1]} (mean of 3 seeds)"]


def test_bands_are_the_deviation_or_student_s_interval_of_the_seeds():
    made = chart(2)
    t = 4.302652729911275  # of 2 degrees of freedom at 97.5 %
    for bands, factor in (("sd", 1.0), ("ci", t / 3**0.5)):
        for before, after in zip(made.panels[0].curves, banded(made, bands).panels[0].curves, strict=True):
            assert after.values == before.values
            for values, ends in zip(before.by_seed, after.intervals, strict=True):
                mean, reach = statistics.fmean(values), factor * statistics.stdev(values)
                assert ends == pytest.approx((mean - reach, mean + reach), rel=1e-9)
    lowest = [(min(values), max(values)) for values in made.panels[0].curves[0].by_seed]
    assert banded(made, "range").panels[0].curves[0].intervals == lowest
    assert in_words(banded(made, "none"), "none") == ""


def test_a_single_output_keeps_its_interval_and_has_no_deviation():
    single, several = chart(1, seeds=1), chart(2)
    mixed = Chart("m", "t", "x", LABELS, [Panel(BLEU, [single.panels[0].curves[0], several.panels[0].curves[1]])])
    own, of_seeds = banded(mixed, "ci").panels[0].curves
    assert own.intervals == single.panels[0].curves[0].intervals
    assert of_seeds.intervals != several.panels[0].curves[1].intervals
    assert banded(mixed, "sd").panels[0].curves[0].intervals == [None] * 4
    with pytest.raises(UserError, match="sd"):
        banded(single, "sd")


@pytest.mark.parametrize(("font", "embedded"), [("sans", b"DejaVuSans"), ("serif", b"STIXGeneral")])
def test_fonts_are_embedded_as_truetype(font, embedded):
    pdf = draw([chart()], Style(font=font))["by-length"].pdf
    names = {name.split(b"+")[1] for name in re.findall(rb"/FontName /(\S+)", pdf)}
    assert names, "a font has a descriptor"
    assert all(name.startswith(embedded) for name in names)
    assert pdf.count(b"/FontFile2") == len(re.findall(rb"/FontName", pdf)) > 0
    assert b"/Type3" not in pdf


@pytest.mark.parametrize("font", ["sans", "serif"])
def test_the_font_of_common_letters_gives_the_same_page_as_the_whole_font(font, monkeypatch):
    def parts(common):
        monkeypatch.setattr(canvas, "COMMON", common)
        pdf = draw([chart()], Style(font=font))["by-length"].pdf.rpartition(b"\nxref")[0]
        return re.sub(rb"/Length1 (?s:.*?)endstream|/FontBBox.*|[A-Z]{6}\+", b"", pdf), pdf

    (common, one), (whole, other) = parts(canvas.COMMON), parts(frozenset())
    assert common == whole
    assert one != other, "the glyphs come from two files"


@pytest.fixture(scope="module")
def figure():
    [made] = figures_of([replace(chart(), signature="tok:13a|version:2")], Style(5.5, "serif", alone=True), "sd")
    return made


def test_a_figure_is_saved_in_every_format(figure, tmp_path):
    for kind in FORMATS:
        path = figure.save(tmp_path / "new" / f"plot.{kind}")
        assert path.read_bytes() == figure.content(kind, "plot")
    assert (tmp_path / "new/plot.svg").read_text(encoding="utf-8") == figure._repr_svg_()
    rows = list(csv.DictReader(io.StringIO(figure.content("csv").decode("utf-8"))))
    values = {(row["column"], row["row"]): row["mean"] for row in rows}
    for curve in figure.chart.panels[0].curves:
        assert [float(values[curve.name, row]) for row in ("0–9", "10–19", "20–29", "30 and more")] == curve.values
    with pytest.raises(UserError, match=r"\.png") as error:
        figure.save(tmp_path / "plot.png")
    assert ".pdf" in str(error.value)


def test_the_caption_says_what_the_marks_are_and_what_measured(figure):
    caption = figure.caption
    for words in ("Means of 3 seeds", "Bars: one standard", "fewer than 20 sentences", "length not in training",
                  "tok:13a|version:2", "posnmt "):  # fmt: skip
        assert words in caption
    [plain] = figures_of([chart(1, seeds=1)], Style(), "none")
    assert not re.search("seed|Bands|Bars", plain.caption)


def test_only_the_systems_that_are_named_are_drawn_as_they_were():
    [figure] = figures_of([chart()], Style(), systems=[ANY_NAME[2]])
    [curve] = figure.chart.panels[0].curves
    assert (curve.name, curve.number) == (ANY_NAME[2], 2)
    with pytest.raises(UserError, match="nobody"):
        figures_of([chart()], Style(), systems=["nobody"])


def test_the_figure_for_latex_is_ascii_and_spans_columns_where_it_is_wider_than_one(figure):
    text = figure.content("tex", "plot").decode("utf-8")
    assert text.isascii()
    assert r"\begin{figure*}[t]" in text
    assert r"\label{fig:plot}" in text
    [narrow] = figures_of([chart()], Style(COLUMN, alone=True))
    assert r"\begin{figure}[t]" in narrow.content("tex", "plot").decode("utf-8")


def test_figures_compile(figure, tmp_path):
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("there is no LaTeX: install texlive-latex-base and texlive-pictures")
    figure.save(tmp_path / "wide.tex")
    [narrow] = figures_of([chart()], Style(3.0, alone=True))
    narrow.save(tmp_path / "narrow.tex")
    (tmp_path / "d.tex").write_text(
        r"\documentclass[twocolumn]{article}\usepackage{pgf}\begin{document}\input{wide}\input{narrow}\end{document}"
    )
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "d.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    log = (tmp_path / "d.log").read_text(encoding="latin-1")
    assert done.returncode == 0, log[-2000:]
    assert not re.search("^Overfull|^! |Missing character", log, re.M)


@pytest.mark.parametrize("kind", ["lines", "whiskers", "heat"])
def test_a_figure_on_a_page_is_smaller_and_draws_the_same(kind):
    """All words, marks and lines stay; ids are those that are referred to, and classes those that have a style."""
    curves = [
        curve_through(f"system {n}", n, [([10.0 + n], (9.0 + n, 11.5 + n)), ([20.0], (19.0, 21.5))]) for n in range(5)
    ]
    panels = [Panel(Measure("BLEU", "higher is better", 1), [each]) for each in curves]
    panels = [Panel(panels[0].measure, curves)] if kind != "whiskers" else panels
    chart = Chart("c", "BLEU by length", "length", ["1-10", "11-20"], panels, kind, counts=("n", [90, 20]))
    drawing = draw([chart])["c"]
    page = inline_svg(drawing, "f7", "a figure")
    before, after = ElementTree.fromstring(drawing.svg), ElementTree.fromstring(page)
    assert len(page) < 0.7 * len(drawing.svg)

    def marks(root):
        tags = [(each.tag.rpartition("}")[2], each) for each in root.iter()]
        words = [each.text for tag, each in tags if tag == "text"]
        lines = sum(each.get("d", "").count(letter) for _, each in tags for letter in "ML")
        return words, lines, [tag for tag, _ in tags].count("use"), [tag for tag, _ in tags].count("image")

    assert marks(after) == marks(before)
    used = re.findall(r'#(f7-[\w-]+)[")]', page)
    assert {each.get("id") for each in after.iter() if each.get("id")} == set(used)
    classes = {each.get("class") for each in after.iter()} - {None, "point"}
    assert classes == set(re.findall(r"\.(f7-\d+){", page))
