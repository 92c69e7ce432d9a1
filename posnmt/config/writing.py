"""How a text is written: its script, whether blanks stand between its words, and the tokeniser that BLEU needs."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec

_SCRIPTS = {
    "kana": "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "han": "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "thai": "\u0e01-\u0e5b",
    "lao": "\u0e81-\u0edf",
    "tibetan": "\u0f00-\u0fff",
    "burmese": "\u1000-\u109f\uaa60-\uaa7f",
    "khmer": "\u1780-\u17ff",
}
SPACELESS = "".join(_SCRIPTS.values())
"""The characters of these scripts, as in a class of a regular expression."""
ALONE = re.compile(f"[{SPACELESS}]")
"""One of these characters."""
_RUNS = re.compile(
    "|".join(f"(?P<{name}>[{characters}]+)" for name, characters in _SCRIPTS.items()) + r"|(?P<blank>\s+)"
)

_CODES = {"ja": "japanese", "zh": "chinese", "th": "thai", "lo": "lao", "bo": "tibetan", "my": "burmese", "km": "khmer"}
"""Languages that are written without blanks between words."""
_LONG_CODES = {
    "amh": "am", "arm": "hy", "bod": "bo", "bos": "bs", "bul": "bg", "cat": "ca", "ces": "cs", "cmn": "zh",
    "cze": "cs", "dan": "da", "deu": "de", "dut": "nl", "ell": "el", "eng": "en", "est": "et", "eus": "eu",
    "fao": "fo", "fin": "fi", "fra": "fr", "fre": "fr", "ger": "de", "gle": "ga", "glg": "gl", "gre": "el",
    "hrv": "hr", "hun": "hu", "hye": "hy", "isl": "is", "ita": "it", "jpn": "ja", "kaz": "kk", "khm": "km",
    "lao": "lo", "lav": "lv", "lit": "lt", "ltz": "lb", "lvs": "lv", "mya": "my", "nld": "nl", "nno": "nn",
    "nob": "nb", "nor": "no", "pol": "pl", "por": "pt", "ron": "ro", "rus": "ru", "slk": "sk", "slo": "sk",
    "slv": "sl", "spa": "es", "srp": "sr", "swe": "sv", "tam": "ta", "tha": "th", "tur": "tr", "ukr": "uk",
    "yue": "zh", "zho": "zh",
}  # fmt: skip
"""Codes of three letters (ISO 639-2 and 639-3), as in FLORES: `jpn_Jpan`, of languages for which posnmt has rules."""

TWO_LETTERS = frozenset(
    first + second
    for first, letters in {
        "a": "abefkmnrsvyz", "b": "aeghimnors", "c": "aehorsuvy", "d": "aevz", "e": "elnostu", "f": "afijory",
        "g": "adlnuv", "h": "aeiortuyz", "i": "adegikostu", "j": "av", "k": "agijklmnorsuvwy", "l": "abginotuv",
        "m": "ghiklnrsty", "n": "abdeglnorvy", "o": "cjmrs", "p": "ailst", "q": "u", "r": "mnouw",
        "s": "acdeghiklmnoqrstuvw", "t": "aeghiklnorstwy", "u": "gkrz", "v": "eio", "w": "ao", "x": "h", "y": "io",
        "z": "ahu",
    }.items()
    for second in letters
)  # fmt: skip
"""The codes of ISO 639-1 by their first letters, with `bh` and `sh`, which it has withdrawn and corpora still use."""

COUNTRIES = {"cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "jp": "ja", "ua": "uk", "vn": "vi"}
"""Country codes that are often mistaken for language codes -> the code of the language."""

EXAMPLES = 2000
"""The number of lines from which `writing` judges a text."""
MOST = 0.3
"""A text is written in a script if more than this share of its characters, without blanks, are of that script."""
BLANKS = 0.1
"""Words are taken to be separated if more than this share of a text is blanks: segmented text has 0.2 to 0.35."""


@dataclass(frozen=True)
class Writing:
    """How a text is written.

    Attributes:
        language: `japanese`, `chinese`, `thai`, `lao`, `tibetan`, `burmese` or `khmer`; None for others.
        spaced: whether blanks stand between its words.
    """

    language: str | None
    spaced: bool

    @property
    def counts_characters(self) -> bool:
        """Whether word boundaries are not marked, so that lengths and TER count characters."""
        return self.language is not None and not self.spaced

    @property
    def code(self) -> str | None:
        """The language code; None if the script does not determine the language."""
        return next((code for code, language in _CODES.items() if language == self.language), None)

    @property
    def bleu_tokenizer(self) -> str:
        """sacreBLEU's tokeniser: 13a, `none` for text that is segmented already, else that of the script.

        Japanese without the packages of `posnmt[ja]`, and scripts without a segmenter, are scored by characters.
        """
        if self.language is None:
            return "13a"
        if self.spaced:
            return "none"
        if self.language == "japanese":
            return "ja-mecab" if find_spec("MeCab") and find_spec("ipadic") else "char"
        return "zh" if self.language == "chinese" else "char"


def isolated(name: str) -> str:
    """A name for use within a sentence.

    One with letters that are written from right to left is isolated, so that what follows it keeps its place.
    """
    if any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in name):
        return f"\N{FIRST STRONG ISOLATE}{name}\N{POP DIRECTIONAL ISOLATE}"
    return name


def writing(lines: Iterable[str]) -> Writing:
    """How some lines are written, by their characters.

    Text in kana, or in Chinese characters with a twentieth of kana, is Japanese.
    """
    counts: Counter[str] = Counter()
    total = 0
    for line in lines:
        total += len(line)
        for run in _RUNS.finditer(line):
            counts[str(run.lastgroup)] += run.end() - run.start()
    blanks = counts.pop("blank", 0)
    letters, spaced = max(1, total - blanks), blanks > BLANKS * total
    if counts["kana"] + counts["han"] > MOST * letters:
        return Writing("japanese" if 20 * counts["kana"] > counts["han"] else "chinese", spaced)
    largest = max(counts, key=counts.__getitem__, default="")
    return Writing(largest if counts[largest] > MOST * letters else None, spaced)


def unsegmented(single: int, filled: int) -> bool:
    """Whether the words of a text seem not to be separated: of the lines that are not blank, 9 in 10 are a single word.

    Args:
        single: lines of one word.
        filled: lines that are not blank.
    """
    return filled > 0 and single >= 0.9 * filled


def is_code(code: str) -> bool:
    """Whether a text has the form of a language code, such as `de`, `pt-BR` or `jpn_Jpan`."""
    return re.fullmatch("[a-z]{2,3}([-_][a-z0-9]+)*", code, re.IGNORECASE) is not None


def base_code(code: str) -> str:
    """A language code without script and region; with two letters if posnmt knows that code: `de` for `deu_Latn`."""
    first = _parts(code)[0]
    return _LONG_CODES.get(first, first)


def is_same(one: str, other: str) -> bool:
    """Whether two language codes are equal but for case and separators."""
    return _parts(one) == _parts(other)


def is_alike(one: str, other: str) -> bool:
    """Whether two codes are of one language, and at most one of them names a region or script."""
    return base_code(one) == base_code(other) and min(len(_parts(one)), len(_parts(other))) == 1


def _parts(code: str) -> list[str]:
    return re.split("[-_]", code.lower())


def writing_of_language(code: str, spaced: bool = False) -> Writing:
    """How a language is written, by its code, such as `ja`, `zh-Hant`, `jpn_Jpan` or `de`.

    Args:
        spaced: whether the text is segmented, where the language is written without blanks.
    """
    language = _CODES.get(base_code(code))
    return Writing(language, spaced or language is None)


def is_foreign(line: str, code: str) -> bool:
    """Whether a line has letters, and not those of a language; of scripts, those without blanks are told from others.

    A line of Chinese characters may be Japanese. Lines in Latin, Greek or Cyrillic letters are not told apart.
    """
    if not any(map(str.isalpha, line)):
        return False
    pair = {writing([line]).language, writing_of_language(code).language}
    return len(pair) > 1 and pair != {"japanese", "chinese"}
