"""Search: greedy is beam 1, a wide beam is exhaustive, scores are forced scores, batches change nothing."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.data.batch import pad
from posnmt.data.subword import BOS, EOS, PAD, UNK
from posnmt.translate.bounds import Bounds
from posnmt.translate.requests import Search, numbered
from posnmt.translate.search import search
from posnmt.translate.subwords import score_subwords, translate_subwords
from posnmt.translate.translator import Translator
from tests.support.loops import greedy
from tests.support.tiny import MODELS, VOCABULARY, build, each_of, tokens

every_model = pytest.mark.parametrize("name", each_of())
CPU = torch.device("cpu")


def sources(count: int, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 12, (count,), generator=generator).tolist()
    return [tokens(1, length, seed=seed + place)[0].tolist() for place, length in enumerate(lengths)]


@every_model
def test_beam_1_is_greedy(name):
    model, texts = build(**MODELS[name]), sources(4)
    decode = Decode(beam=1, max_ratio=1.0, max_extra=0)
    wanted = [greedy([model], text, limit=len(text)) for text in texts]
    for scored in (True, False):
        found = translate_subwords([model], texts, decode, CPU, scored=scored)
        assert [hypothesis.tokens for [hypothesis] in found] == wanted


def test_probabilities_that_nobody_asks_for_change_no_words():
    models = [build(system=system).float() for system in ("relative", "transformer")]
    for beam, given in ((1, models[:1]), (1, models), (3, models[:1])):
        decode = Decode(beam=beam, max_ratio=1.0, max_extra=3)
        with_them, without = (
            translate_subwords(given, sources(20), decode, CPU, scored=scored) for scored in (True, False)
        )
        assert [[(h.tokens, h.ended) for h in row] for row in with_them] == [
            [(h.tokens, h.ended) for h in row] for row in without
        ]
        told = {math.isnan(h.score) or math.isnan(h.log_probability) for row in without for h in row}
        assert told == {beam == 1 and len(given) == 1}  # where they are needed to find the words, they are there


@every_model
@pytest.mark.parametrize("beam", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_reported_scores_are_forced_scores(name, beam):
    model, texts = build(**MODELS[name]), sources(6)
    decode = Decode(beam=beam, length_penalty=0.8, max_ratio=1.0, max_extra=2)
    found = translate_subwords([model], texts, decode, CPU)
    flat = [(text, hypothesis) for text, row in zip(texts, found, strict=True) for hypothesis in row]
    forced = score_subwords([model], [text for text, _ in flat], [h.tokens for _, h in flat], 64, CPU)
    for (_, hypothesis), score in zip(flat, forced, strict=True):
        assert hypothesis.log_probability == pytest.approx(score, abs=2e-5)
        assert hypothesis.score == pytest.approx(score / (len(hypothesis.tokens) + 1) ** 0.8, abs=2e-5)


def test_the_first_step_has_one_hypothesis_for_each_sentence(monkeypatch):
    model, rows = build(system="relative"), []
    advance = model.advance
    monkeypatch.setattr(model, "advance", lambda tokens, state: (rows.append(len(tokens)), advance(tokens, state))[1])
    translate_subwords([model], sources(5), Decode(beam=4, max_ratio=1.0, max_extra=5), CPU)
    assert rows[:2] == [5, 20]


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 1.7])
def test_a_wide_beam_is_exhaustive(length_penalty):
    """With a beam as wide as all outputs of at most 2 subwords, search finds the best of all of them."""
    model, source = build(system="relative"), [5, 9, 4]
    words = [token for token in range(VOCABULARY) if token not in (PAD, UNK, BOS, EOS)]
    outputs = [list(text) for length in range(3) for text in itertools.product(words, repeat=length)]
    scores = score_subwords([model], [source] * len(outputs), outputs, 4096, CPU)
    ranked = sorted(zip(scores, outputs, strict=True), key=lambda pair: -pair[0] / (len(pair[1]) + 1) ** length_penalty)
    row, lengths = pad([source], after=EOS)
    [found] = search([model], row, lengths, [Bounds(2)], beam=len(outputs), length_penalty=length_penalty)
    assert len(found) == len(outputs)
    assert [h.tokens for h in found[:20]] == [output for _, output in ranked[:20]]


@every_model
@pytest.mark.parametrize("beam", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_batch_size_and_order_change_nothing(name, beam):
    model, texts = build(**MODELS[name]), sources(9, seed=3)[3:8]
    wide = Decode(beam=beam, max_ratio=1.0, max_extra=1, batch=4096)
    narrow = wide.model_copy(update={"batch": 1})
    together, alone = (translate_subwords([model], texts, decode, CPU) for decode in (wide, narrow))
    turned = translate_subwords([model], texts[::-1], wide, CPU)[::-1]
    for a, b, c in zip(together, alone, turned, strict=True):
        assert [h.tokens for h in a] == [h.tokens for h in b] == [h.tokens for h in c]
        assert [h.log_probability for h in a] == pytest.approx([h.log_probability for h in b], abs=1e-5)


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_hypotheses_are_ordered_distinct_and_as_many_as_the_beam_or_somewhat_more(beam):
    """The step that ends the search may end several: fewer than twice the beam. Many sentences, so that some of those
    that are finished stay in the batch for a while."""
    model = build(system="relative")
    with torch.no_grad():
        model.output.bias[EOS] += 0.5  # so that they end at different steps
    decode = Decode(beam=beam, max_ratio=1.0, max_extra=20, batch=100_000)
    for found in translate_subwords([model], sources(150), decode, CPU):
        assert beam <= len(found) < 2 * beam
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)
        assert len({tuple(h.tokens) for h in found}) == len(found)
        assert not {PAD, UNK, BOS, EOS} & {token for h in found for token in h.tokens}


def test_a_limit_that_leaves_one_output_gives_one_hypothesis():
    [found] = translate_subwords([build()], [[5, 6]], Decode(beam=4, max_ratio=0.1, max_extra=0), CPU)
    assert [h.tokens for h in found] == [[]]


@every_model
def test_the_limit_ends_an_output_and_says_so(name):
    model, texts = build(**MODELS[name]), sources(3)
    with torch.no_grad():
        model.output.bias[EOS] = -50.0  # a model that never ends by itself
    for text, found in zip(
        texts, translate_subwords([model], texts, Decode(beam=2, max_ratio=1.0, max_extra=2), CPU), strict=True
    ):
        assert all(len(h.tokens) == len(text) + 2 and not h.ended for h in found)


def test_an_output_does_not_outgrow_a_finite_table():
    model = build(system="learned", max_length=9)
    with torch.no_grad():
        model.output.bias[EOS] = -50.0
    [[found, *_]] = translate_subwords([model], [[5, 6]], Decode(beam=2, max_ratio=9.0), CPU)
    assert len(found.tokens) == 8
    assert not found.ended


class Ids:
    """Text that is subword ids already, for a `Translator`."""

    words = SimpleNamespace(language="en")

    @staticmethod
    def encode(lines):
        return [[int(word) for word in line.split()] for line in lines]

    @staticmethod
    def decode(rows):
        return [" ".join(map(str, row)) for row in rows]


def test_a_line_as_long_as_a_finite_table_and_one_that_is_longer():
    """A table of 9 holds 8 subwords and the end of the sentence, of a target 8 subwords and its beginning."""
    translator = Translator([build(system="learned", max_length=9)], SimpleNamespace(source=Ids, target=Ids), CPU)
    decode = Decode(beam=1, max_ratio=1.0, max_extra=0, protect="off", split="off", complete="off")
    fits, over = " ".join(["5"] * 8), " ".join(["5"] * 9)
    assert translator.translate(numbered([fits]), Search(decode))[0].source == [5] * 8
    assert len(translator.score_lines([fits], [fits])) == 1
    what = "9 subwords, but this model's position table ends at 8"
    with pytest.raises(UserError, match=what) as raised:
        translator.translate(numbered([fits, over, fits], "text", first=4), Search(decode))
    assert raised.value.where == "text:5"
    with pytest.raises(UserError, match=what) as raised:
        translator.score_lines([fits], [over])
    assert raised.value.where == "target:1"


def test_an_empty_source_gives_no_hypothesis():
    assert translate_subwords([build()], [[], [5]], Decode(beam=1, max_extra=2), CPU)[0] == []


def test_an_ensemble_means_probabilities():
    models = [build(system="relative", seed=seed) for seed in (1, 2)]
    source, target = [5, 6, 7], [8, 9]
    row, _ = pad([source], after=EOS)
    written, wanted = torch.tensor([[BOS, *target]]), [*target, EOS]
    each = [model.project(model(row, None, written))[0].softmax(-1) for model in models]
    by_hand = sum(((each[0][i, t] + each[1][i, t]) / 2).log().item() for i, t in enumerate(wanted))
    assert score_subwords(models, [source], [target], 100, CPU)[0] == pytest.approx(by_hand, abs=1e-10)
    [found] = translate_subwords(models, [source], Decode(beam=3, max_extra=2), CPU)
    scores = score_subwords(models, [source] * len(found), [h.tokens for h in found], 100, CPU)
    assert [h.log_probability for h in found] == pytest.approx(scores, abs=2e-5)


def test_an_ensemble_of_one_model_twice_is_that_model():
    model, texts = build(system="relative"), sources(5)
    decode = Decode(beam=3, max_extra=3)
    once, twice = (translate_subwords(models, texts, decode, CPU) for models in ([model], [model, model]))
    assert [[h.tokens for h in row] for row in once] == [[h.tokens for h in row] for row in twice]
