"""The page and the figures: what they show, and that they stand alone."""

import base64
import gzip
import json
import random
import re
from html.parser import HTMLParser
from itertools import pairwise
from statistics import mean
from xml.etree import ElementTree

import pytest
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle

from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.report.charts import MOST_DISTRIBUTIONS, Chart, Curve, Panel, charts
from posnmt.evaluation.report.figures import canvas, draw
from posnmt.evaluation.report.figures.canvas import MARKERS, SERIES, STROKES, Drawing, line_style, marker_style
from posnmt.evaluation.report.latex_sheet import to_latex
from posnmt.evaluation.report.sheets import chart_sheet
from posnmt.evaluation.report.significance import contested, explained, floor, show_p
from posnmt.metrics.measure import Measure
from tests.support.report_case import WORDS, analysed, everything, noisy, sentences, without_figures

HTML_NAME = '<script>alert("1")</script> & $x_1$'


class Page(HTMLParser):
    """Collects the elements of a page, its ids, its tables by name, and its text outside of style and script."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.ids, self.words = [], [], []
        self.tables, self.row, self.within = {}, None, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.within.append(tag)
        if tag == "table":
            self.table = self.tables.setdefault(attributes["data-name"], [])
        elif tag == "tr":
            self.table.append([])
        elif tag in ("td", "th"):
            self.table[-1].append([tag, attributes, ""])

    def handle_endtag(self, tag):
        while self.within and self.within.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"style", "script"} & set(self.within):
            self.words.append(data)
        if {"td", "th"} & set(self.within):
            self.table[-1][-1][2] += data


def page_of(folder):
    return Page((folder / "out/report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, everything(folder)


@pytest.fixture(scope="module")
def page(whole):
    return page_of(whole[0])


def values(table, column):
    """The full-precision values of a column."""
    return [float(row[column][1]["data-value"]) if "data-value" in row[column][1] else None for row in table[1:]]


def test_the_answer_comes_first(whole, page):
    headings = [name for name in page.ids if ("h2", name) in [(tag, each.get("id")) for tag, each in page.elements]]
    assert headings[:4] == ["overall", "differences", "significance", "by-length"]
    assert headings[4:] == ["output-lengths", "positions", "words", "swap", "examples", "made"]
    names = [attributes["data-name"] for tag, attributes in page.elements if tag in ("figure", "table")]
    assert names[:4] == ["overall", "seeds", "bleu-differences", "bleu-differences"]
    assert names[4] == "significance-bleu-paired-bootstrap"
    text = "".join(page.words)
    assert text.index(whole[1]["verdict"]["sentence"]) < text.index("3 systems with 5 outputs, 60 sentences")


def test_the_contents_lead_to_every_section(page):
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    sections = [f"#{each['id']}" for tag, each in page.elements if tag == "h2"]
    assert links[: len(sections)] == sections
    assert "Differences from a baseline" in page.words


def test_the_overall_table_ranks_all_systems(whole, page):
    results = whole[1]
    rows = page.tables["overall"][1:]
    scores = {system["name"]: system["overall"]["bleu"]["mean"] for system in results["seeds"]["systems"]}
    scores["c"] = results["systems"][4]["overall"]["bleu"]
    best_first = sorted(scores, key=scores.get, reverse=True)
    assert [row[0][2].split(" (")[0] for row in rows] == best_first
    assert values(page.tables["overall"], 1) == [scores[name] for name in best_first]


def test_where_a_lower_score_is_better_the_lowest_comes_first(tmp_path):
    outputs = {name: noisy(sentences(), share, name) for name, share in {"bad": 0.6, "good": 0.1, "fair": 0.3}.items()}
    with without_figures():
        results = analysed(tmp_path, outputs, metrics=["ter"])
    table = page_of(tmp_path).tables["overall"]
    assert [row[0][2] for row in table[1:]] == ["good", "fair", "bad"]
    assert results["verdict"]["groups"][0]["best"] == ["good"]


def test_differences_are_those_of_the_scores(whole, page):
    results = whole[1]
    table = page.tables["bleu-differences"]
    assert [cell[2] for cell in table[0]] == ["Source length in words", "n", "In training", "b", "c"]
    assert table[1][0][2] == "all"
    overall = {each["name"]: each["overall"]["bleu"] for each in results["systems"]}
    means = {name: mean(overall[f"{name}:{seed}"] for seed in (1, 2)) for name in "ab"} | {"c": overall["c"]}
    assert values(table, 3)[0] == pytest.approx(means["b"] - means["a"])
    by_bin = [each["bins"][1]["bleu"] for each in results["systems"]]
    assert values(table, 4)[2] == pytest.approx(by_bin[4] - mean(by_bin[:2]))
    for row in table[1:-2]:
        assert float(row[4][1]["data-low"]) <= float(row[4][1]["data-value"]) <= float(row[4][1]["data-high"])
    assert values(table, 3)[-2:] == [None, None], "the last two bins have no sentences"


def test_every_figure_has_its_table_and_a_description(whole, page):
    figures = [attributes["data-name"] for tag, attributes in page.elements if tag == "figure"]
    expected = [chart.name for section in ordered(charts(whole[1])) for chart in section]
    expected.insert(expected.index("bleu-by-swap"), "f1-by-frequency")
    assert figures == expected
    assert len(figures) > 10
    assert set(figures) <= set(page.tables)
    described = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert all(each["role"] == "img" and "in a table below" in each["aria-label"] for each in described)
    assert len(described) == len(figures)
    assert [tag for tag, _ in page.elements].count("caption") == sum(tag == "table" for tag, _ in page.elements)


def ordered(sections):
    length, distribution = sections["length"], sections["distribution"]
    return [
        sections["difference"][:1],
        length,
        sorted(distribution, key=lambda chart: not chart.opened),
        sections["position"],
        sections["swap"],
    ]


def test_all_headings_of_tables_have_a_scope(page):
    assert {attributes.get("scope") for tag, attributes in page.elements if tag == "th"} == {"col", "row"}


def test_the_curve_of_seeds_is_their_mean_from_lowest_to_highest(whole, page):
    results = whole[1]
    table = page.tables["bleu-by-length"]
    heads = [cell[2] for cell in table[0]]
    column = next(number for number, head in enumerate(heads) if head.startswith("a"))
    by_seed = [[each["bleu"] for each in system["bins"][:-2]] for system in results["systems"][:2]]
    means = [pytest.approx(mean(of_bin)) for of_bin in zip(*by_seed, strict=True)]
    assert values(table, column) == [*means, None, None], "the last two bins have no sentences"
    ends = [row[column][1] for row in table[1:-2]]
    assert [float(each["data-low"]) for each in ends] == [min(of_bin) for of_bin in zip(*by_seed, strict=True)]
    assert [float(each["data-high"]) for each in ends] == [max(of_bin) for of_bin in zip(*by_seed, strict=True)]
    assert [head for head in heads if head.startswith(("a:", "b:"))] == []
    (alone,) = (number for number, head in enumerate(heads) if head == "c")
    assert values(table, alone) == [each["bleu"] for each in results["systems"][4]["bins"]]


def test_seeds_are_shown_with_mean_spread_and_welch_s_test(whole, page):
    results = whole[1]
    seeds = results["seeds"]["systems"]
    rows = {row[0][2]: row[1] for row in page.tables["overall"][1:]}
    for system in seeds:
        of_seeds = system["overall"]["bleu"]
        _, attributes, text = rows[f"{system['name']} (2 seeds)"]
        kept = [float(attributes[f"data-{key}"]) for key in ("value", "deviation", "low", "high")]
        assert kept == [of_seeds[key] for key in ("mean", "deviation", "lowest", "highest")]
        assert f"{of_seeds['mean']:.1f} ± {of_seeds['deviation']:.1f}" in text
        assert f"{of_seeds['lowest']:.1f} to {of_seeds['highest']:.1f}" in text
    each = page.tables["seeds"]
    assert [row[0][2] for row in each[1:]] == ["a:1", "a:2", "b:1", "b:2"]
    assert values(each, 1) == [system["overall"]["bleu"] for system in results["systems"][:4]]
    found = results["seeds"]["welch"]["bleu"]
    assert page.tables["significance-bleu-seeds"][1][2][2] == f"{found['marks'][0][1]}{found['corrected'][0][1]:.4f}"


def test_swap_curves_have_a_row_a_share(whole, page):
    results = whole[1]
    table = page.tables["bleu-by-swap"]
    assert [row[0][2] for row in table] == ["Share of swapped words in the source", "0 %", "10 %", "30 %"]
    curves = {curve["name"]: curve["bleu"] for curve in results["swap"]}
    assert values(table, 1) == [pytest.approx(mean(both)) for both in zip(curves["a:1"], curves["a:2"], strict=True)]
    assert values(table, 2) == curves["c"]


def test_seeds_with_different_shares_of_swapped_words_are_curves_of_their_own(tmp_path):
    lines = sentences()
    outputs = {"a:1": noisy(lines, 0.2, 1), "a:2": noisy(lines, 0.3, 2), "b": lines}
    swapped = {("a:1", 0.1): lines, ("a:2", 0.2): lines, ("b", 0.2): lines}
    with without_figures():
        results = analysed(tmp_path, outputs, swapped, metrics=["bleu"])
    (chart,) = charts(results)["swap"]
    curves = chart.panels[0].curves
    assert [curve.name for curve in curves] == ["a:1", "a:2", "b"]
    assert [[value is None for value in curve.values] for curve in curves] == [
        [False, False, True], [False, True, False], [False, True, False],
    ]  # fmt: skip
    assert len({curve.number for curve in curves}) == 3


def test_places_in_the_sentence_show_precision_and_recall(whole, page):
    curves = whole[1]["positions"]["systems"][4]
    for kind in ("relative", "absolute"):
        table = page.tables[f"bleu-by-{kind}-position"]
        heads = [cell[2].strip() for cell in table[0]]
        for side in ("precision", "recall"):
            shown = values(table, heads.index(f"c, {side}"))
            assert shown == curves[kind][side][: len(shown)]
            assert not any(curves[kind]["n"][side][len(shown) :]), "only places without words are left out"


def test_histograms_hold_every_sentence(whole):
    results = whole[1]
    shown = charts(results)["distribution"]
    assert len(shown) == 5
    for chart, each in zip(shown, results["bins"], strict=False):
        assert [panel.title for panel in chart.panels] == ["a", "b", "c"]
        for panel in chart.panels:
            reference, curve = panel.curves
            assert reference.number < 0
            assert sum(reference.values) == sum(curve.values) == each["n"]
    assert [chart.name for chart in shown if chart.opened] == ["output-lengths-10-14", "output-lengths-15-19"]


def test_of_many_bins_those_beyond_training_and_the_longest_are_drawn(tmp_path):
    lines = sentences(240)
    with without_figures():
        results = analysed(
            tmp_path, {"a": lines}, references=lines, bin_width=2, max_trained_length=17, metrics=["bleu"]
        )
    shown = charts(results)["distribution"]
    assert len(shown) == MOST_DISTRIBUTIONS
    assert [chart.name.split("-")[2] for chart in shown] == ["6", "8", "10", "12", "14", "16", "18", "20"]
    assert "Of 11 bins with sentences, 8" in re.sub(r"\s+", " ", "".join(page_of(tmp_path).words))


def test_the_page_stands_alone_and_escapes_names(tmp_path):
    lines = sentences()
    outputs = {"ours": noisy(lines, 0.3, 1), HTML_NAME: lines, '_#ffffff id="x" url(#y)': noisy(lines, 0.2, 2)}
    analysed(tmp_path, outputs, max_trained_length=9, bin_width=3)
    text = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert {attributes["href"][:5] for tag, attributes in page.elements if tag == "link"} <= {"data:"}
    assert '<script>alert("1")' not in text
    outside = re.sub("(?s)<script.*?</script>", "", text)
    assert not re.search(r"https?:|//[a-z]|@import|file:", outside)
    for tag, attributes in page.elements:
        if tag == "link":
            continue
        assert attributes.get("src") is None, tag
        for key in ("href", "xlink:href"):
            assert (attributes.get(key) or "#").startswith("#"), tag
    assert len(page.ids) == len(set(page.ids))
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', outside)) - {"y"}
    assert used <= set(page.ids), "a reference within a figure leads nowhere"
    for cells in (row[0] for row in page.tables["overall"][1:]):
        assert cells[2] in outputs
    drawn = {
        colour
        for tag, attributes in page.elements
        for colour in re.findall("#[0-9a-f]{6}", attributes.get("style") or "")
    }
    assert not drawn, "colours that do not change with dark mode"


def test_the_page_shows_intervals_and_what_is_more_than_chance(whole, page):
    results = whole[1]
    by_name = {system["name"]: system for system in results["systems"]}
    rows = {row[0][2]: row[1] for name in ("overall", "seeds") for row in page.tables[name][1:]}
    for name, system in by_name.items():
        low, high = system["intervals"]["overall"]["bleu"]
        _, attributes, text = rows[name]
        assert (attributes["data-value"], attributes["data-low"]) == (repr(system["overall"]["bleu"]), repr(low))
        assert f"{low:.1f} to {high:.1f}" in text
    marks = results["significance"]["metrics"]["ter"]["tests"]["sign_test"]["marks"]
    shown = page.tables["significance-ter-sign-test"][1:]
    signs = [[re.sub(r"([<≤] )?[0-9.]+$", "", cell[2]) for cell in row[1:]] for row in shown]
    assert signs == marks


def test_without_samples_swaps_and_seeds_the_page_has_none_of_them(tmp_path):
    with without_figures():
        analysed(tmp_path, {"ours": sentences(), "other": noisy(sentences(), 0.3, 1)}, resampling=Resampling(0))
    page = page_of(tmp_path)
    text = "".join(page.words)
    for absent in ("95 % ", "More than chance?", "Bands:", "seeds", "swapped words", "Shaded", "baseline"):
        assert absent not in text
    assert not [name for name in page.tables if name.startswith(("significance", "seeds", "swap"))]
    assert not any("data-low" in attributes for _, attributes in page.elements)


@pytest.mark.parametrize("lines", [["one two three"], ["", "one", ""]])
def test_hardly_anything_to_show(tmp_path, lines):
    analysed(tmp_path, {"ours": [""] * len(lines)}, references=lines, bin_edges=[4, 8])
    table = page_of(tmp_path).tables["bleu-by-length"]
    assert [row[2][2] for row in table[2:]] == ["–", "–"]


def test_twenty_systems_are_told_apart_and_have_bars(tmp_path):
    styles = [(line_style(number), marker_style(number)) for number in range(len(SERIES) * len(MARKERS) * len(STROKES))]
    assert len({str(style) for style in styles}) == len(styles)
    with without_figures():
        results = analysed(
            tmp_path, {f"system {n}": noisy(sentences(), n / 25, n) for n in range(20)}, metrics=["bleu"]
        )
    chart = charts(results)["length"][0]
    svg = draw([chart])[chart.name].svg
    assert all(f">system {number}<" in svg for number in range(20))
    assert "FillBetween" not in svg
    assert svg.count("LineCollection") == 20
    assert "Bars: 95 % bootstrap intervals." in "".join(page_of(tmp_path).words)
    assert len(page_of(tmp_path).tables["overall"]) == 21
    shown = charts(results)["distribution"][0]
    assert [panel.title for panel in shown.panels] == [f"system {number}" for number in range(20)]


def test_every_point_says_what_it_is_with_n_and_interval(whole, page):
    results = whole[1]
    chart = charts(results)["length"][0]
    system, each = results["systems"][4], results["bins"][1]
    low, high = system["intervals"]["bins"][1]["bleu"]
    text = f"c, 5–9: BLEU {system['bins'][1]['bleu']:.1f} ({low:.1f} to {high:.1f}), n = {each['n']}"
    drawing = draw([chart])[chart.name]
    (point,) = [point for point in drawing.points if point[2] == text]
    assert text in page.words
    assert len(drawing.points) == 3 * sum(each["n"] > 0 for each in results["bins"])
    # It lies on the marker of its curve.
    root = ElementTree.fromstring(drawing.svg)
    markers = [(float(use.get("x")), float(use.get("y"))) for use in root.iter("{http://www.w3.org/2000/svg}use")]
    assert min(abs(x - point[0]) + abs(y - point[1]) for x, y in markers) < 0.01


def test_small_multiples_say_what_they_show(whole):
    sections = charts(whole[1])
    differences, histogram = sections["difference"][0], sections["distribution"][0]
    drawings = draw([differences, histogram])
    assert ">BLEU by source length: difference from a<" in drawings[differences.name].svg
    assert f">Sentences ({whole[1]['bins'][0]['n']} sources of 0 to 4 words)<" in drawings[histogram.name].svg
    for chart in (differences, histogram):
        for panel in chart.panels:
            assert f">{panel.title}<" in drawings[chart.name].svg


def test_the_smallest_p_of_a_test_is_a_bound():
    assert show_p(2 / 10_001, 2 / 10_001, floor("paired_bootstrap", 10_000)) == "≤ 0.0002"
    assert show_p(1 / 10_001, 3 / 10_001, floor("approximate_randomisation", 10_000)) == "≤ 0.0003"
    assert show_p(2 / 41, 6 / 41, floor("paired_bootstrap", 40)) == "≤ 0.1464"
    assert show_p(4 / 10_001, 4 / 10_001, floor("paired_bootstrap", 10_000)) == "0.0004"
    assert show_p(1e-30, 1e-30, floor("sign_test", 10_000)) == "< 0.0001"
    assert show_p(0.5, 1.0, floor("sign_test", 10_000)) == "1.0000"


def test_p_at_its_floor_is_shown_as_a_bound(tmp_path):
    outputs = {"good": sentences(), "bad": noisy(sentences(), 0.6, 1)}
    with without_figures():
        analysed(tmp_path, outputs, metrics=["bleu"])
    cell = page_of(tmp_path).tables["significance-bleu-paired-bootstrap"][1][2]
    assert cell[2] == ">≤ 0.0488"
    assert float(cell[1]["data-value"]) == 2 / 41


def against_the_score(lines, ruin):
    """Two outputs: one with a wrong word in most sentences, one in which only the long sentences are ruined."""
    long = [len(line.split()) > 18 for line in lines]
    few = [line if each or len(line.split()) < 6 else f"x {line}" for line, each in zip(lines, long, strict=True)]
    return few, [" ".join(ruin(line.split())) if each else line for line, each in zip(lines, long, strict=True)]


def test_a_sign_test_against_the_score_is_explained(tmp_path):
    """`many` betters most sentences a little, and ruins the longest."""
    lines = sentences(80)
    few, many = against_the_score(lines, lambda words: words[::-1])
    with without_figures():
        results = analysed(tmp_path, {"few": few, "many": many}, references=lines, resampling=Resampling(200))
    entry = results["significance"]["metrics"]["bleu"]
    favour = entry["tests"]["sign_test"]["sentences"][1][0]
    assert favour == entry["tests"]["sign_test"]["sentences"][0][1][::-1]
    assert favour[0] > favour[1]
    assert entry["differences"][0][1] > 0
    sentences_said = explained(results)
    assert sentences_said[0].startswith(f"More sentences speak for many than for few ({favour[0]} and {favour[1]}, p ")
    assert "and yet its BLEU is worse" in sentences_said[0]
    assert sentences_said[-1].startswith("The sign test counts every sentence once")
    assert sentences_said[0] in page_of(tmp_path).words
    with without_figures():
        assert explained(analysed(tmp_path / "agree", {"a": lines, "b": few}, references=lines)) == []


def test_a_sign_test_that_depends_on_the_baseline_is_said(tmp_path):
    """p of each baseline, that of the smaller first; pairs of which both find the same are not named."""
    names = ["one", "two", "three"]
    test = {
        "sentences": [[[0, 0], [30, 10], [30, 10]], [[20, 20], [0, 0], [30, 10]], [[12, 25], [30, 10], [0, 0]]],
        "baseline_p": [[None, 0.0022, 0.0022], [1.0, None, 0.0022], [0.047, 0.0022, None]],
    }
    results = {
        "significance": {"metrics": {"bleu": {"tests": {"sign_test": test}}}},
        "systems": [{"name": name, "overall": {"bleu": 30.0}} for name in names],
        "settings": {"metrics": ["bleu"]},
    }
    *said, why = contested(results)
    assert said == [
        "BLEU: with one as the baseline p = 0.0022, for one; with two as the baseline p = 1.0000.",
        "BLEU: with two as the baseline p = 0.0022, for two; with three as the baseline p = 0.0022, for three.",
    ]
    assert "larger p" in why
    lines = sentences(80)
    few, many = against_the_score(
        lines, lambda words: ["x", "y", "z"]
    )  # so short that each sentence of `few` betters it
    with without_figures():
        results = analysed(tmp_path, {"few": few, "many": many}, references=lines, metrics=["bleu"])
    test = results["significance"]["metrics"]["bleu"]["tests"]["sign_test"]
    assert test["sentences"][0][1] == [18, 42]
    assert test["sentences"][1][0] == [0, 60]
    assert test["marks"][0][1] == "~"
    first, second = contested(results)
    assert first.startswith(
        "BLEU: with many as the baseline p < 0.0001, for few; with few as the baseline p = 0.0027, for"
    )
    assert first in page_of(tmp_path).words
    assert second in page_of(tmp_path).words


@pytest.mark.slow
def test_same_input_same_bytes(tmp_path):
    outputs = {"a:1": noisy(sentences(), 0.2, 1), "a:2": noisy(sentences(), 0.3, 2)}
    for name in ("one", "two"):
        analysed(tmp_path, outputs, {("a:1", 0.5): sentences()}, metrics=["bleu"], bin_width=12, out=tmp_path / name)
    files = {path.relative_to(tmp_path / "one"): path for path in (tmp_path / "one").rglob("*") if path.is_file()}
    assert len(files) > 20
    for name, path in files.items():
        assert path.read_bytes() == (tmp_path / "two" / name).read_bytes(), name


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """The folder of an analysis with bins of FEWEST, FEWEST - 1, FEWEST, 0 and 2 sentences; 35 words were trained."""
    lengths = [3] * FEWEST_SENTENCES + [13] * (FEWEST_SENTENCES - 1) + [22] * FEWEST_SENTENCES + [44] * 2
    draw = random.Random(5)
    lines = [" ".join(draw.choices(WORDS, k=length)) for length in lengths]
    outputs = {"one": noisy(lines, 0.3, 1), "two": noisy(lines, 0.2, 2)}
    options = {"bin_edges": [10, 20, 30, 40], "max_trained_length": 35, "metrics": ["bleu"]}
    with without_figures():
        analysed(folder := tmp_path_factory.mktemp("uneven"), outputs, references=lines, **options)
    return folder


@pytest.fixture(scope="module")
def uneven_results(uneven):
    return json.loads((uneven / "out/results.json").read_text(encoding="utf-8"))


def drawn(chart, monkeypatch):
    """The axes of a drawn chart, and the texts of its legend."""
    kept = []
    save = canvas.save
    monkeypatch.setattr(canvas, "save", lambda figure, *rest: kept.append(figure) or save(figure, *rest))
    draw([chart])
    return kept[0].axes[0], [text.get_text() for text in kept[0].legends[0].get_texts()]


def test_points_of_few_sentences_are_hollow_and_not_joined(uneven_results, monkeypatch):
    chart = charts(uneven_results)["length"][0]
    assert [each["training"] for each in uneven_results["bins"]] == ["seen", "seen", "seen", None, "unseen"]
    assert chart.few == [1, 4]
    axes, legend = drawn(chart, monkeypatch)
    assert legend == [f"fewer than {FEWEST_SENTENCES} sentences", "length not in training"]
    for number, system in enumerate(uneven_results["systems"]):
        values = [each["bleu"] for each in system["bins"]]
        colour = canvas.line_style(number)["color"]
        joined, apart = axes.get_lines()[2 * number : 2 * number + 2]
        assert [value for value in joined.get_ydata() if value == value] == [values[0], values[2]]
        assert [place for place, value in enumerate(joined.get_ydata()) if value == value] == [0, 2]
        assert (list(apart.get_xdata()), list(apart.get_ydata())) == ([1, 4], [values[1], values[4]])
        assert apart.get_linestyle() == "None"
        assert (apart.get_markerfacecolor(), apart.get_markeredgecolor()) == (canvas.COLOURS["surface"], colour)
    shades = [patch.get_x() for patch in axes.patches if isinstance(patch, Rectangle)]
    assert shades == [3.5], "the empty bin has no shade"


@pytest.mark.parametrize("bins", range(1, 12))
def test_the_point_of_all_sentences_has_its_label_and_no_two_labels_touch(bins, monkeypatch):
    curve = Curve("a", 0, [1.0] * (bins + 1), [(0.0, 2.0)] * (bins + 1))
    labels = ["all", *(f"{10 * place}-{10 * place + 9}" for place in range(bins))]
    made = Chart("d", "t", "x", labels, [Panel(Measure("BLEU", signed=True), [curve], "a")] * 2, kind="whiskers")
    kept = []
    monkeypatch.setattr(canvas, "save", lambda figure, *_: kept.append(figure) or Drawing("", b""))
    draw([made])
    shown = [label for label in kept[0].axes[-1].get_xticklabels() if label.get_text()]
    assert shown[0].get_text() == "all"
    ends = [(label.get_window_extent().x0, label.get_window_extent().x1) for label in shown]
    assert all(one[1] < later[0] for one, later in pairwise(ends))


def test_places_of_few_words_are_hollow(uneven_results):
    """A place that a few long references have says little, as a bin of few sentences does."""
    relative, absolute = charts(uneven_results)["position"]
    assert relative.few == [place for place, count in enumerate(relative.counts[1]) if count < 200]
    assert absolute.few == [place for place, count in enumerate(absolute.counts[1]) if count < 200]
    assert 0 < len(absolute.few) < len(absolute.labels)
    assert absolute.about_few == "fewer than 200 words of the reference"


def test_differences_of_few_sentences_are_hollow_and_dotted(uneven_results, monkeypatch):
    chart = charts(uneven_results)["difference"][0]
    assert chart.few == [2, 5]
    axes, legend = drawn(chart, monkeypatch)
    assert legend[0] == f"fewer than {FEWEST_SENTENCES} sentences"
    points = {
        int(line.get_xdata()[0]): line.get_markerfacecolor() for line in axes.get_lines() if line.get_marker() == "o"
    }
    assert set(points) == {0, 1, 2, 3, 5}
    assert points[2] == points[5] == canvas.COLOURS["surface"]
    dotted = {
        each.get_segments()[0][0][0]
        for each in axes.collections
        if isinstance(each, LineCollection) and each.get_linestyle()[0][1] is not None
    }
    assert dotted == {2, 5}


def test_figures_of_few_sentences_are_in_parentheses(uneven_results):
    chart = charts(uneven_results)["length"][0]
    figures = [uneven_results["systems"][0]["bins"][place]["bleu"] for place in (0, 1, 2, 4)]
    shown = [f"{figure:.1f}" for figure in figures]
    expected = [shown[0], f"({shown[1]})", shown[2], "–", f"({shown[3]})"]
    [row, _] = chart.by_curve().rows
    assert [f"({cell.own})" if cell.few else cell.own for cell in row.cells] == expected
    text = re.sub(r"\\textbf\{([^}]*)\}", r"\1", to_latex(chart_sheet(chart)))
    assert " & ".join(each.replace("–", "--") for each in expected[:3]) in text
    assert f"In parentheses: fewer than {FEWEST_SENTENCES} sentences." in text


def test_the_page_says_which_figures_are_of_few_sentences(uneven, tmp_path):
    with without_figures():
        lines = sentences(24 * FEWEST_SENTENCES)  # each length as often
        many = analysed(tmp_path, {"one": noisy(lines, 0.3, 1)}, references=lines, bin_edges=[13], metrics=["bleu"])
    assert charts(many)["length"][0].few == []
    few = f"fewer than {FEWEST_SENTENCES} sentences"
    assert few not in " ".join(page_of(tmp_path).words)
    page = page_of(uneven)
    assert " ".join(page.words).count(few) == 2  # by length, and differences
    assert [row[3][2].startswith("(") for row in page.tables["bleu-by-length"][1:]] == [False, True, False, False, True]


def test_figures_show_names_bins_and_shade_in_the_width_of_a_column(tmp_path):
    outputs = {"ours": noisy(sentences(), 0.3, 1), "_theirs": sentences(), "日本語 $x$": noisy(sentences(), 0.1, 2)}
    analysed(tmp_path, outputs, bin_edges=[3, 6, 10], max_trained_length=7, metrics=["bleu"])
    svg = (tmp_path / "out/figures/bleu-by-length.svg").read_text(encoding="utf-8")
    for words in (">ours<", ">_theirs<", ">日本語 $x$<", ">0–2<", ">≥ 10<", ">n<", "length not in training",
                  "partly in training"):  # fmt: skip
        assert words in svg
    assert "date" not in svg.lower()
    assert float(ElementTree.fromstring(svg).attrib["width"].removesuffix("pt")) == pytest.approx(72 * 3.3)
    assert (tmp_path / "out/figures/bleu-by-length.pdf").read_bytes().startswith(b"%PDF")


def test_the_page_holds_its_figures_as_pdf_and_its_tables_for_latex(whole):
    out = whole[0] / "out"
    found = re.search(r'id="packed-print" data-names="([^"]*)">([^<]*)<', (out / "report.html").read_text("utf-8"))
    lengths, _, contents = gzip.decompress(base64.b64decode(found[2])).partition(b"\n")
    files = [*out.glob("tables/*.tex"), *out.glob("figures/*.pdf")]
    assert set(found[1].split()) == {path.name for path in files}
    kept = {}
    for name, length in json.loads(lengths).items():
        kept[name], contents = contents[:length], contents[length:]
    assert kept == {path.name: path.read_bytes() for path in files}
    assert contents == b""
