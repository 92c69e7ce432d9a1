"""`posnmt export` and `posnmt translate --engine ctranslate2`, with a run that has learned a little (tests/frozen)."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
import yaml

from posnmt.base.errors import UserError
from posnmt.corpora.artificial.pairs import command
from posnmt.data.subword import BOS, PAD
from posnmt.deploy import verify
from posnmt.deploy.folder import new_folder
from posnmt.model.weights import save_model
from posnmt.run.run import Run
from posnmt.translate.engines import choose
from posnmt.translate.translator import Translator
from tests.support.commands import process, refused, run
from tests.support.untrained import LEARNED, untrained

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")

FROZEN = Path(__file__).parents[1] / "frozen"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The run for CTranslate2."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    out, err = run("export", LEARNED, "--format", "ctranslate2", "--out", folder)
    assert out == f"{folder}\n"
    assert "source lines: any length\ntarget lines: any length\n" in err
    assert "agrees with posnmt on 6 random pairs" in err
    return folder


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """80 sentences: 20 that the model knows, an empty one, and new ones, up to twice as long as those."""
    folder = tmp_path_factory.mktemp("sentences")
    command(folder, train=1, dev=1, test=59, min_length=3, max_length=8, test_max_length=16)
    known = (FROZEN / "dev.source").read_text()
    (folder / "text").write_text(known + "\n" + (folder / "test.source").read_text())
    return folder / "text"


def translations(*arguments):
    """The records of `posnmt translate --format jsonl`, and the warnings."""
    out, err = run("translate", *arguments, "--format", "jsonl")
    return [json.loads(line) for line in out.splitlines()], [x for x in err.split("\n") if x.startswith("warning")]


def assert_alike(ours, theirs):
    """The same subwords for each line and hypothesis, and scores up to rounding."""
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        one, other = one["hypotheses"], other["hypotheses"]
        assert [each["subwords"] for each in one] == [each["subwords"] for each in other]
        assert [each["ended"] for each in one] == [each["ended"] for each in other]
        for name in ("log_probability", "score"):
            assert [each[name] for each in one] == pytest.approx([each[name] for each in other], abs=1e-4)


def test_greedy_outputs_and_scores_are_those_of_posnmt(exported, sentences):
    options = ["--input", sentences, "--beam", 1]
    ours, theirs = translations(LEARNED, *options), translations(exported, *options)
    assert len(ours[0]) == 80
    assert_alike(ours[0], theirs[0])
    assert ours[1] == theirs[1]
    assert "reached the output limit" in ours[1][0]
    assert run("translate", LEARNED, *options)[0] == run("translate", exported, *options)[0]


@pytest.mark.parametrize(("beam", "penalty"), [(2, 1.0), (4, 0.6), (4, 0.0)])
def test_beam_search_is_that_of_posnmt(beam, penalty, exported, sentences):
    """Alike for what the model knows.

    For new sentences this one often has many equally bad outputs. CTranslate2 masks <pad>, <s> and <unk> before the
    softmax, where they have 0.3 / 104 of label smoothing, so that some of those may change places.
    """
    whole = ["--split", "huge", "--complete", "off"]  # the search is compared, and not what is done with its outputs
    options = [
        "--input",
        sentences,
        "--beam",
        beam,
        "--nbest",
        beam,
        "--length-penalty",
        penalty,
        "--max-ratio",
        2,
        *whole,
    ]
    (ours, _), (theirs, _) = translations(LEARNED, *options), translations(exported, *options)
    assert_alike(ours[:20], theirs[:20])
    alone, _ = run("translate", exported, *options[:4], *options[6:])  # ranked by CTranslate2
    texts = [record["hypotheses"][0]["text"] if record["hypotheses"] else "" for record in theirs]
    assert sum(one == other for one, other in zip(alone.splitlines(), texts, strict=True)) >= 78
    best = [[each["subwords"] for record in records for each in record["hypotheses"][:1]] for records in (ours, theirs)]
    assert sum(one == other for one, other in zip(*best, strict=True)) >= 78
    scores = [
        (one["score"], other["score"])
        for both in zip(ours, theirs, strict=True)
        for one, other in zip(*(each["hypotheses"] for each in both), strict=True)
        if one["subwords"] == other["subwords"]
    ]
    assert len(scores) >= 0.95 * beam * 80
    assert [one for one, _ in scores] == pytest.approx([other for _, other in scores], abs=1e-4)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize(("ratio", "extra"), [(0.5, 0), (0.1, 0), (1.0, 1)])
def test_outputs_end_at_their_own_limit(beam, ratio, extra, exported):
    """Each line has a limit of its own, where posnmt forces the end; also one that allows no subword at all."""
    options = ["--input", FROZEN / "dev.source", "--beam", beam, "--max-ratio", ratio, "--max-extra", extra]
    ours, theirs = translations(LEARNED, *options), translations(exported, *options)
    assert_alike(ours[0], theirs[0])
    assert ours[1] == theirs[1]
    assert any(not record["hypotheses"][0]["ended"] for record in theirs[0])


@pytest.mark.parametrize("scheme", ["sinusoidal", "alibi"])
def test_a_table_has_an_end_that_is_said_and_kept(scheme, tmp_path):
    """A longer line is an error with its number, and an output ends there; nothing is cut."""
    folder = untrained(tmp_path / "run", scheme)
    _, err = run("export", folder, "--format", "ctranslate2", "--out", tmp_path / "model", "--positions", 14)
    assert "source lines: at most 13 subwords; a longer line is an error" in err
    lines = (FROZEN / "dev.source").read_text().splitlines()
    lengths = [len(ids) for ids in Run.open(folder).text().source.encode(lines)]
    fitting = [line for line, length in zip(lines, lengths, strict=True) if length <= 13]
    assert 13 in lengths
    (tmp_path / "all").write_text("\n".join([*fitting, *lines]) + "\n")
    (tmp_path / "fitting").write_text("\n".join(fitting) + "\n")
    [line] = refused("translate", tmp_path / "model", "--input", tmp_path / "all")
    first = next(length for length in lengths if length > 13)
    assert f"{first} subwords, but this model's position table ends at 13" in line
    assert f"all:{len(fitting) + lengths.index(first) + 1}" in line
    assert "--positions" in line
    for beam in (1, 3):
        theirs, _ = translations(tmp_path / "model", "--input", tmp_path / "fitting", "--beam", beam)
        assert len(theirs) == len(fitting)
        assert max(len(record["hypotheses"][0]["subwords"]) for record in theirs) == 13


def test_learned_positions_end_where_posnmts_do(tmp_path):
    folder = untrained(tmp_path / "run", "learned", max_length=30)
    run("export", folder, "--format", "ctranslate2", "--out", tmp_path / "model")
    options = ["--input", FROZEN / "dev.source", "--beam", 1]
    ours, theirs = (translations(each, *options) for each in (folder, tmp_path / "model"))
    assert_alike(ours[0], theirs[0])
    assert ours[1] == theirs[1]
    assert max(len(record["hypotheses"][0]["subwords"]) for record in ours[0]) == 29


def test_padding_and_the_begin_symbol_are_never_written(tmp_path):
    """Not even where the model finds them the most probable; they keep their share of the probability."""
    folder = untrained(tmp_path / "run", "rope")
    model = Run.open(folder).model()
    with torch.no_grad():
        model.output.bias[[PAD, BOS]] = 9.0
    save_model(model, folder / "model.safetensors", {})
    run("export", folder, "--format", "ctranslate2", "--out", tmp_path / "model")
    options = ["--input", FROZEN / "dev.source", "--beam", 1]
    ours, theirs = (translations(each, *options)[0] for each in (folder, tmp_path / "model"))
    assert_alike(ours, theirs)
    assert not {"<pad>", "<s>"} & {piece for record in theirs for piece in record["hypotheses"][0]["subwords"]}


def test_auto_takes_pytorch_where_it_must_and_says_so(tmp_path):
    folder = untrained(tmp_path / "run", "recurrent")
    options = ["--input", FROZEN / "dev.source", "--beam", 1]
    ours, _ = run("translate", folder, *options)
    theirs, err = run("translate", folder, *options, "--engine", "auto")
    assert theirs == ours
    assert "note: translated by PyTorch: CTranslate2 cannot express recurrent" in err
    for arguments in (
        ["translate", folder, *options, "--engine", "ctranslate2"],
        ["export", folder, "--format", "ctranslate2", "--out", tmp_path / "model"],
    ):
        [line] = refused(*arguments)
        assert "CTranslate2 cannot express recurrent, which computes embeddings from other words" in line
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("scheme", "search", "precision", "graphs"),
    [
        ("recurrent", {}, "bf16", True),
        ("recurrent", {"precision": "fp32", "cuda_graphs": False}, "fp32", False),
        ("rope", {"cuda_graphs": True}, "bf16", True),
    ],
)
def test_auto_takes_pytorch_with_the_settings_of_the_run(scheme, search, precision, graphs, tmp_path, monkeypatch):
    """Also for CUDA graphs, which CTranslate2 does not have."""
    folder = untrained(tmp_path / "run", scheme)
    path = folder / "config.yaml"
    tree = {**yaml.safe_load(path.read_text()), "decode": {"precision": "bf16", "cuda_graphs": True}}
    path.write_text(yaml.safe_dump(tree))
    given = {}
    monkeypatch.setattr(Translator, "load", lambda *_, **options: given.update(options))
    choose("auto", [folder], "model", search).load()
    assert given == {"precision": precision, "cuda_graphs": graphs}


def test_batches_change_nothing(exported):
    one, other = (
        run("translate", exported, "--input", FROZEN / "dev.source", "--batch", batch)[0] for batch in (1, 4096)
    )
    assert one == other


def test_a_run_is_converted_for_one_translation(exported, sentences):
    """By a run's name, in a process of its own; characters without a subword and blanks are read by posnmt."""
    text = "uns ✗✗ mebu\n\n   \n<s> </s> <pad>\nuns mebu zabi\n".encode()
    ours, _ = run("translate", LEARNED, stdin=text)
    assert process("translate", LEARNED, "--engine", "ctranslate2", stdin=text)[0] == ours
    assert run("translate", LEARNED, "--engine", "auto", stdin=text)[0] == ours
    assert run("translate", exported, stdin=text)[0] == ours
    assert sorted(path.name for path in LEARNED.iterdir()) == [
        "config.yaml",
        "model.safetensors",
        "record.json",
        "text",
    ]


def test_int8_is_used_when_asked_for_and_stored_in_a_quarter(exported, tmp_path):
    options = ["--input", FROZEN / "dev.source", "--beam", 1]
    exact, _ = translations(exported, *options)
    rounded, _ = translations(exported, *options, "--precision", "int8")
    run("export", LEARNED, "--format", "ctranslate2", "--out", tmp_path / "int8", "--precision", "int8")
    stored, _ = translations(tmp_path / "int8", *options)
    assert_alike(stored, rounded)
    likelihoods = [[each["hypotheses"][0]["log_probability"] for each in records] for records in (exact, rounded)]
    assert likelihoods[0] != pytest.approx(likelihoods[1], abs=1e-4)
    same = sum(
        one["hypotheses"][0]["text"] == other["hypotheses"][0]["text"]
        for one, other in zip(exact, rounded, strict=True)
    )
    assert same >= 10
    sizes = [(folder / "model.bin").stat().st_size for folder in (exported, tmp_path / "int8")]
    assert sizes[1] < 0.4 * sizes[0]
    [line] = refused("translate", tmp_path / "int8", *options, "--precision", "fp32")
    assert "the weights of this model are int8" in line


def test_the_folder_says_what_it_is(exported):
    about = json.loads((exported / "posnmt.json").read_text())
    record = Run.open(LEARNED).record
    assert about["kind"] == "ctranslate2"
    assert (about["run"], about["checkpoint"], about["system"]) == ("learned", "model", "relative")
    assert about["limits"] == {"source": None, "target": None}
    assert about["training_lengths"] == record["training_lengths"]
    assert about["verified"]["largest_difference"] < 1e-4
    assert {"model.bin", "config.json", "text/source.model"} <= about["files"].keys()


def damaged(exported, place, change):
    """A copy of the folder, with the manifest changed or a file spoilt."""
    shutil.copytree(exported, place)
    path = place / "posnmt.json"
    about = json.loads(path.read_text())
    change(place, about)
    path.write_text(json.dumps(about))
    return place


def spoil(place, about):
    data = bytearray((place / "model.bin").read_bytes())
    data[len(data) // 2] ^= 1
    (place / "model.bin").write_bytes(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (spoil, "a file of the exported model has changed"),
        (lambda place, about: (place / "text" / "text.json").unlink(), "a file of the exported model is missing"),
        (lambda place, about: about.update(format=2, posnmt="9.9"), "written by a newer posnmt, in format 2"),
        (lambda place, about: about.update(kind="huggingface"), "exported for huggingface, not for ctranslate2"),
        (lambda place, about: about.pop("limits"), "limits: Field required"),
    ],
)
def test_a_damaged_or_newer_folder_is_refused(change, message, exported, tmp_path):
    [line] = refused("translate", damaged(exported, tmp_path / "copy", change), "--input", FROZEN / "dev.source")
    assert message in line


def test_a_manifest_that_is_no_json_is_refused(exported, tmp_path):
    shutil.copytree(exported, tmp_path / "copy")
    (tmp_path / "copy" / "posnmt.json").write_text("{")
    [line] = refused("translate", tmp_path / "copy", "--input", FROZEN / "dev.source")
    assert "posnmt.json cannot be read" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "torch"], "PyTorch cannot read an exported model"),
        (["--precision", "bf16"], "CTranslate2 does not translate in bf16 (--precision)"),
        (["--cuda-graphs"], "not available with CTranslate2 here (--cuda-graphs)"),
        (["--interpolate", 2], "positions of an exported model cannot be changed"),
        (["--checkpoint", "best"], "this is checkpoint model of the run, not best"),
        ([LEARNED], "CTranslate2 translates with one model"),
        (["--engine", "auto", "--precision", "int8"], "--engine auto does not use int8 (--precision)"),
    ],
)
def test_what_ctranslate2_has_not_is_refused(options, message, exported):
    [line] = refused("translate", exported, *options, "--input", FROZEN / "dev.source")
    assert message in line


def test_int8_needs_ctranslate2():
    [line] = refused("translate", LEARNED, "--precision", "int8", "--input", FROZEN / "dev.source")
    assert "add --engine ctranslate2" in line


def test_nothing_is_written_over_or_left_behind(exported, tmp_path, monkeypatch):
    [line] = refused("export", LEARNED, "--format", "ctranslate2", "--out", exported)
    assert "the output exists already" in line
    [line] = refused("export", LEARNED, "--format", "ctranslate2", "--out", tmp_path / "absent" / "model")
    assert "the parent folder of the output does not exist" in line
    monkeypatch.setattr(verify, "TOLERANCE", -1.0)
    [line] = refused("export", LEARNED, "--format", "ctranslate2", "--out", tmp_path / "model")
    assert "computes other probabilities than posnmt" in line
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_export_left_is_replaced(tmp_path):
    (tmp_path / ".model.0123abcd.partial").mkdir()
    (tmp_path / ".model.0123abcd.partial" / "old").touch()
    with new_folder(tmp_path / "model") as building:
        (building / "new").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["new"]


def test_of_two_exports_to_one_folder_the_second_is_refused(tmp_path):
    with ExitStack() as slow:
        (slow.enter_context(new_folder(tmp_path / "model")) / "slow").touch()
        with new_folder(tmp_path / "model") as fast:
            (fast / "fast").touch()
        with pytest.raises(UserError, match="the output exists already"):
            slow.close()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["model", "model/fast"]


def test_without_ctranslate2_the_way_to_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    [line] = refused("export", LEARNED, "--format", "ctranslate2", "--out", tmp_path / "model")
    assert 'pip install "posnmt[ctranslate2]"' in line
