"""The page and the figures: what they show, and that they stand alone."""

import re
from html.parser import HTMLParser
from statistics import mean
from xml.etree import ElementTree

import pytest
from report_case import analysed, everything, noisy, sentences, without_figures

from posnmt.analyse.measure import Resampling
from posnmt.report.charts import MOST_DISTRIBUTIONS, charts
from posnmt.report.figures import draw
from posnmt.report.figures.canvas import MARKERS, SERIES, STROKES, WIDTH, line_style, marker_style

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


def test_the_main_curve_comes_before_all_tables(page):
    names = [attributes["data-name"] for tag, attributes in page.elements if tag in ("figure", "table")]
    assert names[:3] == ["bleu-by-length", "bleu-by-length", "overall"]


def test_every_figure_has_its_table_and_a_description(whole, page):
    figures = [attributes["data-name"] for tag, attributes in page.elements if tag == "figure"]
    assert figures == [chart.name for section in ordered(charts(whole[1])) for chart in section]
    assert set(figures) <= set(page.tables)
    described = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert all(each["role"] == "img" and "in a table below" in each["aria-label"] for each in described)
    assert len(described) == len(figures)
    assert [tag for tag, _ in page.elements].count("caption") == sum(tag == "table" for tag, _ in page.elements)


def ordered(sections):
    length, distribution = sections["length"], sections["distribution"]
    return [length, sorted(distribution, key=lambda chart: not chart.opened), sections["position"], sections["swap"]]


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
    table = page.tables["seeds"]
    assert [row[0][2] for row in table[1:]] == ["a", "b"]
    assert values(table, 2) == [system["overall"]["bleu"]["mean"] for system in seeds]
    assert [row[2][2].split("±")[1][:4].strip() for row in table[1:]] == [
        f"{system['overall']['bleu']['deviation']:.1f}" for system in seeds
    ]
    each = page.tables["each-seed"]
    assert [(row[0][2], row[1][2]) for row in each[1:]] == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    assert values(each, 2) == [system["overall"]["bleu"] for system in results["systems"][:4]]
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
        reference, *curves = chart.panels[0].curves
        assert sum(reference.values) == each["n"]
        assert [sum(curve.values) for curve in curves] == [each["n"]] * 3
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
    for row, system in zip(page.tables["overall"][1:], results["systems"], strict=True):
        low, high = system["intervals"]["overall"]["bleu"]
        assert (row[1][1]["data-value"], row[1][1]["data-low"]) == (repr(system["overall"]["bleu"]), repr(low))
        assert f"{low:.1f} to {high:.1f}" in row[1][2]
    marks = results["significance"]["metrics"]["ter"]["tests"]["sign_test"]["marks"]
    shown = page.tables["significance-ter-sign-test"][1:]
    signs = [[re.sub(r"(< )?[0-9.]+$", "", cell[2]) for cell in row[1:]] for row in shown]
    assert signs == marks


def test_without_samples_swaps_and_seeds_the_page_has_none_of_them(tmp_path):
    with without_figures():
        analysed(tmp_path, {"ours": sentences(), "other": noisy(sentences(), 0.3, 1)}, resampling=Resampling(0))
    page = page_of(tmp_path)
    text = "".join(page.words)
    for absent in ("95 % ", "More than chance?", "Bands:", "Several seeds", "swapped words", "Shaded"):
        assert absent not in text
    assert not [name for name in page.tables if name.startswith(("significance", "seeds", "swap"))]
    assert not any("data-low" in attributes for _, attributes in page.elements)


@pytest.mark.parametrize("lines", [["one two three"], ["", "one", ""]])
def test_hardly_anything_to_show(tmp_path, lines):
    analysed(tmp_path, {"ours": [""] * len(lines)}, references=lines, bin_edges=[4, 8])
    table = page_of(tmp_path).tables["bleu-by-length"]
    assert [row[2][2] for row in table[2:]] == ["–", "–"]


def test_twenty_systems_are_told_apart_and_have_no_bands(tmp_path):
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
    assert "so many bands would cover each other" in "".join(page_of(tmp_path).words)


def test_same_input_same_bytes(tmp_path):
    outputs = {"a:1": noisy(sentences(), 0.2, 1), "a:2": noisy(sentences(), 0.3, 2)}
    for name in ("one", "two"):
        analysed(tmp_path, outputs, {("a:1", 0.5): sentences()}, metrics=["bleu"], bin_width=12, out=tmp_path / name)
    files = {path.relative_to(tmp_path / "one"): path for path in (tmp_path / "one").rglob("*") if path.is_file()}
    assert len(files) > 20
    for name, path in files.items():
        assert path.read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_figures_show_names_bins_and_shade_in_the_width_of_a_column(tmp_path):
    outputs = {"ours": noisy(sentences(), 0.3, 1), "_theirs": sentences(), "日本語 $x$": noisy(sentences(), 0.1, 2)}
    analysed(tmp_path, outputs, bin_edges=[3, 6, 10], max_trained_length=7, metrics=["bleu"])
    svg = (tmp_path / "out/figures/bleu-by-length.svg").read_text(encoding="utf-8")
    for words in (">ours<", ">_theirs<", ">日本語 $x$<", ">0-2<", ">10-<", ">n=6<", "length not in training",
                  "partly in training"):  # fmt: skip
        assert words in svg
    assert "date" not in svg.lower()
    assert float(ElementTree.fromstring(svg).attrib["width"].removesuffix("pt")) == pytest.approx(72 * WIDTH)
    assert (tmp_path / "out/figures/bleu-by-length.pdf").read_bytes().startswith(b"%PDF")
