"""Programs with a setting for DeepL: what they send, as their sources have it, and what they read of the answer.

The table in docs/serve.md names the programs.
"""

from __future__ import annotations

import re
import runpy
import sys
from datetime import datetime
from html import escape, unescape
from urllib.parse import urlencode

import pytest

from tests.support.serving import serving
from tests.support.untrained import LEARNED

TEXTS = ["Uns mebu zabi.", "Bevu sipo un leri."]


@pytest.fixture(scope="module")
def served():
    with serving(f"mine={LEARNED}") as server:
        yield server


@pytest.fixture(scope="module")
def expected(served):
    """The translations of the texts as plain text."""
    answer = served.post("/v2/translate", {"text": TEXTS, "source_lang": "EN", "target_lang": "DE"})[1]
    return [each["text"] for each in answer["translations"]]


def by_form(served, fields, path="/v2/translate"):
    """The texts of the answer to a form, and the answer."""
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8", "Authorization": "DeepL-Auth-Key k"}
    status, answer, _ = served.post(path, data=urlencode(fields).encode(), headers=headers)
    assert status == 200, answer
    return [each["text"] for each in answer["translations"]], answer


def test_weblate(served, expected):
    """Placeholders are elements that are found again by their characters, and the text between them is escaped."""
    languages = [{x["language"] for x in served.get(f"/v2/languages?type={kind}")[1]} for kind in ("source", "target")]
    assert ("EN", "DE") in {(source, target) for source in languages[0] for target in {"EN", *languages[1]}}
    pairs = served.get("/v2/glossary-language-pairs")[1]["supported_languages"]
    assert ("EN", "DE") in {(each["source_lang"].upper(), each["target_lang"].upper()) for each in pairs}
    glossary = {"name": "weblate:1:EN:DE:0", "source_lang": "EN", "target_lang": "DE", "entries": "mebu\tzzz"}
    assert served.post("/v2/glossaries", {**glossary, "entries_format": "tsv"})[0] == 201
    listed = served.get("/v2/glossaries")[1]["glossaries"]
    ids = {each["name"]: each["glossary_id"] for each in listed}
    assert all(datetime.fromisoformat(each["creation_time"]) for each in listed)
    params = {
        "text": [f'{escape("mebu & <zabi>")} <x id="5"></x>', '<x id="0"></x>', *TEXTS],
        "source_lang": "EN",
        "target_lang": "DE",
        "formality": "default",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
    }
    status, payload, _ = served.post("/v2/translate", params)
    texts = [payload["translations"][index]["text"] for index in range(4)]
    assert (status, texts[1:]) == (200, ['<x id="0"></x>', *expected])
    assert texts[0].count('<x id="5"></x>') == 1
    assert {"&", "<zabi>"} <= set(unescape(texts[0].replace('<x id="5"></x>', "")).split())
    more = {"context": "A web site", "glossary_id": ids[glossary["name"]], "model_type": "prefer_quality_optimized"}
    status, payload, headers = served.post("/v2/translate", {**params, **more})
    assert (status, "zzz" in payload["translations"][0]["text"].split()) == (200, True)
    assert "context has no effect" in headers["X-Posnmt-Warning"]
    status, payload, _ = served.post("/v2/translate", {**params, "formality": "more"})
    assert (status, payload["message"]) == (400, "formality: not supported by this server; leave it out")


@pytest.mark.parametrize("split", ["0", "1"])
def test_omegat(served, expected, split):
    """Its tags are pairs and single ones; the text is unescaped and put into the segment."""
    fields = {
        "auth_key": "k",
        "preserve_formatting": "1",
        "source_lang": "EN",
        "split_sentences": split,
        "tag_handling": "xml",
        "target_lang": "DE",
        "text": f"<f0>{TEXTS[0]}</f0> <s1/>{TEXTS[1]}",
    }
    [text], _ = by_form(served, fields)
    assert re.findall(r"<[^>]*>", text) == ["<f0>", "</f0>", "<s1/>"]
    if split == "1":
        assert re.sub("<[^>]*>", "", text) == " ".join(expected)
    plugin = [("text", TEXTS[0]), ("source_lang", "EN"), ("target_lang", "DE"), ("split_sentences", "1")]
    assert by_form(served, [*plugin, ("show_billed_characters", "1")])[0] == expected[:1]


def test_okapi(served, expected):
    """Codes of a segment are elements with letters and numbers; the same ones must come back, each once."""
    fields = [
        *[("text", each) for each in (f"<g1>{TEXTS[0]}</g1>", f"{TEXTS[1]}<x2/>", "<b3/>mebu<e3/> zabi")],
        ("auth_key", "k"),
        ("split_sentences", "1"),
        ("preserve_formatting", "0"),
        ("source_lang", "EN"),
        ("target_lang", "DE"),
        ("tag_handling", "xml"),
    ]
    texts, _ = by_form(served, fields)
    assert texts[:2] == [f"<g1>{expected[0]}</g1>", f"{expected[1]}<x2/>"]
    assert re.findall(r"<[^>]*>", texts[2]) == ["<b3/>", "<e3/>"]


def test_subtitle_edit(served, expected):
    """Every value that is called `text`, in every list of the answer, is a translation."""
    fields = {"text": "\n".join(TEXTS), "target_lang": "de", "source_lang": "en", "formality": "default"}
    _, answer = by_form(served, fields)
    lists = [each for each in answer.values() if isinstance(each, list)]
    assert [item["text"] for each in lists for item in each] == ["\n".join(expected)]


def test_matecat(served, expected):
    query = {"text": [TEXTS[0]], "source_lang": "EN", "target_lang": "DE", "formality": "prefer_less"}
    assert served.post("/v2/translate", query)[1]["translations"][0]["text"] == expected[0]
    made = served.post("/v2/glossaries", {"name": "m", "source_lang": "en", "target_lang": "de", "entries": "a\tb"})[1]
    path = f"/v2/glossaries/{made['glossary_id']}"
    assert served.get(f"{path}/entries", {"Content-Type": "application/json"})[1] == "a\tb"
    assert served.get("/v2/glossaries")[1]["glossaries"]


def test_the_command_line_in_typescript(served, expected):
    """github.com/DeepLcom/deepl-cli sends forms, with lists between commas."""
    fields = {
        "text": f"<p>{TEXTS[0]}</p><p>{TEXTS[1]}</p>",
        "target_lang": "DE",
        "source_lang": "EN",
        "formality": "prefer_more",
        "preserve_formatting": "1",
        "split_sentences": "1",
        "tag_handling": "xml",
        "model_type": "quality_optimized",
        "show_billed_characters": "1",
        "outline_detection": "0",
        "splitting_tags": "p,div",
        "non_splitting_tags": "b,i",
        "ignore_tags": "x,y",
        "tag_handling_version": "v2",
    }
    [text], answer = by_form(served, fields)
    assert text == "".join(map("<p>{}</p>".format, expected))
    [translation] = answer["translations"]
    assert (translation["billed_characters"], translation["model_type_used"]) == (
        len(fields["text"]),
        "quality_optimized",
    )
    listed = served.get("/v3/languages?resource=translate_text")[1]
    assert [each["lang"] for each in listed if each.get("usable_as_source") is not False] == ["en"]
    entries = {"source_lang": "EN", "target_lang": "DE", "entries": "mebu\tzzz", "entries_format": "tsv"}
    made = served.post("/v3/glossaries", {"name": "cli", "dictionaries": [entries]})[1]
    pairs = "source_lang=EN&target_lang=DE"
    [found] = served.get(f"/v3/glossaries/{made['glossary_id']}/entries?{pairs}")[1]["dictionaries"]
    assert (found["entries"], found["entries_format"]) == ("mebu\tzzz", "tsv")


def test_the_package_for_node(served):
    """deepl-node sends glossaries of version 3 as forms, whose dictionaries have an index."""

    def indexed(*tables):
        named = [("source_lang", "en"), ("target_lang", "de"), ("entries", None), ("entries_format", "tsv")]
        return [
            (f"dictionaries[{index}].{name}", value or table)
            for index, table in enumerate(tables)
            for name, value in named
        ]

    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    form = urlencode([("name", "node"), *indexed("mebu\tzzz")]).encode()
    status, made, _ = served.post("/v3/glossaries", data=form, headers=headers)
    assert (status, made["dictionaries"]) == (201, [{"source_lang": "en", "target_lang": "de", "entry_count": 1}])
    for tables, message in ((("a\tb", "c\td"), "the same languages"), ((), "dictionaries: field required")):
        form = urlencode([("name", "node"), *indexed(*tables)]).encode()
        status, answer, _ = served.post("/v3/glossaries", data=form, headers=headers)
        assert (status, message in answer["message"]) == (400, True)
    status, answer, _ = served.post("/v3/glossaries", {"name": "n", "dictionaries": [], "bean": 1})
    assert (status, "no field is called 'bean'" in answer["message"]) == (400, True)


def test_the_command_line_of_the_python_package(served, expected, monkeypatch, capsys):
    def call(*arguments):
        given = ["deepl", "--auth-key", "k", "--server-url", served.url, *arguments]
        monkeypatch.setattr(sys, "argv", given)
        runpy.run_module("deepl", run_name="__main__")
        return capsys.readouterr().out

    assert call("text", "--from", "EN", "--to", "DE", *TEXTS).splitlines() == expected
    tagged = call(
        "text", "--from", "EN", "--to", "DE", "--tag-handling", "xml", "--ignore-tags", "x", f"{TEXTS[0]}<x>mebu</x>"
    )
    assert tagged.strip() == f"{expected[0]}<x>mebu</x>"
    assert "EN: English" in call("languages")
    assert "en, de" in call("languages", "--glossary")
    assert re.search(r"Characters: \d+ of 1000000000000", call("usage"))
    assert "cli" in call("glossary", "create", "--name", "cli", "--from", "EN", "--to", "DE", "mebu=zzz")
