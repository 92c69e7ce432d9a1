"""Signs that the files of a corpus are exchanged, copied or shared with dev, and files of a store that are damaged."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from posnmt.base.errors import UserError
from posnmt.data.prepare import prepare
from posnmt.data.store import Store
from posnmt.data.suspicions import exchanged, fingerprints, overlap, warnings
from tests.support.prepare_case import SOURCE, TARGET, configure, write
from tests.support.shared import SHARED, missing


def corpus(folder, train=(SOURCE, TARGET), dev=(SOURCE[:20], TARGET[:20]), **data):
    for split, sides in (("train", train), ("dev", dev)):
        for language, lines in zip(("en", "de"), sides, strict=True):
            write(folder, f"{split}.{language}", lines)
    return configure(folder, **data)


FRESH = [f"{line} again" for line in SOURCE[:20]], [f"wieder {line}" for line in TARGET[:20]]


def test_a_sound_corpus_has_no_signs(tmp_path):
    config = corpus(tmp_path, dev=FRESH)
    store = prepare(config)
    assert store.manifest["signs"] == {"dev_pairs_in_train": 0, "exchanged": False, "shifts": {"train": [], "dev": []}}
    assert warnings(store, config.data) == []


def test_dev_pairs_in_train_are_counted_as_pairs(tmp_path):
    """Two pairs are in train; one has a source of train with another translation."""
    sources = [*FRESH[0][:17], *SOURCE[3:5], SOURCE[7]]
    targets = [*FRESH[1][:17], *TARGET[3:5], TARGET[8]]
    config = corpus(tmp_path, dev=(sources, targets))
    store = prepare(config)
    assert store.manifest["signs"]["dev_pairs_in_train"] == 2
    assert warnings(store, config.data) == ["2 of 20 dev pairs are training pairs as well: dev scores are too good"]


def test_fingerprints_differ_where_pairs_do(tmp_path):
    """Over the limits of record batches; the order of subwords, the side and the ends of lines count."""
    drawn = random.Random(1)
    words = ["a", "b", "c"]
    sources = [" ".join(drawn.choices(words, k=drawn.randint(1, 6))) for _ in range(9000)]
    targets = [" ".join(drawn.choices(words, k=drawn.randint(1, 6))) for _ in range(9000)]
    config = corpus(tmp_path, (sources, targets), (sources[-3:], targets[-3:]))
    config = config.model_copy(update={"subword": config.subword.model_copy(update={"vocabulary": 7})})
    train = prepare(config).split("train")
    pairs = [tuple(map(bytes, train.pair(index))) for index in range(len(train))]
    hashes = fingerprints(train)
    assert hashes.dtype == np.uint64
    assert len(set(hashes.tolist())) == len(set(pairs)) < len(pairs)
    assert overlap(prepare(config).split("dev"), train) == 3


def test_copies_are_counted(tmp_path):
    mixed = [SOURCE[number] if number % 4 == 0 else target for number, target in enumerate(TARGET)]
    long = [" ".join(SOURCE)]  # a copy that is dropped
    config = corpus(tmp_path, (SOURCE + long, mixed + long), FRESH, max_length=100)
    store = prepare(config)
    assert store.manifest["splits"]["train"]["copies"] == 75
    assert warnings(store, config.data) == ["train: the target is a copy of the source in 75 of 300 pairs"]


def test_exchanged_files_of_dev(tmp_path):
    config = corpus(tmp_path, dev=FRESH[::-1])
    store = prepare(config)
    [sentence] = warnings(store, config.data)
    assert sentence.startswith("dev's source looks like the target of the training text")
    assert not exchanged((SOURCE, TARGET), FRESH)
    assert not exchanged((SOURCE, SOURCE), (SOURCE[:20], SOURCE[20:40])), "one language on both sides"
    assert not exchanged((SOURCE, TARGET), (TARGET[:20], TARGET[:20])), "one side alone"


def test_exchanged_files_of_real_corpora():
    """Texts of several kinds: Chinese documentation has so much English that its side alone misleads."""
    corpora = [path for name in ("zhen_wmt_news", "enzh_pydocs") if (path := SHARED / name).is_dir()]
    if len(corpora) < 2:
        pytest.skip(missing("zhen_wmt_news and enzh_pydocs"))
    texts = [
        [(path / f"test.{language}").read_bytes().decode().split("\n")[:300] for language in ("en", "zh")]
        for path in corpora
    ]
    for train, dev in product(texts, repeat=2):
        assert not exchanged(train, dev)
        assert exchanged(train, dev[::-1])


def test_a_shift_is_in_the_manifest_and_a_warning(tmp_path):
    """Of each split; the target lacks a line of the training text, and the source of dev lacks its first one."""
    dev = [f"{line} a" for line in SOURCE[1:201]], [f"{line} b" for line in TARGET[:200]]
    config = corpus(tmp_path, (SOURCE, [*TARGET[:150], *TARGET[151:], TARGET[0]]), dev)
    store = prepare(config)
    [train], [of_dev] = (store.manifest["signs"]["shifts"][name] for name in ("train", "dev"))
    assert train == {"offset": -1, "first": pytest.approx(151, abs=2), "last": None}
    assert of_dev == {"offset": 1, "first": 1, "last": None}
    warned = warnings(store, config.data)
    assert [sentence.partition(":")[0] for sentence in warned] == ["train", "dev"]
    assert ["(offset -1)" in warned[0], "(offset +1)" in warned[1]] == [True, True]
    assert warnings(prepare(config), config.data) == warned, "once more, from the same store"


def test_a_shift_is_seen_where_dev_is_held_out(tmp_path):
    config = corpus(tmp_path, (SOURCE, TARGET[1:] + TARGET[:1]), dev=FRESH)
    data = config.data.model_copy(update={"dev": None, "held_out": 30})
    store = prepare(config.model_copy(update={"data": data}))
    assert store.manifest["signs"]["shifts"] == {"train": [{"offset": -1, "first": 1, "last": None}]}


def test_names_that_contradict_the_languages(tmp_path):
    config = corpus(tmp_path, dev=FRESH, source_language="de", target_language="en")
    [sentence] = warnings(prepare(config), config.data)
    assert sentence.startswith("by their names the files are en and de, and")
    config = corpus(tmp_path, dev=FRESH, source_language="en", target_language="de")
    assert warnings(prepare(config), config.data) == []


def test_no_flipped_byte_is_trained_on(tmp_path):
    store = prepare(corpus(tmp_path, dev=FRESH))
    files = [path for path in store.folder.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert {path.name for path in files} >= {"train.arrow", "dev.arrow", "dropped.tsv"}
    drawn = random.Random(1)
    for path in files:
        sound = path.read_bytes()
        for place in drawn.sample(range(len(sound)), min(4, len(sound))):
            damaged = bytearray(sound)
            damaged[place] ^= 1 << drawn.randrange(8)
            path.write_bytes(damaged)
            with pytest.raises(UserError, match=rf"{path.name}.*prepare (it|the store) again"):
                Store.open(store.folder).verify()
        path.write_bytes(sound)
    Store.open(store.folder).verify()
    files[0].unlink()
    with pytest.raises(UserError, match=files[0].name):
        store.verify()
