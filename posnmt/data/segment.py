"""Word segmentation of Japanese (MeCab with the IPA dictionary) and Chinese (jieba), and the inverse.

Both are optional: `pip install 'posnmt[ja]'` or `'posnmt[zh]'`. The Japanese words are those of sacreBLEU's `ja-mecab`.
"""

from __future__ import annotations

import unicodedata
from functools import cached_property
from importlib import import_module
from typing import Any

from posnmt.config.segmenters import requires

# First and last code points of scripts written without blanks, with their punctuation and full-width forms.
_WITHOUT_BLANKS = (
    (0x2E80, 0x312F),  # radicals, CJK punctuation, hiragana, katakana, bopomofo
    (0x3190, 0x9FFF),  # kanbun, katakana extensions, enclosed and compatibility signs, Han
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE4F),
    (0xFF00, 0xFFEF),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)


class Segmenter:
    """Segments Japanese or Chinese text into words separated by single blanks, and removes these blanks again.

    Pickled without its dictionary, which is loaded again on demand.

    Args:
        name: `mecab` or `jieba`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        # jieba keeps letters and digits of one word together, MeCab separates them.
        self._letters = "LMN" if name == "jieba" else "LM"

    def __reduce__(self) -> tuple[type[Segmenter], tuple[str]]:
        return Segmenter, (self.name,)

    @cached_property
    def _engine(self) -> Any:
        """MeCab's tagger, or jieba with its default dictionary.

        Imported by name: Transformers asks for every package in an import statement of a module beside an export.
        """
        requires(self.name)
        if self.name == "mecab":
            return import_module("MeCab").Tagger(f"{import_module('ipadic').MECAB_ARGS} -Owakati")
        return import_module("rjieba").Jieba()

    def tokenise(self, text: str) -> str:
        """One line as words separated by single blanks; blanks at its ends are removed.

        Raises:
            UserError: the segmenter's packages are not installed.
        """
        # NUL would end the line for MeCab, which reads C strings.
        text = text.replace("\0", " ").strip()
        return self._engine.parse(text).strip() if self.name == "mecab" else " ".join(self._jieba_words(text))

    def _jieba_words(self, text: str) -> list[str]:
        """jieba's words, with words of scripts with blanks, which jieba splits at non-ASCII letters, joined again."""
        words: list[str] = []
        adjacent = False
        for piece in self._engine.cut(text):
            if not piece.strip(" \t"):
                adjacent = False
            elif adjacent and self._are_letters(words[-1][-1], piece[0]):
                words[-1] += piece
            else:
                words.append(piece)
                adjacent = True
        return words

    def detokenise(self, text: str) -> str:
        """The inverse: removes blanks except those that separate words in such text.

        These are blanks between two words of letters of scripts that use blanks (or of digits, for jieba), and those
        after a comma or semicolon that is not between digits. A blank next to a Chinese or Japanese character, or next
        to other signs, is removed, whether or not the original text had it.
        """
        words = [word for word in text.split(" ") if word]
        line = "".join(words[:1])
        for word in words[1:]:
            if line[-1] in ",;":
                apart = _is_letter(word[0], "LMN") and not (line[-2:-1].isdigit() and word[0].isdigit())
            else:
                apart = self._are_letters(line[-1], word[0])
            line += " " * apart + word
        return line

    def _are_letters(self, left: str, right: str) -> bool:
        """Whether two adjacent characters are parts of words that a blank separates."""
        return _is_letter(left, self._letters) and _is_letter(right, self._letters)


def _is_letter(sign: str, categories: str) -> bool:
    """Whether a character is in these Unicode categories (L, M, N) and of a script that uses blanks."""
    code = ord(sign)
    without_blanks = any(first <= code <= last for first, last in _WITHOUT_BLANKS)
    return not without_blanks and unicodedata.category(sign)[0] in categories
