"""Ctrl-C inside an evaluation ends it at once; the run goes on bit for bit with the same evaluation made again."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from posnmt.base import progress
from posnmt.base.cancel import check_cancelled
from posnmt.base.interrupt import Interrupted
from posnmt.base.progress import Display
from posnmt.run.resolve import load
from posnmt.run.run import checkpoints_in
from posnmt.training import evaluate
from posnmt.training.checkpoint import evaluated
from posnmt.training.metrics import Metrics
from posnmt.training.train import train
from posnmt.translate import continuations
from tests.support import corpus
from tests.support.training_case import outcome

SETTINGS = {
    "steps": 4, "evaluate_every": 2, "average": 2, "log_every": 1, "dev_bleu": True, "loggers": [], "precision": "fp32",
}  # fmt: skip


class Checks:
    """Counts the points at which evaluations can end, and sends a signal at one of them.

    Attributes:
        seen: (number of the evaluation from 1, "likelihood" or "search") of each point that was reached.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int | None = None) -> None:
        self.seen: list[tuple[int, str]] = []
        self._at = at
        for module, kind in ((evaluate, "likelihood"), (continuations, "search")):
            monkeypatch.setattr(module, "check_cancelled", lambda kind=kind: self._check(kind))

    def _check(self, kind: str) -> None:
        before = self.seen[-1][0] if self.seen else 0
        self.seen.append((before + (kind == "likelihood"), kind))
        if len(self.seen) - 1 == self._at:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)  # a thread that searches is not the one that hears signals
        check_cancelled()


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = corpus.make(tmp_path_factory.mktemp("corpus"), pairs=60, train=SETTINGS, decode={"batch": 60})
    return load(path, ["model.dropout=0.2"])


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """The outcome of a run that nothing disturbed, and the points at which its evaluations could have ended."""
    with pytest.MonkeyPatch.context() as patch:
        checks = Checks(patch)
        run = train(config, tmp_path_factory.mktemp("whole") / "run")
    return outcome(run.folder), checks.seen


@pytest.mark.parametrize(
    ("number", "kind", "step"),
    [(1, "likelihood", 2), (1, "search", 2), (2, "search", 4), (3, "likelihood", 4), (3, "search", 4)],
)
def test_an_interrupted_evaluation_is_made_again(config, whole, tmp_path, monkeypatch, number, kind, step):
    """The third evaluation is that of the average, after which the run would be complete."""
    undisturbed, points = whole
    places = [place for place, point in enumerate(points) if point == (number, kind)]
    at = places[len(places) // 2]
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        checks = Checks(patch, at)
        with pytest.raises(Interrupted, match=f"stopped after step {step}, state saved"):
            train(config, run)
    assert len(checks.seen) <= at + 1 + os.cpu_count(), "each thread may take one more step"
    newest = checkpoints_in(run / "checkpoints")[-1]
    assert int(newest.name.split("-")[1]) == step
    assert evaluated(newest) is (number == 3)
    assert (run / "best.safetensors").exists() is (number > 1)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert sum(line["kind"] in ("dev", "average") for line in lines) == number - 1
    train(config, run, resume=True)
    again = outcome(run)
    again["checkpoints"] = sorted({*again["checkpoints"]})  # that of the interruption is kept beside the evaluated one
    assert again == undisturbed


def answers(capsys, config, folder) -> str:
    """What a training says that a signal stops."""
    with Display() as display, pytest.raises(Interrupted):
        train(config, folder, display=display)
    return capsys.readouterr().err


def test_a_signal_in_an_evaluation_is_answered(config, tmp_path, monkeypatch, capsys):
    Checks(monkeypatch, at=3)
    said = answers(capsys, config, tmp_path / "run")
    assert re.search(r"^stopping in this evaluation, .*--resume.*; a second Ctrl-C loses 2 updates$", said, flags=re.M)


def test_a_signal_in_an_update_is_answered(config, tmp_path, monkeypatch, capsys):
    """What a second one loses is counted from the newest checkpoint."""
    add = Metrics.add

    def add_and_interrupt(metrics, t, *arguments):
        add(metrics, t, *arguments)
        if t.progress.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Metrics, "add", add_and_interrupt)
    said = answers(capsys, config, tmp_path / "run")
    assert re.search(r"^stopping after this update; a second Ctrl-C loses 1 update$", said, flags=re.M)
    assert [evaluated(each) for each in checkpoints_in(tmp_path / "run" / "checkpoints")] == [True, False]


def test_an_evaluation_shows_its_progress(config, tmp_path, monkeypatch, capsys):
    """Every line is from inside: the end of an evaluation needs none."""
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with Display() as display:
        train(config, tmp_path / "run", display=display)
    shown = re.findall(r"^translating +(\d+)%  (\d+) of 20 dev lines  .+ left$", capsys.readouterr().err, flags=re.M)
    assert len(shown) >= 3 * 2, "batches of three evaluations"
    assert all(0 < int(share) < 100 and 0 < int(lines) < 20 for share, lines in shown)


def test_three_dev_lines_are_shown_and_recorded_with_their_translations(config, tmp_path, monkeypatch, capsys):
    """A short, a median and a long one, the same ones each time; shortened to the width of the terminal."""
    monkeypatch.setenv("COLUMNS", "40")
    with Display() as display:
        run = train(config, tmp_path / "run", display=display)
    corpus_files = Path(config.data.root) / "corpus"
    dev = {side: (corpus_files / f"dev.{side}").read_text().splitlines() for side in ("source", "target")}
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    examples = [line["examples"] for line in lines if line["kind"] == "dev"]
    numbers = [[each["line"] for each in of_evaluation] for of_evaluation in examples]
    assert numbers[0] == numbers[1]
    assert len(set(numbers[0])) == 3
    subwords = [len(ids) for ids in run.text().source.encode(dev["source"])]
    ordered = sorted(range(20), key=subwords.__getitem__)
    assert numbers[0] == [ordered[place] + 1 for place in (2, 10, 18)]
    shown = re.findall(
        r"^  dev line (\d+) +(.*)\n    reference +(.*)\n    translation *(.*)$", capsys.readouterr().err, flags=re.M
    )
    assert len(shown) == 2 * 3
    for (number, *texts), each in zip(shown, [*examples[0], *examples[1]], strict=True):
        place = each["line"] - 1
        assert int(number) == each["line"]
        for text, original in zip(texts, (dev["source"][place], dev["target"][place], each["output"]), strict=True):
            cut = text.endswith("…")
            assert original.startswith(text.removesuffix("…")) if cut else original.strip() == text
            assert 17 + 1 + len(text) <= 40
    assert any(text.endswith("…") for _, *texts in shown for text in texts)


def test_without_translations_no_dev_lines_are_shown(config, tmp_path, capsys):
    settings = config.train.model_copy(update={"dev_bleu": False, "best_by": "perplexity"})
    with Display() as display:
        run = train(config.model_copy(update={"train": settings}), tmp_path / "run", display=display)
    assert "dev line" not in capsys.readouterr().err
    assert '"examples"' not in (run.folder / "metrics.jsonl").read_text()
