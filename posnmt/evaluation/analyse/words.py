"""Measures beyond length: words by frequency and by part of the sentence, numbers and names, with intervals.

Legend: N sentences, M outputs, B buckets, S samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from posnmt.evaluation.analyse.additive import plain
from posnmt.evaluation.analyse.inputs import Text
from posnmt.evaluation.analyse.intervals import differences, percentile_interval
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.resample import bootstrap_sums
from posnmt.metrics.bleu import bleu_words
from posnmt.metrics.buckets import FREQUENCIES, Buckets, by_frequency, by_part, kept, scores

KINDS = ("frequency", "part", "kept")

SLICE = 2000
"""Sentences whose words are counted together: all words of a text at once would take kilobytes a sentence."""


def count_words(texts: Sequence[Text], tokenizer: str, frequencies: Counter[str] | None) -> dict[str, Buckets]:
    """Kind → the counts of its buckets.

    Args:
        texts: source, first reference and outputs.
        tokenizer: sacreBLEU's, for frequencies and parts.
        frequencies: of words in the training text; None: those in the reference, of which no word has frequency 0.
    """
    words = bleu_words(tokenizer)
    lines = [text.lines for text in texts]
    known = frequencies is not None
    by_text = word_frequencies(lines[1], tokenizer) if frequencies is None else frequencies
    firsts = FREQUENCIES if known else FREQUENCIES[1:]
    parts = []
    for first in range(0, len(lines[0]), SLICE):
        source, reference, *outputs = (text[first : first + SLICE] for text in lines)
        of_reference, *of_outputs = ([words(line) for line in each] for each in (reference, *outputs))
        parts.append((
            by_frequency(of_outputs, of_reference, by_text, firsts),
            by_part(of_outputs, of_reference),
            kept(source, reference, outputs),
        ))  # fmt: skip
    return {
        kind: replace(some[0], counts=np.concatenate([each.counts for each in some]))
        for kind, some in zip(KINDS, zip(*parts, strict=True), strict=True)
    }


def word_frequencies(lines: Iterable[str], tokenizer: str) -> Counter[str]:
    """How often each word is in a text."""
    return Counter(chain.from_iterable(map(bleu_words(tokenizer), lines)))


@threadpool_limits.wrap(limits=1, user_api="blas")  # see posnmt.evaluation.analyse.resample
def word_results(
    counted: dict[str, Buckets], names: Sequence[str], systems: dict[str, list[int]], resampling: Resampling,
    documents: np.ndarray | None,
) -> dict[str, Any]:  # fmt: skip
    """The measures of all buckets, as `results.json` has them.

    Args:
        counted: by `count_words`, of M outputs.
        names: of the outputs.
        systems: name → indices of its outputs.
        resampling: of the intervals, which draw sentences, or documents where they are known.
        documents: `[N]` their numbers; None: not known.
    """
    sampled = _sampled(counted, resampling, documents) if resampling.samples else {}
    return {kind: _results(buckets, names, systems, sampled.get(kind)) for kind, buckets in counted.items()}


def _sampled(
    counted: dict[str, Buckets], resampling: Resampling, documents: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Kind → the sums of every sample, `[S, M, B, 3]`."""
    shapes = {kind: each.counts.shape[2:] for kind, each in counted.items()}
    rows = np.concatenate([each.counts.reshape(*each.counts.shape[:2], -1) for each in counted.values()], axis=2)
    nowhere = np.zeros(len(rows), dtype=int)
    drawn = bootstrap_sums(rows, nowhere, 1, resampling.samples, resampling.seed, documents=documents)
    sums = np.concatenate([each[:, 0] for each in drawn])
    ends = np.cumsum([np.prod(shape) for shape in shapes.values()])[:-1]
    parts = np.split(sums, ends, axis=2)
    return {
        kind: part.reshape(*part.shape[:2], *shape) for (kind, shape), part in zip(shapes.items(), parts, strict=True)
    }


def _results(
    buckets: Buckets, names: Sequence[str], systems: dict[str, list[int]], sampled: np.ndarray | None
) -> dict[str, Any]:
    """The measures of one kind of buckets."""
    sums = buckets.counts.sum(axis=0)
    measured = {name: each for name, each in scores(sums).items() if name in buckets.measures}
    ends: dict[str, np.ndarray] = {}
    pairs = None
    if sampled is not None:
        of_samples = {name: each for name, each in scores(sampled).items() if name in buckets.measures}
        ends = {name: np.stack(percentile_interval(each), axis=-1) for name, each in of_samples.items()}
        if len(systems) > 1:
            pairs = _pairs(measured, of_samples, systems)
    return {
        "labels": list(buckets.labels),
        "measures": list(buckets.measures),
        "reference_words": sums[0, :, 1].astype(int).tolist(),
        "systems": [
            {
                "name": name,
                "output_words": sums[row, :, 2].astype(int).tolist() if "precision" in buckets.measures else None,
                **{measure: plain(each[row]) for measure, each in measured.items()},
                "intervals": {measure: _intervals(each[row]) for measure, each in ends.items()} or None,
            }
            for row, name in enumerate(names)
        ],
        "differences": pairs,
    }


def _pairs(
    measured: dict[str, np.ndarray], sampled: dict[str, np.ndarray], systems: dict[str, list[int]]
) -> list[dict[str, Any]]:
    """For each pair of systems, measure → [difference, low, high] in each bucket, or None."""
    values = {name: each.T for name, each in measured.items()}
    of_samples = {name: np.moveaxis(each, 1, 2) for name, each in sampled.items()}
    return [
        {
            "system": pair["system"], "other": pair["other"],
            **{name: [row[name] for row in (pair["overall"], *pair["bins"])] for name in measured},
        }
        for pair in differences(values, of_samples, systems)
    ]  # fmt: skip


def _intervals(ends: np.ndarray) -> list[list[float] | None]:
    """[low, high] of each bucket, or None."""
    return [None if None in each else each for each in plain(ends)]
