"""A study that is stopped again and again while it trains ends with what an undisturbed one ends with.

`make test` has its step that trains, in one process; the whole study, with real signals, is slow.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from posnmt.base.interrupt import Interrupted
from posnmt.data.text import TextPipeline
from posnmt.study import steps
from posnmt.study.workflow.kind import Context, Resources
from tests.support import corpus
from tests.support.sources import SOURCES
from tests.support.training_case import StopAt

EVERY, STEPS = 12, 48
RECIPE = f"""
recipe: resumed
title: A study that is stopped
pair: {{source: en, target: de}}
scales:
  smoke:
    seeds: 1
    artificial: {{train: 300, dev: 20, test: 40, min_length: 2, max_length: 5, test_max_length: 8}}
    config:
      subword: {{vocabulary: 100}}
      model: {{size: tiny, tie_embeddings: all, dropout: 0.1, init: xavier}}
      train: {{steps: {STEPS}, sort_by: target, batch: 512, learning_rate: 1e-2, schedule: {{warmup: 10}},
              evaluate_every: {EVERY}, log_every: 1, dev_bleu: false, best_by: perplexity, average: 2}}
      decode: {{beam: 1, max_extra: 4}}
systems:
  relative: {{system: relative}}
tests:
  test: {{corpus: test}}
runs:
  - {{systems: [relative], trainings: [all], tests: [test]}}
analyses:
  test: {{test: test, trainings: [all]}}
tables:
  - {{table: 1, caption: All, rows: [relative], columns: [{{title: BLEU, analysis: test}},
     {{title: chrF, analysis: test, measure: chrf}}, {{title: Parameters, measure: parameters}}]}}
"""
RUN = [sys.executable, "-m", "posnmt"]
RUN_DISTURBED = [
    sys.executable, "-c",
    "import posnmt.study.study as study; from posnmt.cli.main import main;"
    "study.KINDS = 'tests.support.disturbed_training:KINDS'; main()",
]  # fmt: skip
UNDER_WAY = ("train", "translate", "analyse")


def start(out, cwd, *more, disturb=None):
    """`posnmt study run`, running."""
    environment = {
        **os.environ,
        "PYTHONPATH": SOURCES,
        "OMP_NUM_THREADS": "1",
        **({"DISTURB": disturb} if disturb else {}),
    }
    words = ["study", "run", str(out.parent / "recipe.yaml"), "--scale", "smoke", "--out", os.path.relpath(out, cwd)]
    return subprocess.Popen(
        [*(RUN_DISTURBED if disturb else RUN), *words, *more], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def run(out, cwd, disturb=None):
    """`posnmt study run`; its exit status and what it said."""
    done = start(out, cwd, disturb=disturb)
    said = done.communicate()[0]
    return done.returncode, said


def copied(undisturbed, out):
    """The folder of a study that is ready to train, in a folder with its recipe."""
    shutil.copy(undisturbed.parent / "recipe.yaml", out.parent)
    shutil.copytree(undisturbed, out, ignore=lambda folder, names: [n for n in names if n in UNDER_WAY])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "recipe.yaml").write_text(RECIPE)
    status, log = run(folder / "study", folder)
    assert status == 0, log
    return folder / "study"


def run_folder(out):
    [folder] = (out / "steps" / "train").iterdir()
    return folder / "run"


def checkpoints(out):
    return sorted(path.name for path in (run_folder(out) / "checkpoints").glob("step-*"))


def results(out):
    """The rows of the table of results but for speeds, which no two runs share."""
    with closing(sqlite3.connect(out / "results.sqlite")) as file:
        rows = file.execute("select * from results where measure not like '%speed' order by rowid").fetchall()
    return rows


def metrics(out):
    """Loss and perplexity of every line of the log."""
    lines = map(json.loads, (run_folder(out) / "metrics.jsonl").read_text().splitlines())
    return [[line.get(key) for key in ("kind", "step", "loss", "perplexity")] for line in lines]


def moments(seed):
    """Who is sent what, and when; what the runner's exit status then is; whether there is a checkpoint by then."""
    draw = random.Random(seed)
    # A step of the training before its first evaluation, one between that and the second, and so on.
    steps = [draw.randrange(first, first + EVERY) for first in (1, EVERY + 1, 2 * EVERY + 1)]
    return [
        ("both SIGKILL creation", -9, False),
        (f"step SIGKILL {steps[0]}", 1, False),
        (f"runner SIGTERM {draw.randrange(1, EVERY)}", 130, True),
        (f"both SIGKILL {steps[1]}", -9, True),
        (f"runner SIGINT {steps[2]}", 130, True),
        ("step SIGKILL removal", 1, True),
    ]


def weights(path):
    """What a safetensors file says of itself, whose order is left to chance, and the bytes of its tensors."""
    whole = path.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    return json.loads(whole[8:end]), whole[end:]


@pytest.mark.slow
def test_a_study_stopped_while_it_trains_ends_like_an_undisturbed_one(undisturbed, tmp_path):
    """Each attempt is made from another working directory, and the study's folder is moved once."""
    out = tmp_path / "first" / "study"
    out.parent.mkdir()
    copied(undisturbed, out)
    for number, (disturb, status, checkpoint) in enumerate(moments(seed=17)):
        ended, log = run(out, [tmp_path, Path("/"), out][number % 3], disturb)
        assert ended == status, f"{disturb}: {log}"
        assert "another config" not in log
        assert bool(checkpoints(out)) == checkpoint, disturb
        if number == 4:
            out = (tmp_path / "first").rename(tmp_path / "second") / "study"
    status, log = run(out, tmp_path)
    assert status == 0, log
    assert_same(out, undisturbed)


def assert_same(out, undisturbed):
    """What two studies trained, translated and measured is the same."""
    assert metrics(out) == metrics(undisturbed)
    for name in ("model", "best", "average"):
        file = f"{name}.safetensors"
        assert weights(run_folder(out) / file) == weights(run_folder(undisturbed) / file), name
    outputs = [next((each / "steps" / "translate").glob("*/output")).read_bytes() for each in (out, undisturbed)]
    assert outputs[0] == outputs[1]
    assert outputs[0].strip(), "nothing was translated, and equal scores would mean nothing"
    assert results(out) == results(undisturbed) != []
    tables = [(each / "tables" / "table-1.csv").read_bytes() for each in (out, undisturbed)]
    assert tables[0] == tables[1]
    assert not checkpoints(out)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Settings and inputs of a step that trains."""
    folder = tmp_path_factory.mktemp("prepared")
    config = yaml.safe_load(corpus.make(folder, pairs=60).read_text())
    texts = {name: folder / name for name in ("train", "dev")}
    for name, text in texts.items():
        text.mkdir()
        for side in steps.SIDES:
            shutil.copy(folder / "corpus" / f"{name}.{side}", text / side)
    (folder / "prepared").mkdir()
    parts = {section: config[section] for section in ("subword", "model")}
    steps.prepare(Context(folder / "prepared", {"config": parts, "part": None}, texts, {}, Resources(), print))
    training = {"dev_bleu": False, "best_by": "perplexity", "steps": 5, "evaluate_every": 2}
    tree = {**parts, "train": {**config["train"], **training}}
    return {"config": tree, "part": None}, {**texts, "prepared": folder / "prepared"}


def trained(prepared, folder):
    """Do the step in a folder; the weights, and the lines of the log."""
    folder.mkdir(exist_ok=True)
    steps.train(Context(folder, *prepared, {}, Resources(), lambda line: None))
    assert not (folder / "run" / "checkpoints").exists()
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    files = [weights(path) for path in sorted((folder / "run").glob("*.safetensors"))]
    return files, [[line.get(key) for key in ("kind", "step", "loss", "perplexity")] for line in lines]


@pytest.fixture(scope="module")
def step(prepared, tmp_path_factory):
    """What the step gives that nothing disturbs."""
    return trained(prepared, tmp_path_factory.mktemp("step"))


def test_a_step_that_was_told_to_stop_goes_on_from_there(prepared, step, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        StopAt(3, patch)
        with pytest.raises(Interrupted, match="stopped after step 3"):
            trained(prepared, tmp_path / "step")
    begun = (tmp_path / "step" / "run" / "metrics.jsonl").read_bytes()
    assert trained(prepared, tmp_path / "step") == step
    assert (tmp_path / "step" / "run" / "metrics.jsonl").read_bytes().startswith(begun)


class Killed(BaseException):
    """Nothing catches it, as nothing is done after a kill."""


def test_a_step_that_was_killed_while_it_made_its_run_begins_again(prepared, step, tmp_path, monkeypatch):
    def killed(pipeline, folder):
        save(pipeline, folder)
        raise Killed

    save = TextPipeline.save
    with monkeypatch.context() as patch:
        patch.setattr(TextPipeline, "save", killed)
        with pytest.raises(Killed):
            trained(prepared, tmp_path / "step")
    assert trained(prepared, tmp_path / "step") == step


def test_a_run_folder_without_its_configuration_is_made_anew(prepared, step, tmp_path):
    (tmp_path / "step" / "run" / "text").mkdir(parents=True)
    assert trained(prepared, tmp_path / "step") == step


def test_a_step_that_was_killed_while_it_removed_checkpoints_trains_no_more(prepared, step, tmp_path, monkeypatch):
    def killed(path, *arguments, **options):
        if Path(path).name == "checkpoints":
            for file in Path(path).glob("*/model.safetensors"):
                file.unlink()
            raise Killed
        remove(path, *arguments, **options)

    remove = shutil.rmtree
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(Killed):
            trained(prepared, tmp_path / "step")
    assert trained(prepared, tmp_path / "step") == step
