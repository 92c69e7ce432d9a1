"""A list of corpora in files of every format: what is read, what is refused, the store and its counts."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from posnmt.base.errors import UserError, UserErrors
from posnmt.config.schema import Config, Data
from posnmt.data import tables
from posnmt.data.corpus import Findings
from posnmt.data.listed import lines_of, part_of, read_parts
from posnmt.data.prepare import corpora_table, input_files, prepare
from posnmt.data.survey import languages_of, survey
from posnmt.data.suspicions import overlap, warnings
from tests.support.prepare_case import SOURCE, TARGET, configure, contents, small_corpus, write

PAIRS = [("a cat", "eine Katze"), ("two dogs", "zwei Hunde"), ("three\nred trees", "drei\trote Bäume")]
ON_A_LINE = [tuple(text.replace("\n", " ").replace("\t", " ") for text in pair) for pair in PAIRS]
TUV = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'


def tmx(units: list[list[tuple[str, str]]]) -> str:
    body = "".join(f"<tu>{''.join(TUV.format(*each) for each in unit)}</tu>\n" for unit in units)
    return f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>\n{body}</body></tmx>\n'


def written(folder: Path, name: str, pairs: list[tuple[str, str]] = PAIRS) -> dict[str, Any]:
    """A corpus in a file, by the ending of its name, and its section of a configuration."""
    plain = name.removesuffix(".gz").removesuffix(".xz")
    section: dict[str, Any] = {"file": name}
    if plain.endswith(".parquet"):
        parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        table = {"translation": [{"en": source, "de": target} for source, target in pairs]}
        parquet.write_table(arrow.table(table), folder / name, row_group_size=2)
        return {**section, "fields": {"source": "translation.en", "target": "translation.de"}}
    if plain.endswith(".tsv"):
        text = "".join("\t".join(each.replace("\n", " ").replace("\t", " ") for each in pair) + "\n" for pair in pairs)
    elif plain.endswith(".jsonl"):
        text = "".join(json.dumps({"translation": {"en": one, "de": two}}) + "\n" for one, two in pairs)
        section["fields"] = {"source": "translation.en", "target": "translation.de"}
    else:
        text = tmx([[("en", source), ("de", target)] for source, target in pairs])
    packed = {".gz": gzip.compress, ".xz": lzma.compress}.get(name.removeprefix(plain), bytes)(text.encode())
    (folder / name).write_bytes(packed)
    return section


def read(folder: Path, *sections: dict[str, Any], **accept: Any) -> list[tuple[int, int, str, str, str]]:
    """Corpus, line, source, target and mark of each pair."""
    data = Data.model_validate({"root": str(folder), "train": [*sections], **accept})
    findings = Findings(data.accept)
    rows = [
        (chunk.corpus, line & 0xFFFF, source, target, chunk.mark)
        for chunk in read_parts(input_files(data)["train"], findings)
        for line, source, target in zip(chunk.lines, chunk.sources, chunk.targets, strict=True)
    ]
    findings.raise_all()
    return rows


FILES = ["a.tsv", "a.tsv.gz", "a.jsonl", "a.jsonl.xz", "a.parquet", "a.tmx", "a.tmx.gz"]


@pytest.mark.parametrize("name", FILES)
def test_each_format_has_the_same_pairs(tmp_path, name):
    section = written(tmp_path, name)
    rows = read(tmp_path, section, {**section, "mark": "<x>"})
    alone = [(number, *pair) for number, pair in enumerate(ON_A_LINE, start=1)]
    assert rows == [(0, *each, "") for each in alone] + [(1, *each, "<x>") for each in alone]
    part = part_of(Data.model_validate({"root": str(tmp_path), "train": [section]}).corpora[0], Data.model_validate(
        {"root": str(tmp_path), "train": [section]}), "data.train.0")  # fmt: skip
    if "file" in part.files:
        assert lines_of(part, [range(1, 3)]) == (
            [pair[0] for pair in ON_A_LINE[1:]],
            [pair[1] for pair in ON_A_LINE[1:]],
        )


def test_columns_fields_and_languages_are_chosen(tmp_path):
    (tmp_path / "a.tsv").write_text("7\teins\tdoc\tone\n8\tzwei\tdoc\ttwo\n")
    fields = {"source": 4, "target": 2, "document": 3}
    data = Data.model_validate({"root": str(tmp_path), "train": [{"file": "a.tsv", "fields": fields}]})
    [chunk] = read_parts(input_files(data)["train"], Findings())
    assert (chunk.sources, chunk.targets, chunk.documents) == (["one", "two"], ["eins", "zwei"], ["doc", "doc"])
    (tmp_path / "b.jsonl").write_text('{"source": "one", "target": "eins", "a.b": "x", "a": {"b": "y"}}\n')
    assert read(tmp_path, {"file": "b.jsonl"})[0][2:4] == ("one", "eins")
    named = {"file": "b.jsonl", "fields": {"source": "a.b", "target": "target"}}
    assert read(tmp_path, named)[0][2:4] == ("x", "eins")
    (tmp_path / "c.tmx").write_text(tmx([[("fr-FR", "un"), ("es", "uno")], [("es", "dos"), ("fr", "deux")]]))
    assert [row[2:4] for row in read(tmp_path, {"file": "c.tmx"}, source_language="fr", target_language="es")] == [
        ("un", "uno"),
        ("deux", "dos"),
    ]
    memory = {"file": "c.tmx", "fields": {"source": "es", "target": "fr"}}
    assert read(tmp_path, memory)[0][2:4] == ("uno", "un")
    named = Data.model_validate({"train": [memory, {"source": "a.en", "target": "a.de"}]})
    assert languages_of(named) == ("es", "fr")


def parquet_of(folder: Path, **columns: Any) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(columns), folder / "a.parquet")


NAMED = {"source": "en", "target": "de"}
BAD = {
    "tsv columns": ("a.tsv", b"a\tb\nc\n", None, r"a\.tsv:2.*columns: 1, not 2 or 3|columns: 1.*a\.tsv:2"),
    "tsv column": (
        "a.tsv",
        b"a\tb\tc\nc\td\n",
        {"source": 1, "target": 3},
        r"column 3 of data\.train\.0\.fields; .* has 2.*",
    ),
    "tsv encoding": ("a.tsv", b"a\tb\nc\t\xe9\n", None, r"not valid UTF-8: byte 3 .*0xE9"),
    "json": ("a.jsonl", b'{"en": "a", "de": "b"}\n{"en": \n', NAMED, "not an object of JSON"),
    "json list": ("a.jsonl", b'["a", "b"]\n', NAMED, "it is of type array"),
    "json deep": ("a.jsonl", b"[" * 100_000 + b"\n", NAMED, "not an object of JSON"),
    "json number": ("a.jsonl", b'{"en": 1, "de": "b"}\n', NAMED, "'en' is of type number"),
    "json field": (
        "a.jsonl",
        b'{"en": "a", "fr": "b"}\n',
        NAMED,
        "a field is missing: 'de'; the object has 'en', 'fr'",
    ),
    "json empty": ("a.jsonl", b'{"en": "a", "de": null}\n', NAMED, "empty line"),
    "json nul": ("a.jsonl", b'{"en": "a\\u0000", "de": "b"}\n', NAMED, "a NUL character: in 'en'"),
    "json surrogate": ("a.jsonl", b'{"en": "a\\ud800", "de": "b"}\n', NAMED, "half of a surrogate pair"),
    "json encoding": ("a.jsonl", b'{"en": "\xe9", "de": "b"}\n', NAMED, "not valid UTF-8"),
    "damaged": ("a.jsonl.gz", gzip.compress(b'{"en": "a", "de": "b"}\n' * 99)[:-9], NAMED, "damaged .gz file"),
    "tmx": ("a.tmx", b"<tmx><body><tu></body></tmx>", None, "not well-formed XML"),
    "tmx entity": ("a.tmx", b'<!DOCTYPE t [<!ENTITY a "b">]><tmx><body>&a;</body></tmx>', None, "declares an entity"),
    "tmx damaged": ("a.tmx.xz", lzma.compress(tmx([]).encode())[:-9], None, "damaged .xz file"),
    "tmx languages": ("a.tmx", tmx([[("fr", "a"), ("es", "b")]]).encode(), None, r"none of 1 units has both en and de"),
    "tmx regions": (
        "a.tmx",
        tmx([[("en-US", "a"), ("en-GB", "b"), ("de", "c")]]).encode(),
        None,
        "1 units have several texts in en",
    ),
    "parquet": ("a.parquet", b"PAR1 and nothing", NAMED, "cannot be read as Parquet"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_has_its_place_and_what_to_do(tmp_path, case):
    name, content, fields, message = BAD[case]
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow.parquet")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as raised:
        read(tmp_path, {"file": name, **({} if fields is None else {"fields": fields})})
    [line] = raised.value.lines
    assert str(tmp_path / name) in line
    assert raised.value.todo or isinstance(raised.value, UserErrors)
    if case in ("tsv column", "tsv columns", "tsv encoding", "json"):
        assert f"{name}:2" in line


def test_faults_of_parquet_name_columns_and_rows(tmp_path):
    parquet_of(tmp_path, en=["a", "b"], de=["c", None], number=[1, 2])
    with pytest.raises(UserError, match=r"no column 'fr'; the file has 'en', 'de', 'number'"):
        read(tmp_path, {"file": "a.parquet", "fields": {"source": "en", "target": "fr"}})
    with pytest.raises(UserError, match=r"the column 'number' is no text: its type is int64"):
        read(tmp_path, {"file": "a.parquet", "fields": {"source": "en", "target": "number"}})
    with pytest.raises(UserError, match=r"empty line.*a\.parquet, row 2"):
        read(tmp_path, {"file": "a.parquet", "fields": NAMED})
    assert len(read(tmp_path, {"file": "a.parquet", "fields": NAMED}, accept=["empty"])) == 2
    arrow = pytest.importorskip("pyarrow")
    broken = arrow.Array.from_buffers(
        arrow.string(), 2, [None, arrow.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), arrow.py_buffer(b"a\xff")]
    )
    parquet_of(tmp_path, en=broken, de=["c", "d"])
    with pytest.raises(UserError, match=r"not valid UTF-8.*0xFF.*a\.parquet, row 2"):
        read(tmp_path, {"file": "a.parquet", "fields": NAMED})


def test_parquet_without_its_package_has_one_line(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match=r'reading Parquet needs pyarrow.*pip install "posnmt\[train\]"'):
        read(tmp_path, {"file": "a.parquet", "fields": NAMED})


def test_the_ending_of_an_expanded_name_counts(tmp_path, monkeypatch):
    section = written(tmp_path, "a.tsv")
    monkeypatch.setenv("CORPUS", "a.tsv")
    assert len(read(tmp_path, {**section, "file": "${CORPUS}"})) == 3
    monkeypatch.setenv("CORPUS", "a.txt")
    with pytest.raises(UserError, match=r"must end in \.tsv, .*data\.train\.0\.file"):
        read(tmp_path, {**section, "file": "${CORPUS}"})


# the store

PARTS = [(0, 100), (100, 180), (180, 300)]
"""The lines of the small corpus that each corpus of the list has."""


@pytest.fixture
def folder(tmp_path):
    """The small corpus, also in three files."""
    small_corpus(tmp_path)
    for number, (first, last) in enumerate(PARTS):
        write(tmp_path, f"part{number}.en", SOURCE[first:last])
        write(tmp_path, f"part{number}.de", TARGET[first:last])
    return tmp_path


def listed(folder: Path, *changes: dict[str, Any], subword: dict[str, Any] | None = None, **data: Any) -> Config:
    sections = [{"source": f"part{number}.en", "target": f"part{number}.de"} for number in range(3)]
    train = [{**section, **change} for section, change in zip(sections, [*changes, {}, {}, {}], strict=False)]
    return configure(folder, subword, train=train, **data)


def test_a_list_has_the_subwords_and_pairs_of_one_file(folder):
    alone, several = prepare(configure(folder)), prepare(listed(folder))
    [pairs, splits, model, texts], [one, counts, learned, sources] = contents(several), contents(alone)
    assert (model, texts, splits) == (learned, sources, counts)
    assert [each[3:] for each in pairs] == [each[3:] for each in one]
    train = several.split("train")
    assert train.corpora.tolist() == [0] * 100 + [1] * 80 + [2] * 120
    assert train.lines.tolist() == [*range(1, 101), *range(1, 81), *range(1, 121)]
    assert train.where(150) == "line 51 of data.train.1"
    assert alone.split("train").where(150) == "line 151"
    assert alone.manifest.get("corpora") is None
    assert [each["kept"] for each in several.manifest["corpora"]] == [100, 80, 120]


def test_the_key_of_one_corpus_is_what_it_was(folder):
    """This key was computed before lists existed."""
    key = prepare(configure(folder)).manifest["key"]
    assert key == "1e4fe857cf6c2d795930f2d845e8e2c197dcc41d6fb723d8a6dbf98b6d6b4db0"


def test_weights_and_stages_prepare_nothing_anew_and_marks_and_texts_do(folder):
    key = prepare(listed(folder)).manifest["key"]
    again = listed(folder, {"weight": 3}, {"from": 0.5}, {"until": 0.5})
    assert prepare(again).manifest["key"] == key
    other = [listed(folder, {"mark": "<a>"}), configure(folder), configure(folder, train=[{"tsv": "t.tsv"}])]
    write(folder, "t.tsv", [f"{one}\t{two}" for one, two in zip(SOURCE, TARGET, strict=True)])
    columns = {"file": "t.tsv", "fields": {"source": 1, "target": 2}}
    swapped = {"file": "t.tsv", "fields": {"source": 2, "target": 1}}
    other += [configure(folder, train=[each]) for each in (columns, swapped)]
    keys = [prepare(each).manifest["key"] for each in other]
    assert len({key, *keys}) == 1 + len(keys)
    write(folder, "part1.de", [*TARGET[100:179], "something else"])
    assert prepare(listed(folder)).manifest["key"] not in (key, *keys)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_mark_is_one_subword_before_each_source(folder, shared, kind):
    marks, subword = ["<news>", "[[x-y]]"], {"shared": shared, "type": kind, "vocabulary": 60}
    config = listed(folder, {"mark": marks[0]}, {}, {"mark": marks[1]}, subword=subword)
    store, plain = prepare(config), prepare(listed(folder, subword=subword))
    train, without = store.split("train"), plain.split("train")
    source = store.text.source
    ids = [source.subwords.pieces.index(mark) for mark in marks]
    assert source.size == plain.text.source.size + 2
    assert store.text.target.size == plain.text.target.size + 2 * shared
    moved = 2  # the entries of the marks come first
    for pair, mark in ((0, ids[0]), (99, ids[0]), (100, None), (299, ids[1])):
        expected = [each + moved for each in without.pair(pair)[0].tolist()]
        found = train.pair(pair)[0].tolist()
        assert found[-len(expected) :] == expected
        assert found.count(mark) == (mark is not None)
        assert len(found) == len(expected) + 2 * (mark is not None)  # and the blank before it
    text = f"{marks[0]} {SOURCE[0]}"
    assert source.encode([text]) == [train.pair(0)[0].tolist()]
    assert store.text.marked(marks[0]).source.encode([SOURCE[0]]) == [train.pair(0)[0].tolist()]
    assert source.decode([train.pair(0)[0].tolist()]) == [text]
    assert source.encode([f"{marks[0]} \u200b"]) == [[]]
    assert type(store.text).load(store.folder / "text").source.marks == (*marks,)
    assert overlap(store.split("dev"), train) == 0
    assert store.manifest["signs"]["dev_pairs_in_train"] == 9


def test_random_segmentations_keep_marks_whole(folder):
    store = prepare(listed(folder, {"mark": "<news>"}, subword={"sampling": {"segmentations": 3, "dropout": 0.5}}))
    before = store.text.source.subwords.encode(["<news>"])[0]
    sources = [
        [each.pair(0)[0].tolist() for each in store.trained()],
        [each.pair(150)[0].tolist() for each in store.trained()],
    ]
    assert all(ids[: len(before)] == before for ids in sources[0])
    assert len({*map(tuple, sources[0])}) > 1
    assert not any(before[-1] in ids for ids in sources[1])
    assert store.text.source.decode(sources[0]) == [f"<news> {SOURCE[0]}"] * 3


def test_tokenising_leaves_marks_alone(folder):
    store = prepare(listed(folder, {"mark": "<news>"}, tokenise="moses", truecase=True))
    text = f"<news> {SOURCE[0]}, one"
    assert store.text.source.split(text) == f"<news> {store.text.source.split(SOURCE[0] + ', one')}"


def test_a_vocabulary_that_cannot_spell_a_mark_is_refused(folder):
    text = str(prepare(configure(folder)).folder / "text")
    with pytest.raises(UserError, match="lacks characters of the mark <news>"):
        prepare(listed(folder, {"mark": "<news>"}, subword={"text": text}))


def test_the_table_counts_each_corpus(folder):
    units = [[("en", one), ("de", two)] for one, two in zip(SOURCE[:5], TARGET[:5], strict=True)]
    units.insert(2, [("fr", "un"), ("de", "eins")])
    (folder / "memory.tmx").write_text(tmx(units))
    write(folder, "part0.de", ["", *TARGET[1:99], "x " * 200])
    config = listed(folder, {"weight": 0.5}, accept=["empty"], max_length=50)
    memory = {"file": "memory.tmx", "weight": 2.5, "mark": "<tm>", "until": 0.5}
    config = configure(folder, accept=["empty"], max_length=50, train=[
        each.model_dump(by_alias=True, exclude_none=True) for each in config.data.corpora] + [memory])  # fmt: skip
    messages: list[str] = []
    store = prepare(config, report=messages.append)
    assert "memory.tmx: 1 of 6 units lack text in one of the languages and are skipped" in messages
    first, last = store.manifest["corpora"][0], store.manifest["corpora"][3]
    assert (first["read"], first["kept"], first["dropped"]["empty"]) == (100, 98, 1)
    assert first["dropped"]["target too long"] == 1
    assert (last["read"], last["kept"], last["dropped"]["not in both languages"]) == (6, 5, 1)
    for each in store.manifest["corpora"]:
        assert each["read"] == each["kept"] + each["held_out"] + sum(each["dropped"].values())
    rows = [line.split("\t") for line in (store.folder / "dropped.tsv").read_text().splitlines()]
    assert rows[0][:4] == ["split", "corpus", "line", "reason"]
    assert rows[1][:4] == ["train", "0", "1", "empty"]
    assert rows[2][:4] == ["train", "0", "100", "target too long"]
    console = Console(record=True, width=200)
    console.print(corpora_table(store, config.data))
    shown = {
        line.split("│")[1].strip(): line.split("│")[2:-1] for line in console.export_text().splitlines() if "│" in line
    }
    assert [cell.strip() for cell in shown["0: part0.en"]] == ["100", "0", "1", "1", "0", "98", "0.5", "49", "always"]
    cells = [cell.strip() for cell in shown["3: memory.tmx <tm>"]]
    assert cells == ["6", "0", "0", "0", "1", "5", "2.5", "12.5", "from 0 until 0.5"]
    assert corpora_table(store, configure(folder).data) is None


def test_a_corpus_without_a_pair_is_refused(folder):
    write(folder, "part1.de", ["x " * 200] * 80)
    with pytest.raises(UserError, match=r"no train\.1 pair is left: dropped are 80 target too long"):
        prepare(listed(folder, max_length=50))


def test_held_out_pairs_occur_once_in_all_corpora(folder):
    """The second corpus has half of the first once more."""
    write(folder, "part1.en", SOURCE[:50] + SOURCE[100:130])
    write(folder, "part1.de", TARGET[:50] + TARGET[100:130])
    config = listed(folder, {}, {"mark": "<b>"}, dev=None, held_out=120)
    store = prepare(config)
    dev = store.split("dev")
    assert [text.startswith("<b> ") for text in dev.source_texts] == (dev.corpora == 1).tolist()
    texts = [text.removeprefix("<b> ") for text in dev.source_texts]
    assert len(dev) == 120
    assert not {*texts} & {*SOURCE[:50]}
    assert {*dev.corpora.tolist()} == {0, 1, 2}
    assert len(store.split("train")) == 300 - 120
    assert sum(each["held_out"] for each in store.manifest["corpora"]) == 120
    held = {(int(corpus), int(line)) for corpus, line in zip(dev.corpora, dev.lines, strict=True)}
    train = store.split("train")
    kept = {(int(corpus), int(line)) for corpus, line in zip(train.corpora, train.lines, strict=True)}
    assert not held & kept
    assert len(held | kept) == 300


def test_processes_do_not_change_a_store(folder, monkeypatch):
    monkeypatch.setattr("posnmt.data.corpus.CHUNK", 30)
    monkeypatch.setattr(tables, "CHUNK", 30)
    one = prepare(listed(folder, {"mark": "<a>"}), out=folder / "one", processes=1)
    two = prepare(listed(folder, {"mark": "<a>"}), out=folder / "two", processes=2)
    assert one.manifest["files"] == two.manifest["files"]


def test_warnings_name_the_corpus_and_count_all(folder):
    write(folder, "part1.de", TARGET[100:180])
    write(folder, "t.jsonl", [json.dumps({"source": a, "target": a}) for a in SOURCE[:150]])
    config = configure(folder, train=[{"source": "part1.en", "target": "part1.de"}, {"file": "t.jsonl"}])
    [*found] = warnings(prepare(config), config.data)
    assert any("a copy of the source in 150 of 230 pairs" in each for each in found)
    moved = [*TARGET[181:300], TARGET[180]]
    write(folder, "u.jsonl", [
        json.dumps({"source": a, "target": b}) for a, b in zip(SOURCE[180:], moved, strict=True)])  # fmt: skip
    config = configure(folder, train=[{"source": "part0.en", "target": "part0.de"}, {"file": "u.jsonl"}])
    assert any(
        each.startswith("train.1: ") and "one line early" in each for each in warnings(prepare(config), config.data)
    )
    exchanged = configure(folder, train=[{"source": "part0.de", "target": "part0.en"}, {"file": "u.jsonl"}])
    assert any(
        "by their names the files are de and en" in each for each in warnings(prepare(exchanged), exchanged.data)
    )


def test_a_survey_counts_all_corpora(folder):
    parts = input_files(listed(folder).data)["train"]
    whole, [one] = survey(parts), [survey(input_files(configure(folder).data)["train"])]
    assert (whole.pairs, whole.characters, whole.alphabet) == (one.pairs, one.characters, one.alphabet)
