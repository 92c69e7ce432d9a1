"""The page as a whole in a real browser: without JavaScript, on a phone, in the dark, for everybody."""

import re
from pathlib import Path

import pytest

from tests.support.browser_case import unfold

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def test_everything_but_the_sentences_is_there_without_javascript(open_page, report):
    page = open_page(report, java_script_enabled=False)
    assert page.locator("table[data-name]").count() > 10
    assert page.locator("figure svg").count() >= 4
    assert page.locator("button:visible").count() == 0
    assert "needs JavaScript" in page.locator("noscript").last.inner_text()
    cells = page.locator('table[data-name="overall"] td[data-value]')
    assert cells.count() >= 6
    assert page.locator('noscript figure[data-name="bleu-differences"] svg').count() == 1
    assert page.locator("form:visible, select:visible").count() == 0
    assert page.get_by_text("posnmt", exact=False).first.is_visible()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_and_accessibility(open_examples, keep_picture, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed")
    page = open_examples("#examples?first=5&last=40&order=difference&missing=true", color_scheme=scheme)
    keep_picture(page, f"{scheme}-examples")
    keep_picture(page, f"{scheme}-whole", full_page=True)
    unfold(page)
    found = axe.Axe().run(page)["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found] == []


def test_a_phone_scrolls_up_and_down_only(chromium, open_examples, keep_picture):
    page = open_examples("#examples?order=difference&missing=true")
    page.set_viewport_size(PHONE["viewport"])
    page.locator("#example-list").evaluate("list => list.scrollIntoView()")
    keep_picture(page, "phone-examples")
    page.evaluate("scrollTo(0, 0)")
    keep_picture(page, "phone-top")
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    low = page.eval_on_selector_all(
        "#browser select:visible, #browser button:visible",
        "all => all.filter((one) => one.getBoundingClientRect().height < 24).length",
    )
    assert low == 0


def test_the_focus_is_seen(open_examples):
    page = open_examples()
    page.locator("#example-first").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_nothing_moves_by_itself(open_examples):
    page = open_examples(reduced_motion="reduce")
    moving = page.evaluate(
        "[...document.querySelectorAll('*')].filter((one) => getComputedStyle(one).transitionDuration !== '0s' || "
        "getComputedStyle(one).animationName !== 'none' || getComputedStyle(one).scrollBehavior === 'smooth').length"
    )
    assert moving == 0


def test_every_control_has_a_label(open_examples):
    page = open_examples()
    controls = page.locator("#browser input, #browser select")
    assert controls.count() >= 14
    unlabelled = page.eval_on_selector_all(
        "#browser input, #browser select", "all => all.filter((one) => !one.labels.length).map((one) => one.outerHTML)"
    )
    assert unlabelled == []


def test_the_policy_lets_only_the_page_s_script_run(chromium, report):
    page = chromium.new_page()
    page.goto(report.as_uri())
    ran = page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            addEventListener("securitypolicyviolation", (event) => { window.refused = event.violatedDirective; });
            return new Promise((done) => {
                document.body.append(script);
                setTimeout(() => done([window.ran ?? false, window.refused]), 200);
            });
        }"""
    )
    page.close()
    assert ran == [False, "script-src-elem"]
    text = Path(report).read_text(encoding="utf-8")
    assert text.count('<script type="module">') == text.count('http-equiv="Content-Security-Policy"') == 1
    assert not re.search(r"(src|href)=\"(https?:)?//", text)
