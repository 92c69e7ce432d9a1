"""What CONTRIBUTING.md adds as examples works as it is written there: a document format, and a command."""

import sys
from pathlib import Path

import pytest

from posnmt.base.errors import UserError
from posnmt.cli.main import COMMANDS, main
from posnmt.deploy.documents.formats import FORMATS, STRUCTURED, Format, format_of
from posnmt.deploy.documents.formats import read as read_document
from tests.support.commands import refused, run
from tests.support.documents import ROOT, blocks, read
from tests.support.untrained import LEARNED

PAGE = read(ROOT / "CONTRIBUTING.md")
FILE = b"\xef\xbb\xbf# a comment\r\na.key = uns mebu.\r\nempty =\r\n! uns\nlast=Bevu sipo\r\n"


def example(title: str) -> str:
    """The Python code of a section."""
    (code,) = [text for _, kind, text in blocks(PAGE.split(f"## {title}\n")[1].split("\n## ")[0]) if kind == "python"]
    return code


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module that Python can import until the end of the test."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write


@pytest.fixture
def properties(module, monkeypatch):
    module("example_properties", example("A document format"))
    assert '"properties": Format((".properties",)' in PAGE
    monkeypatch.setitem(FORMATS, "properties", Format((".properties",), "example_properties:read_properties"))


@pytest.mark.usefixtures("properties")
def test_the_document_format():
    document = read_document("properties", FILE, Path("a.properties"), ("en", "de"))
    assert document.content() == FILE
    assert [(each.line, each.pieces) for each in document.segments] == [(2, ["uns mebu."]), (5, ["Bevu sipo"])]
    assert [(each.line, each.text, each.reason) for each in document.kept] == [
        (1, "# a comment", "comments"), (4, "! uns", "comments"),
    ]  # fmt: skip
    document.segments[0].translated = ["= #"]
    assert document.content() == FILE.replace(b"uns mebu.", b"= #")


@pytest.mark.usefixtures("properties")
def test_a_document_of_this_format_is_translated(tmp_path):
    source, output = tmp_path / "a.properties", tmp_path / "b.properties"
    source.write_bytes(FILE)
    _, err = run("translate", LEARNED, "--input", source, "--output", output, "--beam", 1)
    assert "4 texts with letters: 2 translated, 2 kept, 0 refused" in err
    lines = [
        run("translate", LEARNED, "--beam", 1, stdin=f"{text}\n")[0].strip() for text in ("uns mebu.", "Bevu sipo")
    ]
    expected = FILE.decode().replace("uns mebu.", lines[0]).replace("Bevu sipo", lines[1])
    assert output.read_bytes().decode() == expected


def test_an_ending_of_the_example_is_refused_until_then():
    assert any(".properties" in endings.split() for endings in STRUCTURED.values())
    with pytest.raises(UserError):
        format_of(None, Path("a.properties"))


def test_the_command(module, monkeypatch, tmp_path):
    module("example_count", example("A command"))
    assert '"count": "posnmt.cli.count:count"' in PAGE
    assert "count" not in COMMANDS
    monkeypatch.setitem(main.lazy, "count", "example_count:count")
    monkeypatch.setitem(main.commands, "count", None)
    text = tmp_path / "text"
    text.write_text("one two\nthree\n")
    assert run("count", text)[0] == "2\n"
    assert run("count", "--words", text)[0] == "3\n"
    assert "posnmt count test.en" in run("count", "--help")[0]
    [line] = refused("count", "none")
    assert "(none)" in line
