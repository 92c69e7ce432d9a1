"""The page of `posnmt serve` in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.serving import serving
from tests.support.untrained import LEARNED, untrained

LINES = (Path(__file__).parents[1] / "frozen" / "dev.source").read_text().splitlines()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    pytest.importorskip("fastapi", reason="FastAPI is not installed (extra serve)")
    folder = tmp_path_factory.mktemp("runs")
    table = untrained(folder / "table", "learned", max_length=40)
    slow = untrained(folder / "slow", "relative")
    models = [f"mine={LEARNED}", table, slow, f"fourth={LEARNED}"]
    with serving(*models, "--languages", "fourth=ru-de") as server:
        yield server


@pytest.fixture
def open_server(chromium, served):
    """A function: settings of the browser → the page, opened; it may ask its own server alone."""
    contexts, misdeeds = [], []

    def opened(served=served, **settings):
        context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: misdeeds.append(f"error: {error}"))
        page.on("request", lambda request: request.url.startswith(served.url) or misdeeds.append(request.url))
        page.goto(served.url)
        page.locator("#models input").first.wait_for()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert misdeeds == []


def test_a_text_by_three_models_side_by_side(open_server):
    page = open_server()
    assert page.locator("#models input:checked").count() == 3
    assert page.locator("#models input:disabled").count() == 1  # a fourth
    page.locator("#source").fill(f"{LINES[0]}\n\n{LINES[1]}\n")
    page.keyboard.press("Control+Enter")
    page.get_by_text("6 of 6 translations").wait_for()
    expected = run("translate", LEARNED, stdin="\n".join(LINES[:2]).encode())[0].splitlines()
    assert page.locator("tbody tr").count() == 3
    assert page.locator('td[data-model="mine"] .text').all_inner_texts() == expected
    assert page.locator("thead th").all_inner_texts() == ["Source", "mine Save", "table Save", "slow Save"]
    length = page.locator('td[data-model="mine"] .note').first.inner_text()
    assert length.endswith("subwords, trained on 5 to 24")
    cut = page.locator('td[data-model="slow"] .beyond').first
    assert cut.inner_text() == "cut off at the output limit"


def test_words_under_the_pointer_show_what_they_are_linked_to(open_server):
    page = open_server()
    line = f"{LINES[0]} \U0001f600 {LINES[1].split()[0]}"  # a character of two units in JavaScript
    page.locator("#source").fill(line)
    page.keyboard.press("Control+Enter")
    page.get_by_text("3 of 3 translations").wait_for()
    out, _ = run("translate", LEARNED, "--alignments", "--format", "jsonl", stdin=line)
    row = json.loads(out)
    [best] = row["hypotheses"]
    sources, words = page.locator("tbody th .word"), page.locator('td[data-model="mine"] .word')
    assert page.locator("tbody th").inner_text() == line
    assert sources.all_inner_texts() == [word["text"] for word in row["source_words"]]
    assert words.all_inner_texts() == [word["text"] for word in best["words"]]
    for number in range(words.count()):
        words.nth(number).hover()
        expected = [row["source_words"][source]["text"] for source, target in best["alignment"] if target == number]
        assert page.locator("tbody th .linked").all_inner_texts() == expected
    first = best["alignment"][0][0]
    sources.nth(first).hover()
    expected = [best["words"][target]["text"] for source, target in best["alignment"] if source == first]
    assert page.locator('td[data-model="mine"] .linked').all_inner_texts() == expected
    page.locator("h1").hover()
    assert page.locator(".linked").count() == 0


def test_lengths_beyond_training_are_marked_and_errors_shown(open_server):
    page = open_server()
    page.locator("#source").fill("uns mebu zabi " * 10 + "\nlo")
    page.locator("#models input[value=slow]").uncheck()
    page.locator("button[type=submit]").click()
    page.get_by_text("4 of 4 translations, 1 of them failed").wait_for()
    notes = page.locator('td[data-model="mine"] .beyond').all_inner_texts()
    assert any("longer than any that it was trained on (5 to 24)" in note for note in notes)
    assert any("shorter than any that it was trained on (5 to 24)" in note for note in notes)
    assert "position table ends at 39" in page.locator('td[data-model="table"] .fault').inner_text()


def test_a_line_in_parts_says_so(open_server):
    page = open_server()
    page.locator("#source").fill("Uns mebu zabi. Bevu sipo un leri.")
    page.locator("button[type=submit]").click()
    note = page.get_by_text(re.compile(r"subwords in 2 parts of at most \d+, trained on 5 to 24"))
    note.first.wait_for()  # every model has it, one after another


def test_a_column_is_saved_and_a_file_is_opened(open_server, tmp_path):
    page = open_server()
    (tmp_path / "text").write_bytes("\r\n".join(LINES[:3]).encode())
    page.locator("#file").set_input_files(tmp_path / "text")
    page.get_by_text("text: 3 lines").wait_for()
    for name in ("table", "slow"):
        page.locator(f"#models input[value={name}]").uncheck()
    page.locator("button[type=submit]").click()
    page.get_by_text("3 of 3 translations").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the translations of mine").click()
    expected = run("translate", LEARNED, stdin="\n".join(LINES[:3]).encode())[0]
    assert Path(download.value.path()).read_text() == expected
    (tmp_path / "bad").write_bytes(b"\xff")
    page.locator("#file").set_input_files(tmp_path / "bad")
    page.get_by_text("bad is not a text in UTF-8").wait_for()


def test_escape_stops(open_server, served):
    page = open_server()
    for name in ("mine", "table"):
        page.locator(f"#models input[value={name}]").uncheck()
    page.locator("#source").fill(("uns mebu zabi " * 8 + "\n") * 100)
    page.keyboard.press("Control+Enter")
    page.get_by_text("of 100 translations").wait_for()
    page.keyboard.press("Escape")
    page.get_by_text("Stopped after").wait_for()
    served.wait_for("posnmt_queue_characters", 0)


def test_a_key_is_asked_for_where_one_is_needed(open_server):
    with serving(f"mine={LEARNED}", environment={"POSNMT_API_KEYS": "secret"}) as keyed:
        page = open_server(keyed)
        page.locator("#source").fill(LINES[0])
        assert page.locator("#key").is_hidden()
        page.keyboard.press("Control+Enter")
        page.get_by_text("an API key is needed").wait_for()
        page.locator("#key").fill("secret")
        page.keyboard.press("Control+Enter")
        page.get_by_text("1 of 1 translations").wait_for()
        assert page.locator("td .fault").count() == 0


def test_what_is_typed_is_text(open_server):
    page = open_server()
    page.locator("#source").fill("<img src=x onerror=alert(1)> & <b>")
    page.keyboard.press("Control+Enter")
    page.get_by_text("3 of 3 translations").wait_for()
    assert page.locator("table img").count() == 0
    assert page.locator("tbody th").inner_text() == "<img src=x onerror=alert(1)> & <b>"


@pytest.mark.parametrize(("name", "settings"), [
    ("light", {}),
    ("dark", {"color_scheme": "dark"}),
    ("phone", {"viewport": {"width": 390, "height": 844}}),
])  # fmt: skip
def test_pictures_and_accessibility(open_server, keep_picture, name, settings):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed")
    page = open_server(**settings)
    page.locator("#source").fill("\n".join([*LINES[:3], "uns mebu zabi " * 10]))
    page.keyboard.press("Control+Enter")
    page.get_by_text("12 of 12 translations").wait_for()
    keep_picture(page, f"server-{name}", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found = axe.Axe().run(page)["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found] == []
