"""The demo goes on where it was stopped, and says at its end what was found, three sentences, and what to do next."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from posnmt.cli.demo import LONGEST, LONGEST_TEST, SENTENCE, SHOWN, findings, following, samples
from posnmt.corpora.artificial.lexicon import make_lexicon
from posnmt.corpora.artificial.pairs import DEFAULT_SIZE
from posnmt.evaluation.analyse.length_effects import length_effects
from tests.docs.test_docs_commands import commands, fault
from tests.support.losses_case import random_losses
from tests.support.training_case import outcome

SMALL = """
from functools import partial
from posnmt.cli import demo
from posnmt.cli.main import main
from posnmt.evaluation.analyse.settings import Resampling
demo.artificial = partial(demo.artificial, train=1500, dev=20)
demo.TEST = 40
demo.Settings = partial(demo.Settings, resampling=Resampling(samples=40))
main()
"""
"""The demo of a small corpus."""


def found(trained=0.5, longer=0.5, beyond=0.0, sentences=400):
    """The findings where the two groups have these p, and b loses so much more beyond the positions of training."""
    group = {"sentences": 1234, "shortest": 3, "longest": 14, "scores": {"a": 95.66, "b": 97.21}, "best": ["b"]}
    groups = [{**group, "name": name, "p": {"a": p}} for name, p in (("trained", trained), ("longer", longer))]
    losses = random_losses((("a", (1,)), ("b", (1,))), 40, sentences, seed=3, beyond={"b": beyond})
    return list(findings(groups, length_effects(losses)))


def test_the_findings_have_the_scores_of_both_groups():
    for line in found():
        assert re.search(r"1,234 sentences .* \(3 to 14 subwords\): a 95\.7 and b 97\.2", line)


@pytest.mark.parametrize(("p", "apart"), [(0.0001, True), (0.049, True), (0.05, False), (0.8, False)])
def test_a_difference_is_named_on_longer_sentences_alone(p, apart):
    trained, longer = found(trained=p, longer=p)
    assert "chance" not in trained
    assert ("b is better by more than chance" in longer) == apart
    assert ("may be chance" in longer) == (not apart)


def test_systems_with_the_same_score_do_not_differ():
    group = {"name": "longer", "sentences": 9, "shortest": 15, "longest": 42, "scores": {"a": 0.0, "b": 0.0}}
    [line] = findings(
        [{**group, "best": ["a", "b"], "p": {}}], length_effects(random_losses((("a", (1,)), ("b", (1,))), 40, 40))
    )
    assert "may be chance" in line


@pytest.mark.parametrize(("beyond", "order"), [(0.5, ("b's", "a's")), (-0.5, ("a's", "b's"))])
def test_the_system_that_loses_more_beyond_training_comes_first(beyond, order):
    *_, line = found(beyond=beyond)
    assert [line.index(name) for name in order] == sorted(line.index(name) for name in order)
    value, low, high = map(float, re.search(r"([\d.]+) nats.*95 % ([\d.]+) to ([\d.]+)", line).groups())
    assert 0.4 < low < value < high < 0.6


@pytest.mark.parametrize(("beyond", "sentences"), [(0.0, 400), (0.5, 40)])
def test_what_is_not_decided_is_not_said(beyond, sentences):
    assert len(found(beyond=beyond, sentences=sentences)) == 2


def test_the_samples_are_the_first_sentence_of_each_third():
    lengths = [LONGEST_TEST, LONGEST, LONGEST + 1, 1, 2 * LONGEST, 2 * LONGEST + 1]
    texts = {"source": [" ".join(["x"] * length) for length in lengths], "relative": [f"<{each}>" for each in lengths]}
    shown = "\n".join(samples(texts))
    assert re.findall(r"words +(\d+)", shown) == [str(length) for length in (LONGEST, LONGEST + 1, LONGEST_TEST)]
    assert re.findall(r"<(\d+)>", shown) == re.findall(r"words +(\d+)", shown)
    assert shown.count("x") == 2 * LONGEST + 1 + LONGEST_TEST


def test_a_length_without_a_sentence_has_no_sample():
    shown = "\n".join(samples({"source": ["x " * LONGEST + "x"]}))
    assert re.findall(r"words +(\d+)", shown) == [str(LONGEST + 1)]


def test_a_cut_sample_says_so():
    whole, cut = ("\n".join(samples({"source": ["x"], "a": ["y" * 9 + " " + "y" * length]})) for length in (9, SHOWN))
    assert whole.endswith("yyyyyyyyy yyyyyyyyy")
    assert cut.endswith("yyyyyyyyy …")


def test_the_next_commands_exist(tmp_path):
    named = [command for line in following(tmp_path / "a b") for command in commands(line.strip())]
    assert [command[0] for command in named] == ["translate", "train", "translate", "compare"]
    assert named[0][1:] == [str(tmp_path / "a b" / "relative")]
    assert [fault(command, whole=True) for command in named] == [None] * len(named)


def test_the_sentence_to_try_has_words_of_the_language():
    known = {row.split("\t")[1] for row in make_lexicon(DEFAULT_SIZE).rows()}
    assert set(SENTENCE.split()) - known <= {"lo", "un"}, "articles are no entries of the lexicon"


def begun(out: Path, line: str = "", number: int = signal.SIGTERM) -> tuple[int, str]:
    """Start the demo, and send it a signal at a line that it writes; its exit status and what it has written."""
    command = [sys.executable, "-c", SMALL, "demo", "--updates", "6", "--out", str(out)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = []
    for each in child.stderr:
        if line and each.startswith(line) and not any(earlier.startswith(line) for earlier in said):
            child.send_signal(number)
        said.append(each)
    return child.wait(), "".join(said)


def left(out: Path) -> dict[str, object]:
    """What the demo leaves: the names of its files, and what is the same each time."""
    names = [path.relative_to(out).as_posix() for path in out.rglob("*") if "tensorboard" not in path.parts]
    results = json.loads((out / "report" / "results.json").read_text())
    return {
        "names": sorted(names),
        "runs": [outcome(out / name) for name in ("absolute", "relative")],
        "translations": [(out / f"test.{name}").read_text() for name in ("absolute", "relative")],
        "scores": [results["bins"], results["systems"]],
    }


@pytest.mark.slow
def test_the_same_command_goes_on_where_it_was_stopped(tmp_path):
    """In the training of each system, and killed in a translation."""
    out = tmp_path / "demo"
    status, said = begun(out, "step 2 ")
    assert status == 130, said
    assert not (out / "test.absolute").exists()
    status, said = begun(out, "training the relative system")
    assert (status, "making the artificial language pair" in said) == (130, False), said
    model = out / "absolute" / "best.safetensors"
    trained = model.stat().st_mtime_ns
    status, said = begun(out, "translating sentences", signal.SIGKILL)
    assert status == -signal.SIGKILL, said
    kept = out / "test.absolute.partial"
    kept.mkdir()
    (kept / "record.json").write_text("{}")  # of a process that was killed when its output was in its place
    status, said = begun(out)
    assert status == 0, said
    assert model.stat().st_mtime_ns == trained, "it is not trained again"
    assert begun(tmp_path / "whole")[0] == 0
    assert left(out) == left(tmp_path / "whole")
