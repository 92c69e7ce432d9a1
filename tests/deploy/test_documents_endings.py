"""What an ending says: files of formats that are not read are refused, and never read as lines by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import refused, run
from posnmt.cli.translate import translate
from posnmt.deploy.documents.formats import BINARY, ENDINGS, STRUCTURED, format_of, refuse_output_format
from posnmt.errors import UserError
from untrained import LEARNED


def endings(kinds):
    return [ending for each in kinds.values() for ending in each.split()]


UNREAD = [*endings(BINARY), *endings(STRUCTURED)]
READ = [ending for each in ENDINGS.values() for ending in each]


def test_the_command_has_every_format():
    [option] = [each for each in translate.params if each.name == "document"]
    assert [*option.type.choices] == ["lines", *ENDINGS]


def test_an_ending_means_one_thing():
    every = UNREAD + READ
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


def test_ts_is_tsonga_or_markup(tmp_path):
    path = tmp_path / "text.ts"
    assert format_of(None, path) is None
    path.write_text("Avuxeni\n")
    assert format_of(None, path) is None
    for start in ('<?xml version="1.0"?>', "\ufeff\n<TS>"):
        path.write_text(start)
        with pytest.raises(UserError, match="a file with markup is not read"):
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
    for form in [None, *ENDINGS]:
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
