"""`posnmt translate` of documents, with a run that has learned a little (tests/frozen)."""

from __future__ import annotations

import json
import os
import shutil
import threading

import pytest

from tests.support.commands import refused, run
from tests.support.untrained import LEARNED, untrained


def lines_of(texts, *options, folder=LEARNED):
    return run("translate", folder, *options, stdin="\n".join(texts) + "\n")[0].splitlines()


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<h1>uns mebu zabi</h1>\n<p>uns favo leve <i>Bevu</i>. Bevu sipo un leri.\n<p>42\n")
    return path


def test_a_page_is_translated_sentence_by_sentence(page, tmp_path):
    title, first, second = lines_of(["uns mebu zabi", "uns favo leve Bevu.", "Bevu sipo un leri."])
    out, err = run("translate", LEARNED, "--input", page, "--output", tmp_path / "new.html")
    text = (tmp_path / "new.html").read_text()
    assert out == ""
    assert text.startswith(f"<h1>{title}</h1>\n<p>")
    assert text.replace("<i>", "").replace("</i>", "").endswith(f"<p>{first} {second}\n<p>42\n")
    assert "note: 3 of 3 sentences in 2 segments are translated" in err
    assert "note: 1 segments without letters are left as they are" not in err
    assert run("translate", LEARNED, "--document", "html", stdin=page.read_text())[0] == text


def test_the_ledger_of_a_page(page, tmp_path):
    """Each text with letters is translated, kept or refused; a text with one refused sentence is refused."""
    folder = untrained(tmp_path / "run", "learned", max_length=6)
    page.write_text(
        "<p title=mebu>uns <code>zabi</code>\n<p>zabi. " + "uns mebu zabi " * 5 + "\n<p>42\n<pre>uns\n</pre>"
        "<p translate=no>mebu<p>mebu<code>zabi</code>"
    )
    _, err = run("translate", folder, "--input", page, "--split", "off")
    assert "note: 4 of 5 sentences in 4 segments are translated\n" in err
    assert "note: 8 texts with letters: 3 translated, 4 kept, 1 refused\n" in err
    assert (
        'note: kept: 2 <code> (first in line 1), 1 <pre> (first in line 4), 1 translate="no" (first in line 5)\n' in err
    )
    page.write_text("<p>42<p>mebu")
    _, err = run("translate", folder, "--input", page)
    assert "note: 1 texts with letters: 1 translated, 0 kept, 0 refused\n" in err
    assert "kept:" not in err
    page.write_text("<pre>mebu</pre>")
    out, err = run("translate", folder, "--input", page)
    assert out == page.read_text()
    assert "note: 1 texts with letters: 0 translated, 1 kept, 0 refused\n" in err


def test_a_segment_whose_unit_is_not_written_is_refused(page, tmp_path):
    folder = untrained(tmp_path / "run", "learned", max_length=6)
    path = tmp_path / "unit.xlf"
    marks = "".join(f'<mrk mtype="seg" mid="{each}">{each}</mrk>' for each in ("uns", "mebu", "uns mebu zabi " * 5))
    unit = f"<trans-unit><source>a</source><seg-source>{marks}</seg-source></trans-unit>"
    path.write_text(
        f'<xliff version="1.2"><file><body>{unit}<trans-unit><source>uns</source></trans-unit></body></file></xliff>'
    )
    out, err = run("translate", folder, "--input", path, "--split", "off")
    assert out.count("<target") == 1
    assert "note: 5 texts with letters: 1 translated, 1 kept, 3 refused\n" in err
    assert "note: 1 units are left as they are" in err


def xliff(*sources):
    units = "".join(f"<trans-unit><source>{each}</source></trans-unit>\n" for each in sources)
    return f'<xliff version="1.2"><file target-language="de"><body>{units}</body></file></xliff>'


def tmx(*sources):
    units = "".join(f'<tu><tuv xml:lang="en"><seg>{each}</seg></tuv></tu>\n' for each in sources)
    return f'<tmx version="1.4"><body>{units}</body></tmx>'


WRITERS = {
    "po": lambda *texts: "".join(f'msgid "{each}"\nmsgstr ""\n\n' for each in texts),
    "json": lambda *texts: json.dumps(texts, indent=1),
    "xliff": xliff,
    "tmx": tmx,
    "html": lambda *texts: "".join(f"<p>{each}</p>\n" for each in texts),
    "markdown": lambda *texts: "\n\n".join(texts),
    "text": lambda *texts: "\n".join(texts),
    "srt": lambda *texts: "\n\n".join(f"{at}\n00:00:0{at},000 --> 00:00:0{at},500\n{x}" for at, x in enumerate(texts)),
}
"""Formats, and how some texts look in a document of each."""


@pytest.mark.parametrize("form", WRITERS)
def test_a_segment_of_which_a_sentence_is_refused(tmp_path, form):
    """Memories and messages have it whole or not at all, pages and texts have the sentences that are translated."""
    folder = untrained(tmp_path / "run", "learned", max_length=6)
    long = "uns mebu zabi " * 5 + "uns."
    both, path = f"zabi. {long}", tmp_path / "document"
    [first, other] = lines_of(["zabi.", "mebu"], folder=folder)
    path.write_text(WRITERS[form](both, "mebu"))
    options = ("--document", form, "--languages", "en-de", "--split", "off")
    out, err = run("translate", folder, "--input", path, *options)
    is_whole = form in ("po", "json", "xliff", "tmx")
    assert (both in out) == (is_whole or first == "zabi.")
    assert (f"{first} {long}" in out) == (not is_whole)
    assert other in out
    assert f"note: {1 if is_whole else 2} of 3 sentences in 2 segments are translated\n" in err
    assert "note: 2 texts with letters: 1 translated, 0 kept, 1 refused\n" in err
    marks = {"po": "#, fuzzy", "xliff": "<target", "tmx": "MT!"}
    assert form not in marks or out.count(marks[form]) == 1


@pytest.mark.parametrize("form", WRITERS)
def test_a_text_without_words_stays_as_it_is(tmp_path, form):
    """It has no translation that a person would have to review."""
    path, texts = tmp_path / "document", ["%s &amp; %s" if form == "html" else "%s", "mebu"]
    path.write_text(WRITERS[form](*texts))
    out, err = run("translate", LEARNED, "--input", path, "--document", form, "--languages", "en-de")
    [other] = lines_of(["mebu"])
    assert "note: 2 texts with letters: 1 translated, 1 kept, 0 refused\n" in err
    assert "kept: 1 text without words (first in line " in err
    assert texts[0] in out
    assert other in out
    marks = {"po": "#, fuzzy", "xliff": "<target", "tmx": "MT!"}
    assert form not in marks or out.count(marks[form]) == 1


@pytest.mark.parametrize("target", ["", '<target><mrk mtype="seg" mid="0"/><mrk mtype="seg" mid="1"/></target>'])
def test_a_unit_with_a_segment_without_words_is_written_whole(tmp_path, target):
    path = tmp_path / "unit.xlf"
    path.write_text(xliff(f'a</source><seg-source><mrk mtype="seg" mid="0">%s</mrk><mrk mtype="seg" mid="1">mebu</mrk>'
                          f"</seg-source>{target}<source>").replace("<source></source>", ""))  # fmt: skip
    out, err = run("translate", LEARNED, "--input", path, "--languages", "en-de")
    [other] = lines_of(["mebu"])
    assert f'<mrk mtype="seg" mid="0">%s</mrk><mrk mtype="seg" mid="1">{other}</mrk></target>' in out
    assert "note: 3 texts with letters: 1 translated, 2 kept, 0 refused\n" in err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", "# {}\n\n```\nuns\n```\n"),
        ("app.po", 'msgid "a"\nmsgstr "b"\n\n#, fuzzy\nmsgid "uns mebu zabi"\nmsgstr "{}"\n'),
        ("app.json", '{{"uns": "{}"}}\n'),
    ],
)
def test_the_formats_of_programs(tmp_path, name, text):
    """Markdown, PO and JSON; what stays is counted."""
    [translation] = lines_of(["uns mebu zabi"])
    source = text.format("" if name == "app.po" else "uns mebu zabi")
    (tmp_path / name).write_text(source)
    out, err = run("translate", LEARNED, "--input", tmp_path / name, "--languages", "en-de")
    assert out == text.format(translation)
    assert "note: 1 of 1 sentences in 1 segments are translated" in err
    assert "note: 2 texts with letters: 1 translated, 1 kept, 0 refused\n" in err


def test_other_engines(page):
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")
    ours, _ = run("translate", LEARNED, "--input", page)
    theirs, _ = run("translate", LEARNED, "--input", page, "--engine", "ctranslate2")
    assert ours == theirs


def test_what_cannot_be_translated_stays_and_is_named(page, tmp_path):
    folder = untrained(tmp_path / "run", "learned", max_length=6)
    page.write_text("<p>uns\n<p>" + "uns mebu zabi " * 5 + "\n<p>mebu\n")
    out, err = run("translate", folder, "--input", page, "--split", "off")
    assert out.splitlines()[1] == page.read_text().splitlines()[1]
    assert "note: 2 of 3 sentences in 3 segments are translated" in err
    [warning] = [line for line in err.splitlines() if line.startswith("warning: not translated")]
    assert "this model's position table ends at 5" in warning
    assert f"{page}:2" in warning
    assert warning.endswith("relative")


def test_a_document_that_is_refused_whole_names_its_first_line(page, tmp_path):
    folder = untrained(tmp_path / "run", "learned", max_length=6)
    page.write_text("<p>\n<p>" + "uns mebu zabi " * 5)
    [line] = refused("translate", folder, "--input", page, "--split", "off")
    assert f"this model's position table ends at 5 ({page}:2); shorten or split the line" in line
    page.write_text(page.read_text() + "\n<p>" + "uns mebu zabi " * 5)
    [line] = refused("translate", folder, "--input", page, "--split", "off")
    assert f"ends at 5 (and 1 more sentences) ({page}:2)" in line
    [line] = refused("translate", LEARNED, "--input", page, "--sample", "--coverage-penalty", "0.5")
    assert line.startswith("error: not available with samples (--coverage-penalty); leave it out")


def test_doubtful_translations_are_named(page):
    _, err = run("translate", LEARNED, "--input", page, "--max-ratio", 0.1, "--max-extra", 1)
    assert "translations reached the output limit" in err
    assert f"({page}, lines 1, 2, 2)" in err


def test_a_glossary_for_a_document(page, tmp_path):
    terms = tmp_path / "terms"
    terms.write_text("zabi\tder Zug\nleri\tΩ\n")
    out, err = run("translate", LEARNED, "--input", page, "--terms", terms)
    assert "der Zug" in out.splitlines()[0]
    assert out.splitlines()[1:] == run("translate", LEARNED, "--input", page)[0].splitlines()[1:]
    assert f"1 translations lack a term of --terms ({page}, lines 2)" in err


def test_lines_stay_lines(page):
    out, err = run("translate", LEARNED, "--input", page, "--document", "lines")
    assert len(out.splitlines()) == len(page.read_text().splitlines())
    assert "segments" not in err


def test_the_language_of_to_is_that_of_the_document(tmp_path):
    """Of a model for several languages; `--languages` wins."""
    folder = tmp_path / "run"
    shutil.copytree(LEARNED, folder)
    record = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps({**record, "marks": {"<2fr>": 9}}))
    (tmp_path / "a.tmx").write_text('<tmx><body><tu><tuv xml:lang="en"><seg>uns mebu</seg></tuv></tu></body></tmx>')
    xliff = '<xliff version="2.0" srcLang="en"><file><unit><segment><source>lo</source></segment></unit></file></xliff>'
    (tmp_path / "a.xliff").write_text(xliff)

    def written(name, *options):
        return run("translate", folder, "--input", tmp_path / name, "--to", "fr", *options)

    assert '<tuv xml:lang="fr" creationid="MT!"' in written("a.tmx")[0]
    out, err = written("a.xliff")
    assert 'trgLang="fr"' in out
    assert "its languages are" not in err
    assert 'trgLang="it"' in written("a.xliff", "--languages", "en-it")[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nbest", 2], "not available with a document, which is translated as a whole (--nbest)"),
        (["--format", "jsonl"], "not available with a document, which is translated as a whole (--format)"),
        (["--join", 2], "not available with a document, which is translated as a whole (--join)"),
        (["--languages", "en"], "a pair is two languages, such as en-de; got 'en' (--languages)"),
        (["--languages", "en-de", "--document", "lines"], "(--languages); name a --document"),
        (["--input", "none.html"], "input does not exist"),
    ],
)
def test_refused(page, options, message):
    [line] = refused("translate", LEARNED, "--input", page, *options)
    assert message in line


def test_pairs_of_a_memory(tmp_path):
    memory = tmp_path / "memory.tmx"
    memory.write_text(
        '<tmx><body><tu><tuv xml:lang="en-US"><seg>one <bpt i="1">&lt;b></bpt>two<ept i="1">&lt;/b></ept>'
        "<hi> three</hi></seg>"
        '</tuv><tuv xml:lang="de"><seg>eins zwei drei</seg></tuv></tu><tu><tuv xml:lang="en"><seg>four</seg></tuv></tu>'
        "</body></tmx>"
    )
    out, err = run("data", "extract", memory, "--pair", "en-de", "--out", tmp_path / "new")
    assert out == f"{tmp_path}/new.en\n{tmp_path}/new.de\n"
    assert "1 of 2 units lack text in one of the languages and are skipped\n1 pairs\n" in err
    assert (tmp_path / "new.en").read_text() == "one two three\n"
    assert (tmp_path / "new.de").read_text() == "eins zwei drei\n"
    [line] = refused("data", "extract", memory, "--pair", "en-de", "--out", tmp_path / "new")
    assert "exists and is not overwritten" in line
    [line] = refused("data", "extract", memory, "--pair", "en-fr", "--out", tmp_path / "other")
    assert "none of 2 units has both en and fr" in line
    [line] = refused("data", "extract", memory, "--pair", "en-en", "--out", tmp_path / "other")
    assert line.startswith("error: both languages are en (--pair)")
    [line] = refused("data", "extract", memory, "--pair", "en-pt-BR", "--out", tmp_path / "other")
    assert line.endswith("got 'en-pt-BR' (--pair); a region has an underscore: en-pt_BR")
    [line] = refused("data", "extract", tmp_path / "new.en", "--pair", "en-de", "--out", tmp_path / "other")
    assert line.endswith("new.en); name a TMX file; if this one is damaged, fetch it again")
    assert not list(tmp_path.glob("other*"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_written_to(page, tmp_path):
    pipe, arrived = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: arrived.append(pipe.read_text()), daemon=True)
    reader.start()
    run("translate", LEARNED, "--input", page, "--output", pipe)
    assert pipe.is_fifo()
    reader.join(60)
    assert arrived == [run("translate", LEARNED, "--input", page)[0]]


def test_an_output_behind_a_link_or_in_no_folder(page, tmp_path):
    link, file = tmp_path / "link.html", tmp_path / "file.html"
    file.write_text("old")
    link.symlink_to(file)
    run("translate", LEARNED, "--input", page, "--output", link, "--force")
    assert link.is_symlink()
    assert file.read_text().startswith("<h1>")
    [line] = refused("translate", LEARNED, "--input", page, "--output", tmp_path / "none" / "new.html")
    assert "the output cannot be written: not a file in an existing folder" in line
