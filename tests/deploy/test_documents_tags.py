"""Where the tags of a sentence stand in its translation."""

from __future__ import annotations

import random
import re

import pytest

from posnmt.deploy.documents.segment import Segment, Tag, divide, join

KINDS = {"<": "open", ">": "close", "|": "alone", "/": "alone"}


def pieces(text):
    """`<`, `>` and `|` are tags, `/` is a line break."""
    parts = [each for each in re.split("([<>|/])", text) if each]
    return [Tag(KINDS[each], each, each == "/") if each in KINDS else each for each in parts]


def translated(source, *translations, language="en"):
    parts = divide(Segment(1, pieces(source)), language)
    assert len(parts) == len(translations), [each.text for each in parts]
    placed = [part.place(each) for part, each in zip(parts, translations, strict=True)]
    return "".join(each if isinstance(each, str) else each.content for each in join(parts, placed))


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Hello <world>!", "Hallo Welt!", "Hallo <Welt>!"),
        ("<Hello world!>", "Hallo Welt!", "<Hallo Welt!>"),
        ("one <two> three four", "eins zwei drei vier fünf sechs 7 8", "eins zwei <drei vier> fünf sechs 7 8"),
        ("one two <three> four five six", "eins zwei drei", "eins <zwei> drei"),
        ("<one> <two>", "eins", "<eins><>"),
        ("<on>e two", "eins zwei", "<eins> zwei"),
        ("one| two", "eins zwei", "eins| zwei"),
        ("one |two", "eins zwei", "eins |zwei"),
        ("one|two", "eins zwei", "eins|zwei"),
        ("one/two three", "eins zwei drei", "eins/zwei drei"),
        ("one two/", "eins zwei", "eins zwei/"),
        (" < one >  ", "eins", " < eins >  "),
        ("one <two>", "一二三四", "一二<三四>"),
        ("one <two>", "", "<>"),
    ],
)  # fmt: skip
def test_places(source, translation, expected):
    assert translated(source, translation) == expected


def test_tags_belong_to_their_sentences():
    source = "One two. <Three> four.  Five|."
    assert translated(source, "Eins.", "Drei vier.", "Fünf.") == "Eins. <Drei> vier.  Fünf|."


def test_blanks_between_sentences_are_those_of_the_script():
    assert translated("One. Two.", "一。", "二。") == "一。二。"
    assert translated("One. Two.", "“一。”", "二……") == "“一。”二……"
    assert translated("一。二。", "“One…”", "Two.", language="zh") == "“One…” Two."
    assert translated("一。二。", "One.", "Two.", language="zh") == "One. Two."


def test_line_breaks_are_words_apart_for_the_model():
    [sentence] = divide(Segment(1, pieces("one/two|three\n four")), "en")
    assert sentence.text == "one two three four"


def test_any_tags_keep_their_order_and_their_number():
    generator = random.Random(3)
    for _ in range(300):
        source = "".join(
            generator.choices(["word", " ", ". ", "<", ">", "|", "/", "字", ","], k=generator.randrange(1, 25))
        )
        parts = divide(Segment(1, pieces(source)), "en")
        words = ["Wort", "zwei.", "字", ""]
        placed = [each.place(" ".join(generator.choices(words, k=generator.randrange(5)))) for each in parts]
        tags = [each.content for each in join(parts, placed) if isinstance(each, Tag)]
        assert tags == [each for each in source if each in KINDS], source
        same = join(parts, [each.place(each.text) for each in parts])
        text = "".join(each for each in same if isinstance(each, str))
        assert re.sub(r"[\s/]", "", text) == re.sub(r"[\s<>|/]", "", source)
