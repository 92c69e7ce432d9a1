"""How often the verdict on length is wrong, and how often it finds what is there, by simulated corpora.

python benchmarks/length_verdict.py SOURCE REFERENCE [--corpora N] [--only NAME]

Each line of the reference is degraded twice, with other words in place of some: X and Y, of which Y is the worse one.
A corpus draws lines, and gives X to system A and Y to system B with a probability p that depends on the source length,
else the other way round. So the true difference of any lengths is known: p = 1/2 is none. It prints the tables of
benchmarks/notes/length_verdict.md.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.bins import TrainedLengths, bins_of_width
from posnmt.evaluation.analyse.length_bands import CHANGE, Cuts, Figure, Part, bands
from posnmt.evaluation.analyse.length_verdict import CHANGES, CROSSOVER, EVERY, NONE, SIDE, Finding, find
from posnmt.metrics.bleu import BLEU
from posnmt.metrics.metric import Counting

LINES = 8000
SHARES = (0.30, 0.36)  # of words that X and Y have wrong, before a factor of each line that both share
DOCUMENT = 10  # lines
BINS = bins_of_width(10, TrainedLengths())
MEASURED = ("wrong", "all hold", "stated hold", "cut (10, 50, 90 %)")
"""Whether what is said is wrong, whether all intervals hold the truth, and whether those that are stated do."""

Chance = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Pool:
    """The lines: source lengths `[N]`, and the counts of BLEU of X and Y `[2, N, K]`."""

    lengths: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, source: Path, reference: Path) -> Pool:
        draw = random.Random(1)
        texts = [path.read_text(encoding="utf-8").removesuffix("\n").split("\n") for path in (source, reference)]
        lines = draw.sample([pair for pair in zip(*texts, strict=True) if all(map(str.strip, pair))], LINES)
        words = [word for _, target in lines for word in target.split()]
        factors = [draw.gammavariate(4, 1 / 4) for _ in lines]
        count = BLEU.counter([[target] for _, target in lines], Counting())

        def degraded(share: float) -> list[str]:
            return [
                " ".join(
                    draw.choice(words) if draw.random() < min(0.9, share * factor) else word for word in target.split()
                )
                for (_, target), factor in zip(lines, factors, strict=True)
            ]

        lengths = np.array([len(line.split()) for line, _ in lines])
        return cls(lengths, np.stack([count(degraded(share)) for share in SHARES]).astype(float))

    def corpus(
        self, sentences: int, chance: Chance, generator: np.random.Generator, by_document: bool, blocks: bool
    ) -> tuple[Additive, np.ndarray]:
        """A corpus of two systems and its source lengths. Documents have lines of all lengths."""
        lines = generator.integers(0, len(self.lengths), size=sentences)
        documents = np.arange(sentences) // DOCUMENT
        draws = generator.random(sentences)
        if by_document:
            draws = draws[documents * DOCUMENT]
        first = np.where(draws < chance(self.lengths[lines]), 0, 1)
        statistics = [self.counts[first, lines], self.counts[1 - first, lines]]
        nothing = np.zeros(sentences)
        known = documents if blocks else None
        additive = Additive.of({"bleu": statistics}, [nothing, nothing], nothing, documents=known)
        return additive, self.lengths[lines]

    def truths(self, chance: Chance) -> Callable[[Part], float]:
        """A function that gives the true difference in a part of the lengths."""
        p = chance(self.lengths)[:, None]
        one, other = self.counts
        longest = int(self.lengths.max())
        sums = np.zeros((2, longest + 2, one.shape[1]))  # of the lengths below each length
        for system, rows in enumerate((p * one + (1 - p) * other, p * other + (1 - p) * one)):
            np.add.at(sums[system], self.lengths + 1, rows)
        below = sums.cumsum(axis=1)

        def between(first: int, last: int | None) -> float:
            ends = [min(longest + 1, longest + 1 if last is None else last + 1), min(first, longest + 1)]
            scores = BLEU.score(below[:, ends[0]] - below[:, ends[1]])
            return float(scores[0] - scores[1])

        def truth(part: Part) -> float:
            if part.kind == CHANGE:
                return between(part.cut, None) - between(0, part.cut - 1)
            return between(part.first, part.last)

        return truth


@dataclass(frozen=True)
class Tally:
    """What was found in the corpora of one setting."""

    findings: list[Finding]
    covered: list[bool]
    stated: list[bool]
    false: list[bool]


def simulate(
    pool: Pool, sentences: int, chance: Chance, corpora: int, samples: int, by_document: bool, blocks: bool
) -> Tally:
    """Analyse simulated corpora.

    Returns:
        Of each corpus the finding; whether all intervals hold the truth; whether those that the sentence states do, if
        it states some; and whether anything it says of who is ahead, or of a change, is wrong.
    """
    tally, truth = Tally([], [], [], []), pool.truths(chance)
    for number in range(corpora):
        generator = np.random.default_rng([sentences, number])
        additive, lengths = pool.corpus(sentences, chance, generator, by_document, blocks)
        cuts = Cuts.of(lengths, BINS, additive.documents)
        of_pair = bands(additive, "bleu", {"a": [0], "b": [1]}, [("a", "b")], cuts, samples, number).figures["a", "b"]
        truths = {id(each): truth(each.part) for each in of_pair}

        def right(figure: Figure, truths: dict[int, float] = truths) -> bool:
            return figure.low <= truths[id(figure)] <= figure.high

        finding = find("a", "b", of_pair)
        stated = [*(finding.at or ()), *(finding.bins if finding.kind == EVERY else ())]
        tally.findings.append(finding)
        tally.covered.append(all(map(right, of_pair)))
        if stated:
            tally.stated.append(all(map(right, stated)))
        signed = [each for each in stated if each.sign]
        tally.false.append(any(each.sign * truths[id(each)] <= 1e-9 for each in signed))
    return tally


def constant(p: float) -> Chance:
    return lambda lengths: np.full(len(lengths), p)


def step(cut: int, shorter: float, longer: float) -> Chance:
    return lambda lengths: np.where(lengths < cut, shorter, longer)


def linear(cut: int, slope: float) -> Chance:
    """From p = 1 on the shortest lengths, through 1/2 at the cut."""
    return lambda lengths: np.clip(0.5 + slope * (cut - lengths), 0, 1)


SETTINGS: dict[str, tuple[Chance, int | None]] = {
    "equal everywhere": (constant(0.5), None),
    "ahead on the shorter half, equal on the longer": (step(20, 1.0, 0.5), None),
    "ahead on the longer half, equal on the shorter": (step(20, 0.5, 1.0), None),
    "ahead everywhere": (constant(1.0), None),
    "crossover at 12": (step(12, 1.0, 0.0), 12),
    "crossover at 20": (step(20, 1.0, 0.0), 20),
    "crossover at 20, half": (step(20, 0.75, 0.25), 20),
    "crossover at 30": (step(30, 1.0, 0.0), 30),
    "gradual crossover at 20": (linear(20, 0.05), 20),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--corpora", type=int, default=400)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--sentences", type=int, nargs="+", default=[300, 1000, 3000])
    parser.add_argument("--only", default="")
    parser.add_argument("--by-document", action="store_true", help="all lines of a document are drawn alike")
    parser.add_argument("--blocks", action="store_true", help="the bootstrap draws documents")
    options = parser.parse_args()
    pool = Pool.of(options.source, options.reference)
    scores = BLEU.score(pool.counts.sum(axis=1))
    quartiles = np.quantile(pool.lengths, [0.25, 0.5, 0.75]).astype(int).tolist()
    print(f"X {scores[0]:.1f} BLEU, Y {scores[1]:.1f}; quartiles of the source lengths {quartiles}")
    heads = ["setting", "sentences", "true differences", CROSSOVER, EVERY, CHANGES, SIDE, NONE, *MEASURED]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, (chance, cut) in SETTINGS.items():
        for sentences in options.sentences if options.only in name else ():
            tally = simulate(
                pool, sentences, chance, options.corpora, options.samples, options.by_document, options.blocks
            )
            print(row(pool, name, sentences, chance, cut, tally), flush=True)


def row(pool: Pool, name: str, sentences: int, chance: Chance, cut: int | None, tally: Tally) -> str:
    """A row of the table; shares in per cent."""
    kinds = [each.kind for each in tally.findings]
    at = cut or 20
    truth = [pool.truths(chance)(part) for part in (Part("", at, 0, at - 1, 0, 0), Part("", at, at, None, 0, 0))]
    shares = [100 * kinds.count(kind) / len(kinds) for kind in (CROSSOVER, EVERY, CHANGES, SIDE, NONE)]
    found = [each.cut for each in tally.findings if each.kind == CROSSOVER and each.cut is not None]
    ends = "" if not found else " / ".join(f"{each:.0f}" for each in np.quantile(found, [0.1, 0.5, 0.9]))
    stated = f"{100 * np.mean(tally.stated):.1f} ({len(tally.stated)})" if tally.stated else ""
    figures = [
        *(f"{each:.1f}" for each in shares),
        f"{100 * np.mean(tally.false):.1f}",
        f"{100 * np.mean(tally.covered):.1f}",
    ]
    return f"| {name} | {sentences:,} | {truth[0]:+.1f}, {truth[1]:+.1f} | {' | '.join(figures)} | {stated} | {ends} |"


if __name__ == "__main__":
    main()
