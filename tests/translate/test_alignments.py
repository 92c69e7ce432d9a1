"""Word alignments: attention by loops over a forced pass, words by blanks, and what commands and Python get."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import posnmt
from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.data.tokenise import Words
from posnmt.run.run import Run
from posnmt.translate import alignments
from posnmt.translate.alignments import Aligned, align, joined
from posnmt.translate.attention import attend_pair
from posnmt.translate.parts import in_parts
from posnmt.translate.requests import Request, Search, numbered
from posnmt.translate.translator import Translator
from posnmt.translate.words import Span, spans
from tests.support.commands import refused, run
from tests.support.tiny import MODELS, TRANSFORMERS, build, tokens

LEARNED = Path(__file__).parents[1] / "frozen" / "learned"
LINES = (LEARNED.parent / "dev.source").read_text().splitlines()[:4]


@pytest.fixture(scope="module")
def side():
    """The text pipeline of a run's sources."""
    return Run.open(LEARNED).text().source


def by_loops(models, source, target):
    """For each subword of a target the source subword with most attention of the last layers' heads; None: eos."""
    weights = [attend_pair(model, source, target).cross.weights[-1] for model in models]
    attended = []
    for step in range(len(target)):
        best, most = None, -1.0
        for place in range(len(source) + 1):
            heads = [each[head, step, place - len(source) - 1].item() for each in weights for head in range(len(each))]
            if sum(heads) / len(heads) > most:
                best, most = place, sum(heads) / len(heads)
        attended.append(best if best < len(source) else None)
    return attended


class OneToOne:
    """A text pipeline whose words are its subwords, each a letter."""

    mark = ""

    class words:
        tokeniser = "none"

    class subwords:
        pieces = tuple(f"\u2581{chr(97 + number)}" for number in range(26))

        @staticmethod
        def decode(rows):
            return ["".join(chr(97 + token) for token in row) for row in rows]


@pytest.mark.parametrize(
    "names",
    [
        *[(name,) for name in TRANSFORMERS if name in ("transformer", "relative", "rope", "biarn", "re-both")],
        ("transformer", "relative"),
    ],
    ids="+".join,
)
def test_subwords_are_linked_by_most_attention(names):
    models = [build(**MODELS[name]) for name in names]
    sources = [tokens(1, length, seed=length)[0].tolist() for length in (1, 4, 7, 3)]
    hypotheses = [
        [tokens(1, length, seed=50 + length)[0].tolist() for length in row] for row in ((2,), (5, 3), (1,), ())
    ]
    lines = [" ".join(chr(97 + token) for token in source) for source in sources]
    expected = [
        [by_loops(models, source, each) for each in group] for source, group in zip(sources, hypotheses, strict=True)
    ]
    for batch in (8, 4096):
        aligned = align(models, OneToOne(), lines, sources, hypotheses, batch)
        assert [each.attended for each in aligned] == expected
        assert [[word.text for word in each.words] for each in aligned] == [line.split() for line in lines]
    linked = [place for group in expected for row in group for place in row]
    assert len({*linked}) > 3, "or all are alike"


def test_words_are_linked_where_their_subwords_are():
    words = [Span("ab", 0, 2, 2), Span("c", 3, 4, 1)]
    aligned = Aligned([Span("x", 0, 1, 1), Span("yz", 2, 4, 3)], [[1, 1, None], [0, 1, 0], [None, None, None]])
    assert aligned.links(0, words) == [(1, 0)]
    assert aligned.links(1, words) == [(0, 0), (0, 1), (1, 0)]
    assert aligned.links(2, words) == []
    parts = joined([aligned, Aligned([Span("q", 1, 2, 1)], [[None, 0]]), Aligned([], [])], ["x yz", " q", "\u200b"])
    assert parts == Aligned(
        [Span("x", 0, 1, 1), Span("yz", 2, 4, 3), Span("q", 5, 6, 1)],
        [[1, 1, None, None, 2], [0, 1, 0, None, 2], [None, None, None, None, 2]],
    )


@given(st.text("abuné 漢字①ﬁ\u0301\u200b.İ", max_size=30))
def test_words_of_any_line_are_in_order_and_have_all_subwords(text):
    side = Run.open(LEARNED).text().source
    [ids] = side.encode([text])
    words = spans(side, text, ids)
    ends = [0, *(word.end for word in words)]
    assert all(word.start >= end for word, end in zip(words, ends, strict=False))
    assert all(word.text == text[word.start : word.end] != "" for word in words)
    assert sum(word.subwords for word in words) in ({len(ids)} if words else {0})


def test_words_behind_unknown_characters_are_where_they_stand(side):
    line = f"漢字漢 {LINES[0]} 字 {LINES[1]}"
    [ids] = side.encode([line])
    assert [word.text for word in spans(side, line, ids) if word.text.isascii()] == [
        *LINES[0].split(),
        *LINES[1].split(),
    ]


@pytest.mark.parametrize("options", [(), ("--beam", "3", "--nbest", "2"), ("--sample", "--seed", "3")])
def test_links_of_translated_lines(options):
    lines = [LINES[0], "", LINES[1]]
    text = "".join(f"{line}\n" for line in lines)
    rows = [
        json.loads(row)
        for row in run("translate", LEARNED, "--alignments", "--format", "jsonl", *options, stdin=text)[0].splitlines()
    ]
    plain = run("translate", LEARNED, "--alignments", *options, stdin=text)[0].splitlines()
    without = run("translate", LEARNED, *options, stdin=text)[0].splitlines()
    assert [each.rpartition("\t")[0] for each in plain] == without
    links = [each.rpartition("\t")[2] for each in plain]
    hypotheses = [each for row in rows for each in row["hypotheses"] or [{"alignment": []}]]
    assert links == [" ".join(f"{i}-{j}" for i, j in each["alignment"]) for each in hypotheses]
    model = Translator.load([Run.open(LEARNED)])
    for row in rows:
        assert [word["text"] for word in row["source_words"]] == row["source"].split()
        assert all(row["source"][each["start"] : each["end"]] == each["text"] for each in row["source_words"])
        for each in row["hypotheses"]:
            [source] = model.text.source.encode([row["source"]])
            pieces = model.text.target.subwords.pieces
            target = [pieces.index(piece) for piece in each["subwords"]]
            expected = set()
            for place, attended in enumerate(by_loops(model.models, source, target)):
                if attended is not None:
                    expected.add(
                        (word_of(model.text.source, source, attended), word_of(model.text.target, target, place))
                    )
            assert {tuple(link) for link in each["alignment"]} == expected
            assert expected


@pytest.mark.parametrize("tokeniser", ["none", "moses"])
def test_the_mark_of_a_target_language_is_no_word_of_the_line(tokeniser, side, monkeypatch):
    plain = replace(side, words=Words("en", tokeniser))
    marked = replace(plain, mark="<2den>")
    lines = ["den dem dedo", "neben den", ""]
    expected, sources = plain.encode(lines), marked.encode(lines)
    everywhere = [range(len(source) + 1) for source in sources]  # a subword of the translation for each of the source
    monkeypatch.setattr(alignments, "_attended", lambda *_: everywhere)
    aligned = align([], marked, lines, sources, [[[5]] for _ in lines], 4096)
    assert [[word.text for word in each.words] for each in aligned] == [line.split() for line in lines]
    for each, ids, source in zip(aligned, expected, sources, strict=True):
        of_words = [number for number, word in enumerate(each.words) for _ in range(word.subwords)]
        assert each.attended == [[*[None] * (len(source) - len(ids)), *of_words, None]]
        assert len(of_words) == len(ids)
    assert len(sources[0]) - len(expected[0]) > 2


def word_of(side, ids, place):
    """The number of the word of a subword, by blanks."""
    return sum(side.subwords.pieces[token].startswith("\u2581") for token in ids[1 : place + 1])


def test_a_line_in_parts_has_the_links_of_its_parts():
    model, translator = posnmt.load(LEARNED), Translator.load([Run.open(LEARNED)])
    line = ". ".join(LINES)
    decode = Decode(split="auto")
    source = translator.text.source
    [found] = in_parts([Request(line)], source.encode([line]), source, decode, translator.trained, None)
    texts = [part.text for part in found.parts]
    [[whole]] = model.hypotheses([line], split="auto", alignments=True)
    assert whole.parts == len(texts) > 1
    assert [word.text for word in whole.source_words] == line.replace(".", "").split()  # of unknown characters nothing
    assert all(line[word.start : word.end] == word.text for word in whole.source_words)
    expected, sources, words = [], 0, 0
    for [part] in model.hypotheses(texts, split="off", alignments=True):
        expected += [(source + sources, target + words) for source, target in part.alignment]
        sources, words = sources + len(part.source_words), words + len(part.words)
    assert whole.alignment == expected
    [[plain]] = model.hypotheses(LINES[:1])
    assert (plain.source_words, plain.alignment) == ([], [])


def test_alignments_of_a_file_go_on_where_they_stopped(tmp_path):
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    run("translate", LEARNED, "--alignments", "--input", tmp_path / "in", "--output", tmp_path / "out")
    rows = (tmp_path / "out").read_text().splitlines()
    assert len(rows) == len(LINES)
    assert all("-" in row.split("\t")[1] for row in rows)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (("--engine", "ctranslate2"), "not available with CTranslate2 here (--alignments)"),
        (("--document", "wrapped"), "--alignments"),
    ],
)
def test_what_has_no_alignments(options, fault):
    if "ctranslate2" in options:
        pytest.importorskip("ctranslate2")
    [line] = refused("translate", LEARNED, "--alignments", *options, stdin="a\n")
    assert fault in line


def test_models_without_layers_of_attention_are_refused():
    other = build(**MODELS["convs2s"])
    with pytest.raises(UserError, match="an alignment needs the attention of a Transformer, and this is convs2s"):
        align([other], OneToOne(), ["a"], [[5]], [[[6]]], 4096)


def test_bf16_and_packed_weights_align_alike():
    runs, search = [Run.open(LEARNED)], Search(Decode(), aligned=True)
    exact = Translator.load(runs).translate(numbered(LINES), search)
    rounded = Translator.load(runs, precision="bf16").translate(numbered(LINES), search)
    same = [a.aligned.attended == b.aligned.attended for a, b in zip(exact, rounded, strict=True) if a.texts == b.texts]
    assert sum(same) >= len(same) / 2 > 0
