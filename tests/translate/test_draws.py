"""Random systems with random settings of search and random weights: what search finds is what the model says.

Thirty are drawn for each push, several hundred under the mark `slow`. The number of a test is its seed; a failure
prints what was drawn.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Sampling
from posnmt.data.subword import BREAK
from posnmt.translate.bounds import output_limit
from posnmt.translate.requests import Part, Request, Search
from posnmt.translate.subwords import Searcher, score_subwords
from posnmt.translate.watched import can_be_watched
from tests.support import draws
from tests.support.loops import greedy
from tests.support.tiny import VOCABULARY

CPU = torch.device("cpu")
DRAWS = [*range(30), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(30, 430))]
ROUNDED = 5e-5
"""Search adds log-probabilities up in float32."""


def words(rng: random.Random, least: int, most: int) -> list[int]:
    return [rng.randrange(4, VOCABULARY) for _ in range(rng.randint(least, most))]


class Drawn:
    """A system, sources of different lengths, and what is asked of their translations."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.parts = [draws.system(rng) for _ in range(rng.choice([1, 1, 1, 2]))]
        changes = [draws.positions(rng) for _ in self.parts]
        self.models = [draws.model(part, seed, each) for part, each in zip(self.parts, changes, strict=True)]
        self.sources = [words(rng, 1, 9) for _ in range(5)]
        self.prefixes = [words(rng, 0, 2) for _ in self.sources] if rng.random() < 0.4 else []
        print(f"seed {seed}", *self.parts, *changes, self.sources, self.prefixes, sep="\n")

    def search(self, decode: Any, rows: list[int] | None = None, **wanted: Any) -> list[Any]:
        """The translations of some sources, in their order; of all by default."""
        rows = [*range(len(self.sources))] if rows is None else rows
        lists = {"prefix": self.prefixes, **wanted}
        nbest, continuing = lists.pop("count", 1), lists.pop("continuing", ())
        numbers = lists.pop("numbers", [1] * len(self.sources))
        parts = [
            Part(
                self.sources[row],
                Request("", numbers[row]),
                **{name: each[row] for name, each in lists.items() if each},
            )
            for row in rows
        ]
        searcher = Searcher(self.models, CPU, Workers(1), lambda: continuing)
        with torch.inference_mode():
            return searcher.hypotheses(parts, Search(decode, nbest))

    def is_consistent(self, decode: Any, **wanted: Any) -> None:
        """Together, alone and in another order they are the same, and have the scores of a whole forward pass."""
        print(decode, wanted)
        together = self.search(decode, **wanted)
        rows = [*range(len(self.sources))][::-1]
        for others in (
            self.search(decode, rows, **wanted)[::-1],
            self.search(decode.model_copy(update={"batch": 1}), **wanted),
        ):
            for ours, theirs in zip(together, others, strict=True):
                assert [h.tokens for h in ours] == [h.tokens for h in theirs]
                assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=ROUNDED)
        flat = [(source, h) for source, row in zip(self.sources, together, strict=True) for h in row]
        assert flat
        forced = score_subwords(self.models, [source for source, _ in flat], [h.tokens for _, h in flat], 64, CPU)
        for (_, found), whole in zip(flat, forced, strict=True):
            assert found.log_probability == pytest.approx(whole, abs=ROUNDED)
            score = whole / (len(found.tokens) + 1) ** decode.length_penalty + found.coverage
            assert found.score == pytest.approx(score, abs=ROUNDED)

    def greedy(self, row: int, decode: Any) -> list[int]:
        source, prefix = self.sources[row], self.prefixes[row] if self.prefixes else []
        limit = max(output_limit(decode, len(source), self.longest), len(prefix))
        return greedy(self.models, source, limit, decode.min_length, 0, prefix, decode.allow_unk)

    @property
    def longest(self) -> int | None:
        return min((model.longest_target for model in self.models if model.longest_target is not None), default=None)


@pytest.mark.parametrize("seed", DRAWS)
def test_a_random_system(seed):
    drawn = Drawn(seed)
    rng = drawn.rng
    narrow = draws.decode(rng, beam=1)
    print(narrow)
    assert [row[0].tokens for row in drawn.search(narrow)] == [drawn.greedy(row, narrow) for row in range(5)]
    wide = draws.decode(rng, beam=rng.randint(2, 5))
    if all(map(can_be_watched, drawn.models)) and rng.random() < 0.5:
        wide = wide.model_copy(update={"coverage_penalty": rng.uniform(0.1, 1)})
    drawn.is_consistent(wide)
    kind = rng.choice(["terms", "samples", "breaks"])
    if kind == "terms":
        terms = [[words(rng, 1, 2) for _ in range(rng.randint(0, 2))] for _ in drawn.sources]
        drawn.is_consistent(wide, terms=terms, continuing=(5, 6, 7))
    elif kind == "breaks":
        drawn.prefixes = []
        breaks = [rng.randint(0, 2) for _ in drawn.sources]
        drawn.sources = [
            [each for part in range(number + 1) for each in [*([BREAK] * bool(part)), *words(rng, 1, 4)]]
            for number in breaks
        ]
        drawn.is_consistent(wide, breaks=breaks)
    else:
        sampling = Sampling(temperature=rng.uniform(0.5, 2), top_k=rng.choice([0, 3]), top_p=rng.choice([1.0, 0.8]))
        told = wide.model_copy(update={"sampling": sampling, "coverage_penalty": 0.0})
        drawn.is_consistent(told, numbers=[*range(1, 6)], count=3)
