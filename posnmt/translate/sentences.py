"""Sentences of a text, by the rules of sentencex (Wikimedia), without models."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

_SPACE = re.compile(r"[^\S\x00-\x7f]")


def sentences(text: str, language: str) -> list[str]:
    """The sentences of a text; joined, they are the text.

    White space belongs to the sentence before it, at the beginning to the first one. A text that sentencex fails on is
    one sentence.

    Args:
        language: code, such as `en`; sentencex has English rules for those it does not know.
    """
    from sentencex import segment

    plain = _SPACE.sub(" ", text)  # sentencex 1.0.32 fails on some white space that has more than one byte
    try:
        ends = [0, *accumulate(len(each) for each in segment(language, plain))]
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, and no Exception
            raise
        ends = [0, len(text)]
    if ends[-1] != len(text):
        ends = [0, len(text)]
    return [text[start:end] for start, end in pairwise(ends) if end > start]
