"""Likelihood by position and omitted sentences in a real browser: nothing is cut, on a phone and in print."""

import pytest

from posnmt.evaluation.report.likelihood import PAGE, likelihood_report
from posnmt.evaluation.report.write import likelihood_files
from tests.support.completeness_case import lines, paragraphs
from tests.support.losses_case import random_losses

LONG_NAME = "relative vectors beside a recurrence, clipped at sixteen"
CUT = """figures => figures.flatMap((figure) => {
  const whole = figure.getBoundingClientRect();
  return [...figure.querySelectorAll("text")].filter((text) => {
    const place = text.getBoundingClientRect();
    return place.width && (place.right > whole.right + 1 || place.left < whole.left - 1);
  }).map((text) => text.textContent);
})"""
BROKEN = """heads => heads.flatMap((head) => {
  const walker = document.createTreeWalker(head, NodeFilter.SHOW_TEXT), broken = [];
  while (walker.nextNode()) {
    for (const word of walker.currentNode.data.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, word.index);
      range.setEnd(walker.currentNode, word.index + word[0].length);
      if (range.getClientRects().length > 1) broken.push(word[0]);
    }
  }
  return broken;
})"""


@pytest.fixture(scope="module")
def likelihood(tmp_path_factory):
    """A page with all designs but the swap, of a baseline with a long name."""
    seeds = (1, 2, 3)
    losses = random_losses(
        ((LONG_NAME, seeds), ("relative", seeds)), sentences=190, documents=40, longest=47, beyond={LONG_NAME: 0.4}
    )
    path = tmp_path_factory.mktemp("likelihood") / "report.html"
    path.write_bytes(likelihood_files(likelihood_report(losses, shifted={"source +40": losses}))[PAGE])
    return path


@pytest.fixture(scope="module")
def omitted(make_report):
    """A page of paragraphs, with omitted sentences."""
    source, target = map(lines, paragraphs(60))
    outputs = {"whole": target, "short": [line.partition(".")[0] + "." for line in target]}
    return make_report(source, target, outputs, completeness=True)


@pytest.mark.parametrize("name", ["likelihood", "omitted"])
def test_no_text_of_a_figure_is_cut(open_page, request, name):
    page = open_page(request.getfixturevalue(name))
    assert page.locator(".chart svg text").count() > 50
    assert page.eval_on_selector_all(".chart svg", CUT) == []


def test_a_phone_shows_figures_beside_what_they_are_of(open_page, keep_picture, likelihood):
    page = open_page(likelihood, viewport={"width": 390, "height": 844})
    first = page.eval_on_selector_all(
        ".whole td:nth-child(2)", "all => all.map((one) => one.getBoundingClientRect().right)"
    )
    assert len(first) > 10
    assert max(first) <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    keep_picture(page, "likelihood-phone", full_page=True)


def test_no_heading_of_a_table_is_broken_within_a_word_in_print(open_page, likelihood):
    page = open_page(likelihood, viewport={"width": 720, "height": 1000})
    page.emulate_media(media="print")
    assert page.locator(".whole thead th:visible").count() > 20
    assert page.eval_on_selector_all(".whole thead th", BROKEN) == []
