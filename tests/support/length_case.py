"""Artificial sentence scores of systems whose true difference at every source length is known."""

import numpy as np

from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.bins import TrainedLengths, bins_of_width
from posnmt.metrics.metric import Metric

BINS = bins_of_width(10, TrainedLengths())
QUALITY = Metric("Quality", decimals=1, higher=True)
ERRORS = Metric("Errors", decimals=1, higher=False)


def lengths_of(sentences, seed=1, longest=50):
    return np.random.default_rng([seed, 7]).integers(1, longest + 1, sentences)


def scored(lengths, effects, metric=QUALITY, seed=1, noise=5.0, documents=None, of_documents=0.0):
    """Scores around 50, of which every system has its own noise.

    Args:
        lengths: `[N]` of the sources.
        effects: of each output, a function of the lengths.
        noise: standard deviation at a sentence.
        documents: `[N]`, and the standard deviation of what their sentences share.
    """
    generator = np.random.default_rng(seed)
    common = generator.normal(50, 10, len(lengths))
    rows = np.ones((len(lengths), len(effects), 5))
    for output, effect in enumerate(effects):
        shared = 0.0
        if documents is not None:
            shared = generator.normal(0, of_documents, documents.max() + 1)[documents]
        rows[:, output, 0] = common + effect(lengths) + shared + generator.normal(0, noise, len(lengths))
    rows[..., 0] = np.rint(rows[..., 0] * 2**10) / 2**10  # sums are exact
    return Additive(rows, {"quality": slice(0, 2)}, {"quality": metric}, documents)


def equal(lengths):
    return 0.0 * lengths


def step(cut, shorter, longer):
    return lambda lengths: np.where(lengths < cut, shorter, longer)
