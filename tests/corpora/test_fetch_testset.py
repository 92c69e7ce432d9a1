"""sacreBLEU's test sets through our downloads: its tables and its processing, our server."""

import gzip
import hashlib

import pytest
from click.testing import CliRunner
from sacrebleu.dataset import DATASETS
from sacrebleu.dataset.fake_sgml import FakeSGMLDataset
from sacrebleu.dataset.plain_text import PlainTextDataset
from sacrebleu.dataset.tsv import TSVDataset
from sacrebleu.dataset.wmt_xml import WMTXMLDataset

from posnmt.base.errors import UserError
from posnmt.cli.main import main
from posnmt.corpora.fetch import fetch, spec
from tests.support.fetch_server import tar

DOCUMENTS = {"abc.1": ["Ein Satz.", "Zwei  Sätze."], "x y": ["Drei &amp; vier.", "Fünf.", "Sechs."]}


def sgml(language, documents=DOCUMENTS):
    out = [f'<srcset setid="s" srclang="any" trglang="{language}">']
    for name, sentences in documents.items():
        out += [f'<doc sysid="ref" docid="{name}" genre="news" origlang="de">', "<p>"]
        out += [f'<seg id="{number}">{one}</seg>' for number, one in enumerate(sentences, 1)]
        out += ["</p>", "</doc>"]
    return ("\n".join([*out, "</srcset>"]) + "\n").encode()


XML = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="newstest"><doc id="d1" origlang="de">
<src lang="de"><p><seg id="1">Eins.</seg><seg id="2">Zwei.</seg></p></src>
<ref lang="en" translator="A"><p><seg id="1">One.</seg><seg id="2">Two.</seg></p></ref>
<ref lang="en" translator="B"><p><seg id="1">1.</seg><seg id="2">2.</seg></p></ref>
</doc><doc id="d2" origlang="de">
<src lang="de"><p><seg id="1">Drei.</seg></p></src>
<ref lang="en" translator="A"><p><seg id="1">Three.</seg></p></ref>
<ref lang="en" translator="B"><p><seg id="1">3.</seg></p></ref>
</doc></dataset>"""


@pytest.fixture
def get(tmp_path, messages):
    def one(tree, languages=("de", "en")):
        return fetch(spec(tree), tmp_path / "cache", languages, messages.append, pauses=())

    return one


@pytest.fixture
def table(server, monkeypatch, tmp_path):
    """Adds a test set to the tables of sacreBLEU, with files that our server has."""

    def add(name, kind, files, pairs, **more):
        data = tar(tmp_path / "made.tgz", "w:gz", files).read_bytes()
        url = server.serve(f"/{name}/test.tgz", data)
        digest = hashlib.md5(data).hexdigest()
        monkeypatch.setitem(DATASETS, name, kind(name, data=[url], md5=[digest], langpairs=pairs, **more))
        return url

    return add


def lines(path):
    return path.read_bytes().decode().removesuffix("\n").split("\n")


SGML = {"test/s.de.sgm": sgml("de"), "test/s.en.sgm": sgml("en", {"a": ["1", "2"], "b": ["3", "4", "5"]})}
SGML_PAIRS = {"de-en": ["test/s.de.sgm", "test/s.en.sgm"]}


def test_sgml_with_document_ids_that_join_respects(table, get, server, tmp_path):
    table("here", FakeSGMLDataset, SGML, SGML_PAIRS)
    found = get({"sacrebleu": "here"})
    assert lines(found.source) == ["Ein Satz.", "Zwei Sätze.", "Drei &amp; vier.", "Fünf.", "Sechs."]
    assert lines(found.target) == ["1", "2", "3", "4", "5"]
    assert lines(found.document_ids) == ["abc.1", "abc.1", "x_y", "x_y", "x_y"]
    assert get({"sacrebleu": "here"}) == found
    assert len(server.requests) == 1
    files = ["--source", found.source, "--target", found.target, "--documents", found.document_ids]
    done = CliRunner().invoke(main, ["condition", "join", *map(str, files), "--out", str(tmp_path / "joined")])
    assert done.exit_code == 0, done.output
    assert lines(tmp_path / "joined" / "joined.target") == ["1 2", "3 4", "5"]


def test_2008_has_its_ids_too(table, get):
    """sacreBLEU lists no document ids for names that begin with wmt08."""
    table("wmt08/here", FakeSGMLDataset, SGML, SGML_PAIRS)
    assert lines(get({"sacrebleu": "wmt08/here"}).document_ids)[0] == "abc.1"
    bare = {name: data.replace(b"docid=", b"title=") for name, data in SGML.items()}
    table("wmt08/bare", FakeSGMLDataset, bare, SGML_PAIRS)
    assert get({"sacrebleu": "wmt08/bare"}).document_ids is None


def test_the_other_direction(table, get):
    table("here", FakeSGMLDataset, SGML, SGML_PAIRS)
    assert lines(get({"sacrebleu": "here", "pair": "de-en"}, ("en", "de")).source) == ["1", "2", "3", "4", "5"]
    with pytest.raises(UserError, match="no pair en-de; it has de-en: write pair: de-en"):
        get({"sacrebleu": "here"}, ("en", "de"))
    with pytest.raises(UserError, match="the pair is de-en, but de-fr is requested"):
        get({"sacrebleu": "here", "pair": "de-en"}, ("de", "fr"))


def test_xml_and_the_reference_that_counts(table, get, messages):
    pairs = {"de-en": ["t.de-en.xml"]}
    table("x21", WMTXMLDataset, {"t.de-en.xml": XML.encode()}, pairs, refs=["B"])
    found = get({"sacrebleu": "x21"})
    assert (lines(found.source), lines(found.target)) == (["Eins.", "Zwei.", "Drei."], ["1.", "2.", "3."])
    assert lines(found.document_ids) == ["d1", "d1", "d2"]
    assert messages == ["x21: 3 pairs"]
    table("x21/AB", WMTXMLDataset, {"t.de-en.xml": XML.encode()}, pairs, refs=["A", "B"])
    get({"sacrebleu": "x21/AB"})
    assert any("the first of 2 references is used" in line for line in messages)


def test_plain_text_and_tables(table, get):
    table("plain", PlainTextDataset, {"a.de": b"Eins.\n", "a.en": b"One.\n"}, {"de-en": ["a.de", "a.en"]})
    found = get({"sacrebleu": "plain"})
    assert (lines(found.source), lines(found.target), found.document_ids) == (["Eins."], ["One."], None)
    table("tsv", TSVDataset, {"a.tsv": b"0\tEins.\tOne.\n"}, {"de-en": ["1:a.tsv", "2:a.tsv"]})
    found = get({"sacrebleu": "tsv"})
    assert (lines(found.source), lines(found.target)) == (["Eins."], ["One."])


def test_files_that_are_no_archives(server, get, monkeypatch, tmp_path):
    urls = [
        server.serve("/t.tgz", tar(tmp_path / "t.tgz", "w:gz", {"a.de": b"Eins.\n"}).read_bytes()),
        server.serve("/t.en.gz", gzip.compress(b"One.\n")),
    ]
    pairs = {"de-en": ["a.de", "mixed.t.en.gz"]}
    monkeypatch.setitem(DATASETS, "mixed", PlainTextDataset("mixed", data=urls, md5=None, langpairs=pairs))
    found = get({"sacrebleu": "mixed"})
    assert (lines(found.source), lines(found.target)) == (["Eins."], ["One."])


def test_a_wrong_md5_and_an_archive_without_the_file(table, get, server):
    url = table("here", FakeSGMLDataset, SGML, SGML_PAIRS)
    DATASETS["here"].md5 = ["0" * 32]
    with pytest.raises(UserError, match=f"{url} has another checksum: md5 .*expected: md5 {'0' * 32}"):
        get({"sacrebleu": "here"})
    table("less", FakeSGMLDataset, {"test/s.de.sgm": SGML["test/s.de.sgm"]}, SGML_PAIRS)
    with pytest.raises(UserError, match=r"less has no test/s\.en\.sgm"):
        get({"sacrebleu": "less"})


def test_an_xml_file_that_is_none(table, get):
    table("bad", WMTXMLDataset, {"t.xml": b"<html>"}, {"de-en": ["t.xml"]}, refs=["A"])
    with pytest.raises(UserError, match="sacreBLEU cannot read bad de-en"):
        get({"sacrebleu": "bad"})


def test_unknown_test_sets(get):
    with pytest.raises(UserError, match="no test set of sacreBLEU is called 'wmt14/ful'; did you mean 'wmt14/full'"):
        get({"sacrebleu": "wmt14/ful"})
