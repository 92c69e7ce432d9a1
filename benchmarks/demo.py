"""Whether the finding of `posnmt demo` holds with every seed: the demo of each, and a table of what was found.

    python benchmarks/demo.py --out FOLDER [--seeds 1 2 3 4 5]

A demo whose folder has a report is not run again. CPU is user and system time of the whole demo, in seconds.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

COLUMNS = ("seed", "CPU", "BLEU trained", "p", "BLEU longer", "p", "loss beyond - dense")


def processor_seconds() -> float:
    """User and system time of all finished children, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(out: Path, seed: int) -> None:
    """A demo in a process of its own; `cpu` in its folder has its seconds. What is left of one cut short is removed."""
    shutil.rmtree(out, ignore_errors=True)
    before = processor_seconds()
    command = [sys.executable, "-m", "posnmt", "demo", "--out", str(out), "--seed", str(seed)]
    done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=True)
    (out / "said").write_text(done.stderr, encoding="utf-8")
    (out / "cpu").write_text(f"{processor_seconds() - before:.0f}\n", encoding="utf-8")


def row(out: Path, seed: int) -> tuple[str, ...]:
    """What a demo found; scores are those of the absolute and of the relative system."""
    groups = json.loads((out / "report/results.json").read_text(encoding="utf-8"))["verdict"]["groups"]
    found = []
    for group in groups:
        found += [" / ".join(f"{score:.1f}" for score in group["scores"].values())]
        found += [" ".join(f"{p:.2g} ({group['best'][0]})" for p in group["p"].values())]
    with (out / "report/tables/likelihood.csv").open(encoding="utf-8", newline="") as file:
        [contrast] = [each for each in csv.DictReader(file) if each["bin"] == "D1" and each["Delta"]]
    value, low, high = (float(contrast[each]) for each in ("Delta", "low", "high"))
    return str(seed), (out / "cpu").read_text().strip(), *found, f"{value:+.2f} ({low:+.2f} to {high:+.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    arguments = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for seed in arguments.seeds:
        out = arguments.out / str(seed)
        if not (out / "cpu").exists():
            run(out, seed)
        print(f"| {' | '.join(row(out, seed))} |", flush=True)


if __name__ == "__main__":
    main()
