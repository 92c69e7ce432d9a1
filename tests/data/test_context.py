"""Pairs joined with those before them in their document, as training pairs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.data.joined import InContext
from posnmt.data.prepare import prepare
from posnmt.data.store import SCHEMA, Split, SplitWriter
from posnmt.data.subword import BOS
from posnmt.run.resolve import load
from posnmt.training.build import batch_plan, training_pairs
from tests.support import corpus


def split_of(path, lines, documents):
    """A split of pairs on these lines; the source of pair n has n % 3 + 1 subwords n + 4, its target one more."""
    sources = [[number + 4] * (number % 3 + 1) for number in range(len(lines))]
    columns = [lines, documents, sources, [[*ids, ids[0]] for ids in sources], [None] * len(lines), [None] * len(lines)]
    with SplitWriter(path) as writer:
        writer.add(pa.RecordBatch.from_pydict(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA))
    return Split(path)


TEXTS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["a", "b", None])), min_size=1, max_size=30)


@given(TEXTS, st.integers(2, 5))
def test_windows_are_the_pairs_before_each_in_its_document(tmp_path_factory, steps, most):
    lines = np.cumsum([step for step, _ in steps]).tolist()
    documents = [document for _, document in steps]
    split = split_of(tmp_path_factory.mktemp("split") / "train.arrow", lines, documents)
    wanted = []
    for last in range(len(lines)):
        first = last
        while (
            first > 0
            and last - first + 1 < most
            and lines[first - 1] == lines[first] - 1
            and documents[first - 1] == documents[first] is not None
        ):
            first -= 1
        if first < last:
            wanted.append((first, last))
    if not wanted:
        with pytest.raises(UserError, match=r"no document has two pairs on consecutive lines.*data\.train\.documents"):
            InContext(split, most)
        return
    joined = InContext(split, most)
    assert [tuple(window) for window in joined.windows.tolist()] == wanted
    assert len(joined) == len(lines) + len(wanted)
    for place, (first, last) in enumerate(wanted, len(split)):
        for side in (0, 1):
            ids = joined.pair(place)[side].tolist()
            by_hand = [token for pair in range(first, last + 1) for token in [BOS, *split.pair(pair)[side].tolist()]]
            assert ids == by_hand[1:]
            assert len(ids) == (joined.source_lengths, joined.target_lengths)[side][place]
        assert joined.where(place).split(" joined with ") == [f"line {line}" for line in lines[first : last + 1]]
    for place in range(len(split)):
        assert joined.pair(place)[0].tolist() == split.pair(place)[0].tolist()


def test_training_has_each_pair_alone_and_in_context(tmp_path):
    path = corpus.make(tmp_path, pairs=60)
    documents = [f"d{line // 7}" for line in range(60)]
    (tmp_path / "ids").write_text("\n".join(documents) + "\n")
    config = load(path, ["data.train.documents=ids", "train.context=2"])
    store = prepare(config)
    pairs = training_pairs(config.train, store)
    lines = store.split("train").lines.tolist()
    kept = len(lines)
    follows = [b == a + 1 and documents[a - 1] == documents[b - 1] for a, b in pairwise(lines)]
    assert len(pairs) == kept + sum(follows)
    assert 0 < sum(follows) < kept - 1
    batches = batch_plan(config, pairs).epoch(0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))
    assert prepare(load(path, ["data.train.documents=ids"])).folder == store.folder, "no other store is needed"


def test_pairs_are_joined_in_one_way(tmp_path):
    with pytest.raises(UserError, match="context and concatenate both join pairs: choose one of them"):
        load(corpus.make(tmp_path, pairs=30), ["train.context=2", "train.concatenate=1"])
