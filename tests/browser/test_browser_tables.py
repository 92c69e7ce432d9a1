"""Tables are sorted and saved, figures and results are saved, in a real browser."""

import csv
import io
import json
from xml.etree import ElementTree

import pytest

from tests.support.browser_case import unfold

TABLE = 'table[data-name="bleu-by-length"]'


def column(page, table, number):
    """The first line of each cell of a column, from top to bottom."""
    return page.eval_on_selector_all(
        f"{table} tbody tr", "(rows, n) => rows.map((row) => row.cells[n].innerText.split('\\n')[0].trim())", number
    )


def saved(page, button):
    """What pressing a button saves: the file's name, and its bytes."""
    with page.expect_download() as download:
        button.click()
    return download.value.suggested_filename, download.value.path().read_bytes()


@pytest.fixture
def open_tables(open_page, report):
    """A function: the page with all that is folded open."""

    def open_tables(**settings):
        page = open_page(report, **settings)
        page.wait_for_selector('table[data-name="differences"]', state="attached")
        unfold(page)
        return page

    return open_tables


def test_a_column_is_sorted_up_down_and_as_it_was(open_tables):
    page = open_tables()
    before = column(page, TABLE, 1)
    heading = page.locator(f"{TABLE} thead th").nth(1)
    rising = sorted(before, key=int)
    assert before not in (rising, rising[::-1])
    for state, expected in (("ascending", rising), ("descending", rising[::-1]), ("none", before)):
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") == state
        assert [int(value) for value in column(page, TABLE, 1)] == [int(value) for value in expected]


def test_sorting_is_stable_and_cells_with_nothing_stay_last(open_tables):
    page = open_tables()
    heading = page.locator(f"{TABLE} thead th").nth(3)
    for state in ("ascending", "descending"):
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") == state
        values = column(page, TABLE, 3)
        figures = [float(value.strip("()")) for value in values if value != "–"]
        assert figures == sorted(figures, reverse=state == "descending")
        # bins of 50 words and more have no sentence but the one very long one
        assert values.count("–") == 1
        assert values[-1] == "–"
    training = page.locator(f"{TABLE} thead th").nth(2)
    training.get_by_role("button").click()
    bins = dict(zip(column(page, TABLE, 0), column(page, TABLE, 2), strict=True))
    assert [name for name, seen in bins.items() if seen == "no"] == ["30–39", "40–49", "50–59", "60 and more"]
    assert heading.get_attribute("aria-sort") == "none"


def test_the_keyboard_sorts(open_tables):
    page = open_tables()
    heading = page.locator('table[data-name="overall"] thead th').nth(1)
    heading.get_by_role("button").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert heading.get_attribute("aria-sort") == "descending"
    values = [float(value.split()[0]) for value in column(page, 'table[data-name="overall"]', 1)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 2


def test_every_table_sorts_by_every_column_and_comes_back(open_tables):
    page = open_tables()
    names = page.eval_on_selector_all("table[data-name]", "tables => tables.map((table) => table.dataset.name)")
    assert len(names) == len(set(names)) > 10
    for name in names:
        failed = page.eval_on_selector(
            f'table[data-name="{name}"]',
            """(table) => {
                const rows = () => [...table.tBodies[0].rows].map((row) => row.textContent).join();
                const first = rows();
                const failed = [];
                for (const button of table.tHead.querySelectorAll("button")) {
                    for (let press = 0; press < 3; press++) button.click();
                    if (rows() !== first) failed.push(button.textContent);
                }
                return failed;
            }""",
        )
        assert failed == [], name


def test_a_table_is_saved_in_full_precision(open_tables, report):
    page = open_tables()
    results = json.loads(report.with_name("results.json").read_text(encoding="utf-8"))
    name, content = saved(page, page.get_by_role("button", name="CSV: BLEU by source length"))
    assert name == "bleu-by-length.csv"
    heading, *rows = csv.reader(io.StringIO(content.decode("utf-8")))
    first = results["systems"][0]
    assert heading[3:6] == [first["name"], f"{first['name']} low", f"{first['name']} high"]
    assert [row[1] for row in rows] == [str(each["n"]) for each in results["bins"]]
    values = [None if row[3] == "" else float(row[3]) for row in rows]
    assert values == [each["bleu"] for each in first["bins"]]
    intervals = [each["bleu"] for each in first["intervals"]["bins"]]
    assert [[float(row[4]), float(row[5])] if row[4] else None for row in rows] == intervals
    name, content = saved(page, page.get_by_role("button", name="CSV: BLEU, paired bootstrap"))
    heading, *rows = csv.reader(io.StringIO(content.decode("utf-8")))
    tested = results["significance"]["metrics"]["bleu"]["tests"]["paired_bootstrap"]
    assert float(rows[0][heading.index("seeds:1")]) == tested["corrected"][0][1]
    assert rows[0][heading.index("seeds:1 mark")] == tested["marks"][0][1]


def test_the_results_are_saved_as_they_are(open_page, report):
    page = open_page(report)
    name, content = saved(page, page.get_by_role("button", name="results.json"))
    assert name == "results.json"
    assert content == report.with_name("results.json").read_bytes()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_figure_is_saved_in_light_colours(open_tables, report, scheme):
    page = open_tables(color_scheme=scheme)
    name, content = saved(page, page.get_by_role("button", name="SVG: bleu-by-length"))
    assert name == "bleu-by-length.svg"
    root = ElementTree.fromstring(content)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("width", "").endswith("pt")
    text = content.decode("utf-8")
    assert "var(" not in text
    assert 'class="point"' not in text
    original = report.with_name("figures") / "bleu-by-length.svg"
    colours = {"#0072b2", "#ffffff", "#1b1f24"}
    assert colours <= {colour for colour in colours if colour in original.read_text(encoding="utf-8")}
    assert all(colour in text for colour in colours)


@pytest.mark.parametrize(
    ("button", "file"),
    [
        ("PDF: bleu-by-length", "figures/bleu-by-length.pdf"),
        ("PDF: bleu-by-relative-position", "figures/bleu-by-relative-position.pdf"),
        ("LaTeX: numbers of bleu-by-length", "tables/bleu-by-length.tex"),
        ("LaTeX: BLEU, paired bootstrap", "tables/significance-bleu-paired-bootstrap.tex"),
    ],
)
def test_a_file_for_print_is_saved_to_the_byte(open_tables, report, button, file):
    page = open_tables()
    name, content = saved(page, page.get_by_role("button", name=button))
    assert (name, content) == (file.split("/")[1], (report.parent / file).read_bytes())


def test_a_figure_gives_its_numbers_as_its_table_does(open_tables):
    page = open_tables()
    ways = ("CSV: numbers of bleu-by-length", "CSV: BLEU by source length")
    first, second = (saved(page, page.get_by_role("button", name=way)) for way in ways)
    assert first == second
    assert first[1].count(b"\n") > 3


def test_print_keeps_shades_and_sets_differences_in_italics(open_examples):
    page = open_examples()
    page.emulate_media(media="print")
    style = "element => [getComputedStyle(element).printColorAdjust, getComputedStyle(element).fontStyle]"
    assert page.eval_on_selector("figure svg", style)[0] == "exact"
    assert page.eval_on_selector("ins", style) == ["exact", "italic"]
    page.emulate_media(media="screen")
    assert page.eval_on_selector("ins", style)[1] == "normal"
