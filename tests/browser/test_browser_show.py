"""The page of `posnmt show` in a real browser: on every width, in the dark, without the network, for everybody."""

import pytest

from tests.support import commands
from tests.support.browser_case import expect, unfold
from tests.support.show_case import trained_runs


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """The page of two runs."""
    runs = trained_runs(tmp_path_factory.mktemp("show"))
    out = runs / "out"
    commands.run("show", runs / "counting", runs / "recurrent", "--out", out, "--lines", 4, "--length", 40)
    return out / "report.html"


@pytest.mark.parametrize("width", [1400, 768, 390])
def test_the_page_fits(open_page, shown, keep_picture, width):
    page = open_page(shown, viewport={"width": width, "height": 900})
    keep_picture(page, f"show-{width}", full_page=True)
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_cells_and_points_say_what_they_are(open_page, shown):
    page = open_page(shown)
    heat = page.locator('figure[data-name="words-1-line-1-encoder-layer-1"]')
    assert heat.locator("image").count() == 3, "two heads and the scale of colours"
    heat.locator(".point").first.focus()
    expect(page.locator(".tip")).to_contain_text("Head 1")
    moved = page.locator('figure[data-name="moved-encoder"] .point')
    moved.first.focus()
    expect(page.locator(".tip")).to_contain_text("recurrent, ")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(open_page, shown, keep_picture, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed")
    page = open_page(shown, color_scheme=scheme)
    keep_picture(page, f"show-{scheme}", full_page=True)
    unfold(page)
    found = axe.Axe().run(page)["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found] == []


def test_everything_is_there_without_javascript(open_page, shown):
    page = open_page(shown, java_script_enabled=False)
    assert page.locator("figure svg").count() > 20
    assert page.locator("h2").count() == 9
