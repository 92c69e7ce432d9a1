"""Japanese and Chinese words, and the way back."""

import lzma
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_ja_mecab import TokenizerJaMecab

from posnmt.base.errors import UserError
from posnmt.config import segmenters
from posnmt.config.segmenters import word_tokeniser
from posnmt.data.segment import Segmenter
from posnmt.data.tokenise import Words
from tests.support.shared import SHARED, missing

MECAB, JIEBA = Segmenter("mecab"), Segmenter("jieba")
BLANK = re.compile("[ \t\n\v]")  # what MeCab takes for blanks
REAL = {
    "mecab": ["enja_bsd/dev.ja", "enja_kyoto/dev.ja", "enja_pydocs/dev.ja", "enja_wmt_news/dev.ja"],
    "jieba": ["enzh_pydocs/dev.zh", "zhen_wmt_news/dev.zh", "multi_ntrex_flores/ntrex.zh"],
}
FILES = [(name, file) for name, files in REAL.items() for file in files]
TEXT = st.lists(
    st.sampled_from(
        [*"猫が好き。、東京大学中文字符号ABcd 019.,;:'-%()😀\u3000\t\u00a0\u200d\u2028Ａ９한글é", "New York", "  "]
    )
    | st.characters(codec="utf-8", exclude_characters="\0"),
    max_size=30,
).map("".join)


@pytest.fixture(scope="module")
def sacrebleu() -> TokenizerJaMecab:
    return TokenizerJaMecab()


def real_lines(file: str) -> list[str]:
    path = SHARED / file
    if not path.exists():
        pytest.skip(missing(file))
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as stream:
        return [line.rstrip("\n") for line in stream][:1500]


@pytest.mark.parametrize(
    ("segmenter", "text", "words"),
    [
        (MECAB, "東京大学に行きました。", "東京大学 に 行き まし た 。"),
        (MECAB, "Python 3.11を使う", "Python 3 . 11 を 使う"),
        (MECAB, "東京　大阪", "東京 \u3000 大阪"),
        (MECAB, "猫😀犬", "猫 😀 犬"),
        (MECAB, " \t　", ""),
        (JIEBA, "我来到北京清华大学。", "我 来到 北京 清华大学 。"),
        (JIEBA, "使用 Python 3.11\t编写", "使用 Python 3.11 编写"),
        (JIEBA, "北京　上海", "北京 \u3000 上海"),
        (JIEBA, "他说été14½", "他 说 été14½"),
        (JIEBA, "", ""),
    ],
)
def test_words(segmenter: Segmenter, text: str, words: str) -> None:
    assert segmenter.tokenise(text) == words


@pytest.mark.parametrize("segmenter", [MECAB, JIEBA], ids=["mecab", "jieba"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "猫が好きです。",
        "中文没有空格，对吗？",
        "全角　空白",
        "ＡＢＣ１２３",
        "価格は1,000円(税込)で、3.5%引き。",
        "New York City",
        "Hello, world",
        "詳しくはhttp://www.example.com/a_b?c=d&e=f#gへ",
        "user@example.com",
        "don't",
        "猫😀犬👨‍👩‍👧",
        "`code_name`と**kwargs",
        "東京・大阪（日本）",
        "한국어 단어",
        "Ça va, été",
    ],
)
def test_text_that_comes_back_whole(segmenter: Segmenter, text: str) -> None:
    assert segmenter.detokenise(segmenter.tokenise(text)) == text


def test_blanks_that_are_lost() -> None:
    """Detokenising loses blanks beside Japanese or Chinese, beside signs, and for MeCab at digits."""
    for segmenter in (MECAB, JIEBA):
        for text, back in (
            ("使用 Python 编写", "使用Python编写"),
            ("猫 犬", "猫犬"),
            ("a = b", "a=b"),
            (" end ", "end"),
            ("two  blanks\tand tab", "two blanks and tab"),
        ):
            assert segmenter.detokenise(segmenter.tokenise(text)) == back
    assert MECAB.detokenise(MECAB.tokenise("Python 3 utf8")) == "Python3utf8"
    assert JIEBA.detokenise(JIEBA.tokenise("Python 3 utf8")) == "Python 3 utf8"


@given(TEXT)
def test_nothing_but_blanks_is_lost(text: str) -> None:
    for segmenter in (MECAB, JIEBA):
        words = segmenter.tokenise(text)
        assert words.split(" ") == [word for word in words.split(" ") if word] or not words
        back = segmenter.detokenise(words)
        assert BLANK.sub("", back) == BLANK.sub("", text.strip())
        if segmenter is JIEBA and not re.search("[ \t,;]", text):
            assert back == text.strip()


@given(TEXT)
def test_japanese_words_are_those_of_sacrebleu(sacrebleu: TokenizerJaMecab, text: str) -> None:
    assert MECAB.tokenise(text) == sacrebleu(text)


@pytest.mark.parametrize(("name", "file"), FILES)
def test_real_lines(sacrebleu: TokenizerJaMecab, name: str, file: str) -> None:
    """Only blanks change; where a line has none, nothing does; and what comes back has the same words."""
    segmenter = Segmenter(name)
    whole = 0
    for line in real_lines(file):
        words = segmenter.tokenise(line)
        if name == "mecab":
            assert words == sacrebleu(line)
        back, line = segmenter.detokenise(words), line.strip()
        assert BLANK.sub("", back) == BLANK.sub("", line)
        whole += back == line
        assert back == line or BLANK.search(line) or re.search("[,;]", line)
    assert whole > 0


def test_nul_does_not_end_the_line() -> None:
    assert MECAB.tokenise("猫\0犬") == "猫 犬"


@pytest.mark.parametrize("name", ["mecab", "jieba"])
def test_pickles_without_its_dictionary(name: str) -> None:
    words = Words({"mecab": "ja", "jieba": "zh"}[name], name)
    before = words.split("東京大学、北京大学")
    data = pickle.dumps(words)
    assert len(data) < 1000
    assert pickle.loads(data).split("東京大学、北京大学") == before


@pytest.mark.parametrize(
    ("name", "extra", "missing"), [("mecab", "ja", "mecab-python3, ipadic"), ("jieba", "zh", "rjieba")]
)
def test_without_its_packages(name: str, extra: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmenters, "find_spec", lambda module: None)
    words = Words(extra, name)
    assert words.join("猫 が 好き") == "猫が好き", "the way back needs no package"
    with pytest.raises(UserError) as raised:
        words.split("猫が好き")
    assert raised.value.lines == [
        f"{name} segments {segmenters.SEGMENTERS[name].language} and is not installed (missing: {missing}) "
        f"(data.tokenise); pip install 'posnmt[{extra}]'"
    ]


def test_the_tokeniser_of_a_language() -> None:
    found = {code: word_tokeniser(code) for code in ("ja", "JPN", "zh-Hant", "zh_CN", "cmn", "de", "en", "ko", "jav")}
    assert found == {
        "ja": "mecab", "JPN": "mecab", "zh-Hant": "jieba", "zh_CN": "jieba", "cmn": "jieba",
        "de": "moses", "en": "moses", "ko": "moses", "jav": "moses",
    }  # fmt: skip
