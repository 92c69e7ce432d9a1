"""What models expect at each place of a target, given the correct subwords before it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posnmt.data.subword import BOS, EOS
from posnmt.translate.subwords import force_subwords, score_subwords
from tests.support.tiny import MODELS, build, each_of, tokens

CPU = torch.device("cpu")
SOURCES = [tokens(1, length, seed=length)[0].tolist() for length in (6, 1, 9, 4)]
TARGETS = [tokens(1, length, seed=20 + length)[0].tolist() for length in (3, 8, 5, 1)] + [[]]
SOURCES.append(SOURCES[0])


@torch.inference_mode()
def by_loops(model, source, target):
    """Losses and probabilities of the end, a whole forward pass for each symbol."""
    losses, ends, written = [], [], [BOS]
    for symbol in [*target, EOS]:
        logits = model.project(model(torch.tensor([[*source, EOS]]), None, torch.tensor([written])))[0, -1].tolist()
        total = sum(np.exp(each) for each in logits)
        losses.append(-np.log(np.exp(logits[symbol]) / total))
        ends.append(np.exp(logits[EOS]) / total)
        written.append(symbol)
    return losses, ends


@pytest.mark.parametrize("name", each_of())
def test_losses_of_every_subword_and_of_the_end(name):
    """In any batch; and they add up to the score."""
    model = build(**MODELS[name])
    expected = [by_loops(model, *pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    scores = score_subwords([model], SOURCES, TARGETS, 1000, CPU)
    for batch in (1, 12, 1000):
        forced = force_subwords(model, SOURCES, TARGETS, batch, CPU)
        for each, (losses, ends), score in zip(forced, expected, scores, strict=True):
            np.testing.assert_allclose(each.losses, losses, atol=1e-9)
            np.testing.assert_allclose(each.ends, ends, atol=1e-9)
            assert each.losses.sum() == pytest.approx(-score, abs=1e-6)
            assert each.ends[-1] == pytest.approx(np.exp(-each.losses[-1]), abs=1e-12)


def test_single_precision_adds_up_to_the_score():
    """300 subwords are some 700 nats, of which a sum in single precision would keep four decimals."""
    model = build(system="relative").float()
    sources, targets = [tokens(1, 300)[0].tolist()] * 2, [tokens(1, length, seed=1)[0].tolist() for length in (300, 7)]
    forced = force_subwords(model, sources, targets, 10_000, CPU)
    for each, score in zip(forced, score_subwords([model], sources, targets, 10_000, CPU), strict=True):
        assert each.losses.dtype == np.float64
        assert each.losses.sum() == pytest.approx(-score, abs=1e-6)
