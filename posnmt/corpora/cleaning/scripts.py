"""The script in which a text is expected to be written, and the share of its letters that are in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import regex

from posnmt.base.errors import refuse_unknown
from posnmt.config.writing import writing

SCRIPTS = {
    "Arab": "Arabic", "Armn": "Armenian", "Beng": "Bengali", "Cyrl": "Cyrillic", "Deva": "Devanagari",
    "Ethi": "Ethiopic", "Geor": "Georgian", "Grek": "Greek", "Gujr": "Gujarati", "Guru": "Gurmukhi", "Hani": "Han",
    "Hang": "Hangul", "Hebr": "Hebrew", "Khmr": "Khmer", "Knda": "Kannada", "Laoo": "Lao", "Latn": "Latin",
    "Mlym": "Malayalam", "Mong": "Mongolian", "Mymr": "Myanmar", "Nkoo": "Nko", "Olck": "Ol_Chiki", "Orya": "Oriya",
    "Sinh": "Sinhala", "Taml": "Tamil", "Telu": "Telugu", "Tfng": "Tifinagh", "Thaa": "Thaana", "Thai": "Thai",
    "Tibt": "Tibetan",
}  # fmt: skip
"""Codes of ISO 15924 -> Unicode's name of the script."""

MIXED = {"Jpan": "Han Hiragana Katakana", "Kore": "Hangul Han", "Hans": "Han", "Hant": "Han"}
"""Codes of writing systems that combine scripts, or are a form of one -> Unicode's names of these scripts."""

_LANGUAGES = {
    "Arab": "ar fa ps sd ug ur ckb", "Armn": "hy", "Beng": "as bn", "Cyrl": "be bg kk ky mk ru tg tt uk",
    "Deva": "hi mr ne sa", "Ethi": "am ti", "Geor": "ka", "Grek": "el", "Gujr": "gu", "Guru": "pa", "Hani": "zh",
    "Hebr": "he yi", "Jpan": "ja", "Khmr": "km", "Knda": "kn", "Kore": "ko", "Laoo": "lo", "Mlym": "ml", "Mymr": "my",
    "Orya": "or", "Sinh": "si", "Taml": "ta", "Telu": "te", "Thaa": "dv", "Thai": "th", "Tibt": "bo dz",
}  # fmt: skip
"""Script -> languages that are written in no other. For other languages the text decides."""

_LETTER = regex.compile(r"\p{Alphabetic}")


@dataclass(frozen=True)
class Script:
    """The script in which a text is expected to be written.

    Attributes:
        code: its code in ISO 15924.
    """

    code: str

    def __post_init__(self) -> None:
        refuse_unknown(self.code, [*SCRIPTS, *MIXED], "script")

    @property
    def names(self) -> list[str]:
        """The names that Unicode gives to the scripts of this writing system."""
        return MIXED[self.code].split() if self.code in MIXED else [SCRIPTS[self.code]]

    @cached_property
    def _own(self) -> regex.Pattern[str]:
        own = "".join(rf"\p{{Script={name}}}" for name in self.names)
        # the long vowel sign belongs to both kana, so that Unicode calls it common
        return regex.compile(rf"(?=\p{{Alphabetic}})[{own}{'ーｰ' * (self.code == 'Jpan')}]")

    def share(self, text: str) -> float:
        """The share of a text's letters that are in the script; 1 if it has no letters."""
        letters = len(_LETTER.findall(text))
        return len(self._own.findall(text)) / letters if letters else 1.0


def script_of(language: str | None, lines: Sequence[str]) -> Script | None:
    """The script of a text: that of its language if the language has only one, else that of most of its letters.

    Args:
        language: a code such as `ru`, `zh-Hant` or `srp_Cyrl`.
        lines: lines of the text.

    Returns:
        The script; None if no letter of the lines has a known script.
    """
    first, *rest = re.split("[-_]", language or "")
    named = [part.title() for part in rest if len(part) == 4]
    known = named or [code for code, languages in _LANGUAGES.items() if first.lower() in languages.split()]
    if known:
        return Script(known[0])
    if writing(lines).language == "japanese":
        return Script("Jpan")
    text = "".join(lines)
    counts = {code: len(regex.findall(rf"\p{{Script={name}}}", text)) for code, name in SCRIPTS.items()}
    most = max(counts, key=counts.__getitem__)
    return Script("Kore" if most == "Hang" else most) if counts[most] else None
