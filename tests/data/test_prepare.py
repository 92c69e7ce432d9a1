"""From text files to a store."""

import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from posnmt.base.errors import UserError
from posnmt.config import segmenters
from posnmt.config.schema import Config, Data, Subword
from posnmt.data import prepare as prepare_module
from posnmt.data.learn import HELD_OUT_SEED
from posnmt.data.prepare import prepare, table
from posnmt.data.text import TextPipeline
from tests.support.prepare_case import (
    NOUNS,
    SOURCE,
    TARGET,
    configure,
    contents,
    faults_of,
    small_corpus,
    write,
)
from tests.support.shared import SHARED, needs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_corpus(tmp_path)


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
    with pytest.raises(ValueError, match="no text of train"):
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


def test_a_tabular_corpus_of_several_blocks_has_the_lines_of_two_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posnmt.data.corpus.CHUNK", 100)
    sources = [*SOURCE[:250], "", *SOURCE[251:]]
    write(folder, "train.en", sources)
    write(folder, "train.tsv", [f"{source}\t{target}" for source, target in zip(sources, TARGET, strict=True)])
    corpora: list[dict[str, str]] = [{"source": "train.en", "target": "train.de"}, {"tsv": "train.tsv"}]
    aligned, tabular = (prepare(configure(folder, train=corpus, accept=["empty"])) for corpus in corpora)
    lines = tabular.split("train").lines.tolist()
    assert lines == aligned.split("train").lines.tolist() == [*range(1, 251), *range(252, 301)]
    dropped = [(store.folder / "dropped.tsv").read_text() for store in (aligned, tabular)]
    assert "train\t251\tempty" in dropped[1]
    assert dropped[0] == dropped[1]


def test_a_packed_file_without_its_ending_is_not_taken_for_the_prepared_one(folder: Path) -> None:
    compressed(folder / "train.en", ".gz")
    prepare(configure(folder, train={"source": "train.en.gz", "target": "train.de"}))
    (folder / "train.en.gz").rename(folder / "train.en")
    with pytest.raises(UserError, match="it is compressed by gzip"):
        prepare(configure(folder))


def test_unknown_characters_are_counted(folder: Path) -> None:
    write(folder, "dev.en", [SOURCE[0], "the 猫 sees 犬", *SOURCE[2:9]])
    splits = prepare(configure(folder)).manifest["splits"]
    assert [splits[name]["source"]["unknown"] for name in ("train", "dev")] == [0, 2]
    assert splits["dev"]["target"]["unknown"] == 0


def test_same_inputs_are_prepared_once(folder: Path) -> None:
    messages: list[str] = []
    first = prepare(configure(folder))
    stamp = (first.folder / "train.arrow").stat()
    (folder / "train.en").rename(folder / "other-name.en")
    corpus = {"source": "other-name.en", "target": "train.de"}
    again = prepare(configure(folder, train=corpus), report=messages.append)
    assert again.folder == first.folder
    assert (again.folder / "train.arrow").stat() == stamp
    assert messages[-1] == f"these inputs are prepared already: {first.folder}"
    assert contents(again) == contents(first)

    write(folder, "train.de", [*TARGET[:-1], TARGET[-1].replace("!", ".")])
    assert prepare(configure(folder, train=corpus)).folder != first.folder
    assert prepare(configure(folder, train=corpus, max_length=50)).manifest["key"] != first.manifest["key"]


# Another value of each setting than that of `configure(folder, tokenise="moses")`.
OTHER_DATA: dict[str, Any] = {
    "source_language": "fr",
    "target_language": "fr",
    "tokenise": {"source": "moses", "target": "none"},
    "truecase": True,
    "max_length": 99,
    "accept": ["crlf"],
}
OTHER_SUBWORD: dict[str, Any] = {
    "shared": False,
    "type": "unigram",
    "vocabulary": 99,
    "character_coverage": 0.99,
    "normalisation": "nmt_nfkc",
    "sample": 299,
    "pairs": {"lexicon": "lexicon"},
    "sampling": {"segmentations": 2},
}
# Where subwords come from another run, these count: tests/training/test_continue.py.
OF_OTHERS = {"text", "pieces"}
# The corpora's contents count, which has tests of its own, and their places do not.
PLACES = {"root", "train", "dev", "store"}


def test_every_setting_of_the_text_makes_another_store(folder: Path) -> None:
    assert set(Data.model_fields) == set(OTHER_DATA) | PLACES | {"held_out"}, (
        "say here what a new setting does to the store"
    )
    assert set(Subword.model_fields) == set(OTHER_SUBWORD) | OF_OTHERS | {"byte_fallback"}

    write(folder, "lexicon", ["the\tdie\t0.5"])

    def key(subword: dict[str, Any], **data: Any) -> str:
        return prepare(configure(folder, subword, **{"tokenise": "moses", **data})).manifest["key"]

    keys = [key({}), *(key({}, **{name: value}) for name, value in OTHER_DATA.items())]
    keys += [key({name: value}) for name, value in OTHER_SUBWORD.items()]
    assert len(set(keys)) == 1 + len(OTHER_DATA) + len(OTHER_SUBWORD)
    large = {"vocabulary": 400}  # which has room for the bytes
    assert key(large) != key({**large, "byte_fallback": True})


def test_pairs_are_held_out_of_training_as_dev(folder: Path) -> None:
    whole = prepare(configure(folder, dev=None))
    store = prepare(configure(folder, dev=None, held_out=30))
    assert (
        whole.manifest["key"]
        != store.manifest["key"]
        != prepare(configure(folder, dev=None, held_out=31)).manifest["key"]
    )
    train, dev = (store.split(name).lines.tolist() for name in ("train", "dev"))
    assert (len(dev), sorted(train + dev)) == (30, list(range(1, 301)))
    assert dev == sorted(dev) != list(range(1, 31))
    assert store.split("dev").target_texts == [TARGET[line - 1] for line in dev]
    assert store.split("train").pair(0)[0].tolist() == store.text.source.encode([SOURCE[train[0] - 1]])[0]
    books = store.manifest["splits"]
    assert (books["train"]["read"], books["dev"]["read"]) == (270, 30)
    with pytest.raises(ValueError, match="held_out makes a dev corpus where there is none"):
        configure(folder, held_out=30)


def test_a_pair_that_occurs_again_is_not_held_out(folder: Path) -> None:
    """So no dev pair is trained on, wherever its copies stand; a source with another translation is no copy."""
    sources, targets = SOURCE[:40] * 3 + SOURCE[40:], TARGET[:40] * 3 + TARGET[40:]
    sources[-20:] = SOURCE[40:60]
    write(folder, "train.en", [f"{line} " if number < 40 else line for number, line in enumerate(sources)])
    write(folder, "train.de", targets)
    store = prepare(configure(folder, dev=None, held_out=200))
    train, dev = (store.split(name).lines.tolist() for name in ("train", "dev"))
    assert (len(dev), min(dev), len(train)) == (200, 121, 180)
    assert store.manifest["signs"]["dev_pairs_in_train"] == 0
    other = prepare(configure(folder, dev=None, held_out=261))
    assert other.split("dev").lines.tolist()[0] <= 120, "of 260 pairs that occur once, 261 cannot be drawn"


def test_without_copies_each_line_may_be_held_out(folder: Path) -> None:
    """By algorithm R over all lines, written out."""
    drawn, random = list(range(1, 31)), Random(HELD_OUT_SEED)
    for line in range(31, 301):
        if (place := random.randrange(line)) < 30:
            drawn[place] = line
    assert prepare(configure(folder, dev=None, held_out=30)).split("dev").lines.tolist() == sorted(drawn)


def test_the_store_of_a_config_has_kept_its_name(folder: Path) -> None:
    """A new option must not make another store, and another text pipeline, of a config that does not use it."""
    store = prepare(configure(folder, tokenise="moses", truecase=True, accept=["empty"]))
    assert store.manifest["key"] == "3d17c7e57079506bee1a275c89ce20cf91183d268f2ba330396cf631db2df368"
    settings = hashlib.sha256((store.folder / "text" / "text.json").read_bytes()).hexdigest()
    assert settings == "5f25127b9c30e01a4394a0e92d01253f3713e001aedad77fb2c24715fbb11a6a"
    sides = {"source": "moses", "target": "moses"}
    assert prepare(configure(folder, tokenise=sides, truecase=True, accept=["empty"])).folder == store.folder


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


def test_no_pair_is_left_for_other_reasons_than_its_length(folder: Path) -> None:
    """The advice is about what dropped them."""
    dev = folder / "blank"
    dev.write_text("\n")
    sides = {"source": str(dev), "target": str(dev)}
    [fault] = faults_of(configure(folder, accept=["empty"], dev=sides))
    assert fault == "no dev pair is left: dropped are 1 empty (data.dev); check the files"
    [fault] = faults_of(configure(folder, dev=None, held_out=300))
    assert fault == "all 300 pairs are held out, and none is left to train on (data.held_out); hold out fewer"


def test_accepted_faults_are_counted(folder: Path) -> None:
    write(folder, "train.en", [SOURCE[0] + "\r", "", SOURCE[1] + "\r", *SOURCE[2:], "\u200b", SOURCE[5]])
    write(folder, "train.de", [TARGET[0], "etwas", *TARGET[1:], TARGET[4], " \u2028 "])
    faults = faults_of(configure(folder))
    assert [fault.split(" (")[0] for fault in faults] == [
        "line ends in CRLF, the first of 2 such lines",
        "empty line",
        "empty line",
    ]
    assert f"({folder / 'train.en'}:2)" in faults[1]
    assert f"({folder / 'train.de'}:303)" in faults[2]

    reports: list[str] = []
    store = prepare(configure(folder, accept=["empty", "crlf"]), report=reports.append)
    assert [each for each in reports if "CR" in each] == [
        f"{folder / 'train.en'}: 2 lines end in CRLF; the CR is removed"
    ]
    dropped = store.manifest["splits"]["train"]["dropped"]
    assert (dropped["empty"], dropped["no subwords"]) == (2, 1)
    assert store.split("train").lines.tolist() == [1, *range(3, 302)]
    source = store.manifest["inputs"][0]
    assert (source["lines"], source["crlf_removed"], source["empty_lines"]) == (303, 2, 1)
    target = store.manifest["inputs"][1]
    assert (target["lines"], target["crlf_removed"], target["empty_lines"]) == (303, 0, 1)
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
    messages: list[str] = []
    assert contents(prepare(configure(folder), report=messages.append)) == plain
    assert f"{folder / 'train.en'}: the byte order mark at its start is removed" in messages


def test_moses_and_truecasing(folder: Path) -> None:
    write(folder, "train.en", [f"{line.capitalize()}, and the {NOUNS[0]} too!" for line in SOURCE])
    store = prepare(configure(folder, tokenise="moses", truecase=True))
    text = store.text.source
    assert text.words.split("The cat sees it, too!") == "the cat sees it , too !"
    (ids,) = text.encode(["The cat sees the dog, and the house too!"])
    assert text.decode([ids]) == ["The cat sees the dog, and the house too!"]


@pytest.mark.parametrize("code", ["fr-CA", "fra_Latn", "FR"])
def test_moses_has_the_rules_of_a_language_with_any_code(folder: Path, code: str) -> None:
    line = "L'homme qu'il aime"
    settings: dict[str, Any] = {"source_language": code, "tokenise": {"source": "moses", "target": "none"}}
    store = prepare(configure(folder, **settings))
    words = [store.text.source.words, TextPipeline.load(store.folder / "text").source.words]
    assert [(each.language, each.split(line)) for each in words] == [(code, "L' homme qu' il aime")] * 2
    assert words[1].join(words[1].split(line)) == line
    again = prepare(configure(folder, {"text": str(store.folder / "text")}, **settings))
    assert again.text.source.words.split(line) == "L' homme qu' il aime"


JAPANESE = [
    f"{noun}は{number}番のカードを見る。"
    for number, noun in zip(range(300), ["猫", "犬", "家", "木"] * 75, strict=True)
]


@pytest.fixture
def japanese(folder: Path) -> Config:
    """English that Moses tokenises and truecases, and Japanese that MeCab segments."""
    write(folder, "train.en", [f"{line.capitalize()}, and the {NOUNS[0]} too!" for line in SOURCE])
    write(folder, "train.ja", JAPANESE)
    write(folder, "dev.ja", JAPANESE[:9])
    files = {name: {"source": f"{name}.en", "target": f"{name}.ja"} for name in ("train", "dev")}
    sides = {"source": "moses", "target": "mecab"}
    return configure(folder, target_language="ja", tokenise=sides, truecase=True, **files)


def test_each_side_has_its_own_tokeniser(japanese: Config) -> None:
    store = prepare(japanese)
    source, target = store.text.source, store.text.target
    assert source.words.split("The cat sees it, too!") == "the cat sees it , too !"
    assert target.words.split("猫は12番のカードを見る。") == "猫 は 12 番 の カード を 見る 。"
    assert target.words.truecaser is None
    rows = [store.split("train").pair(index)[1].tolist() for index in range(300)]
    assert target.decode(rows) == JAPANESE
    assert "▁カード" in target.subwords.pieces, "subwords are learned from words"
    settings = json.loads((store.folder / "text" / "text.json").read_text())
    assert settings["target"] == {"language": "ja", "tokenise": "mecab", "truecase": False}
    assert settings["source"] == {"language": "en", "tokenise": "moses", "truecase": True}
    assert {"mecab-python3", "ipadic"} <= set(store.manifest["versions"])


def test_segmenters_of_another_stores_text_must_be_those_of_the_config(japanese: Config, folder: Path) -> None:
    first = prepare(japanese)
    text = japanese.model_dump(mode="json") | {"subword": {"text": str(first.folder / "text")}}
    assert len(prepare(Config.model_validate(text)).split("train")) == 300
    text["data"] |= {"tokenise": "moses"}
    with pytest.raises(
        UserError, match=r"data\.tokenise is 'moses', but subword\.text was made with \{'source': 'moses', "
    ):
        prepare(Config.model_validate(text))


def test_a_segmenter_that_is_not_installed_is_told_before_any_file_is_read(
    japanese: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segmenters, "find_spec", lambda module: None)
    monkeypatch.setattr(prepare_module, "input_files", lambda config: pytest.fail("files were looked at"))
    with pytest.raises(UserError, match=r"mecab segments Japanese and is not installed .*; pip install 'posnmt\[ja\]'"):
        prepare(japanese)


def test_subwords_come_from_a_sample_that_only_its_size_changes(folder: Path) -> None:
    def model(**subword: Any) -> bytes:
        return prepare(configure(folder, {"vocabulary": 60, **subword})).text.source.subwords.model

    assert model(sample=50) != model()
    again = prepare(configure(folder, {"vocabulary": 60, "sample": 50}), out=folder / "again")
    assert again.text.source.subwords.model == model(sample=50)
    capped = prepare(configure(folder, {"vocabulary": 60, "sample": 50}, max_length=20))
    assert capped.text.source.subwords.model == model(sample=50), "a length cap leaves the vocabulary alone"


@needs("ende_manpages")
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
