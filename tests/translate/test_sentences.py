"""Sentences of a text."""

import pytest

from posnmt.translate.sentences import _ORDINALS, sentences


@pytest.mark.parametrize(
    ("language", "text", "number"),
    [
        ("en", "  Mr. Smith paid 3.50 e.g. here.  Then he left! ", 2),
        ("de", "Am 3. Mai kam er z. B. nicht. Und sie?\nJa.", 3),
        ("zh", "你好。我是学生。再见！", 3),
        ("xx", "One. Two.", 2),
        ("en", "Then\u2028J. Smith left.\u3000Who did?\x85\u2028A. B. did. ", 3),
        ("en", "Yes, it is. Then A\u2028. It is not.", 3),
        ("en", "no end", 1),
        ("en", "", 0),
    ],
)
def test_sentences_joined_are_the_text(language, text, number):
    parts = sentences(text, language)
    assert "".join(parts) == text
    assert len(parts) == number


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("fr", "M. Dupont arrive."),
        ("fr", "Le Dr. Martin arrive."),
        ("fr", "J.-C. Martin arrive."),
        ("de", "Der 2. Weltkrieg begann 1939."),
        ("de", "Im 19. Jahrhundert war das so."),
        ("de", "Vom 1.-3. Mai im „2. Stock“."),
        ("de", "1. Öffnen Sie die Tür."),
        ("en", "1. Open the door."),
        ("zh", "1. 打开门。"),
        ("pl", "Prof. Dr. Nowak przyszedł."),
        ("es", "D. Juan y (Dña. Ana) vinieron."),
        ("ru", "См. Рис. 1."),
        ("de", "Am 3. Mai, siehe Kapitel 2. 3 Punkte fehlen."),
        ("de", "Er kam am 2. 3. 2020, vgl. Nr. 5, S. 7, ca. 5 m, max. 3, inkl. 2, durchschn. 8."),
    ],
)
def test_a_sentence_goes_on_after_what_only_looks_like_its_end(language, text):
    assert sentences(text, language) == [text]


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Das war 1999. |Danach kam er."),
        ("de", "Das kostet 3,50. |Danach ging er um 12:30. |Und sie?"),
        ("fr", "C'était le 2. |Il arrive."),
        ("en", "Neither do I. |He lives in the U.S. |She does not."),
        ("pl", "Tak. |- Nie."),
        ("de", "Ein Hund spielt. |2 blonde Mädchen lachen. |3.50 Euro! |7 Tage?"),
        ("de", "„Wer war das?“ |12 Leute. |Am Fenster. |2. Stock."),
    ],
)
def test_other_sentences_end(language, text):
    assert sentences(text.replace("|", ""), language) == text.split("|")


@pytest.mark.parametrize("code", sorted(_ORDINALS))
def test_a_digit_begins_a_sentence_where_ordinals_have_stops_too(code):
    """After a mark or a word of five letters; a number with a stop may be an ordinal."""
    for end, number in (("abcde.", 2), ("ab!", 2), ("ab?”", 2), ("2.", 1), ("12.", 1)):
        text = f"Opqr stuv {end} 3 xyzw klmn."
        found = sentences(text, code)
        assert "".join(found) == text
        assert len(found) == number, end


@pytest.mark.parametrize("code", ["de", "DE", "de-DE", "de_AT", "deu", "ger", "deu_Latn"])
def test_codes_of_a_language(code):
    assert sentences("Am 3. Mai kam z. B. Dr. Hill. Und sie?", code) == ["Am 3. Mai kam z. B. Dr. Hill. ", "Und sie?"]
    assert len(sentences("はい。いいえ。", "jpn_Jpan")) == 2


def test_a_text_that_the_library_fails_on_is_one_sentence(monkeypatch):
    class PanicException(BaseException):
        """As Rust's."""

    def fails(*_):
        raise PanicException

    monkeypatch.setattr("sentencex.segment", fails)
    assert sentences("One. Two.", "en") == ["One. Two."]
    monkeypatch.setattr("sentencex.segment", lambda *_: ["One."])
    assert sentences("One. Two.", "en") == ["One. Two."]
