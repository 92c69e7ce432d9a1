"""Forms of characters: what a model reads in place of a character that its vocabulary lacks.

Such a character would be unknown to the model. Another form of it often is known: `fi` for the ligature `ﬁ`, `A` for
the full-width `Ａ`, a blank for a no-break space. Forms that mean something else are no forms: `2` does not stand for
`²`. Invisible marks, such as the soft hyphen, are left out.
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
"""Control characters and separators of lines → a blank, where they separate, or nothing."""

_VISIBLE = regex.compile(r"[^\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\p{Z}]")
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}]")

_OTHER_MEANING = ("<super>", "<sub>", "<fraction>", "<circle>")
"""Tags of Unicode's decompositions under which a character means something else: `²` is no `2`."""

_SIGNS = {
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "′": "'", "“": '"', "”": '"', "„": '"', "‟": '"', "″": '"',
    "«": '"', "»": '"', "‹": "'", "›": "'", "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "―": "-", "−": "-",
}  # fmt: skip
"""Quotation marks and dashes → the plain sign."""


def is_visible(text: str) -> bool:
    """Whether a text has more than white space and invisible marks."""
    return _VISIBLE.search(text) is not None


class Forms(dict[int, str]):
    """For `str.translate`: each character, or a form of it that is known where it is not.

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
    """Other forms of a character, the nearest first; the empty form is known to every model."""
    if sign.isspace():
        return [" "]
    if _INVISIBLE.match(sign):
        return [""]
    form = unicodedata.normalize("NFC", "".join(map(_decomposed, sign)))
    forms = [] if form == sign or " " in form else [form]
    return [*forms, *(_SIGNS[each] for each in (form, sign) if each in _SIGNS)]


def _decomposed(sign: str) -> str:
    """A character in its parts, as far as they mean the same: `㎡` is `m²`."""
    tag, *codes = unicodedata.decomposition(sign).split() or [""]
    if not tag.startswith("<"):
        codes = [tag, *codes] if tag else []
    if not codes or tag in _OTHER_MEANING:
        return sign
    return "".join(_decomposed(chr(int(code, 16))) for code in codes)
