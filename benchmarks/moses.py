"""Moses tokenisation: microseconds a line of posnmt's own code and of sacremoses, in turn, on the same lines.

    python benchmarks/moses.py en=FILE ja=FILE ... [--lines 5000] [--repeats 5]

posnmt starts each repeat with nothing remembered. The tokens of both are compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path

from posnmt.data.moses import MosesTokeniser
from posnmt_position.processor import processor


def main() -> None:
    """Print one line a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="LANGUAGE=FILE")
    parser.add_argument("--lines", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{processor()}, sacremoses {version('sacremoses')}, one core, microseconds a line")
    for each in arguments.files:
        language, _, name = each.partition("=")
        with Path(name).open(encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in islice(file, arguments.lines)]
        compare(language, name, lines, arguments.repeats)


def compare(language: str, name: str, lines: Sequence[str], repeats: int) -> None:
    """Time both on the lines and print medians and the ratio with its range; stops where tokens differ."""
    from sacremoses import MosesTokenizer

    theirs = MosesTokenizer(language)
    times: list[tuple[float, float]] = []
    for _ in range(repeats):
        ours = MosesTokeniser(language)
        slow, wanted = timed(lambda line: theirs.tokenize(line, return_str=True, escape=False), lines)
        quick, found = timed(ours.tokenise, lines)
        if found != wanted:
            raise SystemExit(f"{name}: the tokens differ")
        times.append((slow, quick))
    ratios = [slow / quick for slow, quick in times]
    medians = "  ".join(f"{statistics.median(column):8.1f}" for column in zip(*times, strict=True))
    print(f"{language} {name}: {medians}   {statistics.median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})")


def timed(tokenise: Callable[[str], str], lines: Sequence[str]) -> tuple[float, list[str]]:
    """Microseconds a line, and what came out."""
    began = time.perf_counter()
    found = [tokenise(line) for line in lines]
    return (time.perf_counter() - began) * 1e6 / len(lines), found


if __name__ == "__main__":
    main()
