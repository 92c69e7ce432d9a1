"""Random segmentations: drawn from the papers' distributions, the same in any process, of training pairs alone."""

from __future__ import annotations

import hashlib
import itertools
import math
import pickle
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.config.schema import Subword, SubwordSampling
from posnmt.data import corpus as corpus_module
from posnmt.data.batch import BatchPlan
from posnmt.data.joined import Concatenated
from posnmt.data.prepare import prepare, sampled
from posnmt.data.sampling import Sampler
from posnmt.data.store import Store
from posnmt.data.subword import BLANK, SPECIALS, Subwords
from posnmt.evaluation.analyse.seen import training_store
from posnmt.evaluation.show.collect import trained_tokens
from posnmt.run.resolve import load
from posnmt.training.build import batch_plan, training_pairs
from posnmt.training.checks import largest_batch
from posnmt.training.train import train
from tests.support import commands, corpus
from tests.support.prepare_case import SOURCE, TARGET, configure, contents, small_corpus, write

KINDS = ("bpe", "unigram")
TEXT = ["abab abc ab cab", "cabab ab abc", "bab abab", "cab cabab abc"] * 5


@cache
def learned(kind: str) -> Subwords:
    return Subwords.learn(SOURCE, Subword(type=kind, vocabulary=70), "shared")


@cache
def tiny(kind: str) -> Subwords:
    """A model of a, b and c with a few longer pieces."""
    return Subwords.learn(TEXT, Subword(type=kind, vocabulary=10), "shared")


def sampler(subwords: Subwords, **settings: float) -> Sampler:
    return Sampler(subwords, SubwordSampling.model_validate({"segmentations": 1, **settings}))


def draws(drawing: Sampler, text: str, number: int) -> list[list[int]]:
    random = Random(1)
    return [row for _ in range(number // drawing.settings.segmentations) for row in drawing.samples(text, random)]


def scores(subwords: Subwords) -> dict[str, float]:
    processor = subwords._processor
    return {piece: processor.get_score(number) for number, piece in enumerate(subwords.pieces) if number >= SPECIALS}


lines = st.lists(st.sampled_from([*" abcdeinorst", "the", "cat", "house", "犬", "猫", "<s>", BLANK, "\u2585"])).map(
    "".join
)


@pytest.mark.parametrize("kind", KINDS)
@given(line=lines, seed=st.integers(0, 9))
def test_without_chance_it_is_the_usual_segmentation(kind, line, seed):
    """Of BPE, subword for subword; the unigram model has several best ones at times, with the same score."""
    subwords = learned(kind)
    [ids] = sampler(subwords, dropout=0.0, alpha=100.0).samples(line, Random(seed))
    [usual] = subwords.encode([line])
    if kind == "bpe":
        assert ids == usual
    else:
        value = [sum(subwords._processor.get_score(number) for number in row) for row in (ids, usual)]
        assert value[0] == pytest.approx(value[1], abs=0.5)


@pytest.mark.parametrize("kind", KINDS)
@given(line=lines, seed=st.integers(0, 9))
def test_every_segmentation_is_of_the_same_text(kind, line, seed):
    subwords = learned(kind)
    rows = sampler(subwords, segmentations=5, dropout=0.5, alpha=0.1).samples(line, Random(seed))
    assert subwords.decode(rows) == subwords.decode(subwords.encode([line]) * 5)


def bpe_dropout(word: str, ranks: dict[str, float], dropout: float) -> dict[tuple[str, ...], float]:
    """Algorithm 1 of Provilkov et al. 2020: the probability of each outcome, over all sets of dropped merges."""

    @cache
    def outcomes(pieces: tuple[str, ...]) -> dict[tuple[str, ...], float]:
        merges = [place for place in range(len(pieces) - 1) if pieces[place] + pieces[place + 1] in ranks]
        result: Counter[tuple[str, ...]] = Counter()
        for kept in itertools.product((False, True), repeat=len(merges)):
            left = [place for place, keep in zip(merges, kept, strict=True) if keep]
            probability = dropout ** (len(merges) - len(left)) * (1 - dropout) ** len(left)
            if not left:
                result[pieces] += probability
                continue
            best = max(left, key=lambda place: (ranks[pieces[place] + pieces[place + 1]], -place))
            merged = (*pieces[:best], pieces[best] + pieces[best + 1], *pieces[best + 2 :])
            for outcome, share in outcomes(merged).items():
                result[outcome] += probability * share
        return dict(result)

    return outcomes(tuple(word))


def smoothed(word: str, logs: dict[str, float], alpha: float) -> dict[tuple[str, ...], float]:
    """P(x)^alpha / sum P(x)^alpha over all segmentations x of a word."""
    weights = {}
    for cuts in itertools.product((False, True), repeat=len(word) - 1):
        places = [0, *(place for place, cut in enumerate(cuts, start=1) if cut), len(word)]
        pieces = tuple(word[start:end] for start, end in itertools.pairwise(places))
        if all(piece in logs for piece in pieces):
            weights[pieces] = math.exp(alpha * sum(logs[piece] for piece in pieces))
    total = sum(weights.values())
    return {pieces: weight / total for pieces, weight in weights.items()}


@pytest.mark.parametrize(
    ("kind", "chance"),
    [("bpe", {"dropout": 0.3}), ("bpe", {"dropout": 0.7}), ("unigram", {"alpha": 0.4}), ("unigram", {"alpha": 0.0})],
    ids=str,
)
def test_segmentations_have_the_papers_probabilities(kind, chance):
    subwords, word, number = tiny(kind), f"{BLANK}cabab", 20_000
    expected = (bpe_dropout if kind == "bpe" else smoothed)(word, scores(subwords), *chance.values())
    assert sum(expected.values()) == pytest.approx(1)
    assert len(expected) > 5
    rows = draws(sampler(subwords, segmentations=100, **chance), "cabab", number)
    counts = Counter(tuple(subwords.pieces[index] for index in row) for row in rows)
    assert set(counts) <= set(expected)
    for pieces, probability in expected.items():
        deviation = math.sqrt(number * probability * (1 - probability))
        assert abs(counts[pieces] - number * probability) < 4.5 * deviation, pieces


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_segmented_independently(kind):
    rows = draws(sampler(tiny(kind), segmentations=100, dropout=0.5, alpha=0.5), "ab cab", 4000)
    joint: Counter[tuple[str, str]] = Counter()
    for row in rows:
        first, second = " ".join(tiny(kind).pieces[index] for index in row).split(BLANK)[1:]
        joint[first, second] += 1
    for (first, second), count in joint.items():
        alone = [sum(n for pair, n in joint.items() if pair[side] == (first, second)[side]) for side in (0, 1)]
        assert count == pytest.approx(alone[0] * alone[1] / 4000, abs=4.5 * math.sqrt(count) + 5)


def test_models_that_cannot_be_sampled_are_refused():
    import io

    import sentencepiece

    characters = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SOURCE), model_writer=characters, model_type="char", minloglevel=2
    )
    beside = Subwords(learned("bpe").model, learned("bpe").pieces)
    for subwords in (Subwords(characters.getvalue()), beside):
        with pytest.raises(UserError, match="BPE and unigram models only") as raised:
            sampler(subwords)
        assert "subword.sampling" in raised.value.lines[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_corpus(tmp_path)


def sampling(**settings: object) -> dict[str, object]:
    return {"sampling": {"segmentations": 3, "dropout": 0.3, **settings}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_holds_random_segmentations_of_training_pairs_alone(folder: Path, kind: str) -> None:
    plain = prepare(configure(folder, {"type": kind}))
    store = prepare(configure(folder, {"type": kind, **sampling()}))
    assert store.folder != plain.folder
    assert contents(store) == contents(plain), "train, dev and the vocabulary are as without"
    assert [split.path.name for split in plain.trained()] == ["train.arrow"]
    assert [split.path.name for split in store.trained()] == ["train.1.arrow", "train.2.arrow", "train.3.arrow"]
    assert {path.name for path in store.folder.glob("dev*")} == {"dev.arrow"}
    for split in store.trained():
        assert split.lines.tolist() == plain.split("train").lines.tolist()
        for side, texts in enumerate((SOURCE, TARGET)):
            rows = [split.pair(index)[side].tolist() for index in range(300)]
            assert (store.text.source, store.text.target)[side].decode(rows) == texts
    rows = [
        [split.pair(index)[0].tolist() for index in range(300)] for split in (*store.trained(), store.split("train"))
    ]
    assert all(sum(map(list.__eq__, some, others)) < 150 for some, others in itertools.combinations(rows, 2))
    counts = store.manifest["sampling"]
    assert counts["source"]["subwords"] == sum(int(split.source_lengths.sum()) for split in store.trained())
    assert counts["target"] == {"subwords": sum(int(s.target_lengths.sum()) for s in store.trained()), "replaced": 0}
    [sentence] = sampled(store)
    assert sentence.startswith("train: 3 random segmentations of each pair, with 1.")
    assert "MiB" in sentence
    assert sampled(plain) == []
    store.verify()
    changed = bytearray((store.folder / "train.2.arrow").read_bytes())
    changed[len(changed) // 2] ^= 1
    (store.folder / "train.2.arrow").write_bytes(changed)
    with pytest.raises(UserError, match=r"train\.2\.arrow"):
        store.verify()


@pytest.mark.parametrize("kind", KINDS)
def test_neither_chunks_nor_processes_show(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    config = configure(folder, {"type": kind, **sampling()}, max_length=40)

    def digests(name: str, processes: int) -> dict[str, str]:
        store = prepare(config, out=folder / name, processes=processes)
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in store.folder.glob("*.*")}

    whole = digests("whole", 1)
    assert {"train.1.arrow", "train.3.arrow", "manifest.json"} <= set(whole)
    monkeypatch.setattr(corpus_module, "CHUNK", 20)
    assert digests("one", 1) == whole
    assert digests("two", 2) == whole


def test_more_segmentations_go_on_after_fewer(folder: Path) -> None:
    few, many = (prepare(configure(folder, sampling(segmentations=number))).trained() for number in (1, 2))
    assert [few[0].pair(index)[1].tolist() for index in range(300)] == [
        many[0].pair(index)[1].tolist() for index in range(300)
    ]


def test_segmentations_that_are_too_long_are_replaced_and_counted(folder: Path) -> None:
    free = prepare(configure(folder, sampling(), max_length=None))
    limit = int(np.median(free.split("train").source_lengths)) + 2
    store = prepare(configure(folder, sampling(), max_length=limit))
    train = store.split("train")
    assert all(split.lines.tolist() == train.lines.tolist() for split in store.trained())
    assert all(split.source_lengths.max() <= limit and split.target_lengths.max() <= limit for split in store.trained())
    place = {line: index for index, line in enumerate(free.split("train").lines.tolist())}
    replaced = [0, 0]
    for split, unlimited in zip(store.trained(), free.trained(), strict=True):
        for index, line in enumerate(train.lines.tolist()):
            for side in (0, 1):
                drawn = unlimited.pair(place[line])[side]
                expected = drawn if len(drawn) <= limit else train.pair(index)[side]
                assert split.pair(index)[side].tolist() == expected.tolist()
                replaced[side] += len(drawn) > limit
    assert [store.manifest["sampling"][side]["replaced"] for side in ("source", "target")] == replaced
    assert min(replaced) > 0
    assert f"; {sum(replaced):,} of {6 * len(train):,} were longer than data.max_length, and" in sampled(store)[0]


def test_dropped_lines_are_those_without_sampling(folder: Path) -> None:
    write(folder, "train.en", [*SOURCE[:9], "", "the cat " * 60, *SOURCE[11:]])
    stores = [prepare(configure(folder, more, accept=["empty"], max_length=40)) for more in ({}, sampling())]
    tables = [(store.folder / "dropped.tsv").read_text() for store in stores]
    assert tables[0] == tables[1]
    assert len(tables[0].splitlines()) == 3
    assert all(split.lines.tolist() == stores[0].split("train").lines.tolist() for split in stores[1].trained())


def test_subwords_of_another_store_are_sampled_too(folder: Path) -> None:
    first = prepare(configure(folder))
    text = {"text": str(first.folder / "text")}
    plain, store = prepare(configure(folder, text)), prepare(configure(folder, {**text, **sampling()}))
    assert plain.folder != store.folder
    assert len(store.trained()) == 3


def test_a_sampler_is_the_same_in_another_process():
    for kind in KINDS:
        drawing = sampler(learned(kind), segmentations=20)
        rows = drawing.samples(SOURCE[0], Random(3))
        assert pickle.loads(pickle.dumps(drawing)).samples(SOURCE[0], Random(3)) == rows
        assert drawing.samples(SOURCE[0], Random(4)) != rows


def test_each_pass_has_the_next_segmentation(folder: Path) -> None:
    config = configure(folder, sampling())
    config = config.model_copy(update={"train": config.train.model_copy(update={"concatenate": 0.1, "batch": 400})})
    store = prepare(config)
    corpora = [Concatenated(split, 0.1, config.train.seed) for split in store.trained()]
    corpus = training_pairs(config.train, store)
    assert len(corpus) == 330
    plan = batch_plan(config, corpus)
    for number in (0, 1, 2, 3, 7):
        batches, of = plan.epoch(number), corpora[number % 3]
        chosen = np.concatenate(batches)
        assert sorted(chosen.tolist()) == [number % 3 * 330 + index for index in range(330)]
        for index in chosen[:20].tolist():
            for side in (0, 1):
                assert corpus.pair(index)[side].tolist() == of.pair(index % 330)[side].tolist()
            assert corpus.where(index) == of.where(index % 330)
        assert plan.tokens(batches) == (int(of.source_lengths.sum()) + 330, int(of.target_lengths.sum()) + 330)


def test_the_largest_batch_is_that_of_all_segmentations() -> None:
    class Grown:
        source_lengths = target_lengths = np.array([3, 4, 5, 9, 4, 5], np.int32)

    plan = BatchPlan(Grown(), 3, "sentences", 1, segmentations=2)  # type: ignore[arg-type]
    for epoch in (0, 1):
        numbers, tokens = largest_batch(plan, epoch)
        assert 3 in numbers.tolist()
        assert tokens == 3 * 20


def test_lengths_of_training_are_those_of_the_segmentations(tmp_path: Path) -> None:
    path, sampled_twice = corpus.make(tmp_path), "subword.sampling={segmentations: 2, dropout: 0.5}"
    _, said = commands.run("prepare", path, "--check", "--set", sampled_twice)
    assert "train: 2 random segmentations of each pair, with " in said
    assert "the largest batch fits" in said
    run = train(
        load(path, [sampled_twice, "train.steps=1", "train.dev_bleu=false", "train.best_by=perplexity"]),
        tmp_path / "run",
    )
    folder = training_store(run)
    assert folder is not None
    splits = Store.open(folder).trained()
    longest = [int(split.source_lengths.max()) for split in splits]
    assert run.record["training_lengths"]["source"]["longest"] == max(longest)
    tokens = trained_tokens(run)["encoder"].lengths
    assert tokens is not None
    assert tokens.tolist() == [length + 1 for split in splits for length in split.source_lengths.tolist()]
