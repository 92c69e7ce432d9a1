"""Other forms of characters, which a model reads in place of characters that its vocabulary lacks.

Such a character would be unknown to the model, but often another form of it is known: `fi` for the ligature `ﬁ`, `A`
for the full-width `Ａ`, a blank for a no-break space. A form must have the same meaning: `2` does not stand for `²`.
Invisible marks, such as the soft hyphen, are left out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import regex

CONTROLS = {
    code: " " if chr(code).isspace() else ""
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
    if chr(code) not in "\0\n"
}
"""Control characters and line separators → a blank, if they are white space, or nothing."""

_VISIBLE = regex.compile(r"[^\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\p{Z}]")
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}]")

_OTHER_MEANING = ("<super>", "<sub>", "<fraction>", "<circle>")
"""Tags of decompositions in Unicode that change the meaning: `²` is not `2`."""

_SIGNS = {
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "′": "'", "“": '"', "”": '"', "„": '"', "‟": '"', "″": '"',
    "«": '"', "»": '"', "‹": "'", "›": "'", "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "―": "-", "−": "-",
}  # fmt: skip
"""Quotation marks and dashes → the plain sign."""


def is_visible(text: str) -> bool:
    """Whether a text has more than white space and invisible marks."""
    return _VISIBLE.search(text) is not None


class Forms(dict[int, str]):
    """A table for `str.translate`: each known character stays; an unknown one becomes the nearest known form, if any.

    Args:
        knows: whether every character of a text is in the vocabulary.
    """

    def __init__(self, knows: Callable[[str], bool]) -> None:
        super().__init__()
        self._knows = knows

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        self[code] = sign if self._knows(sign) else next(filter(self._knows, _forms(sign)), sign)
        return self[code]


def _forms(sign: str) -> list[str]:
    """Other forms of a character, the nearest first; the empty form counts as known."""
    if sign.isspace():
        return [" "]
    if _INVISIBLE.match(sign):
        return [""]
    form = unicodedata.normalize("NFC", "".join(map(_decomposed, sign)))
    forms = [] if form == sign or " " in form else [form]
    return [*forms, *(_SIGNS[each] for each in (form, sign) if each in _SIGNS)]


def _decomposed(sign: str) -> str:
    """A character decomposed into parts of the same meaning: `㎡` becomes `m²`."""
    tag, *codes = unicodedata.decomposition(sign).split() or [""]
    if not tag.startswith("<"):
        codes = [tag, *codes] if tag else []
    if not codes or tag in _OTHER_MEANING:
        return sign
    return "".join(_decomposed(chr(int(code, 16))) for code in codes)
