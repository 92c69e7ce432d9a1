"""Pairs of subwords for shared-private embeddings: how they are made, kept, and trained with."""

from __future__ import annotations

import pytest
import torch
import yaml
from safetensors.torch import load_file

from posnmt.base.errors import UserError
from posnmt.base.programs import found
from posnmt.data.pairing import pair_words, read_lexicon, translations_of
from posnmt.data.prepare import prepare
from posnmt.data.text import TextPipeline
from posnmt.data.word_pairs import WordPairs
from posnmt.run.resolve import load
from posnmt.run.run import Run
from tests.support import commands, corpus

SYMBOLS = ["<pad>", "<unk>", "<s>", "</s>"]
SOURCE, TARGET = [*SYMBOLS, "dog", "cat", "Rom", "the", "a"], [*SYMBOLS, "Rom", "der", "Hund", "Katze", "a", "x"]
COUNTS = [0] * 4 + [5, 9, 2, 50, 40], [0] * 4 + [3, 60, 5, 8, 1, 30]
TRAIN = {"steps": 6, "evaluate_every": 3, "average": 1}
NO_ALIGNER = found("eflomal-align") is None


def rows(pairs):
    from posnmt.data.word_pairs import CLASSES

    return {
        (SOURCE[s], TARGET[t], CLASSES[kind])
        for s, t, kind in zip(pairs.source, pairs.target, pairs.kinds, strict=True)
    }


def test_classes_in_their_order():
    """dog has the better claim to Hund; Rom is spelt alike; the most frequent that are left: the, a with der, x."""
    translations = {(4, 6): 0.8, (5, 6): 0.7, (5, 7): 0.6, (7, 5): 0.4}
    pairs = pair_words((SOURCE, TARGET), COUNTS, translations, 0.5)
    words = {
        ("dog", "Hund", "lm"),
        ("cat", "Katze", "lm"),
        ("Rom", "Rom", "wf"),
        ("a", "a", "wf"),
        ("the", "der", "ur"),
    }
    assert rows(pairs) == {(symbol, symbol, "all") for symbol in SYMBOLS} | words
    assert pairs.count() == {"all": 4, "lm": 2, "wf": 2, "ur": 1}


def test_the_threshold_counts():
    pairs = pair_words((SOURCE, TARGET), COUNTS, {(7, 5): 0.5}, 0.5)
    assert ("the", "der", "lm") in rows(pairs)
    assert ("cat", "x", "ur") in rows(pairs)  # by rank: x is the most frequent that is left, and so is cat
    assert ("the", "der", "lm") not in rows(pair_words((SOURCE, TARGET), COUNTS, {(7, 5): 0.49}, 0.5))


def test_there_and_back(tmp_path):
    pairs = pair_words((SOURCE, TARGET), COUNTS, {(4, 6): 0.8}, 0.5)
    pairs.save(tmp_path / "pairs.tsv")
    assert rows(WordPairs.load(tmp_path / "pairs.tsv", 9, 10)) == rows(pairs)
    for broken in ("source\ttarget\tclass\n0\t0\tall\n1\t0\tall\n", "source\ttarget\tclass\n0\t99\tur\n", "x\n", ""):
        (tmp_path / "pairs.tsv").write_text(broken)
        with pytest.raises(UserError, match="not the pairs of words of these vocabularies"):
            WordPairs.load(tmp_path / "pairs.tsv", 9, 10)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A configuration with a lexicon, and its run folder."""
    folder = tmp_path_factory.mktemp("pairs")
    path = corpus.make(folder, pairs=60, model={"system": "shared-private"}, train=TRAIN)
    text = prepare(load(path, ["model.system=transformer", "model.tie_embeddings=none"])).text
    pieces = text.source.subwords.pieces
    lexicon = [f"{pieces[10]}\t{pieces[20]}\t0.9", f"{pieces[11]}\t{pieces[21]}\t0.2", "nowhere\tnever\t1"]
    (folder / "lexicon").write_text("\n".join(lexicon) + "\n", encoding="utf-8")
    tree = yaml.safe_load(path.read_text())
    tree["subword"]["pairs"] = {"lexicon": str(folder / "lexicon")}
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    commands.run("train", path, "--out", folder / "run")
    return path


def test_a_lexicon_pairs_the_words_of_a_run(made):
    folder = made.parent / "run"
    pairs = Run.open(folder).text().pairs
    listed = dict(
        zip(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True), pairs.kinds.tolist(), strict=True)
    )
    assert listed[10, 20] == 1
    assert (11, 21) not in listed or listed[11, 21] == 3
    assert pairs.count()["wf"] > 0  # one vocabulary for both sides here
    weights = sum(weight.numel() for weight in Run.open(folder).model().source.table.words.parameters())
    d, shared = 16, {"all": 16, "lm": 14, "wf": 11, "ur": 8}
    assert weights == sum(number * (2 * d - shared[kind]) for kind, number in pairs.count().items())


def test_entries_that_name_no_subword_are_counted(made, tmp_path):
    said = []
    prepare(load(made), tmp_path, said.append)
    assert any(
        line.endswith("lexicon: 1 entries are not of two subwords of these vocabularies, and pair nothing")
        for line in said
    )
    assert any(line.startswith("pairs of subwords: 4 all, 1 lm, ") for line in said)


def test_resumed_it_ends_where_it_would_have(made, tmp_path):
    commands.run("train", made, "--out", tmp_path / "run", "--set", "train.steps=3")
    commands.run("train", made, "--out", tmp_path / "run", "--resume", "--set", "train.steps=6")
    once, again = (load_file(Run.open(folder).weights("last")) for folder in (made.parent / "run", tmp_path / "run"))
    assert once.keys() == again.keys()
    assert all(torch.equal(once[name], again[name]) for name in once)
    pairs = "text/pairs.tsv"
    assert (tmp_path / "run" / pairs).read_bytes() == (made.parent / "run" / pairs).read_bytes()


def test_it_translates_and_scores(made):
    source = made.parent / "corpus" / "test.source"
    out, _ = commands.run("translate", made.parent / "run", "--input", source, "--beam", "3")
    assert len(out.splitlines()) == len(source.read_text().splitlines())


@pytest.mark.parametrize("kind", ["huggingface", "ctranslate2"])
def test_it_is_not_exported(made, tmp_path, kind):
    pytest.importorskip({"huggingface": "transformers"}.get(kind, kind))
    [line] = commands.refused("export", made.parent / "run", "--format", kind, "--out", tmp_path / "out")
    assert "shared-private" in line
    assert not (tmp_path / "out").exists()


def test_the_pairs_are_a_part_of_the_stores_key(made, tmp_path):
    (tmp_path / "other").write_text("a\tb\t0.5\n")
    plain, paired, other = (
        prepare(load(made, settings), tmp_path).folder
        for settings in (
            ["model.system=transformer", "model.tie_embeddings=none", "subword.pairs=null"],
            [],
            [f"subword.pairs.lexicon={tmp_path / 'other'}"],
        )
    )
    assert len({plain, paired, other}) == 3
    assert not (plain / "text" / "pairs.tsv").exists()


def test_pairs_come_with_the_text_of_another_run(made, tmp_path):
    store = prepare(load(made, [f"subword.text={made.parent / 'run' / 'text'}", "subword.pairs={}"]), tmp_path)
    assert (store.folder / "text" / "pairs.tsv").read_bytes() == (made.parent / "run/text/pairs.tsv").read_bytes()


@pytest.mark.parametrize("line", ["a\tb", "a\tb\tc", "a\tb\t1.5", "a\tb\tnan", "a\tb\t0_1"])
def test_what_is_wrong_with_a_lexicon(made, tmp_path, line):
    (tmp_path / "lexicon").write_text(f"a\tb\t0.5\n{line}\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_lexicon(tmp_path / "lexicon", TextPipeline.load(made.parent / "run" / "text"))
    assert error.value.line().startswith(f"not an entry of a lexicon ({tmp_path / 'lexicon'}:2)")


def test_a_missing_aligner_or_lexicon_is_one_line(made, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(UserError, match="word alignments need eflomal, which is not installed"):
        prepare(load(made, ["subword.pairs={lexicon: null}"]), tmp_path / "stores")
    with pytest.raises(UserError, match="lexicon does not exist"):
        prepare(load(made, [f"subword.pairs.lexicon={tmp_path / 'none'}"]), tmp_path / "stores")


@pytest.mark.skipif(NO_ALIGNER, reason="eflomal is not installed")
def test_eflomal_finds_the_words_of_a_cipher():
    """Each source word has one translation, as many times in a sentence."""
    sentences = [[10 + (3 * row + 7 * place) % 13 for place in range(2 + row % 5)] for row in range(200)]
    found = translations_of((row, [word + 30 for word in row]) for row in sentences)
    best = {source: max((p, t) for (s, t), p in found.items() if s == source)[1] for source in range(10, 23)}
    assert sum(best[source] == source + 30 for source in best) >= 11
