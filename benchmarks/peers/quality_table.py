"""Time to the quality that a peer has after so many updates, from curves and from the speed of updates.

    python benchmarks/peers/quality_table.py CURVES [CURVES ...] --speed SPEED.json --at 1000 [5000]
                                             [--peer fairseq] [--ours NAME ...]

CURVES are folders of `quality.py` and `learning.py`; SPEED.json is what `train_speed.py` wrote with the same batches.
The quality is the peer's dev perplexity at those updates, mean over its seeds. For each name and seed, the update at
which its curve reaches that quality is interpolated, in the logarithm of perplexity; the time is that of so many
updates, at the speed of its trainer: for posnmt that of the configuration which `train_speed.py` trained, whatever the
name, so name variants with the optimizer and the model of that one. Evaluations are not counted. A ratio is the peer's
time divided by that of the name, with the lowest and the highest over seeds and turns.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from learning import results

PEERS = {"fairseq": "fairseq", "huggingface": "Marian in transformers"}
"""Folder of a peer's curves -> its name in SPEED.json."""
OURS = ("posnmt auto", "posnmt fp32")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves", type=Path, nargs="+")
    parser.add_argument("--speed", type=Path, required=True)
    parser.add_argument("--at", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--peer", choices=PEERS, default="fairseq")
    parser.add_argument("--ours", nargs="+", default=["shipped"])
    arguments = parser.parse_args()
    curves: dict[str, list[dict[str, Any]]] = {}
    for folder in arguments.curves:
        for name, found in results(folder).items():
            curves.setdefault(name, []).extend(found)
    content = json.loads(arguments.speed.read_text(encoding="utf-8"))
    turns = [{each["trainer"]: seconds(each) for each in turn} for turn in content["turns"]]
    print(f"{content['processor']}, {content['cores']} cores; seconds of an update, medians of {len(turns)} turns:")
    for trainer in (*OURS, PEERS[arguments.peer]):
        print(f"  {trainer}: {statistics.median(turn[trainer] for turn in turns):.3f}")
    for at in arguments.at:
        peers = [
            each["perplexity"][each["updates"].index(at)] for each in curves[arguments.peer] if at in each["updates"]
        ]
        quality = statistics.mean(peers)
        print(f"\n{arguments.peer} after {at:,} updates: dev perplexity {quality:.2f} ({len(peers)} seeds)")
        print("| | seeds | updates to it | time: " + " | time: ".join(OURS) + " |\n|---|---|---|---|---|")
        for name in arguments.ours:
            needed = [reached(each, quality) for each in curves[name]]
            if not needed or math.inf in needed:
                print(f"| {name} | {len(needed)} | not reached by each | | |")
                continue
            row = [f"{statistics.mean(needed):,.0f} ({min(needed):,.0f}-{max(needed):,.0f})"]
            for trainer in OURS:
                ratios = [
                    at * turn[PEERS[arguments.peer]] / (each * turn[trainer]) for turn in turns for each in needed
                ]
                row.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")
            print(f"| {name} | {len(needed)} | {' | '.join(row)} |")


def seconds(speed: dict[str, Any]) -> float:
    """Of an update, mean over those that a turn of `train_speed.py` counts."""
    return float(speed["tokens_an_update"] / speed["tokens_per_second"])


def reached(result: dict[str, Any], quality: float) -> float:
    """The update at which a curve reaches a perplexity, between its points; infinity where it never does."""
    points = list(zip(result["updates"], map(math.log, result["perplexity"]), strict=True))
    wanted = math.log(quality)
    for (before, high), (after, low) in pairwise(points):
        if low <= wanted < high:
            return float(before + (after - before) * (high - wanted) / (high - low))
    return math.inf


if __name__ == "__main__":
    main()
