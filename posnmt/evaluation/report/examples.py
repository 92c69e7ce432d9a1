"""The sentences of the page's example browser, with the sentence scores of each system."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from posnmt.base.errors import UserError
from posnmt.config.numbers import in_digits
from posnmt.config.writing import EXAMPLES, unsegmented, writing
from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.bins import Bin, TrainedLengths, mark
from posnmt.evaluation.analyse.inputs import Text
from posnmt.metrics.metric import Metric

SEEN: dict[str | None, bool | None] = {"seen": True, "unseen": False, "partly unseen": None}
"""Mark of a length → whether all trainings saw it; None: only some did."""

PART = 1000
"""Sentences whose texts are written together."""


@dataclass(frozen=True)
class Examples:
    """Sentences for the page: E of the N sentences, M systems.

    Attributes:
        total: N.
        numbers: `[E]` indices of the sentences, from 0, increasing.
        texts: `[E]` lists of source, reference and each system's output.
        lengths: `[E]` of the sources, in the unit of the analysis.
        seen: `[E]` whether sources of that length occur in training; None: only in the training of some systems. None
            altogether if the trained lengths are not known.
        scores: metric → `[M][E]` as integers, which count the decimal after the last one shown.
        by_character: whether to compare texts by character, because the references have no blanks between words.
        languages: codes of the source's and the reference's language, None where they are unknown; browsers
            choose the shapes of Chinese characters by them.
    """

    total: int
    numbers: list[int]
    texts: list[list[str]]
    lengths: list[int]
    seen: list[bool | None] | None
    scores: dict[str, list[list[int]]]
    by_character: bool
    languages: tuple[str | None, str | None]

    @classmethod
    def of(
        cls,
        texts: Sequence[Text],
        lengths: np.ndarray,
        additive: Additive,
        trained: TrainedLengths,
        most: int | None = None,
        language: str | None = None,
    ) -> Examples:
        """The examples of an analysis.

        Args:
            texts: source, reference and outputs; outputs of swapped sources, which come last, are left out.
            lengths: `[N]` of the sources.
            additive: the statistics of the outputs, in the same order.
            trained: the source lengths in training.
            most: number of sentences, evenly spaced; None: all.
            language: code of the references' language; None: that of their script.
        """
        total = len(lengths)
        count = total if most is None else min(most, total)
        numbers = np.arange(count) * total // max(count, 1)
        shown = [text.lines for text in texts if not text.share]
        scores = {}
        for name, columns in additive.columns.items():
            metric, rows = additive.metric(name), additive.rows[numbers, : len(shown) - 2, columns]
            scores[name] = _integers(metric.score(rows, sentences=True).T, metric)
        words = [len(line.split()) for line in texts[1].lines]
        chosen = lengths[numbers].tolist()
        source, reference = (writing(text.lines[:EXAMPLES]) for text in texts[:2])
        return cls(
            total=total,
            numbers=numbers.tolist(),
            texts=[[lines[number] for lines in shown] for number in numbers.tolist()],
            lengths=chosen,
            seen=None if trained == TrainedLengths() else [SEEN[mark(Bin(each, each), trained)] for each in chosen],
            scores=scores,
            by_character=reference.counts_characters or unsegmented(words.count(1), len(words) - words.count(0)),
            languages=(source.code, language or reference.code),
        )

    def parts(self, systems: Sequence[dict[str, Any]], metrics: Sequence[dict[str, Any]]) -> Iterator[str]:
        """All data as JSON, for the page's script, in parts, since the texts of a large test set take gigabytes.

        The texts of a sentence are adjacent, so that the similarity of its translations helps compression.

        Args:
            systems: properties of each system, in order.
            metrics: properties of each metric that the page shows, with its `name`, and the decimals that are `shown`.
        """
        fields = {
            "systems": systems,
            "metrics": [{**metric, "scores": self.scores[metric["name"]]} for metric in metrics],
            "numbers": self.numbers,
            "texts": self.texts,
            "lengths": self.lengths,
            "seen": self.seen,
            "byCharacter": self.by_character,
            "languages": self.languages,
        }
        for place, (name, value) in enumerate(fields.items()):
            yield f"{',' if place else '{'}{_json(name)}:"
            if name == "texts":
                for first in range(0, len(self.texts), PART):
                    yield f"{',' if first else '['}{_json(self.texts[first : first + PART])[1:-1]}"
                yield "]" if self.texts else "[]"
            else:
                yield _json(value)
        yield "}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parse_examples(text: str) -> int | None:
    """The number of sentences in the browser, from `all` (None), `none` or a whole number.

    Raises:
        UserError: it is written otherwise.
    """
    if text in ("all", "none"):
        return None if text == "all" else 0
    with suppress(ValueError):
        if (number := int(in_digits(text))) >= 0:
            return number
    raise UserError(f"examples are all, none or a whole number; got {text!r}", "--examples", "for example 500")


def _integers(scores: np.ndarray, metric: Metric) -> list[list[int]]:
    """Scores `[M, E]` as integers, which count the decimal after the last one that the page shows."""
    return np.rint(scores * 10 ** (metric.decimals + 1)).astype(int).tolist()
