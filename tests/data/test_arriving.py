"""Lines of a pipe are given when its writer pauses; how its bytes were cut changes no line."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.data.corpus import BYTE_ORDER_MARK, Findings, TextFile, decode_lines
from posnmt.data.lines import arriving_lines

FILE = TextFile("input", Path("standard input"))


class InParts(io.RawIOBase):
    """A stream whose reads end where its parts do."""

    def __init__(self, parts):
        self.parts = list(parts)

    def readable(self):
        return True

    def readinto(self, buffer):
        if not self.parts:
            return 0
        part = self.parts.pop(0)
        buffer[: len(part)] = part
        return len(part)


def findings():
    return Findings(accept=("empty", "crlf"))


@given(
    st.lists(st.text(alphabet="aé\r\0 \u2028\ufeff\n", max_size=8).map(str.encode).filter(len), max_size=12),
    st.integers(1, 4),
)
def test_parts_of_any_size_give_the_lines_of_the_whole(parts, size):
    whole, cut = findings(), findings()
    expected = list(decode_lines(io.BytesIO(b"".join(parts)), FILE, whole))
    groups = list(arriving_lines(io.BufferedReader(InParts(parts)), FILE, cut, lambda done: size))
    assert [line for group in groups for line in group] == expected
    assert all(0 < len(group) <= size for group in groups)
    kinds = ("crlf", "empty", "nul", BYTE_ORDER_MARK)
    assert [cut.count(FILE, kind) for kind in kinds] == [whole.count(FILE, kind) for kind in kinds]


@pytest.mark.skipif(os.name != "posix", reason="elsewhere select waits for sockets alone")
def test_a_line_is_given_before_the_next_is_written():
    reading, writing = os.pipe()
    late = threading.Timer(10, os.close, [writing])  # so that waiting for the next line fails, and does not hang
    late.start()
    with open(reading, "rb") as stream:
        groups = arriving_lines(stream, FILE, findings(), lambda done: 3)
        os.write(writing, b"one\nbegun ")
        assert next(groups) == ["one"]
        os.write(writing, b"and ended\ntwo\nthree\nfour\nfive")
        assert next(groups) == ["begun and ended", "two", "three"]
        assert next(groups) == ["four"]
        late.cancel()
        os.close(writing)
        assert list(groups) == [["five"]]


def test_a_fault_names_the_line_of_the_stream():
    stop = Findings(accept=("empty", "crlf"), stop=True)
    with pytest.raises(UserError, match="standard input:5"):
        list(arriving_lines(io.BytesIO(b"a\nb\nc\nd\n\xff\n"), FILE, stop, lambda done: 2))
