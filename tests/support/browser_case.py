"""Texts for reports in a browser, and what their tests do to a page."""

from __future__ import annotations

import random

WORDS = [
    "ein",
    "Haus",
    "der",
    "Hund",
    "sieht",
    "die",
    "Katze",
    "das",
    "ist",
    "am",
    "See",
    "und",
    "alt",
    "neu",
    "rot",
    "blau",
]
HTML_NAME = "<img src=x onerror=alert(1)> & <b>bold</b>"
HTML_TEXT = "<script>alert('ran')</script> & <b>bold</b> </script> {{ 7 * 7 }} \"quoted\""
# Sentence 5 has HTML, 6 is very long, and the first system gives nothing for 7.
HTML_ROW, LONG_ROW, EMPTY_ROW = 4, 5, 6
SENTENCES = 70
# The address of the sentences in the order of the text.
NUMBERED = "#examples?order=number&direction=ascending"


def texts(sentences=SENTENCES, systems=3, seed=5):
    """Source, reference, and outputs that leave out more and more words; lengths from 1 to 40 words."""
    chosen = random.Random(seed)
    reference = [" ".join(chosen.choices(WORDS, k=1 + row % 40)) for row in range(sentences)]
    source = [line.upper() for line in reference]
    outputs = [
        [
            " ".join(word for word in line.split() if chosen.random() > 0.1 * (system + 1)) or "nichts"
            for line in reference
        ]
        for system in range(systems)
    ]
    return source, reference, outputs


def expect(found):
    """Playwright's `expect`, imported where it is used; its `wait_for_function` would break the page's policy."""
    from playwright.sync_api import expect

    expect.set_options(timeout=20_000)
    return expect(found)


def unfold(page):
    """Open all that is folded."""
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
