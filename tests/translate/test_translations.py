"""N-best lists: each text once, with the sum of the probabilities of its hypotheses, and the best one first."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest
import torch
import yaml

import posnmt
from posnmt.config.schema import Decode
from posnmt.deploy.documents.command import SIGNS
from posnmt.deploy.server.service import Translated
from posnmt.translate.alignments import Aligned
from posnmt.translate.engines import choose
from posnmt.translate.mbr import expected_similarities
from posnmt.translate.parts import Line, joined
from posnmt.translate.requests import Part, Request, Search, numbered
from posnmt.translate.search import Hypothesis
from posnmt.translate.subwords import translate_subwords
from posnmt.translate.summary import WARNINGS
from posnmt.translate.together import Found
from posnmt.translate.translations import REMARKS, Translation, as_text
from tests.support.commands import run
from tests.support.untrained import LEARNED

CPU = torch.device("cpu")
BEAM = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs of one store. They hardly know their two letters, of which many subwords give the same words."""
    folder = tmp_path_factory.mktemp("ambiguous")
    draw = random.Random(1)

    def sentence():
        words = ("".join(draw.choices("ab", (4, 1), k=draw.randint(1, 5))) for _ in range(draw.randint(1, 3)))
        return " ".join(words).capitalize() + "."

    text = "".join(" ".join(sentence() for _ in range(draw.choice((1, 1, 2)))) + "\n" for _ in range(80))
    (folder / "source").write_text(text)
    (folder / "target").write_text(text)
    files, stack = {"source": "source", "target": "target"}, {"layers": 1}
    sizes = {"d_model": 16, "feed_forward": 32, "heads": 2, "dropout": 0.0, "encoder": stack, "decoder": stack}
    schedule = {"type": "constant", "warmup": 5}
    tree = {
        "data": {"train": files, "dev": files, "store": str(folder / "stores")},
        "subword": {"vocabulary": 24, "sampling": {"dropout": 0.5}},
        "model": {"system": "relative", **sizes},
        "train": {
            "steps": 40, "batch": 300, "evaluate_every": 40, "average": 1, "learning_rate": 1e-2,
            "schedule": schedule, "dev_bleu": False,
        },
        "decode": {"beam": BEAM, "max_ratio": 1.5, "max_extra": 3, "complete": "off"},  # lists of one search
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(tree))
    for seed in (1, 2):
        run("train", folder / "config.yaml", "--out", folder / f"run{seed}", "--set", f"train.seed={seed}")
    return folder


@pytest.fixture(scope="module")
def lines(folder):
    return ["", *(folder / "source").read_text().splitlines()[:20]]


@pytest.fixture(scope="module")
def model(folder):
    return posnmt.load(folder / "run1")


def searched(model, lines, decode):
    """What search has for each line: (text, hypothesis), best first."""
    translator = model._searching
    found = translate_subwords(translator.models, translator.text.source.encode(lines), decode, CPU)
    texts = iter(translator.text.target.decode([each.tokens for group in found for each in group]))
    return [[(next(texts), each) for each in group] for group in found]


def repeating(groups):
    """How many lists have a text twice."""
    return sum(len({text for text, _ in group}) < len(group) for group in groups)


@pytest.mark.parametrize("a", [1.0, 0.0])
def test_the_probabilities_of_a_text_are_added(model, lines, a):
    decode = Decode(beam=BEAM, max_ratio=1.5, max_extra=3, length_penalty=a)
    groups = searched(model, lines, decode)
    assert repeating(groups) > len(lines) // 3
    found = model.hypotheses(lines, nbest=BEAM, length_penalty=a)
    added = overtaken = 0
    for group, of_line in zip(groups, found, strict=True):
        by_text = defaultdict(list)
        for text, each in group:
            by_text[text].append(each)
        assert len(of_line) == min(BEAM, len(by_text)), "what search has beyond the beam stands in place of repetitions"
        scores = {}
        for text, same in by_text.items():
            best = max(same, key=lambda each: each.log_probability)
            scores[text] = math.log(sum(math.exp(each.log_probability) for each in same)) / (len(best.tokens) + 1) ** a
        assert [each.text for each in of_line] == sorted(scores, key=scores.get, reverse=True)[:BEAM]
        for each in of_line:
            same = by_text[each.text]
            added += len(same) > 1
            assert each.score == pytest.approx(scores[each.text], abs=1e-6)
            assert each.log_probability == max(other.log_probability for other in same)
            assert sum(word.subwords for word in each.words) == len(each.subwords) or not each.text
        overtaken += [each.text for each in of_line] != [*by_text][: len(of_line)]
    assert added > 5
    assert overtaken, "a text of several hypotheses overtakes another one"


@pytest.mark.parametrize(
    ("runs", "options"),
    [
        ("1", {"beam": 2}),
        ("1", {}),
        ("1", {"mbr": BEAM}),
        ("1", {"mbr": 3}),
        ("1", {"coverage_penalty": 0.3, "length_penalty": 0.6}),
        ("12", {}),
        ("1", {"terms": {"aab": "bab", "a": "aa"}}),
        ("1", {"terms": {"aab": "bab", "a": "aa"}, "beam": 1}),
        ("1", {"split": "sentences"}),
        ("1", {"split": "sentences", "mbr": 4}),
        ("1", {"sampling": {"temperature": 0.5}, "mbr": 12}),
        ("12", {"sampling": {"temperature": 0.5}, "mbr": 12, "split": "sentences"}),
    ],
    ids=str,
)
def test_a_list_has_each_text_once_and_begins_with_the_best(folder, lines, runs, options):
    model = posnmt.load([folder / f"run{each}" for each in runs])
    most = options.get("mbr") or options.get("beam", BEAM)
    whole = model.hypotheses(lines, nbest=most, **options)
    texts = [[each.text for each in of_line] for of_line in whole]
    assert all(len(set(group)) == len(group) <= most for group in texts)
    assert [bool(group) for group in texts] == [bool(line) for line in lines]
    if most > 1:
        assert max(map(len, texts)) > 1
    for nbest in {1, 2, most - 1} & set(range(1, most)):
        fewer = model.hypotheses(lines, nbest=nbest, **options)
        assert [[each.text for each in of_line] for of_line in fewer] == [group[:nbest] for group in texts]
    assert model.translate(lines, **options) == [(group or [""])[0] for group in texts]
    if "mbr" not in options:
        for of_line in whole:
            scores = [each.score for each in of_line if each.parts == 1]
            assert scores == sorted(scores, reverse=True)


def test_candidates_of_a_beam_count_by_the_sums_of_their_probabilities(model, lines):
    compared = 0
    for ranked, chosen in zip(*(model.hypotheses(lines, nbest=BEAM, mbr=mbr) for mbr in (0, BEAM)), strict=True):
        totals = {each.text: each.score * (len(each.subwords) + 1) for each in ranked}
        if len(totals) > 1:
            similar = expected_similarities([*totals], [math.exp(total) for total in totals.values()])
            expected = dict(zip(totals, similar, strict=True))
            assert [each.text for each in chosen] == sorted(totals, key=expected.get, reverse=True)
            compared += any(each.score * (len(each.subwords) + 1) > each.log_probability + 0.1 for each in ranked)
    assert compared > 5


def test_samples_are_as_many_as_were_asked_for_and_candidates_count_as_often_as_drawn(model, lines):
    sampling = {"temperature": 0.5, "seed": 3}
    drawn = model.hypotheses(lines, nbest=12, sampling=sampling)
    assert [len(group) for group in drawn] == [0] + [12] * (len(lines) - 1)
    assert any(len({each.text for each in group}) < 12 for group in drawn)
    parts = model.hypotheses(lines, nbest=12, sampling=sampling, split="sentences")
    assert {len(group) for group in parts} == {0, 12}
    chosen = model.hypotheses(lines, nbest=12, sampling=sampling, mbr=12)
    for samples, of_line in zip(drawn[1:], chosen[1:], strict=True):
        count = Counter(each.text for each in samples)
        similar = expected_similarities([*count], [*count.values()])
        expected = dict(zip(count, similar, strict=True))
        assert [each.text for each in of_line] == sorted(count, key=expected.get, reverse=True)


def test_a_text_counts_once_for_each_of_its_subwords():
    """Samples may have the same subwords twice; their probability is that of one."""
    side = SimpleNamespace(decode=lambda rows: ["".join("xab"[token] for token in row if token) for row in rows])
    samples = [Hypothesis(tokens, math.log(p), 0.0, True) for tokens, p in (([1], 0.2), ([1], 0.2), ([1, 0], 0.1))]
    samples += [Hypothesis([2], math.log(0.3), 0.0, True)]
    decode = Decode(sampling={}, mbr=4)
    [found] = as_text(SimpleNamespace(target=side), [Part([7])], [Found(samples)], Search(decode, 4))
    assert found.texts == ["a", "b"]
    assert found.hypotheses[0].score == pytest.approx(math.log(0.3) / 2)
    assert found.hypotheses[0].tokens == [1]


def test_a_text_that_several_translations_of_parts_give_stands_once():
    line = Line(Request("x y z"), [1], [Part([1], text="x y "), Part([1], text="z", place=1)])

    def of_part(*texts):
        hypotheses = [Hypothesis([4 + rank], -1.0 - rank, 0.0, True, [-0.5], added=0.25) for rank in range(len(texts))]
        return Translation(
            line.request, [*texts], hypotheses, [1], aligned=Aligned([], [[rank] for rank in range(len(texts))])
        )

    parts = [of_part("a b", "a", "a"), of_part("c", "b c", "d")]
    [whole] = joined([line], parts, Decode())
    assert whole.request is line.request
    assert whole.texts == ["a b c", "a d"]
    assert [each.tokens for each in whole.hypotheses] == [[4, 4], [6, 6]]
    assert [each.score for each in whole.hypotheses] == [-1.5 / 4, -5.5 / 4]
    assert whole.aligned.attended == [[0, 0], [2, 2]]
    [whole] = joined([line], parts, Decode(sampling={}))
    assert whole.texts == ["a b c", "a b c", "a d"]


def test_every_remark_has_its_sentence():
    assert {*WARNINGS, "passed", "in_sentences", "mended"} == {*REMARKS, "untagged"}
    assert {*SIGNS} <= {*REMARKS, "empty", "untagged"}


def test_ctranslate2_has_each_text_once(folder, lines):
    pytest.importorskip("ctranslate2")
    engine = choose("ctranslate2", [folder / "run1"], "model", {}).load()
    decode = Decode(beam=BEAM, max_ratio=1.5, max_extra=3, complete="off")
    scored, searched = (
        engine.translate(numbered(lines), Search(decode, BEAM, scored=scored)) for scored in (True, False)
    )
    for of_line in (*scored, *searched):
        assert len(set(of_line.texts)) == len(of_line.texts)
        scores = [each.score for each in of_line.hypotheses]
        assert scores == sorted(scores, reverse=True)
    assert any(each.added for of_line in scored for each in of_line.hypotheses)
    assert min(len(of_line.texts) for of_line in scored[1:]) < BEAM
    assert sum(one.text == other.text for one, other in zip(scored, searched, strict=True)) >= len(lines) - 1


def test_a_list_that_is_shorter_than_asked_for_is_written_as_it_is(folder, lines, tmp_path):
    (tmp_path / "input").write_text("\n".join(lines) + "\n")
    command = ("translate", folder / "run1", "--input", tmp_path / "input", "--nbest", BEAM)
    rows = [row.split("\t") for row in run(*command)[0].splitlines()]
    records = [json.loads(row) for row in run(*command, "--format", "jsonl")[0].splitlines()]
    assert [(int(number), text) for number, _, text in rows] == [
        (record["line"], text) for record in records for text in [each["text"] for each in record["hypotheses"]] or [""]
    ]
    assert {len(record["hypotheses"]) for record in records[1:]} > {BEAM}
    short, long = (
        Translation(Request("x"), texts, [Hypothesis([4], -1.0, -0.5, True)] * len(texts), [1])
        for texts in (["a"], ["b", "c"])
    )
    assert Translated([short, long], ["\n"]).alternatives(5) == ["a\nc"]


@pytest.mark.parametrize(("foreign", "warned"), [(0, False), (2, False), (3, True), (4, True)])
def test_a_text_in_another_script_is_asked_about(tmp_path, foreign, warned):
    """From more than half of its lines on; such as a test's reference in place of its source."""
    (tmp_path / "in").write_text("道を学ぶ。\n" * foreign + "uns\n" * (4 - foreign), encoding="utf-8")
    _, err = run("translate", LEARNED, "--input", tmp_path / "in", "--output", tmp_path / "out", "--max-extra", 2)
    said = re.findall("warning: .* lines are in another script than en, .*", err)
    assert [line.split(" lines")[0] for line in said] == [f"warning: {foreign} of 4"] * warned
