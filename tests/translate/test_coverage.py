"""The coverage penalty: equation 14 of Wu et al. 2016 in loops over the attention of a forced pass."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode, Sampling
from posnmt.data.subword import EOS
from posnmt.translate.attention import attend_pair
from posnmt.translate.graphs import GraphedDecoder
from posnmt.translate.subwords import score_subwords, translate_subwords
from tests.support.tiny import MODELS, TRANSFORMERS, build, tokens

CPU = torch.device("cpu")
BETA = 0.7


def sources(count):
    return [tokens(1, length, seed=length)[0].tolist() for length in range(1, count + 1)]


def by_loops(models, source, target):
    """beta * sum_i log(min(sum_j p_ij, 1)), i over source subwords without eos, j over the target's with eos."""
    total = 0.0
    weights = [attend_pair(model, source, target).cross.weights for model in models]
    for i in range(len(source)):
        attended = 0.0
        for j in range(len(target) + 1):
            for layers in weights:
                last = layers[-1]
                before = last.shape[2] - len(source) - 1
                attended += sum(last[head, j, before + i].item() for head in range(len(last))) / len(last) / len(models)
        total += math.log(min(attended, 1.0))
    return BETA * total


def search(models, texts, beta=BETA, **settings):
    decode = Decode(**{"beam": 3, "length_penalty": 0.6, "max_ratio": 1.0, "max_extra": 3, **settings})
    return translate_subwords(models, texts, decode.model_copy(update={"coverage_penalty": beta}), CPU)


@pytest.mark.parametrize(
    "name", [name for name in TRANSFORMERS if name in ("transformer", "relative", "rope", "biarn")]
)
def test_scores_have_the_penalty_of_the_equation(name):
    models, texts = [build(**MODELS[name])], sources(9)
    for some, limits in ((texts[:5], {}), (texts[5:], {"max_ratio": 0.6, "max_extra": 0})):  # the last are covered less
        compare(models, some, search(models, some, **limits), search(models, some, 0.0, **limits))


def test_an_ensemble_has_the_mean_of_the_attention():
    models, texts = [build(system="relative", seed=seed) for seed in (1, 2)], sources(3)
    compare(models, texts, search(models, texts), search(models, texts, 0.0))


def compare(models, texts, found, without):
    for text, group, plain in zip(texts, found, without, strict=True):
        assert {tuple(each.tokens) for each in group} == {tuple(each.tokens) for each in plain}, "ranked at the end"
        forced = score_subwords(models, [text] * len(group), [each.tokens for each in group], 64, CPU)
        for each, log_probability in zip(group, forced, strict=True):
            penalty = by_loops(models, text, each.tokens)
            assert each.coverage == pytest.approx(penalty, abs=1e-5)
            assert each.score == pytest.approx(log_probability / (len(each.tokens) + 1) ** 0.6 + penalty, abs=1e-4)
        assert [each.score for each in group] == sorted((each.score for each in group), reverse=True)
        assert {each.coverage for each in plain} == {0.0}


def test_it_changes_the_order_and_batches_do_not():
    model, texts = build(system="relative"), sources(9)
    with torch.no_grad():
        model.output.bias[EOS] += 1.0  # so that hypotheses have different lengths, and longer ones attend to more
    together, alone = search([model], texts, 20.0), search([model], texts, 20.0, batch=1)
    assert [[each.tokens for each in group] for group in together] == [
        [each.tokens for each in group] for group in alone
    ]
    assert [group[0].coverage for group in together] == pytest.approx([group[0].coverage for group in alone], abs=1e-4)
    assert any(a[0].tokens != b[0].tokens for a, b in zip(together, search([model], texts, 0.0), strict=True))
    assert not model.decoder[-1].cross._forward_pre_hooks, "nothing is left to pay for"


def test_where_there_is_no_such_attention():
    for model, what in (
        (build(system="rnn-nmt"), "this is rnn-nmt"),
        (GraphedDecoder(build(), 1e9, records=False), "one with CUDA graphs"),
    ):
        with pytest.raises(UserError, match=what):
            search([model], sources(2))
    with pytest.raises(UserError, match="not available with samples"):
        search([build()], sources(2), sampling=Sampling())
