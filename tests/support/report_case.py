"""Small analyses for the tests of the report."""

import random
from contextlib import contextmanager
from pathlib import Path

import pytest

from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.settings import Settings
from posnmt.evaluation.report.figures import Drawing
from posnmt.evaluation.report.write import write

EMPTY = '<svg xmlns="http://www.w3.org/2000/svg"/>'
WORDS = ("the", "of", "a", "house", "by", "lake", "dog", "cat", "sees", "small", "red", "one", "two", "three", "four")


@contextmanager
def without_figures():
    """Everything is made as ever, with empty figures: to draw them would take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        empty = Drawing(EMPTY, b"%PDF")
        patch.setattr("posnmt.evaluation.report.figures.draw", lambda charts: {chart.name: empty for chart in charts})
        yield


def report_of(source, reference, outputs, out, swapped=None, examples=None, **settings):
    """The results of an analysis that is written to a folder."""
    analysis = analyse(source, reference, outputs, Settings(**settings), swapped)
    write(analysis, out, examples)
    return analysis.results


def sentences(count=60, longest=24, seed=1):
    """References whose lengths rise from 1 to `longest`, again and again."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=1 + number % longest)) for number in range(count)]


def noisy(lines, share, seed):
    """The lines with a share of the words replaced or left out."""
    draw = random.Random(seed)
    kept = [[draw.choice(WORDS) if draw.random() < share else word for word in line.split()] for line in lines]
    return [" ".join(word for word in line if draw.random() > share / 3) for line in kept]


def analysed(folder: Path, outputs, swapped=None, references=None, **options):
    """The results of an analysis of these outputs (name → lines), whose files are in `folder`/out."""
    folder.mkdir(exist_ok=True)

    def file(name, lines):
        path = folder / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        return path

    references = references or sentences()
    source, reference = file("source", references), file("reference", references)
    paths = {name: file(f"{number}.out", lines) for number, (name, lines) in enumerate(outputs.items())}
    swaps = {key: file(f"{number}.swap", lines) for number, (key, lines) in enumerate((swapped or {}).items())}
    options = {"metrics": ["bleu", "ter"], "resampling": Resampling(40), "out": folder / "out", **options}
    return report_of(source, reference, paths, swapped=swaps, **options)


def everything(folder: Path, correction="none"):
    """The results of three systems, of which two have two seeds and two translated swapped sources."""
    references = sentences()
    shares = {"a:1": 0.2, "a:2": 0.25, "b:1": 0.4, "b:2": 0.5, "c": 0.6}
    outputs = {name: noisy(references, share, name) for name, share in shares.items()}
    swapped = {(name, share): noisy(references, shares[name] + share, f"{name} {share}")
               for name in ("a:1", "a:2", "c") for share in (0.1, 0.3)}  # fmt: skip
    resampling = Resampling(40, correction=correction)
    return analysed(folder, outputs, swapped, max_trained_length=14, bin_width=5, resampling=resampling)
