"""A translation into a file that is stopped at any moment goes on, and ends byte for byte as one that was not."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from posnmt.data import lines as portions
from posnmt.translate.command import translate_file
from posnmt.translate.device import has_bf16
from posnmt.translate.output import Output, Record, opened
from posnmt.translate.source import Files
from posnmt.translate.translator import Translator
from tests.support import corpus
from tests.support.commands import refused, run
from tests.support.every_state import recorded


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run, which has learned next to nothing, and a text."""
    folder = tmp_path_factory.mktemp("trained")
    run("train", corpus.make(folder), "--out", folder / "run", "--set", "train.steps=2", "--set", "train.average=1")
    drawn = random.Random(1)
    words = (folder / "corpus" / "train.source").read_text().split()
    lines = [" ".join(drawn.choices(words, k=drawn.randint(0, 9))) for _ in range(60)]
    (folder / "text").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture
def small_portions(monkeypatch):
    monkeypatch.setattr(portions, "FIRST", 3)
    monkeypatch.setattr(portions, "LARGEST", 24)


SEARCHES = [
    pytest.param(["--beam", 1], [True], id="text"),
    pytest.param(["--beam", 3, "--nbest", 3], [True, False], id="n-best", marks=pytest.mark.slow),
    pytest.param(["--beam", 2, "--nbest", 2, "--format", "jsonl"], [True, False], id="jsonl", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("options", "torn"), SEARCHES)
def test_every_state_is_resumed_to_the_same_bytes(trained, tmp_path, small_portions, options, torn):
    """Every state between two file operations, and in each what was being written when it was left."""
    words = ["translate", trained / "run", "--input", trained / "text", *options]
    with recorded(tmp_path / "writing", tmp_path / "copies") as states:
        (tmp_path / "writing").mkdir()
        _, undisturbed = run(*words, "--output", tmp_path / "writing" / "out")
    whole = (tmp_path / "writing" / "out").read_bytes()
    warnings = re.findall("warning: .*", undisturbed)
    assert len(warnings) == 2, "an untrained model reaches the limit and repeats itself"
    resumed = set()
    for state in states.seen.values():
        if not state.exists() or (state / "out").exists():
            assert not state.exists() or (state / "out").read_bytes() == whole
            continue
        for half in torn:
            place = shutil.copytree(state, tmp_path / "place")
            if half:
                tear(place / "out.partial")
            _, err = run(*words, "--output", place / "out", "--resume")
            assert (place / "out").read_bytes() == whole
            assert os.listdir(place) == ["out"]
            assert re.findall("warning: .*", err) == warnings, "lines before the stop are listed as well"
            resumed.update(re.findall("resuming after (\\d+) of 60 lines", err))
            shutil.rmtree(place)
    assert resumed >= {"0", "3", "9", "21", "45", "60"}


def tear(folder):
    """Half of a file that was being written, and the beginning of translations that are not recorded."""
    if (new := folder / "record.json.partial").exists():
        os.truncate(new, new.stat().st_size // 2)
    if (folder / "output").exists():
        with (folder / "output").open("ab") as file:
            file.write(b"half a li")


def test_portions_are_written_as_they_come(trained, monkeypatch):
    sizes, add = [], Output.add

    def counting(output, text, lines):
        sizes.append((lines, text.count("\n")))
        add(output, text, lines)

    monkeypatch.setattr(Output, "add", counting)
    monkeypatch.setattr(portions, "LARGEST", 400)
    (trained / "long").write_text((trained / "text").read_text() * 25)
    out, _ = run("translate", trained / "run", "--input", trained / "long", "--beam", 1)
    assert sizes == [(250, 250), (400, 400), (400, 400), (400, 400), (50, 50)]
    assert out.count("\n") == 1500


def test_jsonl_marks_the_lines_that_the_warnings_list(trained):
    out, err = run("translate", trained / "run", "--input", trained / "text", "--format", "jsonl")
    best = [(record["line"], *record["hypotheses"][:1]) for record in map(json.loads, out.splitlines())]
    marked = {
        "reached the output limit": [line for line, *each in best if each and not each[0]["ended"]],
        "repeat a group": [line for line, *each in best if each and each[0]["repetitive"]],
    }
    for what, lines in marked.items():
        assert 10 < len(lines) < 60
        listed = f"lines {', '.join(map(str, lines[:10]))} and {len(lines) - 10} more)"
        [warning] = [line for line in err.split("\n") if what in line]
        assert warning.startswith(f"warning: {len(lines)} of 60 ")
        assert warning.endswith(listed)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_named_pipe_is_read_once(trained, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cp", trained / "text", pipe]):
        piped, _ = run("translate", trained / "run", "--input", pipe)
    assert piped == run("translate", trained / "run", "--input", trained / "text")[0]


ROUNDED = [(["--precision", "bf16"], "precision was fp32, is bf16")] if has_bf16(torch.device("cpu")) else []
"""Where the processor has no bf16, it translates in fp32."""


def test_other_settings_models_and_texts_are_refused(trained, tmp_path, small_portions, monkeypatch):
    text = tmp_path / "text"
    shutil.copy(trained / "text", text)
    words = ["translate", trained / "run", "--input", text, "--output", tmp_path / "out", "--beam", 2]
    interrupted(monkeypatch, after=21)
    _, err = run(*words, status=130)
    assert f"note: the translations of the first 21 lines are kept in {tmp_path}/out.partial; --resume goes on" in err
    [error] = refused(*words)
    assert "a translation was begun: 21 lines are kept" in error
    for options, what in (
        (["--beam", 3], "beam was 2, is 3"),
        (["--format", "jsonl"], "format was text, is jsonl"),
        (["--length-penalty", 0.5], "length_penalty was 1.0, is 0.5"),
        *ROUNDED,
    ):
        [error] = refused(*words, *options, "--resume")
        assert f"the translation was begun otherwise: {what} (" in error
    [error] = refused("translate", trained / "run", trained / "run", *words[2:], "--resume")
    assert "begun otherwise: models was" in error
    text.write_text(text.read_text().replace("o", "u", 1))
    [error] = refused(*words, "--resume")
    assert "begun otherwise: input was" in error
    shutil.copy(trained / "text", text)
    _, err = run(*words, "--resume", "--batch", 7)
    assert "resuming after 21 of 60 lines" in err
    assert (tmp_path / "out").read_text().count("\n") == 60


def interrupted(monkeypatch, after):
    """Ctrl-C when so many lines are translated."""
    translate = Translator.translate

    def until(self, requests, search):
        if requests[0].number > after:
            monkeypatch.setattr(Translator, "translate", translate)
            raise KeyboardInterrupt
        return translate(self, requests, search)

    monkeypatch.setattr(Translator, "translate", until)


def test_a_study_begins_again(trained, tmp_path, small_portions, monkeypatch):
    """Without `resume` what was begun is replaced; the command asks before."""
    arguments = [trained / "run", Files(trained / "text", tmp_path / "out"), {"beam": 1}]
    interrupted(monkeypatch, after=9)
    with pytest.raises(KeyboardInterrupt):
        translate_file(*arguments)
    assert translate_file(*arguments).lines == 60
    assert os.listdir(tmp_path) == ["out"]


def test_a_process_that_is_killed_when_its_output_is_in_its_place(trained, tmp_path):
    """Its record is left: a repeat is refused as ever and removes it, and without the output begins again."""
    words = ["translate", trained / "run", "--input", trained / "text", "--output", tmp_path / "out", "--beam", 1]
    run(*words)
    whole = (tmp_path / "out").read_bytes()
    for missing in (False, True):
        left = tmp_path / "out.partial"
        left.mkdir()
        (left / ".lock").touch()
        (left / "record.json").write_text(Record(lines=60).model_dump_json())
        if missing:
            (tmp_path / "out").unlink()
            run(*words)
        else:
            assert "is not overwritten" in refused(*words)[0]
        assert os.listdir(tmp_path) == ["out"]
        assert (tmp_path / "out").read_bytes() == whole


def test_an_output_that_has_both_names_after_a_loss_of_power(trained, tmp_path):
    """A repeat is refused and removes the other name; with `--force`, the output stays until another is complete."""
    words = ["translate", trained / "run", "--input", trained / "text", "--output", tmp_path / "out", "--beam", 1]
    run(*words)
    whole = (tmp_path / "out").read_bytes()

    def lose_power():
        left = tmp_path / "out.partial"
        left.mkdir()
        os.link(tmp_path / "out", left / "output")
        (left / "record.json").write_text(Record(lines=60).model_dump_json())

    lose_power()
    assert "is not overwritten" in refused(*words)[0]
    assert os.listdir(tmp_path) == ["out"]
    lose_power()
    with opened(tmp_path / "out", dict):
        assert (tmp_path / "out").read_bytes() == whole


def test_lines_of_a_pipe_are_kept_before_a_fault(trained, tmp_path, small_portions):
    words = ["translate", trained / "run", "--output", tmp_path / "out"]
    lines = (trained / "text").read_bytes().split(b"\n")
    stdin = b"\n".join([*lines[:30], b"\xff", *lines[30:]])
    [error] = refused(*words, stdin=stdin)
    assert "standard input:31" in error
    assert (tmp_path / "out.partial" / "output").read_bytes().count(b"\n") == 21
    [error] = refused(*words, "--resume", stdin=stdin)
    assert "--resume needs the whole input again" in error


@pytest.mark.parametrize(
    ("waits", "copies"), [((250,), 12), pytest.param((0, 250, 1750, 3750), 95, marks=pytest.mark.slow)]
)
def test_sigkill_at_any_time(trained, tmp_path, waits, copies):
    """The real command, killed when so many lines are kept, and resumed."""
    (tmp_path / "text").write_text((trained / "text").read_text() * copies)
    words = ["translate", trained / "run", "--input", tmp_path / "text", "--beam", 1, "--format", "jsonl", "--output"]
    run(*words, tmp_path / "whole")
    command = [sys.executable, "-m", "posnmt", *map(str, words), str(tmp_path / "out"), "--resume"]
    folder, kept, kills = tmp_path / "out.partial", [], 0
    for wait in waits:
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
            while running.poll() is None and not (folder.exists() and lines_kept(folder) >= wait):
                time.sleep(0.005)
            running.send_signal(signal.SIGKILL)
        kills += running.returncode == -signal.SIGKILL
        kept.append(lines_kept(folder))
    assert kills == len(waits)
    assert kept[-1] >= waits[-1]
    assert kept == sorted(kept)
    _, err = run(*command[3:])
    assert f"resuming after {kept[-1]:,} of" in err
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def lines_kept(folder):
    try:
        return json.loads((folder / "record.json").read_text())["lines"]
    except FileNotFoundError:
        return 0
