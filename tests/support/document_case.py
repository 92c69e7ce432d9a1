"""Documents in tests: read, translated without a model, and written."""

from __future__ import annotations

from pathlib import Path

from posnmt.deploy.documents.formats import read
from posnmt.deploy.documents.segment import Tag, divide, has_letters, join

PAIR = ("en", "de")


def opened(form, text, encoding="utf-8", languages=PAIR):
    """A document of text, or of bytes."""
    return read(form, text if isinstance(text, bytes) else text.encode(encoding), Path("page"), languages)


def texts(document):
    """Line and text of each segment, tags as `*`."""
    return [
        (each.line, "".join("*" if isinstance(piece, Tag) else piece for piece in each.pieces).strip())
        for each in document.segments
    ]


def translate(document, change=str.upper):
    """Put other text in the place of each sentence with letters; the sentences."""
    sentences = []
    for segment in document.segments:
        if segment.has_letters:
            parts = divide(segment, PAIR[0])
            sentences += [each.text for each in parts if has_letters(each.text)]
            segment.translated = join(
                parts, [each.place(change(each.text) if has_letters(each.text) else each.text) for each in parts]
            )
    return sentences


def shouted(form, text, change=str.upper):
    """A document with its text in capitals."""
    document = opened(form, text)
    translate(document, change)
    return document.content().decode()


def installed(*patterns):
    """Files of the packages that are installed here."""
    import click

    site = Path(click.__file__).parents[1]
    return sorted(path for pattern in patterns for path in site.glob(pattern) if path.stat().st_size < 300_000)
