"""A training that is killed between any two file operations goes on, and ends as one that was never stopped.

Every operation of a short training on its run folder is intercepted, and the folder as it is before the operation is
copied. Each distinct copy is what a kill at that moment leaves; training is resumed from each.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from posnmt.base.errors import UserError
from posnmt.base.interrupt import Interrupted
from posnmt.run.resolve import load
from posnmt.run.run import checkpoints_in, claimed, is_unfinished
from posnmt.training import evaluate
from posnmt.training.train import train
from tests.support import corpus
from tests.support.every_state import recorded
from tests.support.training_case import outcome


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = corpus.make(tmp_path_factory.mktemp("corpus"), pairs=60)
    ends = ["train.steps=5", "train.evaluate_every=2", "train.dev_bleu=false", "train.best_by=perplexity"]
    return load(path, [*ends, "train.log_every=1", "model.dropout=0.2"])


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    return train(config, tmp_path_factory.mktemp("whole") / "run").folder


@pytest.fixture(scope="module")
def undisturbed(whole):
    return outcome(whole)


@pytest.fixture
def run(whole, tmp_path):
    """A copy of that folder to damage."""
    return shutil.copytree(whole, tmp_path / "run")


def goes_on(config, state: Path, tmp_path: Path, cut: bool = False) -> dict[str, object]:
    """The outcome of going on from a copy of a state, by --resume as a requeued job does it.

    Args:
        cut: cut the files that were being written, and the last line of metrics, in their middle.
    """
    run = tmp_path / "again"
    shutil.rmtree(run, ignore_errors=True)
    if state.exists():
        shutil.copytree(state, run)
    if cut:
        for path in run.rglob("*"):
            if path.is_file() and ".partial" in str(path.relative_to(run)):
                os.truncate(path, path.stat().st_size // 2)
        if (metrics := run / "metrics.jsonl").exists():
            os.truncate(metrics, max(0, metrics.stat().st_size - 9))
    train(config, run, resume=run.exists())
    return outcome(run)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_every_state_on_disk_goes_on(config, undisturbed, tmp_path, every):
    with recorded(tmp_path / "run", tmp_path / "copies") as states:
        train(config, tmp_path / "run")
    assert len(states.seen) > 40
    for state in list(states.seen.values())[::every]:
        assert goes_on(config, state, tmp_path) == undisturbed, state


@pytest.mark.slow
def test_states_with_files_that_were_being_written_go_on(config, undisturbed, tmp_path):
    """What was written after the newest checkpoint may be torn; what it counts on is on the disk before it."""
    with recorded(tmp_path / "run", tmp_path / "copies") as states:
        train(config, tmp_path / "run")
    torn = [state for state in states.seen.values() if list(state.rglob("*.partial"))]
    assert len(torn) > 10
    for state in torn[::3]:
        assert goes_on(config, state, tmp_path, cut=True)["weights"] == undisturbed["weights"], state


@pytest.mark.slow
def test_a_signal_during_evaluation_and_then_a_kill(config, undisturbed, tmp_path, monkeypatch):
    original = evaluate.evaluate

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments)

    with recorded(tmp_path / "run", tmp_path / "copies") as states, monkeypatch.context() as patch:
        patch.setattr(evaluate, "evaluate", interrupted)
        with pytest.raises(Interrupted, match="stopped after step 2"):
            train(config, tmp_path / "run")
    assert len(states.seen) > 15
    for state in states.seen.values():
        assert goes_on(config, state, tmp_path) == undisturbed, state


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_checkpoint_is_passed_over_aloud(config, undisturbed, run, name, how, capsys):
    from posnmt.base.progress import Display

    newest = checkpoints_in(run / "checkpoints")[-1]
    path = newest / name
    if how == "flipped":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 16
        path.write_bytes(content)
    elif how == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.unlink()
    train(config, run, resume=True, display=Display())
    told = capsys.readouterr().err
    assert "warning: checkpoint step-00000005 is damaged" in told
    assert "resuming from step-00000004" in told
    assert outcome(run) == undisturbed


def test_no_sound_checkpoint_is_an_error_that_stays(config, run):
    for place in checkpoints_in(run / "checkpoints"):
        (place / "optimizer.safetensors").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(
            UserError, match=r"no undamaged checkpoint is left .*step-00000005: optimizer.safetensors is not what"
        ):
            train(config, run, resume=True)


def test_two_trainings_in_one_folder(config, tmp_path):
    with claimed(tmp_path / "run"):
        for resume in (False, True):
            with pytest.raises(UserError, match="another process is training in this folder"):
                train(config, tmp_path / "run", resume=resume)
    assert not (tmp_path / "run").exists()


def test_somebody_elses_files_are_no_unfinished_run(config, tmp_path):
    (tmp_path / "run" / "text").mkdir(parents=True)
    assert not is_unfinished(tmp_path / "run"), "no lock of ours is in it"
    with pytest.raises(UserError, match="is here already"):
        train(config, tmp_path / "run")


def test_lost_metrics_are_reported(config, run, capsys):
    from posnmt.base.progress import Display

    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join([*lines[:2], "{torn\n", *lines[3:]]))
    train(config, run, resume=True, display=Display())
    assert "warning: 1 lines of" in capsys.readouterr().err
