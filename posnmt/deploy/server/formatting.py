"""What DeepL calls to preserve formatting: translations begin and end with punctuation and case as their texts do."""

from __future__ import annotations

import re
import unicodedata

from posnmt.config.writing import base_code, writing_of_language

MARKS = r".,;:!?…。、，；：！？"
"""Marks that end sentences and clauses."""

BEGIN = re.compile(rf"[{MARKS}–—-]*\s*")
END = re.compile(rf"\s*[{MARKS}]*$")
WORD = re.compile(r"\w+")

WIDE = str.maketrans(".,;:!?", "。，；：！？")
"""Marks of languages that write without blanks."""

NARROW = {mark: narrow for narrow, mark in WIDE.items()} | {ord("、"): ",", ord("…"): "..."}

NOUNS = frozenset(["de", "lb"])
"""Languages that write nouns with a capital letter, wherever they stand."""


def keep_formatting(source: str, translation: str, language: str) -> str:
    """A translation with the punctuation at the beginning and the end, and the case of the first letter, of its text.

    Marks of another script stay if they mean the same: `。` for `.`. A capital stays in languages that write nouns with
    one, and in English `I`. Words that the text has too stay as they are, as do words with other capitals.

    Args:
        language: the code of the translation's language.
    """
    if not source.strip() or not translation.strip():
        return translation
    begins = [BEGIN.match(each)[0] for each in (source, translation)]  # type: ignore[index]
    ends = [END.search(each)[0] for each in (source, translation)]  # type: ignore[index]
    middle = translation[len(begins[1]) : len(translation) - len(ends[1])]
    if not middle or len(begins[0]) == len(source):
        return translation
    begin = begins[1] if _plain(begins[0]) == _plain(begins[1]) else begins[0]
    end = ends[1] if _plain(ends[0]) == _plain(ends[1]) else ends[0].strip()
    if end != ends[1] and writing_of_language(language).language in ("chinese", "japanese"):
        end = end.translate(WIDE)
    first = source[len(begins[0]) :][:1]
    return begin + _with_case(first, middle, source, base_code(language)) + end


def _plain(marks: str) -> str:
    """Marks without blanks, in the forms of a script with blanks."""
    return re.sub(r"\s", "", unicodedata.normalize("NFC", marks)).translate(NARROW)


def _with_case(first: str, translation: str, whole: str, language: str) -> str:
    """A translation whose first letter has the case of `first`."""
    word = WORD.match(translation)
    if not word or (len(word[0]) > 1 and not word[0][1:].islower()) or word[0] in WORD.findall(whole):
        return translation
    letter = translation[0]
    if first.isupper() and letter.islower():
        letter = letter.upper()
    elif first.islower() and language not in NOUNS and (language, word[0]) != ("en", "I"):
        letter = letter.lower()
    return letter + translation[1:]
