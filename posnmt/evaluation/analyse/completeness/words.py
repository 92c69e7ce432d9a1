"""The words of a text in any script, and which of them carry content, without a list of any language.

A word is a run of letters or digits. Chinese characters and hiragana are words of one character, katakana are words by
their runs, and other scripts without blanks are cut into overlapping pairs of characters. Words are compared by their
form: without case and accents, and cut behind the first letters, so that inflected forms of a word are mostly one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

LETTERS = 4
"""Letters of a word that count; chosen on made deletions by benchmarks/completeness.py."""

FUNCTION_SHARE = 0.2
"""The share of all words of a text that its most frequent forms make up, the function words; likewise."""

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = "\u3041-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_UNSPACED = "\u0e01-\u0e5b\u0e81-\u0edf\u0f00-\u0fff\u1000-\u109f\uaa60-\uaa7f\u1780-\u17ff"
_WORD = re.compile(
    rf"(?P<character>[{_HAN}{_HIRAGANA}])|[{_KATAKANA}]+|(?P<unspaced>[{_UNSPACED}]+)"
    rf"|(?:(?![{_HAN}{_HIRAGANA}{_KATAKANA}{_UNSPACED}])[^\W_])+"
)


@dataclass(frozen=True)
class Word:
    """A word of a text.

    Attributes:
        form: by which words are compared.
        start: its first character, counted from 0.
    """

    form: str
    start: int


def words(text: str) -> list[Word]:
    """The words of a text, in order."""
    in_order = []
    for match in _WORD.finditer(text):
        if match["unspaced"]:
            run = match[0]
            in_order += [Word(run[at : at + 2], match.start() + at) for at in range(max(1, len(run) - 1))]
        else:
            in_order.append(Word(form(match[0]), match.start()))
    return in_order


@lru_cache(maxsize=2**17)
def form(word: str) -> str:
    """A word without case, accents and all but its first letters; a number is whole."""
    plain = unicodedata.normalize("NFKD", word.casefold())
    if any(map(str.isdigit, plain)):
        return plain
    bare = "".join(letter for letter in plain if not unicodedata.combining(letter)) or plain
    return bare[:LETTERS]


def function_words(texts: Iterable[Sequence[str]], share: float = FUNCTION_SHARE) -> frozenset[str]:
    """The most frequent forms of a text that together make up at most a share of its words.

    Args:
        texts: the forms of each line.
    """
    counts = Counter(each for forms in texts for each in forms)
    left = share * counts.total()
    chosen = []
    for each, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        left -= count
        if left < 0:
            break
        chosen.append(each)
    return frozenset(chosen)
