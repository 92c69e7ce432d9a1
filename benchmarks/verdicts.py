"""How often verdicts on studies are right: Welch's test, a paired t-test, and the rule of posnmt, on simulated studies.

    python benchmarks/verdicts.py [--studies 10000]

A study has T systems of R seeds. A figure is an effect of its seed on all systems, an interaction of both, and, of a
difference, an error over sentences. Printed are per cent: coverage of 95 % intervals; support of a difference that does
not exist (nominal 2.5); support of three differences at 5 %, and in brackets at 1 %, which is the first step of Holm's
correction for five comparisons.

A second table has tests whose sentences stand in documents of unequal size. The error of the difference is then that of
documents and of their sentences; each study estimates it from sentences as if these were drawn one by one, or from its
documents: as their bootstrap does on average, or with what that lacks, G* / (G* - 1), as posnmt has it.

Legend: N studies, T systems, R seeds, G documents.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from posnmt.evaluation.analyse.moderated import PRIOR, components, moderated
from posnmt.evaluation.analyse.seeds import t_quantile

Array = np.ndarray
TESTS = ("Welch", "paired t", "rule")
LEVELS = (0.975, 0.995)
"""Of one side: of the intervals of 95 % and 99 %."""
FREEDOMS = np.unique(np.concatenate([np.linspace(1, 10, 91), np.geomspace(10, 10_000, 120)]))


@dataclass(frozen=True)
class Cell:
    """Studies of one kind.

    Attributes:
        name: in the table.
        seed, interaction: standard deviations of a figure over seeds: of all systems together, and of one alone.
        sentences: standard deviation of the difference over sentences.
        effects: true differences whose support is counted.
        systems: T.
        documents: effective number, G*; None: sentences are many, and their variance is known.
        noisy: how much larger the interaction of the first system of the pair is.
        alone: whether the difference is one system's between two classes of sentences, not that of two systems; the
            figures are then those differences.
    """

    name: str
    seed: float
    interaction: float
    sentences: float
    effects: tuple[float, float, float]
    systems: int = 8
    documents: int | None = None
    noisy: float = 1.0
    alone: bool = False


BLEU = (0.3, 0.5, 1.0)
CELLS = (
    (Cell("BLEU, effect of seeds", 0.16, 0.20, 0.117, BLEU), (2, 3, 5)),
    (Cell("BLEU, no effect of seeds", 0.0, 0.27, 0.117, BLEU), (2, 3, 5)),
    (Cell("BLEU, one noisy system", 0.16, 0.20, 0.117, BLEU, noisy=3.0), (3, 5)),
    (Cell("NLL, 13 documents", 0.022, 0.008, 0.010, (0.02, 0.04, 0.08), documents=13), (3,)),
    (Cell("NLL beyond, 13 documents", 0.03, 0.02, 0.027, (0.05, 0.1, 0.2), documents=13), (3,)),
    (Cell("BLEU, 4 systems", 0.16, 0.20, 0.117, BLEU, systems=4), (2, 3, 5)),
    (Cell("BLEU, 5 systems", 0.16, 0.20, 0.117, BLEU, systems=5), (2, 3)),
    (Cell("one system, two lengths, effect of seeds", 0.30, 0.20, 0.117, BLEU, alone=True), (2, 3, 5)),
    (Cell("one system, two lengths, none", 0.0, 0.27, 0.117, BLEU, alone=True), (2, 3, 5)),
)


@dataclass(frozen=True)
class Documents:
    """Tests of 1,000 sentences in documents.

    Attributes:
        count: of documents.
        spread: standard deviation of the logarithm of their sizes.
        alike: the share of the variance of sentences that their documents explain.
    """

    count: int
    spread: float
    alike: float


SENTENCES = 1000
TESTS_OF_DOCUMENTS = tuple(Documents(count, 0.96, alike) for alike in (0.02, 0.1) for count in (5, 10, 20, 35, 100))


@dataclass(frozen=True)
class Simulated:
    """Estimates of N studies whose true difference is 0.

    Attributes:
        values: `[N]`.
        variances: `[N]` of the values.
        freedoms: `[N]` degrees of freedom.
    """

    values: Array
    variances: Array
    freedoms: Array

    @classmethod
    def of(cls, values: Array, sentences: Array, freedom: float | Array, *parts: tuple[Array, int]) -> Simulated:
        """Estimates with a variance over sentences and parts over seeds, by Satterthwaite."""
        total = sentences + sum(part for part, _ in parts)
        below = sentences**2 / freedom + sum(part**2 / own for part, own in parts)
        return cls(values, total, np.clip(total**2 / np.maximum(below, 1e-300), 1, FREEDOMS[-1]))

    def shares(self, effects: tuple[float, ...]) -> tuple[float, float, list[float], list[float]]:
        """Coverage, false support, and the support of each effect at both levels; in per cent."""
        errors = np.sqrt(self.variances)
        reach, far = (np.interp(self.freedoms, FREEDOMS, quantiles(level)) * errors for level in LEVELS)

        def support(effect: float, ends: Array) -> float:
            return 100 * float((self.values + effect - ends > 0).mean())

        coverage = 100 * float((np.abs(self.values) < reach).mean())
        return (
            coverage,
            support(0, reach),
            [support(each, reach) for each in effects],
            [support(each, far) for each in effects],
        )


def quantiles(level: float) -> Array:
    """The quantiles of Student's t at all of `FREEDOMS`."""
    return np.array([t_quantile(level, float(each)) for each in FREEDOMS[:-1]] + [NormalDist().inv_cdf(level)])


def simulate(cell: Cell, seeds: int, studies: int, generator: np.random.Generator) -> dict[str, Simulated]:
    """Studies of a cell by each test: test -> estimates.

    For one system alone, Welch's test and the paired one are Student's t-test of its seeds.
    """
    spread = np.full(cell.systems, cell.interaction)
    spread[0] *= cell.noisy
    figures = generator.normal(0, cell.seed, (studies, 1, seeds))
    figures = figures + generator.normal(0, 1, (studies, cell.systems, seeds)) * spread[:, None]
    error = generator.normal(0, cell.sentences, studies)
    freedom = math.inf if cell.documents is None else cell.documents - 1
    sentences = np.full(studies, cell.sentences**2)
    if cell.documents is not None:
        sentences = sentences * generator.chisquare(freedom, studies) / freedom
    weights = np.zeros((cell.systems, 1))
    weights[: 1 if cell.alone else 2, 0] = [1] if cell.alone else [1, -1]
    of_seeds = np.einsum("ntr,t->nr", figures, weights[:, 0])
    values = of_seeds.mean(axis=1) + error
    own = of_seeds.var(axis=1, ddof=1) / seeds
    single = figures[:, : 1 if cell.alone else 2].var(axis=2, ddof=1) / seeds
    among = components(figures[..., None], weights, np.ones((cell.systems, seeds), bool))
    rule = [(moderated(among.own, among.usual, seeds), PRIOR + seeds - 1), (among.shared, seeds - 1)]
    return {
        "Welch": Simulated.of(values, sentences, freedom, *[(part, seeds - 1) for part in single.T]),
        "paired t": Simulated.of(values, sentences, freedom, (own, seeds - 1)),
        "rule": Simulated.of(values, sentences, freedom, *rule),
        # As if the effect of seeds cancelled in every difference: one variance, with R + 3 degrees of freedom.
        "not split": Simulated.of(values, sentences, freedom, (moderated(own, among.usual, seeds), PRIOR + seeds - 1)),
    }


def simulate_documents(
    test: Documents, seeds: int, studies: int, generator: np.random.Generator
) -> tuple[float, dict[str, Simulated]]:
    """Studies of BLEU whose sentences stand in documents: the mean effective number, and how variance is estimated."""
    cell = CELLS[0][0]
    sizes = np.exp(generator.normal(0, test.spread, (studies, test.count)))
    sizes = np.maximum(1, np.round(SENTENCES * sizes / sizes.sum(axis=1, keepdims=True)))
    total = sizes.sum(axis=1)
    single = cell.sentences * math.sqrt(SENTENCES)
    means = generator.normal(0, single * math.sqrt(test.alike), sizes.shape)
    means += generator.normal(0, 1, sizes.shape) * single * np.sqrt((1 - test.alike) / sizes)
    error = (sizes * means).sum(axis=1) / total
    by_sentence = np.full(studies, single**2) / total
    effective = total**2 / (sizes**2).sum(axis=1)
    by_document = (sizes**2 * (means - error[:, None]) ** 2).sum(axis=1) / total**2
    figures = generator.normal(0, cell.seed, (studies, 1, seeds))
    figures = figures + generator.normal(0, cell.interaction, (studies, cell.systems, seeds))
    weights = np.zeros((cell.systems, 1))
    weights[:2, 0] = [1, -1]
    among = components(figures[..., None], weights, np.ones((cell.systems, seeds), bool))
    over_seeds = moderated(among.own, among.usual, seeds), PRIOR + seeds - 1
    values = error + (figures[:, 0] - figures[:, 1]).mean(axis=1)
    return float(effective.mean()), {
        "sentences": Simulated.of(values, by_sentence, math.inf, over_seeds),
        "documents": Simulated.of(values, by_document, effective - 1, over_seeds),
        "the rule": Simulated.of(values, by_document * effective / (effective - 1), effective - 1, over_seeds),
    }


def rows_of_documents(studies: int, seeds: int = 3) -> Iterator[str]:
    """The table of tests with documents as lines of Markdown."""
    yield "| documents (of equal size), share of variance | by sentences | by documents | by the rule |"
    yield "|---|---|---|---|"
    for test in TESTS_OF_DOCUMENTS:
        generator = np.random.default_rng([test.count, round(100 * test.alike)])
        effective, found = simulate_documents(test, seeds, studies, generator)
        shown = [_shown(*each.shares(BLEU)) for each in found.values()]
        yield f"| {test.count} ({effective:.0f}), {test.alike:g} | {' | '.join(shown)} |"


def rows(studies: int, tests: tuple[str, ...] = TESTS) -> Iterator[str]:
    """The table as lines of Markdown."""
    yield f"| studies; effects | R | {' | '.join(tests)} |"
    yield "|---" * (2 + len(tests)) + "|"
    for cell, of_seeds in CELLS:
        for seeds in of_seeds:
            found = simulate(cell, seeds, studies, np.random.default_rng([seeds, len(cell.name)]))
            shown = [_shown(*found[test].shares(cell.effects)) for test in tests]
            effects = "/".join(f"{each:g}" for each in cell.effects)
            yield f"| {cell.name}; {effects} | {seeds} | {' | '.join(shown)} |"


def _shown(coverage: float, false: float, power: list[float], strict: list[float]) -> str:
    """A cell of the table: "95.9 2.1 19/42/91 (6/20/72)"."""
    first, second = ("/".join(f"{each:.0f}" for each in shares) for shares in (power, strict))
    return f"{coverage:.1f} {false:.1f} {first} ({second})"


def main(say: Callable[[str], None] = print) -> None:
    """Print the table, what one system at two lengths needs the split for, and the table of documents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=10_000)
    studies = parser.parse_args().studies
    for line in rows(studies, (*TESTS, "not split")):
        say(line)
    say("")
    for line in rows_of_documents(studies):
        say(line)


if __name__ == "__main__":
    main()
