"""Where `translate` writes: a file that is in place when complete, or what else is there already."""

from __future__ import annotations

import os
import threading

import pytest

from posnmt.errors import UserError
from posnmt.translate.command import _output, refuse_output


def test_a_file_is_in_place_when_complete(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")

    def breaks_off():
        yield "half"
        raise RuntimeError

    with pytest.raises(RuntimeError), _output(path) as stream:
        stream.writelines(breaks_off())
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["out"])
    with _output(path) as stream:
        stream.write("new")
    assert (path.read_text(), os.listdir(tmp_path)) == ("new", ["out"])


def test_a_link_stays_one(tmp_path):
    link, path = tmp_path / "link", tmp_path / "out"
    link.symlink_to(path)
    with _output(link) as stream:
        stream.write("new")
    assert link.is_symlink()
    assert path.read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_written_to(tmp_path):
    pipe, lines = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: lines.append(pipe.read_text()), daemon=True)
    reader.start()
    with _output(pipe) as stream:
        stream.write("new")
    reader.join(60)
    assert lines == ["new"]
    assert pipe.is_fifo()


def test_a_file_is_replaced_only_by_force_and_the_input_never(tmp_path):
    source, output, link = tmp_path / "in", tmp_path / "out", tmp_path / "link"
    refuse_output(None, [source], force=False)
    refuse_output(output, [source], force=False)
    for path in (source, output):
        path.write_text("text")
    link.symlink_to(source)
    with pytest.raises(UserError, match="exists and is not overwritten"):
        refuse_output(output, [source, None], force=False)
    refuse_output(output, [source, tmp_path / "absent"], force=True)
    for same in (source, link):
        with pytest.raises(UserError, match="the output would replace the input"):
            refuse_output(same, [source], force=True)
    refuse_output(tmp_path, [source], force=False)  # a folder has a message of its own
