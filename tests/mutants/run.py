"""Put the faults of `mutants.yaml` into a copy of the package one at a time, and see that the named tests notice each.

    python tests/mutants/run.py [WORD ...]

With words, only faults whose sentence or file holds one of them. Ends with status 1 where a fault lives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COPIED = ("posnmt", "tests", "configs", "docs", "benchmarks", "pyproject.toml", "CONTRIBUTING.md", "README.md")


def main(words: list[str]) -> int:
    listed = Path(__file__).with_name("mutants.yaml").read_text(encoding="utf-8")
    groups: dict[str, list[dict[str, str]]] = yaml.safe_load(listed)
    alive = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "posnmt"
        copy.mkdir()
        for name in COPIED:
            whole = ROOT / name
            copy_of = shutil.copytree if whole.is_dir() else shutil.copy
            copy_of(whole, copy / name)
        for mutant in chosen(groups, words):
            killed = noticed(copy, mutant)
            print(f"{'killed' if killed else 'ALIVE '}  {mutant['fault']}  ({mutant['file']})", flush=True)
            alive += [] if killed else [mutant]
    return 1 if alive else 0


def chosen(groups: dict[str, list[dict[str, str]]], words: list[str]) -> Iterator[dict[str, str]]:
    """The faults that hold one of the words; all where there are no words."""
    for group in groups.values():
        for mutant in group:
            if not words or any(word in mutant["fault"] + mutant["file"] for word in words):
                yield mutant


def noticed(copy: Path, mutant: dict[str, Any]) -> bool:
    """Whether the tests of a fault fail with it."""
    path = copy / mutant["file"]
    sound = path.read_text(encoding="utf-8")
    if (count := sound.count(mutant["find"])) != 1:
        sys.exit(f"{mutant['file']} has {mutant['find']!r} {count} times, not once: move the fault")
    path.write_text(sound.replace(mutant["find"], mutant["put"]), encoding="utf-8")
    tests = [f"tests/{name}" for name in mutant["tests"].split()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    path.write_text(sound, encoding="utf-8")
    if done.returncode not in (0, 1):
        sys.exit(f"{mutant['fault']}: pytest ended with status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.returncode == 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
