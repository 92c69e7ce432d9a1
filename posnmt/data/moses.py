"""Moses' word tokenisation: the rules and results of sacremoses, several times as fast.

sacremoses applies every rule to every line, some with sets of ten thousand characters rebuilt for each full stop. Here
the rules are applied to the text between two blanks, and the results are cached. Two rules depend on more context:
whether a full stop belongs to its word may depend on the start of the next word, which is decided for each line; and an
apostrophe consumes the blank next to it, so a line with two apostrophes around a blank is processed as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

# Characters of cached text, some 30 MB. The cache is cleared when it is full: frequent words return soon.
REMEMBERED = 2**20

# Control characters, which sacremoses removes after it has collapsed white space.
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1b]")
_NUMERIC_ONLY = re.compile(r"\s#NUMERIC_ONLY#")
_DIGITS = frozenset("0123456789")
# Runs of full stops are replaced by words of letters during the rules. As in sacremoses, such a word in the text
# becomes full stops.
_DOT_MARKER = re.compile(r"(?:DOT)+MULTI")
_SCRIPTS = {
    "zh": ["Han"],
    "ja": ["Hiragana", "Katakana", "Han"],
    "ko": ["Hangul"],
    "cjk": ["Hangul", "Hiragana", "Katakana", "Han"],
}

# A character without which the rule cannot match, the pattern, the replacement.
Rule = tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]]


class Piece(NamedTuple):
    """The result of the rules for the text between two blanks.

    Attributes:
        first: the first character of its first token.
        text: its tokens, separated by single blanks.
        parted: the same with the last full stop as a separate token, if that depends on the next token; else None.
        before_number: whether the full stop stays with its word before a number (`No. 5`).
    """

    first: str
    text: str
    parted: str | None
    before_number: bool


class MosesTokeniser:
    """Moses' tokeniser without escapes. It can be pickled for worker processes, without its cache.

    Args:
        language: code for the rules; a language without a list in sacremoses has the English non-breaking prefixes.
    """

    def __init__(self, language: str) -> None:
        from sacremoses.corpus import NonbreakingPrefixes, Perluniprops
        from sacremoses.indic import NUKTAS, VIRAMAS

        characters = Perluniprops().chars
        signs = {*"".join(VIRAMAS), *"".join(NUKTAS)}
        signs.update(*(characters(script) for script in _SCRIPTS.get(language, [])))
        letters = signs.union(characters("IsAlpha"))
        self._letters, self._lower = frozenset(letters), frozenset(characters("IsLower"))
        self._alphanumeric = frozenset(signs.union(characters("IsAlnum")))
        self._padded = _Padded(self._alphanumeric)
        self._rules = _rules(language, _ranges(letters), _ranges(characters("IsN")))
        prefixes = {prefix.strip() for prefix in NonbreakingPrefixes().words(language)}
        self._before_number = {each.rpartition(" ")[0] for each in prefixes if _NUMERIC_ONLY.search(each)}
        self._unbroken = prefixes - self._before_number
        self._pieces: dict[str, Piece] = {}
        self._remembered = 0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pieces": {}, "_remembered": 0}

    def tokenise(self, text: str) -> str:
        """One line as tokens separated by single blanks, exactly as sacremoses' `tokenize(text, return_str=True,
        escape=False)`, including the blank at the end of a line that ends in `.'`."""
        parts = text.split()
        line = " ".join(parts)
        if "' '" in line or _CONTROL.search(line):
            line = _CONTROL.sub("", line).strip()
            parts = [line] if line else []
        # A blank on each side, except at the ends of the line: some rules match it.
        for index in range(1, len(parts)):
            parts[index - 1] += " "
            parts[index] = " " + parts[index]
        line = self._join([self._pieces.get(part) or self._piece(part) for part in parts])
        if line.endswith(".'"):
            line = line[:-2] + " . ' "
        return _DOT_MARKER.sub(_dots, line) if "MULTI" in line else line

    def _piece(self, part: str) -> Piece:
        """The rules applied to the text between two blanks, with these blanks; the result is cached."""
        text = part.strip()
        stem, mark = (text[:-1], text[-1]) if text[-1] in ",." else (text, "")
        if stem and self._alphanumeric.issuperset(stem):  # most words: only a final comma or full stop can match
            piece = Piece(text[0], f"{stem} ,", None, False) if mark == "," else self._token(text)
        else:
            piece = self._ruled(part)
        self._remembered += len(part)
        if self._remembered > REMEMBERED:
            self._pieces.clear()
            self._remembered = len(part)
        self._pieces[part] = piece
        return piece

    def _ruled(self, part: str) -> Piece:
        """Tokenise a part of a line by applying all rules in Moses' order."""
        text = part.translate(self._padded)
        for sign, rule, replacement in self._rules:
            if sign in text:
                text = rule.sub(replacement, text)
        tokens = [self._token(token) for token in text.split()]
        last = tokens[-1]
        joined = self._join([*tokens[:-1], last._replace(parted=None)])
        return Piece(tokens[0].first, joined, last.parted and self._join(tokens), last.before_number)

    def _token(self, token: str) -> Piece:
        """A token, and whether a full stop at its end belongs to it in any case or depends on the next token."""
        word = token[:-1]
        if not word or not token.endswith("."):
            return Piece(token[0], token, None, False)
        if word in self._unbroken or ("." in word and not self._letters.isdisjoint(word)):
            return Piece(token[0], token, None, False)
        return Piece(token[0], token, f"{word} .", word in self._before_number)

    def _join(self, pieces: list[Piece]) -> str:
        """The tokens of a line, with final full stops kept or separated depending on the next token."""
        tokens = []
        for index, (_, text, parted, before_number) in enumerate(pieces):
            if parted is not None:
                following = pieces[index + 1].first if index + 1 < len(pieces) else ""
                stays = following in self._lower or (before_number and following in _DIGITS)
                text = text if stays else parted
            tokens.append(text)
        return " ".join(tokens)


class _Padded(dict[int, str]):
    """For `str.translate`: blanks around every character except letters, numbers and those that have rules."""

    def __init__(self, alphanumeric: frozenset[str]) -> None:
        super().__init__()
        self._kept = alphanumeric.union(".'`,-")

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        self[code] = sign if sign in self._kept or sign.isspace() else f" {sign} "
        return self[code]


def _rules(language: str, a: str, n: str) -> list[Rule]:
    """Moses' rules in order, for letters `a` and numbers `n` (the contents of character classes)."""
    apostrophes = [(r"'", " ' ")]
    if language == "en":
        apostrophes = [
            (rf"([^{a}])'([^{a}])", r"\1 ' \2"),
            (rf"([^{a}{n}])'([{a}])", r"\1 ' \2"),
            (rf"([{a}])'([^{a}])", r"\1 ' \2"),
            (rf"([{a}])'([{a}])", r"\1 '\2"),
            (rf"([{n}])'(s)", r"\1 '\2"),
        ]
    elif language in ("fr", "it"):
        apostrophes = [
            (rf"([^{a}])'([^{a}])", r"\1 ' \2"),
            (rf"([^{a}])'([{a}])", r"\1 ' \2"),
            (rf"([{a}])'([^{a}])", r"\1 ' \2"),
            (rf"([{a}])'([{a}])", r"\1' \2"),
        ]
    commas = [(rf"([^{n}]),", r"\1 , "), (rf",([^{n}])", r" , \1"), (rf"([{n}]),$", r"\1 , ")]
    rules: list[Rule] = [("..", re.compile(r"\.{2,}"), _dot_marker)]
    rules += [(",", re.compile(pattern), replacement) for pattern, replacement in commas]
    return rules + [("'", re.compile(pattern), replacement) for pattern, replacement in apostrophes]


def _dot_marker(dots: re.Match[str]) -> str:
    """The placeholder word for a run of full stops."""
    return " " + "DOT" * len(dots[0]) + "MULTI" + (" " if dots.end() < len(dots.string) else "")


def _dots(marker: re.Match[str]) -> str:
    """Turn a placeholder of `_dot_marker` back into its full stops."""
    return "." * (len(marker[0]) // len("DOT") - 1)


def _ranges(characters: Iterable[str]) -> str:
    """Characters as the contents of a character class, with ranges, which compile fast."""
    runs: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if runs and code == runs[-1][1] + 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in runs)
