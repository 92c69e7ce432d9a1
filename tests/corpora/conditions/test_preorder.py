"""The pre-orderer: exact search, the loss as tables, learning, permutations, and the saved model."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posnmt.base.errors import UserError
from posnmt.corpora.artificial.pairs import generate
from posnmt.corpora.conditions.reorder.features import BITS, EDGE, FAMILIES, RARE, Features, Vocabulary, make_vocabulary
from posnmt.corpora.conditions.reorder.preorder import (
    INVERTED,
    STRAIGHT,
    Preorderer,
    best_trees,
    learn,
    leaves,
    pair_losses,
)
from posnmt.data.alignment import kendall_tau, target_places

UNKNOWN = math.nan


def all_trees(start, end):
    """Every tree over the words from start to end, as lists of nodes."""
    if end - start == 1:
        yield []
    for split in range(start + 1, end):
        for left in all_trees(start, split):
            for right in all_trees(split, end):
                for orientation in (STRAIGHT, INVERTED):
                    yield [(start, split, end, orientation), *left, *right]


def score(tables, tree):
    """The score of a tree as the docstring of best_trees has it."""
    return sum(tables[0, o, p, r] + tables[1, o, r, q] + tables[2, o, p, q] for p, r, q, o in tree)


def words(start, end, tree):
    """The order that a tree means, by recursion."""
    if end - start == 1:
        return [start]
    _, split, _, orientation = next(node for node in tree if (node[0], node[2]) == (start, end))
    left, right = words(start, split, tree), words(split, end, tree)
    return left + right if orientation == STRAIGHT else right + left


def pairs_in_wrong_order(order, places):
    return sum(places[b] < places[a] for index, a in enumerate(order) for b in order[index + 1 :])


def random_model(seed=0):
    generator = np.random.default_rng(seed)
    return Preorderer(Vocabulary({"a": 2, "b": 3, "c": 2}), generator.normal(size=(1 << BITS, 2)).round(4))


def artificial(count, seed=1):
    pairs = list(generate(count, 3, 14, seed=seed))
    sources = [pair.source.split() for pair in pairs]
    return sources, [
        target_places(frozenset(pair.alignment), len(source)) for pair, source in zip(pairs, sources, strict=True)
    ]


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_the_best_tree_is_the_best_of_all(length):
    tables = np.random.default_rng(length).normal(size=(3, FAMILIES, 2, length + 1, length + 1))
    for variant, tree in enumerate(best_trees(tables)):
        best = max(all_trees(0, length), key=lambda other, v=variant: score(tables[v], other))
        assert sorted(tree) == sorted(best)
        assert leaves(tree) == words(0, length, tree)


def test_without_a_preference_the_order_stays():
    assert leaves(best_trees(np.zeros((1, FAMILIES, 2, 6, 6)))[0]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("places", [[2.0, UNKNOWN, 0.0, 1.0, 0.5], [1.0, 3.0, 0.0, 2.0], [0.0, 0.0, 1.0, UNKNOWN]])
def test_losses_of_nodes_add_up_to_the_pairs_in_wrong_order(places):
    losses = pair_losses(np.array(places))
    trees = list(all_trees(0, len(places)))
    for tree in trees:
        assert score(losses, tree) == pairs_in_wrong_order(words(0, len(places), tree), places)
    least = best_trees(-losses[None])[0]
    assert score(losses, least) == min(score(losses, tree) for tree in trees)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["a", "b", "c", "?", "\u2028", "😀"]), max_size=30), st.integers(0, 3))
def test_every_word_comes_out_once(sentence, seed):
    order = random_model(seed).order(sentence)
    assert sorted(order) == list(range(len(sentence)))


def test_blocks_of_features_do_not_show(monkeypatch):
    sentence = list("abcabcbbca" * 3)
    whole = random_model().order(sentence)
    assert whole != sorted(whole)
    monkeypatch.setattr("posnmt.corpora.conditions.reorder.preorder._BLOCK", 50)
    assert random_model().order(sentence) == whole


def test_features_are_of_words_and_classes_around_two_boundaries():
    vocabulary = Vocabulary({"a": 2, "b": 3, "c": 2})
    assert vocabulary.ids(["c", "x", "b"]).tolist() == [[EDGE, 4, RARE, 3, EDGE], [EDGE, 2, RARE, 3, EDGE]]
    indices = [
        Features(vocabulary.ids(sentence)).of(0, np.array([1]), np.array([2]))[:, 0]
        for sentence in (list("abcab"), list("abcba"), list("abcca"), list("cbcab"))
    ]
    assert (indices[0] == indices[1]).all(), "words far from both boundaries do not count"
    assert (indices[0] == indices[2]).all()
    same = indices[0] == indices[3]
    assert 0 < same.sum() < len(same), "another word of the same class: features of classes stay, those of words change"
    other = Features(vocabulary.ids(list("abcab"))).of(1, np.array([1]), np.array([2]))[:, 0]
    assert not (indices[0] == other).any(), "other roles of the boundaries are other features"


def test_classes_are_of_words_in_like_surroundings():
    animals, verbs = ["cat", "dog", "cow"], ["sees", "hears", "likes"]
    sentences = [["the", one, verb, "the", other] for one in animals for verb in verbs for other in animals]
    # The most frequent words are the first centres: "the", the three animals and one of the verbs.
    classes = make_vocabulary([*sentences, ["once"]], classes=5).classes
    assert set(classes) == {"the", *animals, *verbs}
    assert len({classes[word] for word in animals}) == len({classes[word] for word in verbs}) == 1
    assert len({classes["the"], classes["cat"], classes["sees"]}) == 3
    assert min(classes.values()) == 2


def test_words_that_occur_once_are_rare():
    sentences = [["a", "b", "c"], ["c", "b", "d", "c"]]
    assert set(make_vocabulary(sentences, classes=2).classes) == {"b", "c"}
    assert set(make_vocabulary(sentences, classes=2, largest=1).classes) == {"c"}


def test_words_that_are_all_rare_can_be_learned_from():
    model = learn([["a", "b"], ["c", "d"]], [np.array([1.0, 0.0]), np.array([1.0, 0.0])], seed=1)
    assert model.vocabulary.classes == {}
    assert model.order(["e", "f"]) == [1, 0]


@pytest.mark.slow
def test_verb_final_order_is_learned_from_gold_alignments(capsys):
    sources, places = artificial(1300)
    model = learn(sources[:1000], places[:1000], seed=1)
    held_out = list(zip(sources[1000:], places[1000:], strict=True))
    assert not {*map(tuple, sources[:1000])} & {*map(tuple, sources[1000:])}
    defined = [(source, place) for source, place in held_out if kendall_tau(place) is not None]
    before = np.mean([kendall_tau(place) for _, place in defined])
    after = np.mean([kendall_tau(place[model.order(source)]) for source, place in defined])
    with capsys.disabled():
        print(f" [held-out Kendall's tau {before:.3f} before, {after:.3f} after]", end="")
    assert before < 0.5
    assert after > 0.95


@pytest.mark.slow
def test_one_seed_one_model_another_seed_another():
    sources, places = artificial(150)
    first, again, other = (learn(sources, places, seed).save() for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_progress_is_told():
    told = []
    sources, places = artificial(250)
    learn(sources, places, seed=1, passes=2, show=lambda done, state: told.append((done, state)))
    assert told == [(0.4, "pass 1 of 2"), (0.8, "pass 2 of 2")]


def test_a_saved_model_orders_the_same(tmp_path):
    sources, places = artificial(200)
    model = learn(sources, places, seed=1)
    (tmp_path / "model.json").write_text(model.save() + "\n", encoding="utf-8")
    loaded = Preorderer.load(tmp_path / "model.json")
    assert (loaded.weights == model.weights).all()
    assert loaded.vocabulary.classes == model.vocabulary.classes
    assert loaded.save() == model.save()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"bits": 3},
        {"classes": 7},
        {"features": [1 << 30]},
        {"features": ["x"]},
        {"weights": [[1]]},
    ],
)
def test_what_is_no_model(tmp_path, change):
    weights = np.zeros((1 << BITS, 2))
    weights[[1, 2]] = [[0.5, 1], [1, 2]]
    content = json.loads(Preorderer(Vocabulary({"a": 2}), weights).save())
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert (Preorderer.load(path).weights == weights).all()
    path.write_text(json.dumps({**content, **change}), encoding="utf-8")
    with pytest.raises(UserError, match="not a model of 'posnmt pre-orderer 1'"):
        Preorderer.load(path)


def test_a_file_of_something_else_or_no_file(tmp_path):
    (tmp_path / "text").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not a model"):
        Preorderer.load(tmp_path / "text")
    (tmp_path / "list").write_text("[1]")
    with pytest.raises(UserError, match="not a model"):
        Preorderer.load(tmp_path / "list")
    with pytest.raises(UserError, match="the pre-ordering model does not exist"):
        Preorderer.load(tmp_path / "none")
