"""Counts what encoding and decoding change in the text of a side of a corpus, with examples.

Decoding should restore the text. It does not if normalisation replaces characters, if the vocabulary lacks them, or if
the inverse of a tokeniser sets other blanks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from posnmt.data.subword import BLANK
from posnmt.data.text import SideText

COMPARED = 100
"""The most changed lines of a chunk whose characters are compared, for examples."""

SHOWN = 5
"""The most replacements that are named."""

UNKNOWN = "⁇"
"""The text that SentencePiece writes for an unknown subword."""

LEARNED = ("subword.character_coverage", "subword.byte_fallback")
"""The settings that decide which characters are known, where subwords are learned."""

_BLANKS = re.compile(" +")
_NAMED = {"": "nothing", " ": "a space"}


@dataclass
class Restored:
    """The lines of a side that encoding and decoding change.

    Attributes:
        compared: lines that were encoded and decoded.
        changed: of these, lines with other characters.
        blanks: of these, lines that differ in plain blanks alone. Runs of blanks, which every setting collapses, and
            blanks at the ends of a line do not count.
        replaced: (characters, their replacement) → number of lines, among those whose characters were compared.
    """

    compared: int = 0
    changed: int = 0
    blanks: int = 0
    replaced: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, part: Restored) -> None:
        """Add the counts of other lines."""
        self.compared += part.compared
        self.changed += part.changed
        self.blanks += part.blanks
        self.replaced.update(part.replaced)

    def manifest(self) -> dict[str, Any]:
        """The counts in the form of the manifest, with the most frequent replacements."""
        examples = [[before, after, lines] for (before, after), lines in self.replaced.most_common(SHOWN)]
        counts = {"compared": self.compared, "changed": self.changed, "blanks_changed": self.blanks}
        return counts | ({"replaced": examples} if examples else {})


def compare(side: SideText, texts: Sequence[str], rows: Sequence[Sequence[int]]) -> Restored:
    """Compare lines of a side with the texts that their subwords decode to."""
    result = Restored(len(texts))
    plain = [_BLANKS.sub(" ", text).strip(" ") for text in texts]
    for before, after in zip(plain, side.decode(rows), strict=True):
        if before == after:
            continue
        if before.replace(" ", "") == after.replace(" ", ""):
            result.blanks += 1
            continue
        result.changed += 1
        if result.changed <= COMPARED:
            result.replaced.update(set(replacements(before, after)))
    return result


def replacements(before: str, after: str) -> list[tuple[str, str]]:
    """The characters of a text that differ in another text, each with its replacement.

    Differences in plain blanks are left out.
    """
    places = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    pairs = [(before[a:b], after[c:d]) for kind, a, b, c, d in places if kind != "equal"]
    return [(old.strip(" "), new if old.strip(" ") else new.strip(" ")) for old, new in pairs if (old + new).strip(" ")]


def settings_of(side: SideText, before: str, after: str) -> list[str]:
    """The settings that replace some characters of a side: each step of its text pipeline is tried alone.

    Args:
        before: characters of a text.
        after: their replacement.
    """
    text = f"a{before}a"
    if UNKNOWN in after or (side.reads_forms and side.subwords.readable(text) != text):
        return [*LEARNED]
    normalised = side.subwords.normalised(text).replace(BLANK, " ")
    causes = ["subword.normalisation"] if before not in normalised else []
    if before not in side.words.join(side.words.split(text)):
        causes.append("data.tokenise")
    return causes or ["data.truecase" if before.casefold() == after.casefold() else "data.tokenise"]


def shown(text: str) -> str:
    """Characters for a message: as they are if they are visible, else by their code points, or "unknown"."""
    if UNKNOWN in text:
        return "unknown"
    if text in _NAMED:
        return _NAMED[text]
    return "".join(sign if sign.isprintable() and sign.strip() else f"U+{ord(sign):04X}" for sign in text)
