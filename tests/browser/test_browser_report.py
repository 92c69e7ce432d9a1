"""What the report shows besides tables and sentences, in a real browser: differences, tests, points, paper, studies."""

import json
import random
import re

import pytest

from posnmt.evaluation.analyse.bins import FEWEST_SENTENCES
from posnmt.study.page import render
from tests.support.browser_case import HTML_NAME, expect, unfold
from tests.support.study_report_case import made_study

WIDTHS = {"wide": 1400, "tablet": 768, "phone": 390}
FIVE = ["sinusoidal", "変換器", "نظام ب", "a name that is longer than most", "מערכת"]
ENGLISH = ["The old dog sees the cat.", "It rains.", "She reads a book about long journeys by the sea every evening."]
JAPANESE = ["老いた犬が猫を見る。", "雨が降っている。", "彼女は毎晩、海辺での長い旅についての本を読む。"]
ARABIC = ["الكلب العجوز يرى القطة.", "إنها تمطر.", "تقرأ كل مساء كتابا عن رحلات طويلة على شاطئ البحر."]


def figures(report):
    return json.loads(report.with_name("results.json").read_text(encoding="utf-8"))


def shown_differences(page):
    """System → its figures in the table under the panels, from the first place to the last."""
    table = page.locator('table[data-name="differences"]')
    names = table.locator("thead th").evaluate_all("all => all.slice(2).map((head) => head.textContent)")
    rows = table.locator("tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.cells].slice(2).map(({ dataset: { value, low, high } }) => "
        "value === undefined ? null : [value, low, high].map(Number)))"
    )
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def test_differences_follow_the_baseline_and_the_measure(open_page, report):
    results = figures(report)
    (pair,) = results["differences"]
    assert (pair["system"], pair["other"]) == (HTML_NAME, "seeds")
    page = open_page(report)
    page.wait_for_selector(".panel svg")
    assert page.locator("#difference-status").inner_text() == f"BLEU: difference from {HTML_NAME}; above 0 is better"
    forward = [figure["bleu"] for figure in [pair["overall"], *pair["bins"]]]
    assert shown_differences(page) == {"seeds": tuple(each and [-each[0], -each[2], -each[1]] for each in forward)}
    page.select_option("#difference-baseline", "seeds")
    page.select_option("#difference-measure", "chrf")
    expected = tuple(figure["chrf"] for figure in [pair["overall"], *pair["bins"]])
    assert shown_differences(page) == {HTML_NAME: expected}
    assert page.locator("#difference-status").inner_text() == "chrF: difference from seeds; above 0 is better"
    assert page.locator(".panel").count() == 1
    assert page.locator(".panel img, .panel b").count() == 0
    value, low, high = expected[0]
    words = f"{value:+.1f} ({low:+.1f} to {high:+.1f})".replace("-", "\N{MINUS SIGN}")
    assert words in page.locator(".panel figcaption").inner_text()


def test_whiskers_stand_where_their_figures_are(open_page, report):
    page = open_page(report)
    page.wait_for_selector(".panel svg")
    (places,) = shown_differences(page).values()
    points = page.eval_on_selector_all(".panel .point", "all => all.map((one) => Number(one.getAttribute('cy')))")
    known = [figure for figure in places if figure]
    assert len(points) == len(known)
    # A higher difference stands higher: on a line through any two of them lie all.
    (one, first), (other, last) = min(zip(known, points, strict=True)), max(zip(known, points, strict=True))
    slope = (last - first) / (other[0] - one[0])
    assert slope < 0
    for figure, height in zip(known, points, strict=True):
        assert height == pytest.approx(first + slope * (figure[0] - one[0]), abs=0.01)
    hollow = page.locator(".panel circle:not(.point)[fill='var(--surface)']").count()
    counts = [FEWEST_SENTENCES, *(each["n"] for each in figures(report)["bins"])]
    unsure = [count < FEWEST_SENTENCES for count, figure in zip(counts, places, strict=True) if figure]
    assert hollow == sum(few or low <= 0 <= high for few, (_, low, high) in zip(unsure, known, strict=True))
    assert page.locator(".panel line[stroke-dasharray]").count() == sum(unsure) > 0
    assert page.locator('table[data-name="differences"] td', has_text=re.compile(r"^\(")).count() == sum(unsure)


def test_one_table_of_significance_at_a_time(open_page, report):
    page = open_page(report)

    def shown():
        tables = page.locator(".tested table:visible")
        return tables.evaluate_all("all => all.map((table) => table.dataset.name)")

    assert shown() == ["significance-bleu-paired-bootstrap"]
    assert page.locator(".tested summary:visible").count() == 0
    page.select_option("#tested-metric", "chrf")
    page.select_option("#tested-test", "sign_test")
    assert shown() == ["significance-chrf-sign-test"]
    assert page.locator(".tested table").count() == 2 * 3


def test_a_point_says_what_it_is(open_page, report):
    page = open_page(report)
    each = figures(report)["systems"][0]
    figure = page.locator('figure[data-name="bleu-by-length"]')
    figure.scroll_into_view_if_needed()
    tip = page.locator(".tip")
    expect(tip).to_be_hidden()
    figure.locator(".point").first.hover()
    low, high = each["intervals"]["bins"][0]["bleu"]
    n = each["bins"][0]["n"]
    expected = f"{HTML_NAME}, 0–9: BLEU {each['bins'][0]['bleu']:.1f} ({low:.1f} to {high:.1f}), n = {n}"
    expect(tip).to_have_text(expected)
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1200
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.locator(".panel .point").first.hover()
    expect(tip).to_contain_text("seeds, all: BLEU")


def test_the_keyboard_reaches_every_point(open_page, report):
    page = open_page(report)
    figure, tip = page.locator('figure[data-name="bleu-by-length"]'), page.locator(".tip")
    points = figure.locator(".point")
    texts = points.evaluate_all("all => all.map((point) => point.ariaLabel)")
    assert len(set(texts)) == len(texts) > 4
    figure.get_by_role("button").first.focus()
    page.keyboard.press("Shift+Tab")
    seen = []
    for _ in texts:
        expect(tip).to_be_visible()
        seen.append(tip.inner_text())
        page.keyboard.press("ArrowRight")
    assert seen == texts
    page.keyboard.press("ArrowLeft")
    expect(tip).to_have_text(texts[-2])
    page.keyboard.press("Home")
    expect(tip).to_have_text(texts[0])
    assert page.evaluate("getComputedStyle(document.activeElement).strokeWidth") == "2px"
    page.keyboard.press("Tab")
    expect(tip).to_be_hidden()
    assert page.evaluate("document.activeElement.tagName") == "BUTTON", "a figure is one stop"
    page.keyboard.press("Shift+Tab")
    expect(tip).to_have_text(texts[0])
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.locator(".panel .point").first.focus()
    expect(tip).to_contain_text("seeds, all: BLEU")
    assert page.locator('.panel .point[tabindex="0"]').count() == page.locator(".panel svg").count()


def test_the_contents_lead_there(open_page, report):
    page = open_page(report)
    for link in page.locator(".contents a").all():
        link.click()
        expect(page.locator(f"h2{page.url[page.url.index('#') :]}")).to_be_in_viewport()


@pytest.fixture(scope="module")
def five(make_report):
    """A page of five systems with names in four scripts, from Arabic to Japanese."""
    chosen = random.Random(7)
    number = [chosen.randrange(3) for _ in range(120)]
    source, reference = [ARABIC[each] for each in number], [JAPANESE[each] for each in number]
    outputs = {
        name: ["".join(letter for letter in line if chosen.random() > 0.08 * (place + 1)) or "。" for line in reference]
        for place, name in enumerate(FIVE)
    }
    return make_report(source, reference, outputs, metrics=["bleu", "chrf", "ter"], bin_width=4, max_trained_length=8)


def wide_elements(page, width):
    """What reaches beyond the right edge, but for what scrolls by itself."""
    return page.evaluate(
        """(width) => [...document.querySelectorAll("main *, header *")].filter((one) =>
            one.getBoundingClientRect().right > width + 1 && !one.closest(".scroll, .hidden, .visually-hidden")
            && one.checkVisibility()).map((one) => one.outerHTML.slice(0, 100))""",
        width,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_five_systems_at_every_width(open_page, keep_picture, five, width, scheme):
    page = open_page(five, "#examples?", color_scheme=scheme, viewport={"width": WIDTHS[width], "height": 900})
    page.wait_for_selector(".panel svg")
    page.wait_for_selector(".example")
    assert page.locator(".panel").count() == 4
    assert wide_elements(page, WIDTHS[width]) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width]
    assert page.locator('table[data-name="overall"] tbody tr').count() == 5
    folded = page.locator("#browser .folding").get_attribute("open") is None
    assert folded == (width == "phone")
    keep_picture(page, f"five-{width}-{scheme}", full_page=True)


def test_paper_shows_every_system(open_page, keep_picture, five):
    page = open_page(five)
    page.wait_for_selector(".panel svg")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})
    assert page.locator("button:not(.sort):visible, select:visible, .contents:visible").count() == 0
    right = page.eval_on_selector_all(
        "table",
        "all => all.filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect().right)",
    )
    signs = page.eval_on_selector_all(".sign", "all => all.map((one) => one.getBoundingClientRect().right)")
    assert len(signs) > 4
    assert max(*right, *signs) <= 720
    for name in FIVE:
        expect(page.locator('table[data-name="overall"] th', has_text=name)).to_be_visible()
    assert page.locator(".panel:visible").count() == 4
    keep_picture(page, "five-print", full_page=True)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    render(made_study(folder / "study"), folder / "out")
    return folder / "out" / "report.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_study_s_page_has_the_same_parts(open_page, keep_picture, study, scheme):
    page = open_page(study, color_scheme=scheme)
    assert page.locator(".verdict").inner_text() == "Of the paper's claims: 1 supported (1 after Holm), 1 undecided."
    assert page.locator(".contents a").count() == 5
    figure = page.locator('figure[data-name="figure-1a"]')
    figure.scroll_into_view_if_needed()
    figure.locator(".point").first.hover()
    expect(page.locator(".tip")).to_contain_text(re.compile(r"Transformer, 0–4: BLEU .*n = \d+"))
    heading = page.locator('table[data-name="table-1"] thead th').nth(1)
    assert heading.get_by_role("button").count() == 0, "subheadings would lose their rows"
    unfold(page)
    first = page.locator('table[data-name="outputs-test"] thead th').nth(1)
    first.get_by_role("button").click()
    assert first.get_attribute("aria-sort") == "ascending"
    for name, width in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        keep_picture(page, f"study-{name}-{scheme}", full_page=True)


@pytest.mark.slow
def test_accessibility_of_a_study_and_of_five_systems(open_page, study, five):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed")
    for path in (study, five):
        for scheme in ("light", "dark"):
            page = open_page(path, color_scheme=scheme)
            unfold(page)
            violations = axe.Axe().run(page)["violations"]
            assert [(each["id"], [node["html"][:160] for node in each["nodes"][:3]]) for each in violations] == []


def test_words_of_the_texts_keep_their_direction(open_examples, five):
    page = open_examples("#examples?", path=five)
    directions = (
        page.locator(".example")
        .first.locator(".text")
        .evaluate_all("all => all.map((one) => getComputedStyle(one).direction)")
    )
    assert directions == ["rtl", *["ltr"] * 6]
    assert page.locator(".example").first.locator(".text").nth(1).get_attribute("lang") == "ja"


@pytest.mark.parametrize("allowed", [True, False])
def test_the_sentence_to_cite_is_copied_or_selected(open_page, report, allowed):
    page = open_page(report, permissions=["clipboard-read", "clipboard-write"] if allowed else [])
    if not allowed:
        page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')); }")
    citation = figures(report)["citation"]
    assert page.locator("#citation").inner_text() == citation
    page.get_by_role("button", name="Copy: the sentence to cite").click()
    expect(page.locator(".cite button")).to_have_text("Copied" if allowed else "Selected: copy it by keyboard")
    assert page.evaluate("getSelection().toString()").strip() == citation
    if allowed:
        assert page.evaluate("navigator.clipboard.readText()") == citation
