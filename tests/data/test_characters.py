"""No character is changed without a word: what a text pipeline does to every character of Unicode."""

from __future__ import annotations

import functools
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from posnmt.config.schema import Subword
from posnmt.data.prepare import changed, prepare
from posnmt.data.restored import compare, settings_of
from posnmt.data.subword import BLANK, UNK, Subwords
from posnmt.data.text import SideText, TextPipeline
from posnmt.data.tokenise import Words
from tests.support.prepare_case import configure, small_corpus, write

ASSIGNED = [
    chr(code)
    for code in range(1, 0x110000)
    if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs") and chr(code) != "\n"
]
"""Characters that a line of a text may have."""
CONTROLS = {sign for sign in ASSIGNED if unicodedata.category(sign) in ("Cc", "Zl", "Zp")}
RESERVED = {BLANK, "\u2585"}
"""Characters that SentencePiece uses for itself."""
NEEDED = [
    *"²³¹½¼¾…™№℃µ㎡①Ⅳﬁ",
    *"«»“”‘’„–—−·",
    *"\u00a0\u202f\u2009\u3000",
    *"\u200c\u200d",
    "é",
    "e\u0301",
    "ｱ",
    "！",
    "𝐀",
]
"""Characters that NFKC changes, spaces and joiners that a language needs, and other signs."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_corpus(tmp_path)


def block(first: int) -> list[str]:
    return ASSIGNED[first : first + 4000]


@functools.cache
def every_character_of(first: int) -> Subwords:
    """Subwords of a training text that has the characters of a block."""
    lines = [f"a{sign}b" for sign in block(first)]
    return Subwords.learn(lines, Subword(vocabulary=len(lines) + 3), "shared")


@functools.cache
def letters(byte_fallback: bool = False, normalisation: str = "identity") -> Subwords:
    settings = Subword(vocabulary=330, byte_fallback=byte_fallback, normalisation=normalisation)
    return Subwords.learn(
        [f"the cat {sign} sat {sign}" for sign in "abcdefghijklmnopqrstuvwxyzAKfi0123456789äö'\"-.,%m²"] * 5,
        settings.model_copy(update={"vocabulary": 330 if byte_fallback else 60}),
        "shared",
    )


def pipeline(subwords: Subwords) -> TextPipeline:
    return TextPipeline(SideText(Words("en"), subwords), SideText(Words("de"), subwords))


def restored(side: SideText, texts: list[str]) -> list[str]:
    return side.decode(side.encode(texts))


@pytest.mark.parametrize("first", range(0, len(ASSIGNED), 40_000))
def test_every_character_of_the_training_text_comes_back(first: int) -> None:
    """All but controls and SentencePiece's own signs, on both sides, by the default."""
    text, signs = pipeline(every_character_of(first)), block(first)
    lines = [f"a{sign}b" for sign in signs]
    for side in (text.source, text.target):
        lost = {sign for sign, line, again in zip(signs, lines, restored(side, lines), strict=True) if again != line}
        assert lost == (CONTROLS | RESERVED) & set(signs)


@pytest.mark.parametrize("normalisation", ["identity", "nmt_nfkc", "nfkc"])
def test_a_character_comes_back_or_is_counted(normalisation: str) -> None:
    side = pipeline(letters(normalisation=normalisation)).target
    for sign in [*ASSIGNED[:3000:7], *NEEDED]:
        line = f"a{sign}b"
        [row] = side.encode([line])
        counts = compare(side, [line], [row])
        assert counts.changed == (side.decode([row]) != [line]), hex(ord(sign[0]))


def test_byte_fallback_brings_back_every_character_of_a_target() -> None:
    side = pipeline(letters(byte_fallback=True)).target
    lines = [f"a{sign}b" for sign in ASSIGNED if sign not in CONTROLS | RESERVED][::5]
    assert restored(side, lines) == lines


@pytest.mark.parametrize(
    "line", ["10² = 100 et 10³ = 1000 .", "½ m² …", "Oui\u00a0! « non »", "می\u200cخواهم", "👩\u200d🔬"]
)
def test_a_target_keeps_what_its_language_needs(line: str) -> None:
    subwords = Subwords.learn([line] * 20, Subword(vocabulary=len(set(line)) + 2), "target")
    assert restored(pipeline(subwords).target, [line]) == [line]


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("ﬁ", "fi"), ("Ａ", "A"), ("K", "K"), ("a\u0308", "ä"), ("a\u00a0b", "a b"), ("a\u2009b", "a b"),
        ("“a”", '"a"'), ("a–b", "a-b"), ("a\u00adb", "ab"), ("a\u200db", "ab"), ("a\u202bb\u202c", "ab"),
        ("a\x85b", "a b"), ("㎡", "m²"),
    ],
)  # fmt: skip
def test_a_source_is_read_in_other_forms_of_characters_that_the_vocabulary_lacks(source: str, read: str) -> None:
    text = pipeline(letters())
    assert text.source.encode([source]) == text.source.encode([read])
    assert UNK not in text.source.encode([source])[0]


@pytest.mark.parametrize("sign", [*"³½①⁴₂", "☃", "漢"])
def test_a_character_with_another_meaning_is_no_form(sign: str) -> None:
    text = pipeline(letters())
    assert UNK in text.source.encode([f"10{sign}"])[0]
    assert letters().unknown(f"a 10{sign} b") == [sign]


@pytest.mark.parametrize("sign", ["\t", "\x0b", "\x0c", "\x1c", "\x1f", "\x85", "\u2028", "\u2029", "\r"])
@pytest.mark.parametrize("normalisation", ["identity", "nmt_nfkc", "nfkc"])
def test_what_ends_a_line_or_a_column_is_never_written(sign: str, normalisation: str) -> None:
    subwords = Subwords.learn([f"a{sign}b {sign}"] * 9, Subword(vocabulary=4, normalisation=normalisation), "shared")
    every_entry = list(range(len(subwords)))
    assert len(subwords.decode([every_entry])[0].splitlines()) == 1
    assert "\t" not in subwords.decode([every_entry])[0]
    if normalisation == "identity":  # the others are SentencePiece's, which leave some controls out
        assert subwords.decode(subwords.encode([f"a{sign}b"])) == ["a b"]


def test_prepare_counts_lines_that_change_and_shows_what(folder: Path) -> None:
    write(folder, "train.de", [f"10² = {number} m\u00a0x…" for number in range(300)])
    kept, normal = (
        prepare(configure(folder, {"vocabulary": 40, "normalisation": rule})) for rule in ("identity", "nfkc")
    )
    assert [kept.manifest["splits"]["train"]["target"][name] for name in ("compared", "changed")] == [300, 0]
    counts = normal.manifest["splits"]["train"]["target"]
    assert (counts["compared"], counts["changed"], counts["unknown"]) == (300, 300, 0)
    assert {(before, after) for before, after, _ in counts["replaced"]} == {("²", "2"), ("\u00a0", " "), ("…", "...")}
    assert changed(kept) == []
    [warning] = changed(normal)
    assert warning.startswith("warning: ")


@pytest.mark.parametrize(
    ("subword", "data", "line", "example", "settings"),
    [
        ({"normalisation": "nfkc"}, {}, "10²", "² becomes 2", ["subword.normalisation"]),
        ({}, {"tokenise": "moses"}, "a\u00a0b", "U+00A0 becomes a space", ["data.tokenise"]),
        ({"normalisation": "nfkc"}, {"tokenise": "moses"}, "a\u00a0b", "U+00A0 becomes a space",
         ["subword.normalisation", "data.tokenise"]),
        ({"character_coverage": 0.98}, {}, "a", "9 becomes unknown",
         ["subword.character_coverage", "subword.byte_fallback"]),
    ],
)  # fmt: skip
def test_the_sentence_names_the_settings_that_change_characters(
    folder: Path, subword: dict[str, Any], data: dict[str, Any], line: str, example: str, settings: list[str]
) -> None:
    usual = (folder / "train.de").read_text(encoding="utf-8").splitlines()
    write(folder, "train.de", [*usual[:-5], *5 * [line]])
    store = prepare(configure(folder, {"vocabulary": 90, "shared": False, **subword}, **data))
    [sentence] = [each for each in changed(store) if "target lines" in each]
    examples, _, named = sentence.partition("(")[2].partition("); see ")
    assert example in examples.split(", ")
    assert named.split(", ") == settings


def test_where_subwords_are_taken_over_the_sentence_names_what_adds_characters(folder: Path) -> None:
    before = prepare(configure(folder, {"vocabulary": 90}))
    usual = (folder / "train.de").read_text(encoding="utf-8").splitlines()
    write(folder, "train.de", [*usual[:-5], *5 * ["漢"]])
    taken = {"text": str(before.folder / "text")}
    [kept] = changed(prepare(configure(folder, taken)))
    assert kept.endswith("(漢 becomes unknown); see subword.pieces: extended")
    assert changed(prepare(configure(folder, {**taken, "pieces": "extended"}))) == []
    [rare] = changed(prepare(configure(folder, {**taken, "pieces": "extended", "character_coverage": 0.98})))
    assert rare.endswith("(漢 becomes unknown); see subword.character_coverage")


def test_the_settings_of_a_source_that_is_read_in_other_forms() -> None:
    text = pipeline(letters())
    assert settings_of(text.source, "ﬁ", "fi")[0] == "subword.character_coverage"
    assert settings_of(text.source, "▁", " ") == ["subword.normalisation"]
    assert letters(byte_fallback=True).encode(["ﬁ"]) != text.source.encode(["fi"])
    spelled = pipeline(letters(byte_fallback=True))
    assert spelled.source.encode(["ﬁ☃"]) == spelled.source.encode(["fi☃"]) != spelled.target.encode(["ﬁ☃"])


def test_a_pair_with_a_side_of_invisible_marks_is_dropped(folder: Path) -> None:
    lines = (folder / "train.de").read_text(encoding="utf-8").splitlines()
    write(folder, "train.de", [*lines[:-3], "\u00ad", "\u200d\u200b", "\u202b \u202c"])
    split = prepare(configure(folder)).manifest["splits"]["train"]
    assert split["dropped"]["no subwords"] == 3
