"""The example browser: what is found, in what order, how it is marked, paged and remembered, in a real browser."""

import re
import time
from contextlib import contextmanager
from itertools import pairwise

import pytest

from posnmt.evaluation.analyse.measure import Resampling
from posnmt.metrics.registry import METRICS
from tests.support.browser_case import (
    EMPTY_ROW,
    HTML_NAME,
    HTML_ROW,
    HTML_TEXT,
    LONG_ROW,
    SENTENCES,
    expect,
    texts,
    unfold,
)
from tests.support.metrics_case import Scorer


def numbers(page):
    """The numbers of the sentences on the page."""
    titles = page.locator(".example h3").all_inner_texts()
    return [int(re.match(r"Sentence (\d+)", title)[1]) for title in titles]


def status(page):
    return page.locator("#example-status").inner_text()


@contextmanager
def searching(page):
    """What is done within makes the page search; wait until it has."""
    page.evaluate("document.getElementById('example-status').textContent = 'waiting'")
    yield
    expect(page.locator("#example-status")).not_to_have_text("waiting")


def type_text(page, text):
    with searching(page):
        page.fill("#example-text", text)


def choose(page, name, value):
    with searching(page):
        page.select_option(f"#example-{name}", value)


def tick(page, name, ticked=True):
    with searching(page):
        page.set_checked(f"[name={name}]", ticked)


def chrf(rows, outputs):
    """chrF of single sentences as the analysis has it."""
    _, reference, _ = texts()
    scorer = Scorer("chrf", [reference[row] for row in rows])
    return METRICS["chrf"].score(scorer.statistics([outputs[row] for row in rows]), sentences=True)


def test_first_twenty_in_order(open_examples):
    page = open_examples()
    assert status(page) == f"{SENTENCES} of {SENTENCES} sentences match; 1 to 20 shown"
    assert numbers(page) == list(range(1, 21))
    first = page.locator(".example").first
    source, reference, outputs = texts()
    assert first.locator(".text").all_inner_texts() == [source[0], reference[0], *(each[0] for each in outputs)]
    assert first.locator(".system").all_inner_texts() == [HTML_NAME, "seeds:1", "seeds:2"]


def test_lengths_bins_and_training(open_examples):
    source, _, _ = texts()
    lengths = [len(line.split()) for line in source]
    lengths[HTML_ROW], lengths[LONG_ROW] = len(HTML_TEXT.split()), 20_001
    page = open_examples()
    for name, length in (("first", "38"), ("last", "39")):
        with searching(page):
            page.fill(f"#example-{name}", length)
    assert numbers(page) == [row + 1 for row, length in enumerate(lengths) if 38 <= length <= 39]
    assert page.input_value("#example-bin") == "own"
    choose(page, "bin", "30-39")
    assert page.input_value("#example-first") == "30"
    choose(page, "training", "seen")
    assert status(page).startswith("0 ")
    choose(page, "bin", "-")
    assert status(page).startswith(f"{sum(length <= 25 for length in lengths)} ")


def test_a_row_of_a_table_leads_to_its_sentences(open_page, report):
    page = open_page(report)
    unfold(page)
    link = page.locator('table[data-name="bleu-by-length"] th.bin a', has_text="60 and more")
    link.click()
    page.wait_for_selector(".example")
    assert numbers(page) == [LONG_ROW + 1]
    assert page.input_value("#example-bin") == "60-"
    expect(page.locator("#examples")).to_be_focused()
    expect(page.locator("#examples")).to_be_in_viewport()
    # a second time, though the address stays the same
    link.click()
    expect(page.locator("#examples")).to_be_focused()


def test_text_is_searched_as_written_and_as_an_expression(open_examples):
    source, reference, outputs = texts()
    page = open_examples()
    type_text(page, "KATZE DAS")
    found = [row + 1 for row in range(SENTENCES) if row not in (HTML_ROW, LONG_ROW)
             and any("katze das" in lines[row].lower() for lines in (source, reference, *outputs))]  # fmt: skip
    assert status(page).startswith(f"{len(found)} of ")
    assert numbers(page) == found[:20]
    tick(page, "matchCase")
    choose(page, "field", "reference")
    assert status(page).startswith("0 ")
    tick(page, "matchCase", False)
    type_text(page, r"^hund|hund$")
    assert status(page).startswith("0 of ")
    tick(page, "expression")
    expected = [row + 1 for row, line in enumerate(reference) if re.search(r"^hund|hund$", line, re.I)]
    expected = [number for number in expected if number - 1 not in (HTML_ROW, LONG_ROW)]
    assert expected
    assert numbers(page) == expected[:20]


def test_a_bad_expression_is_said(open_examples):
    page = open_examples()
    tick(page, "expression")
    type_text(page, "(open")
    assert status(page) == "This is no regular expression: /(open/iu: Unterminated group."
    assert page.get_attribute("#example-text", "aria-invalid") == "true"
    assert numbers(page) == []
    type_text(page, "(open)?")
    assert status(page).startswith(f"{SENTENCES} of ")
    assert page.get_attribute("#example-text", "aria-invalid") == "false"


@pytest.mark.parametrize("direction", ["ascending", "descending"])
def test_sentences_by_score_and_by_difference(open_examples, direction):
    sign = 1 if direction == "ascending" else -1
    _, _, outputs = texts()
    rows = [row for row in range(SENTENCES) if row not in (HTML_ROW, LONG_ROW, EMPTY_ROW)]
    one, other = (dict(zip(rows, chrf(rows, lines), strict=True)) for lines in outputs[:2])
    page = open_examples(f"#examples?last=40&order=score&metric=1&system=0&direction={direction}")
    # all but the longest; for the others the fixture changed the texts
    shown = [number - 1 for number in numbers(page) if number - 1 in one]
    assert len(shown) >= 17
    ranked = [round(one[row], 2) for row in shown]
    assert ranked == sorted(ranked, reverse=sign < 0)
    choose(page, "order", "difference")
    assert page.input_value("#example-direction") == "descending", "where the first is better"
    choose(page, "direction", direction)
    assert page.locator("#example-other").is_visible()
    shown = [number - 1 for number in numbers(page) if number - 1 in one]
    differences = [round(one[row], 2) - round(other[row], 2) for row in shown]
    assert all(sign * (later - earlier) > -0.011 for earlier, later in pairwise(differences))
    everything = sorted((one[row] - other[row] for row in rows), reverse=sign < 0)
    assert differences[0] == pytest.approx(everything[0], abs=0.011)


def test_differences_are_marked(open_examples):
    page = open_examples("#examples?first=20&last=40")
    _, reference, outputs = texts()
    article = page.locator(".example").first
    row = numbers(page)[0] - 1
    shown = article.locator(".text")
    kept = outputs[1][row]
    # words were only left out: nothing is marked, until what is missing is asked for
    assert article.locator("ins, del").count() == 0
    tick(page, "missing")
    assert shown.nth(3).inner_text() == reference[row]
    without = shown.nth(3).evaluate("(text) => { text.querySelectorAll('del').forEach((part) => part.remove()); "
                                    "return text.textContent.replace(/ +/g, ' ').trim(); }")  # fmt: skip
    assert without == kept
    choose(page, "mark", "2")
    tick(page, "missing", False)
    assert shown.nth(4).locator("ins").count() == 0
    assert shown.nth(3).inner_text() == kept
    choose(page, "mark", "nothing")
    assert page.locator(".example ins, .example del").count() == 0


def test_text_without_blanks_is_compared_by_character(make_report, open_examples):
    source = ["The cat sees the dog.", "It is raining."]
    reference = ["猫が犬を見る。", "雨が降っている。"]
    path = make_report(source, reference, {"a": ["猫は犬を見た。", "雨が降っています。"], "b": reference})
    page = open_examples(path=path)
    assert page.locator(".example ins").all_inner_texts() == ["は", "た", "ます"]
    assert page.locator(".example .text").nth(2).inner_text() == "猫は犬を見た。"


def test_texts_stay_texts(open_examples):
    page = open_examples()
    article = page.locator(".example").nth(HTML_ROW)
    assert set(article.locator(".text").all_inner_texts()) == {HTML_TEXT}
    assert page.locator(".example script, .example b, .example img").count() == 0
    assert page.locator("#example-field option", has_text=HTML_NAME).count() == 1
    # a very long line is whole, and scrolls by itself
    texts_of_long = page.locator(".example").nth(LONG_ROW).locator(".text")
    assert texts_of_long.first.evaluate("text => text.textContent.length") == 5 * 20_000 + 4
    assert texts_of_long.first.get_attribute("tabindex") == "0"
    assert page.locator(".example").nth(EMPTY_ROW).locator(".text").nth(2).inner_text() == "(empty)"


def test_pages_turn_by_keyboard_and_by_button(open_examples):
    page = open_examples()
    page.locator("#example-list").focus()
    page.keyboard.press("ArrowRight")
    assert numbers(page) == list(range(21, 41))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert numbers(page)[0] == 1
    for name in ("Next", "Last"):
        page.get_by_role("button", name=name, exact=True).focus()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.textContent") == name
    assert numbers(page) == list(range(61, SENTENCES + 1))
    assert status(page).endswith("; 61 to 70 shown")
    assert page.get_by_role("button", name="Next").get_attribute("aria-disabled") == "true"
    page.fill("#example-page", "2")
    page.keyboard.press("Enter")
    expect(page.locator(".example h3").first).to_contain_text("Sentence 21 ")
    # within an input, arrows move its cursor
    page.locator("#example-text").focus()
    page.keyboard.press("ArrowRight")
    assert numbers(page)[0] == 21


def test_the_address_leads_back(open_examples):
    page = open_examples()
    type_text(page, "haus & hof|das+")
    tick(page, "expression")
    choose(page, "order", "length")
    choose(page, "direction", "descending")
    page.get_by_role("button", name="Next").click()
    expected = (numbers(page), status(page))
    again = open_examples("#" + page.url.partition("#")[2])
    assert (numbers(again), status(again)) == expected
    assert again.input_value("#example-text") == "haus & hof|das+"
    with searching(again):
        again.get_by_role("button", name="Reset all").click()
    assert status(again).startswith(f"{SENTENCES} of")
    assert again.url.endswith("#examples?")
    assert numbers(again) == numbers(open_examples(""))


def test_an_address_that_makes_no_sense_does_no_harm(open_examples):
    page = open_examples("#examples?first=x&order=<b>&system=99&page=-3&field=%3Cscript%3E&unknown=1&metric=7")
    assert numbers(page) == numbers(open_examples("")), "as it opens"


def test_it_opens_on_long_disagreements_in_chrf(open_examples):
    """chrF, though BLEU is the main metric; source length times the highest minus the lowest of three outputs."""
    source, _, outputs = texts()
    rows = [row for row in range(SENTENCES) if row not in (HTML_ROW, LONG_ROW, EMPTY_ROW)]
    scores = [chrf(rows, lines) for lines in outputs]
    spreads = {row: max(of_row) - min(of_row) for row, of_row in zip(rows, zip(*scores, strict=True), strict=True)}
    page = open_examples("")
    assert page.input_value("#example-order") == "long"
    assert page.locator("#example-metric option:checked").inner_text() == "chrF"
    assert not page.locator("#example-other").is_visible()
    long = {row: spread * len(source[row].split()) for row, spread in spreads.items()}
    shown = [long[number - 1] for number in numbers(page) if number - 1 in spreads]
    assert len(shown) >= 17
    assert all(later <= earlier + 0.11 * 40 for earlier, later in pairwise(shown))
    assert shown[0] == pytest.approx(max(long.values()), abs=0.11 * 40)
    choose(page, "order", "disagreement")
    assert page.input_value("#example-direction") == "descending"
    shown = [round(spreads[number - 1], 1) for number in numbers(page) if number - 1 in spreads]
    assert len(shown) >= 17
    assert all(later <= earlier + 0.11 for earlier, later in pairwise(shown))
    assert shown[0] == pytest.approx(max(spreads.values()), abs=0.11)
    choose(page, "order", "number")
    assert numbers(page) == list(range(1, 21)), "from the first sentence on"


def test_a_part_of_the_sentences_and_none(make_report, open_examples, open_page):
    source, reference, outputs = texts()
    path = make_report(source, reference, {"a": outputs[0]}, examples=10)
    page = open_examples(path=path)
    assert numbers(page) == list(range(1, SENTENCES, 7))
    assert "Only 10 of the 70 sentences are in this page" in page.locator("main").inner_text()
    assert page.locator("#example-order option").all_inner_texts() == [
        "sentence number", "source length", "score of a system",
    ]  # fmt: skip
    path = make_report(source, reference, {"a": outputs[0]}, examples=0)
    page = open_page(path)
    assert page.locator("#browser").count() == 0
    assert "The sentences were left out of this page." in page.locator("main").inner_text()


@pytest.mark.slow
def test_quick_with_30_000_sentences_of_6_systems(make_report, open_page, capsys):
    source, reference, outputs = texts(30_000, 6)
    names = [f"system {number}" for number in range(6)]
    path = make_report(
        source, reference, dict(zip(names, outputs, strict=True)), metrics=["chrf"], resampling=Resampling(0)
    )
    page = open_page(path)
    start = time.perf_counter()
    page.locator("#browser").scroll_into_view_if_needed()
    page.wait_for_selector(".example")
    times = {"unpacking": time.perf_counter() - start}
    # As the reader waits for it: from the event to the changed page.
    measure = """([name, value]) => {
        const control = document.querySelector("#browser [name=" + name + "]");
        if (control.type === "checkbox") control.checked = value; else control.value = value;
        const start = performance.now();
        return new Promise((done) => {
            const seen = new MutationObserver(() => { seen.disconnect(); done((performance.now() - start) / 1000); });
            seen.observe(document.getElementById("example-list"), { childList: true });
            control.dispatchEvent(new Event("input", { bubbles: true }));
        });
    }"""
    steps = [
        ("text", "hund sieht"), ("expression", True), ("text", "h.*haus$"), ("text", ""), ("first", "25"),
        ("first", ""), ("order", "length"), ("order", "score"), ("order", "difference"),
        ("direction", "descending"), ("training", "unseen"), ("missing", True),
    ]  # fmt: skip
    for name, value in steps:
        times[f"{name} {value}"] = page.evaluate(measure, [name, value])
    with capsys.disabled():
        print(
            f"\n{path.stat().st_size / 1e6:.1f} MB;",
            "; ".join(f"{name} {seconds:.3f} s" for name, seconds in times.items()),
        )
    assert page.locator(".example").count() == 20
    assert times.pop("unpacking") < 10
    assert max(times.values()) < 2
