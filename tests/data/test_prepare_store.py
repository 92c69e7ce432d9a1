"""Stores are the same however they are built, and whole or not there."""

import gzip
import hashlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from posnmt.base import progress
from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.data import corpus as corpus_module
from posnmt.data import learn as learn_module
from posnmt.data.prepare import prepare
from posnmt.data.store import ROWS, SCHEMA, Split, SplitWriter, Store
from tests.support.prepare_case import SOURCE, configure, contents, left_in, small_corpus, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_corpus(tmp_path)


def bytes_of(store: Store) -> dict[str, str]:
    """SHA-256 of every file of a store."""
    files = [path for path in store.folder.rglob("*") if path.is_file()]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_building_twice_gives_the_same_bytes(folder: Path) -> None:
    hashes = [bytes_of(prepare(configure(folder), out=folder / name)) for name in ("a", "b")]
    assert hashes[0] == hashes[1]
    assert {"manifest.json", "train.arrow", "dev.arrow", "dropped.tsv", "source.model"} <= set(hashes[0])


@pytest.mark.parametrize(("kind", "processes", "tokenise"), [("bpe", 2, "moses"), ("unigram", 3, "none")])
def test_the_number_of_processes_does_not_show(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, processes: int, tokenise: str
) -> None:
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
        tokenise=tokenise,
        truecase=tokenise == "moses",
        max_length=90,
    )
    started: list[int] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: started.append(1) or popen(*args, **options))
    stores = [prepare(config, out=folder / str(number), processes=number) for number in (1, processes)]
    stages = 4 if tokenise == "moses" else 1
    assert len(started) == stages * processes, "truecasing, the tokens of either side, encoding; or encoding alone"
    assert 0 < sum(stores[0].manifest["splits"]["train"]["dropped"].values()) < 300
    assert bytes_of(stores[0]) == bytes_of(stores[1])


@pytest.mark.slow
def test_the_number_of_processes_does_not_show_in_segmented_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "CHUNK", 60)
    monkeypatch.setattr(learn_module, "CHUNK", 60)
    write(folder, "train.en", [f"北京大学的第{index}个学生，{line}。" for index, line in enumerate(SOURCE)])
    write(folder, "train.de", [f"東京大学の学生{index}人、{line}。" for index, line in enumerate(SOURCE)])
    sides, languages = {"source": "jieba", "target": "mecab"}, {"source_language": "zh", "target_language": "ja"}
    config = configure(folder, {"vocabulary": 90}, tokenise=sides, **languages)
    stores = [prepare(config, out=folder / str(number), processes=number) for number in (1, 2)]
    assert bytes_of(stores[0]) == bytes_of(stores[1])


def test_interrupted_build_leaves_nothing(folder: Path) -> None:
    def interrupt(message: str) -> None:
        if message == "encoding data.dev":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(configure(folder), report=interrupt)
    assert left_in(folder / "stores") == []


def test_killed_build_leaves_nothing_that_is_used(folder: Path) -> None:
    """Nor has it imported pandas by then, which Arrow does in many of its functions, and which takes a second."""
    config = configure(folder)
    script = (
        "import os, sys; from posnmt.config.schema import Config; from posnmt.data.prepare import prepare\n"
        "def kill(message):\n"
        "    if message == 'encoding data.dev' and 'pandas' not in sys.modules: os.kill(os.getpid(), 9)\n"
        "prepare(Config.model_validate_json(sys.argv[1]), report=kill)"
    )
    command = [sys.executable, "-c", script, config.model_dump_json()]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [path.name[0] for path in left_in(folder / "stores")] == ["."]
    store = prepare(config)
    assert left_in(folder / "stores") == [store.folder]
    assert (len(store.split("train")), len(store.split("dev"))) == (300, 9)


def test_two_builds_at_once_end_in_one_store(folder: Path) -> None:
    """The second waits for the first, and opens what that has made, without pandas."""
    config = configure(folder)
    script = (
        "import sys; from posnmt.config.schema import Config; from posnmt.data.prepare import prepare\n"
        "store = prepare(Config.model_validate_json(sys.argv[1]), report=lambda line: print(line, flush=True))\n"
        "assert store.split('train').lines[-1] == 300 and 'pandas' not in sys.modules"
    )
    command = [sys.executable, "-c", script, config.model_dump_json()]
    others = []

    def build_meanwhile(message: str) -> None:
        if message == "encoding data.train":
            others.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]))
            assert others[0].stdout is not None
            assert [others[0].stdout.readline() for _ in range(2)][1] == (
                "another process is preparing these inputs; waiting\n"
            )

    store = prepare(config, report=build_meanwhile)
    assert others[0].communicate()[0] == ""
    assert others[0].returncode == 0
    assert left_in(folder / "stores") == [store.folder]


def test_input_that_changes_meanwhile_is_noticed(folder: Path) -> None:
    def change(message: str) -> None:
        if message == "encoding data.train":
            write(folder, "train.en", SOURCE[::-1])

    with pytest.raises(UserError, match="changed while it was being prepared"):
        prepare(configure(folder), report=change)
    assert left_in(folder / "stores") == []


def test_input_files_are_hashed_once_until_they_change(folder: Path) -> None:
    def prepared() -> tuple[str, bool]:
        said: list[str] = []
        store = prepare(configure(folder), out=folder / "stores", report=said.append)
        return store.manifest["key"], "hashing the input files" in said

    source = folder / "train.en"
    key, hashed = prepared()
    assert hashed
    assert prepared() == (key, True)  # modified a moment ago: another change may have had the same time
    for path in folder.iterdir():
        if path.is_file():
            os.utime(path, (1e9, 1e9))
    assert [prepared(), prepared()] == [(key, True), (key, False)]

    content = source.read_bytes()
    source.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])  # the size is the same
    os.utime(source, (1e9, 1e9 + 1))
    changed, hashed = prepared()
    assert hashed
    assert changed != key
    source.write_bytes(content)
    os.utime(source, (1e9, 1e9))
    assert prepared() == (key, False)

    other = folder / "other"
    other.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    os.utime(other, (1e9, 1e9))
    other.replace(source)  # the same size and time, and another inode
    assert prepared() == (changed, True)


def test_a_store_of_other_versions_is_taken_with_a_warning(folder: Path) -> None:
    messages: list[str] = []
    store = prepare(configure(folder), folder / "out")
    prepare(configure(folder), folder / "out", messages.append)
    assert messages[-1].startswith("these inputs are prepared already")
    path = store.folder / "manifest.json"
    manifest = json.loads(path.read_text())
    now = manifest["versions"]
    manifest["versions"] = {**now, "sentencepiece": "0.1", "python": "3.0", "posnmt": "0.0"}
    path.write_text(json.dumps(manifest))
    assert prepare(configure(folder), folder / "out", messages.append).folder == store.folder
    assert messages[-1] == (
        f"warning: it was prepared with sentencepiece 0.1 ({now['sentencepiece']} is installed); to use what is"
        " installed, delete the folder and prepare again"
    )


def test_damaged_and_foreign_stores(folder: Path) -> None:
    with pytest.raises(UserError, match="no prepared store here"):
        Store.open(folder)
    store = prepare(configure(folder))
    (store.folder / "train.arrow").write_bytes((store.folder / "train.arrow").read_bytes()[:500])
    with pytest.raises(UserError, match="the store is damaged"):
        Store.open(store.folder).split("train")
    path = store.folder / "manifest.json"
    path.write_text(json.dumps({**store.manifest, "format": 999}))
    with pytest.raises(UserError, match="written by a newer posnmt, in format 999"):
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


@pytest.mark.parametrize("packed", [False, True])
def test_preparing_shows_what_is_done_and_the_time_left(folder: Path, monkeypatch, capsys, packed: bool) -> None:
    """Of plain text by its bytes, of packed text the pairs alone; the second pass knows how many there are."""
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(corpus_module, "CHUNK", 40)
    names = {}
    for side, name in (("source", "train.en"), ("target", "train.de")):
        names[side] = f"{name}.gz" if packed else name
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    with Display() as display:
        store = prepare(configure(folder, train=names), report=display.say, processes=1)
    shown = capsys.readouterr().err
    pairs = store.manifest["splits"]["train"]["read"]
    ends = [40 * (number + 1) for number in range(pairs // 40)]
    assert len(ends) > 3
    encoded = re.findall(rf"^encoding data.train +\d+%  (\d+) of {pairs} pairs  .+ left$", shown, flags=re.M)
    assert [*map(int, encoded)] == ends
    if packed:
        checked = re.findall(r"^checking data.train  (\d+) pairs$", shown, flags=re.M)
        assert [*map(int, checked)] == [*ends, pairs]
        return
    checked = re.findall(r"^checking data.train +(\d+)%  (\d+) pairs  .+ left$", shown, flags=re.M)
    assert [int(number) for _, number in checked] == ends
    texts = [(folder / name).read_bytes().splitlines(keepends=True) for name in names.values()]
    read = [sum(len(line) for text in texts for line in text[:end]) for end in (*ends, pairs)]
    assert [share for share, _ in checked] == [f"{each / read[-1]:.0%}"[:-1] for each in read[:-1]]
