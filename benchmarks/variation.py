"""How much chrF varies over sentences and over seeds in our published studies, for what a comparison could find.

`python benchmarks/variation.py DATA` reads docs/results and the references, which lie in the folder DATA (ende_multi30k
and enja_tanaka_small). For each study and each least number of source words it prints the number of sentences, the root
mean square over all pairs of systems of the spread over single sentences, and that of the standard deviation of a
system's figure over seeds.
"""

from __future__ import annotations

import csv
import io
import itertools
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posnmt.evaluation.analyse.additive import Additive
from posnmt.metrics.metric import Counting
from posnmt.metrics.registry import METRICS
from posnmt.study.contrast import Contrast, Term
from posnmt.study.evidence import Evidence, Output

RESULTS = Path(__file__).parents[1] / "docs" / "results"
CAPTIONS = [f"ende_multi30k/test{name}" for name in ("2016_flickr", "2017_flickr", "2017_mscoco", "2018_flickr")]
PRESET = ("transformer", "relative", "rope", "lstm", "rr")
STUDIES = {
    "schemes-small": ("single", "de", "en", PRESET, (0, 12, 18, 22)),
    "neishi2019-small": ("test", "en", "de", ("transformer", "relative", "rnn", "rr"), (0, 12, 18, 22)),
    "schemes-enja-small": ("single", "en", "ja", PRESET, (0, 8, 12)),
}
"""Study -> its test, languages, systems, and least numbers of source words."""


def lines(path: Path) -> list[str]:
    """The lines of a text."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def text(data: Path, language: str, study: str) -> list[str]:
    """One side of the test of a study."""
    if study != "schemes-enja-small":
        return [line for name in CAPTIONS for line in lines(data / f"{name}.{language}")]
    folder = data / "enja_tanaka_small"
    return lines(folder / f"test.{language}") + lines(folder / f"train.{language}")[46_000:50_000]


def evidence(study: str, test: str, systems: Sequence[str], sources: list[str], references: list[str]) -> Evidence:
    """The counts of chrF of the translations of a study."""
    with tarfile.open(RESULTS / study / "translations.tar.xz") as packed:
        member = packed.extractfile(f"translations/{test}.csv")
        assert member is not None
        head, *rows = csv.reader(io.StringIO(member.read().decode("utf-8"), newline=""))
    if len(rows) != len(references):
        sys.exit(f"{study} has {len(rows):,} translations of {len(references):,} references: DATA has another test")
    count, counts, outputs = METRICS["chrf"].counter([[line] for line in references], Counting()), [], []
    for column, name in enumerate(head):
        system, training, seed = name.rsplit(".", 2)
        if system in systems and training == "all":
            counts.append(count([row[column] for row in rows]))
            outputs.append(Output(name, system, training, int(seed), 0.0, None, None, None, None))
    words, of_sources = (np.array([len(line.split()) for line in side]) for side in (references, sources))
    additive = Additive.of({"chrf": counts}, [words] * len(counts), words)
    return Evidence(additive.rows, additive.columns, of_sources, outputs)


def main() -> None:
    """Print a line for each study and each length."""
    csv.field_size_limit(2**31 - 1)
    data = Path(sys.argv[1])
    for study, (test, source, target, systems, lengths) in STUDIES.items():
        measured = evidence(study, test, systems, text(data, source, study), text(data, target, study))
        for least in lengths:
            chosen, squares, over_seeds = measured.source_lengths >= least, [], []
            for pair in itertools.combinations(systems, 2):
                terms = [
                    Term((name, "all"), measured.places((name, "all"), 0.0), chosen, 1, than=than)
                    for name, than in zip(pair, (False, True), strict=True)
                ]
                contrast = Contrast.of(measured, "chrf", terms)
                over_sentences = contrast.estimate()
                of_seeds = sum(part.variance for part in over_sentences.over_seeds)
                squares.append((over_sentences.variance - of_seeds) * chosen.sum())
                over_seeds += [scores.var(ddof=1) for scores in contrast.scores]
            spread, deviation = np.mean(squares) ** 0.5, np.mean(over_seeds) ** 0.5
            print(f"{study:20} {least:3} words and more {chosen.sum():5} sentences: {spread:.2f}, {deviation:.3f}")


if __name__ == "__main__":
    main()
