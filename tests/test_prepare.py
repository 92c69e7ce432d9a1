"""From text files to a store."""

import gzip
import hashlib
import io
import json
import lzma
import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from posnmt.config import Config
from posnmt.data import corpus as corpus_module
from posnmt.data import learn as learn_module
from posnmt.data.prepare import prepare, table
from posnmt.data.store import ROWS, SCHEMA, Split, SplitWriter, Store
from posnmt.errors import UserError

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
NOUNS = ["cat", "dog", "house", "tree", "river", "stone", "bird", "friend", "letter", "window"]
VERBS = ["sees", "likes", "finds", "paints", "follows"]


def sentences(count: int, of: str = "the {0} {1} the {2} number {3}") -> list[str]:
    return [of.format(NOUNS[i % 10], VERBS[i // 10 % 5], NOUNS[i // 3 % 10], i) for i in range(count)]


SOURCE = sentences(300)
TARGET = sentences(300, "number {3} , die {2} {1} der {0} !")


def write(folder: Path, name: str, lines: list[str]) -> None:
    (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, lines in {"train.en": SOURCE, "train.de": TARGET, "dev.en": SOURCE[:9], "dev.de": TARGET[:9]}.items():
        write(tmp_path, name, lines)
    return tmp_path


def configure(folder: Path, subword: dict[str, Any] | None = None, **data: Any) -> Config:
    files = {name: {"source": f"{name}.en", "target": f"{name}.de"} for name in ("train", "dev")}
    return Config.model_validate(
        {
            "data": {"root": str(folder), **files, "store": "stores", **data},
            "subword": {"vocabulary": 100, **(subword or {})},
            "train": {"steps": 1, "dev_bleu": False},
        }
    )


def contents(store: Store) -> list[Any]:
    """All that a store holds, as plain values."""
    pairs = []
    for name in store.splits:
        split = store.split(name)
        for index in range(len(split)):
            source, target = split.pair(index)
            pairs.append((name, int(split.lines[index]), split.document(index), source.tolist(), target.tolist()))
    return [pairs, store.manifest["splits"], store.text.source.subwords.model, store.split("dev").source_texts]


def faults_of(config: Config) -> list[str]:
    with pytest.raises(UserError) as raised:
        prepare(config)
    root = Path(config.data.root) / "stores"
    assert not root.exists() or not list(root.iterdir()), "nothing is left of a build that failed"
    return raised.value.lines


def test_a_store_holds_every_pair_in_order(folder: Path) -> None:
    store = prepare(configure(folder))
    train, dev = store.split("train"), store.split("dev")
    assert (len(train), len(dev)) == (300, 9)
    assert train.lines.tolist() == list(range(1, 301))
    for side, texts in (("source", SOURCE), ("target", TARGET)):
        rows = [train.pair(index)[side == "target"] for index in range(300)]
        assert getattr(store.text, side).decode([row.tolist() for row in rows]) == texts
        assert getattr(train, f"{side}_lengths").tolist() == [len(row) for row in rows]
        assert getattr(train, f"{side}_lengths").dtype == rows[0].dtype == np.int32
        assert store.manifest["splits"]["train"][side]["subwords"] == sum(len(row) for row in rows)
        assert store.manifest["splits"]["train"][side]["longest"] == max(len(row) for row in rows)
    assert (dev.source_texts, dev.target_texts) == (SOURCE[:9], TARGET[:9])
    assert train.document(0) is None
    with pytest.raises(ValueError, match="text of train is not kept"):
        _ = train.source_texts
    with pytest.raises(IndexError):
        train.pair(300)
    with pytest.raises(UserError, match="no split 'test'"):
        store.split("test")


def compressed(path: Path, ending: str) -> None:
    opener = {".gz": gzip.open, ".xz": lzma.open}[ending]
    with opener(f"{path}{ending}", "wb") as stream:
        stream.write(path.read_bytes())


def test_compressed_and_tabular_corpora_give_the_same_store(folder: Path) -> None:
    documents = [f"article-{index // 40} {index % 40}" for index in range(300)]
    write(folder, "train.ids", documents)
    rows = [f"{s}\t{t}\t{d.split()[0]}" for s, t, d in zip(SOURCE, TARGET, documents, strict=True)]
    write(folder, "train.tsv", rows)
    for name, ending in (("train.en", ".gz"), ("train.de", ".xz"), ("train.ids", ".gz"), ("train.tsv", ".xz")):
        compressed(folder / name, ending)
    corpora = [
        {"source": "train.en", "target": "train.de", "documents": "train.ids"},
        {"source": "train.en.gz", "target": "train.de.xz", "documents": "train.ids.gz"},
        {"tsv": "train.tsv"},
        {"tsv": "train.tsv.xz"},
    ]
    stores = [prepare(configure(folder, train=corpus)) for corpus in corpora]
    assert len({store.folder for store in stores}) == 4
    assert all(contents(store) == contents(stores[0]) for store in stores)
    split = stores[0].split("train")
    assert [split.document(index) for index in (0, 39, 40, 299)] == ["article-0", "article-0", "article-1", "article-7"]


def test_a_packed_file_without_its_ending_is_not_taken_for_the_prepared_one(folder: Path) -> None:
    compressed(folder / "train.en", ".gz")
    prepare(configure(folder, train={"source": "train.en.gz", "target": "train.de"}))
    (folder / "train.en.gz").rename(folder / "train.en")
    with pytest.raises(UserError, match="not valid UTF-8: byte 2 of the line is 0x8B"):
        prepare(configure(folder))


def test_unknown_characters_are_counted(folder: Path) -> None:
    write(folder, "dev.en", [SOURCE[0], "the 猫 sees 犬", *SOURCE[2:9]])
    splits = prepare(configure(folder)).manifest["splits"]
    assert [splits[name]["source"]["unknown"] for name in ("train", "dev")] == [0, 2]
    assert splits["dev"]["target"]["unknown"] == 0


def test_same_inputs_are_prepared_once(folder: Path) -> None:
    said: list[str] = []
    first = prepare(configure(folder))
    stamp = (first.folder / "train.arrow").stat()
    (folder / "train.en").rename(folder / "other-name.en")
    corpus = {"source": "other-name.en", "target": "train.de"}
    again = prepare(configure(folder, train=corpus), report=said.append)
    assert again.folder == first.folder
    assert (again.folder / "train.arrow").stat() == stamp
    assert said[-1] == f"these inputs are prepared already: {first.folder}"
    assert contents(again) == contents(first)

    write(folder, "train.de", [*TARGET[:-1], TARGET[-1].replace("!", ".")])
    assert prepare(configure(folder, train=corpus)).folder != first.folder
    assert prepare(configure(folder, train=corpus, max_length=50)).manifest["key"] != first.manifest["key"]


def test_where_stores_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSNMT_CACHE", str(folder / "cache"))
    assert prepare(configure(folder, store=None)).folder.parent == folder / "cache" / "stores"
    assert prepare(configure(folder)).folder.parent == folder / "stores"
    assert prepare(configure(folder), out=folder / "out").folder.parent == folder / "out"
    with pytest.raises(UserError, match="folder of stores is a file"):
        prepare(configure(folder), out=folder / "train.en")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("shared", [True, False])
def test_shared_and_separate_vocabularies(folder: Path, kind: str, shared: bool) -> None:
    text = prepare(configure(folder, {"type": kind, "shared": shared, "vocabulary": 60})).text
    assert text.shared is shared
    assert text.source.size == text.target.size == 64
    known_to_source = "!" in "".join(text.source.subwords.pieces)
    assert known_to_source is shared, "only the target text has exclamation marks"


def test_tokenisation_and_subwords_of_another_store(folder: Path) -> None:
    first = prepare(configure(folder, tokenise="moses", truecase=True))
    write(folder, "part.en", SOURCE[:20])
    write(folder, "part.de", TARGET[:20])
    part = {"train": {"source": "part.en", "target": "part.de"}, "tokenise": "moses", "truecase": True}
    subword = {"text": str(first.folder / "text")}
    store = prepare(configure(folder, subword, **part))
    assert store.folder != first.folder
    assert store.text.source.subwords.model == first.text.source.subwords.model
    assert store.text.source.encode(SOURCE[:3]) == first.text.source.encode(SOURCE[:3])
    assert store.text.shared
    assert len(store.split("train")) == 20
    # the folder's place is not its content, and the keys that do not count do not count
    moved = folder / "moved"
    shutil.copytree(first.folder / "text", moved)
    assert prepare(configure(folder, {"text": "moved", "vocabulary": 7}, **part)).folder == store.folder
    assert prepare(configure(folder, **part, subword=None)).folder != store.folder


def test_another_stores_text_must_be_what_the_config_says(folder: Path) -> None:
    first = prepare(configure(folder))
    text = {"text": str(first.folder / "text"), "shared": False}
    with pytest.raises(UserError) as raised:
        prepare(configure(folder, text, tokenise="moses", source_language="fr"))
    told = "\n".join(raised.value.lines)
    assert "data.source_language is 'fr', but subword.text was made with 'en'" in told
    assert "data.tokenise is 'moses', but subword.text was made with 'none'" in told
    assert "subword.shared is False, but subword.text was made with True" in told
    with pytest.raises(UserError, match="text settings"):
        prepare(configure(folder, {"text": "nowhere"}))


def test_too_large_vocabularies_of_both_sides_are_told_at_once(folder: Path) -> None:
    faults = faults_of(configure(folder, {"shared": False, "vocabulary": 9000}))
    assert [fault.split(" training text")[0] for fault in faults] == [
        "subword.vocabulary: 9000 is too large for the source",
        "subword.vocabulary: 9000 is too large for the target",
    ]


def test_long_training_pairs_are_dropped_with_a_reason_and_dev_is_kept(folder: Path) -> None:
    long = "the cat " * 60
    write(folder, "train.en", [*SOURCE[:4], long, "the cat", long, *SOURCE[4:]])
    write(folder, "train.de", [*TARGET[:4], "der cat", long, long, *TARGET[4:]])
    write(folder, "dev.en", [long, "the cat"])
    write(folder, "dev.de", ["der cat", "der cat"])
    store = prepare(configure(folder, max_length=40))
    account = store.manifest["splits"]
    assert account["train"]["dropped"] == {
        "empty": 0, "no subwords": 0, "source too long": 1, "target too long": 1, "both too long": 1,
    }  # fmt: skip
    assert (account["train"]["read"], account["train"]["kept"], account["train"]["kept_too_long"]) == (303, 300, 0)
    assert (account["dev"]["read"], account["dev"]["kept"], account["dev"]["kept_too_long"]) == (2, 2, 1)
    assert store.split("train").lines.tolist() == [1, 2, 3, 4, *range(8, 304)]

    short, full = (len(ids) for ids in store.text.source.encode(["the cat", long]))
    german = len(store.text.target.encode(["der cat"])[0])
    assert (store.folder / "dropped.tsv").read_text().split("\n") == [
        "split\tline\treason\tsource length\ttarget length",
        f"train\t5\tsource too long\t{full}\t{german}",
        f"train\t6\ttarget too long\t{short}\t{full}",
        f"train\t7\tboth too long\t{full}\t{full}",
        "",
    ]
    console = Console(file=io.StringIO(), width=100)
    console.print(table(store))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    rows = {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in
            (line.strip("│┃").split("│") for line in printed.split("\n"))}  # fmt: skip
    assert rows["read"] == ["303", "2"]
    assert rows["dropped: both too long"] == ["1", "0"]
    assert rows["kept"] == ["300", "2"]
    assert rows["kept though over data.max_length"] == ["0", "1"]


def test_length_limit_counts_subwords_exactly(folder: Path) -> None:
    store = prepare(configure(folder, max_length=None))
    lengths = np.maximum(store.split("train").source_lengths, store.split("train").target_lengths)
    limit = int(np.median(lengths))
    kept = prepare(configure(folder, max_length=limit)).split("train").lines
    assert kept.tolist() == (np.flatnonzero(lengths <= limit) + 1).tolist()
    assert 0 < len(kept) < 300


def test_no_training_pair_left(folder: Path) -> None:
    (fault,) = faults_of(configure(folder, max_length=1))
    assert fault.startswith(
        "no train pair is left: dropped are 300 both too long (data.train); raise data.max_length (1)"
    )


def test_accepted_faults_are_counted(folder: Path) -> None:
    write(folder, "train.en", [SOURCE[0] + "\r", "", *SOURCE[1:], "\u200b", SOURCE[5]])
    write(folder, "train.de", [TARGET[0], "etwas", *TARGET[1:], TARGET[4], " \u2028 "])
    faults = faults_of(configure(folder))
    assert [fault.split(" (")[0] for fault in faults] == ["line ends in CRLF", "empty line", "empty line"]
    assert f"({folder / 'train.en'}:2)" in faults[1]
    assert f"({folder / 'train.de'}:303)" in faults[2]

    store = prepare(configure(folder, accept=["empty", "crlf"]))
    dropped = store.manifest["splits"]["train"]["dropped"]
    assert (dropped["empty"], dropped["no subwords"]) == (2, 1)
    assert store.split("train").lines.tolist() == [1, *range(3, 302)]
    source = store.manifest["inputs"][0]
    assert (source["lines"], source["crlf_removed"], source["empty_lines"]) == (303, 1, 1)
    assert "\r" not in "".join(store.text.source.decode([store.split("train").pair(0)[0].tolist()]))


def test_faults_of_train_and_dev_are_told_together_and_nothing_is_written(folder: Path) -> None:
    (folder / "train.en").write_bytes(b"caf\xe9\n" * 300)
    (folder / "dev.de").write_bytes(b"a\n" * 8)
    faults = faults_of(configure(folder))
    assert [fault.split(" (")[0] for fault in faults] == [
        f"different line counts: {folder / 'dev.en'} has 9, {folder / 'dev.de'} has 8",
        "not valid UTF-8: byte 4 of the line is 0xE9, the first of 300 such lines",
    ]


def test_files_that_are_none_are_told_together(folder: Path) -> None:
    (folder / "train.de").unlink()
    (folder / "train.de").mkdir()
    (folder / "dev.en").unlink()
    (folder / "dev.de").write_bytes(b"")
    os.mkfifo(folder / "pipe")
    faults = faults_of(configure(folder, train={"source": "pipe", "target": "train.de"}))
    assert [fault.split(" (")[0] for fault in faults] == [
        "data.train.source is not a regular file, but it is read twice",
        "data.train.target is a folder, not a file",
        "data.dev.source does not exist",
        "data.dev.target is empty",
    ]


def test_line_separators_inside_a_line(folder: Path) -> None:
    write(folder, "train.en", [line.replace(" number", "\u2028number") for line in SOURCE])
    write(folder, "dev.en", [line.replace(" number", "\u0085number") for line in SOURCE[:9]])
    store = prepare(configure(folder))
    assert len(store.split("train")) == 300
    assert store.text.source.decode([store.split("train").pair(7)[0].tolist()]) == [SOURCE[7]]
    assert store.split("dev").source_texts == [line.replace(" number", "\u0085number") for line in SOURCE[:9]]


def test_byte_order_mark_is_removed_and_said(folder: Path) -> None:
    plain = contents(prepare(configure(folder)))
    (folder / "train.en").write_bytes(b"\xef\xbb\xbf" + (folder / "train.en").read_bytes())
    said: list[str] = []
    assert contents(prepare(configure(folder), report=said.append)) == plain
    assert f"{folder / 'train.en'}: the byte order mark at its start is removed" in said


def test_moses_and_truecasing(folder: Path) -> None:
    write(folder, "train.en", [f"{line.capitalize()}, and the {NOUNS[0]} too!" for line in SOURCE])
    store = prepare(configure(folder, tokenise="moses", truecase=True))
    text = store.text.source
    assert text.words.split("The cat sees it, too!") == "the cat sees it , too !"
    (ids,) = text.encode(["The cat sees the dog, and the house too!"])
    assert text.decode([ids]) == ["The cat sees the dog, and the house too!"]


def test_subwords_come_from_a_sample_that_only_its_size_changes(folder: Path) -> None:
    def model(**subword: Any) -> bytes:
        return prepare(configure(folder, {"vocabulary": 60, **subword})).text.source.subwords.model

    assert model(sample=50) != model()
    again = prepare(configure(folder, {"vocabulary": 60, "sample": 50}), out=folder / "again")
    assert again.text.source.subwords.model == model(sample=50)
    capped = prepare(configure(folder, {"vocabulary": 60, "sample": 50}, max_length=20))
    assert capped.text.source.subwords.model == model(sample=50), "a length cap leaves the vocabulary alone"


def bytes_of(store: Store) -> dict[str, str]:
    """SHA-256 of every file of a store."""
    files = [path for path in store.folder.rglob("*") if path.is_file()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_building_twice_gives_the_same_bytes(folder: Path) -> None:
    hashes = [bytes_of(prepare(configure(folder), out=folder / name)) for name in ("a", "b")]
    assert hashes[0] == hashes[1]
    assert {"manifest.json", "train.arrow", "dev.arrow", "dropped.tsv", "source.model"} <= set(hashes[0])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_number_of_processes_does_not_show(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Chunks of 20 pairs: the first few here, the others elsewhere, in truecasing, tokenising and encoding."""
    monkeypatch.setattr(corpus_module, "CHUNK", 20)
    monkeypatch.setattr(learn_module, "CHUNK", 20)
    write(
        folder,
        "train.en",
        [f"{line.capitalize()}, e.g. Mr. {index}. {line * (index % 9 // 8 * 9)}" for index, line in enumerate(SOURCE)],
    )
    write(folder, "train.ids", [f"article-{index // 40}" for index in range(300)])
    train = {"source": "train.en", "target": "train.de", "documents": "train.ids"}
    config = configure(
        folder,
        {"type": kind, "sample": 200, "vocabulary": 70},
        train=train,
        tokenise="moses",
        truecase=True,
        max_length=90,
    )
    started: list[int] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: started.append(1) or popen(*args, **options))
    stores = [prepare(config, out=folder / str(number), processes=number) for number in (1, 2, 3)]
    assert len(started) == 4 * (2 + 3), "truecasing, the tokens of either side, encoding"
    assert 0 < sum(stores[0].manifest["splits"]["train"]["dropped"].values()) < 300
    assert bytes_of(stores[0]) == bytes_of(stores[1]) == bytes_of(stores[2])


def test_interrupted_build_leaves_nothing(folder: Path) -> None:
    def interrupt(message: str) -> None:
        if message == "encoding data.dev":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(configure(folder), report=interrupt)
    assert list((folder / "stores").iterdir()) == []


def test_killed_build_leaves_nothing_that_is_used(folder: Path) -> None:
    config = configure(folder)
    script = (
        "import os, sys; from posnmt.config import Config; from posnmt.data.prepare import prepare\n"
        "def kill(message):\n    if message == 'encoding data.dev': os.kill(os.getpid(), 9)\n"
        "prepare(Config.model_validate_json(sys.argv[1]), report=kill)"
    )
    command = [sys.executable, "-c", script, config.model_dump_json()]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [path.name[0] for path in (folder / "stores").iterdir()] == ["."]
    store = prepare(config)
    assert (len(store.split("train")), len(store.split("dev"))) == (300, 9)


def test_two_builds_at_once_end_in_one_store(folder: Path) -> None:
    others: list[Store] = []

    def build_meanwhile(message: str) -> None:
        if message == "encoding data.train":
            others.append(prepare(configure(folder)))

    store = prepare(configure(folder), report=build_meanwhile)
    assert others[0].folder == store.folder
    assert list((folder / "stores").iterdir()) == [store.folder]


def test_input_that_changes_meanwhile_is_noticed(folder: Path) -> None:
    def change(message: str) -> None:
        if message == "encoding data.train":
            write(folder, "train.en", SOURCE[::-1])

    with pytest.raises(UserError, match="changed while it was being prepared"):
        prepare(configure(folder), report=change)
    assert list((folder / "stores").iterdir()) == []


def test_damaged_and_foreign_stores(folder: Path) -> None:
    with pytest.raises(UserError, match="no prepared store here"):
        Store.open(folder)
    store = prepare(configure(folder))
    (store.folder / "train.arrow").write_bytes((store.folder / "train.arrow").read_bytes()[:500])
    with pytest.raises(UserError, match="the store is damaged"):
        Store.open(store.folder).split("train")
    path = store.folder / "manifest.json"
    path.write_text(json.dumps({**store.manifest, "format": 999}))
    with pytest.raises(UserError, match="store of format 999"):
        Store.open(store.folder)
    path.write_text("{")
    with pytest.raises(UserError, match="the store is damaged"):
        Store.open(store.folder)


def test_rows_are_found_across_record_batches(tmp_path: Path) -> None:
    number = 2 * ROWS + 5
    with SplitWriter(tmp_path / "train.arrow") as writer:
        for first in range(0, number, 1000):
            rows = [
                {"line": index + 1, "document": f"d{index}", "source": [index] * (index % 4 + 1), "target": [index]}
                for index in range(first, min(first + 1000, number))
            ]
            writer.add(pa.RecordBatch.from_pylist(rows, SCHEMA))
    split = Split(tmp_path / "train.arrow")
    assert len(split) == number
    for index in (0, ROWS - 1, ROWS, 2 * ROWS - 1, 2 * ROWS, number - 1):
        source, target = split.pair(index)
        assert source.tolist() == [index] * (index % 4 + 1)
        assert (target.tolist(), split.document(index), split.lines[index]) == ([index], f"d{index}", index + 1)
    assert split.source_lengths.tolist() == [index % 4 + 1 for index in range(number)]
    assert not source.flags.owndata
    copy = pickle.loads(pickle.dumps(split))
    assert copy.pair(ROWS)[1].tolist() == [ROWS]


def test_chunks_do_not_show(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = contents(prepare(configure(folder)))
    monkeypatch.setattr(corpus_module, "CHUNK", 7)
    assert contents(prepare(configure(folder), out=folder / "chunked")) == whole


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real corpora are not here")
def test_real_corpus(tmp_path: Path) -> None:
    corpus = {"source": "dev.en", "target": "dev.de", "documents": "dev.ids"}
    config = configure(SHARED / "ende_manpages", {"vocabulary": 3000}, train=corpus, dev=None)
    store = prepare(config, out=tmp_path)
    lines = (SHARED / "ende_manpages" / "dev.en").read_text(encoding="utf-8").count("\n")
    split = store.split("train")
    account = store.manifest["splits"]["train"]
    assert account["read"] == lines == len(split) + sum(account["dropped"].values())
    assert store.splits == ["train"]
    assert split.document(0) is not None
