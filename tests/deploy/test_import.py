"""Checkpoints of other toolkits as runs: what does not need the toolkits. tests/peers compares with them."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from posnmt.base.files import sha256_of
from posnmt.data.marks import mark_for
from posnmt.data.subword import Subwords
from posnmt.deploy.importing import marian as marian_hf
from posnmt.deploy.importing.vocabulary import NEVER, settings
from posnmt.run.run import Run
from tests.support import marian, onmt_checkpoint
from tests.support.commands import refused, run

SOURCE = [pair.source for pair in marian.PAIRS[:5]]
TARGET = [pair.target for pair in marian.PAIRS[:5]]


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A folder with a Marian model, and the run made of it."""
    place = tmp_path_factory.mktemp("imported")
    folder = marian.write(place / "hf", missing=12)
    out, err = run("import", "marian-hf", folder, "--out", place / "run")
    assert out == f"{place / 'run'}\n"
    assert err.count("pieces of source.spm are not in the vocabulary") == 1
    return folder, place / "run"


@pytest.fixture
def folder(imported, tmp_path):
    """A copy of the Marian model, to be damaged."""
    return shutil.copytree(imported[0], tmp_path / "damaged")


def text_of(folder, name, lines):
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / name


def test_a_run_says_where_it_is_from_and_every_command_reads_it(imported, tmp_path):
    _, place = imported
    record = Run.open(place).record
    assert record["imported"]["format"] == "marian-hf"
    assert record["imported"]["files"] == {path.name: sha256_of(path) for path in imported[0].iterdir()}
    assert Run.open(place).config.decode.beam == 3
    source, target = text_of(tmp_path, "source", SOURCE), text_of(tmp_path, "target", TARGET)
    lines = run("translate", place, "--input", source, "--format", "jsonl")[0].splitlines()
    assert len(lines) == len(SOURCE)
    assert len(run("score", place, "--source", source, "--target", target)[0].splitlines()) == len(SOURCE)
    run("show", place, "--source", source, "--out", tmp_path / "shown")
    run("export", place, "--format", "ctranslate2", "--out", tmp_path / "ct2")
    # CTranslate2 has no links, by which spans are placed and sentences that are left out are noticed.
    options = ("--input", source, "--beam", 1, "--protect", "off", "--complete", "off")
    theirs = run("translate", tmp_path / "ct2", *options)[0]
    assert theirs == run("translate", place, *options)[0]


def test_the_codes_of_target_languages_are_marks(imported, folder, tmp_path):
    """Each sentence of a line has the code, as one subword; a code of another form remains text."""
    place = imported[1]
    assert Run.open(place).marks == {marian.CODE: 0}
    text = Run.open(place).text()
    marked = text.marked(mark_for("FRA", Run.open(place).marks)).source
    assert marked.encode(SOURCE) == text.source.encode([f"{marian.CODE} {line}" for line in SOURCE])
    [first, *rest] = marked.encode(SOURCE[:1])[0]
    assert (text.source.subwords.pieces[first], rest) == (f"▁{marian.CODE}", text.source.encode(SOURCE[:1])[0])
    sentences = [f"{line.capitalize()}." for line in SOURCE[:3]]
    together = run("translate", place, "--to", "fra", "--split", "sentences", stdin=f"{' '.join(sentences)}\n")[0]
    each = run("translate", place, stdin="".join(f"{marian.CODE} {line}\n" for line in sentences))[0]
    assert together.split() == each.split()
    assert together.count("\n") == 1
    edited(folder, "vocab.json", lambda tree: tree.update({">>deu+fra<<": tree.pop(marian.CODE)}))
    run("import", "marian-hf", folder, "--out", tmp_path / "run")
    assert Run.open(tmp_path / "run").marks == {}


def test_a_training_goes_on_from_it(imported, tmp_path):
    source = text_of(tmp_path, "source", [pair.source for pair in marian.PAIRS[:60]])
    target = text_of(tmp_path, "target", [pair.target for pair in marian.PAIRS[:60]])
    given = ("--source", source, "--target", target, "--out", tmp_path / "run", "--set", "train.steps=2")
    out, _ = run("train", "--init", imported[1], *given, "--set", f"data.store={tmp_path / 'stores'}")
    assert out == f"{tmp_path / 'run'}\n"
    again = Run.open(tmp_path / "run")
    assert again.config.model.activation == "silu"
    assert again.text_hash() == Run.open(imported[1]).text_hash()
    assert "unknown.en" in refused("train", "--out", imported[1], "--resume")[0]


def test_a_vocabulary_beside_the_model_is_saved_and_read(imported, tmp_path):
    text = Run.open(imported[1]).text()
    assert text.shared
    assert text.source.subwords.model != text.target.subwords.model
    lines = [pair.source for pair in marian.PAIRS]
    ids = {piece: number for number, piece in enumerate(text.source.subwords.pieces)}
    encoded = [[ids.get(piece, 1) for piece in row] for row in text.source.subwords.split(lines)]
    assert text.source.encode(lines) == encoded
    assert any(1 in row for row in encoded)
    text.source.subwords.save(tmp_path / "source.model")
    again = Subwords.load(tmp_path / "source.model")
    assert again.encode(SOURCE) == text.source.subwords.encode(SOURCE)
    ids, lengths = again.encode_flat(SOURCE)
    assert ids.tolist() == [number for row in again.encode(SOURCE) for number in row]
    assert lengths.sum() == len(ids)
    (tmp_path / "source.vocabulary.json").write_text('["<pad>"]')
    with pytest.raises(Exception, match="not a vocabulary"):
        Subwords.load(tmp_path / "source.model")


def test_the_special_symbols_have_their_own_weights(imported):
    """posnmt's `<pad>`, `<unk>`, `<s>`, `</s>` are rows of the toolkit's table at other places, two of them one row."""
    folder, place = imported
    about, ids = (json.loads((folder / name).read_text()) for name in ("config.json", "vocab.json"))
    pad, end = about["pad_token_id"], about["eos_token_id"]
    assert about["decoder_start_token_id"] == pad > ids["<unk>"] > end
    weights = load_file(folder / "model.safetensors")
    order, model = marian_hf.order(about["d_model"]), Run.open(place).model()
    pieces = Run.open(place).text().source.subwords.pieces
    rows = [
        pad,
        ids["<unk>"],
        pad,
        end,
        *(ids[piece.removeprefix("▁") if marian.CODE in piece else piece] for piece in pieces[4:]),
    ]
    torch.testing.assert_close(model.output.weight, weights["model.shared.weight"][rows][:, order])
    bias = weights["final_logits_bias"][0, rows]
    bias[0] = NEVER  # what pads begins an output there, and is predicted as neither here
    torch.testing.assert_close(model.output.bias, bias)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_the_configuration_says_how_the_subwords_were_learned(kind):
    subwords = Subwords(marian.spm("source", kind), ["<pad>", "<unk>", "<s>", "</s>", "a", "b"])
    assert settings(subwords) == {"type": kind, "vocabulary": 2, "normalisation": "nmt_nfkc"}


def edited(folder, name, change):
    """A JSON file of the folder after a change."""
    tree = json.loads((folder / name).read_text())
    change(tree)
    (folder / name).write_text(json.dumps(tree))


def tensors(folder, change):
    """The weights of the folder after a change."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    path.unlink()
    save_file(weights, path)


def cases():
    def config(**changes):
        return lambda folder: edited(folder, "config.json", lambda tree: tree.update(changes))

    def weights(change):
        return lambda folder: tensors(folder, change)

    layer = "model.decoder.layers.1.fc1.weight"
    return {
        "other architecture": (config(model_type="bart"), "not a Marian model: its model_type is 'bart'"),
        "a key is missing": (lambda f: edited(f, "config.json", lambda t: t.pop("d_model")), "d_model: Field required"),
        "other activation": (config(activation_function="tanh"), "posnmt has no activation 'tanh'"),
        "heads differ": (config(decoder_attention_heads=2), "attention_heads of encoder and decoder differ (4 and 2)"),
        "quantised": (config(quantization_config={"bits": 4}), "quantization_config"),
        "odd": (config(d_model=30), "not a multiple of 4 heads"),
        "no subwords": (lambda f: (f / "target.spm").unlink(), "subword model does not exist"),
        "no vocabulary": (lambda f: (f / "vocab.json").unlink(), "the vocabulary does not exist"),
        "ids twice": (lambda f: edited(f, "vocab.json", lambda t: t.update({"neu": 5})), "has the id 5, like another"),
        "ids too large": (lambda f: edited(f, "vocab.json", lambda t: t.update({"neu": 9999})), "has the id 9999"),
        "no weights": (lambda f: (f / "model.safetensors").unlink(), "neither model.safetensors nor pytorch_model.bin"),
        "no languages": (lambda f: (f / "tokenizer_config.json").unlink(), "add --languages, such as"),
        "other shape": (weights(lambda w: w.update({layer: w[layer][:-1].clone()})), f"{layer} is [47, 32]"),
        "missing tensor": (weights(lambda w: w.pop(layer)), f"the checkpoint has no {layer}"),
        "more tensors": (weights(lambda w: w.update(extra=torch.zeros(1))), "does not have: extra"),
        "not finite": (weights(lambda w: w[layer].fill_(float("nan"))), "fc1.weight has values that are not finite"),
        "other positions": (
            weights(lambda w: w.update({"model.encoder.embed_positions.weight": torch.ones(512, 32)})),
            "are not the sinusoids of Vaswani",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", cases())
def test_a_folder_that_is_not_such_a_model_gives_one_line(name, folder, tmp_path):
    change, message = cases()[name]
    change(folder)
    [line] = refused("import", "marian-hf", folder, "--out", tmp_path / "run")
    assert message in line
    assert not (tmp_path / "run").exists()


def test_places_that_are_none(imported, tmp_path):
    assert "the folder does not exist" in refused("import", "marian-hf", tmp_path / "x", "--out", tmp_path / "run")[0]
    assert "exists already" in refused("import", "marian-hf", imported[0], "--out", tmp_path)[0]


class Harmful:
    def __reduce__(self):
        return print, ("this code was run",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Harmful(), "object of print, whose code would run"),
        ([1, 2], "it has no named weights"),
    ],
)
def test_a_pickle_runs_no_code(content, message, folder, tmp_path, capsys):
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    [line] = refused("import", "marian-hf", folder, "--out", tmp_path / "run")
    assert message in line
    assert "this code was run" not in capsys.readouterr().out


def test_a_damaged_pickle_gives_one_line(folder, tmp_path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    [line] = refused("import", "marian-hf", folder, "--out", tmp_path / "run")
    assert "not a checkpoint of PyTorch" in line


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """A run made of a checkpoint of OpenNMT-py for text that is segmented already."""
    place = tmp_path_factory.mktemp("words")
    path = onmt_checkpoint.write(place / "model.pt", words=True, max_relative_positions=3, position_encoding=False)
    run("import", "opennmt-py", path, "--subwords", "none", "--languages", "en-fr", "--out", place / "run")
    return place / "run"


def test_the_subwords_of_opennmt_are_among_the_files(tmp_path):
    """Two files of one name by their paths."""
    path = onmt_checkpoint.write(tmp_path / "model.pt")
    models = {side: tmp_path / side / "spm.model" for side in ("source", "target")}
    for side, model in models.items():
        model.parent.mkdir()
        model.write_bytes(marian.spm(side))
    subwords = ("--source-subwords", models["source"], "--target-subwords", models["target"])
    run("import", "opennmt-py", path, *subwords, "--languages", "en-fr", "--out", tmp_path / "run")
    files = {"model.pt": path, **{str(model): model for model in models.values()}}
    assert Run.open(tmp_path / "run").record["imported"]["files"] == {
        name: sha256_of(file) for name, file in files.items()
    }


@pytest.mark.parametrize("given", [("--source-subwords",), ("--subwords", "--source-subwords", "--target-subwords")])
def test_the_subwords_of_opennmt_are_of_both_sides_in_one_way(given, tmp_path):
    path, model = onmt_checkpoint.write(tmp_path / "model.pt"), tmp_path / "spm.model"
    model.write_bytes(marian.spm("source"))
    options = [part for option in given for part in (option, model)]
    [line] = refused("import", "opennmt-py", path, *options, "--languages", "en-fr", "--out", tmp_path / "run")
    assert all(option in line for option in ("--subwords", "--source-subwords", "--target-subwords"))
    assert not (tmp_path / "run").exists()


def test_segmented_text_is_split_at_its_blanks(words):
    text = Run.open(words).text()
    ids = text.source.encode([SOURCE[0], "unheard of", ""])
    assert [text.source.subwords.pieces[number] for number in ids[0]] == [f"▁{word}" for word in SOURCE[0].split()]
    assert ids[1:] == [[1, 1], []]
    assert text.source.decode([ids[0], [1]]) == [SOURCE[0], "⁇"]


def test_the_end_of_the_source_is_not_read(words):
    model = Run.open(words).model()
    given, other = torch.tensor([[7, 8, 9, 3]]), torch.tensor([[7, 8, 9, 5]])
    target = torch.tensor([[2, 6, 7]])
    with torch.inference_mode():
        plain, same = model(given, None, target), model(other, None, target)
        padded = model(torch.tensor([[7, 8, 9, 3, 0, 0]]), torch.tensor([4]), target)
        changed = model(torch.tensor([[7, 8, 5, 3]]), None, target)
    torch.testing.assert_close(plain, same)
    torch.testing.assert_close(plain, padded)
    assert (plain - changed).abs().max() > 1e-3


def test_ctranslate2_reads_no_end_either(words, tmp_path):
    source = text_of(tmp_path, "source", SOURCE)
    run("export", words, "--format", "ctranslate2", "--out", tmp_path / "ct2")
    ours, theirs = (run("translate", each, "--input", source, "--beam", 1)[0] for each in (words, tmp_path / "ct2"))
    assert ours == theirs


REFUSED = {
    "other encoder": ({"encoder_type": "rnn"}, "encoder_type is 'rnn'"),
    "gated": ({"pos_ffn_activation_fn": "silu"}, "pos_ffn_activation_fn is 'silu'"),
    "rope": ({"max_relative_positions": -1}, "max_relative_positions is -1"),
    "other sinusoids": ({"position_encoding_type": "SinusoidalConcat"}, "no positions 'SinusoidalConcat'"),
    "language model": ({"model_task": "lm"}, "model_task is 'lm'"),
    "LoRA": ({"lora_layers": ["linear_query"]}, "LoRA or quantised layers"),
    "vocabulary of pieces": ({"words": False}, "add --source-subwords and --target-subwords"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_checkpoints_of_opennmt_give_one_line(name, tmp_path):
    changes, message = REFUSED[name]
    written = {key: value for key, value in changes.items() if key in ("words", "lora_layers")}
    path = onmt_checkpoint.write(tmp_path / "model.pt", **{"words": True, **written})
    with torch.serialization.safe_globals([Namespace]):
        tree = torch.load(path)
    vars(tree["opt"]).update({key: value for key, value in changes.items() if key != "words"})
    torch.save(tree, path)
    given = ("--subwords", "none", "--languages", "en-fr")
    [line] = refused("import", "opennmt-py", path, *given, "--out", tmp_path / "run")
    assert message in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model": {}, "opt": Harmful()}, "an object of print"),
        ({"model": {}, "generator": {}}, "not a checkpoint of OpenNMT-py 3: it has no opt and vocab"),
    ],
)
def test_other_files_are_no_checkpoints_of_opennmt(content, message, tmp_path):
    torch.save(content, tmp_path / "model.pt")
    given = ("--subwords", "none", "--languages", "en-fr", "--out", tmp_path / "run")
    [line] = refused("import", "opennmt-py", tmp_path / "model.pt", *given)
    assert message in line
    [line] = refused("import", "opennmt-py", tmp_path / "model.pt", "--languages", "en-fr", "--out", tmp_path / "run")
    assert "--subwords, or --source-subwords and --target-subwords" in line
