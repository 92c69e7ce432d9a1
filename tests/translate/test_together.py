"""Lines that are translated together, each in the context of the others."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

import posnmt
from posnmt.base.errors import UserError
from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Decode
from posnmt.data.batch import pad
from posnmt.data.subword import BOS, BREAK, EOS, PAD, UNK
from posnmt.translate.bounds import Bounds
from posnmt.translate.requests import Part, Search, numbered
from posnmt.translate.search import Hypothesis, search
from posnmt.translate.subwords import Searcher, score_subwords
from posnmt.translate.together import apart, blocks, in_blocks, joined, search_together
from tests.support import corpus
from tests.support.commands import refused, run
from tests.support.loops import greedy
from tests.support.tiny import MODELS, VOCABULARY, build, each_of, tokens

CPU = torch.device("cpu")
PARTS = [2, 5, 3]


def eager(model, more=2.5):
    """A model that ends sentences sooner than an untrained one does."""
    project, bias = model.project, torch.zeros(VOCABULARY, dtype=model.output.weight.dtype)
    bias[[BREAK, EOS]] = more
    model.project = lambda hidden: project(hidden) + bias
    return model


def together(models, sources, decode, breaks):
    """What search finds for sources of several sentences, each with so many breaks."""
    parts = [Part(source, breaks=number) for source, number in zip(sources, breaks, strict=True)]
    return Searcher(models, CPU, Workers(1)).hypotheses(parts, Search(decode))


@pytest.mark.parametrize("name", each_of())
def test_greedy_search_of_several_sentences(name):
    model = eager(build(**MODELS[name]))
    sentences = [tokens(1, length, seed=length)[0].tolist() for length in PARTS]
    sources = [joined(sentences), joined(sentences[:2]), sentences[0]]
    decode = Decode(beam=1, max_ratio=1.5, max_extra=2, min_length=2)
    breaks = [2, 1, 0]
    found = together([model], sources, decode, breaks)
    for source, number, [hypothesis] in zip(sources, breaks, found, strict=True):
        limit = int(1.5 * len(source)) + 2 * (number + 1)
        shortest = 2 if number else 0
        if number:
            assert hypothesis.tokens == greedy([model], source, limit, shortest, number)
        assert hypothesis.tokens.count(BREAK) == number or not hypothesis.ended
        assert hypothesis.ended == (len(hypothesis.tokens) < limit)


def test_a_wide_beam_has_all_outputs_of_two_sentences():
    """With a beam as wide as all outputs of at most 3 subwords, the best are one subword a sentence."""
    model, source = build(system="relative"), [5, 9, BREAK, 4]
    words = [token for token in range(VOCABULARY) if token not in (PAD, UNK, BOS, EOS)]
    complete = [[first, BREAK, second] for first, second in itertools.product(words, words)]
    cut = [[*two, last] for *two, last in itertools.product(words, words, [*words, BREAK])]
    outputs = [*complete, *cut]
    scores = score_subwords([model], [source] * len(outputs), outputs, 4096, CPU)
    row, lengths = pad([source], after=EOS)
    [found] = search([model], row, lengths, [Bounds(3, breaks=1)], beam=len(outputs))
    assert sorted(h.tokens for h in found) == sorted(outputs)
    ranked = [output for _, output in sorted(zip(scores, outputs, strict=True), key=lambda pair: -pair[0])]
    assert [h.tokens for h in found[:50]] == ranked[:50]


@pytest.mark.parametrize("beam", [1, 3])
def test_sentences_of_a_group_have_their_own_scores(beam):
    model = eager(build(system="relative"))
    source = joined([tokens(1, length, seed=length)[0].tolist() for length in PARTS])
    decode = Decode(beam=beam, max_ratio=2.0, max_extra=20)
    [[best, *_]] = together([model], [source], decode, [2])
    separate = apart(best, 3, length_penalty=0.7)
    assert separate is not None
    assert joined([each.tokens for each in separate]) == best.tokens
    assert sum(each.log_probability for each in separate) == pytest.approx(best.log_probability, abs=1e-5)
    [forced] = score_subwords([model], [source], [best.tokens], 64, CPU)
    assert forced == pytest.approx(best.log_probability, abs=2e-5)
    for each in separate:
        assert each.score == pytest.approx(each.log_probability / (len(each.tokens) + 1) ** 0.7)
        assert len(each.log_probabilities) == len(each.tokens)
        assert each.log_probability < sum(each.log_probabilities), "the symbol behind it is part of it"
    assert apart(best, 4, 1.0) is None


def test_the_coverage_penalty_of_a_group_is_in_no_score_of_its_sentences():
    model = eager(build(system="relative"))
    source = joined([tokens(1, length, seed=length)[0].tolist() for length in PARTS])
    decode = Decode(beam=3, max_ratio=2.0, max_extra=20, coverage_penalty=0.5)
    [[best, *_]] = together([model], [source], decode, [2])
    assert best.coverage < 0
    separate = apart(best, 3, length_penalty=0.7)
    assert separate is not None
    for each in separate:
        assert each.score == pytest.approx(each.log_probability / (len(each.tokens) + 1) ** 0.7)
        assert each.coverage == 0.0


LINES = st.lists(st.sampled_from(["a", "b b", "", " "]), min_size=1, max_size=40)


@given(LINES, st.data(), st.integers(2, 5))
def test_blocks_do_not_depend_on_portions(lines, data, join):
    documents = data.draw(
        st.sampled_from(
            [[], data.draw(st.lists(st.sampled_from(["x", "y", None]), min_size=len(lines), max_size=len(lines)))]
        )
    )
    requests = numbered(lines, documents=documents)
    whole = blocks(requests, join)
    assert [place for block in whole for place in block] == list(range(len(lines)))
    for block in whole:
        texts = [lines[place] for place in block]
        assert len(block) <= join
        assert len(block) == 1 or all(text.strip() for text in texts)
        assert len({documents[place] for place in block}) <= 1 if documents else True
    for one, other in itertools.pairwise(whole):  # as long as they may be
        last, first = one[-1], other[0]
        of_two = bool(documents) and not documents[last] == documents[first] is not None
        assert len(one) == join or of_two or not lines[last].strip() or not lines[first].strip()
    done = data.draw(st.sampled_from([block.start for block in whole]))
    rest, portions = requests[done:], []
    while rest:
        size = data.draw(st.integers(1, 7))
        portions.append(rest[:size])
        rest = rest[size:]
    given_to, found = done, []
    for group in in_blocks(portions, join):
        found += [range(block.start + given_to, block.stop + given_to) for block in blocks(group, join)]
        given_to += len(group)
    assert found == [block for block in whole if block.start >= done]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has learned a little of 20 lines in documents of 5, up to three together."""
    folder = tmp_path_factory.mktemp("context")
    path = corpus.memorised(folder)
    (folder / "ids").write_text("".join(f"d{line // 5} {line}\n" for line in range(20)))
    options = [
        "--set",
        "train.steps=160",
        "--set",
        "data.train.documents=ids",
        "--set",
        "train.context=3",
        "--set",
        "decode.max_ratio=2",
    ]
    run("train", path, "--out", folder / "run", *options)
    return folder


@pytest.fixture(scope="module")
def lines(trained):
    return (trained / "corpus" / "dev.source").read_text().splitlines()


def records(trained, *options):
    out, _ = run(
        "translate", trained / "run", "--input", trained / "corpus" / "dev.source", "--format", "jsonl", *options
    )
    return [json.loads(row) for row in out.splitlines()]


def test_lines_are_translated_together(trained, lines):
    rows = records(trained, "--join", 3, "--documents", trained / "ids")
    assert [row["line"] for row in rows] == list(range(1, 21))
    sizes = [row["hypotheses"][0].get("joined", 1) for row in rows]
    assert {3, 2} <= set(sizes), "three together, and the two that are left of a document of five"
    for start in range(0, 20, 5):
        assert sizes[start : start + 5] in ([3, 3, 3, 2, 2], [1, 1, 1, 2, 2], [3, 3, 3, 1, 1], [1] * 5)
    model = posnmt.load(trained / "run")
    for start in (0, 5, 10, 15):
        if sizes[start] == 3:
            text = model.hypotheses(lines[start : start + 3], join=3)
            assert [each.text for [each] in text] == [row["hypotheses"][0]["text"] for row in rows[start : start + 3]]
            assert text[0][0].log_probability == pytest.approx(
                rows[start]["hypotheses"][0]["log_probability"], abs=1e-4
            )
    ids = [line.split()[0] for line in (trained / "ids").read_text().splitlines()]
    assert model.translate(lines, join=3, documents=ids) == [row["hypotheses"][0]["text"] for row in rows]
    ids = (trained / "ids").read_text().splitlines()
    assert model.translate(lines, join=3, documents=ids) == [row["hypotheses"][0]["text"] for row in rows]
    alone = model.translate(lines)
    assert model.translate(lines, join=3, documents=[None, " "] * 10) == alone, "lines without documents are alone"
    assert model.translate(lines, join=3) != alone, "the others matter"


def test_a_group_that_reaches_the_limit_is_translated_line_by_line(trained, lines):
    out, err = run(
        "translate",
        trained / "run",
        "--input",
        trained / "corpus" / "dev.source",
        "--join",
        2,
        "--max-ratio",
        0.01,
        "--max-extra",
        1,
    )
    alone = posnmt.load(trained / "run").translate(lines, max_ratio=0.01, max_extra=1)
    assert out.splitlines() == alone
    assert "20 of 20 lines were translated each alone" in err
    assert "see --join (lines 1, 2, 3" in err


@pytest.mark.parametrize("tokens", [[5, BREAK, 6, 7], [5, BREAK]])
def test_a_sentence_that_the_limit_cuts_is_not_one_of_a_group(tokens):
    """Nor is one of which it leaves nothing."""
    gained = [-0.5] * len(tokens)
    assert apart(Hypothesis(tokens, -3.0, -1.0, False, gained), 2, 1.0) is None
    cut = [[Hypothesis(tokens, -3.0, -1.0, False, gained)], [Hypothesis([9], -1.0, -0.5, True, [-0.5])]]
    asked = []

    def search(parts):
        asked.append([(part.ids, part.breaks) for part in parts])
        return [cut[0] if part.breaks else cut[1] for part in parts]

    found = search_together([[Part([8]), Part([9, 9])]], search, 1.0)
    assert asked == [[([8, BREAK, 9, 9], 1)], [([8], 0), ([9, 9], 0)]]
    assert [[each.tokens for each in of_part.hypotheses] for of_part in found] == [[[9]], [[9]]]
    assert [(each.joined, each.fell_apart) for each in found] == [(1, True)] * 2


def test_empty_lines_stay_and_divide(trained, lines):
    text = "\n".join([lines[0], "", *lines[1:4], "", lines[4]]) + "\n"
    out, _ = run("translate", trained / "run", "--join", 2, stdin=text)
    model = posnmt.load(trained / "run")
    wanted = [*model.translate(lines[:1]), "", *model.translate(lines[1:4], join=2), "", *model.translate(lines[4:5])]
    assert out.splitlines() == wanted


def test_a_pipe_has_the_groups_of_a_file(trained, lines, tmp_path):
    """Whatever arrives at a time: lines wait for those that they belong with."""
    wanted = posnmt.load(trained / "run").translate(lines[:7], join=3)
    pipe, output = tmp_path / "pipe", tmp_path / "output"
    os.mkfifo(pipe)

    def write():
        with pipe.open("w") as stream:
            for line in lines[:7]:
                stream.write(f"{line}\n")
                stream.flush()
                threading.Event().wait(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    run("translate", trained / "run", "--input", pipe, "--join", 3, "--output", output)
    writer.join()
    assert output.read_text().splitlines() == wanted


def test_portions_and_resuming_change_nothing(trained, lines, tmp_path, monkeypatch):
    whole = [*lines, *lines[3:]]
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_text("\n".join(whole) + "\n")
    command = ("translate", trained / "run", "--input", source, "--join", 3, "--output", output)
    run(*command)
    wanted = output.read_text()
    output.unlink()
    monkeypatch.setattr("posnmt.data.lines.FIRST", 4)
    from posnmt.translate.output import PartialOutput

    add = PartialOutput.add

    def fail_after_two(self, text, number):
        if self.record.lines >= 6:
            raise KeyboardInterrupt
        add(self, text, number)

    with monkeypatch.context() as patch:
        patch.setattr(PartialOutput, "add", fail_after_two)
        run(*command, status=130)
    _, err = run(*command, "--resume")
    assert "resuming after" in err
    assert output.read_text() == wanted
    assert len(wanted.splitlines()) == len(whole)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--join", "4"], "4 lines are to be translated together; training joined at most 3 lines (--join)"),
        (["--join", "2", "--nbest", "2"], "not available with lines that are translated together (--nbest)"),
        (["--join", "2", "--sample"], "not available with lines that are translated together (--sample)"),
        (["--documents", "ids"], "documents matter to lines that are translated together (--documents); add --join"),
        (["--join", "2", "--documents", "few"], "corpus/dev.source has 20, few has 19"),
        (["--join", "2", "--engine", "ctranslate2"], "join"),
        (["--join", "2", "--document", "text"], "--join"),
    ],
)
def test_what_cannot_be_together(trained, options, sentence, monkeypatch):
    monkeypatch.chdir(trained)
    Path("few").write_text("d\n" * 19)
    error = refused("translate", "run", "--input", "corpus/dev.source", *options)
    assert sentence in " ".join(error), error


def test_a_model_that_was_not_trained_for_it_refuses(trained):
    model = posnmt.load(trained / "run")
    model._searching.context = 1
    with pytest.raises(UserError, match=r"2 lines are to be translated together; training joined none.*train\.context"):
        model.translate(["a", "b"], join=2)
    with pytest.raises(UserError, match="2 lines have 1 documents"):
        model.translate(["a", "b"], join=2, documents=["a"])
    with pytest.raises(UserError, match="documents matter to lines that are translated together"):
        model.translate(["a", "b"], documents=["a", "a"])


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_sentences_of_a_document_are_alone_whatever_the_configuration_says(trained, tmp_path, engine):
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")
    shutil.copytree(trained / "run", tmp_path / "run")
    path = tmp_path / "run" / "config.yaml"
    tree = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**tree, "decode": {**tree.get("decode", {}), "join": 2}}))
    options = ("--input", trained / "corpus" / "dev.source", "--document", "text", "--engine", engine)
    assert run("translate", tmp_path / "run", *options)[0] == run("translate", trained / "run", *options)[0]
