"""The sentences that the page lets its reader look through, with the scores of each system for each of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posnmt.analyse.additive import Additive
from posnmt.analyse.bins import TrainedLengths
from posnmt.analyse.inputs import Text
from posnmt.conditions.text import unsegmented
from posnmt.metrics.scores import sentence_scores

if TYPE_CHECKING:
    import numpy as np

# Scores are kept as whole hundredths: a page shows one decimal, and two sentences seldom differ by less.
DECIMALS = 2


@dataclass(frozen=True)
class Examples:
    """Sentences for the page. E of the N sentences, M systems.

    Attributes:
        total: N.
        numbers: `[E]` the place of each among all, from 0, rising.
        texts: `[E]` of source, reference and each system's output.
        lengths: `[E]` of the sources, in the unit of the analysis.
        seen: `[E]` whether training saw sources of that length; None: not known.
        scores: metric → `[M][E]`, in hundredths of a point.
        by_character: whether differences are those of characters: the references have no blanks between words.
    """

    total: int
    numbers: list[int]
    texts: list[list[str]]
    lengths: list[int]
    seen: list[bool] | None
    scores: dict[str, list[list[int]]]
    by_character: bool

    @classmethod
    def of(
        cls,
        texts: Sequence[Text],
        lengths: np.ndarray,
        additive: Additive,
        trained: TrainedLengths,
        wanted: int | None = None,
    ) -> Examples:
        """The examples of an analysis.

        Args:
            texts: source, reference and outputs; those of swapped sources, which come last, are left out.
            lengths: `[N]` of the sources.
            additive: the counts of the outputs, in their order.
            trained: the lengths seen in training.
            wanted: how many sentences, taken at equal distances; None: all.
        """
        import numpy as np

        total = len(lengths)
        count = total if wanted is None else min(wanted, total)
        numbers = np.arange(count) * total // max(count, 1)
        shown = [text.lines for text in texts if not text.share]
        rows = additive.rows[numbers, : len(shown) - 2]
        scores = {
            metric: np.rint(sentence_scores(metric, rows[..., columns]).T * 10**DECIMALS).astype(int).tolist()
            for metric, columns in additive.columns.items()
        }
        words = [len(line.split()) for line in texts[1].lines]
        chosen = lengths[numbers].tolist()
        return cls(
            total=total,
            numbers=numbers.tolist(),
            texts=[[lines[number] for lines in shown] for number in numbers.tolist()],
            lengths=chosen,
            seen=None if trained == TrainedLengths() else [trained.holds(length) for length in chosen],
            scores=scores,
            by_character=unsegmented(words.count(1), len(words) - words.count(0)),
        )

    def text(self, systems: Sequence[dict[str, Any]], metrics: Sequence[dict[str, Any]]) -> str:
        """Everything as JSON, for the page's script.

        A sentence's texts stand together, so that what its translations have in common is packed well.

        Args:
            systems: about each system, in order.
            metrics: about each metric that the page shows: `name` and whatever else.
        """
        fields = {
            "systems": systems,
            "metrics": [{**metric, "scores": self.scores[metric["name"]]} for metric in metrics],
            "decimals": DECIMALS,
            "numbers": self.numbers,
            "texts": self.texts,
            "lengths": self.lengths,
            "seen": self.seen,
            "byCharacter": self.by_character,
        }
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
