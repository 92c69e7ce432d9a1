"""The rules for single pairs, each with the filter of OpusFilter that drops the same pairs.

A rule is called with both sides of a pair. It returns None to keep the pair, or a text (the detail) to drop it.
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
        """None to keep the pair, or a detail, which may be empty, to drop it."""

    @abstractmethod
    def opusfilter(self) -> dict[str, Any] | None:
        """The filter of OpusFilter with its parameters; None if OpusFilter has none for this rule."""

    def beyond_opusfilter(self) -> str | None:
        """A sentence about what OpusFilter's filter does not do; None if it does all."""
        return None


@dataclass(frozen=True)
class Damaged(Rule):
    """A control character other than a tab, or U+FFFD, which also stands for bytes that are not UTF-8."""

    reason: ClassVar[str] = "damaged characters"
    _CHARACTERS: ClassVar[str] = r"[\x00-\x08\x0A-\x1F\x7F-\x9F\uFFFD]"
    _damage: ClassVar[re.Pattern[str]] = re.compile(_CHARACTERS)

    def __call__(self, pair: Pair) -> str | None:
        """Name the first damaged character and its side, if there is one."""
        for name, text in zip(NAMES, pair, strict=True):
            if each := self._damage.search(text):
                return f"{name}: U+{ord(each[0]):04X}"
        return None

    def opusfilter(self) -> dict[str, Any]:
        """Return a `RegExpFilter` that accepts no damaged character."""
        return {"RegExpFilter": {"regexps": self._CHARACTERS, "accept_match": False}}


@dataclass(frozen=True)
class Empty(Rule):
    """A side that has only blanks and invisible characters."""

    reason: ClassVar[str] = "empty"
    _NOTHING: ClassVar[str] = r"^[\s\p{Cf}]*$"
    _is_nothing: ClassVar[regex.Pattern[str]] = regex.compile(_NOTHING)

    def __call__(self, pair: Pair) -> str | None:
        """Name the empty side or both, if any is empty."""
        sides = [name for name, text in zip(NAMES, pair, strict=True) if self._is_nothing.search(text)]
        return " and ".join(sides) if sides else None

    def opusfilter(self) -> dict[str, Any]:
        """Return a `RegExpFilter` that accepts no side without visible characters."""
        return {"RegExpFilter": {"regexps": self._NOTHING, "accept_match": False}}


@dataclass(frozen=True)
class Copied(Rule):
    """Sides that are equal except for upper and lower case."""

    reason: ClassVar[str] = "copy"

    def __call__(self, pair: Pair) -> str | None:
        """Return an empty detail if the sides are equal: there is nothing to add."""
        source, target = (text.strip().lower() for text in pair)
        return "" if source == target and source else None  # `Empty` reports empty pairs

    def opusfilter(self) -> dict[str, Any]:
        """Return a `SimilarityFilter` that ignores case."""
        return {"SimilarityFilter": {"threshold": 1, "lowercase": True}}


@dataclass(frozen=True)
class Length(Rule):
    """A side that has too few or too many characters.

    Attributes:
        least, most: limits in characters; None: no limit.
    """

    least: int | None
    most: int | None
    reason: ClassVar[str] = "length"

    def __call__(self, pair: Pair) -> str | None:
        """The first such side with its number of characters."""
        for name, text in zip(NAMES, pair, strict=True):
            length = len(text.strip())
            if length < (self.least or 0) or (self.most is not None and length > self.most):
                return f"{name}: {length}"
        return None

    def opusfilter(self) -> dict[str, Any]:
        """Return a `LengthFilter` with the same limits in characters."""
        most = float("inf") if self.most is None else self.most
        return {"LengthFilter": {"min_length": self.least or 0, "max_length": most, "unit": "char"}}


@dataclass(frozen=True)
class Ratio(Rule):
    """A side that has many times the characters of the other.

    Attributes:
        limit: the ratio at which a pair is dropped.
        expected: usual number of target characters per source character; 1 unless only one side has blanks between
            words.
    """

    limit: float
    expected: float = 1.0
    reason: ClassVar[str] = "length ratio"

    def __call__(self, pair: Pair) -> str | None:
        """Return the ratio of the longer to the shorter side, if it reaches the limit."""
        source, target = (len(text.strip()) for text in pair)
        if not source or not target:
            return None  # `Empty` reports such pairs
        low, high = sorted((source * self.expected, float(target)))
        return f"{high / low:.2f}" if high / low >= self.limit else None

    def opusfilter(self) -> dict[str, Any] | None:
        """Return a `LengthRatioFilter` in characters, or None if the usual ratio is not 1."""
        return {"LengthRatioFilter": {"threshold": self.limit, "unit": "char"}} if self.expected == 1 else None

    def beyond_opusfilter(self) -> str | None:
        """OpusFilter does not know the usual ratio of the two sides."""
        if self.expected == 1:
            return None
        return f"length ratio: the target usually has {self.expected:.2f} characters for each of the source"


@dataclass(frozen=True)
class OtherScript(Rule):
    """A side with too few letters of its script. A side without letters is kept.

    Attributes:
        share: smallest share of letters in the script, from 0 to 1.
        scripts: the scripts of source and target; None: any script is kept.
    """

    share: float
    scripts: tuple[Script | None, Script | None]
    reason: ClassVar[str] = "script"

    def __call__(self, pair: Pair) -> str | None:
        """The first such side, its share and the script."""
        for name, text, script in zip(NAMES, pair, self.scripts, strict=True):
            if script is not None and (share := script.share(text)) < self.share:
                return f"{name}: {share:.2f} {script.code}"
        return None

    def opusfilter(self) -> dict[str, Any]:
        """Its filter; a side with any script, or with several, has no threshold."""
        names = [script.names if script else [] for script in self.scripts]
        thresholds = [self.share if len(each) == 1 else 0.0 for each in names]
        return {
            "CharacterScoreFilter": {"scripts": [(each or ["Common"])[0] for each in names], "thresholds": thresholds}
        }

    def beyond_opusfilter(self) -> str | None:
        """OpusFilter's filter knows one script for each side."""
        mixed = [script.code for script in self.scripts if script is not None and len(script.names) > 1]
        return f"script: {' and '.join(mixed)} combines several scripts and is not checked" if mixed else None
