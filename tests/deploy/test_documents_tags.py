"""Where the tags of a sentence stand in its translation."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.deploy.documents.segment import Segment, Tag, divide, join

KINDS = {"<": "open", ">": "close", "|": "alone", "/": "alone", "^": "alone"}


def pieces(text):
    """`<`, `>` and `|` are tags, `/` is a line break, and at `^` a word may break."""
    parts = [each for each in re.split("([<>|/^])", text) if each]
    return [Tag(KINDS[each], each, each == "/", each == "^") if each in KINDS else each for each in parts]


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


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("The | cat sees the | dog.", "Das katze sieht das hund.", "Das | katze sieht das | hund."),
        ("cat |.", "katze.", "katze |."),
        ("(| cat)", "(katze)", "(| katze)"),
        ("the | cat.", "katze.", "katze |."),
        ("the | cat", "l'homme", "l'| homme"),
        ("to | cat .", "katze.", "katze |."),
        ("A cat |!", "eine katze schläft", "eine katze | schläft"),
        ("cat, |: dog", "katze hund", "katze | hund"),
        ("The <> cat", "Die Katze", "Die <> Katze"),
        ("The <|> cat", "Die Katze", "Die <|> Katze"),
        ("The || cat", "Die Katze", "Die || Katze"),
        ("a <<|>|> <|> b", "eins zwei", "eins <<|>|> <|> zwei"),
        ("<see |> cat", "siehe katze", "<siehe |> katze"),
        ("<see> <| cat>", "siehe katze", "<siehe> <| katze>"),
        ("see <|.>", "siehe.", "siehe <|.>"),
        ("cat /| dog", "katze hund", "katze/| hund"),
        ("a | b", "一二", "一|二"),
        ("cat | dog", "", "|"),
    ],
)  # fmt: skip
def test_a_tag_that_stands_alone_has_its_blanks(source, translation, expected):
    assert translated(source, translation) == expected


def test_a_tag_between_signs_of_a_script_without_blanks():
    assert translated("您有|条", "You have messages", language="zh") == "You have | messages"
    assert translated("您有|条", "您有条", language="zh") == "您有|条"


@pytest.mark.parametrize(
    ("source", "words", "translation", "expected"),
    [
        ("<Cat><Dog><House>", "Cat Dog House", "Katze Hund Haus", "<Katze><Hund><Haus>"),
        ("<1><The house>", "1 The house", "1 Das Haus", "<1><Das Haus>"),
        ("<<A>><<B>> C", "A B C", "A B C", "<<A>><<B>> C"),
        ("<|Cat><|Dog>", "Cat Dog", "Katze Hund", "<|Katze><|Hund>"),
        ("<cat><,> dog", "cat, dog", "katze, hund", "<katze><,> hund"),
        ("un<b>liev<able>", "unblievable", "unglaublich", "<unglaublich><>"),
        ("<unb>liev<able>", "unblievable", "unblievable", "<unb>liev<able>"),
    ],
)  # fmt: skip
def test_elements_side_by_side_are_words_apart(source, words, translation, expected):
    [sentence] = divide(Segment(1, pieces(source)), "en")
    assert sentence.text == words
    assert translated(source, translation) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("H<2>O is wet", "H2O ist nass", "H<2>O ist nass"),
        ("Wet is H<2>O", "H2O ist nass", "H<2>O ist nass"),
        ("H2O and H<2>O", "H2O und H2O", "H2O und H<2>O"),
        ("<<H>2O> is", "Das ist H2O", "Das ist <<H>2O>"),
        ("foo<2> bar", "bar foo2", "bar foo<2>"),
        ("a C<2> and a C<2>", "ein C2 und ein C2", "ein C<2> und ein C<2>"),
        ("un<believ>able cat", "unglaubliche Katze", "<unglaubliche> Katze"),
    ],
)
def test_tags_inside_a_word_that_stays(source, translation, expected):
    assert translated(source, translation) == expected


@pytest.mark.parametrize(
    ("source", "words", "translation", "expected"),
    [
        ("the Donau^dampf^schiff", "the Donaudampfschiff", "das Donaudampfschiff", "das Donau^dampf^schiff"),
        ("the steam^boat", "the steamboat", "das Dampfschiff", "das Dampfschiff^"),
        ("<steam^>boat", "steamboat", "Dampfschiff", "<Dampfschiff^>"),
        ("steam|^boat", "steam boat", "Dampf boot", "Dampf|^boot"),
        ("a^ b", "a b", "a b", "a^ b"),
    ],
)
def test_a_place_where_a_word_may_break_does_not_part_it(source, words, translation, expected):
    [sentence] = divide(Segment(1, pieces(source)), "en")
    assert sentence.text == words
    assert translated(source, translation) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("It is 10_km to B.", "Es sind 10 km nach B.", "Es sind 10_km nach B."),
        ("Mr_Li, 5_%", "Herr Li, 5 %", "Herr Li, 5_%"),
        ("10_km, 10_km", "10 km 10 km 10km 10  km", "10_km 10_km 10km 10  km"),
        ("<10>_km 10 m", "10 km 10 m", "<10>_km 10 m"),
        ("10 <km> a_b", "10 km b a", "10 <km> b a"),
        ("_10 km_", "10 km", "_10 km_"),
    ],
)
def test_a_space_that_is_more_than_a_blank_stays_between_the_same_words(source, translation, expected):
    for space in "\u00a0\u202f\u3000":
        assert translated(source.replace("_", space), translation) == expected.replace("_", space)


WORDS = st.sampled_from(["cat", "Dog", "7", "H<2>O", "foo<2>", "<un>do", "字", "a^b", "c\u00a0d"])
GAPS = st.sampled_from(
    ["", " ", ", ", "-", ". ", "/", "|", " | ", " <> ", " <|> ", "| ", " |", " ||. ", " (| ", " | | ", "/| ", ".|/",
     "^"]
)  # fmt: skip
ELEMENTS = st.deferred(
    lambda: st.tuples(WORDS | ELEMENTS, st.lists(st.tuples(GAPS, WORDS | ELEMENTS), max_size=9)).map(
        lambda parts: f"<{parts[0]}{''.join(gap + item for gap, item in parts[1])}>"
    )
)


@given(ELEMENTS)
def test_a_text_that_stays_has_its_tags_where_they_were(source):
    """As far as opening tags stand before words and closing ones behind them."""
    parts = divide(Segment(1, pieces(source)), "en")
    assert translated(source, *(part.text for part in parts)) == source


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
