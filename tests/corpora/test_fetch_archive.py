"""Single files out of archives: all forms, and archives that are damaged or mean harm."""

import bz2
import gzip
import lzma
import tarfile
import zipfile

import pytest

from posnmt.base.errors import UserError
from posnmt.corpora.archive import extract, is_archive, unpacked
from posnmt.data import unpack
from tests.support.fetch_server import tar, zipped
from tests.support.little_memory import little_memory

TEXTS = {"x/a.de": b"eins\nzwei\n" * 5000, "x/a.en": b"one\ntwo\n" * 5000, "README": b"read me\n"}


MAKERS = {
    "a.tgz": lambda path: tar(path, "w:gz", TEXTS),
    "a.tar": lambda path: tar(path, "w", TEXTS),
    "a.tar.xz": lambda path: tar(path, "w:xz", TEXTS),
    "a.tar.bz2": lambda path: tar(path, "w:bz2", TEXTS),
    "a.zip": lambda path: zipped(path, TEXTS),
    "no-ending": lambda path: zipped(path, TEXTS),
}


@pytest.mark.parametrize("name", MAKERS)
def test_members_come_out_whole(tmp_path, name):
    archive = MAKERS[name](tmp_path / name)
    assert is_archive(archive)
    extract(archive, {"x/a.de": tmp_path / "1", "*.en": tmp_path / "2"})
    assert (tmp_path / "1").read_bytes() == TEXTS["x/a.de"]
    assert (tmp_path / "2").read_bytes() == TEXTS["x/a.en"]


def test_names_that_point_outside_write_nothing_there(tmp_path):
    inside = tmp_path / "deep" / "er"
    inside.mkdir(parents=True)
    evil = {"../../evil.de": b"x\n", "/tmp/evil.en": b"y\n"}
    for archive in (tar(tmp_path / "a.tgz", "w:gz", evil), zipped(tmp_path / "a.zip", evil)):
        extract(archive, {"*.de": inside / "1", "*.en": inside / "2"})
        assert (inside / "1").read_bytes() == b"x\n"
        (inside / "1").unlink(), (inside / "2").unlink()
        assert {path.name for path in tmp_path.rglob("*")} <= {"a.tgz", "a.zip", "deep", "er"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_are_refused(tmp_path, kind):
    archive = tar(tmp_path / "a.tgz", "w:gz", {}, [("b.de", kind)])
    with pytest.raises(UserError, match=r"b\.de is a link"):
        extract(archive, {"b.de": tmp_path / "1"})
    assert not (tmp_path / "1").exists()


def test_a_member_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match=r"has no x/a\.dee .*did you mean 'x/a\.de'"):
        extract(zipped(tmp_path / "a.zip", TEXTS), {"x/a.dee": tmp_path / "1"})
    with pytest.raises(UserError, match=r"has no 12345678 .*it has x/a\.de, x/a\.en, README"):
        extract(tar(tmp_path / "a.tar", "w", TEXTS), {"12345678": tmp_path / "1"})


def test_a_pattern_that_fits_two(tmp_path):
    with pytest.raises(UserError, match=r"x/a\.\* matches both x/a\.de and x/a\.en"):
        extract(zipped(tmp_path / "a.zip", TEXTS), {"x/a.*": tmp_path / "1"})


@pytest.mark.parametrize("name", ["a.tgz", "a.tar.xz", "a.tar", "a.tar.bz2"])
def test_an_archive_that_is_cut_off(tmp_path, name):
    archive = MAKERS[name](tmp_path / name)
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(UserError, match=r"the file is damaged|has no|not a zip or tar"):
        extract(archive, {"x/a.de": tmp_path / "1", "x/a.en": tmp_path / "2", "README": tmp_path / "3"})


def test_a_damaged_zip(tmp_path):
    archive = zipped(tmp_path / "a.zip", TEXTS)
    data = bytearray(archive.read_bytes())
    data[60:80] = b"\0" * 20
    archive.write_bytes(data)
    with pytest.raises(UserError, match="the file is damaged"):
        extract(archive, {"x/a.de": tmp_path / "1"})


def test_a_page_instead_of_an_archive(tmp_path):
    (tmp_path / "a.tgz").write_text("<html>Not here</html>")
    with pytest.raises(UserError, match="not a zip or tar archive"):
        extract(tmp_path / "a.tgz", {"x": tmp_path / "1"})


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress, bytes])
def test_compression_shows_in_the_bytes(tmp_path, pack):
    (tmp_path / "a").write_bytes(pack(TEXTS["x/a.de"]))
    with unpacked(tmp_path / "a") as stream:
        assert stream.read() == TEXTS["x/a.de"]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_compressed_file_that_is_cut_off(tmp_path, pack):
    (tmp_path / "a").write_bytes(pack(TEXTS["x/a.de"])[:-9])
    with pytest.raises(UserError, match="the file is damaged"), unpacked(tmp_path / "a") as stream:
        stream.read()


@pytest.mark.parametrize("make", [lambda path, texts: tar(path, "w:xz", texts), zipped], ids=["tar.xz", "zip"])
def test_members_far_larger_than_text(tmp_path, monkeypatch, make):
    monkeypatch.setattr(unpack, "FREE", 100_000)
    archive = make(tmp_path / "a", {"small.de": b"a\n", "b.de": bytes(2_000_000)})
    with pytest.raises(UserError, match=r"unpacks to more than 100,000 bytes and 200 times.*unpack it yourself"):
        extract(archive, {"b.de": tmp_path / "1"})
    assert not (tmp_path / "1").exists()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_compressed_file_far_larger_than_text(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(unpack, "FREE", 100_000)
    (tmp_path / "a").write_bytes(pack(bytes(2_000_000)))
    with pytest.raises(UserError, match="unpacks to more than 100,000 bytes"), unpacked(tmp_path / "a") as stream:
        stream.read()


def test_an_archive_that_asks_for_more_memory_than_there_is(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as box:
        box.writestr("b.de", TEXTS["x/a.de"])
    content = bytearray((tmp_path / "a.zip").read_bytes())
    dictionary = 30 + len("b.de") + 5  # after the local header, its name, and LZMA's version, length and first property
    content[dictionary : dictionary + 4] = (3 * 2**30).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(content)
    with little_memory(), pytest.raises(UserError, match=r"takes more memory than there is.*a\.zip"):
        extract(tmp_path / "a.zip", {"b.de": tmp_path / "1"})
