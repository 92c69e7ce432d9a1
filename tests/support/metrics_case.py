"""Random texts with odd words in them, and what sacreBLEU says of a corpus."""

from __future__ import annotations

import random

import sacrebleu

from posnmt.metrics.metric import Counting, Texts
from posnmt.metrics.registry import metric

CORPUS_SCORE = {"bleu": sacrebleu.corpus_bleu, "chrf": sacrebleu.corpus_chrf, "ter": sacrebleu.corpus_ter}


WORDS = ["the", "a", "cat", "house,", "\u2028", "it's", "(big)", "small", "日本語", "1,000.5", "&quot;", "and"]


def texts(count: int, seed: int) -> tuple[list[str], list[str]]:
    """References, and outputs that share some of their words; some lines are empty."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices(WORDS, k=draw.randint(0, 12))) for _ in range(count)]
    outputs = [
        " ".join(draw.choice(WORDS) if draw.random() < 0.3 else word for word in line.split(" ")) for line in references
    ]
    return references, ["" if draw.random() < 0.1 else line for line in outputs]


class Scorer:
    """One metric with the references of N sentences, without an analysis around it."""

    def __init__(self, name, references, further=(), **settings):
        self.metric = metric(name)
        self.references = [
            [each for each in of_line if each is not None] for of_line in zip(references, *further, strict=True)
        ]
        self.counting = Counting(**settings, references={*map(len, self.references)})
        self.signature = self.metric.signature(self.counting)

    def statistics(self, outputs):
        return self.statistics_of([outputs])[0]

    def statistics_of(self, systems):
        return self.metric.count(Texts(systems, self.references), self.counting)

    def score(self, statistics):
        return float(self.metric.score(statistics.sum(axis=0)))
