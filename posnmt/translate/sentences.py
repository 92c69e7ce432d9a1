"""Sentences of a text, by the rules of sentencex (Wikimedia), without models."""

from __future__ import annotations


def sentences(text: str, language: str) -> list[str]:
    """The sentences of a text; joined, they are the text.

    White space belongs to the sentence before it, at the beginning to the first one.

    Args:
        language: code, such as `en`; sentencex has English rules for those it does not know.
    """
    from sentencex import segment

    return [str(each) for each in segment(language, text)]
