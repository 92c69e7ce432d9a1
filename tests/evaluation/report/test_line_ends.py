"""Names beside the ends of lines: each is there once, near its line, over nothing else; or there is a legend."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from matplotlib.patches import PathPatch

from posnmt.evaluation.report.charts import Chart, Curve, Panel
from posnmt.evaluation.report.figures import Style, canvas, draw
from posnmt.evaluation.report.figures.canvas import Drawing
from posnmt.evaluation.report.figures.ends import FARTHEST, LINE, names_of, spread_out
from posnmt.evaluation.report.latex import escape
from posnmt.metrics.measure import Measure

BLEU, LOSS = Measure("BLEU", higher=True), Measure("Loss")
LABELS = ("0-9", "10-19", "20-29", "30-39", "40-")
NAMES = ("rr", "日本語", "_a & b", "relative", "transformer", "ALiBi, asymmetric", "x")


def random_chart(seed, systems=None, panels=1):
    """Curves that end anywhere, often at the same value."""
    draw = random.Random(seed)
    systems = systems or draw.randint(1, 7)
    steps = draw.choice([1, 8, 40])

    def curve(number):
        values = [float(draw.randint(0, steps)) for _ in LABELS]
        return Curve(NAMES[number], number, values, [(value - 1, value + 1) for value in values])

    shown = [Panel(measure, [curve(n) for n in range(systems)]) for measure in (BLEU, LOSS)[:panels]]
    return Chart("c", "t", "source length in words", LABELS, shown, counts=("n", [draw.randint(1, 900)] * 5))


def drawn(chart, monkeypatch, style):
    """The matplotlib figure of a chart, which is not saved, and the box of each of its texts in the style's font."""
    kept = []

    def keep(figure, *_):
        kept.append((figure, {text: text.get_window_extent() for text in figure.texts}))
        return Drawing("", b"")

    monkeypatch.setattr(canvas, "save", keep)
    draw([chart], style)
    return kept[0]


def legend_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def named(figure, chart):
    """The texts of the figure that are names of systems, legends apart."""
    names = {curve.name for curve in chart.panels[0].curves}
    return [text for text in figure.texts if text.get_text() in names]


def allowed(heights):
    """Whether heights are far enough apart, and within limits."""
    apart = all(later - one >= LINE - 1e-9 for one, later in pairwise(sorted(heights)))
    return apart and min(heights) >= 5 - 1e-9 and max(heights) <= 95 + 1e-9


def distance(heights, ends):
    return sum((one - other) ** 2 for one, other in zip(heights, ends, strict=True))


def test_the_heights_are_the_nearest_that_are_apart_and_in_order():
    """No small move of a height, or of neighbours together, comes nearer."""
    draw = random.Random(1)
    for _ in range(300):
        ends = [draw.choice([draw.uniform(0, 100), 50.0]) for _ in range(draw.randint(1, 8))]
        heights = spread_out(ends, LINE, (5, 95))
        assert heights is not None
        assert allowed(heights)
        order = sorted(range(len(ends)), key=heights.__getitem__)
        assert [ends[number] for number in order] == sorted(ends)
        for first in range(len(order)):
            for last in range(first, len(order)):
                for move in (-0.01, 0.01):
                    tried = list(heights)
                    for number in order[first : last + 1]:
                        tried[number] += move
                    assert not allowed(tried) or distance(tried, ends) >= distance(heights, ends) - 1e-9
    assert spread_out([1.0] * 11, LINE, (5, 95)) is None


@pytest.mark.parametrize("style", [Style(), Style(5.5, "serif"), Style(3.0, bands=False)])
def test_every_system_is_named_once_beside_its_line_or_in_the_legend(style, monkeypatch):
    shown = 0
    for seed in range(40):
        chart = random_chart(seed, panels=1 + seed % 2)
        figure, sizes = drawn(chart, monkeypatch, style)
        systems = [curve.name for curve in chart.panels[0].curves]
        texts, legend = named(figure, chart), legend_of(figure)
        if not texts:
            assert sorted(name for name in legend if name in systems) == sorted(systems)
            continue
        shown += 1
        assert not set(legend) & set(systems)
        assert sorted(text.get_text() for text in texts) == sorted(systems * len(chart.panels))
        boxes = [sizes[text] for text in texts]
        assert not any(a.overlaps(b) for number, a in enumerate(boxes) for b in boxes[:number])
        for box in boxes:
            assert box.x1 <= figure.bbox.x1
            assert figure.bbox.y0 <= box.y0
            assert box.y1 <= figure.bbox.y1
            assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)
    assert shown > 1


def test_a_thin_line_leads_from_the_end_of_each_line_to_its_marker_and_no_two_cross(monkeypatch):
    for seed in range(12):
        chart = random_chart(seed, systems=4)
        figure, _ = drawn(chart, monkeypatch, Style(5.5))
        names = names_of(chart, Style(5.5))
        [axes], curves = figure.axes, chart.panels[0].curves
        leaders = [patch.get_path().vertices for patch in axes.patches if isinstance(patch, PathPatch)]
        if names is None:
            assert leaders == []
            continue
        markers = [line for line in figure.get_children() if hasattr(line, "get_marker")]
        lines = [line for line in axes.get_lines() if line.get_linestyle() != "None"]
        ends = []
        for curve, leader, marker in zip(curves, leaders, markers, strict=True):
            same = [line for line in [*lines, *axes.get_lines()] if line.get_marker() == marker.get_marker()]
            places = [(x, y) for line in same for x, y in zip(*line.get_data(), strict=True) if y == curve.values[-1]]
            start = axes.transData.inverted().transform(figure.dpi_scale_trans.transform(leader[0]))
            assert any(start == pytest.approx(place) for place in places)
            at = marker.get_transform().transform(marker.get_xydata())[0]
            assert figure.dpi_scale_trans.transform(leader[2]) == pytest.approx(at)
            assert leader[1][1] == pytest.approx(leader[0][1]), "level within the plot"
            ends.append((leader[1][1], leader[2][1]))
        assert [high for _, high in sorted(ends)] == sorted(high for _, high in ends)
        assert all(abs(one - other) * 72 <= FARTHEST + 1e-6 for one, other in ends)


def test_names_that_do_not_fit_are_in_a_legend():
    fits = random_chart(0, systems=2)
    curves = fits.panels[0].curves
    assert names_of(fits, Style(5.5)) is not None
    long = replace(curves[0], name="a system with a very long name that takes half of the width")
    short = replace(curves[0], values=[*curves[0].values[:-1], None])  # a thin line would cross the others' last points
    empty = replace(curves[0], values=[None] * len(LABELS))
    crowd = [replace(curves[0], number=number) for number in range(9)]
    for spoilt in ([long, curves[1]], [short, curves[1]], [empty], crowd):
        assert names_of(replace(fits, panels=[Panel(BLEU, spoilt)]), Style(5.5)) is None


def test_names_cost_no_label_of_the_axis(monkeypatch):
    for seed in range(8):
        chart = replace(random_chart(seed, systems=3), labels=(*LABELS[:4], "40 and more words"))
        for width in (2.5, 3.5):
            labels = []
            for shown in (chart, replace(chart, panels=[Panel(BLEU, [chart.panels[0].curves[0]] * 12)])):
                figure, _ = drawn(shown, monkeypatch, Style(width))
                labels.append([label.get_text() for label in figure.axes[0].get_xticklabels()])
            assert len(labels[0]) == len(labels[1]), "as many as beside a legend"


def test_the_names_are_texts_of_the_svg_and_of_the_figure_for_latex():
    chart = random_chart(3, systems=3)
    drawing = draw([chart], Style(5.5, alone=True))["c"]
    assert names_of(chart, Style(5.5)) is not None
    assert drawing.svg.count(">rr</text>") == 1
    assert drawing.svg.count(">_a &amp; b</text>") == 1
    assert drawing.tex.count(f"selectfont{{}}{escape('_a & b')}}}") == 1
