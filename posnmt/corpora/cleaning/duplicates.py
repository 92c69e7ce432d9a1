"""Pairs that repeat an earlier pair, exactly or except for blanks, punctuation and case, or that repeat its source."""

from __future__ import annotations

import hashlib
import unicodedata
from array import array
from collections.abc import Callable
from typing import Literal

import regex

from posnmt.corpora.cleaning.rules import Pair

Compare = Literal["near", "exact", "keep"]

_SIGNS = regex.compile(r"[^\p{L}\p{M}\p{N}]+")

REASONS = ("duplicate", "near-duplicate", "same source")


def same(text: str) -> str:
    """The form in which near-duplicates are equal: letters, marks and digits in lower case, in Unicode's NFKC."""
    return _SIGNS.sub("", unicodedata.normalize("NFKC", text).lower())


class Duplicates:
    """Finds pairs that repeat an earlier one, and remembers the others, with about 150 bytes of memory for each.

    Args:
        compare: which duplicates to find: `near`, `exact`, or none (`keep`).
        one_target: whether to find pairs whose source is in an earlier pair as well.
    """

    def __init__(self, compare: Compare, one_target: bool) -> None:
        self.compare, self.one_target = compare, one_target
        self._key: Callable[[str], str] = same if compare == "near" else str
        self._pairs: dict[bytes, int] = {}
        self._sources: dict[bytes, int] = {}
        self._numbers, self._texts = array("Q"), array("Q")

    def __call__(self, number: int, pair: Pair) -> tuple[str, int] | None:
        """The reason to drop a pair, and the number of the pair that it repeats; None if it repeats none.

        Args:
            number: the number of this pair, which is returned for later pairs that repeat it.
            pair: source and target.
        """
        keys = [self._key(text) for text in pair]
        text = int.from_bytes(_digest(*pair)[:8], "big")
        both = None if self.compare == "keep" else _digest(*keys)
        source = _digest(keys[0]) if self.one_target else None
        if both is not None and (first := self._pairs.get(both)) is not None:
            return REASONS[self._texts[first] != text], self._numbers[first]
        if source is not None and (first := self._sources.get(source)) is not None:
            return REASONS[2], self._numbers[first]
        if both is not None:
            self._pairs[both] = len(self._numbers)
        if source is not None:
            self._sources[source] = len(self._numbers)
        self._numbers.append(number)
        self._texts.append(text)
        return None


def _digest(*texts: str) -> bytes:
    """A hash of 16 bytes, in which collisions are negligible."""
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=16).digest()
