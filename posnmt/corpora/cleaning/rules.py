"""The rules by which a single pair is dropped, each with OpusFilter's filter that drops the same pairs.

A rule is called with both sides of a pair, and returns the detail that is noted of a pair that it drops, or None.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import regex

from posnmt.corpora.cleaning.scripts import Script

Pair = tuple[str, str]
"""Source and target."""

NAMES = ("source", "target")


class Rule(ABC):
    """A reason to drop a pair."""

    reason: ClassVar[str]

    @abstractmethod
    def __call__(self, pair: Pair) -> str | None:
        """What is noted of a pair that is dropped, perhaps nothing; None of one that is kept."""

    @abstractmethod
    def opusfilter(self) -> dict[str, Any] | None:
        """OpusFilter's filter with its parameters; None where it has none."""

    def beyond_opusfilter(self) -> str | None:
        """A sentence about what OpusFilter's filter does not do."""
        return None


@dataclass(frozen=True)
class Damaged(Rule):
    """A control character, or the sign for what could not be decoded, which also stands for bytes that are not UTF-8.

    Tabs are kept.
    """

    reason: ClassVar[str] = "damaged characters"
    _CHARACTERS: ClassVar[str] = r"[\x00-\x08\x0A-\x1F\x7F-\x9F\uFFFD]"
    _damage: ClassVar[re.Pattern[str]] = re.compile(_CHARACTERS)

    def __call__(self, pair: Pair) -> str | None:
        """The first such character."""
        for name, text in zip(NAMES, pair, strict=True):
            if each := self._damage.search(text):
                return f"{name}: U+{ord(each[0]):04X}"
        return None

    def opusfilter(self) -> dict[str, Any]:
        """Its filter."""
        return {"RegExpFilter": {"regexps": self._CHARACTERS, "accept_match": False}}


@dataclass(frozen=True)
class Empty(Rule):
    """A side of nothing but blanks and invisible characters."""

    reason: ClassVar[str] = "empty"
    _NOTHING: ClassVar[str] = r"^[\s\p{Cf}]*$"
    _is_nothing: ClassVar[regex.Pattern[str]] = regex.compile(_NOTHING)

    def __call__(self, pair: Pair) -> str | None:
        """Which side."""
        sides = [name for name, text in zip(NAMES, pair, strict=True) if self._is_nothing.search(text)]
        return " and ".join(sides) if sides else None

    def opusfilter(self) -> dict[str, Any]:
        """Its filter."""
        return {"RegExpFilter": {"regexps": self._NOTHING, "accept_match": False}}


@dataclass(frozen=True)
class Copied(Rule):
    """Sides that are equal but for upper and lower case."""

    reason: ClassVar[str] = "copy"

    def __call__(self, pair: Pair) -> str | None:
        """Nothing to note."""
        source, target = (text.strip().lower() for text in pair)
        return "" if source == target and source else None  # empty ones are for `Empty` to say

    def opusfilter(self) -> dict[str, Any]:
        """Its filter."""
        return {"SimilarityFilter": {"threshold": 1, "lowercase": True}}


@dataclass(frozen=True)
class Length(Rule):
    """A side of too few or too many characters.

    Attributes:
        least, most: characters; None: no limit.
    """

    least: int | None
    most: int | None
    reason: ClassVar[str] = "length"

    def __call__(self, pair: Pair) -> str | None:
        """The first such side with its characters."""
        for name, text in zip(NAMES, pair, strict=True):
            length = len(text.strip())
            if length < (self.least or 0) or (self.most is not None and length > self.most):
                return f"{name}: {length}"
        return None

    def opusfilter(self) -> dict[str, Any]:
        """Its filter."""
        most = float("inf") if self.most is None else self.most
        return {"LengthFilter": {"min_length": self.least or 0, "max_length": most, "unit": "char"}}


@dataclass(frozen=True)
class Ratio(Rule):
    """A side with many times the other's characters.

    Attributes:
        limit: from which on a pair is dropped.
        expected: characters of a target for each of its source; 1 but between writings of which one has no blanks.
    """

    limit: float
    expected: float = 1.0
    reason: ClassVar[str] = "length ratio"

    def __call__(self, pair: Pair) -> str | None:
        """The ratio."""
        source, target = (len(text.strip()) for text in pair)
        if not source or not target:
            return None  # for `Empty` to say
        low, high = sorted((source * self.expected, float(target)))
        return f"{high / low:.2f}" if high / low >= self.limit else None

    def opusfilter(self) -> dict[str, Any] | None:
        """Its filter."""
        return {"LengthRatioFilter": {"threshold": self.limit, "unit": "char"}} if self.expected == 1 else None

    def beyond_opusfilter(self) -> str | None:
        """Other writings have other lengths."""
        if self.expected == 1:
            return None
        return f"length ratio: {self.expected:.2f} characters of the target stand for one of the source"


@dataclass(frozen=True)
class OtherScript(Rule):
    """A side that has too few of its letters in its script; a side without letters is kept.

    Attributes:
        share: from 0 to 1.
        scripts: of source and target; None: any.
    """

    share: float
    scripts: tuple[Script | None, Script | None]
    reason: ClassVar[str] = "script"

    def __call__(self, pair: Pair) -> str | None:
        """The first such side with its share."""
        for name, text, script in zip(NAMES, pair, self.scripts, strict=True):
            if script is not None and (share := script.share(text)) < self.share:
                return f"{name}: {share:.2f} {script.code}"
        return None

    def opusfilter(self) -> dict[str, Any]:
        """Its filter; a side of any script, or of several, has no threshold."""
        names = [script.names if script else [] for script in self.scripts]
        thresholds = [self.share if len(each) == 1 else 0.0 for each in names]
        return {
            "CharacterScoreFilter": {"scripts": [(each or ["Common"])[0] for each in names], "thresholds": thresholds}
        }

    def beyond_opusfilter(self) -> str | None:
        """Sides of several scripts."""
        mixed = [script.code for script in self.scripts if script is not None and len(script.names) > 1]
        return f"script: {' and '.join(mixed)}, which is of several scripts" if mixed else None
