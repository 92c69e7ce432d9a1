"""`posnmt.load`: the texts and scores of the commands, states, and attention."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import warnings
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

import posnmt
import posnmt.position
from posnmt.run.resolve import load
from posnmt.run.run import Run
from posnmt.training.train import train
from tests.support import commands, corpus


@pytest.fixture(scope="module")
def model(trained):
    return posnmt.load(trained / "first")


@pytest.fixture
def lines(trained):
    """Lines of a file with their ends, one empty and one blank among them."""
    read = (trained / "corpus" / "dev.source").read_text(encoding="utf-8").splitlines(keepends=True)
    return [*read[:3], "\n", *read[3:8], "  \n"]


def test_texts_are_those_of_translate(trained, lines, tmp_path):
    path = tmp_path / "in"
    path.write_text("".join(lines), encoding="utf-8")
    for runs, options in (
        (["first"], {}),
        (["first"], {"beam": 1}),
        (["first"], {"beam": 3, "length_penalty": 0.5, "max_ratio": 0.5, "max_extra": 1, "batch": 40}),
        (["first", "second"], {"beam": 2}),
    ):
        folders = [trained / run for run in runs]
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        expected, _ = commands.run("translate", *folders, "--input", path, *flags)
        translated = posnmt.load(folders).translate(lines, **options)
        assert "".join(f"{line}\n" for line in translated) == expected
        assert translated[3] == translated[-1] == ""


def test_translate_warns_once_of_what_translations_do_not_keep(trained, model, lines):
    text = [lines[0], f"{lines[1].strip()} ☃", "☃ ☃ mo"]
    [[written]] = model.hypotheses(text[:1])
    seen = set()
    for options in ({}, {"protect": [re.escape(written.text[:3])]}, {"protect": "off"}):  # which no line has
        found = [each for [each] in model.hypotheses(text, **options)]
        expected = [sum(map(bool, of)) for of in zip(*((each.unknown, each.differing) for each in found), strict=True)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            texts = model.translate(text, **options)
        [warning] = caught
        assert warning.category is posnmt.TranslationWarning
        assert warning.filename == __file__
        assert re.findall(r"\d+ of \d+", str(warning.message)) == [f"{count} of 3" for count in expected if count]
        assert texts == [each.text for each in found]
        seen.add(tuple(map(bool, expected)))
    assert seen == {(True, False), (True, True)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.translate(lines)


def test_hypotheses_are_those_of_translate(trained, lines, tmp_path):
    path = tmp_path / "in"
    path.write_text("".join(lines), encoding="utf-8")
    for runs in (["first"], ["first", "second"]):
        folders = [trained / run for run in runs]
        options = ("--format=jsonl", "--nbest=2", "--beam=2", "--alignments")
        out, _ = commands.run("translate", *folders, "--input", path, *options)
        hypotheses = posnmt.load(folders).hypotheses(lines, nbest=2, beam=2, alignments=True)
        for row, of_line in zip(map(json.loads, out.splitlines()), hypotheses, strict=True):
            assert len(row["hypotheses"]) == len(of_line)
            for record, each in zip(row["hypotheses"], of_line, strict=True):
                values = json.loads(json.dumps(asdict(each)))
                places = [{key: word[key] for key in ("text", "start", "end")} for word in values.pop("source_words")]
                omitted = [[where["start"], where["end"]] for where in row["omitted"]]
                assert values.pop("omitted") == omitted
                names = ("unknown", "protected", "differing", "in_sentences", "mended")
                of_the_line = {name: values.pop(name) for name in names}
                assert (values, places) == (record, row["source_words"])
                assert of_the_line == {name: row[name] for name in of_the_line}
        assert hypotheses[3] == []


def test_scores_are_those_of_score(trained, model):
    sides = [trained / "corpus" / f"dev.{side}" for side in ("source", "target")]
    out, _ = commands.run("score", trained / "first", "--source", sides[0], "--target", sides[1])
    pairs = zip(*(side.read_text(encoding="utf-8").splitlines() for side in sides), strict=True)
    assert "".join(f"{score:.6f}\n" for score in model.score(pairs)) == out


def test_scores_are_those_of_hypotheses(model, lines):
    [[best]] = model.hypotheses(lines[:1])
    assert best.ended
    assert model.score([(lines[0], best.text)]) == pytest.approx([best.log_probability], abs=1e-4)


def test_a_run_in_bf16_translates_in_it_and_scores_in_fp32(trained, lines):
    narrow = posnmt.load(trained / "first", precision="bf16")
    pair = (lines[0], "a b")
    assert narrow.score([pair]) == posnmt.load(trained / "first").score([pair])
    assert len(narrow.translate(lines)) == len(lines)


def test_states_are_those_of_the_encoder(trained, model, lines):
    encodings = model.encode(lines)
    run = Run.open(trained / "first")
    encoder, text = run.model(), run.text()
    for line, encoding in zip(lines, encodings, strict=True):
        [ids] = text.source.encode([line])
        if not ids:
            assert encoding.subwords == []
            assert encoding.states.shape == (0, 64)
            continue
        with torch.inference_mode():
            expected = encoder.encode(torch.tensor([[*ids, 3]]), None)[0].numpy()
        assert encoding.states.dtype == np.float32
        np.testing.assert_allclose(encoding.states, expected, atol=1e-4)
        assert encoding.subwords == [*(text.source.subwords.pieces[token] for token in ids), "</s>"]


def test_attention_is_that_of_the_pass(model, lines):
    target = model.translate(lines[:1])[0]
    attention = model.attention(lines[0], target)
    assert attention.predicted[:-1] == attention.decoder.queries[1:]
    assert (attention.decoder.queries[0], attention.predicted[-1]) == ("<s>", "</s>")
    assert attention.cross.keys == attention.encoder.queries == model.encode(lines[:1])[0].subwords
    for each in (attention.encoder, attention.decoder, attention.cross):
        assert each.weights.shape == (1, 2, len(each.queries), len(each.keys))
        np.testing.assert_allclose(each.weights.sum(-1), 1, atol=1e-5)
        assert not each.weights[~each.seen].any()
    assert attention.encoder.seen.all()
    assert attention.cross.seen.all()
    assert (attention.decoder.seen == np.tri(len(attention.decoder.keys), dtype=bool)).all()
    assert attention.cross.position is None
    again = model.attention(lines[0])
    np.testing.assert_array_equal(again.cross.weights, attention.cross.weights)
    assert model.attention("").encoder.queries == ["</s>"]


def test_weights_by_hand(trained, model, lines):
    """The first layer's weights from its matrices: queries and keys, relative vectors by clipped distance, softmax."""
    run = Run.open(trained / "first")
    transformer, text = run.model(), run.text()
    [ids] = text.source.encode([lines[0]])
    attention = transformer.encoder[0].attention
    vectors = transformer.encoder_views[0].biasing[0].distance_vectors().keys.detach()
    with torch.no_grad():
        x = transformer.source.table(torch.tensor([*ids, 3])) * 64**0.5
        q, k, _ = attention.project(x).unflatten(-1, (3, 2, 32)).unbind(1)
    got, reach = model.attention(lines[0], "").encoder, len(vectors) // 2
    for head in range(2):
        for query in range(len(x)):
            terms = [
                q[query, head] @ vectors[min(max(key - query, -reach), reach) + reach] / 32**0.5
                for key in range(len(x))
            ]
            products = [q[query, head] @ k[key, head] / 32**0.5 for key in range(len(x))]
            np.testing.assert_allclose(got.position[0, head, query], terms, atol=1e-4)
            logits = torch.tensor(terms) + torch.tensor(products)
            np.testing.assert_allclose(got.weights[0, head, query], logits.softmax(0), atol=1e-5)


@pytest.fixture(scope="module")
def with_schemes(tmp_path_factory):
    """A function that builds a run of one update with position schemes of its own."""
    folder = tmp_path_factory.mktemp("schemes")
    config = corpus.make(folder, pairs=60, train={"steps": 1})

    def build(name, encoder, decoder, **model):
        sides = {
            side: {"layers": 2, "position": schemes} for side, schemes in (("encoder", encoder), ("decoder", decoder))
        }
        settings = {"system": None, **sides, **model}
        overrides = [f"model.{key}={json.dumps(value)}" for key, value in settings.items()]
        return train(load(config, overrides), folder / name)

    return build


def test_biases_by_distance(with_schemes):
    """ALiBi's slopes of 2 heads are 2^-4 and 2^-8; the mean over a sentence is the bias itself."""
    alibi, rope = [{"scheme": "alibi"}], [{"scheme": "rope"}]
    model = posnmt.load(with_schemes("alibi", alibi, rope))
    curve = model.distance_bias(6)
    assert curve.distances.tolist() == list(range(-5, 6))
    expected = -np.abs(curve.distances) * np.array([[2.0**-4], [2.0**-8]])
    np.testing.assert_allclose(curve.bias, np.stack([expected] * 2), atol=1e-6)
    assert model.distance_bias(6, side="decoder") is None
    attention = model.attention("mo ra", "ka ti")
    measured = attention.encoder.by_distance()
    slopes = np.array([[2.0**-4], [2.0**-8]])
    np.testing.assert_allclose(measured.bias[1], -np.abs(measured.distances) * slopes, atol=1e-6)
    turned = attention.decoder.by_distance()  # a rotation changes no product of a query and the key at its own place
    assert turned.distances.max() == 0
    np.testing.assert_allclose(turned.bias[..., -1], 0, atol=1e-5)
    assert np.abs(turned.bias[..., 0]).min() > 0


def test_heads_that_look_to_one_side(with_schemes):
    model = posnmt.load(with_schemes("one-sided", [{"scheme": "alibi", "encoder": "asymmetric"}], []))
    attention = model.attention("mo ra", "ka")
    count = len(attention.encoder.keys)
    assert (attention.encoder.seen[0, 0] == np.tri(count, dtype=bool)).all()
    assert (attention.encoder.seen[0, 1] == np.tri(count, dtype=bool).T).all()
    curve = attention.encoder.by_distance()
    assert np.isnan(curve.bias[0, 0, curve.distances > 0]).all()
    assert not np.isnan(curve.bias[0, 0, curve.distances <= 0]).any()
    assert attention.decoder.position is None
    assert attention.decoder.by_distance() is None


def test_what_is_no_transformer_has_states_and_no_attention(with_schemes):
    folder = with_schemes("rnn", [], [], architecture="rnn-nmt", norm="post", init="xavier").folder
    model = posnmt.load(folder)
    [encoding] = model.encode(["mo ra"])
    run = Run.open(folder)
    [ids] = run.text().source.encode(["mo ra"])
    with torch.inference_mode():
        states = run.model().encode(torch.tensor([[*ids, 3]]), None)[0]  # before those of the words, of the bridge
    assert len(encoding.states) == len(encoding.subwords) < len(states)
    np.testing.assert_allclose(encoding.states, states[-len(encoding.subwords) :], atol=1e-6)
    with pytest.raises(posnmt.UserError, match="this model is rnn-nmt"):
        model.attention("mo", "ka")


def test_a_second_encoder_adds_no_states_of_words(with_schemes):
    """biarn: 2 x 3 recurrent states stand before those of the words, and the last layer attends to them too."""
    options = {"architecture": "biarn", "options": {"steps": 3}}
    folder = with_schemes("biarn", [{"scheme": "sinusoidal"}], [], **options).folder
    model, run = posnmt.load(folder), Run.open(folder)
    [encoding] = model.encode(["mo ra"])
    [ids] = run.text().source.encode(["mo ra"])
    with torch.inference_mode():
        states = run.model().encode(torch.tensor([[*ids, 3]]), None)[0]
    assert len(states) == 6 + len(encoding.subwords)
    np.testing.assert_allclose(encoding.states, states[6:], atol=1e-6)
    cross = model.attention("mo ra", "ka").cross
    assert cross.keys == encoding.subwords
    assert cross.weights.shape[0] == 2
    np.testing.assert_allclose(cross.weights.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.translate("a line"), r"lines is one string.*\[lines\]"),
        (lambda model: model.translate(["a", 3]), r"of type int \(lines\[1\]\)"),
        (lambda model: model.translate(["a\nb"]), r"line break inside a line \(lines\[0\]\)"),
        (lambda model: model.translate(["a\0"]), "NUL"),
        (lambda model: model.translate(["\ud800"]), "surrogate"),
        (lambda model: model.translate(None), "lines is of type NoneType, not a list"),
        (lambda model: model.translate(5), "lines is of type int, not a list"),
        (lambda model: model.translate(["a"], prefixes=5), "prefixes is of type int, not a list"),
        (lambda model: model.translate(["a"], join=2, documents=5), "documents is of type int, not a list"),
        (lambda model: model.translate(["a"], join=2, documents="a"), "documents is one string"),
        (lambda model: model.translate(["a"], sampling="x"), "sampling"),
        (lambda model: model.hypotheses(["a"], nbest="2"), r"a whole number is needed; got '2' \(nbest\)"),
        (lambda model: model.hypotheses(["a"], nbest=1.5), r"a whole number is needed; got 1.5 \(nbest\)"),
        (lambda model: model.hypotheses(["a"], nbest=0), r"1 or more is needed; got 0 \(nbest\)"),
        (lambda model: model.score(5), "pairs is of type int, not a list"),
        (lambda model: model.score([5]), r"\(source, target\) \(pairs\[0\]\)"),
        (lambda model: model.score([None]), r"\(source, target\) \(pairs\[0\]\)"),
        (lambda model: model.score([("a", "b")], batch="9"), r"a whole number is needed; got '9' \(batch\)"),
        (lambda model: model.positions(5), "sources is of type int, not a list"),
        (lambda model: model.positions(["a"], length="9"), r"a whole number is needed; got '9' \(length\)"),
        (lambda model: model.translate(["a"], beam=0), "beam: a number above 0 is needed, got 0"),
        (
            lambda model: model.hypotheses(["a"], nbest=3, beam=2),
            "3 translations of a line are wanted, and the beam keeps 2",
        ),
        (lambda model: model.score(["ab"]), r"\(source, target\) \(pairs\[0\]\)"),
        (lambda model: model.score([("a", 1)]), r"targets\[0\]"),
        (lambda model: model.encode(["a"], batch=0), "1 or more"),
        (lambda model: model.distance_bias(0), "1 or more"),
        (lambda model: model.distance_bias(side="both"), "no side is called 'both'"),
    ],
)
def test_faults_are_user_errors(model, call, message):
    with pytest.raises(posnmt.UserError, match=message):
        call(model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint": "newest"}, "no checkpoint is called 'newest'"),
        ({"interpolate": 0}, "above 0"),
        ({"interpolate": "2"}, r"a number is needed; got '2' \(interpolate\)"),
        ({"positions": "x"}, "positions"),
        ({"device": 5}, "device"),
        ({"to": 5}, "to"),
        ({"checkpoint": 5}, "no checkpoint is called '5'"),
        ({"interpolate": 2.0}, "can be interpolated"),
        ({"positions": {"clips": 2}}, "unknown key positions.clips; did you mean 'clip'"),
        ({"positions": {"clip": 2}}, "clip changes distances"),
        ({"precision": "fp8"}, "precision"),
        ({"device": "abacus"}, "no device 'abacus' here"),
        ({"device": "mps"}, "MPS has no float64"),
    ],
)
def test_what_cannot_be_loaded(trained, options, message):
    with pytest.raises(posnmt.UserError, match=message):
        posnmt.load(trained / "first", **options)


def test_no_run(trained, tmp_path):
    for runs, message in (
        (tmp_path / "nowhere", "no such run folder"), ([], "no run to load"), (5, "a run is .*got int"),
        (None, "a run is .*got NoneType"), ([5], "a run is .*got int"),
    ):  # fmt: skip
        with pytest.raises(posnmt.UserError, match=message):
            posnmt.load(runs)


def test_an_ensemble_has_no_states(trained):
    both = posnmt.load([trained / "first", trained / "second"])
    for call in (lambda: both.encode(["a"]), lambda: both.attention("a", "b"), both.distance_bias):
        with pytest.raises(posnmt.UserError, match="this is an ensemble"):
            call()


def test_import_is_light():
    """In a process of its own: no PyTorch before it is needed."""
    script = """
import sys
import posnmt
heavy = {"torch", "numpy", "pydantic", "yaml"} & set(sys.modules)
assert not heavy, heavy
assert set(posnmt.__all__) <= set(dir(posnmt))
assert not hasattr(posnmt, "nothing")
"""
    root = Path(posnmt.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_public_names_are_there():
    for package in (posnmt, posnmt.position):
        assert all(getattr(package, name) is not None for name in package.__all__)
    assert list(inspect.signature(posnmt.train).parameters)[:2] == ["config", "out"]
