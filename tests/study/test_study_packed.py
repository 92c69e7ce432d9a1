"""Packed files of a published study."""

from __future__ import annotations

import csv
import io
import lzma
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.study.packed import archived, compressed, joined, separated, unpack
from tests.support.copies import pack

LINES = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20)
NAMES = st.lists(st.text("ab.1-+", min_size=1, max_size=8), min_size=1, max_size=4, unique=True)


@st.composite
def translations(draw: st.DrawFn) -> dict[str, list[str]]:
    """Name -> lines; all of the same number."""
    count = draw(st.integers(0, 5))
    return {name: draw(st.lists(LINES, min_size=count, max_size=count)) for name in draw(NAMES)}


def as_files(lines: dict[str, list[str]]) -> dict[str, bytes]:
    return {name: "".join(f"{line}\n" for line in its).encode() for name, its in lines.items()}


@given(translations())
def test_translations_come_back_byte_for_byte(lines: dict[str, list[str]]) -> None:
    assert separated(joined(as_files(lines)), Path()) == as_files(lines)


def test_a_line_longer_than_csv_allows_by_default_comes_back() -> None:
    outputs = as_files({"long": ["x" * (csv.field_size_limit() + 1)]})
    assert separated(joined(outputs), Path()) == outputs


def test_a_row_has_the_line_of_every_translation() -> None:
    text = joined({"a.all.1": b"one, two\nthree\n", "b.all.1": b'"1"\n\n'}).decode()
    rows = [*csv.reader(io.StringIO(text))]
    assert rows == [["a.all.1", "b.all.1"], ["one, two", '"1"'], ["three", ""]]


@pytest.mark.parametrize("content", [b"", b"a,b\r\n1\r\n", b"a\r\n\xff\r\n", b'a\r\n"1\r\n'])
def test_a_damaged_table_is_one_error(content: bytes) -> None:
    limit = csv.field_size_limit()
    with pytest.raises(UserError, match="missing or damaged"):
        separated(content, Path("translations.tar.xz"))
    assert csv.field_size_limit() == limit


FILES = {"runs/b.all.1/é.json": b"{}\n", "runs/a.all.1/metrics.jsonl": bytes(range(256)), f"runs/{'n' * 150}": b""}


def test_a_folder_comes_back_in_its_order_as_other_programs_read_it(tmp_path: Path) -> None:
    packed = tmp_path / "runs.tar.xz"
    pack(FILES, packed)
    assert [*unpack(packed).items()] == [*FILES.items()]
    with tarfile.open(packed) as tar:
        assert tar.getnames() == [*FILES]
        assert {(each.mtime, each.uid, each.gid, each.uname) for each in tar} == {(0, 0, 0, "")}
    pack(FILES, tmp_path / "again.tar.xz")
    assert (tmp_path / "again.tar.xz").read_bytes() == packed.read_bytes()


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    packed = tmp_path / "runs.tar.xz"
    packed.write_bytes(otherwise := lzma.compress(archived(FILES), preset=0))
    assert compressed(archived(FILES), packed) == otherwise
    pack({"runs/other": b"1"}, packed)
    assert unpack(packed) == {"runs/other": b"1"}
    packed.write_bytes(b"damaged")
    pack(FILES, packed)
    assert unpack(packed) == FILES


def archive(*members: tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for each in members:
            tar.addfile(each)
    return made.getvalue()


def member(name: str, **settings: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    for key, value in settings.items():
        setattr(made, key, value)
    return made


SPARSE = {"GNU.sparse.size": "99", "GNU.sparse.map": "0,0"}


@pytest.mark.parametrize(
    "content",
    [
        b"", lzma.compress(b""), lzma.compress(b"a,b\r\n1\r\n"), lzma.compress(archive(member("a")))[:-9],
        *(
            lzma.compress(archive(each))
            for each in (
                member("a", type=tarfile.SYMTYPE, linkname="/etc/passwd"), member("a", type=tarfile.DIRTYPE),
                member("a", type=tarfile.FIFOTYPE), member("a", pax_headers=SPARSE),
            )
        ),
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_archive_is_one_error(tmp_path: Path, content: bytes) -> None:
    packed = tmp_path / "runs.tar.xz"
    packed.write_bytes(content)
    with pytest.raises(UserError, match="missing or damaged"):
        unpack(packed)
