"""Documents of LibreTranslate's interface: HTML in /translate, and files, which are fetched once."""

from __future__ import annotations

import os
import re
import signal
import stat
import time
from pathlib import Path

import pytest

from posnmt.deploy.documents.formats import FORMATS, NAMED
from posnmt.deploy.server.documents import LARGER
from posnmt.deploy.server.held import SHARE
from posnmt.deploy.server.readers import Reader
from posnmt.deploy.server.settings import Settings
from tests.support.answering import answering
from tests.support.commands import run
from tests.support.untrained import LEARNED, untrained

PAGE = "<h1>uns mebu zabi</h1>\n<p>uns &lt; <i>leve</i> <code>Bevu</code>. Bevu sipo un leri.\n<p>42\n"
DOCUMENTS = {
    "tmx": '<tmx version="1.4"><header/><body><tu><tuv xml:lang="en"><seg>uns mebu</seg></tuv></tu></body></tmx>',
    "xliff": '<xliff version="1.2"><file source-language="en" target-language="de" datatype="x" original="x"><body>'
    '<trans-unit id="1"><source>uns <g id="1">mebu</g> zabi</source></trans-unit></body></file></xliff>',
    "html": PAGE,
    "srt": "1\n00:00:01,000 --> 00:00:02,000\nuns mebu\nzabi\n",
    "vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\nuns mebu zabi\n",
    "markdown": "# uns mebu\n\nBevu *sipo* un leri.\n",
    "po": 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "uns mebu"\nmsgstr ""\n',
    "json": '{"a": ["uns mebu zabi", 5]}\n',
    "text": "uns mebu zabi. Bevu sipo un leri.\n\nlo dumo\n",
}
"""Format → a document."""
ENDINGS = {"text": ".txt", **{form: FORMATS[form].endings[0] for form in DOCUMENTS if form != "text"}}
FRENCH = "Bonjour tout le monde, comment allez-vous aujourd'hui ?"


@pytest.fixture(scope="module")
def served():
    """A model from English, and the same one from Russian."""
    with answering(languages=(("en", "de"), ("ru", "de"))) as server:
        yield server


def by_command(form, text):
    """What `posnmt translate` makes of a document."""
    return run("translate", LEARNED, "--document", form, stdin=text)[0]


def kept(server):
    """The files that a server keeps."""
    folder = server.service.held._folder
    return [] if folder is None else list(Path(folder.name).iterdir())


@pytest.mark.parametrize("form", DOCUMENTS)
def test_a_document_is_translated_as_by_the_command_line(form, served):
    name, content = served.translation(f"my file{ENDINGS[form]}", DOCUMENTS[form])
    assert name == f"my%20file_de{ENDINGS[form]}"
    assert content.decode() == by_command(form, DOCUMENTS[form]) != DOCUMENTS[form]
    assert not kept(served)


def test_every_ending_of_a_format_is_read_in_any_case(served):
    assert set(ENDINGS.values()) <= set(NAMED) == set(served.get("/frontend/settings").json()["supportedFilesFormat"])
    for form in ("html", "markdown"):
        for ending in FORMATS[form].endings:
            assert served.translation(f"a{ending.upper()}", DOCUMENTS[form])[1].decode() == by_command(
                form, DOCUMENTS[form]
            )


def test_html_of_a_text_is_translated_as_a_page(served):
    page = '<meta charset="latin1"><p title="uns mebu">Größe &amp; uns <b>mebu</b> zabi</p>'
    query = {"q": [PAGE, page], "source": "en", "target": "de", "format": "html"}
    answer = served.post("/translate", json=query)
    expected = [by_command("html", PAGE), by_command("html", "\ufeff" + page).removeprefix("\ufeff")]
    assert answer.json() == {"translatedText": expected}
    assert "</b>" in expected[1]
    assert "&amp;" in expected[1]
    one = served.post("/translate", json={**query, "q": PAGE, "source": "auto", "alternatives": 2})
    assert one.json()["translatedText"] == expected[0]
    assert one.json()["alternatives"] == []
    assert one.json()["detectedLanguage"]["language"] == "en"
    assert one.headers["X-Posnmt-Warning"].startswith("alternatives are not made of HTML")


def test_a_translation_is_fetched_once_and_its_head_any_number_of_times(served):
    answer = served.send("C:\\texts\\Größe.html", PAGE)
    [file] = kept(served)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    place = answer.json()["translatedFileUrl"].removeprefix(served.url)
    assert re.fullmatch(r"/download_file/[0-9a-f]{40}\.Gr%C3%B6%C3%9Fe_de\.html", place)
    assert answer.json()["notes"] == [
        "3 of 3 sentences in 2 segments are translated",
        "3 texts with letters: 2 translated, 1 kept, 0 refused",
        "kept: 1 <code> (first in line 2)",
    ]
    heads = [served.head(place) for _ in range(2)]
    whole = served.get(place)
    for head in heads:
        assert (head.status_code, head.content) == (200, b"")
        assert {**head.headers, "date": ""} == {**whole.headers, "date": ""}
    assert whole.headers["Content-Disposition"] == "attachment; filename*=UTF-8''Gr%C3%B6%C3%9Fe_de.html"
    assert int(whole.headers["Content-Length"]) == len(whole.content) == len(by_command("html", PAGE).encode())
    assert served.get(place).status_code == served.head(place).status_code == 404
    assert not kept(served)


def test_names_that_are_guessed_find_nothing(served):
    served.send("a.txt", "uns mebu")
    [file] = kept(served)
    for name in (
        "",
        "../" + file.name,
        "%2e%2e%2f" + file.name,
        file.name[:-1],
        "*",
        "\0",
        file.name.upper(),
    ):
        assert served.get(f"/download_file/{name}").status_code == 404, name
    assert served.get(f"/download_file/{file.name}").status_code == 200  # the rest of the name is for people


def test_the_language_of_a_document_is_detected_or_it_is_refused(served):
    russian = "<p>Это предложение на русском языке.</p>"
    answer = served.send("a.html", russian.encode(), source="auto")
    assert answer.json()["detectedLanguage"]["language"] == "ru"
    assert answer.json()["detectedLanguage"]["confidence"] > 90
    assert "detectedLanguage" not in served.send("a.html", russian.encode()).json()
    units = DOCUMENTS["xliff"].replace('"en"', '"ru"').replace("uns", "Это предложение на русском языке.").encode()
    assert not [
        each for each in served.send("a.xlf", units, source="auto").json()["notes"] if "the model's are" in each
    ]
    assert [each for each in served.send("a.xlf", units).json()["notes"] if "the model's are" in each]
    for name, content, message in [
        ("a.txt", FRENCH, "the text is in French (fr), not in en or ru"),
        ("a.html", "<p>42</p>", "a text without letters can be in any language"),
        ("a.tmx", DOCUMENTS["tmx"], "a translation memory has texts in several languages; name the source language"),
    ]:
        answer = served.send(name, content, source="auto")
        assert answer.status_code == 400
        assert message in answer.json()["error"]


def test_a_document_is_divided_by_the_rules_of_its_detected_language():
    """In German, a number with a full stop may be an ordinal; English has two sentences."""
    text = "Es waren gestern Abend nur 12. Dann gingen wir alle zusammen nach Hause."
    with answering(languages=(("en", "fr"), ("de", "fr"))) as server:
        jobs = []
        for model in server.service.models.all:
            model.queue.add = lambda job, add=model.queue.add: (add(job), jobs.append(len(job.requests)))
        for code in ("en", "de", "auto"):
            server.translation("a.txt", text, source=code, target="fr")
        assert jobs == [2, 1, 1]


def test_the_source_of_a_memory_is_detected_where_one_is_possible():
    with answering() as server:
        assert server.translation("a.tmx", DOCUMENTS["tmx"], source="auto")[1].decode() == by_command(
            "tmx", DOCUMENTS["tmx"]
        )


ENTITIES = '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
BAD = {
    "no file": ({}, 400, "file: one file with a name is required"),
    "two files": ([("file", ("a.txt", "lo")), ("file", ("b.txt", "lo"))], 400, "file: one file with a name"),
    "another field": ({"document": ("a.txt", "lo")}, 400, "file: one file with a name is required"),
    "no ending": ({"file": ("a", "lo")}, 400, "a file whose name has no ending is not read (a); send one of .txt, "),
    "an unknown ending": ({"file": ("a.ts", "lo")}, 400, "a file with the ending '.ts' is not read (a.ts)"),
    "a PDF": ({"file": ("a.PDF", "lo")}, 400, "a PDF is not read (a.PDF)"),
    "a Word document": ({"file": ("a.docx", b"PK\3\4")}, 400, "a Word document is not read (a.docx)"),
    "a compressed page": ({"file": ("a.html.gz", b"\x1f\x8b")}, 400, "a compressed document is not read"),
    "broken XML": ({"file": ("a.tmx", "<tmx>\n<body>")}, 400, "not well-formed XML"),
    "another XML": ({"file": ("a.tmx", "<svg/>")}, 400, "the first element is svg, but tmx was expected"),
    "entities": (
        {"file": ("a.tmx", ENTITIES + DOCUMENTS["tmx"])},
        400,
        "the file declares an entity, a, which is not safe",
    ),
    "nested elements": ({"file": ("a.html", "<div>" * 50_000)}, 400, "more than 512 elements are nested (a.html:1)"),
    "nested lists": ({"file": ("a.json", "[" * 100_000)}, 400, "(a.json"),
    "broken JSON": ({"file": ("a.json", '{"a":\n"b"')}, 400, "not valid JSON"),
    "no UTF-8": ({"file": ("a.txt", b"lo\nM\xe4dchen")}, 400, "not valid utf-8: byte 0xE4 (a.txt:2)"),
    "an unknown encoding": ({"file": ("a.html", '<meta charset="x-1"><p>lo')}, 400, "unknown encoding, 'x-1'"),
    "very many bytes": ({"file": ("a.txt", "lo\n" * 400_000)}, 413, "the request is larger than 1,048,576 bytes"),
    "very many sentences": ({"file": ("a.txt", "lo\n" * 20_001)}, 413, "20,001 segments are more than the 20,000 of"),
    "a long sentence alone": ({"file": ("a.txt", "lo " * 1_001)}, 413, "a sentence of 3,002 characters is longer"),
}
"""What is wrong → the files, the status, and a part of the message."""


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_read_is_refused_in_a_sentence_and_harms_nobody(what, served):
    files, status, message = BAD[what]
    answer = served.post("/translate_file", files=files or {"x": (None, "")}, data={"source": "en", "target": "de"})
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert message in answer.json()["error"]
    assert "--" not in answer.json()["error"]  # a server has no options of a command line
    assert served.translation("a.txt", "uns mebu")[1].decode() == by_command("text", "uns mebu")
    assert not [each for each in served.service.held._documents.values() if each.state != "done"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "fr"}, "fr is not supported as a source language"),
        ({"target": "xx"}, "xx is not supported as a target language"),
        ({"target": ""}, " is not supported as a target language"),
    ],
)
def test_languages_that_are_not_served(fields, message, served):
    answer = served.send("a.txt", "lo", **fields)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert message in answer.json()["error"]
    missing = served.post("/translate_file", files={"file": ("a.txt", "lo")}, data={"source": "en"})
    assert (missing.status_code, missing.json()["error"]) == (400, "Invalid request: target: field required")


def test_a_document_in_another_form_is_refused(served):
    for body in ({"json": {"source": "en", "target": "de"}}, {"data": {"source": "en", "target": "de"}}, {}):
        answer = served.post("/translate_file", **body)
        assert (answer.status_code, list(answer.json())) == (400, ["error"])
        assert "multipart/form-data" in answer.json()["error"]


def test_html_that_is_too_large_is_refused(served):
    query = {"source": "en", "target": "de", "format": "html"}
    for text, status, message in [
        ("<b>" * 17_000, 413, "51,000 characters in 1 lines are more than the 50,000 characters"),
        ("<p>lo" * 1_001, 413, "1,001 segments are more than the 1,000 of"),
        ("<p>" + "lo " * 1_001, 413, "a sentence of 3,002 characters is longer than the 3,000 of a line"),
        ("<div>" * 600, 400, "more than 512 elements are nested"),
    ]:
        answer = served.post("/translate", json={**query, "q": text})
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
        assert message in answer.json()["error"]
    half = served.post("/translate", data=b'{"q": "\\ud800", "source": "en", "target": "de", "format": "html"}')
    assert (half.status_code, "half of a surrogate pair" in half.json()["error"]) == (400, True)


def test_a_sentence_that_is_refused_stays_and_is_counted(tmp_path):
    """By a model with a position table: the sentences beside it are translated."""
    table = untrained(tmp_path / "table", "learned", max_length=40)
    long = "uns mebu zabi " * 60
    text = "".join(f"{line}\n" for line in ["uns mebu", long, "lo dumo", "x" * 3001, "Bevu", "zabi", long])
    expected = run("translate", table, "--document", "text", stdin=text.replace("x" * 3001, "42"))[0]
    with answering(folder=table) as server:
        answer = server.send("a.txt", text)
        place = answer.json()["translatedFileUrl"].removeprefix(server.url)
        assert server.get(place).content.decode().replace("x" * 3001, "42") == expected
        first = answer.headers["X-Posnmt-Warning"].split("; ")[0]
        assert first.startswith("3 of 7 sentences are not translated: a sentence of 3,001 characters is longer")
        assert answer.json()["notes"][1] == "7 texts with letters: 4 translated, 0 kept, 3 refused"
        alone = server.send("a.txt", long)
        assert (alone.status_code, "position table ends at 39" in alone.json()["error"]) == (400, True)


def test_a_large_document_is_translated_in_portions_that_find_room():
    lines = "".join(f"uns mebu {'zabi ' * (number % 4)}lo\n" for number in range(40))
    settings = Settings(request_lines=3, queue_characters=150)
    with answering(settings) as server:
        jobs, add = [], server.service.models.all[0].queue.add
        server.service.models.all[0].queue.add = lambda job: (add(job), jobs.append(len(job.requests)))
        assert server.translation("a.txt", lines)[1].decode() == by_command("text", lines)
        assert jobs == [3] * 13 + [1]
        answer = server.send("a.txt", "lo\n" * (LARGER * 3 + 1))
        assert answer.status_code == 413
        assert f"61 segments are more than the {LARGER * 3} of a document" in answer.json()["error"]
        answer = server.send("a.txt", "lo. la.\n" * (LARGER * 2))
        assert answer.status_code == 413
        assert f"more than the 1,000,000 characters and {LARGER * 3} sentences of a document" in answer.json()["error"]


def test_a_client_may_keep_a_share_of_the_documents_and_bytes():
    settings = Settings(kept_documents=2 * SHARE, kept_bytes=SHARE * 100)
    with answering(settings, keys=[("a", "alice"), ("b", "bob")]) as server:
        places = [server.send("a.txt", "lo", api_key="a").json()["translatedFileUrl"] for _ in range(2)]
        full = server.send("a.txt", "lo", api_key="a")
        assert (full.status_code, full.headers["Retry-After"]) == (429, "1800")
        assert "this client" in full.json()["error"]
        assert server.send("a.txt", "lo", api_key="b").status_code == 200
        assert server.get(places[0].removeprefix(server.url)).status_code == 200
        assert server.send("a.txt", "lo", api_key="a").status_code == 200
        large = server.send("a.txt", "uns mebu zabi\n" * 20, api_key="b")
        assert (large.status_code, large.headers["Retry-After"]) == (429, "1800")
        assert server.send("a.txt", "lo", api_key="b").status_code == 200  # the large one is not kept
        assert server.send("a.txt", "lo").status_code == 403


def test_a_translation_that_nobody_fetches_is_deleted():
    with answering(Settings(kept_seconds=0.5)) as server:
        place = server.send("a.txt", "lo").json()["translatedFileUrl"].removeprefix(server.url)
        [file] = kept(server)
        end = time.monotonic() + 60
        while file.exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        assert server.get(place).status_code == 404
        server.send("a.txt", "lo")
    assert not file.parent.exists()  # the server has ended


def test_a_document_that_takes_too_long_is_given_up_and_harms_nobody():
    """A process that stands still takes too long on every machine."""
    with answering(Settings(timeout=8.0)) as server:
        assert server.translation("a.md", "uns mebu")[1].decode() == by_command("markdown", "uns mebu")
        [reader] = server.service.file_readers._idle
        os.kill(reader._process.pid, signal.SIGSTOP)
        bomb = server.send("a.md", "uns mebu")
        assert (bomb.status_code, list(bomb.json())) == (413, ["error"])
        assert "takes longer than 8 seconds" in bomb.json()["error"]
        assert reader._process.returncode is not None
        assert server.translation("a.md", "uns mebu")[1].decode() == by_command("markdown", "uns mebu")
        [reader] = server.service.file_readers._idle
        reader.end()  # as the system does when memory runs out
        assert server.send("a.md", "uns mebu").status_code == 500
        assert server.translation("a.md", "uns mebu")[1].decode() == by_command("markdown", "uns mebu")


def test_a_signal_to_all_processes_does_not_end_the_work_on_documents():
    """Ctrl-C in a terminal and a service manager send it to all; accepted requests have the time of grace."""
    reader = Reader()
    about = {"form": "text", "name": "a.txt", "languages": ("en", "de"), "most": 9}
    expected = reader.call("sentences_of", [b"uns mebu"], about)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(reader._process.pid, number)
        assert reader.call("sentences_of", [b"uns mebu"], about) == expected
    reader.end()


def test_a_field_of_the_form_counts_before_that_of_the_address(served):
    files, fields = {"file": ("a.txt", b"uns mebu")}, {"source": "en", "target": "de"}
    answer = served.post("/translate_file?target=xx&source=xx", files=files, data=fields)
    assert answer.status_code == 200, answer.text


def test_suggestions_are_refused_as_where_they_are_disabled(served):
    answer = served.post("/suggest", data={"q": "lo", "s": "la", "source": "en", "target": "de"})
    assert (answer.status_code, list(answer.json())) == (403, ["error"])
