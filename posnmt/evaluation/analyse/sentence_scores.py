"""Sentence scores by other programs, one number a line: a metric whose corpus score is their mean.

This is how COMET, MetricX, BLEURT and human ratings get intervals, tests and bins like any other metric.

Legend: N sentences, M outputs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from posnmt.base.errors import UserError, quoted, raise_all
from posnmt.config.numbers import in_digits
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.evaluation.analyse.inputs import Text
from posnmt.evaluation.analyse.measures import MEASURES
from posnmt.metrics.metric import Metric

OPTION = "--scores"
NAME = re.compile("[A-Za-z][A-Za-z0-9-]{0,39}")
STEP = 2.0**-24
"""Scores are rounded to multiples of this number, whose sums are exact."""
MOST = 10_000
"""The largest absolute value of a score: with larger ones, sums would not be exact."""
FEWEST_SHOWN = 3
"""The number of faults in a file that are named; further ones are counted."""

FIELDS = ("n", "name", "shares", "intervals")
"""Fields of `results.json` that stand beside the metrics."""

Scores = dict[str, dict[str, Path]]
"""Metric → output → file of its sentence scores; an output for a swapped source is called NAME:SHARE."""


@dataclass(frozen=True)
class ReadScores:
    """The sentence scores of one metric.

    Attributes:
        metric: their mean, shown with enough decimals for scores of this size.
        statistics: for each output `[N, 2]`: the score, and 1.
        files: of the outputs.
        digests: of files that are pipes, as in `Findings`.
    """

    metric: Metric
    statistics: list[np.ndarray]
    files: list[TextFile]
    digests: dict[TextFile, str]


def mean_statistics(values: np.ndarray) -> np.ndarray:
    """The statistics `[N, 2]` of N sentence scores, whose sums are exact: each score as a multiple of `STEP`, and 1."""
    return np.stack([np.rint(values / STEP) * STEP, np.ones(len(values))], axis=1)


def label(text: Text) -> str:
    """The name of an output in `--scores`."""
    return f"{text.system}:{text.share:g}" if text.share else str(text.system)


def parse_scores(pairs: Sequence[str]) -> Scores:
    """Parse `METRIC:NAME=FILE` options: the sentence scores of the output NAME by a METRIC.

    Raises:
        UserError: an option has another form, a metric's name cannot be used, or an output has two files; all at once.
    """
    scores: Scores = {}
    faults = []
    for pair in pairs:
        names, _, path = pair.partition("=")
        metric, _, name = (part.strip() for part in names.partition(":"))
        if not (metric and name and path):
            what = f"sentence scores are written METRIC:NAME=FILE, such as comet:mine=comet.txt; got {quoted(pair)}"
            faults.append(UserError(what, OPTION))
        elif (fault := _metric_fault(metric)) is not None:
            faults.append(fault)
        elif name in scores.setdefault(metric, {}):
            faults.append(UserError(f"{quoted(name)} has two files of {metric}", OPTION))
        else:
            scores[metric][name] = Path(path)
    raise_all(faults)
    return scores


def _metric_fault(metric: str) -> UserError | None:
    """Why a metric of another program cannot have this name; None if it can."""
    if not NAME.fullmatch(metric):
        what = f"a metric's name has letters, digits and hyphens, 40 at most, a letter first; got {quoted(metric)}"
        return UserError(what, OPTION)
    plain, todo = metric.lower().replace("-", "_"), "give the scores another name"
    if plain in {each.replace("-", "_") for each in MEASURES}:
        return UserError(f"{quoted(metric)} is counted here", OPTION, todo)
    if plain in FIELDS:
        return UserError(f"{quoted(metric)} is a field of the results", OPTION, todo)
    return None


def faults_of(scores: Scores, names: Sequence[str], lower: Sequence[str]) -> list[UserError]:
    """Faults that can be detected without reading a file.

    Args:
        scores: of some metrics.
        names: of all outputs, as `label` has them.
        lower: metrics of which lower scores are better.
    """
    faults = [fault for metric in scores if (fault := _metric_fault(metric)) is not None]
    for metric, files in scores.items():
        for name in files:
            if name not in names:
                what = f"no output is called {quoted(name)}, of which there are scores of {metric}"
                faults.append(UserError(what, OPTION, f"choose from {', '.join(names)}"))
        if missing := [name for name in names if name not in files]:
            todo = "give a file for every output: " + ", ".join(f"{metric}:{name}=FILE" for name in missing)
            faults.append(UserError(f"there are no scores of {metric} for {', '.join(missing)}", OPTION, todo))
    twice = [metric for metric in scores if sum(metric.lower() == other.lower() for other in scores) > 1]
    if twice:
        faults.append(UserError(f"names that differ in case alone: {', '.join(twice)}", OPTION, "choose another name"))
    for metric in lower:
        if metric not in scores:
            what = f"no scores are called {quoted(metric)}"
            faults.append(UserError(what, "--lower-is-better", f"name a metric of {OPTION} METRIC:NAME=FILE"))
    return faults


def read_scores(scores: Scores, outputs: Sequence[Text], lower: Collection[str] = ()) -> dict[str, ReadScores]:
    """Read the sentence scores of every metric for M outputs of N sentences.

    Args:
        scores: their files.
        outputs: the texts.
        lower: metrics of which lower scores are better.

    Raises:
        UserError: a file cannot be read, or does not have one number for each sentence; all at once.
    """
    read, faults = {}, []
    for metric, files in scores.items():
        of_outputs, of_files = [], []
        digests: dict[TextFile, str] = {}
        for text in outputs:
            file = TextFile(f"{metric} of {label(text)}", files[label(text)])
            findings = Findings(accept=("empty", "crlf"))
            try:
                values = _numbers(file, len(text.lines), findings)
            except UserError as error:
                faults.append(error)
                continue
            of_outputs.append(mean_statistics(np.array(values)))
            of_files.append(file)
            digests |= findings.digests
        largest = max((float(np.abs(each).max(initial=0)) for each in of_outputs), default=0.0)
        shown = 4 if largest <= 2 else 2 if largest <= 30 else 1
        mean = Metric(metric, decimals=shown, higher=metric not in lower)
        read[metric] = ReadScores(mean, of_outputs, of_files, digests)
    raise_all(faults)
    return read


def _numbers(file: TextFile, count: int, findings: Findings) -> list[float]:
    """The numbers in a file, one a line.

    Raises:
        UserError: the file cannot be read, or does not have `count` numbers.
    """
    lines = list(read_lines(file, findings))
    findings.raise_all()
    values = [_number(line) for line in lines]
    wrong = [number for number, value in enumerate(values, start=1) if not abs(value) <= MOST]
    faults = [
        UserError(
            f"{file.role}: {lines[number - 1][:40]!r} is no number from {-MOST:,} to {MOST:,}", f"{file.path}:{number}",
            "a file of scores has one number for each sentence, and nothing else",
        )
        for number in wrong[:FEWEST_SHOWN]
    ]  # fmt: skip
    if len(wrong) > FEWEST_SHOWN:
        faults.append(UserError(f"{file.role}: {len(wrong)} of {len(lines)} lines are no numbers", file.path))
    if len(lines) != count:
        what = f"{file.role}: {len(lines)} lines for {count} sentences"
        faults.append(UserError(what, file.path, "a file of scores has one number for each sentence"))
    raise_all(faults)
    return values


def _number(line: str) -> float:
    """The number on a line; NaN if there is none."""
    try:
        return float(in_digits(line))
    except ValueError:
        return math.nan
