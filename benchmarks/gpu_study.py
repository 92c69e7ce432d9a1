"""A slice of a study on a machine that is lent for minutes: go on, stop before the limit, and pack what there is.

    python benchmarks/gpu_study.py --study DIR --pack DIR [--seconds 570] [--per-gpu 8] [--unpack DIR] -- \\
        RECIPE --scale small --data CORPORA [--only PATTERN ...]

Several small trainings share the GPU (`posnmt study run --jobs-per-gpu`). Before the limit they save their state. Then
the report, finished steps and the state of unfinished trainings are packed as long as there is room: `part.0`, `part.1`
... of one tar file. `--unpack` takes the pack of an earlier slice, on another machine. The weights of finished
trainings, whose translations are packed, come last. A training whose weights found no room is packed under `cells/`,
which is not unpacked, so name others with `--only`. Experimental: never run on a GPU.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIB = 2**20
PART = "part."
DONE, WEIGHTS = "done.json", ".safetensors"
KEPT = 60
"""Seconds that are left for trainings to save their state, and for packing."""


def main() -> int:
    """Unpack, run, pack; the exit status of the study, 130 where it was stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", type=Path, required=True, help="its folder on this machine")
    parser.add_argument("--pack", type=Path, required=True, help="where the parts are written")
    parser.add_argument("--unpack", type=Path, help="the parts of an earlier slice")
    parser.add_argument("--seconds", type=float, default=570.0, help="for all of it (%(default)s)")
    parser.add_argument("--per-gpu", type=int, default=8, help="steps that share the GPU (%(default)s)")
    parser.add_argument("--room", type=float, default=60.0, help="MiB of all parts (%(default)s)")
    parser.add_argument("--part", type=float, default=15.0, help="MiB of one part (%(default)s)")
    parser.add_argument("words", nargs="+", metavar="WORD", help="arguments of `posnmt study run`")
    arguments = parser.parse_args()
    began = time.monotonic()
    if arguments.unpack is not None:
        unpack(arguments.unpack, arguments.study)
    minutes = max(0.05, (arguments.seconds - min(KEPT, arguments.seconds / 4) - (time.monotonic() - began)) / 60)
    words = ["study", "run", *arguments.words, "--out", str(arguments.study), "--minutes", f"{minutes:.3f}"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(HERE.parent), str(HERE.parent / "position"), os.environ.get("PYTHONPATH", "")]
        ),
    }
    shared = ["--jobs-per-gpu", str(arguments.per_gpu)]
    status = subprocess.run([sys.executable, "-m", "posnmt", *words, *shared], env=environment).returncode
    if (arguments.study / "steps").is_dir():
        pack(arguments.study, arguments.pack, int(arguments.room * MIB), int(arguments.part * MIB))
    return status


def pack(study: Path, out: Path, room: int, part: int) -> None:
    """Write what there is of a study as a tar file in parts, as long as there is room."""
    out.mkdir(parents=True, exist_ok=True)
    used = 0
    left_out = []
    with Parts(out, part) as parts, tarfile.open(fileobj=parts, mode="w|") as tar:  # type: ignore[call-overload]
        for name, files in pieces(study):
            size = sum(path.stat().st_size + 1024 for path in files) + 1024
            if used + size > room:
                left_out.append(name)
                continue
            used += size
            for path in files:
                tar.add(path, arcname=f"{name}/{path.relative_to(study)}")
    print(f"packed {used / MIB:.1f} MiB; left out for want of room: {', '.join(left_out) or 'nothing'}")


def pieces(study: Path) -> Iterator[tuple[str, list[Path]]]:
    """What belongs together, the most important first: the folder that it is packed under, and its files."""
    yield "study", [path for path in sorted(study.iterdir()) if path.is_file() and path.name != "runner.json"]
    steps = sorted(folder for folder in study.glob("steps/*/*") if folder.is_dir())
    trained = [folder for folder in steps if folder.parent.name == "train"]
    for folder in steps:
        if folder not in trained and (folder / DONE).exists():
            yield "study", files_of(folder)
    for folder in trained:
        yield "cells", [path for path in files_of(folder) if path.suffix != WEIGHTS and "checkpoints" not in path.parts]
    for finished in (False, True):  # the state of what is not finished cannot be had again from anything else
        for folder in trained:
            if (folder / DONE).exists() == finished:
                yield "study", files_of(folder)


def files_of(folder: Path) -> list[Path]:
    """All files of a step, without locks of processes that have ended."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "running.json"]


class Parts(io.RawIOBase):
    """A file that is written as parts of some size."""

    def __init__(self, folder: Path, size: int) -> None:
        for old in folder.glob(f"{PART}*"):
            old.unlink()
        self._folder, self._size, self._number, self._room = folder, size, 0, size

    def writable(self) -> bool:
        """It is only written to."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Append to the last part, and begin another where it is full."""
        rest = memoryview(data)
        while len(rest):
            if not self._room:
                self._number, self._room = self._number + 1, self._size
            with (self._folder / f"{PART}{self._number}").open("ab") as file:
                file.write(rest[: self._room])
            taken = min(len(rest), self._room)
            rest, self._room = rest[taken:], self._room - taken
        return len(data)


def unpack(parts: Path, study: Path) -> None:
    """Restore a study from the parts of its pack; files that are there already stay."""
    whole = sorted(parts.glob(f"{PART}*"), key=lambda path: int(path.name.removeprefix(PART)))
    if not whole:
        sys.exit(f"there are no parts of a pack in {parts}")
    joined = parts / "whole.tar"
    joined.write_bytes(b"".join(path.read_bytes() for path in whole))
    with tarfile.open(joined) as tar:
        for member in tar:
            top, _, name = member.name.partition("/")
            if top == "study" and not (study / name).exists():
                member.name = name
                tar.extract(member, study, filter="data")
    joined.unlink()


if __name__ == "__main__":
    sys.exit(main())
