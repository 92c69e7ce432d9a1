"""Corpora of all forms from a real server on loopback to aligned text: order, ids, checks, and what is said."""

import gzip
import hashlib
import io
import json
import lzma
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from posnmt.base.errors import UserError
from posnmt.cli.main import main
from posnmt.corpora.fetch import fetch, spec
from tests.support.fetch_server import tar, zipped

GERMAN = ["Ein Satz.", "", "Drei\u2028Zeilen\u0085hier.", "Vier."]
ENGLISH = ["A sentence.", "", "Three lines here.", "Four."]


def text(lines):
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.fixture
def get(tmp_path, messages):
    def one(tree, languages=("de", "en")):
        return fetch(spec(tree), tmp_path / "cache", languages, messages.append, pauses=(0.0,))

    return one


def lines(path):
    return path.read_bytes().decode().removesuffix("\n").split("\n")


def check(found, source=GERMAN, target=ENGLISH):
    assert lines(found.source) == source
    assert lines(found.target) == target
    assert found.lines == len(source)


ARCHIVE = {"t/a.de": text(GERMAN), "t/a.en": text(ENGLISH)}


def test_an_archive_with_two_texts(server, get, tmp_path):
    data = tar(tmp_path / "a", "w:gz", ARCHIVE).read_bytes()
    url = server.serve("/a.tgz", data)
    tree = {"url": url, "members": ["t/a.de", "*.en"], "sha256": hashlib.sha256(data).hexdigest()}
    found = get(tree)
    check(found)
    assert found.document_ids is None
    assert get(tree) == found
    assert len(server.requests) == 1
    made = json.loads((found.source.parent / "manifest.json").read_text())
    assert made["files"]["source"] == {"sha256": hashlib.sha256(text(GERMAN)).hexdigest(), "lines": 4}
    assert made["corpus"]["url"] == url


def test_the_texts_are_turned_round_for_the_other_direction(server, get, tmp_path):
    url = server.serve("/a.zip", zipped(tmp_path / "a", ARCHIVE).read_bytes())
    tree = {"url": url, "members": ["t/a.de", "t/a.en"], "languages": ["de", "en"]}
    check(get(tree))
    check(get(tree, ("en", "de")), ENGLISH, GERMAN)
    with pytest.raises(UserError, match="is de-en, but de-fr is requested"):
        get(tree, ("de", "fr"))


def test_two_urls_packed_or_not(server, get):
    first = server.serve("/a.de.gz", gzip.compress(text(GERMAN)))
    second = server.serve("/a.en", text(ENGLISH).removesuffix(b"\n"))
    check(get({"url": [first, second]}))


def test_every_url_that_is_missing_is_said(server, get):
    with pytest.raises(UserError) as error:
        get({"url": [server.url("/a"), server.url("/b")]})
    assert [line.split()[0] for line in error.value.lines] == [server.url("/a"), server.url("/b")]


def test_a_table_keeps_every_line(server, get, messages):
    rows = ["Eins.\tOne.\td1\tx", "", "nur deutsch", 'Zwei "\tTwo\td2\ty']
    url = server.serve("/a.tsv.xz", lzma.compress(text(rows)))
    found = get({"url": url, "documents": 2})
    check(found, ["Eins.", "", "nur deutsch", 'Zwei "'], ["One.", "", "", "Two"])
    assert lines(found.document_ids) == ["d1", "", "", "d2"]
    assert "a.tsv.xz: 2 of 4 lines have too few columns; the missing ones are left empty" in messages
    swapped = get({"url": url, "columns": [1, 0]})
    check(swapped, ["One.", "", "", "Two"], ["Eins.", "", "nur deutsch", 'Zwei "'])


def test_document_ids_of_a_table_are_told_apart(server, get):
    rows = [f"Eins.\tOne.\t{title}" for title in ("News 1", "News 1 ", "News\u00a02", "")]
    found = get({"url": server.serve("/a.tsv", text(rows)), "documents": 2})
    assert lines(found.document_ids) == ["News_1", "News_1", "News_2", ""]


TMX = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4"><header srclang="de" segtype="sentence"/><body>
<tu><tuv xml:lang="de-DE"><seg>Eins &amp;
 mehr.</seg></tuv><tuv xml:lang="EN"><seg>One <hi>and</hi> more.</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>Nur deutsch.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Two.</seg></tuv><tuv xml:lang="de"><seg>Zwei.</seg></tuv></tu>
</body></tmx>"""


def test_translation_memories(server, get, messages, tmp_path):
    url = server.serve("/a.tmx.zip", zipped(tmp_path / "a", {"some.tmx": TMX.encode()}).read_bytes())
    found = get({"url": url, "members": ["*.tmx"], "languages": ["de", "en"]})
    check(found, ["Eins &  mehr.", "Zwei."], ["One and more.", "Two."])
    assert any("1 of 3 units lack text in one of the languages and are skipped" in line for line in messages)
    with pytest.raises(UserError, match="none of 3 units has both fr and en"):
        get({"url": url, "members": ["*.tmx"], "languages": ["fr", "en"]}, ("fr", "en"))
    broken = server.serve("/b.tmx", TMX[:-30].encode())
    with pytest.raises(UserError, match="not well-formed XML"):
        get({"url": broken})


def test_a_region_of_a_translation_memory(server, get):
    unit = '<tu><tuv lang="en"><seg>bus</seg></tuv><tuv lang="pt-PT"><seg>autocarro</seg></tuv>{}</tu>'
    brazilian = unit.format('<tuv lang="pt-BR"><seg>ônibus</seg></tuv>')
    url = server.serve("/p.tmx", f"<tmx><body>{brazilian}</body></tmx>".encode())
    check(get({"url": url, "languages": ["pt_BR", "en"]}, ("en", "pt")), ["bus"], ["ônibus"])
    check(get({"url": url, "languages": ["en", "pt-PT"]}, ("pt", "en")), ["autocarro"], ["bus"])
    check(get({"url": url, "languages": ["pt-PT", "pt-BR"]}, ("pt-BR", "pt-PT")), ["ônibus"], ["autocarro"])
    with pytest.raises(UserError, match="1 units have several texts in pt"):
        get({"url": url}, ("en", "pt"))


def test_texts_of_different_lengths_are_refused_and_nothing_is_left(server, get, tmp_path):
    first, second = server.serve("/a.de", text(GERMAN)), server.serve("/a.en", text(ENGLISH[1:]))
    with pytest.raises(UserError, match=r"different line counts: a\.de has 4, a\.en has 3"):
        get({"url": [first, second]})
    assert not [path for path in (tmp_path / "cache" / "texts").iterdir() if path.suffix != ".lock"]


def test_what_proves_no_archive_is_not_recorded(server, get, tmp_path):
    """A page of a login instead of the file: once the right file is there, its checksum is not held against it."""
    tree = {"url": server.serve("/a.tgz", b"<html>Please log in</html>"), "members": ["t/a.de", "t/a.en"]}
    with pytest.raises(UserError, match=r"not a zip or tar archive .*a\.tgz"):
        get(tree)
    place = next((tmp_path / "cache" / "downloads").rglob("a.tgz"))
    tar(place, "w:gz", ARCHIVE)
    check(get(tree))


def test_a_text_altered_by_hand_is_refused(server, get):
    tree = {"url": [server.serve("/a.de", text(GERMAN)), server.serve("/a.en", text(ENGLISH))]}
    target = get(tree).target
    target.write_bytes(target.read_bytes().replace(b"Four", b"Five"))
    with pytest.raises(UserError, match=rf"has changed since it was written \({target}\)"):
        get(tree)


def test_what_a_killed_process_left_is_cleared_away(server, get):
    tree = {"url": [server.serve("/a.de", text(GERMAN)), server.serve("/a.en", text(ENGLISH))]}
    made = get(tree).source.parent
    left = made.with_name(f".{made.name}.0123abcd.partial")
    made.rename(left)
    check(get(tree))
    assert not left.exists()


def test_files_of_ones_own(get, tmp_path):
    (tmp_path / "a").write_bytes(text(GERMAN)), (tmp_path / "b").write_bytes(text(ENGLISH))
    found = get({"path": [str(tmp_path / "a"), str(tmp_path / "b")]})
    assert (found.source, found.target, found.document_ids) == (tmp_path / "a", tmp_path / "b", None)
    with pytest.raises(UserError, match="target does not exist"):
        get({"path": [str(tmp_path / "a"), str(tmp_path / "c")]})


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ({}, "named by one of path, name, sacrebleu, mtdata, url; got nothing"),
        ({"mtdata": "A-b-1-eng-deu", "url": "http://h/x"}, "got mtdata and url"),
        ({"sacrebleu": "wmt14", "pairs": "en-de"}, "unknown key pairs; did you mean 'pair'?"),
        ({"url": "file:///etc/passwd"}, "a URL begins with http:// or https://"),
        ({"url": "http://me:secret@h/x.tsv"}, "no user name"),
        ({"url": "http://h/x.tsv", "sha256": "12"}, "sha256"),
        ({"url": "http://h/x.tgz"}, "needs two files"),
        ({"url": ["http://h/x.de", "http://h/x.en"], "members": ["a"]}, "two URLs are two text files"),
        ({"url": "http://h/x.zip", "members": ["a.tmx", "b.tmx"]}, "name one member"),
        ({"mtdata": "europarl"}, "mtdata"),
    ],
)
def test_what_names_no_corpus(tree, sentence):
    with pytest.raises(UserError) as error:
        spec(tree)
    assert sentence in " ".join(error.value.lines)


def test_a_corpus_of_the_catalogue_put_there_by_hand(tmp_path):
    """Without a network, what the error asks for is all that is needed, through the command."""
    names = [f"training/news-commentary-v9.de-en.{language}" for language in ("de", "en")]
    place = tmp_path / "downloads" / "www.statmt.org" / "wmt14" / "training-parallel-nc-v9.tgz"
    place.parent.mkdir(parents=True)
    tar(place, "w:gz", dict(zip(names, ARCHIVE.values(), strict=True)))
    call = ["data", "fetch", "news-commentary-v9-de-en", "--pair", "en-de", "--cache", str(tmp_path)]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 0, done.output
    source, target = done.stdout.rstrip("\n").split("\t")
    assert lines(tmp_path / source) == ENGLISH
    assert lines(tmp_path / target) == GERMAN
    assert "4 pairs, but the catalogue lists 201,288" in done.stderr
    assert "licence:" in done.stderr


def test_one_that_fails_does_not_stop_the_others(tmp_path):
    for side in ("en", "de"):
        place = tmp_path / "downloads/nlp.stanford.edu/projects/nmt/data/wmt14.en-de" / f"train.{side}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text(ENGLISH))
    names = ["nist-train-zh-en", "wmt14-stanford-en-de", "newstest2014"]
    done = CliRunner().invoke(main, ["data", "fetch", *names, "--cache", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stdout.count("\t") == 1
    errors = [line for line in done.stderr.split("\n") if line.startswith("error: ")]
    assert errors[0].startswith("error: nist-train-zh-en cannot be fetched")
    assert "LDC2002E18" in errors[0]
    assert "no corpus of the catalogue is called 'newstest2014'; did you mean 'newstest201" in errors[1]
    assert len(errors) == 2


def test_a_corpus_is_copied_to_files_of_its_languages(tmp_path):
    for side, content in (("en", ENGLISH), ("de", GERMAN)):
        place = tmp_path / "downloads/nlp.stanford.edu/projects/nmt/data/wmt14.en-de" / f"train.{side}"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text(content))
    out = tmp_path / "new" / "train"
    call = ["data", "fetch", "wmt14-stanford-en-de", "--pair", "de-en", "--cache", str(tmp_path), "--out", str(out)]
    done = CliRunner().invoke(main, call)
    assert done.stdout == f"{out}.de\t{out}.en\n"
    assert [lines(Path(f"{out}.{side}")) for side in ("de", "en")] == [GERMAN, ENGLISH]
    again = CliRunner().invoke(main, call)
    assert again.exit_code == 2
    assert "exists" in again.stderr
    assert sorted(path.name for path in out.parent.iterdir()) == ["train.de", "train.en"]


def test_a_copy_that_is_there_is_refused_before_anything_is_fetched(tmp_path):
    (tmp_path / "train.en").write_text("mine")
    call = [
        "data",
        "fetch",
        "wmt14-stanford-en-de",
        "--cache",
        str(tmp_path / "cache"),
        "--out",
        str(tmp_path / "train"),
    ]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 2
    assert "exists" in done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (["fetch", "wmt14-stanford-en-de", "newstest2014-de-en", "--out", "x"], "it names the files of one corpus"),
        (["fetch", "wmt14-stanford-en-de", "--out", "new/"], "it is a folder (--out new/)"),
        (["extract", "tests/conftest.py", "--pair", "en-de", "--out", "."], "it is a folder (--out .)"),
        (["fetch", "sacrebleu:wmt13"], "needs a language pair (--pair)"),
        (["fetch", "sacrebleu:wmt13", "--pair", "ende"], "a pair is two languages, such as en-de; got 'ende'"),
        (["fetch", "opus:x", "--pair", "en-de"], "a corpus is named by one of"),
        (["list", "klingon"], "the catalogue has no corpus with 'klingon'"),
    ],
)
def test_commands_say_what_is_wrong(call, sentence):
    done = CliRunner().invoke(main, ["data", *call])
    assert done.exit_code == 2
    assert sentence in done.stderr


def test_a_zip_in_memory_is_as_good(server, get):
    """An archive that is streamed by the maker, as GitHub's are: sizes stand after the data."""
    box = io.BytesIO()
    with zipfile.ZipFile(box, "w") as archive:
        for name, data in ARCHIVE.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(data)
    check(get({"url": server.serve("/a", box.getvalue()), "members": ["t/a.de", "t/a.en"]}))


@pytest.mark.parametrize(
    ("tree", "label"),
    [
        ({"path": ["a.en", "a.de"], "documents": "ids"}, "a.en"),
        ({"name": "a"}, "a"),
        ({"sacrebleu": "wmt14/full", "pair": "en-de"}, "wmt14/full"),
        ({"mtdata": "a-b-1-deu-eng"}, "a-b-1-deu-eng"),
        ({"url": "http://a.org/b.tmx"}, "http://a.org/b.tmx"),
        ({"url": ["http://a.org/b.en", "http://a.org/b.de"], "sha256": None}, "http://a.org/b.en"),
    ],
)
def test_a_corpus_is_called_what_its_key_says(tree, label):
    assert spec(tree).label == label
