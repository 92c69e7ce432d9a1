"""Draw the learning curves of runs: dev BLEU and dev perplexity over minutes of training.

python benchmarks/learning_curves.py OUTPUT.svg NAME=RUN [NAME=RUN …]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure


def dev_lines(run: Path) -> list[dict[str, float]]:
    """The evaluations of a run, in order."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1])
    return [line for line in lines if line["kind"] == "dev"]


def main() -> None:
    """Read the runs and write the figure."""
    output, *runs = sys.argv[1:]
    matplotlib.rcParams["svg.hashsalt"] = "posnmt"  # the same runs give the same bytes
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    for pair in runs:
        name, folder = pair.split("=", 1)
        lines = dev_lines(Path(folder))
        minutes = [line["seconds"] / 60 for line in lines]
        left.plot(minutes, [line["bleu"] for line in lines], marker="o", markersize=3, label=name)
        right.plot(minutes, [line["perplexity"] for line in lines], marker="o", markersize=3, label=name)
    left.set(xlabel="minutes of training", ylabel="dev BLEU (greedy)")
    right.set(xlabel="minutes of training", ylabel="dev perplexity", yscale="log")
    right.set_yticks(ticks := [5, 10, 20, 40, 80, 160], [str(tick) for tick in ticks])
    right.minorticks_off()
    left.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(output, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
