"""The plain-file writer behind `posnmt condition`: aligned files, a manifest, all or nothing."""

import hashlib
import json

import pytest

from posnmt.base.errors import UserError
from posnmt.base.version import __version__
from posnmt.corpora.conditions.files import PlainFiles

ROWS = [("one", "eins"), ("two\u2028lines", "zw\u0085ei"), ("", "leer")]


def write(out, rows=ROWS):
    with PlainFiles(out) as files:
        files.write(("x.source", "x.target"), rows)
        files.write(("notes",), [("note",)])
        return files.finish("example", {"seed": 3}, {"x": {"pairs": len(rows)}})


def test_files_hold_the_rows_as_they_are(tmp_path):
    write(tmp_path / "made" / "deep")
    folder = tmp_path / "made" / "deep"
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "notes", "x.source", "x.target"]
    assert (folder / "x.source").read_bytes() == "one\ntwo\u2028lines\n\n".encode()
    assert (folder / "x.target").read_bytes() == "eins\nzw\u0085ei\nleer\n".encode()
    assert [path.name for path in folder.parent.iterdir()] == ["deep"], "no temporary folder is left"


def test_manifest_says_what_the_files_are(tmp_path):
    manifest = write(tmp_path / "out")
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["posnmt"] == __version__
    assert manifest["condition"] == "example"
    assert manifest["parameters"] == {"seed": 3}
    assert manifest["statistics"] == {"x": {"pairs": 3}}
    assert list(manifest["files"]) == ["x.source", "x.target", "notes"]
    for name, facts in manifest["files"].items():
        data = (tmp_path / "out" / name).read_bytes()
        assert facts == {"lines": data.count(b"\n"), "sha256": hashlib.sha256(data).hexdigest()}


def test_same_rows_same_bytes(tmp_path):
    write(tmp_path / "a")
    write(tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize("name", ["x.target", "manifest.json"])
def test_nothing_is_written_over(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match="exists and is not overwritten") as caught:
        write(tmp_path)
    assert name in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_files_of_other_names_stay(tmp_path):
    (tmp_path / "README").write_text("mine")
    write(tmp_path)
    assert (tmp_path / "README").read_text() == "mine"
    assert (tmp_path / "x.source").exists()


@pytest.mark.parametrize(
    ("row", "error"),
    [(("a\nb", "c"), "line feed"), (("a",), "is longer than"), (("a", "b", "c"), "is shorter than")],
)
def test_an_error_leaves_nothing(tmp_path, row, error):
    with pytest.raises(ValueError, match=error):
        write(tmp_path / "out", [*ROWS, row])
    assert list(tmp_path.iterdir()) == []


def test_leaving_without_finish_leaves_nothing(tmp_path):
    with PlainFiles(tmp_path / "out") as files:
        assert files.write(("x",), [("a",), ("b",)]) == 2
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_is_there_only_with_all_files(tmp_path):
    out = tmp_path / "out"
    with PlainFiles(out) as files:
        files.write(("x",), [("a",)])
        (out / "x" / "mine").mkdir(parents=True)  # another program's, since this one looked
        with pytest.raises(UserError):
            files.finish("example", {}, {})
    assert [path.name for path in out.iterdir()] == ["x"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_output_folder_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UserError, match="output folder is a file"):
        write(tmp_path / "out")
    with pytest.raises(UserError, match="cannot write here"):
        write(tmp_path / "out" / "below")
    assert (tmp_path / "out").read_text() == "mine"
