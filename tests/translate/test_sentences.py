"""Sentences of a text."""

import pytest

from posnmt.translate.sentences import sentences


@pytest.mark.parametrize(
    ("language", "text", "number"),
    [
        ("en", "  Mr. Smith paid 3.50 e.g. here.  Then he left! ", 2),
        ("de", "Am 3. Mai kam er z. B. nicht. Und sie?\nJa.", 3),
        ("zh", "你好。我是学生。再见！", 3),
        ("xx", "One. Two.", 2),
        ("en", "no end", 1),
        ("en", "", 0),
    ],
)
def test_sentences_joined_are_the_text(language, text, number):
    parts = sentences(text, language)
    assert "".join(parts) == text
    assert len(parts) == number
