"""The sentences and words of a line in any script, and which words carry content, without a list of any language.

A word is a run of letters or digits. Each Chinese character or hiragana is a word; so is a run of katakana; other
scripts without blanks are cut into overlapping pairs of characters. Words are compared by their forms: without case and
accents, and only their first letters, so that inflections of a word mostly have the same form.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

from posnmt.translate.sentences import sentences

LETTERS = 4
"""Number of first letters in a form; chosen on artificial deletions by benchmarks/completeness.py."""

FUNCTION_SHARE = 0.2
"""The share of a text's words that are function words, its most frequent forms; chosen in the same way."""

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
        form: see above; words with the same form are equal.
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
    """The first letters of a word, without case and accents; numbers are kept whole."""
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


@dataclass(frozen=True)
class Line:
    """A line of text.

    Attributes:
        sentences: of which it consists; joined, they are the line. A line without words has none.
        forms: of its words.
        starts: the first character of each word.
        ends: for each sentence, the number of words up to its end.
    """

    sentences: list[str]
    forms: list[str]
    starts: list[int]
    ends: list[int]

    @property
    def parts(self) -> list[slice]:
        """Return a slice of the words, `forms` and `starts`, for each sentence."""
        return [slice(*ends) for ends in pairwise([0, *self.ends])]


def split(text: str, language: str) -> Line:
    """The sentences and words of a line, by the rules of `posnmt.translate.sentences`.

    A piece without words, such as a quotation mark, belongs to the sentence before it; at the beginning to the first.
    """
    in_order = words(text)
    starts = [word.start for word in in_order]
    own: list[str] = []
    ends: list[int] = []
    pieces = sentences(text, language) if in_order else []
    for piece, limit in zip(pieces, accumulate(map(len, pieces)), strict=True):
        count = sum(at < limit for at in starts)
        if ends and count in (0, ends[-1]):
            own[-1] += piece
        elif ends and not ends[-1]:
            own[-1], ends[-1] = own[-1] + piece, count
        else:
            own, ends = [*own, piece], [*ends, count]
    return Line(own, [word.form for word in in_order], starts, ends)
