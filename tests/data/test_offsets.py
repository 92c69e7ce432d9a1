"""Texts that are shifted against each other: which offset, from which line to which; sound text has no shift."""

from __future__ import annotations

import gzip
import lzma
from itertools import combinations
from random import Random

import numpy as np
import pytest

from posnmt.corpora.artificial.pairs import generate
from posnmt.data.corpus import TextFile
from posnmt.data.offsets import (
    ENOUGH,
    FARTHEST,
    NAMED,
    OFFSETS,
    SAMPLE,
    _certainty,
    sentences,
    shifts,
    shifts_of,
    unrelated,
)
from tests.support.shared import SHARED, missing

PAIRS = list(generate(1000, 3, 30, seed=1))
SOURCES, TARGETS = [pair.source for pair in PAIRS], [pair.target for pair in PAIRS]
NEAR = 5
"""Lines by which a place may be wrong."""


def shifted(lines, offset, first=0, last=None):
    """Lines of which those between two rows are late by an offset: line i stands at i + offset."""
    rows = range(len(lines))
    inside = rows[first:last]
    return [lines[min(max(0, row - offset), len(lines) - 1)] if row in inside else lines[row] for row in rows]


def is_near(place, wanted):
    return place is None if wanted is None else place is not None and abs(place - wanted) <= NEAR


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize(("first", "last"), [(0, None), (500, None), (800, None), (0, 500), (400, 600)])
def test_a_shift_is_named_with_its_place(offset, first, last):
    """A line that is missing or doubled, to the end of the text or until another mistake undoes it."""
    [found] = shifts(SOURCES, shifted(TARGETS, offset, first, last))
    assert found["offset"] == offset
    assert found["first"] == 1 if first == 0 else is_near(found["first"], first + 1)
    assert is_near(found["last"], last)
    [mirrored] = shifts(shifted(TARGETS, offset, first, last), SOURCES)
    assert mirrored["offset"] == -offset


def test_several_shifts_are_told_apart():
    """Lines are lost at two places: the text is one line early after the first, two after the second."""
    found = shifts(SOURCES, shifted(shifted(TARGETS, -1, 300, 700), -2, 700))
    assert [shift["offset"] for shift in found] == [-1, -2]
    assert is_near(found[0]["first"], 301)
    assert is_near(found[0]["last"], 700)
    assert found[1] == {"offset": -2, "first": found[0]["last"] + 1, "last": None}


def test_three_shifts_are_told_apart():
    """Each place where a line is lost has its own stretch, though the middle offset fits best in all of them."""
    targets = shifted(shifted(shifted(TARGETS, -1, 250, 500), -2, 500, 750), -3, 750)
    found = shifts(SOURCES, targets)
    assert [shift["offset"] for shift in found] == [-1, -2, -3]
    assert [is_near(shift["first"], first) for shift, first in zip(found, (251, 501, 751), strict=True)] == [True] * 3


@pytest.mark.parametrize("far", [3 * FARTHEST, 101])
def test_an_offset_that_is_too_large_is_not_given_another_one(far):
    for turned in (far, -far):
        for found in (shifts(SOURCES, TARGETS[turned:] + TARGETS[:turned]), shifts(SOURCES, TARGETS[::-1])):
            assert [shift for shift in found if shift["offset"] is not None] == []


def test_a_shift_within_another_is_told_apart():
    """One offset fits the whole text better than none, and yet another one a part of it."""
    targets = shifted(shifted(shifted(TARGETS, -2, 0, 450), -1, 450, 550), -2, 550)
    found = shifts(SOURCES, targets)
    assert [shift["offset"] for shift in found] == [-2, -1, -2]
    assert [is_near(shift["first"], first) for shift, first in zip(found, (1, 451, 551), strict=True)] == [True] * 3


def test_the_largest_offset_is_not_named_where_a_larger_one_fits_as_well():
    """Target line i + 7 has all words of source line i, and line i + 5 has them as well."""
    drawn = Random(8)
    words = ["".join(drawn.choices("abcdefghij", k=6)) for _ in range(210)]
    sources = words[7:207]
    targets = [f"{words[row]} {words[row + 2]}" for row in range(200)]
    [found] = shifts(sources, targets)
    assert found == {"offset": None, "first": 1, "last": None}


def test_lines_that_alternate_fit_no_offset():
    """Neighbours fit better than translations, by chance of their lengths; the true offset cannot be told."""
    drawn = Random(5)
    lengths = [40 * (row % 2) + drawn.randint(5, 20) for row in range(400)]
    sources = ["a" * length for length in lengths]
    targets = ["б" * length for length in [*lengths[21:], *lengths[:21]]]
    [found] = shifts(sources, targets)
    assert found == {"offset": None, "first": 1, "last": None}


def repeated(*pairs, times):
    """Source and target lines of pairs that come again and again."""
    return [source for source, _ in pairs] * times, [target for _, target in pairs] * times


DAYS = zip(
    ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"],
    ["lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"],
    strict=True,
)
PERIODIC = {
    "a form": repeated(("Yes", "Ja"), ("No", "Nein"), times=10),
    "a long form": repeated(("Yes.", "はい。"), ("No.", "いいえ。"), times=50),
    "a form with blanks": repeated(("Yes", "Ja"), ("", ""), ("No", "Nein"), ("", ""), times=30),
    "questions": repeated(("Question", "Frage"), ("Answer", "Antwort"), times=50),
    "a table": repeated(("Name", "Bezeichnung"), ("Price", "Preis"), times=50),
    "weekdays": repeated(*DAYS, times=100),
    "floors": ([f"Floor {n}" for n in range(1, 80)], [f"{n - 1}. Stock" for n in range(1, 80)]),
    "ages": ([f"In his {n}th year" for n in range(1, 200)], [f"Mit {n - 1} Jahren" for n in range(1, 200)]),
    "every second line": (
        [line for n in range(1, 80) for line in (f"Floor {n}", "Rooms")],
        [line for n in range(1, 80) for line in (f"{n - 1}. Stock", "Zimmer")],
    ),
    "by tens": ([f"up to {n} %" for n in range(10, 990, 10)], [f"ab {n - 10} %" for n in range(10, 990, 10)]),
}


@pytest.mark.parametrize("name", PERIODIC)
@pytest.mark.filterwarnings("error")
def test_lines_that_come_again_or_are_numbered_have_no_shift(name):
    """Each combination of lines counts once; numerals that count the lines say nothing of them."""
    sources, targets = PERIODIC[name]
    assert shifts(sources, targets) == []
    assert shifts(targets, sources) == []


@pytest.mark.filterwarnings("error")
def test_rounding_is_no_sign_of_a_shift():
    """Differences of the size of rounding, all of one sign, or none; 30 small ones that are real are a sign."""
    assert [_certainty(np.full(30, size)) for size in (1e-16, 0.0, -1.0)] == [0, 0, 0]
    assert _certainty(np.full(30, 1e-3)) == pytest.approx(15)


def test_numbered_lines_show_a_shift_by_their_words():
    sources = [f"{row}. {line}" for row, line in enumerate(SOURCES[:300])]
    targets = [f"{row}. {line}" for row, line in enumerate(shifted(TARGETS[:300], 1))]
    [found] = shifts(sources, targets)
    assert found["offset"] == 1


def test_texts_in_another_order_are_unrelated():
    drawn = Random(6)
    mixed = drawn.sample(TARGETS, len(TARGETS))
    for count in (ENOUGH, 1000):
        assert not unrelated(TARGETS[:count], TARGETS[:count])
        assert unrelated(TARGETS[:count], mixed[:count])
        assert unrelated(TARGETS[:count], TARGETS[:count][::-1])
    assert not unrelated(TARGETS[: ENOUGH - 1], mixed[: ENOUGH - 1])
    assert not unrelated(TARGETS, [*mixed[:490], *["the same"] * 510]), "most targets are the same"
    assert unrelated(TARGETS, [*mixed[:510], *["the same"] * 490])


def test_characters_tell_the_order_of_text_without_blanks():
    """Lines of one length, so that only their letters differ."""
    drawn = Random(7)
    lines = ["".join(drawn.choices("一二三四五六七八九十百千万円年月日人", k=12)) for _ in range(200)]
    poor = ["".join(letter if drawn.random() < 0.6 else "火" for letter in line) for line in lines]
    assert not unrelated(lines, poor)
    assert unrelated(lines, poor[::-1])


def test_lines_that_say_nothing_have_no_shift():
    """Unrelated, equal, blank and few lines; lines in the order of their lengths; no rounding makes one of them."""
    drawn = Random(1)
    mixed = drawn.sample(TARGETS, len(TARGETS))
    by_length = sorted(PAIRS, key=lambda pair: len(pair.source))
    for sources, targets in (
        (SOURCES, TARGETS), (SOURCES, mixed), (SOURCES[:300], [TARGETS[0]] * 300), (["a"] * 300, ["b"] * 300),
        (SOURCES, [""] * 1000), (SOURCES[:5], TARGETS[1:6]), (SOURCES[:1], TARGETS[:1]), (SOURCES, SOURCES),
        ([pair.source for pair in by_length], [pair.target for pair in by_length]),
        ([pair.source for pair in PAIRS for _ in (0, 1)], [pair.target for pair in PAIRS for _ in (0, 1)]),
    ):  # fmt: skip
        assert shifts(sources, targets) == []


def test_unrelated_lines_seldom_have_a_shift():
    """`ALARM` of the texts at most; here are 400."""
    drawn = Random(2)
    found = [shifts(drawn.choices(SOURCES, k=60), drawn.choices(TARGETS, k=60)) for _ in range(400)]
    assert sum(map(bool, found)) <= 2


WORDS = {
    "numerals": ("0123456789", "０１２３４５６７８９"),
    "other numerals": ("0123456789", "٠١٢٣٤٥٦٧٨٩"),
    "names": ("ABCDEFGHIJ", "abcdefghij"),
    "wide names": ("ABCDEFGHIJ", "ＡＢＣＤＥＦＧＨＩＪ"),
}


@pytest.mark.parametrize("name", WORDS)
def test_copied_words_alone_show_a_shift(name):
    """Numerals and names, also between Japanese letters without blanks; equal lengths say nothing here."""
    drawn = Random(3)
    one, other = WORDS[name]
    words = ["".join(drawn.choices(one, k=6)) for _ in range(200)]
    sources = [f"die Zahl {word}" for word in words]
    targets = [f"数は{word.translate(str.maketrans(one, other))}です" for word in words]
    assert shifts(sources, targets) == []
    [found] = shifts(sources, shifted(targets, 1))
    assert found["offset"] == 1


def test_lengths_alone_show_a_shift():
    drawn = Random(4)
    counts = [drawn.randint(1, 20) for _ in range(200)]
    [found] = shifts(["wort " * count for count in counts], shifted(["слово " * count for count in counts], 1))
    assert found["offset"] == 1


def write(folder, sources, targets, form):
    """The files of a corpus, as `corpus_files` gives them."""
    texts = {"source": sources, "target": targets}
    if form == "tsv":
        texts = {"tsv": [f"{source}\t{target}\tdocument" for source, target in zip(sources, targets, strict=True)]}
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(form, open)
    for name, lines in texts.items():
        with opened(folder / f"{name}{form}", "wt", encoding="utf-8", newline="\n") as file:
            file.write("\n".join(lines))
    return {name: TextFile(name, folder / f"{name}{form}") for name in texts}


@pytest.mark.parametrize("form", ["", ".gz", ".xz", "tsv"])
def test_files_of_every_form(tmp_path, form):
    assert shifts_of(write(tmp_path, SOURCES, TARGETS, form), 1000) == []
    found = shifts_of(write(tmp_path, SOURCES, shifted(TARGETS, 1, 400), form), 1000)
    assert found == shifts(SOURCES, shifted(TARGETS, 1, 400))
    assert [shift["offset"] for shift in found] == [1]


def test_blank_lines_stand_for_lines(tmp_path):
    """Two of five targets are blank, which `data.accept` allows; the places are those of the file."""
    targets = ["" if row % 5 in (0, 2) else line for row, line in enumerate(shifted(TARGETS, 1, 400))]
    for form in ("", "tsv"):
        [found] = shifts_of(write(tmp_path, SOURCES, targets, form), 1000)
        assert found["offset"] == 1
        assert is_near(found["first"], 401)


@pytest.mark.parametrize("count", [SAMPLE, SAMPLE + 1, 12 * SAMPLE])
def test_a_sample_of_a_long_text_shows_the_place(tmp_path, count):
    """Its ends are found between the lines of the sample; copies of the pairs stand in another order."""
    drawn = Random(count)
    rows = [drawn.randrange(1000) for _ in range(count)]
    sources, targets = [SOURCES[row] for row in rows], [TARGETS[row] for row in rows]
    first, last = count * 3 // 10 + 7, count * 8 // 10 + 3
    files = write(tmp_path, sources, targets, "")
    assert shifts_of(files, count) == []
    for end in (None, last):
        [found] = shifts_of(write(tmp_path, sources, shifted(targets, -1, first, end), ""), count)
        assert found["offset"] == -1
        assert is_near(found["first"], first + 1)
        assert is_near(found["last"], end)
    [found] = shifts_of(write(tmp_path, sources, shifted(targets, 2), ""), count)
    assert found == {"offset": 2, "first": 1, "last": None}


def test_sentences_name_offset_and_lines():
    told = sentences([{"offset": 1, "first": 5211, "last": None}], "target", "source")
    assert len(told) == 1
    assert "from about line 5,211 on" in told[0]
    assert "(offset +1): line n of the source fits line n + 1 of the target" in told[0]
    told = sentences([{"offset": -2, "first": 1, "last": None}], "target", "source")
    assert "in the whole text" in told[0]
    assert "(offset -2): line n of the source fits line n - 2 of the target" in told[0]
    told = sentences([{"offset": None, "first": 301, "last": 620}], "target", "source")
    assert len(told) == 1
    assert "from about line 301 to 620" in told[0]
    assert "no offset from -5 to +5" in told[0]
    many = [{"offset": 1, "first": 100 * number + 1, "last": 100 * number + 60} for number in range(8)]
    told = sentences(many, "target", "source")
    assert ["line 1 to 60" in told[0], "line 101 to 160" in told[1], told[NAMED][:1]] == [True, True, "5"]
    assert len(told) == NAMED + 1


def real():
    """A part of each kind of each real corpus, in every pair of its languages."""
    for folder in sorted(path for path in SHARED.glob("*") if path.is_dir()):
        stems = {}
        for path in folder.glob("*"):
            stem, _, language = path.name.removesuffix(".xz").rpartition(".")
            if language in ("de", "en", "ja", "zh") and stem not in ("train", "test_long"):
                stems.setdefault(stem, {})[language] = path
        for stem, sides in sorted(stems.items()):
            for pair in combinations(sorted(sides), 2):
                yield f"{folder.name}/{stem}.{'-'.join(pair)}", [sides[language] for language in pair]


REAL = dict(real())


@pytest.mark.parametrize("name", REAL or [pytest.param(None, marks=pytest.mark.skip(reason=missing("")))])
def test_real_corpora(name):
    """No part is shifted; half of it is found to be if it is."""
    sources, targets = (path.read_bytes().decode().split("\n")[:2000] for path in REAL[name])
    assert shifts(sources, targets) == []
    assert shifts(targets, sources) == []
    if len(sources) < 1000:
        return
    for offset in OFFSETS:
        [found] = shifts(sources, shifted(targets, offset, len(targets) // 2))
        assert found["offset"] == offset
        assert abs(found["first"] - len(targets) // 2) <= 20
        assert found["last"] is None
