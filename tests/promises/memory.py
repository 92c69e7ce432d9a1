"""The peak memory of `posnmt prepare` and `posnmt analyse` on made text of growing size.

`python -m tests.promises.memory prepare 100000 300000 1000000 3000000` prints a line for each number of lines: the
greatest resident memory of the command, its processes included, its minutes, and what each line added since the number
before. `--text SOURCE TARGET` takes the lines of two files in place of drawn ones.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

MIB = 1 << 20


BLOCK = 50_000
"""Lines that are drawn."""


def drawn_lines(name: str) -> list[str]:
    """Lines of 5 to 40 words, of 50,000 words by Zipf's law."""
    drawn = random.Random(name)
    words = ["".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=drawn.randint(2, 9))) for _ in range(50_000)]
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return [" ".join(drawn.choices(words, cum_weights=weights, k=drawn.randint(5, 40))) for _ in range(BLOCK)]


def translated(target: Sequence[str], name: str) -> list[str]:
    """Lines like a system's translations: words of the target are left out, moved, and taken from other lines."""
    drawn = random.Random(name)
    made = []
    for line in target:
        words = [drawn.choice(drawn.choice(target).split() or [word]) if drawn.random() < 0.2 else word
                 for word in line.split() if drawn.random() > 0.05]  # fmt: skip
        if len(words) > 1:
            words.insert(drawn.randrange(len(words)), words.pop(drawn.randrange(len(words))))
        made.append(" ".join(words))
    return made


def written(folder: Path, lines: int, name: str, block: Sequence[str]) -> Path:
    """A file with so many lines: those of a block again and again, with their numbers, so that no two are the same."""
    path = folder / f"{name}-{lines}"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{block[number % len(block)]} {number}\n" for number in range(lines))
    return path


def prepare(folder: Path, lines: int, texts: dict[str, list[str]]) -> list[str]:
    """The arguments that prepare so many pairs."""
    source, target = (written(folder, lines, name, texts[name]) for name in ("source", "target"))
    config = folder / "config.yaml"
    config.write_text(
        f"data: {{train: {{source: {source}, target: {target}}}, held_out: 100, "
        "source_language: en, target_language: de}\n"
        "subword: {vocabulary: 8000}\ntrain: {steps: 1}\n",
        encoding="utf-8",
    )
    return ["prepare", str(config), "--out", str(folder / f"store-{lines}")]


def analyse(folder: Path, lines: int, texts: dict[str, list[str]]) -> list[str]:
    """The arguments that analyse so many lines of two systems, with all defaults."""
    blocks = texts | {name: translated(texts["target"], name) for name in ("one", "two")}
    files = {name: written(folder, lines, name, block) for name, block in blocks.items()}
    outputs = [part for name in ("one", "two") for part in ("--output", f"{name}={files[name]}")]
    given = ["--source", str(files["source"]), "--reference", str(files["target"])]
    return ["analyse", *given, *outputs, "--out", str(folder / f"analysis-{lines}")]


def peak(arguments: Sequence[str], most: int | None = None) -> tuple[int, int, str]:
    """Exit status, peak memory in bytes and standard error of a command.

    Args:
        most: bytes of address space that each of its processes may have; None: no limit.
    """
    with tempfile.TemporaryFile("w+") as errors:
        limit = None if most is None else lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most))
        command = [sys.executable, "-m", "posnmt", *arguments]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=limit)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return child.returncode, used.ru_maxrss << 10, errors.read()


def main() -> None:
    """Run one command for each number of lines."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("command", choices=("prepare", "analyse"))
    options.add_argument("lines", nargs="+", type=int)
    options.add_argument("--text", nargs=2, type=Path, metavar=("SOURCE", "TARGET"))
    given = options.parse_args()
    names = ("source", "target")
    texts = {name: drawn_lines(name) for name in names}
    if given.text:
        texts = {
            name: path.read_text("utf-8").rstrip("\n").split("\n") for name, path in zip(names, given.text, strict=True)
        }
    before = None
    for lines in given.lines:
        with tempfile.TemporaryDirectory() as folder:
            arguments = {"prepare": prepare, "analyse": analyse}[given.command](Path(folder), lines, texts)
            began = time.monotonic()
            status, memory, errors = peak(arguments)
            minutes = (time.monotonic() - began) / 60
        if status:
            sys.exit(errors)
        more = "" if before is None else f", {(memory - before[1]) / (lines - before[0]):,.0f} bytes a line more"
        print(f"{given.command}, {lines:,} lines: {memory / MIB:,.0f} MiB, {minutes:.1f} minutes{more}", flush=True)
        before = lines, memory


if __name__ == "__main__":
    main()
