"""Requests of LibreTranslate's clients as their sources write them, and the fields that the services know.

The sources that were read: LibreTranslate 1.9.6 (libretranslate/app.py and templates/app.js.template), Weblate
(weblate/machinery/libretranslate.py), Subtitle Edit (LibreTranslate.cs), libretranslate-ts (src/app.ts),
LibreTranslate.Net (LibreTranslate.cs), and DeepL's OpenAPI description 3.11.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.answering import answering
from tests.support.commands import run
from tests.support.untrained import LEARNED

LINES = ["uns mebu zabi", "Bevu sipo un leri."]
PAGE = Path(__file__).parents[2] / "docs" / "http.md"


@pytest.fixture(scope="module")
def served():
    with answering(languages=(("en", "de"), ("ru", "de"))) as server:
        yield server


@pytest.fixture(scope="module")
def expected():
    return run("translate", LEARNED, stdin="".join(f"{line}\n" for line in LINES))[0].splitlines()


def page_form(**fields):
    """A form as `FormData` of a page sends it."""
    return {"files": {name: (None, value) for name, value in fields.items()}}


def dotnet_form(*parts):
    """A form as `MultipartFormDataContent` of .NET sends it: quotes around the boundary, and around no name."""
    head = "--b-1\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; "
    body = "".join(f"{head}{name}\r\n\r\n{value}\r\n" for name, value in parts)
    return {"data": f"{body}--b-1--\r\n", "headers": {"Content-Type": 'multipart/form-data; boundary="b-1"'}}


def test_weblate(served, expected):
    codes = [each["code"] for each in served.get("/languages").json()]
    assert {"en", "de"} <= set(codes)  # it translates between languages that are both in the list
    query = {"api_key": "", "q": LINES, "source": "en", "target": "de"}
    assert served.post("/translate", json=query).json()["translatedText"] == expected
    assert served.post("/translate", json={**query, "q": LINES[0]}).json()["translatedText"] == expected[0]


def test_subtitle_edit(served, expected):
    body = '{"q": "%s", "source": "en", "target": "de", "api_key": "k"}'
    headers = {"Content-Type": "application/json", "accept": "application/json"}
    answer = served.post("/translate", data=body % LINES[0], headers=headers)
    assert answer.json() == {"translatedText": expected[0]}
    assert served.post("/translate", data=body % "<br />".join(LINES), headers=headers).json()["translatedText"]


def test_libretranslate_ts(served, expected):
    query = {"q": LINES[0], "source": "en", "target": "de", "format": "text", "api_key": None}
    assert served.post("/translate", json=query).json() == {"translatedText": expected[0]}
    assert served.post("/translate", json={**query, "alternatives": 2}).json()["alternatives"]
    english = "The children are playing football in front of the house."
    [first, *_] = served.post("/detect", json={"q": english, "format": "text", "api_key": None}).json()
    assert first["language"] == "en"


def test_libretranslate_net(served, expected):
    form = {"q": LINES[0], "source": "en", "target": "de", "api_key": "", "format": ""}
    assert served.post("/translate", data=form).json() == {"translatedText": expected[0]}
    parts = [("name=source", "en"), ("name=target", "de"), ("name=api_key", "")]
    file = ('name="file"; filename="/home/ann/a.txt"', LINES[0])
    answer = served.post("/translate_file", **dotnet_form(*parts, file)).json()
    place = answer["translatedFileUrl"].removeprefix(served.url)
    assert served.get(place).text == expected[0]
    assert served.get("/frontend/settings").json()["supportedFilesFormat"]
    assert served.post("/suggest", data={"q": "a", "s": "b", "source": "en", "target": "de"}).status_code == 403


def test_the_page_of_libretranslate(served, expected):
    settings = served.get("/frontend/settings").json()
    source, target = settings["language"]["source"]["code"], settings["language"]["target"]["code"]
    assert (source, target, settings["charLimit"]) == ("auto", "de", served.service.settings.request_characters)
    assert (settings["suggestions"], settings["filesTranslation"], settings["keyRequired"]) == (False, True, False)
    languages = {each["code"]: each for each in served.get("/languages").json()}
    for each in languages.values():
        assert set(each["targets"]) <= languages.keys()  # it looks each of them up in the list
    asked = {"source": "en", "target": target, "alternatives": "3", "api_key": "", "secret": "s"}
    answer = served.post("/translate", **page_form(q=LINES[0], format="text", **asked)).json()
    assert (answer["translatedText"], len(answer["alternatives"])) == (expected[0], 3)
    answer = served.post("/translate", **page_form(q=f"<p>{LINES[0]}</p>", format="html", **asked)).json()
    assert answer == {"translatedText": f"<p>{expected[0]}</p>", "alternatives": []}
    form = {"file": ("a.txt", LINES[0]), **page_form(source="en", target="de", api_key="", secret="s")["files"]}
    place = served.post("/translate_file", files=form).json()["translatedFileUrl"].removeprefix(served.url)
    assert place.endswith(".a_de.txt")
    assert served.get(place).text == expected[0]
    form = page_form(q="a", s="b", source="en", target="de", api_key="")
    assert list(served.post("/suggest", **form).json()) == ["error"]


KNOWN = {
    "/translate": {"q", "source", "target", "format", "alternatives", "api_key", "secret"},
    "/translate_file": {"file", "source", "target", "api_key", "secret"},
    "/detect": {"q", "api_key", "secret"},
    "/suggest": {"q", "s", "source", "target"},
    "/v2/document": {
        "source_lang", "target_lang", "file", "filename", "output_format", "formality", "glossary_id", "glossary_ids",
        "style_id", "translation_memory_id", "translation_memory_threshold", "enable_beta_languages",
    },
    "/v2/document/{id}": {"document_key"},
    "/v2/document/{id}/result": {"document_key"},
}  # fmt: skip
"""Path → the fields that the services know."""

WITHOUT_FILE = {
    "/translate": {"q": LINES[0], "source": "en", "target": "de"},
    "/detect": {"q": "The children are playing."},
    "/suggest": {"q": "a", "s": "b", "source": "en", "target": "de"},
}
WITH_FILE = {
    "/translate_file": {"source": "en", "target": "de"},
    "/v2/document": {"source_lang": "EN", "target_lang": "DE"},
}
"""Path → fields of a request that is answered."""


def described():
    """Path → the fields that docs/http.md says are used, without effect, and refused."""
    rows = re.findall(r"^\| `(/\S+)` \|(.*?)\|(.*?)\|(.*?)\|$", PAGE.read_text(), re.MULTILINE)
    return {path: [set(re.findall(r"`(\w+)`", cell)) for cell in cells] for path, *cells in rows}


def ask(served, path, **more):
    """The status and the answer to a request with some more fields."""
    if path in WITH_FILE:
        answer = served.post(path, files={"file": ("a.txt", LINES[0])}, data=WITH_FILE[path] | more)
    else:
        answer = served.post(path, json=WITHOUT_FILE[path] | more)
    return answer.status_code, answer.text, answer.headers.get("X-Posnmt-Warning", "")


def test_every_field_of_the_services_is_described():
    table = described()
    assert {path: set.union(*cells) for path, cells in table.items()} == KNOWN
    for used, without, refused in table.values():
        assert not used & without
        assert not (used | without) & refused


@pytest.mark.parametrize("path", [*WITH_FILE, *WITHOUT_FILE])
def test_a_refused_field_is_named_and_one_without_effect_changes_nothing(path, served):
    _, without, refused = described()[path]
    status, text, warning = ask(served, path)
    assert status == (403 if path == "/suggest" else 200)
    for name in refused if path != "/suggest" else ():
        status, answer, _ = ask(served, path, **{name: "x"})
        assert (status, name in answer) == (400, True), name
    for name in without:
        value = "false" if name == "enable_beta_languages" else "x"
        again = ask(served, path, **{name: value})
        assert (again[0], again[2]) == (200, warning), name
        assert again[1] == text or path in WITH_FILE
    status, _, warned = ask(served, path, other="x")
    assert (status, "'other'" in warned) == ((403, False) if path == "/suggest" else (200, True))


@pytest.mark.parametrize(
    ("path", "name", "value", "part"),
    [
        ("/translate", "q", "", '"translatedText":""'),
        ("/translate", "source", "xx", "xx is not supported as a source language"),
        ("/translate", "target", "xx", "xx is not supported as a target language"),
        ("/translate", "format", "xml", "xml format is not supported"),
        ("/translate", "alternatives", 1, '"alternatives":['),
        ("/translate_file", "source", "xx", "xx is not supported as a source language"),
        ("/translate_file", "target", "xx", "xx is not supported as a target language"),
        ("/detect", "q", "12", "[]"),
        ("/v2/document", "source_lang", "XX", "XX is not supported as a source language"),
        ("/v2/document", "target_lang", "XX", "XX is not supported as a target language"),
        ("/v2/document", "filename", "a.pdf", "a PDF is not read"),
        ("/v2/document", "output_format", "pdf", "output_format: "),
        ("/v2/document", "formality", "less", "formality: not supported"),
    ],
)
def test_a_field_that_is_used_changes_the_answer(path, name, value, part, served):
    assert name in described()[path][0]
    assert part not in ask(served, path)[1]
    assert part in ask(served, path, **{name: value})[1]


def test_keys_are_used_by_every_path():
    with answering(keys=[("k", "ann")]) as server:
        for path in (*WITH_FILE, *WITHOUT_FILE):
            if path != "/suggest":
                name = "auth_key" if path.startswith("/v2") else "api_key"
                assert ask(server, path)[0] == ask(server, path, **{name: "x"})[0] == 403
                assert ask(server, path, **{name: "k"})[0] == 200
        assert server.get("/frontend/settings").json()["keyRequired"] is True
        assert json.loads(ask(server, "/suggest")[1])
