"""Compressed files that unpack to far more than text, and lines that no memory should hold."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import zlib
from pathlib import Path

import pytest

from posnmt.base.errors import UserError
from posnmt.data import unpack
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.data.lines import arriving_lines
from tests.support.commands import refused
from tests.support.little_memory import little_memory


@pytest.fixture
def small(monkeypatch):
    """Limits that a test can exceed."""
    monkeypatch.setattr(unpack, "FREE", 100_000)
    monkeypatch.setattr(unpack, "LINE", 1_000)


PACKERS = {".gz": gzip.compress, ".xz": lzma.compress}


def packed(path, content):
    path.write_bytes(PACKERS[path.suffix](content))
    return TextFile("input", path)


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_bomb_is_no_text(tmp_path, small, suffix):
    bomb = packed(tmp_path / f"bomb{suffix}", b"a line\n" * 300_000)
    assert bomb.path.stat().st_size * unpack.RATIO < 7 * 300_000
    lines = read_lines(bomb, Findings(stop=True))
    given = []
    with pytest.raises(UserError, match=rf"unpacks to more than 100,000 bytes and 200 times its size.*bomb\{suffix}\)"):
        given.extend(lines)
    assert 7 * len(given) <= max(100_000, unpack.RATIO * bomb.path.stat().st_size), "it ends at the limit"
    assert len(list(read_lines(packed(tmp_path / f"few{suffix}", b"a line\n" * 1_400), Findings(stop=True)))) == 1_400


def test_much_text_is_none(tmp_path, small):
    text = "".join(f"{number * 7919 % 100_003} words\n" for number in range(30_000)).encode()
    assert len(text) > 300_000
    assert len(list(read_lines(packed(tmp_path / "text.gz", text), Findings(stop=True)))) == 30_000


@pytest.mark.parametrize("suffix", PACKERS)
def test_short_streams_one_after_another(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(unpack, "STREAMS", 50)
    monkeypatch.setattr(unpack, "SHORTEST", 300)
    path = tmp_path / f"a{suffix}"
    short, long = (PACKERS[suffix](random.Random(1).randbytes(size).hex().encode() + b"\n") for size in (9, 500))
    for stream, number, fails in ((short, 50, False), (short, 60, True), (long, 60, False)):
        assert (len(stream) < 300) == (stream == short)
        path.write_bytes(stream * number)
        lines = read_lines(TextFile("input", path), Findings(stop=True))
        if fails:
            with pytest.raises(UserError, match=rf"more than 50 compressed streams of less than 300.*a\{suffix}"):
                list(lines)
        else:
            assert len(list(lines)) == number


def test_a_file_that_asks_for_more_memory_than_there_is(tmp_path):
    content = bytearray(lzma.compress(b"a line\n"))
    header = slice(12, 12 + 4 * (content[12] + 1))  # of the first block: size, flags, LZMA2, one byte, its dictionary
    assert content[14:16] == b"\x21\x01"
    content[16] = 39  # 3 GB
    content[header.stop - 4 : header.stop] = zlib.crc32(content[header][:-4]).to_bytes(4, "little")
    path = tmp_path / "a.xz"
    path.write_bytes(content)
    with little_memory(), pytest.raises(UserError, match=r"takes more memory than there is.*a\.xz"):
        list(read_lines(TextFile("input", path), Findings(stop=True)))


@pytest.mark.parametrize("suffix", ["", *PACKERS])
def test_a_line_without_end(tmp_path, small, suffix):
    path = tmp_path / f"text{suffix}"
    for extra, fails in ((0, False), (1, True)):
        content = b"short\n" + b"x" * (999 + extra) + b"\nshort\n"
        path.write_bytes(PACKERS.get(suffix, bytes)(content))
        findings = Findings()
        lines = list(read_lines(TextFile("input", path), findings))
        assert len(lines) == (1 if fails else 3)
        if fails:
            with pytest.raises(UserError, match=r"a line has more than 1,000 bytes .*:2\)"):
                findings.raise_all()


def test_a_pipe_without_line_ends(monkeypatch):
    monkeypatch.setattr("posnmt.data.lines.LINE", 1_000)
    file = TextFile("input", Path("standard input"))
    lines = arriving_lines(io.BufferedReader(io.BytesIO(b"short\n" + b"x" * 2_000)), file, Findings())
    with pytest.raises(UserError, match=r"a line has more than 16,777,216 bytes \(standard input:2\)|standard input:2"):
        list(lines)


def test_every_command_says_so(tmp_path, small):
    bomb = packed(tmp_path / "bomb.gz", b"a line\n" * 300_000).path
    plain = tmp_path / "plain"
    plain.write_text("a line\n")
    [error] = refused("analyse", "--source", bomb, "--reference", plain, "--output", f"a={plain}")
    assert "it unpacks to more than 100,000 bytes" in error
    assert "unpack it yourself" in error
