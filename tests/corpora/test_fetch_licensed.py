"""Corpora that need a licence, from made folders of the true shape: ASPEC's tables and NIST's XML.

The true corpora were never read. The columns are those of N19's preprocess/aspec_sp16k.sh; the names and the elements
of NIST's files are those that other people's scripts read.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from posnmt.base.errors import UserError
from posnmt.cli.main import main
from posnmt.corpora.fetch import fetch, spec


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def lines(path):
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


@pytest.fixture
def get(tmp_path, messages):
    def one(name, languages, origin=None):
        return fetch(spec({"name": name}), tmp_path / "cache", languages, messages.append, origin=origin)

    return one


@pytest.fixture
def aspec(tmp_path):
    """A folder like ASPEC, with the Japanese-English and the Japanese-Chinese corpus."""
    for number in (1, 2, 3):
        rows = (
            f"0.{9 - number} ||| K-9{number}A00 ||| {line} ||| 文{number}{line}。 ||| Line {number}{line} . |"
            for line in "ab"
        )
        write(tmp_path / "ASPEC" / "ASPEC-JE" / "train" / f"train-{number}.txt", *rows)
    for part in ("dev", "devtest", "test"):
        rows = [f"J-{part} 1 ||| 1 ||| {part}一 ||| {part} one", f"J-{part} 2 ||| 1 ||| {part}二 ||| {part} two"]
        write(tmp_path / "ASPEC" / "ASPEC-JE" / part / f"{part}.txt", *rows)
    write(tmp_path / "ASPEC" / "ASPEC-JC" / "dev" / "dev.txt", "J-1 ||| 日 ||| 中")
    return tmp_path / "ASPEC"


def test_aspec_is_read_from_its_folder_once(get, aspec, messages):
    found = get("aspec-train-ja-en", ("ja", "en"), aspec)
    assert lines(found.source) == ["文1a。", "文1b。", "文2a。", "文2b。", "文3a。", "文3b。"]
    assert lines(found.target) == [f"Line {number}{line} . |" for number in (1, 2, 3) for line in "ab"]
    assert (found.document_ids, found.lines, found.references) == (None, 6, ())
    assert "research only" in found.licence
    assert "aspec-train-ja-en: 6 pairs, but the catalogue lists 3,008,500" in messages
    assert get("aspec-train-ja-en", ("ja", "en")) == found  # without the folder


def test_the_parts_of_aspec_have_documents(get, aspec):
    for part in ("dev", "devtest", "test"):
        found = get(f"aspec-{part}-ja-en", ("ja", "en"), aspec / "ASPEC-JE")
        assert (lines(found.source), lines(found.target)) == (
            [f"{part}一", f"{part}二"],
            [f"{part} one", f"{part} two"],
        )
        assert lines(found.document_ids) == [f"J-{part}_1", f"J-{part}_2"]


def test_a_line_with_other_columns_is_left_blank_and_told(get, aspec, messages):
    file = aspec / "ASPEC-JE" / "train" / "train-2.txt"
    write(
        file, "0.7 ||| K ||| a ||| 文 ||| Good", "0.7 ||| K ||| a ||| 文 ||| one ||| more", "0.7 ||| K ||| 文 ||| few"
    )
    found = get("aspec-train-ja-en", ("ja", "en"), aspec)
    assert lines(found.source)[2:5] == ["文", "", ""]
    assert lines(found.target)[2:5] == ["Good", "", ""]
    told = f"2 of 7 lines have another number of columns than 5, and are left empty; the first is {file}:2"
    assert told in messages


@pytest.mark.parametrize(
    ("name", "folder", "fault"),
    [
        ("aspec-train-ja-en", None, r"cannot be fetched: .*apply to JST .*`posnmt data fetch aspec-train-ja-en --from"),
        ("aspec-train-ja-en", "nowhere", "there is no such folder"),
        ("aspec-dev-ja-en", "ASPEC", "it has several files dev/dev.txt: .*ASPEC-JC.*; name the folder that has one"),
        ("aspec-train-ja-en", "ASPEC/ASPEC-JC", "it has no train/train-1.txt.*; name its folder as it was unpacked"),
        ("nist-mt02-zh-en", "ASPEC", r"the files mt02_chinese_\*.xml in it have 0 sources and 0 references"),
        ("newstest2014-de-en", "ASPEC", "is fetched, and not read from a folder"),
        ("nist-train-zh-en", "ASPEC", "cannot be fetched: LDC training text.*give path"),
    ],
)
def test_what_is_not_there_is_said(get, aspec, tmp_path, name, folder, fault):
    languages = tuple(name.split("-")[-2:])
    with pytest.raises(UserError, match=fault):
        get(name, languages, None if folder is None else tmp_path / folder)


HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE mteval SYSTEM "ftp://jaguar.ncsl.nist.gov/mt/resources/mteval-xml-v1.3.dtd">
"""
DOCUMENTS = {"XIN 1": [["新闻。"], ["第一", "第二 & 三"]], "AFP2": [["头"], ["尾"]]}


def document(name, parts, translate, **attributes):
    """A document with a headline and a paragraph, as in the evaluation sets."""
    given = "".join(f' {key}="{value}"' for key, value in attributes.items())
    number, written = 0, []
    for tag, segments in zip(("hl", "p"), parts, strict=True):
        written.append(f"<{tag}>")
        for segment in segments:
            number += 1
            written.append(f'<seg id="{number}"> {translate(segment).replace("&", "&amp;")}\n</seg>')
        written.append(f"</{tag}>")
    return f'<doc docid="{name}" genre="nw"{given}>{"".join(written)}</doc>'


def source_file(folder, name="mt02_chinese_evalset_v0-src.xml", documents=DOCUMENTS):
    inside = "".join(document(each, parts, str) for each, parts in documents.items())
    return write(
        folder / name, f'{HEAD}<mteval><srcset setid="mt02_chinese" srclang="Chinese">{inside}</srcset></mteval>'
    )


def reference_file(folder, documents=DOCUMENTS, name="mt02_chinese_evalset_v0-ref.xml"):
    """Four references, whose documents are in another order than the source's."""
    sets = "".join(
        f'<refset setid="mt02_chinese" srclang="Chinese" trglang="English" refid="ref{number}">'
        + "".join(
            document(each, documents[each], lambda text, number=number: f"{text}, {number}", sysid="x")
            for each in reversed(documents)
        )
        + "</refset>"
        for number in (1, 2, 3, 4)
    )
    return write(folder / name, f"{HEAD}<mteval>{sets}</mteval>")


@pytest.fixture
def nist(tmp_path):
    folder = tmp_path / "LDC2010T10" / "nist_openmt_2002" / "data"
    source_file(folder)
    reference_file(folder)
    write(folder / "mt02_arabic_evalset_v0-ref.xml", "<mteval/>")
    return tmp_path / "LDC2010T10"


def test_a_test_set_of_nist_has_its_four_references(get, nist, messages):
    found = get("nist-mt02-zh-en", ("zh", "en"), nist)
    source = ["新闻。", "第一", "第二 & 三", "头", "尾"]
    assert lines(found.source) == source
    assert lines(found.target) == [f"{text}, 1" for text in source]
    assert lines(found.document_ids) == ["XIN_1"] * 3 + ["AFP2"] * 2
    assert [path.name for path in found.references] == ["target-2", "target-3", "target-4"]
    for number, path in enumerate(found.references, 2):
        assert lines(path) == [f"{text}, {number}" for text in source]
    told = [line for line in messages if "the first of 4 references" in line]
    assert [line.split(":")[0] for line in told] == ["nist-mt02-zh-en"]
    assert get("nist-mt02-zh-en", ("zh", "en")) == found
    found.references[1].write_text("changed\n")
    with pytest.raises(UserError, match=r"this text has changed since it was written .*target-3"):
        get("nist-mt02-zh-en", ("zh", "en"))


@pytest.mark.parametrize("name", ["aspec-train-ja-en", "aspec-dev-ja-en", "nist-mt02-zh-en"])
@pytest.mark.parametrize("turned_first", [False, True])
def test_both_directions_come_from_one_reading(get, aspec, nist, tmp_path, name, turned_first):
    """Whichever is asked for first, the other needs no folder; a text in the other direction has one translation."""
    origin = nist if name.startswith("nist") else aspec / "ASPEC-JE"
    pair = tuple(name.split("-")[-2:])
    get(name, pair[::-1] if turned_first else pair, origin)
    as_listed, turned = get(name, pair), get(name, pair[::-1])
    assert turned == replace(as_listed, source=as_listed.target, target=as_listed.source, references=())
    assert lines(as_listed.source)[0] in ("文1a。", "dev一", "新闻。")
    assert len([*(tmp_path / "cache" / "texts").glob("*/manifest.json")]) == 1


def damage(text, find, put):
    assert text.count(find) >= 1
    return text.replace(find, put, 1)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda text: damage(text, "</refset>", ""), "not well-formed XML"),
        (lambda text: damage(text, '<seg id="2">', '<seg id="9"/><seg id="2">'), "segment [23] of document AFP2"),
        (lambda text: text.replace('docid="AFP2"', 'docid="XIN 1"'), "two of its documents have one docid"),
        (lambda text: text.replace('docid="AFP2"', 'docid="AFP3"'), "segment 1 of document AFP2 is in one of"),
        (lambda text: damage(text, 'dtd">', 'dtd" [<!ENTITY a "b">]>'), "the file declares an entity"),
    ],
)
def test_a_damaged_test_set_is_refused(get, nist, change, fault):
    file = nist / "nist_openmt_2002" / "data" / "mt02_chinese_evalset_v0-ref.xml"
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(UserError, match=fault):
        get("nist-mt02-zh-en", ("zh", "en"), nist)


def test_two_versions_of_a_test_set_are_refused(get, nist):
    source_file(nist / "other", "mt02_chinese_evalset_v1-src.xml")
    with pytest.raises(UserError, match="have 2 sources and 4 references"):
        get("nist-mt02-zh-en", ("zh", "en"), nist)


def test_the_command_reads_a_folder_once(aspec, tmp_path):
    def run(*words):
        return CliRunner().invoke(main, ["data", "fetch", *words, "--cache", str(tmp_path / "cache")])

    names = ["aspec-dev-ja-en", "aspec-test-ja-en"]
    refused = run(*names)
    assert refused.exit_code == 2
    assert refused.stderr.count("--from FOLDER") == 2
    made = run(*names, "--from", str(aspec / "ASPEC-JE"))
    assert made.exit_code == 0, made.stderr
    assert made.stdout.count("\t") == 4
    assert run(*names).stdout == made.stdout
    manifest = json.loads((tmp_path / "cache" / "texts").glob("aspec-test*/manifest.json").__next__().read_text())
    assert manifest["licensed"]["tables"] == ["test/test.txt"]
