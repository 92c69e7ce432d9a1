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
        ("en", "Then\u2028J. Smith left.\u3000Who did?\x85\u2028A. B. did. ", 3),
        ("en", "no end", 1),
        ("en", "", 0),
    ],
)
def test_sentences_joined_are_the_text(language, text, number):
    parts = sentences(text, language)
    assert "".join(parts) == text
    assert len(parts) == number


def test_a_text_that_the_library_fails_on_is_one_sentence(monkeypatch):
    class PanicException(BaseException):
        """As Rust's."""

    def fails(*_):
        raise PanicException

    monkeypatch.setattr("sentencex.segment", fails)
    assert sentences("One. Two.", "en") == ["One. Two."]
    monkeypatch.setattr("sentencex.segment", lambda *_: ["One."])
    assert sentences("One. Two.", "en") == ["One. Two."]
