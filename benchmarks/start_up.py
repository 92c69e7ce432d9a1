"""How long commands take before they give something: `--help`, the first translated line, the first update.

    python benchmarks/start_up.py [--repeats 5] [--entries 12]

Every figure is from fresh processes that take turns, with their files in the page cache. The model has about 20 million
parameters and was trained for two updates on the built-in language pair, so its output ends at the length limit, which
is set near the length of the input here: a trained model would write as much. The corpus is prepared before. `import
torch` is a process that does nothing else: no command that computes can be quicker.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from posnmt.corpora.artificial.pairs import command as artificial

POLL = 0.002
"""Seconds between two looks at a file that a process is about to write."""

CORPUS = {split: {side: f"corpus/{split}.{side}" for side in ("source", "target")} for split in ("train", "dev")}
CONFIG: dict[str, Any] = {
    "data": {**CORPUS, "store": "stores"},
    "subword": {"vocabulary": 400},
    "model": {
        "system": "relative", "size": "base", "tie_embeddings": "all",
        "encoder": {"layers": 3}, "decoder": {"layers": 3},
    },
    "train": {"steps": 2, "log_every": 1, "batch": 1024, "average": 1, "dev_bleu": False},
    "decode": {"max_ratio": 1.0, "max_extra": 5},
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A command whose start is timed.

    Attributes:
        goal: seconds within which it is to be ready, or None.
        arguments: of Python, given the number of the repeat.
        ready: whether what was waited for is there; None: it is the first line on standard output.
    """

    name: str
    goal: float | None
    arguments: Callable[[int], list[str]]
    ready: Callable[[int], bool] | None = None


@dataclass(frozen=True)
class Start:
    """Seconds of one process: until it gave what was waited for, until it ended, and of processors in all."""

    first: float
    end: float
    processors: float


def main() -> None:
    """Print the table, and where the imports of `translate` go."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--entries", type=int, default=12, help="rows of the import profile")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sentence = set_up(folder)
        cases = list_cases(folder)
        for case in cases:
            started(case, sentence, 0)  # bytecode is written, files come into the page cache
        starts: dict[str, list[Start]] = {case.name: [] for case in cases}
        for repeat in range(1, arguments.repeats + 1):
            for case in cases:
                starts[case.name].append(started(case, sentence, repeat))
        parameters = json.loads((folder / "run" / "record.json").read_text())["parameters"]
        print_table(cases, starts, parameters)
        print_imports(folder, sentence, arguments.entries)


def set_up(folder: Path) -> bytes:
    """A corpus, its store and a run, in a folder; a line to translate."""
    artificial(folder / "corpus", train=2000, dev=20, test=20)
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
    subprocess.run(posnmt("train", "config.yaml", "--out", "run"), cwd=folder, check=True, capture_output=True)
    return (folder / "corpus" / "dev.source").read_bytes().splitlines(keepends=True)[0]


def list_cases(folder: Path) -> list[Case]:
    """What is timed."""

    def run_of(repeat: int) -> Path:
        return folder / f"run-{repeat}"

    def training(repeat: int) -> list[str]:
        one_update = ("--set", "train.steps=1")
        return posnmt("train", str(folder / "config.yaml"), "--out", str(run_of(repeat)), *one_update)

    def updated(repeat: int) -> bool:
        metrics = run_of(repeat) / "metrics.jsonl"
        return metrics.exists() and metrics.stat().st_size > 0

    return [
        Case("import torch", None, lambda _: [sys.executable, "-c", "import torch; print(1, flush=True)"]),
        Case("posnmt --help", 0.3, lambda _: posnmt("--help")),
        Case("posnmt translate, first line", 2.0, lambda _: posnmt("translate", str(folder / "run"))),
        Case("posnmt train, first update", 5.0, training, updated),
    ]


def posnmt(*arguments: str) -> list[str]:
    """The command line of a command of this environment."""
    return [sys.executable, "-m", "posnmt", *arguments]


def started(case: Case, sentence: bytes, repeat: int) -> Start:
    """One process of a case, given a line on standard input, timed."""
    with tempfile.TemporaryFile() as line:
        line.write(sentence)
        line.seek(0)
        began = time.perf_counter()
        process = subprocess.Popen(
            case.arguments(repeat), stdin=line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        if case.ready is None:
            process.stdout.readline()
        else:
            ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
            while not case.ready(repeat) and os.waitid(os.P_PID, process.pid, ended) is None:
                time.sleep(POLL)
        first = time.perf_counter() - began
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{case.name} ended with status {process.returncode}: run it by hand to see why")
    return Start(first, time.perf_counter() - began, usage.ru_utime + usage.ru_stime)


def print_table(cases: list[Case], starts: dict[str, list[Start]], parameters: int) -> None:
    """One row a command, Markdown."""
    import torch

    from posnmt_position.processor import processor

    print(f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__},", end=" ")
    print(f"Python {platform.python_version()}; a model of {parameters:,} parameters; median (range)\n")
    print("| | seconds to it | goal | seconds to the end | seconds of processors |\n|---|---|---|---|---|")
    for case in cases:
        first, end, processors = (
            f"{statistics.median(found):.2f} ({min(found):.2f}-{max(found):.2f})"
            for found in zip(*((each.first, each.end, each.processors) for each in starts[case.name]), strict=True)
        )
        print(f"| {case.name} | {first} | {case.goal or ''} | {end} | {processors} |")


def print_imports(folder: Path, sentence: bytes, entries: int) -> None:
    """Where `translate` spends its imports: a package with all below it, by its modules' own seconds; Markdown."""
    command = posnmt("translate", str(folder / "run"))
    command[1:1] = ["-X", "importtime"]
    said = subprocess.run(command, input=sentence, capture_output=True, check=True).stderr.decode()
    found = re.findall(r"^import time: +(\d+) \| +\d+ \| +(\S+)$", said, flags=re.MULTILINE)
    seconds, modules = Counter[str](), Counter[str]()
    for microseconds, module in found:
        package = module.split(".")[0]
        seconds[package] += int(microseconds)
        modules[package] += 1
    print(
        f"\nImports of translate: {seconds.total() / 1e6:.2f} s, {modules.total():,} modules (timing them takes time)\n"
    )
    print("| package | seconds | modules |\n|---|---|---|")
    for package, spent in seconds.most_common(entries):
        print(f"| {package} | {spent / 1e6:.3f} | {modules[package]:,} |")


if __name__ == "__main__":
    main()
