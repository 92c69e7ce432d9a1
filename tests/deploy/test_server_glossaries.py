"""Glossaries of DeepL's interface: made, kept, changed, and used in translations."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from types import SimpleNamespace

import deepl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.deploy.server import glossaries
from posnmt.deploy.server.deepl import Query, _asked
from posnmt.deploy.server.glossaries import (
    MOST_BYTES,
    MOST_UNITS,
    Dictionary,
    Glossaries,
    dictionary,
    entries_of,
    kept_in,
    merged,
)
from posnmt.deploy.server.queue import OVERHEAD, Job
from posnmt.deploy.server.refusal import Refusal
from posnmt.translate.requests import Search, numbered
from posnmt.translate.terms import Terms
from tests.support.serving import serving
from tests.support.untrained import LEARNED

TWO = [("mebu", "zzz"), ("zabi", "yyy")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "glossaries"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    path.write_text("one ann\ntwo ann\n")
    return path


@pytest.fixture(scope="module")
def served(folder, keys):
    """A server with two keys whose owners have the same name."""
    with serving(f"mine={LEARNED}", "--keys", keys, "--glossaries", folder) as server:
        yield server


@pytest.fixture(scope="module")
def client(served):
    return deepl.DeepLClient("one", server_url=served.url)


def call(served, method, path, fields=None, key="one", **headers):
    """Status and answer."""
    body = None if fields is None else json.dumps(fields).encode()
    headers = {"Authorization": f"DeepL-Auth-Key {key}", "Content-Type": "application/json", **headers}
    request = urllib.request.Request(served.url + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_the_real_client_makes_and_uses_a_glossary(client):
    made = client.create_glossary("ours", "EN", "DE", dict(TWO))
    assert (made.name, made.ready, made.source_lang, made.target_lang, made.entry_count) == (
        "ours",
        True,
        "EN",
        "DE",
        2,
    )
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert made.glossary_id in [each.glossary_id for each in client.list_glossaries()]
    assert client.get_glossary_entries(made) == dict(TWO)
    assert [(each.source_lang, each.target_lang) for each in client.get_glossary_languages()] == [("en", "de")]
    plain = client.translate_text("uns mebu zabi", source_lang="EN", target_lang="DE").text
    assert not {"zzz", "yyy"} & set(plain.split())
    for text, options in (("uns mebu zabi", {}), ("<a>uns mebu</a> zabi", {"tag_handling": "xml"})):
        written = client.translate_text(text, source_lang="EN", target_lang="DE", glossary=made, **options).text
        assert {"zzz", "yyy"} <= set(written.replace("<a>", " ").replace("</a>", " ").split())
    assert "zzz" in client.translate_text_with_glossary("mebu", made).text
    csv = client.create_glossary_from_csv("table", "EN", "DE", 'mebu,"z, z"\nzabi,yyy,en,de\n')
    assert client.get_glossary_entries(csv) == {"mebu": "z, z", "zabi": "yyy"}
    for each in (made, csv):
        client.delete_glossary(each)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)
    with pytest.raises(deepl.DeepLException, match="there is no glossary"):
        client.translate_text("mebu", source_lang="EN", target_lang="DE", glossary=made)


def test_the_real_client_changes_a_glossary_of_version_3(client):
    def of(**entries):
        return deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "DE", entries)

    made = client.create_multilingual_glossary("ours", [of(mebu="zzz", zabi="yyy")])
    [one] = made.dictionaries
    assert (one.source_lang, one.target_lang, one.entry_count) == ("EN", "DE", 2)

    def entries():
        [found] = client.get_multilingual_glossary_entries(made, "EN", "DE").dictionaries
        return dict(line.split("\t") for line in found.entries.split("\n"))

    client.update_multilingual_glossary_dictionary(made, of(zabi="kkk", uns="www"))
    assert entries() == {"mebu": "zzz", "zabi": "kkk", "uns": "www"}
    assert "kkk" in client.translate_text("zabi", source_lang="EN", target_lang="DE", glossary=made).text
    replaced = client.replace_multilingual_glossary_dictionary(made, of(fu="sss"))
    assert (replaced.entry_count, entries()) == (1, {"fu": "sss"})
    assert client.update_multilingual_glossary_name(made.glossary_id, "new").name == "new"
    other = client.create_multilingual_glossary("other", [of(fu="uuu", mebu="ttt")])
    given = {"source_lang": "EN", "target_lang": "DE", "glossary_ids": [made, other]}
    written = client.translate_text("fu mebu", **given).text.split()
    assert "sss" in written
    assert "ttt" in written
    assert "uuu" not in written
    assert {"new", "other"} <= {each.name for each in client.list_multilingual_glossaries()}
    client.delete_multilingual_glossary_dictionary(made.glossary_id, source_lang="EN", target_lang="DE")
    assert client.get_multilingual_glossary(made.glossary_id).dictionaries == []
    with pytest.raises(deepl.DeepLException, match="no dictionary for en-de"):
        client.translate_text("fu", source_lang="EN", target_lang="DE", glossary=made.glossary_id)
    for each in (made, other):
        client.delete_multilingual_glossary(each)


@pytest.mark.parametrize(
    ("method", "path", "fields", "status", "message"),
    [
        ("POST", "/v2/glossaries", {"name": ""}, 400, "name: a name has 1 to 1,024 bytes"),
        ("POST", "/v2/glossaries", {"name": 5}, 400, "name: "),
        ("POST", "/v2/glossaries", {"name": "a\nb"}, 400, "name: a control character"),
        ("POST", "/v2/glossaries", {"source_lang": None}, 400, "source_lang: "),
        (
            "POST",
            "/v2/glossaries",
            {"target_lang": "fr"},
            400,
            "a glossary for en-fr cannot be used here; supported: en-de",
        ),
        ("POST", "/v2/glossaries", {"source_lang": "xx"}, 400, "a glossary for xx-de cannot be used"),
        ("POST", "/v2/glossaries", {"entries": ""}, 400, "there are none"),
        ("POST", "/v2/glossaries", {"entries": "a"}, 400, "1 column in place of 2 (line 1)"),
        ("POST", "/v2/glossaries", {"entries": "a\tb\n\nc\td\te"}, 400, "3 columns in place of 2 (line 3)"),
        ("POST", "/v2/glossaries", {"entries": "a\tb\na\tc"}, 400, "'a' stands twice (entry 2)"),
        ("POST", "/v2/glossaries", {"entries": "a\t"}, 400, "an empty term (entry 1)"),
        ("POST", "/v2/glossaries", {"entries": "a\tb\x07"}, 400, "a control character (entry 1)"),
        ("POST", "/v2/glossaries", {"entries": "a\t\ud800"}, 400, "a control character (entry 1)"),
        ("POST", "/v2/glossaries", {"entries": f"a\t{'b' * 1025}"}, 400, "a term is longer than"),
        ("POST", "/v2/glossaries", {"entries": f"{'. ' * 51}\tb"}, 400, "a term is longer than"),
        ("POST", "/v2/glossaries", {"entries": "\n".join(f"a{n}\tb" for n in range(10_001))}, 413, "10,001 entries"),
        ("POST", "/v2/glossaries", {"entries": "a\tb" * 500_000}, 413, "larger than 1,048,576 bytes"),
        ("POST", "/v2/glossaries", {"entries_format": "xls"}, 400, "entries_format: "),
        ("POST", "/v2/glossaries", {"entries": 'a,"b', "entries_format": "csv"}, 400, "not a table with commas"),
        ("POST", "/v2/glossaries", {"entries": "a,b,en,fr", "entries_format": "csv"}, 400, "4 columns"),
        ("POST", "/v3/glossaries", {"dictionaries": "en-de"}, 400, "dictionaries: "),
        ("POST", "/v3/glossaries", {"dictionaries": [5]}, 400, "dictionaries: "),
        (
            "POST",
            "/v3/glossaries",
            {"dictionaries": [{"source_lang": "en", "target_lang": "de"}]},
            400,
            "dictionaries[0].entries: ",
        ),
        ("GET", "/v2/glossaries/none", None, 404, "there is no glossary with the id 'none'"),
        ("GET", "/v2/glossaries/none/entries", None, 404, "there is no glossary"),
        ("DELETE", "/v2/glossaries/none", None, 404, "there is no glossary"),
        ("GET", "/v3/glossaries/none", None, 404, "there is no glossary"),
        ("PATCH", "/v3/glossaries/none", {"name": "a"}, 404, "there is no glossary"),
        ("GET", "/v3/glossaries/none/entries", None, 400, "source_lang: field required"),
        ("GET", "/v3/glossaries/none/entries?source_lang=en&target_lang=de", None, 404, "there is no glossary"),
        ("DELETE", "/v3/glossaries/none/dictionaries?source_lang=en&target_lang=de", None, 404, "there is no glossary"),
        ("PUT", "/v3/glossaries/none", None, 405, "Method Not Allowed"),
    ],
)
def test_bad_glossaries(served, method, path, fields, status, message):
    if path == "/v2/glossaries":
        fields = {"name": "g", "source_lang": "en", "target_lang": "de", "entries": "a\tb", **fields}
    elif path == "/v3/glossaries":
        fields = {"name": "g", **fields}
    answered, answer = call(served, method, path, fields)
    assert (answered, [*answer]) == (status, ["message"])
    assert message in answer["message"]
    assert "Traceback" not in served.err
    assert '"g"' not in call(served, "GET", "/v3/glossaries")[1]


def test_changes_of_version_3_are_checked_before_anything_changes(served):
    one = {"source_lang": "en", "target_lang": "de", "entries": "a\tb"}
    status, made = call(served, "POST", "/v3/glossaries", {"name": "g", "dictionaries": [one]})
    assert status == 201
    path = f"/v3/glossaries/{json.loads(made)['glossary_id']}"
    for method, where, fields in [
        ("PATCH", path, {"name": "h", "dictionaries": [{**one, "entries": "a"}]}),
        ("PATCH", path, {"name": "h", "dictionaries": [one, one]}),
        ("PUT", f"{path}/dictionaries", {**one, "target_lang": "fr"}),
        ("PUT", f"{path}/dictionaries", {**one, "entries": ""}),
        ("POST", "/v3/glossaries", {"name": "h", "dictionaries": [one, one]}),
    ]:
        assert call(served, method, where, fields)[0] == 400
    assert json.loads(call(served, "GET", path)[1]) == json.loads(made)
    assert call(served, "GET", f"{path.replace('3', '2', 1)}/entries", Accept="application/json")[0] == 415
    assert call(served, "GET", f"{path.replace('3', '2', 1)}/entries") == (200, "a\tb")
    assert call(served, "DELETE", path) == (204, "")


def test_glossaries_belong_to_a_key(served):
    fields = {"name": "g", "source_lang": "EN-US", "target_lang": "DE", "entries": "a\tb"}
    made = json.loads(call(served, "POST", "/v2/glossaries", fields)[1])["glossary_id"]
    path = f"/v2/glossaries/{made}"
    assert call(served, "GET", path)[0] == 200
    query = {"text": "a", "source_lang": "EN", "target_lang": "DE", "glossary_id": made}
    for key, status in (("two", 404), ("three", 403)):
        assert call(served, "GET", path, key=key)[0] == status
        assert call(served, "DELETE", path, key=key)[0] == status
        assert call(served, "POST", "/v2/translate", query, key=key)[0] == status
    assert json.loads(call(served, "GET", "/v2/glossaries", key="two")[1]) == {"glossaries": []}
    assert call(served, "DELETE", path)[0] == 204


def test_glossaries_survive_the_server(folder, served, keys):
    """Whatever a client was told is in the folder; a second server refuses to share it."""
    fields = {"name": "ö", "source_lang": "en", "target_lang": "de", "entries": "mebu\tzzz"}
    made = json.loads(call(served, "POST", "/v2/glossaries", fields)[1])
    assert [path.name for path in folder.glob("*.json")] == [f"{made['glossary_id']}.json"]
    with pytest.raises(UserError, match="another server keeps its glossaries here"), kept_in(folder):
        pass
    [stored] = glossaries.Glossaries(folder)._all.values()
    assert (stored.name, stored.created, dict(stored.dictionaries[0].entries)) == (
        "ö",
        made["creation_time"],
        {"mebu": "zzz"},
    )
    assert "one" not in (folder / f"{made['glossary_id']}.json").read_text().split()
    call(served, "DELETE", f"/v2/glossaries/{made['glossary_id']}")
    assert not list(folder.glob("*.json"))


@pytest.mark.parametrize("content", ["", "{}", '{"owner": 5}', "[" * 9999])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UserError, match=r"a glossary is damaged: .*a\.json"):
        Glossaries(tmp_path)


def test_a_change_is_made_whole_or_not_at_all(tmp_path, monkeypatch):
    """If the disk is full, the glossary is as before, in memory and on disk."""
    kept = Glossaries(tmp_path)
    one = kept.create("", "a", [Dictionary("en", "de", dict(TWO))])

    def full(path, tree):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(glossaries, "write_json", full)
    for change in (
        lambda: kept.change("", one.glossary_id, "b"),
        lambda: kept.create("", "b", []),
        lambda: kept.delete("", one.glossary_id, ("en", "de")),
    ):
        with pytest.raises(OSError, match="No space"):
            change()
    assert kept.of("") == [one] == Glossaries(tmp_path).of("")


def test_the_number_and_the_size_of_glossaries_are_limited(monkeypatch):
    monkeypatch.setattr(glossaries, "MOST", 2)
    monkeypatch.setattr(glossaries, "MOST_IN_ALL", 40 + 4 * glossaries.ENTRY)
    kept, one = Glossaries(), Dictionary("en", "de", dict(TWO))  # two entries of 14 bytes
    first = kept.create("a", "", [one])
    kept.create("a", "", [])
    for owner, new in (("a", []), ("b", [one, Dictionary("de", "en", dict(TWO))])):
        with pytest.raises(Refusal) as refused:
            kept.create(owner, "", new)
        assert refused.value.status == 456
    kept.create("b", "", [one])
    kept.delete("a", first.glossary_id)
    kept.create("a", "", [one])


@given(st.dictionaries(st.text("ab é,\"'", min_size=1).filter(str.strip), st.text('xy .,"', min_size=1)))
def test_entries_are_read_as_they_are_written(entries):
    pairs = [(source.strip(), target.strip()) for source, target in entries.items() if target.strip()]
    tsv = "\n".join(f"{source}\t{target}" for source, target in pairs)
    csv = "\r\n".join(",".join('"' + term.replace('"', '""') + '"' for term in pair) for pair in pairs)
    assert entries_of(tsv, "tsv", ("en", "de")) == entries_of(csv, "csv", ("en", "de")) == pairs


@pytest.mark.parametrize(("form", "text"), [("tsv", "\ufeffa\tb\r\n\r\n"), ("csv", '\ufeff"a","b"\r\n')])
def test_a_byte_order_mark_is_not_part_of_a_term(form, text):
    """As spreadsheets write it before the first one."""
    assert entries_of(text, form, ("en", "de")) == [("a", "b")]


def test_a_fault_in_a_dictionary_is_named_with_its_place(served):
    """A field of a dictionary that is unknown or missing is not that of the glossary."""
    good = {"source_lang": "en", "target_lang": "de", "entries": "mebu\tzzz"}
    before = call(served, "GET", "/v3/glossaries")
    for faulty, place in (
        ({**good, "entry": "a\tb"}, "dictionaries[1].entry"),
        ({**good, "entries": None}, "dictionaries[1].entries"),
        ({**good, "entries_format": "xls"}, "dictionaries[1].entries_format"),
    ):
        status, answer = call(served, "POST", "/v3/glossaries", {"name": "a", "dictionaries": [good, faulty]})
        assert (status, place in answer["message"]) == (400, True)
    status, answer = call(served, "POST", "/v3/glossaries", {"name": "a", "dictionaries": [{**good, "entry": "a"}]})
    known = answer["message"].partition("choose from: ")[2].split(", ")
    assert (status, {*known}) == (400, {*good, "entries_format"})
    assert call(served, "GET", "/v3/glossaries") == before


def test_terms_of_several_dictionaries():
    first, second = Dictionary("en", "de", {"a": "1", "b": "2"}), Dictionary("en", "de", {"b": "3", "c": "4", "ﬁ": "5"})
    assert merged([first, second]).pairs == [("a", "1"), ("b", "2"), ("c", "4"), ("ﬁ", "5")]
    assert merged([second, Dictionary("en", "de", {"fi": "6"})]).pairs[-1] == ("ﬁ", "5")
    assert first.terms is first.terms


def test_limits_of_terms():
    for term in ("b" * MOST_BYTES, "é" * (MOST_BYTES // 2), ". " * MOST_UNITS):
        assert dictionary("en", "de", [(term, "x"), ("y", term)]).size > 0
    for term in ("b" * (MOST_BYTES + 1), ". " * (MOST_UNITS + 1)):
        with pytest.raises(Refusal, match="a term is longer"):
            dictionary("en", "de", [("x", term)])


def test_terms_cost_time_in_the_queue():
    """A line counts once more for each word of the terms that it must have."""
    terms = Terms([("a", "x y"), ("b", "z")], ["", ""])
    lines = ["a", "a b", "c"]
    job = Job(numbered(lines), Search(Decode(), terms=terms))
    assert [job.cost(number) for number in range(3)] == [
        (1 + OVERHEAD) * 3,
        (3 + OVERHEAD) * 4,
        1 + OVERHEAD,
    ]
    assert job.largest == (3 + OVERHEAD) * 4


def test_a_model_that_takes_no_glossary_says_so():
    """As those of CTranslate2 do; the engine is the only part of the model that is asked."""
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")
    from posnmt.deploy.engines.ctranslate2 import CTranslate2Engine

    kept = Glossaries()
    one = kept.create("", "a", [Dictionary("en", "de", dict(TWO))])
    engine = SimpleNamespace(name="CTranslate2", serves=CTranslate2Engine.serves, context=1)
    model = SimpleNamespace(name="m", source="en", target="de", engine=engine, decode=Decode())
    service = SimpleNamespace(glossaries=kept, between=lambda *_: (model, None))
    query = Query(text="a", source_lang="en", target_lang="de", glossary_id=one.glossary_id)
    with pytest.raises(Refusal, match="takes no glossary") as refused:
        asyncio.run(_asked(service, query, ""))
    assert refused.value.status == 400
    query = Query(text="a", source_lang="en", target_lang="fr", glossary_id=one.glossary_id)
    model.target = "fr"
    with pytest.raises(Refusal, match="the glossary has no dictionary for en-fr, but for en-de") as refused:
        asyncio.run(_asked(service, query, ""))
    assert refused.value.status == 400
