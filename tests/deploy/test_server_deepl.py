"""DeepL's interface for texts: each field of its description, tags, line ends, formatting and context."""

from __future__ import annotations

import json
import re
from pathlib import Path

import deepl
import pytest

from posnmt.deploy.documents.division import Division
from posnmt.deploy.documents.segment import TagRules
from posnmt.deploy.documents.tagged import Layout
from posnmt.deploy.server.deepl import REFUSED, Query
from posnmt.deploy.server.formatting import keep_formatting
from posnmt.deploy.server.settings import Settings
from tests.support.answering import answering
from tests.support.serving import serving
from tests.support.untrained import LEARNED

FIELDS = {
    "text": "Uns mebu zabi.",
    "target_lang": "DE",
    "source_lang": "EN",
    "context": None,
    "show_billed_characters": True,
    "split_sentences": "0",
    "preserve_formatting": True,
    "formality": "prefer_more",
    "model_type": "latency_optimized",
    "glossary_id": None,
    "glossary_ids": None,
    "style_id": "7ff9bfd6-cd85-4190-8503-d6215a321519",
    "translation_memory_id": "a74d88fb-ed2a-4943-a664-a4512398b994",
    "translation_memory_threshold": 75,
    "custom_instructions": ["Use a friendly tone"],
    "tag_handling": "xml",
    "tag_handling_version": "v1",
    "outline_detection": False,
    "enable_beta_languages": True,
    "non_splitting_tags": ["p"],
    "splitting_tags": ["p"],
    "ignore_tags": ["x"],
}
"""Every field of POST /v2/translate in DeepL's OpenAPI description 3.11.0, with a value that is not its default."""


LINES = (Path(__file__).parents[1] / "frozen" / "dev.source").read_text().splitlines()


@pytest.fixture(scope="module")
def served():
    with serving(f"mine={LEARNED}") as server:
        yield server


@pytest.fixture(scope="module")
def ask(served):
    """The answer to a text, or its status and message."""

    def ask(text, **more):
        query = {"text": text, "source_lang": "EN", "target_lang": "DE", **more}
        status, answer, headers = served.post("/v2/translate", query)
        if status != 200:
            return status, answer["message"]
        texts = [each["text"] for each in answer["translations"]]
        return (texts if isinstance(text, list) else texts[0]), headers["X-Posnmt-Warning"] or ""

    return ask


def test_every_field_of_deepl_is_known():
    assert {*Query.model_fields, *REFUSED} == {*FIELDS, "auth_key"}


@pytest.mark.parametrize("name", [name for name, value in FIELDS.items() if value is not None])
def test_a_field_is_obeyed_or_refused_by_name(served, name):
    query = {"text": ["Uns mebu."], "source_lang": "EN", "target_lang": "DE", name: FIELDS[name]}
    status, answer, _ = served.post("/v2/translate", query)
    if name in REFUSED:
        assert (status, answer) == (400, {"message": f"{name}: not supported by this server; leave it out"})
    else:
        assert status == 200
        known = {"detected_source_language", "text"}
        added = {
            "show_billed_characters": "billed_characters",
            "model_type": "model_type_used",
            "tag_handling": "tag_handling_version",
        }
        assert {*answer["translations"][0]} == known | ({added[name]} if name in added else set())


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"formality": "more"}, 400, "formality: not supported"),
        ({"formality": "rude"}, 400, "formality: input should be 'default', 'more'"),
        ({"split_sentences": "2"}, 400, "split_sentences: input should be '0', '1' or 'nonewlines'"),
        ({"split_sentences": ["1"]}, 400, "split_sentences: "),
        ({"model_type": "best"}, 400, "model_type: "),
        ({"tag_handling": "sgml"}, 400, "tag_handling: input should be 'xml' or 'html'"),
        ({"tag_handling": "xml", "ignore_tags": 5}, 400, "ignore_tags: "),
        ({"outline_detection": 2}, 400, "outline_detection: "),
        ({"glossary_id": 5}, 400, "glossary_id: "),
        ({"glossary_ids": list("abcdef")}, 400, "glossary_ids: "),
        ({"glossary_ids": ["a"], "glossary_id": "a"}, 400, "cannot be used together"),
        ({"glossary_id": "a"}, 404, "there is no glossary with the id 'a'"),
        ({"glossary_id": "../keys"}, 404, "there is no glossary with the id '../keys'"),
        ({"glossary_id": "a", "source_lang": None}, 400, "source_lang is required with a glossary"),
        ({"context": 5}, 400, "context: "),
        ({"preserve_formatting": 5}, 400, "preserve_formatting: "),
        ({"bean": 1}, 400, "no field is called 'bean'; choose from: text, target_lang, source_lang, context"),
        ({"text": "<b>mebu", "tag_handling": "xml"}, 400, "Tag handling parsing failed, please check input: "),
        ({"text": "a & b", "tag_handling": "xml"}, 400, r"not well-formed (invalid token) (text[0]:1)"),
        ({"text": "<b>" * 600, "tag_handling": "html"}, 400, "more than 512 elements are nested (text[0]:1)"),
        ({"text": ["mebu", "a\0b"], "tag_handling": "html"}, 400, "a NUL character (text[1])"),
        ({"text": "mebu " * 700, "tag_handling": "xml"}, 413, "a line of 3,499 characters is longer than the 3,000"),
        (
            {"text": "<b/>" * 15_000, "tag_handling": "xml"},
            413,
            "60,000 characters in 1 lines are more than the 50,000",
        ),
        ({"text": "<b>a</b>" * 2000, "tag_handling": "xml"}, 413, "in 2,000 lines are more than"),
        ({"target_lang": "FR"}, 400, "FR is not supported as a target language"),
    ],
)
def test_bad_fields(served, fields, status, message):
    query = {"text": "Uns mebu.", "source_lang": "EN", "target_lang": "DE", **fields}
    answered, answer, _ = served.post("/v2/translate", query)
    assert (answered, [*answer]) == (status, ["message"])
    assert message in answer["message"]
    assert "\n" not in answer["message"]
    assert "Traceback" not in served.err


def test_tags_of_xml(ask):
    """The model reads what is between tags, a sentence at a time; tags, ignored elements and entities stay."""
    first, second = ask(["Bevu sipo un leri.", "Mebu zabi."])[0]
    text = '<doc><t>Bevu sipo un leri.</t><p>Mebu <x id="1">no &lt;way&gt;</x> <i>zabi</i>.</p></doc>'
    written, _ = ask(text, tag_handling="xml", ignore_tags=["x"])
    assert re.sub(r"<x.*</x> |</?[it]>", "", written) == f"<doc>{first}<p>{second}</p></doc>"
    assert '<x id="1">no &lt;way&gt;</x>' in written
    assert re.findall(r"</?\w+", written) == re.findall(r"</?\w+", text)
    outline = {"tag_handling": "xml", "outline_detection": False, "splitting_tags": "t,p", "ignore_tags": "x"}
    assert ask(text, **outline)[0] == written
    assert ask(text, tag_handling="xml", tag_handling_version="v1", ignore_tags=["x", "y"])[0] == written
    assert ask(text)[0] != written


def test_tags_of_html(ask):
    [title, one] = ask(["Bevu sipo un leri.", "Mebu zabi."])[0]
    text = '<p title="Bevu sipo un leri.">Mebu\n <b>zabi</b>.</p><pre>as it\nis</pre><br><P CLASS=notranslate>Uns</P>'
    written, _ = ask(text, tag_handling="html")
    assert re.sub("</?b>", "", written) == (
        f'<p title="{title}">{one}</p><pre>as it\nis</pre><br><P CLASS=notranslate>Uns</P>'
    )
    assert ask(text, tag_handling="html", ignore_tags=["P"])[0] == text


TEXT = "Uns mebu\nzabi. Bevu sipo un leri."


def test_line_ends(ask):
    """`1` ends a sentence at each line end, `nonewlines` at none, and `0` has the whole text as one sentence."""
    parts, [whole, last, joined] = (
        [ask(each, split_sentences="0")[0] for each in ("Uns mebu", "zabi.", "Bevu sipo un leri.")],
        [
            ask(each, split_sentences="0")[0]
            for each in ("Uns mebu zabi.", "Bevu sipo un leri.", TEXT.replace("\n", " "))
        ],
    )
    assert len({" ".join(parts), f"{whole} {last}", joined}) == 3
    assert ask(TEXT)[0] == ask(TEXT, split_sentences=1)[0] == f"{parts[0]}\n{parts[1]} {parts[2]}"
    without = ask(TEXT, split_sentences="nonewlines")[0]
    assert (without.count("\n"), without.replace("\n", " ")) == (1, f"{whole} {last}")
    as_one = ask(TEXT, split_sentences="0")[0]
    assert (as_one.count("\n"), as_one.replace("\n", " ")) == (1, joined)


def test_the_default_of_line_ends_depends_on_tags(ask):
    for tags, default in ((None, "1"), ("xml", "1"), ("html", "nonewlines")):
        written = {
            split: ask(TEXT, tag_handling=tags, split_sentences=split)[0] for split in (None, "0", "1", "nonewlines")
        }
        assert written[None] == written[default]
        assert len({*written.values()}) == 3


def test_a_text_without_words_stays(ask):
    for text in ("<b>12</b>", " \n ", "<x/>", "https://example.org <b/>"):
        assert ask(text, tag_handling="xml")[0] == text


@pytest.mark.parametrize(
    ("source", "translation", "language", "written"),
    [
        ("a dog", "Un chien.", "fr", "un chien"),
        ("A dog.", "un chien", "fr", "Un chien."),
        ("A dog?", "Un chien.", "fr", "Un chien?"),
        ("A dog?", "Un chien\xa0?", "fr", "Un chien\xa0?"),
        ("a dog", "Hund.", "de", "Hund"),
        ("A dog", "hund", "de", "Hund"),
        ("ein Hund", "I am a dog", "en", "I am a dog"),
        ("ein NATO-Hund", "NATO dog", "en", "NATO dog"),
        ("er sah Paris", "Paris saw him", "en", "Paris saw him"),
        ("Das Telefon", "iPhone", "en", "iPhone"),
        ("A dog.", "犬。", "ja", "犬。"),
        ("A dog", "犬。", "ja", "犬"),
        ("A dog!", "犬", "ja", "犬！"),
        ("A dog!", "สุนัข", "th", "สุนัข!"),
        ("… and it", "And it…", "en", "… and it"),
        ("- a dog", "Un chien", "fr", "- un chien"),
        ("¿Un perro?", "A dog?", "en", "A dog?"),
        ("A dog?", "¿Un perro?", "es", "¿Un perro?"),
        ("3 dogs", "Trois chiens", "fr", "Trois chiens"),
        ("...", "Un chien", "fr", "Un chien"),
        ("a dog.", "...", "fr", "..."),
        ("", "x.", "fr", "x."),
    ],
)
def test_formatting_is_preserved(source, translation, language, written):
    assert keep_formatting(source, translation, language) == written
    assert keep_formatting(source, written, language) == written


def test_preserve_formatting_acts_on_each_sentence(ask):
    texts = [" . ".join(line.rsplit(" ", 1)) for line in LINES]  # the model passes a dot on, which may come to the end
    plain, kept = (ask(texts, split_sentences="0", preserve_formatting=each)[0] for each in (False, True))
    assert kept == [keep_formatting(*each, "de") for each in zip(texts, plain, strict=True)] != plain
    tagged = ask(
        "".join(map("<p>{}</p>".format, texts)),
        preserve_formatting=True,
        tag_handling="xml",
        outline_detection=False,
        splitting_tags=["p"],
        split_sentences="0",
    )[0]
    assert tagged == "".join(map("<p>{}</p>".format, kept))


def test_context_without_effect_is_said(ask):
    plain, said = ask("Uns mebu zabi.")
    assert "context" not in said
    for context in ("Bevu sipo un leri.", "x" * 3000):
        written, warning = ask("Uns mebu zabi.", context=context)
        assert (written, warning.split("; ")[0]) == (
            plain,
            "context has no effect, as the model was not trained with train.context",
        )
    assert ask("Uns mebu zabi.", context=" ")[1] == said


def test_the_real_client_sends_tags(served):
    client = deepl.DeepLClient("key", server_url=served.url)
    given = {"source_lang": "EN", "target_lang": "DE"}
    plain = client.translate_text("Mebu zabi.", **given).text
    text = "<doc><p>Mebu <x>a dog</x><i>zabi</i>.</p><q>Uns</q></doc>"
    options = {
        "tag_handling": "xml",
        "tag_handling_version": "v2",
        "outline_detection": False,
        "splitting_tags": ["p", "q"],
        "non_splitting_tags": "i",
        "ignore_tags": ["x,q"],
        "split_sentences": deepl.SplitSentences.NO_NEWLINES,
        "preserve_formatting": True,
        "formality": deepl.Formality.PREFER_LESS,
        "model_type": deepl.ModelType.PREFER_QUALITY_OPTIMIZED,
        "context": "A context.",
    }
    result = client.translate_text(text, **given, **options)
    assert (result.billed_characters, result.model_type_used) == (len(text), "quality_optimized")
    assert re.sub("<x>a dog</x>|</?i>", "", result.text) == f"<doc><p>{plain}</p><q>Uns</q></doc>"
    with pytest.raises(deepl.DeepLException, match="style_id: not supported"):
        client.translate_text("Uns", **given, style_rule="a")
    assert {each.code for each in client.get_source_languages()} == {"EN"}


def test_languages_of_version_3(served):
    def languages(resource):
        return served.get(f"/v3/languages?resource={resource}&include=beta&include=external")

    status, listed, _ = languages("translate_text")
    assert (status, [(each["lang"], each["usable_as_source"], each["usable_as_target"]) for each in listed]) == (
        200,
        [("en", True, False), ("de", False, True)],
    )
    assert [sorted(each["features"]) for each in listed] == [
        ["auto_detection", "glossary", "tag_handling"],
        ["glossary", "tag_handling"],
    ]
    assert [each["lang"] for each in languages("glossary")[1]] == ["en", "de"]
    resources = {each["name"]: each["features"] for each in served.get("/v3/languages/resources")[1]}
    assert [*resources] == ["translate_text", "translate_document", "glossary"]
    assert {"name": "auto_detection", "needs_source_support": True} in resources["translate_text"]
    for resource in ("write", "", "voice"):
        status, answer, _ = languages(resource)
        assert (status, [*answer]) == (400, ["message"])
    status, answer, _ = served.get("/v2/languages?type=both")
    assert (status, [*answer]) == (400, ["message"])


@pytest.mark.parametrize(
    "path",
    ["/v2/write/rephrase", "/v2/write/correct", "/v2/admin/developer-keys", "/v3/style_rules", "/v3/style_rules/a/b",
     "/v3/translation_memories", "/v3/voice/realtime", "/v3/nowhere"],
)  # fmt: skip
def test_other_paths_of_deepl_say_what_is_not_there(served, path):
    for status, answer, _ in (served.get(path), served.post(path, {})):
        assert (status, [*answer]) == (404, ["message"])
        assert (answer["message"] == "Not Found") == (path == "/v3/nowhere")


def test_what_a_sentence_without_letters_needs():
    """It is not translated; sentences and their translations stay in step."""
    layout = Layout("xml", TagRules())
    division = Division(layout.read("<a><p>12.</p><p>One dog. 7! Two dogs.</p></a>", 0), "en")
    lines = [sentence.text for sentence, _ in division.texts]
    assert len(lines) == 2
    assert not any(line.isdigit() for line in lines)


def test_fields_of_forms_are_those_of_json(served):
    """As DeepL's command line and PHP libraries send them: lists between commas, and 0 or 1."""
    fields = {
        "text": "<p>Uns <x>mebu</x></p><q>zabi</q>",
        "source_lang": "en",
        "target_lang": "de",
        "tag_handling": "xml",
        "ignore_tags": "x,y",
        "splitting_tags": "p,q",
        "outline_detection": "0",
        "preserve_formatting": "1",
        "show_billed_characters": "1",
        "split_sentences": "nonewlines",
    }
    form = "&".join(f"{name}={value}" for name, value in fields.items()).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    typed = {**fields, "ignore_tags": ["x", "y"], "splitting_tags": ["p", "q"], "outline_detection": False}
    typed |= {"preserve_formatting": True, "show_billed_characters": True}
    as_form, as_json = (
        served.post("/v2/translate", data=form, headers=headers),
        served.post("/v2/translate", data=json.dumps(typed).encode()),
    )
    assert as_form[:2] == as_json[:2]
    assert as_form[0] == 200
    assert as_form[1]["translations"][0]["text"].count("<x>mebu</x>") == 1


def asked(server, text, **more):
    """The answer of a server in this process to a text."""
    return server.post("/v2/translate", json={"text": text, "source_lang": "EN", "target_lang": "DE", **more})


def test_texts_are_divided_by_a_process_that_may_end():
    """So that a text that takes too long, or too much memory, harms nobody else."""
    with answering() as server:
        for fields in ({"tag_handling": "xml"}, {"tag_handling": "html"}, {"split_sentences": "nonewlines"}):
            first = asked(server, "uns\nmebu zabi", **fields)
            assert first.status_code == 200
            [reader] = server.service.text_readers._idle
            reader.end()
            assert asked(server, "uns\nmebu zabi", **fields).status_code == 500
            assert asked(server, "uns\nmebu zabi", **fields).json() == first.json()


@pytest.mark.parametrize(
    ("text", "fields", "status"),
    [
        (f"uns{' ' * 250_000}mebu", {"split_sentences": "nonewlines"}, 200),
        ("a" * 250_000, {"split_sentences": "nonewlines"}, 413),
        (f"<a {'a' * 250_000}>uns</a>", {"tag_handling": "html"}, 200),
    ],
    ids=["blanks", "word", "attribute"],
)
def test_a_long_run_of_one_kind_is_read_once(text, fields, status):
    """Patterns that begin again at each character of it would need minutes."""
    with answering(Settings(request_characters=300_000, timeout=40.0)) as server:
        answer = asked(server, text, **fields)
        assert (answer.status_code, "longer than the 3,000" in answer.text) == (status, status == 413)


@pytest.mark.parametrize("path", ["/translate", "/v2/translate"])
def test_the_number_of_texts_is_limited_before_they_are_read(path):
    with answering(Settings(request_lines=10)) as server:
        texts = [""] * 11
        fields = {"q": texts, "source": "en", "target": "de", "format": "html"}
        if path == "/v2/translate":
            fields = {"text": texts, "source_lang": "en", "target_lang": "de", "tag_handling": "html"}
        assert server.post(path, json=fields).status_code == 413
        assert server.service.text_readers._idle == []
