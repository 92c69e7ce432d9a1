"""Where `translate` writes: a file that is in place when complete, or what else is there already."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from posnmt.base.errors import UserError
from posnmt.translate.output import opened, refuse_output


def written(path, *portions, resume=False, settings=None):
    """Write portions of a line each; the number of lines that were there before."""
    with opened(path, lambda: settings or {}, resume) as output:
        before = output.record.lines
        for text in portions:
            output.add(text + "", 1)
    return before


def broken_off(path, *portions, settings=None):
    with pytest.raises(TypeError):  # None is no text
        written(path, *portions, None, settings=settings)


def test_a_file_is_in_place_when_complete(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    broken_off(path, "half\n")
    assert path.read_text() == "old"
    assert written(path, "new\n") == 0
    assert (path.read_text(), os.listdir(tmp_path)) == ("new\n", ["out"])


def test_portions_are_kept_and_resumed(tmp_path):
    path = tmp_path / "out"
    broken_off(path, "één\n", "two\n", settings={"beam": 1})
    assert os.listdir(tmp_path) == ["out.partial"]
    assert (tmp_path / "out.partial" / "output").read_text("utf-8") == "één\ntwo\n"
    assert written(path, "three\n", resume=True, settings={"beam": 1}) == 2
    assert path.read_text("utf-8") == "één\ntwo\nthree\n"
    assert os.listdir(tmp_path) == ["out"]


def test_nothing_is_kept_of_what_ended_before_its_first_portion(tmp_path):
    broken_off(tmp_path / "out")
    assert os.listdir(tmp_path) == []
    assert written(tmp_path / "out", "one\n", resume=True) == 0


def test_what_cannot_be_resumed(tmp_path):
    path = tmp_path / "out"
    broken_off(path, "one\n", settings={"beam": 1, "input": "a"})
    kept = {each.name: each.read_bytes() for each in (tmp_path / "out.partial").iterdir()}
    with pytest.raises(UserError, match=r"begun otherwise: beam was 1, is 2, input was a, is b .*out\.partial\)"):
        written(path, resume=True, settings={"beam": 2, "input": "b"})
    assert {each.name: each.read_bytes() for each in (tmp_path / "out.partial").iterdir()} == kept
    output, record = (tmp_path / "out.partial" / name for name in ("output", "record.json"))
    for damaged in (b"onE\n", b"one", b""):
        output.write_bytes(damaged)
        with pytest.raises(UserError, match="the translation that was begun is damaged"):
            written(path, resume=True, settings={"beam": 1, "input": "a"})
    output.write_bytes(b"one\n")
    record.write_text('{"lines": -1}')
    for resume in (True, False):
        with pytest.raises(UserError, match=r"is damaged .*record\.json.*--force"):
            refuse_output(path, [path], force=False, resume=resume)
    refuse_output(path, [], force=True)
    assert written(path, "new\n") == 0
    assert (path.read_text(), os.listdir(tmp_path)) == ("new\n", ["out"])


def test_what_was_begun_is_not_forgotten_silently(tmp_path):
    path = tmp_path / "out"
    broken_off(path, "one\n")
    with pytest.raises(UserError, match=r"1 lines are kept \(.*out\.partial\); add --resume"):
        refuse_output(path, [], force=False)
    refuse_output(path, [tmp_path / "in"], force=False, resume=True)
    refuse_output(path, [], force=True)


def test_an_output_that_readers_would_unpack_is_refused(tmp_path):
    for name in ("out.de.gz", "OUT.XZ"):
        with pytest.raises(UserError, match=r"translations are not compressed.*compress that file afterwards"):
            refuse_output(tmp_path / name, [], force=True)
    refuse_output(tmp_path / "out.gz.de", [], force=False)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    folder = tmp_path / "out.partial"
    folder.mkdir()
    (folder / "mine").write_text("text")
    for force in (True, False):
        with pytest.raises(UserError, match="translations are collected there, and it exists"):
            refuse_output(tmp_path / "out", [], force)
    (folder / "mine").rename(folder / "output")
    refuse_output(tmp_path / "out", [], force=False)  # what a kill before the first record leaves


OPEN = """import sys
from pathlib import Path
from posnmt.translate.output import opened
opened(Path(sys.argv[1]), dict, True).__enter__()
"""


def test_one_process_writes_an_output(tmp_path):
    path = tmp_path / "out"
    with opened(path, dict) as output:
        output.add("one\n", 1)
        other = subprocess.run([sys.executable, "-c", OPEN, path], capture_output=True, check=False, text=True)
        assert "another process is writing this output" in other.stderr
        output.add("two\n", 1)
    assert path.read_text() == "one\ntwo\n"


def test_a_link_stays_one(tmp_path):
    link, path = tmp_path / "link", tmp_path / "elsewhere" / "out"
    path.parent.mkdir()
    link.symlink_to(path)
    written(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert os.listdir(tmp_path / "elsewhere") == ["out"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_has_each_portion_when_it_is_complete(tmp_path):
    pipe, lines, arrived = tmp_path / "pipe", [], threading.Event()
    os.mkfifo(pipe)

    def read():
        with pipe.open() as stream:
            lines.append(stream.readline())
            arrived.set()
            lines.append(stream.read())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with opened(pipe, dict) as output:
        output.add("one\n", 1)
        assert arrived.wait(60)
        output.add("two\n", 1)
    reader.join(60)
    assert lines == ["one\n", "two\n"]
    assert pipe.is_fifo()
    refuse_output(pipe, [None], force=False)
    with pytest.raises(UserError, match="--resume goes on with a file"):
        refuse_output(pipe, [tmp_path / "in"], force=False, resume=True)
    with pytest.raises(UserError, match="--resume needs the whole input again"):
        refuse_output(tmp_path / "out", [pipe], force=False, resume=True)


def test_a_file_is_replaced_only_by_force_and_the_input_never(tmp_path):
    source, output, link, hard = (tmp_path / name for name in ("in", "out", "link", "hard"))
    refuse_output(None, [source], force=False)
    refuse_output(output, [source], force=False)
    for path in (source, output):
        path.write_text("text")
    link.symlink_to(source)
    hard.hardlink_to(source)
    with pytest.raises(UserError, match="exists and is not overwritten"):
        refuse_output(output, [source], force=False)
    refuse_output(output, [source, tmp_path / "absent"], force=True)
    for same in (source, link, hard):
        with pytest.raises(UserError, match="the output would replace the input"):
            refuse_output(same, [source], force=True)
    refuse_output(tmp_path, [source], force=False)  # a folder has a message of its own


def test_the_input_is_not_where_the_output_is_collected(tmp_path):
    for source in (tmp_path / "out.partial", tmp_path / "out.partial" / "output"):
        with pytest.raises(UserError, match="the output would replace the input"):
            refuse_output(tmp_path / "out", [source], force=True)
