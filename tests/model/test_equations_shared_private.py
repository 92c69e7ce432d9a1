"""Shared-private embeddings against loops over words: which features are shared, and what that costs."""

from __future__ import annotations

import re

import pytest
import torch
from torch.nn import functional

from posnmt.base.errors import UserError
from posnmt.cli.systems import describe
from posnmt.data.word_pairs import WordPairs
from posnmt.model.registry import build_model, count_parameters
from tests.support.tiny import config, settings, tokens

D, SHARES = 16, {"all": 1.0, "lm": 0.9, "wf": 0.7, "ur": 0.5}
SIZES = (13, 11)
PAIRS = [*((word, word, "all") for word in range(4)), (12, 4, "lm"), (5, 9, "wf"), (4, 5, "ur"), (7, 10, "ur")]
ALONE = {"source": [6, 8, 9, 10, 11], "target": [6, 7, 8]}


def model_of(**part):
    torch.manual_seed(1)
    return build_model(settings(system="shared-private", **part), *SIZES, WordPairs.of(PAIRS)).double().eval()


def tables_by_hand(model):
    """The embedding of every word, one word at a time."""
    words = model.source.table.words
    tables, seen = {side: {} for side in ("source", "target")}, dict.fromkeys(SHARES, 0)
    for source, target, kind in PAIRS:
        row = seen[kind]
        seen[kind] += 1
        for side, word in (("source", source), ("target", target)):
            parts = [words.shared[kind][row]] if round(SHARES[kind] * D) else []
            parts += [words.private[f"{side}_{kind}"][row]] if round(SHARES[kind] * D) < D else []
            tables[side][word] = torch.cat(parts)
    for side, alone in ALONE.items():
        for row, word in enumerate(alone):
            tables[side][word] = words.private[side][row]
    return {side: torch.stack([table[word] for word in sorted(table)]) for side, table in tables.items()}


def test_the_words_of_a_pair_share_their_first_features():
    model = model_of()
    by_hand = tables_by_hand(model)
    for side in ("source", "target"):
        torch.testing.assert_close(getattr(model, side).table.weight, by_hand[side], rtol=0, atol=0)
    for source, target, kind in PAIRS:
        same = by_hand["source"][source] == by_hand["target"][target]
        assert same.tolist() == [feature < round(SHARES[kind] * D) for feature in range(D)]


def test_embeddings_and_projection_read_these_tables():
    model = model_of()
    source, target = tables_by_hand(model).values()
    ids, hidden = tokens(2, 5) % 11, torch.randn(3, D, dtype=torch.float64)
    torch.testing.assert_close(model.source.table(ids), source[ids], rtol=0, atol=0)
    torch.testing.assert_close(model.project(hidden), hidden @ target.T + model.output.bias, rtol=0, atol=1e-12)
    chosen = torch.tensor([[4, 9], [0, 10], [6, 6]])
    torch.testing.assert_close(model.logits_of(hidden, chosen), model.project(hidden).gather(1, chosen))


def test_a_shared_feature_has_the_gradients_of_both_words():
    model = model_of()
    source, target = torch.randn(13, D, dtype=torch.float64), torch.randn(11, D, dtype=torch.float64)
    total = (model.source.table.weight * source).sum() + (model.target.table.weight * target).sum()
    words = model.source.table.words
    wf, own = torch.autograd.grad(total, [words.shared["wf"], words.private["target_wf"]])
    torch.testing.assert_close(wf[0], source[5, :11] + target[9, :11])
    torch.testing.assert_close(own[0], target[9, 11:])


def test_without_gradients_a_table_is_computed_again_after_a_change():
    model, ids = model_of(), torch.tensor([[5, 6]])
    with torch.no_grad():
        before = model.source.table(ids)
        assert model.source.table.weight is model.source.table.weight
        model.source.table.words.shared["wf"].add_(1.0)
        torch.testing.assert_close(model.source.table(ids)[0, 0, :11], before[0, 0, :11] + 1)
    assert model.source.table(ids).requires_grad
    optimizer = torch.optim.Adam(model.train().parameters(), lr=0.5, fused=True)  # it changes no version
    model(torch.tensor([[5]]), None, torch.tensor([[2]])).sum().backward()
    optimizer.step()
    with torch.no_grad():
        after = model.eval().source.table(ids)
        torch.testing.assert_close(after, tables_by_hand(model)["source"][ids], rtol=0, atol=0)
        assert (after - before).abs().max() > 0.1


def test_parameters_are_those_of_the_formula():
    """(2 - lambda_c) d for each pair, d for each word without a partner; lambda_c d is a whole number here: d = 20."""
    sizes = {"d_model": 20, "heads": 4}
    model = build_model(settings(system="shared-private", **sizes), *SIZES, WordPairs.of(PAIRS))
    expected = sum((2 - SHARES[kind]) * 20 for _, _, kind in PAIRS) + 20 * sum(map(len, ALONE.values()))
    assert sum(weight.numel() for weight in model.source.table.words.parameters()) == round(expected)
    free = count_parameters(settings(system="transformer", **sizes), *SIZES)
    assert sum(weight.numel() for weight in model.parameters()) == free - (13 + 2 * 11) * 20 + round(expected)


def test_without_known_pairs_every_word_is_unrelated():
    plain = describe("transformer", 16_004, "base")["parameters"]
    unrelated = 16_000 * 1.5 * 512 + 4 * 512
    assert describe("shared-private", 16_004, "base")["parameters"] == plain - 3 * 16_004 * 512 + unrelated
    rows = WordPairs.by_rank(6, 7)
    assert rows.count() == {"all": 4, "lm": 0, "wf": 0, "ur": 2}


def test_one_class_may_share_everything_or_nothing():
    words = model_of(options={"ur": 1.0, "wf": 0.0}).source.table.words
    assert "target_ur" not in words.private
    assert "wf" not in words.shared
    assert words.private["target_wf"].shape == (1, D)


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"tie_embeddings": "all"}, "model.tie_embeddings: shared-private has the target embedding as output"),
        ({"options": {"lm": 1.5}}, "shared-private.lm: Input should be less than or equal to 1, got 1.5"),
        ({"options": {"lambda": 1}}, "shared-private has no option 'lambda'"),
    ],
)
def test_refusals(part, sentence):
    with pytest.raises(UserError, match=re.escape(sentence)):
        config(system="shared-private", **part)


def test_the_architecture_alone_needs_pairs():
    with pytest.raises(UserError, match=r"shared-private needs pairs of subwords; set subword.pairs: \{\}"):
        config(architecture="shared-private", tie_embeddings="target")
    assert config(system="shared-private").subword.pairs.threshold == 0.5
    assert config(system="transformer").subword.pairs is None


def test_a_search_step_computes_the_table_once(monkeypatch):
    """Not for each word that is read."""
    model, calls = model_of(), []
    whole = type(model.source.table.words).table
    monkeypatch.setattr(
        type(model.source.table.words), "table", lambda self, side: calls.append(side) or whole(self, side)
    )
    with torch.inference_mode():
        state = model.start(model.encode(tokens(2, 4) % 11, None), None)
        for place in range(3):
            functional.log_softmax(model.project(model.advance(tokens(2, 3)[:, [place]] % 11, state)), -1)
    assert calls == ["source", "target"]
