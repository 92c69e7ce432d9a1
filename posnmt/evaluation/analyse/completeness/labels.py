"""Human labels of sentences: their file, the rate that they correct, and how well two judges agree.

The published rate is the automatic rate plus the mean of (label - automatic) over labelled sentences. Each sentence is
weighted by the inverse of its probability of being drawn (prediction-powered inference: Angelopoulos et al. 2023), so
that the rate is unbiased whatever the detector overlooks.

Legend: K sentences of all source lines, k labelled ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posnmt.base.errors import UserError, quoted, raise_all
from posnmt.config.numbers import in_digits
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.evaluation.analyse.completeness.counts import jackknife, rate_of

NEEDED = ("line", "sentence", "omitted")
OPTIONAL = ("probability", "second")
OPTION = "--judged"


@dataclass(frozen=True)
class Labels:
    """The labels of one output.

    Attributes:
        places: for each label the number of the line, and of the sentence in the line, from 1.
        omitted: `[k]` 1 if the sentence is omitted, else 0.
        probabilities: `[k]` of being drawn.
        second: `[k]` the labels of a second judge; NaN where there is none.
    """

    places: list[tuple[int, int]]
    omitted: np.ndarray
    probabilities: np.ndarray
    second: np.ndarray


def read_labels(path: Path, sizes: np.ndarray) -> Labels:
    """Read a file of labels: columns with tabs between them, and their names in the first line.

    Args:
        path: the file. It needs `line`, `sentence` and `omitted` (1 or 0). It may have `probability`, that of being
            drawn (default 1), and `second`, the label of a second judge or nothing.
        sizes: `[N]` sentences of each source line.

    Raises:
        UserError: a column is missing, or a row has another value or no such sentence; all at once.
    """
    findings = Findings(accept=("crlf",))
    lines = list(read_lines(TextFile("labels", path), findings, blank_is_fault=False))
    findings.raise_all()
    heading = lines[0].split("\t") if lines else []
    form = f"the first line names the columns, with tabs: {', '.join(NEEDED)}, and if known {', '.join(OPTIONAL)}"
    if missing := [name for name in NEEDED if name not in heading]:
        raise UserError(f"labels: there is no column {missing[0]!r}", f"{path}:1", form)
    if unknown := [name for name in heading if name not in (*NEEDED, *OPTIONAL)]:
        raise UserError(f"labels: no column is called {quoted(unknown[0])}", f"{path}:1", form)
    rows, faults, places = [], [], set()
    for number, line in enumerate(lines[1:], start=2):
        try:
            row = _row(dict(zip(heading, line.split("\t"), strict=True)), sizes)
            if row[:2] in places:
                raise ValueError("this sentence has a label already")
        except ValueError as error:
            faults.append(UserError(f"labels: {error}", f"{path}:{number}", form))
            continue
        places.add(row[:2])
        rows.append(row)
    if not rows and not faults:
        faults.append(UserError("labels: there is none", path, form))
    raise_all(faults)
    columns = np.array([row[2:] for row in rows], dtype=float).T
    return Labels([row[:2] for row in rows], *columns)


def _row(cells: dict[str, str], sizes: np.ndarray) -> tuple[int, int, float, float, float]:
    """A row: line, sentence, label, probability and second label.

    Raises:
        ValueError: why it is none.
    """
    try:
        line, sentence = int(in_digits(cells["line"])), int(in_digits(cells["sentence"]))
        probability = float(in_digits(cells.get("probability") or "1"))
    except ValueError:
        raise ValueError("line, sentence and probability are numbers") from None
    if not 1 <= line <= len(sizes):
        raise ValueError(f"there is no line {line}; the source has {len(sizes):,}")
    if not 1 <= sentence <= sizes[line - 1]:
        raise ValueError(f"line {line} has no sentence {sentence}; its source has {sizes[line - 1]}")
    if not 0 < probability <= 1:
        raise ValueError(f"a probability is above 0 and at most 1; got {probability:g}")
    second = cells.get("second", "")
    if cells["omitted"] not in ("0", "1") or second not in ("", "0", "1"):
        raise ValueError("a label is 1 (omitted) or 0")
    return line, sentence, float(cells["omitted"]), probability, float(second or "nan")


def corrected(labels: Labels, omitted: np.ndarray, lines: np.ndarray, numbers: np.ndarray) -> dict[str, Any]:
    """The rate as corrected by labels, how well the detector does on them, and how well two judges agree.

    `alone` is the rate by the labels only; None unless all sentences were drawn with the same probability.

    Args:
        labels: of one output.
        omitted: `[K]` whether the detector takes a sentence for omitted.
        lines, numbers: `[K]` the line of each sentence, and its number in it, from 0.
    """
    at = {place: row for row, place in enumerate(zip((lines + 1).tolist(), (numbers + 1).tolist(), strict=True))}
    rows = np.array([at[place] for place in labels.places])
    automatic, weights, owner = omitted[rows].astype(float), 1 / labels.probabilities, lines[rows]
    second = ~np.isnan(labels.second)
    base = weighted_mean(omitted.astype(float), np.ones(len(omitted)), lines)
    correction = weighted_mean(labels.omitted - automatic, weights, owner)
    rate, interval = base["value"] + correction["value"], None
    if correction["interval"] is not None:
        spreads = [each for each in (base["interval"], correction["interval"]) if each is not None]
        reach = sum(((high - low) / 2) ** 2 for low, high in spreads) ** 0.5
        interval = [max(0.0, rate - reach), min(1.0, rate + reach)]
    judges = agreement(labels.omitted[second], labels.second[second]) if second.any() else None
    return {
        "labels": len(rows),
        "omitted": int(labels.omitted.sum()),
        "rate": rate,
        "interval": interval,
        "alone": rate_of(labels.omitted, owner) if len(set(labels.probabilities.tolist())) == 1 else None,
        "sensitivity": weighted_share(automatic, weights * labels.omitted, owner),
        "specificity": weighted_share(1 - automatic, weights * (1 - labels.omitted), owner),
        "agreement": judges,
    }


def weighted_mean(values: np.ndarray, weights: np.ndarray, lines: np.ndarray) -> dict[str, Any]:
    """A weighted mean with its jackknife interval over lines; `value` is None without any weight.

    The interval is None if all lines have the same mean, since they do not show how much it varies.

    Args:
        values, weights: `[k]` of sentences.
        lines: `[k]` the number of the line of each.
    """
    total = float(weights.sum())
    if not total:
        return {"value": None, "interval": None}
    ends = jackknife(np.bincount(lines, values * weights), np.bincount(lines, weights))
    known = ends is not None and ends[0] < ends[1]
    return {"value": float((values * weights).sum()) / total, "interval": [*ends] if ends and known else None}


def weighted_share(values: np.ndarray, weights: np.ndarray, lines: np.ndarray) -> dict[str, Any]:
    """The weighted mean of values from 0 to 1; its interval is limited to these."""
    share = weighted_mean(values, weights, lines)
    interval = share["interval"]
    return {**share, "interval": interval and [max(0.0, interval[0]), min(1.0, interval[1])]}


def agreement(ones: np.ndarray, others: np.ndarray) -> dict[str, Any]:
    """How well two judges agree on the same sentences.

    Returns:
        `sentences`; `agreed`, the share p of equal labels; Cohen's (1960) `kappa` = (p - e) / (1 - e), where e is the
        product of the judges' shares summed over the labels; and Gwet's (2008) `ac1`, the same with e = 2 q (1 - q),
        where q is the mean share of a label, which a low share does not upset. None where e is 1.
    """
    share, first, second = float((ones == others).mean()), float(ones.mean()), float(others.mean())
    by_chance = first * second + (1 - first) * (1 - second)
    mean = (first + second) / 2
    gwet = 2 * mean * (1 - mean)
    kappa = None if by_chance == 1 else (share - by_chance) / (1 - by_chance)
    return {"sentences": len(ones), "agreed": share, "kappa": kappa, "ac1": (share - gwet) / (1 - gwet)}
