"""Sentences of a text, by the rules of sentencex (Wikimedia), without models.

Its ends of sentences are compared with what stands before them, since half a sentence costs a translation more than two
sentences in one part: after a number at the beginning, an ordinal, an initial or a title, the sentence goes on.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

from posnmt.config.writing import SPACELESS, base_code

_SPACELESS_END = re.compile(rf"[{SPACELESS}\u3000-\u303f\uff00-\uff60][…”’]*$")

_SPACE = re.compile(r"[^\S\x00-\x7f]")

_ORDINALS = frozenset([
    "bs", "cs", "da", "de", "et", "eu", "fi", "fo", "hr", "hu", "is", "lb", "lv", "nb", "nn", "no", "pl", "sk", "sl",
    "sr", "tr",
])  # fmt: skip
"""Languages that write ordinals as digits and a full stop."""

_TITLES = {
    language: frozenset(words.split()) for language, words in {
        "ca": "st", "de": "abb bd dipl durchschn frl hl jährl kap monatl tab tägl", "el": "αγ καθ",
        "es": "dña dª", "et": "hr pr",
        "fi": "hra ks rva",
        "fr": "dr drs mgr mlle mlles mme mmes pr prof st ste", "hr": "doc gđa mag sv", "hu": "ifj szt özv",
        "nl": "ds mevr mw", "pl": "dr hab inż ks mgr prof płk św", "pt": "profa sta", "ro": "acad dl dna sf",
        "ru": "гл доц им рис св табл", "sl": "doc mag sv", "sr": "г гђа др проф св", "sv": "t.ex",
        "tr": "doç hz sn yrd",
        "uk": "рис табл",
    }.items()
}  # fmt: skip
"""Titles and what else stands before a name or a number, where sentencex does not know it."""

_END_BEFORE_DIGIT = re.compile(r"""((?:[^\W\d_]{5}\.|[!?])["”“»«)]*\s+)\d""")
"""An end of a sentence and the digit that begins the next one: in many of `_ORDINALS` sentencex ends none there.

A word of five letters is hardly an abbreviation; before `Nr. 5`, `ca. 5` and `S. 5` nothing ends, nor after a number.
"""

_OPENING = '([{"«»„“”‚‘'
_ORDINAL = re.compile(r"(\d{1,2}\.[-–/])?\d{1,2}\.")
_INITIAL = re.compile(r"-?([^\W\d_]\.-)*[^\W\d_]\.")


def sentences(text: str, language: str) -> list[str]:
    """The sentences of a text; joined, they are the text.

    White space belongs to the sentence before it, at the beginning to the first one. A text that sentencex fails on is
    one sentence. Where a sentence ends in what may also be an ordinal or an initial, it is one with the next: `Es waren
    12. Dann ging er.`, `Hepatitis C. Das ist heilbar.`, `Siehe Kapitel 2. 3 Punkte fehlen.` Numbers of three digits and
    more end sentences: they are years.

    Args:
        language: code, such as `en`, `de-AT` or `deu_Latn`; sentencex has English rules for those it does not know.
    """
    from sentencex import segment

    code = base_code(language)
    plain = _SPACE.sub(" ", text)  # sentencex 1.0.32 fails on some white space that has more than one byte
    if code in _ORDINALS:
        plain = _END_BEFORE_DIGIT.sub(r"\1A", plain)  # before a letter it does
    try:
        ends = [0, *accumulate(len(each) for each in segment(code, plain))]
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, and no Exception
            raise
        ends = [0, len(text)]
    if ends[-1] != len(text):
        ends = [0, len(text)]
    parts = [text[start:end] for start, end in pairwise(ends) if end > start]
    begins, at = [0], 0
    for before, after in pairwise(parts):
        at += len(before)
        if not _goes_on(before, after, code):
            begins.append(at)
    return [text[start:end] for start, end in pairwise([*begins, len(text)]) if end > start]


def ends_spaceless(text: str) -> bool:
    """Whether a text ends as a sentence that no blank follows: in a script without blanks, or with its signs."""
    return bool(_SPACELESS_END.search(text[-8:]))


def _goes_on(before: str, after: str, code: str) -> bool:
    """Whether a sentence goes on after what sentencex takes for its end."""
    if not any(map(str.isalpha, before)):
        return True
    if after.startswith("-") and not before[-1].isspace():  # the sentence is cut within `J.-C.`
        return True
    word = before.split()[-1].lstrip(_OPENING)
    if _INITIAL.fullmatch(word):
        is_pronoun = code == "en" and word == "I."
        return not is_pronoun and all(letter.isupper() for letter in word if letter.isalpha())
    if code in _ORDINALS and _ORDINAL.fullmatch(word):
        return True
    return word.endswith(".") and word[:-1].lower() in _TITLES.get(code, ())
