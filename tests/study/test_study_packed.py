"""Compressed files of a published study."""

from __future__ import annotations

import csv
import io
import lzma
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.study.packed import pack_outputs, unpack_outputs

LINES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20)
NAMES = st.lists(st.text("ab.1-+", min_size=1, max_size=8), min_size=1, max_size=4, unique=True)


@st.composite
def translations(draw: st.DrawFn) -> dict[str, list[str]]:
    """Name -> lines; all of the same number."""
    count = draw(st.integers(0, 5))
    return {name: draw(st.lists(LINES, min_size=count, max_size=count)) for name in draw(NAMES)}


def as_files(lines: dict[str, list[str]]) -> dict[str, bytes]:
    return {name: "".join(f"{line}\n" for line in its).encode() for name, its in lines.items()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(translations())
def test_translations_come_back_byte_for_byte(tmp_path: Path, lines: dict[str, list[str]]) -> None:
    packed = tmp_path / "test.csv.xz"
    pack_outputs(as_files(lines), packed)
    assert unpack_outputs(packed) == as_files(lines)


def test_a_line_longer_than_csv_allows_by_default_comes_back(tmp_path: Path) -> None:
    outputs = as_files({"long": ["x" * (csv.field_size_limit() + 1)]})
    pack_outputs(outputs, tmp_path / "test.csv.xz")
    assert unpack_outputs(tmp_path / "test.csv.xz") == outputs


def test_a_row_has_the_line_of_every_translation(tmp_path: Path) -> None:
    pack_outputs({"a.all.1": b"one, two\nthree\n", "b.all.1": b'"1"\n\n'}, tmp_path / "test.csv.xz")
    text = lzma.decompress((tmp_path / "test.csv.xz").read_bytes()).decode()
    rows = [*csv.reader(io.StringIO(text))]
    assert rows == [["a.all.1", "b.all.1"], ["one, two", '"1"'], ["three", ""]]


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    packed = tmp_path / "test.csv.xz"
    pack_outputs({"a": b"1\n"}, packed)
    before = packed.stat().st_mtime_ns, packed.stat().st_ino
    pack_outputs({"a": b"1\n"}, packed)
    assert (packed.stat().st_mtime_ns, packed.stat().st_ino) == before
    pack_outputs({"a": b"2\n"}, packed)
    assert unpack_outputs(packed) == {"a": b"2\n"}


@pytest.mark.parametrize(
    "content",
    [
        b"", lzma.compress(b""), lzma.compress(b"a,b\r\n1\r\n"), lzma.compress(b"a\r\n\xff\r\n"),
        lzma.compress(b'a\r\n"1\r\n'), lzma.compress(b"a\r\n1\r\n")[:-9],
    ],
)  # fmt: skip
def test_a_damaged_file_is_one_error(tmp_path: Path, content: bytes) -> None:
    packed = tmp_path / "test.csv.xz"
    packed.write_bytes(content)
    limit = csv.field_size_limit()
    with pytest.raises(UserError, match="missing or damaged"):
        unpack_outputs(packed)
    assert csv.field_size_limit() == limit
