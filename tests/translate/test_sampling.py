"""Samples: their distribution, their log-probabilities, what they depend on; bounds; minimum Bayes risk."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sacrebleu.metrics import CHRF

from posnmt.base.errors import UserError
from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Decode, Sampling
from posnmt.data.subword import BOS, EOS, PAD, UNK
from posnmt.translate.mbr import expected_similarities
from posnmt.translate.requests import Part, Request, Search
from posnmt.translate.sampling import draw
from posnmt.translate.subwords import Searcher, score_subwords, translate_subwords
from tests.support.tiny import MODELS, build, tokens

CPU = torch.device("cpu")
SYSTEMS = ["transformer", "relative", "lstm", "rnn-nmt"]


def sources(count: int) -> list[list[int]]:
    return [tokens(1, 1 + place % 9, seed=place)[0].tolist() for place in range(count)]


def drawing(**options) -> Decode:
    return Decode(sampling=Sampling(**options), max_ratio=1.0, max_extra=3, beam=1)


def flat(hypotheses):
    return [[(each.tokens, each.ended) for each in group] for group in hypotheses]


def test_a_temperature_next_to_zero_is_greedy():
    logits = torch.randn(5, 40).log_softmax(-1)
    uniform = torch.full((5,), 0.999, dtype=torch.float64)
    assert draw(logits, uniform, Sampling(temperature=1e-320)).tolist() == logits.argmax(-1).tolist()


@pytest.fixture(scope="module")
def logits():
    return torch.tensor([[2.0, 1.0, 0.5, 0.0, -1.0, -torch.inf]]).log_softmax(-1)


@pytest.mark.parametrize(
    ("options", "weigh"),
    [
        ({}, lambda p: p),
        ({"temperature": 0.5}, lambda p: p**2),
        ({"temperature": 2.0, "top_k": 3}, lambda p: p**0.5 * (np.arange(6) < 3)),
        ({"top_p": 0.7}, lambda p: p * (np.arange(6) < 2)),  # 0.54, and 0.20 more
        ({"top_k": 4, "top_p": 0.9}, lambda p: p * (np.arange(6) < 3)),  # of 0.97: 0.56, 0.76, 0.89
    ],
)
def test_the_distribution_is_the_one_asked_for(logits, options, weigh):
    count = 20_000
    uniform = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    drawn = draw(logits.expand(count, -1), uniform, Sampling(**options))
    shares = np.bincount(drawn, minlength=6) / count
    wanted = weigh(logits[0].exp().numpy().astype(float))
    np.testing.assert_allclose(shares, wanted / wanted.sum(), atol=2 / count)


def test_the_ends_of_the_interval_fall_on_what_is_possible(logits):
    for number in (0.0, 1.0 - 2**-53):
        [chosen] = draw(logits, torch.tensor([number], dtype=torch.float64), Sampling())
        assert logits[0, chosen].isfinite()


def drawn(model, texts, decode, count, first=1, workers=1):
    """So many samples of each source; the sources have consecutive numbers."""
    parts = [Part(text, Request("", number)) for number, text in enumerate(texts, first)]
    return Searcher([model], CPU, Workers(workers)).hypotheses(parts, Search(decode, count))


def begun_with(models, texts, prefixes, decode):
    """What is found for sources whose translations have prefixes."""
    parts = [Part(text, prefix=prefix) for text, prefix in zip(texts, prefixes, strict=True)]
    return Searcher(models, CPU, Workers(1)).hypotheses(parts, Search(decode))


@pytest.mark.parametrize("name", SYSTEMS)
def test_log_probabilities_are_forced_scores(name):
    model, texts = build(**MODELS[name]), sources(10)
    found = drawn(model, texts, drawing(temperature=1.3, top_p=0.95), 3)
    assert all(len(group) == 3 for group in found)
    pairs = [(text, each) for text, group in zip(texts, found, strict=True) for each in group]
    forced = score_subwords([model], [text for text, _ in pairs], [each.tokens for _, each in pairs], 64, CPU)
    assert [each.log_probability for _, each in pairs] == pytest.approx(forced, abs=2e-5)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_sample_depends_on_seed_line_and_number_alone(name):
    model, texts = build(**MODELS[name]), sources(12)
    decode = drawing(seed=5)
    together = flat(drawn(model, texts, decode, 2))
    small = decode.model_copy(update={"batch": 8})
    assert flat(drawn(model, texts, small, 2)) == together
    split = flat(drawn(model, texts, decode, 2, workers=2))
    assert split == together
    later = flat(drawn(model, texts[4:], decode, 2, first=5))
    assert later == together[4:]
    more = flat(drawn(model, texts, decode, 3))
    assert [group[:2] for group in more] == together
    assert any(group[0] != group[1] for group in together)
    assert flat(drawn(model, texts, drawing(seed=6), 2)) != together


def test_one_candidate_is_greedy_search():
    model, texts = build(), sources(8)
    greedy = translate_subwords([model], texts, Decode(beam=1, max_ratio=1.0, max_extra=3), CPU)
    assert flat(translate_subwords([model], texts, drawing(top_k=1), CPU)) == flat(greedy)


@pytest.mark.parametrize("beam", [1, 4, 0])
@pytest.mark.parametrize("members", [1, 2])
def test_bounds_hold_and_scores_are_still_those_of_the_whole(beam, members):
    """With search and with sampling (beam 0): a prefix, a least length, and free sentences beside them."""
    models = [build(**MODELS[name]) for name in SYSTEMS[:members]]
    for seed, model in enumerate(models):
        torch.manual_seed(seed)
        with torch.no_grad():
            model.output.bias = torch.nn.Parameter(torch.zeros(model.output.weight.shape[0], dtype=torch.float64))
            model.output.bias[EOS] = 4.0  # which would end most outputs at once
    texts = sources(9)
    prefixes = [tokens(1, 4, seed=9)[0].tolist() if place % 3 == 0 else [] for place in range(9)]
    search = Decode(beam=beam, max_ratio=1.0, max_extra=2) if beam else drawing()
    decode = search.model_copy(update={"min_length": 3})
    free = translate_subwords(models, texts, search, CPU)
    found = begun_with(models, texts, prefixes, decode)
    assert min(len(group[0].tokens) for group in free) < 3
    forced = score_subwords(models, texts, [group[0].tokens for group in found], 64, CPU)
    for text, prefix, group, score in zip(texts, prefixes, found, forced, strict=True):
        limit = max(len(text) + search.max_extra, len(prefix))
        for each in group:
            assert each.tokens[: len(prefix)] == prefix
            assert min(3, limit) <= len(each.tokens) <= limit
            assert each.ended == (len(each.tokens) < limit)
            assert not {PAD, UNK, BOS, EOS} & set(each.tokens)
        assert group[0].log_probability == pytest.approx(score, abs=2e-5)


def test_a_prefix_that_search_would_take_changes_nothing():
    model, texts = build(), sources(8)
    decode = Decode(beam=3, max_ratio=1.0, max_extra=3)
    free = translate_subwords([model], texts, decode, CPU)
    begun = [group[0].tokens[:2] for group in free]
    again = begun_with([model], texts, begun, decode)
    for group, same in zip(free, again, strict=True):
        assert same[0].log_probability >= group[0].log_probability - 1e-9


def test_expected_similarities_are_sacrebleu_s():
    texts = ["the cat sat on the mat", "a cat sat on a mat", "the dog ran", "the cat sat on the mat", ""]
    weights = [0.1, 0.4, 0.2, 0.1, 0.2]
    metric = CHRF()
    wanted = [
        math.fsum(
            share * metric.sentence_score(text, [other]).score for other, share in zip(texts, weights, strict=True)
        )
        for text in texts
    ]
    assert expected_similarities(texts, weights) == pytest.approx(wanted)
    assert expected_similarities(["one"], [0.0 + 1e-300]) == pytest.approx([100])


@pytest.mark.parametrize(
    ("decode", "nbest", "fault"),
    [
        (Decode(beam=2), 3, "3 translations of a line are wanted, and the beam keeps 2"),
        (Decode(beam=2, mbr=5), 1, "5 translations of a line are wanted, and the beam keeps 2"),
        (Decode(beam=8, mbr=2), 3, "3 translations are wanted of 2 candidates"),
    ],
)
def test_more_translations_than_there_are(decode, nbest, fault):
    with pytest.raises(UserError, match=fault):
        Search(decode, nbest).refuse_too_many()
    Search(Decode(beam=1, mbr=2, sampling=Sampling()), 2).refuse_too_many()
