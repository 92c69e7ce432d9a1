"""The pictures of the documentation in a real browser."""

from pathlib import Path

import pytest

PICTURES = sorted((Path(__file__).parents[2] / "docs" / "pictures").glob("*.svg"))
PLACES = """() => {
  const whole = document.documentElement.getBoundingClientRect();
  const texts = [...document.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const cut = texts.filter(([, at]) => at.left < whole.left || at.right > whole.right || at.bottom > whole.bottom);
  const met = texts.flatMap(([words, at], place) => texts.slice(place + 1).filter(
    ([, other]) => Math.min(at.right, other.right) > Math.max(at.left, other.left) + 1
      && Math.min(at.bottom, other.bottom) > Math.max(at.top, other.top) + 3
  ).map(([others]) => `${words} | ${others}`));
  return [...cut.map(([words]) => words), ...met];
}"""


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_no_text_of_a_picture_is_cut_or_covers_another(chromium, path):
    page = chromium.new_page(viewport={"width": 1200, "height": 900})
    page.goto(path.as_uri())
    assert page.locator("text").count() > 3
    assert page.evaluate(PLACES) == []
    page.close()
