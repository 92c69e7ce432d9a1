"""TMX from others: its document type is allowed, entities that it declares are not."""

from __future__ import annotations

import tracemalloc

import pytest

from posnmt.base.errors import UserError
from posnmt.corpora.tmx import write_tmx

UNIT = '<tu><tuv xml:lang="de"><seg>{}</seg></tuv><tuv xml:lang="en"><seg>one &amp; two</seg></tuv></tu>'


def converted(tmp_path, head, text, encoding="utf-8"):
    file, out = tmp_path / "a.tmx", [tmp_path / "de", tmp_path / "en"]
    file.write_bytes(f"{head}<tmx><body>{UNIT.format(text)}</body></tmx>".encode(encoding))
    assert write_tmx(file, ("de", "en"), out, print) == 1
    return [path.read_text() for path in out]


def test_a_document_type_is_allowed_and_not_fetched(tmp_path):
    head = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "http://localhost:9/tmx14.dtd">\n'
    assert converted(tmp_path, head, "eins &#228; zwei") == ["eins ä zwei\n", "one & two\n"]


@pytest.mark.parametrize(
    "declared",
    [
        '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">',
        '<!ENTITY b SYSTEM "file:///etc/hostname">',
        '<!ENTITY % a SYSTEM "file:///etc/hostname"> %a;',
    ],
    ids=["growing", "a file", "a parameter"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_declared_entities_are_refused(tmp_path, declared, encoding):
    head = f'<?xml version="1.0"?><!--{" " * 100_000}--><!DOCTYPE tmx [{declared}]>'
    with pytest.raises(UserError, match=r"declares an entity, [ab], .*a\.tmx"):
        converted(tmp_path, head, "&b;", encoding)


@pytest.mark.parametrize(
    "head", ["<!DOCTYPE tmx [", "", '<?xml version="1.0" encoding="shift_jis"?>', "<?xml encoding='x'?>"]
)
def test_what_is_not_xml(tmp_path, head):
    with pytest.raises(UserError, match="not well-formed XML"):
        converted(tmp_path, head, "<b>")


def memory(tmp_path, *units):
    """A memory of units, each with pairs of code and text."""
    tuv = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'.format
    written = "".join(f"<tu>{''.join(tuv(*each) for each in unit)}</tu>" for unit in units)
    file = tmp_path / "memory.tmx"
    file.write_text(f"<tmx><body>{written}</body></tmx>", encoding="utf-8")
    return file


def extracted(file, *languages):
    """The lines of both files, and what is reported."""
    out, reports = [file.with_name(f"out.{language}") for language in languages], []
    lines = write_tmx(file, languages, out, reports.append)
    texts = [path.read_text(encoding="utf-8").splitlines() for path in out]
    assert [lines, lines] == list(map(len, texts))
    return list(zip(*texts, strict=True)), reports


BUS = [("en", "bus"), ("pt-PT", "autocarro"), ("pt-BR", "ônibus")]


def test_a_region_is_named_where_a_unit_has_several(tmp_path):
    file = memory(tmp_path, BUS, [("en", "train"), ("pt-BR", "trem")], [("en", "tea"), ("PT", "chá")])
    with pytest.raises(UserError, match=r"1 units have several texts in pt: pt-PT \(1\), pt-BR \(1\) .*name one"):
        extracted(file, "en", "pt")
    assert extracted(file, "en", "pt_BR")[0] == [("bus", "ônibus"), ("train", "trem"), ("tea", "chá")]
    assert extracted(file, "en", "por-pt")[0] == [("tea", "chá")]  # neither says that por-pt is pt-PT
    pairs, reports = extracted(file, "en", "pt_pt")
    assert pairs == [("bus", "autocarro"), ("tea", "chá")]
    assert reports == [
        "memory.tmx: 1 of 3 units lack text in one of the languages and are skipped",
        "memory.tmx: units in pt_pt are in pt-PT (1), PT (1)",
    ]
    assert extracted(file, "pt_BR", "pt_PT")[0] == [("ônibus", "autocarro")]
    assert extracted(file, "pt_BR", "pt")[0] == [("ônibus", "autocarro")]


def test_regions_of_different_units_are_reported(tmp_path):
    file = memory(tmp_path, [("en-GB", "bus"), ("pt-PT", "autocarro")], [("en-US", "train"), ("pt-PT", "comboio")])
    pairs, reports = extracted(file, "eng", "pt")
    assert pairs == [("bus", "autocarro"), ("train", "comboio")]
    assert reports == ["memory.tmx: units in eng are in en-GB (1), en-US (1); name one of them to write it alone"]
    same = memory(tmp_path, [("en", "tea"), ("pt-PT", "chá"), ("pt-BR", "chá")])
    assert extracted(same, "en", "pt") == ([("tea", "chá")], [])


def test_several_texts_of_a_language_are_counted(tmp_path):
    file = memory(tmp_path, [("en", ""), ("en", "bus"), ("en", "coach"), ("pt", "ônibus")])
    assert extracted(file, "en", "pt") == (
        [("bus", "ônibus")],
        ["memory.tmx: 1 units have several texts in en; the first of each is written"],
    )


def test_the_languages_of_a_memory_are_listed(tmp_path):
    with pytest.raises(UserError, match="none of 1 units has both en and de; its languages: en, pt-BR, pt-PT"):
        extracted(memory(tmp_path, BUS), "en", "de")


def test_another_document_is_no_memory(tmp_path):
    file = tmp_path / "a.xlf"
    file.write_text("<xliff><file><body><trans-unit/></body></file></xliff>")
    with pytest.raises(UserError, match=r"no translation units \(tu\) .*a\.xlf\)"):
        extracted(file, "en", "de")


@pytest.mark.parametrize("prefix", ["", "t:"])
def test_elements_may_have_a_namespace(tmp_path, prefix):
    text = memory(tmp_path, BUS).read_text(encoding="utf-8").replace("bus", "b<ph>&lt;br/></ph>us")
    for name in ("tmx", "body", "tu", "tuv", "seg", "ph"):
        text = text.replace(f"<{name}>", f"<{prefix}{name}>").replace(f"<{name} ", f"<{prefix}{name} ")
        text = text.replace(f"</{name}>", f"</{prefix}{name}>")
    file = tmp_path / "memory.tmx"
    file.write_text(
        text.replace("tmx>", f'tmx xmlns{":t" * bool(prefix)}="http://www.lisa.org/tmx14">', 1), encoding="utf-8"
    )
    assert extracted(file, "en", "pt_BR")[0] == [("bus", "ônibus")]


def test_the_memory_needed_does_not_grow_with_the_file(tmp_path):
    def peak(units):
        file = memory(tmp_path, *([("en", f"{number}"), ("pt", "x" * 100)] for number in range(units)))
        tracemalloc.start()
        assert write_tmx(file, ("en", "pt"), [tmp_path / "1", tmp_path / "2"], print) == units
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(4000) < 2 * peak(1000)
