"""What judges say of sentences that `benchmarks/completeness.py draw` drew, and how a detector does by them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posnmt.evaluation.analyse.completeness.labels import weighted_share


@dataclass(frozen=True)
class Judgements:
    """Sentences that were drawn, with the labels of judges.

    Attributes:
        outputs: the output that each sentence was drawn from.
        places: the numbers of its line and of itself in the line, from 1.
        items: [k] its item, a line of an output.
        flagged: [k] whether the detector that drew it had flagged it.
        weights: [k] by how many sentences it stands for: the inverse of its probability of being drawn.
        labels: [judges, k] 1 if it is omitted, else 0.
        automatic: the share of flagged sentences of all, drawn or not.
    """

    outputs: list[str]
    places: list[tuple[int, int]]
    items: NDArray[np.int64]
    flagged: NDArray[np.bool_]
    weights: NDArray[np.float64]
    labels: NDArray[np.int64]
    automatic: float

    @property
    def opinions(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.bool_]]]:
        """The labels of each judge, and with two of the sentences on which they agree; and which sentences have one."""
        everything = np.ones(len(self.items), bool)
        named = {f"judge {number}": (each, everything) for number, each in enumerate(self.labels, start=1)}
        if len(self.labels) > 1:
            named["both agree"] = self.labels[0], (self.labels == self.labels[0]).all(0)
        return named


def read(key: Path, labels: Sequence[Path]) -> Judgements:
    """Read the key of a draw and the files of its judges, with the columns item, sentence and omitted."""
    facts = json.loads(key.read_text("utf-8"))
    by_judge = []
    for path in labels:
        heading, *lines = (line.split("\t") for line in path.read_text("utf-8").rstrip("\n").split("\n"))
        rows = [dict(zip(heading, line, strict=True)) for line in lines]
        by_judge.append({(int(row["item"]), int(row["sentence"])): int(row["omitted"]) for row in rows})
    drawn = [(item, one) for item in facts["items"] for one in item["sentences"]]
    return Judgements(
        [item["output"] for item, _ in drawn],
        [(item["line"], one["sentence"]) for item, one in drawn],
        np.array([item["item"] for item, _ in drawn]),
        np.array([one["flagged"] for _, one in drawn]),
        np.array([1 / one["probability"] for _, one in drawn]),
        np.array([[each[item["item"], one["sentence"]] for item, one in drawn] for each in by_judge]),
        facts["flagged"] / facts["sentences"],
    )


def table(judged: Judgements, flags: NDArray[np.bool_], chosen: NDArray[np.bool_] | None = None) -> str:
    """How a detector does by each judge, in all outputs and in each.

    Args:
        flags: [k] what the detector says.
        chosen: [k] the sentences that count; default: all.
    """
    heads = "labels of", "output", "sentences", "omitted", "found", "false alarms", "sensitivity", "specificity"
    rows = [f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}"]
    counted = np.ones(len(flags), bool) if chosen is None else chosen
    outputs = np.array(judged.outputs)
    for name, (omitted, known) in judged.opinions.items():
        for output in ["all", *dict.fromkeys(outputs[counted].tolist())]:
            here = counted & known & ((outputs == output) | (output == "all"))
            hand, flag, weights, items = omitted[here], flags[here], judged.weights[here], judged.items[here]
            found = weighted_share(flag.astype(float), weights * hand, items)
            passed = weighted_share((~flag).astype(float), weights * (1 - hand), items)
            counts = len(hand), hand.sum(), (flag & (hand == 1)).sum(), (flag & (hand == 0)).sum()
            cells = [name, output, *map(str, counts), _with_interval(found), _with_interval(passed)]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _with_interval(share: dict) -> str:
    if share["value"] is None:
        return ""
    between = " ({:.3f} to {:.3f})".format(*share["interval"]) if share["interval"] else ""
    return f"{share['value']:.3f}{between}"
