"""A real browser, and reports to open in it; what a page does that it should not fails the test that opened it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from posnmt.evaluation.analyse.measure import Resampling
from tests.support.browser_case import EMPTY_ROW, HTML_NAME, HTML_ROW, HTML_TEXT, LONG_ROW, NUMBERED, expect, texts
from tests.support.report_case import report_of

PICTURES = Path(__file__).parents[2] / "build" / "browser"


@pytest.fixture(scope="session")
def make_report(tmp_path_factory):
    """A function: texts and options of an analysis → the path of its page."""

    def make(source, reference, outputs, **options):
        folder = tmp_path_factory.mktemp("report")
        paths = {}
        for name, lines in {"source": source, "reference": reference, **outputs}.items():
            paths[name] = folder / f"text{len(paths)}"
            paths[name].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        given = {"metrics": ["bleu", "chrf"], "resampling": Resampling(100), "max_trained_length": 25, **options}
        out = folder / "out"
        report_of(paths.pop("source"), paths.pop("reference"), paths, out, **given)
        return out / "report.html"

    return make


@pytest.fixture(scope="session")
def report(make_report):
    """A page of 70 sentences by three systems: one with HTML in its name, one with several seeds."""
    source, reference, outputs = texts()
    for lines in (source, reference, *outputs):
        lines[HTML_ROW] = HTML_TEXT
        lines[LONG_ROW] = "lang " * 20_000 + "Ende"
    outputs[0][EMPTY_ROW] = ""
    named = dict(zip([HTML_NAME, "seeds:1", "seeds:2"], outputs, strict=True))
    return make_report(source, reference, named, bin_width=10)


@pytest.fixture(scope="session")
def chromium():
    """The browser that the machine has; nothing is downloaded."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make test-browser")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.skip("there is no browser: install chromium, or name one with CHROMIUM")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=path)
        yield started
        started.close()


@pytest.fixture
def open_page(chromium):
    """A function: path, what follows it in the address, settings of the browser → the page, opened.

    The page may ask for nothing but itself, write nothing to the console, and run nothing that opens a dialogue.
    """
    contexts, misdeeds, asked = [], [], []

    def open_page(path, fragment="", **settings):
        context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: misdeeds.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: misdeeds.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (misdeeds.append(f"dialogue: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
        page.goto(path.as_uri() + fragment)
        return page

    yield open_page
    opened = len(contexts)
    for context in contexts:
        context.close()
    assert misdeeds == []
    # Blobs are what a page made itself.
    fetched = [url for url in asked if not url.startswith("blob:")]
    assert len(fetched) == opened
    assert all(url.startswith("file:") and url.endswith("/report.html") for url in fetched)


@pytest.fixture
def open_examples(open_page, report):
    """A function: what follows the page's address → the page with its sentences unpacked."""

    def open_examples(fragment=NUMBERED, path=report, **settings):
        page = open_page(path, fragment, **settings)
        page.locator("#browser").scroll_into_view_if_needed()
        expect(page.locator("#example-status")).to_contain_text("match")
        return page

    return open_examples


def picture(page, name, **options):
    """Keep a picture of the page for people to look at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", **options)


@pytest.fixture(scope="session")
def keep_picture():
    """A function: page, name → a picture under build/browser."""
    return picture
