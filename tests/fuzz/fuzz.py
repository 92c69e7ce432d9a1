"""Damaged files for every parser, and odd commands for the command line: each succeeds, or gives one clear line.

    python -m tests.fuzz.fuzz parsers --count 1000000 --log build/fuzz.jsonl
    python -m tests.fuzz.fuzz commands --count 20000 --log build/fuzz.jsonl
    python -m tests.fuzz.fuzz counts --log build/fuzz.jsonl

Each input has at most 60 seconds of a processor and 2 GB. One input of each fault is kept in tests/fuzz/cases, which
`make test` tries from then on; the status is then 1. Inputs come in parts of at most 500, the parsers in turn; each
part that is done is a line of the log, and a search with the same log and seed leaves it out: so a search that was
stopped goes on. `--seed` gives other inputs, `--only` names parsers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from tests.fuzz.hunt import CHUNK, bound_memory, hunt

CASES = Path(__file__).with_name("cases")


def parse(name: str):
    """Reads an input of a parser: the name of a file, and its content."""
    from posnmt.base.errors import UserError
    from tests.fuzz.parsers import parsers

    parser = parsers()[name]
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    for file, content in parser.files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)

    def attempt(each: tuple[str, bytes]) -> None:
        file, content = each
        (folder / file).write_bytes(content)
        try:
            parser.read(folder, file)
        except UserError as error:
            check_lines(error.lines)
        finally:
            if file in parser.files:
                (folder / file).write_bytes(parser.files[file])

    return parser, attempt, folder


def check_lines(lines: list[str]) -> None:
    """A fault is one line that can be read, and says something."""
    for line in lines:
        assert line.strip(), "an empty line"
        assert len(line.splitlines()) == 1, "more than one line"
        assert "Traceback" not in line, "the words of a program"
        assert "Error(" not in line, "the words of a program"
        assert len(line) < 10_000, "a line without end"


def keep(cases: Path, name: str, file: str, content: bytes) -> Path:
    """Keep an input as a case, which tests/fuzz/test_fuzz.py tries."""
    place = cases / name / file / hashlib.sha256(content).hexdigest()[:12]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return place


class Log:
    """The parts of searches that are done, as lines of a file.

    Args:
        path: of the file; None: nothing is kept.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text("utf-8").splitlines() if path is not None and path.exists() else []
        self.done: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def has(self, name: str, seed: int, start: int, count: int) -> bool:
        """Whether a part is done."""
        part = (name, seed, start)
        return any(
            (each["what"], each["seed"], each["start"]) == part and each["inputs"] >= count for each in self.done
        )

    def add(self, part: dict[str, Any]) -> None:
        """Note a part."""
        self.done.append(part)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(part) + "\n")

    def counts(self) -> Iterator[str]:
        """What was tried so far, one line for each seed."""
        tried, faults = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        for each in self.done:
            key = ("commands" if each["what"] == "commands" else "inputs of parsers", each["seed"])
            tried[key] += each["inputs"]
            faults[key] += len(each["faults"])
        for (what, seed), count in sorted(tried.items()):
            yield f"{count:,} {what}, {faults[what, seed]} faults, seed {seed}"


class Search:
    """A search in parts.

    Args:
        arguments: of the command line.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.seed, self.cases, self.log = arguments.seed, arguments.cases, Log(arguments.log)
        self.well, self.tried = True, 0

    def part(self, name: str, inputs: st.SearchStrategy, attempt: Callable, start: int, count: int) -> None:
        """Try `count` inputs, the part that begins at `start`, unless the log has it; keep an input of each fault."""
        if self.log.has(name, self.seed, start, count):
            return
        begun = _spent()
        tried, found = hunt(inputs, attempt, self.seed, start, count)
        seconds = _spent() - begun
        for what, each in found.items():
            kept = ("command", json.dumps(each).encode()) if name == "commands" else each
            print(f"  {what}\n    kept as {keep(self.cases, name, *kept)}", flush=True)
        self.log.add(
            {"what": name, "seed": self.seed, "start": start, "inputs": tried, "faults": list(found),
             "seconds": round(seconds, 1)}
        )  # fmt: skip
        print(
            f"{name}: {tried:,} inputs from {start:,} in {seconds:.0f} s of a processor, {len(found)} faults",
            flush=True,
        )
        self.tried += tried
        self.well = self.well and not found


def _spent() -> float:
    """Seconds of a processor that this process and its children have used."""
    return sum(os.times()[:4])


def search_parsers(arguments: argparse.Namespace) -> bool:
    """Try damaged files; whether all went well."""
    from tests.fuzz.parsers import parsers

    names = arguments.only or list(parsers())
    each = max(1, arguments.count // len(names))
    search = Search(arguments)
    with ExitStack() as stack:
        parts = {}
        for name in names:
            parser, attempt, folder = parse(name)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            attempt_valid(parser, folder)
            parts[name] = _inputs(parser), attempt
        bound_memory()
        for start in range(0, each, CHUNK):
            for name, (inputs, attempt) in parts.items():
                search.part(name, inputs, attempt, start, min(CHUNK, each - start))
    print(f"{search.tried:,} inputs of {len(names)} parsers, seed {arguments.seed}")
    return search.well


def _inputs(parser: Any) -> st.SearchStrategy[tuple[str, bytes]]:
    """The name of a file and its damaged content, of each file of a parser."""
    return st.sampled_from(sorted(parser.inputs)).flatmap(lambda file: st.tuples(st.just(file), parser.inputs[file]))


def attempt_valid(parser: Any, folder: Path) -> None:
    """The valid files are read without an error, so that what is tried is the damage."""
    from posnmt.base.errors import UserError

    for file in parser.inputs:
        if file in parser.files:
            try:
                parser.read(folder, file)
            except UserError as error:
                raise AssertionError(f"{file} is valid, and refused: {error}") from error


def search_commands(arguments: argparse.Namespace) -> bool:
    """Try odd commands; whether all went well."""
    from tests.fuzz.whole_commands import Commands

    search = Search(arguments)
    with Commands() as commands:
        for start in range(0, arguments.count, CHUNK):
            count = min(CHUNK, arguments.count - start)
            search.part("commands", commands.inputs(), commands.attempt, start, count)
    print(f"{search.tried:,} commands, seed {arguments.seed}")
    return search.well


def show_counts(arguments: argparse.Namespace) -> bool:
    """Print what the searches of a log have tried."""
    for line in Log(arguments.log).counts():
        print(line)
    return True


def main() -> None:
    """Search, and exit with status 1 if a fault was found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    searches = {"parsers": search_parsers, "commands": search_commands, "counts": show_counts}
    options.add_argument("what", choices=list(searches))
    options.add_argument("--count", type=int, default=10_000, help="inputs of all parsers together, or commands")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--log", type=Path, help="file with a line for each part that is done")
    options.add_argument("--only", nargs="*", help="these parsers alone")
    options.add_argument("--cases", type=Path, default=CASES, help="folder for inputs that fail")
    arguments = options.parse_args()
    if arguments.log is not None:
        arguments.log = arguments.log.absolute()
    arguments.cases = arguments.cases.absolute()  # commands run in a folder of their own
    warnings.simplefilter("ignore", HypothesisWarning)  # that valid files are long
    sys.exit(not searches[arguments.what](arguments))


if __name__ == "__main__":
    main()
