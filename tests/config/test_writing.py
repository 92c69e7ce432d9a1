"""Scripts by their characters, and what BLEU needs for each."""

from __future__ import annotations

import pytest

from posnmt.config import writing as module
from posnmt.config.writing import Writing, is_foreign, isolated, writing, writing_of_language

EXAMPLES = {
    "The cat sat on the mat.": (None, True, "13a"),
    "Кошка сидела на ковре.": (None, True, "13a"),
    "القط جلس على السجادة.": (None, True, "13a"),
    "고양이가 매트 위에 앉았다.": (None, True, "13a"),
    "猫はマットの上に座った。": ("japanese", False, "ja-mecab"),
    "東京都庁舎建設計画案の公開": ("japanese", False, "ja-mecab"),
    "猫 は マット の 上 に 座 っ た 。": ("japanese", True, "none"),
    "猫坐在垫子上，第三只在用 Python 写程序。": ("chinese", False, "zh"),
    "猫 坐 在 垫子 上 。": ("chinese", True, "none"),
    "แมวนั่งอยู่บนเสื่อ": ("thai", False, "char"),
    "ឆ្មាអង្គុយលើកន្ទេល": ("khmer", False, "char"),
    "ແມວນັ່ງເທິງເສື່ອ": ("lao", False, "char"),
    "ကြောင်သည်ဖျာပေါ်တွင်ထိုင်သည်": ("burmese", False, "char"),
    "བྱི་ལ་གདན་ཐོག་ལ་བསྡད་འདུག": ("tibetan", False, "char"),
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_a_script_is_recognised(text):
    language, spaced, tokenizer = EXAMPLES[text]
    assert writing([text] * 3) == Writing(language, spaced)
    assert writing([text]).bleu_tokenizer == tokenizer
    assert writing([text]).counts_characters == (language is not None and not spaced)


def test_a_language_is_written_in_its_script():
    assert writing_of_language("zh-Hant") == Writing("chinese", False)
    assert writing_of_language("ja", spaced=True).bleu_tokenizer == "none"
    assert writing_of_language("de") == Writing(None, True)
    assert [writing_of_language(code).code for code in ("ja", "zh_CN", "km", "jpn_Jpan", "en")] == [
        "ja",
        "zh",
        "km",
        "ja",
        None,
    ]


def test_japanese_without_mecab_is_scored_by_characters(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert writing_of_language("ja").bleu_tokenizer == "char"


def test_no_text_is_no_script():
    assert writing([]) == writing(["", "  "]) == Writing(None, False) or not writing([]).language


@pytest.mark.parametrize("name", ["rope", "変換器", "a:1"])
def test_names_from_left_to_right_stand_in_sentences_as_they_are(name):
    assert isolated(name) == name


@pytest.mark.parametrize("name", ["מערכת א", "نظام 2", "rope נא"])
def test_names_from_right_to_left_are_isolated_in_sentences(name):
    assert isolated(name) == f"\u2068{name}\u2069"


@pytest.mark.parametrize(
    ("line", "code", "foreign"),
    [
        ("The way of training.", "ja", True),
        ("道を学ぶ。", "ja", False),
        ("京都大学", "ja", False),
        ("京都大学", "zh-Hant", False),
        ("12 % (3)", "ja", False),
        ("", "ja", False),
        ("道を学ぶ。", "en", True),
        ("ภาษาไทย", "ja", True),
        ("ภาษาไทย", "tha", False),
        ("Größe", "ru", False),
    ],
)
def test_a_line_in_another_script_than_a_language(line, code, foreign):
    assert is_foreign(line, code) == foreign
