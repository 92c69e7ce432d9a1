"""What an ending says: files of formats that are not read are refused, and never read as lines by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from posnmt.base.errors import UserError
from posnmt.cli.translate import translate
from posnmt.deploy.documents.formats import BINARY, CODES, FORMATS, STRUCTURED, format_of, refuse_output_format
from tests.support.commands import refused, run
from tests.support.untrained import LEARNED


def endings(kinds):
    return [ending for each in kinds.values() for ending in each.split()]


UNREAD = [*endings(BINARY), *endings(STRUCTURED)]
READ = [ending for each in FORMATS.values() for ending in each.endings]


def test_the_command_has_every_format():
    [option] = [each for each in translate.params if each.name == "document"]
    assert [*option.type.choices] == ["lines", *FORMATS]


def test_an_ending_means_one_thing():
    every = [*UNREAD, *READ, *CODES]
    assert len(every) == len(set(every))
    assert all(each == each.lower() and each.startswith(".") for each in every)


@pytest.mark.parametrize("name", [f"a{each}" for each in UNREAD] + ["A.DOCX", "a.csv.gz", "a.Yaml.XZ"])
def test_a_document_that_is_not_read_is_refused(name):
    with pytest.raises(UserError, match=rf" is not read \({name}\); ") as refusal:
        format_of(None, Path(name))
    assert ("--document lines" in refusal.value.todo) == any(each in name.lower() for each in endings(STRUCTURED))
    assert format_of("lines", Path(name)) is None
    if not name.lower().endswith((".gz", ".xz")):
        assert format_of("text", Path(name)) == "text"


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "a.txt",
        "a.en",
        "a.de",
        "dev.source",
        "a.tok",
        "a.bpe",
        "a.src",
        "a.txt.gz",
        "a.de.xz",
        "newstest.2014",
        "-",
    ],
)
def test_lines_have_any_other_ending(name):
    assert format_of(None, Path(name)) is None
    refuse_output_format(None, None, Path(name))


REPORTED = (
    ".plist .fodt .mxliff .txlf .mqxlf .opml .rss .atom .tbx .ncx .opf .resw .shtml .php .vue .jsp .rmd .textile .wiki"
    " .org .texi .json5 .jsonc .mhtml .env .sub .scc"
)


def test_formats_that_were_read_as_lines():
    assert set(REPORTED.split()) <= set(UNREAD)
    assert [format_of(None, Path(f"a{each}")) for each in (".xht", ".mkd", ".mdown", ".mkdn")] == [
        "html", "markdown", "markdown", "markdown"
    ]  # fmt: skip


DOCUMENTS = {
    "a file with markup": [
        '<?xml version="1.0"?><a>',
        "\ufeff\n <!DOCTYPE html>",
        "<!doctype note>",
        "<HTML>x",
        "<?php x",
    ],
    "a file of JSON": ['{"a": 1}', '\n{ "a b" :\n', '[{"a":', '[\n {"a":', '["a", "b"]', '["a"]'],
    "a file that is not text": ["PK\3\4\0\0", "a\0b"],
}
"""What files are, and how they begin."""
LINES = [
    "Avuxeni\n",
    "[1] a note\n",
    "{0} files\n",
    '["a" and "b"]\n',
    '{"a quotation"}\n',
    "< 5 %\n",
    "<b>a</b>\n",
    "",
    "a <?xml",
]


@pytest.mark.parametrize("what", DOCUMENTS)
def test_an_unknown_ending_of_a_file_that_is_not_lines(tmp_path, what):
    """A file whose name says that it consists of lines is never looked at."""
    for start in DOCUMENTS[what]:
        path = tmp_path / "a.thing"
        path.write_text(start)
        with pytest.raises(UserError, match=f"{what} is not read"):
            format_of(None, path)
        assert format_of("lines", path) is None
        assert format_of("html", path) == "html"
        for name in ("a", "a.txt", "a.en", "a.de", "a.src", "a.tok", "a.deu", "a.pt-BR", "a.PL"):
            (tmp_path / name).write_text(start)
            assert format_of(None, tmp_path / name) is None, name


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_lines_of_an_unknown_ending(tmp_path, encoding):
    path = tmp_path / "a.thing"
    for text in LINES:
        path.write_text(text, encoding=encoding)
        assert format_of(None, path) is None, text
    path.write_text('<?xml version="1.0"?>', encoding=encoding)
    with pytest.raises(UserError, match="a file with markup is not read"):
        format_of(None, path)


@pytest.mark.parametrize(
    ("ending", "what", "starts"),
    [
        (".ts", "a file with markup", ['<?xml version="1.0"?>', "\ufeff\n<TS>"]),
        (".smi", "a file of subtitles", ["<SAMI>"]),
        (".lrc", "a file of subtitles", ["[ti:A]\n", "[00:12.00]a\n"]),
        (".eml", "a message", ["Return-Path: <a>\n", "From: a\n"]),
    ],
)
def test_an_ending_that_is_a_code_of_a_language_as_well(tmp_path, ending, what, starts):
    path = tmp_path / f"text{ending}"
    assert format_of(None, path) is None
    path.write_text("Avuxeni\n")
    assert format_of(None, path) is None
    for start in starts:
        path.write_text(start)
        with pytest.raises(UserError, match=f"{what} is not read"):
            format_of(None, path)


@pytest.mark.parametrize("ending", [*endings(BINARY), ".DOCX"])
@pytest.mark.parametrize(("asked", "form"), [(None, None), ("lines", None), ("html", "html"), ("text", "text")])
def test_no_output_is_a_document_that_is_never_written(ending, asked, form):
    with pytest.raises(UserError, match=rf"the output is {form or 'lines'}, not an? .*\(a{ending}\)"):
        refuse_output_format(asked, form, Path(f"a{ending}"))


@pytest.mark.parametrize("ending", READ)
def test_an_output_is_of_the_format_that_its_name_says(ending):
    path = Path(f"a{ending}")
    named = format_of(None, path)
    for form in [None, *FORMATS]:
        if form != named:
            with pytest.raises(UserError, match=rf"the output is {form or 'lines'}, not {named} \(a{ending}\)"):
                refuse_output_format(None, form, path)
            refuse_output_format(form or "lines", form, path)
    refuse_output_format(None, named, path)
    refuse_output_format(None, named, None)


def test_the_command_refuses_before_it_reads(tmp_path):
    """Nothing is written either."""
    source, out = tmp_path / "page.docx", tmp_path / "out.docx"
    [line] = refused("translate", LEARNED, "--input", source)
    assert line == f"error: a Word document is not read ({source}); save it as .html or .txt"
    source = tmp_path / "text.csv"
    source.write_text("uns mebu zabi\n")
    [line] = refused("translate", LEARNED, "--input", source)
    assert line.startswith(f"error: a CSV table is not read ({source}); add --document lines ")
    [line] = refused("translate", LEARNED, "--input", source, "--document", "lines", "--output", out)
    assert line == f"error: the output is lines, not a Word document ({out}); choose a name with another ending"
    [line] = refused("translate", LEARNED, "--output", tmp_path / "out.html", stdin="uns mebu zabi\n")
    assert line.startswith("error: the output is lines, not html ")
    assert not out.exists()
    assert run("translate", LEARNED, "--input", source, "--document", "lines")[0].count("\n") == 1
