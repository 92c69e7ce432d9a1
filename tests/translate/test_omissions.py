"""Sentences that translations leave out: the signs, and the decision."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

import posnmt
from posnmt.data.subword import BOS, EOS
from posnmt.translate import omissions
from posnmt.translate.alignments import Aligned
from posnmt.translate.omissions import EXPLAINED, SUSPICIOUS, Evidence, Pair, examine, intervals, left_out
from posnmt.translate.spans import Interval
from posnmt.translate.subwords import score_subwords
from posnmt.translate.words import spans
from tests.support import single


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that has learned single sentences by heart."""
    return single.learned(tmp_path_factory)


@pytest.fixture(scope="module")
def translator(folder):
    return posnmt.load(folder / "run")._exactly()


@pytest.fixture(scope="module")
def score(translator):
    return partial(score_subwords, translator.models, batch=512, device=translator.device)


def pair(translator, text, target, fewer=0, aligned=None):
    """A text and a translation."""
    [source], [tokens] = translator.text.source.encode([text]), translator.text.target.encode([target])
    return Pair(text, source, intervals(text, "en"), tokens, fewer, aligned)


def by_steps(translator, source, target):
    """Log-probabilities of a target's subwords, end symbol included: a pass of one model for each of them."""
    [model] = translator.models
    values = []
    for place, token in enumerate([*target, EOS]):
        rows = torch.tensor([[*source, EOS]]), torch.tensor([len(source) + 1])
        logits = model.project(model(*rows, torch.tensor([[BOS, *target[:place]]])))[0, -1]
        values.append(logits.double().log_softmax(-1)[token].item())
    return values


def test_what_a_sentence_explains_is_that_of_the_equation(translator, folder, score):
    """G_j = [ln p(y | x) - ln p(y | x without j)] / (n_j + 1), by plain loops."""
    first, second, third = single.sentences(folder)[:3]
    target = " ".join(single.sentences(folder, "target")[place] for place in (0, 2))
    here = pair(translator, f"{first} {second} {third}", target, fewer=1)
    [signs] = examine([here], translator.text.source, score, None)
    rest = [f"{second} {third}", f"{first} {third}", f"{first} {second}"]
    with torch.inference_mode():
        whole = math.fsum(by_steps(translator, here.source, here.target))
        for sign, alone, text in zip(signs, (first, second, third), rest, strict=True):
            without = math.fsum(by_steps(translator, translator.text.source.encode([text])[0], here.target))
            [subwords] = map(len, translator.text.source.encode([alone]))
            assert sign.explained == pytest.approx((whole - without) / (subwords + 1), abs=1e-4)


def test_a_deleted_translation_is_found_and_a_whole_one_is_not(translator, folder, score):
    sources, targets = single.sentences(folder), single.sentences(folder, "target")
    pairs, wanted = [], []
    for place in range(0, 18, 2):
        text = f"{sources[place]} {sources[place + 1]}"
        pairs.append(pair(translator, text, targets[place], fewer=1))
        wanted.append([False, True])
        pairs.append(pair(translator, text, targets[place + 1], fewer=1))
        wanted.append([True, False])
    found = [[each.is_omission for each in signs] for signs in examine(pairs, translator.text.source, score, None)]
    right = sum(one == other for one, other in zip(found, wanted, strict=True))
    assert right >= 0.9 * len(pairs)


def linked(translator, here, words):
    """The links of a pair's target to source words, given by their numbers."""
    of_source = spans(translator.text.source, here.text, here.source)
    return Aligned(of_source, [[words[place % len(words)] for place in range(len(here.target))]])


@pytest.mark.parametrize(
    ("words", "shares"),
    [
        ([0, 1, 2, 3, 4, 5], [1.0, 1.0]),
        ([0, 1, 2], [1.0, 0.0]),
        ([None, 0, 3, 5], [0.0, 1.0]),
        ([2, 3, 5], [0.5, 1.0]),
        ([None], [0.0, 0.0]),
    ],
)
def test_the_share_of_content_words_with_a_link(translator, words, shares):
    """Words of four letters count; `Uns` and `lo` do not."""
    here = pair(translator, "Uns mebu zabi. Tibi lo gubi.", "Rushoshima kurikar.")
    links = linked(translator, here, words)
    assert [word.text for word in links.words] == ["Uns", "mebu", "zabi.", "Tibi", "lo", "gubi."]
    assert [omissions._share(links, here.text, where) for where in here.sentences] == shares


def test_a_sentence_of_short_words_has_all_of_them_count(translator):
    here = pair(translator, "Uns lo. Tibi gubi.", "Rushoshima kurikar.")
    assert omissions._share(linked(translator, here, [0]), here.text, here.sentences[0]) == 0.5


def test_the_costly_sign_is_computed_where_a_cheap_one_is_suspicious(translator, score):
    """Where nothing is, a sentence has no evidence; fewer sentences make all of them suspicious."""
    here = pair(translator, "Uns mebu zabi. Tibi lo gubi.", "Rushoshima kurikar.")
    asked = []

    def counting(sources, targets):
        asked.append(len(sources))
        return score(sources, targets)

    def signs(words, fewer=0):
        links = words and linked(translator, here, words)
        known = Pair(here.text, here.source, here.sentences, here.target, fewer, links)
        [found] = examine([known], translator.text.source, counting, None)
        return [each is not None for each in found]

    assert signs([0, 1, 2, 3, 4, 5]) == [False, False]
    assert signs([1, 2, 0]) == [False, True]
    assert signs([2, 3, 5]) == [False, False], "half of the words is enough"
    assert signs([0, 1, 2, 3, 4, 5], fewer=1) == [True, True]
    assert signs(None) == [False, False], "without alignments only the number of sentences is known"
    assert signs(None, fewer=1) == [True, True]
    assert asked == [0, 2, 0, 3, 0, 3], "the source once, and once without each suspicious sentence"
    assert SUSPICIOUS == 0.5


@pytest.mark.parametrize(
    ("explained", "fewer", "learned", "lost"),
    [
        ([3.0, 0.5, -1.0], 0, True, [1, 2]),
        ([3.0, 0.5, -1.0], 1, False, [1, 2]),
        ([3.0, 1.5, 2.0], 2, True, []),
        ([3.0, 1.5, 2.0], 2, False, [1, 2]),
        ([3.0, 1.5, 2.0], 1, False, [1]),
        ([EXPLAINED, EXPLAINED - 1e-9, None], 0, True, [1]),
        ([None, None], 0, False, []),
    ],
)
def test_sentences_that_explain_little_are_left_out_and_as_many_as_are_fewer_where_so_many_are_not_learned(
    explained, fewer, learned, lost
):
    signs = [None if value is None else Evidence(value, None) for value in explained]
    assert left_out(signs, fewer, learned) == lost


@pytest.mark.parametrize(
    ("text", "blanked", "expected"),
    [
        ("One is. Two are.", None, ["One is.", "Two are."]),
        ("  One is.  Two are. ", None, ["One is.", "Two are."]),
        ("See `a`. Two are.", "See    . Two are.", ["See `a`.", "Two are."]),
        ("One is. `abc`. Two are.", "One is.      . Two are.", ["One is.", "Two are."]),
        ("...", None, []),
        ("", None, []),
    ],
)
def test_sentences_that_count_have_a_letter_that_goes_through_the_model(text, blanked, expected):
    found = intervals(text, "en", blanked)
    assert [text[start:end] for start, end in found] == expected
    assert all(isinstance(each, Interval) for each in found)
