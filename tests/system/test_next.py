"""What commands suggest to run next works when it is pasted; commands that take a run say what a folder lacks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import posnmt
from posnmt.base.errors import UserError
from posnmt.base.interrupt import Interrupted, StopSignal
from posnmt.cli.next import after_training
from posnmt.data.batch import Cursor
from posnmt.run.resolve import load
from posnmt.run.run import LOCK, Run, claimed, is_claimed
from posnmt.training.progress import Progress
from posnmt.training.stop import why_stop
from posnmt.training.train import train
from tests.support import corpus
from tests.support.commands import refused, run
from tests.support.serving import Serving
from tests.support.training_case import StopAt

TINY = ("train.log_every=1", "train.loggers=[]", "train.precision=fp32")


def settings(*given: str) -> list[str]:
    return [word for each in (*TINY, *given) for word in ("--set", each)]


def suggested(err: str) -> dict[str, list[str]]:
    """Command → its arguments, of what is printed under "Next:"."""
    commands = [shlex.split(line) for line in err.split("Next:\n")[1].splitlines()]
    assert {words[0] for words in commands} == {"posnmt"}
    return {words[1]: words[1:] for words in commands}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """In a folder whose name a shell would split."""
    folder = tmp_path_factory.mktemp("a corpus")
    path = corpus.make(folder, pairs=60, train={"steps": 4, "evaluate_every": 2})
    sides = ((folder / f"corpus/dev.{side}").read_text().splitlines() for side in ("source", "target"))
    (folder / "corpus/dev.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in zip(*sides, strict=True)))
    return path


CASES = {
    "files": ["train.steps=2"],
    "held out": ["data.dev=null", "data.held_out=10", "train.epochs=1", "train.steps=null", "train.batch=2000"],
    "table": ["data.dev.tsv=corpus/dev.tsv", "data.dev.source=null", "data.dev.target=null", "train.steps=1"],
    "minutes": ["train.steps=null", "train.minutes=0.01"],
    "patience": ["train.patience=1", "train.learning_rate=1e-9", "train.evaluate_every=1"],
}


@pytest.mark.parametrize("case", CASES)
def test_what_training_suggests_works(config, tmp_path, case):
    """Translate, analyse, serve, go on; and once more after going on."""
    folder = tmp_path / "my runs" / "one=1"
    out, err = run("train", config, "--out", folder, *settings(*CASES[case]))
    assert out == f"{folder}\n"
    for _ in range(2):
        commands = suggested(err)
        assert list(commands) == ["translate", "analyse", "serve", "train"]
        run(*commands["translate"])
        given = commands["translate"]
        source, output = (Path(given[given.index(name) + 1]) for name in ("--input", "--output"))
        assert source.is_relative_to(folder) is (case in ("held out", "table"))
        lines = [path.read_text().splitlines() for path in (source, output)]
        assert len(lines[0]) == len(lines[1]) == (10 if case == "held out" else 20)
        out, _ = run(*commands["analyse"], "--samples", 0)
        assert Path(out.strip()).is_file()
        before = Run.open(folder).record
        out, err = run(*commands["train"])
        assert out == f"{folder}\n"
        assert Run.open(folder).record["steps"] > before["steps"]


def test_what_training_suggests_serves(config, tmp_path):
    _, err = run("train", config, "--out", tmp_path / "my run", *settings("train.steps=1"))
    server = Serving(*suggested(err)["serve"][1:])
    try:
        assert server.get("/languages")[0] == 200
    finally:
        server.end()


def test_held_out_pairs_are_those_that_dev_has(config, tmp_path):
    run("train", config, "--out", tmp_path / "run", *settings(*CASES["held out"]))
    texts = {name: (config.parent / f"corpus/train.{name}").read_text().splitlines() for name in ("source", "target")}
    kept = [(tmp_path / f"run/dev.{name}").read_text().splitlines() for name in ("source", "target")]
    assert len({*zip(*kept, strict=True)} & {*zip(*texts.values(), strict=True)}) == 10


def test_without_dev_training_suggests_to_translate_what_is_typed(config, tmp_path):
    _, err = run("train", config, "--out", tmp_path / "run", *settings("data.dev=null", "train.steps=1"))
    commands = suggested(err)
    assert list(commands) == ["translate", "serve", "train"]
    out, _ = run(*commands["translate"], stdin=b"lo dumo\n")
    assert len(out.splitlines()) == 1


def test_what_preparing_suggests_trains_on_that_store(config, tmp_path, monkeypatch):
    out, err = run("prepare", config, "--out", tmp_path / "stores", *settings("train.steps=1"))
    monkeypatch.chdir(tmp_path)
    _, told = run(*suggested(err)["train"])
    assert told.count(f"these inputs are prepared already: {out.strip()}") == 1
    assert Run.open(tmp_path / "runs" / config.stem).record["steps"] == 1


def test_preparing_is_told_once(config, tmp_path):
    """Also where it is done twice, the first time to choose settings."""
    for name, told in (("new", "store written: "), ("again", "these inputs are prepared already: ")):
        arguments = ["--out", tmp_path / name, *settings("train.steps=1", f"data.store={tmp_path / 'stores'}")]
        _, err = run("train", config, *arguments)
        said = re.findall("store written: |these inputs are prepared already: ", err)
        assert said == [told]


LIMITS = [("minutes", 1), ("minutes", 0.5), ("minutes", 2), ("steps", 1), ("steps", 1200), ("epochs", 1), ("epochs", 2)]


@pytest.mark.parametrize(("key", "limit"), [*LIMITS, ("patience", 1), ("patience", 2)])
def test_going_on_has_twice_the_limit_that_ended_a_training(config, tmp_path, key, limit):
    budget = {"train.steps": "null", "train.minutes": 99, f"train.{key}": limit}
    changed = load(config, [*TINY, *(f"{name}={value}" for name, value in budget.items())])
    trained = train(load(config, [*TINY, "train.steps=1"]), tmp_path / "run")
    trained.change(changed, step=1)
    reached = {
        "minutes": Progress(seconds=60 * limit),
        "steps": Progress(step=limit),
        "epochs": Progress(cursor=Cursor(epoch=limit)),
        "patience": Progress(waited=limit),
    }
    trained.write_record({**trained.record, "stopped": why_stop(changed.train, reached[key], StopSignal())})
    [*_, more] = after_training(Run.open(trained.folder))
    option = ["--minutes", f"{2 * limit:g}"] if key == "minutes" else ["--set", f"train.{key}={2 * limit}"]
    assert more[-2:] == option


@pytest.fixture(scope="module")
def begun(config, tmp_path_factory):
    """A run that was stopped before its first evaluation, and what was said."""
    folder = tmp_path_factory.mktemp("begun") / "my run"
    with pytest.MonkeyPatch.context() as patch:
        StopAt(1, patch)
        with pytest.raises(Interrupted) as stopped:
            train(load(config, TINY), folder)
    return folder, str(stopped.value)


TAKE_A_RUN = {
    "translate": ["translate", "RUN", "--input", "TEXT"],
    "score": ["score", "RUN", "--source", "TEXT", "--target", "TEXT"],
    "losses": ["score", "RUN", "--source", "TEXT", "--target", "TEXT", "--by-position"],
    "serve": ["serve", "RUN", "--port", "0"],
    "show": ["show", "RUN", "--out", "NEW"],
    "ctranslate2": ["export", "RUN", "--format", "ctranslate2", "--out", "NEW"],
    "huggingface": ["export", "RUN", "--format", "huggingface", "--out", "NEW"],
    "argos": ["export", "RUN", "--format", "argos", "--out", "NEW.argosmodel"],
    "init": ["train", "--init", "RUN", "--source", "TEXT", "--target", "TEXT", "--out", "NEW"],
    "resume": ["train", "--resume", "--out", "RUN"],
    "analyse": ["analyse", "--run", "RUN", "--source", "TEXT", "--reference", "TEXT", "--output", "a=TEXT"],
}  # fmt: skip


def filled(command: str, config: Path, folder: Path, tmp_path: Path) -> list[str]:
    values = {"RUN": folder, "TEXT": config.parent / "corpus" / "dev.source", "NEW": tmp_path / "new"}
    return [re.sub(r"RUN|TEXT|NEW", lambda name: str(values[name[0]]), word) for word in TAKE_A_RUN[command]]


@pytest.mark.parametrize("command", [each for each in TAKE_A_RUN if each not in ("resume", "analyse")])
def test_a_run_without_a_model_names_the_command_that_goes_on(config, begun, tmp_path, command):
    folder, _ = begun
    [error] = refused(*filled(command, config, folder, tmp_path))
    assert "no model yet" in error
    assert f"`posnmt train --out '{folder}' --resume`" in error
    assert not (tmp_path / "new").exists()


def test_a_run_that_is_being_trained_is_to_be_waited_for(begun):
    """Where nothing can be locked, nothing is trained."""
    folder, _ = begun
    with claimed(folder), pytest.raises(UserError, match=r"no model yet.*it is being trained: wait for its first eval"):
        Run.open(folder).trained_weights()
    assert not is_claimed(folder)
    assert not is_claimed(folder / "nowhere")
    assert not (folder / "nowhere").exists()


def test_the_command_that_goes_on_works(begun):
    folder, said = begun
    with pytest.raises(UserError, match=r"has no model yet.* or choose the checkpoint 'last'"):
        posnmt.load(folder)
    assert posnmt.load(folder, checkpoint="last").translate(["lo dumo"])
    [command] = re.findall("`posnmt (.*)`", said)
    run(*shlex.split(command))
    assert posnmt.load(folder).translate(["lo dumo"])
    (folder / "average.safetensors").unlink()
    with pytest.raises(UserError, match=r"no checkpoint 'average' .*it has: model, best, last"):
        posnmt.load(folder, checkpoint="average")


@pytest.mark.parametrize("command", TAKE_A_RUN)
def test_a_folder_that_is_no_run_is_said_to_be_none(config, tmp_path, command):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "starting").mkdir()
    (tmp_path / "starting" / LOCK).write_text("x")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.yaml").write_text("x")
    facts = {
        "folder": "this is not a run folder, which has config.yaml, record.json, text/ and model.safetensors",
        "file": "is a file, not a run folder",
        "absent": "no such run folder",
        "starting": "stopped before its first update",
        "runs": f"name a run in it: {tmp_path / 'runs' / 'mine'}",
    }
    if command == "resume":  # begins a run that was only starting
        del facts["starting"]
    for name, fact in facts.items():
        [error] = refused(*filled(command, config, tmp_path / name, tmp_path))
        assert fact in error
        assert str(tmp_path / name) in error
        assert ("an option, such as --input, names a text" in error) == (name == "file")


@pytest.mark.parametrize(("name", "what"), [("folder", "a folder that is no run"), ("file", "a file")])
def test_a_new_run_in_what_is_no_run_is_not_told_to_resume(config, tmp_path, name, what):
    (tmp_path / "folder").mkdir()
    for place in ("file", "folder/notes.txt"):
        (tmp_path / place).write_text("x")
    [error] = refused("train", config, "--out", tmp_path / name)
    assert error == f"error: {what} is here already, and is not overwritten ({tmp_path / name}); choose another --out"


def test_a_setting_without_its_value_is_the_first_fault():
    """`--set train.steps 100` leaves 100 over, which would be taken for a configuration."""
    [error] = refused("train", "--source", "a", "--target", "b", "--set", "train.steps", "100")
    assert error == (
        "error: a setting is written key.key=value; got 'train.steps' (--set); for example train.steps=1000"
    )
