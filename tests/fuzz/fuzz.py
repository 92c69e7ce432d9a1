"""Damaged files for every parser, and odd commands for the command line: each succeeds, or gives one clear line.

    python tests/fuzz/fuzz.py parsers --count 1000000
    python tests/fuzz/fuzz.py commands --count 20000

Each input has at most 60 seconds and 2 GB. One input of each fault is kept in tests/fuzz/cases, which `make test`
tries from then on; the status is then 1. `--seed` gives other inputs; `--first` leaves out as many inputs of every
parser, and `--only` names parsers: so an interrupted search, which prints what it has done, is continued.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parents[1])]

from hypothesis import strategies as st  # noqa: E402
from hypothesis.errors import HypothesisWarning  # noqa: E402

from hunt import CHUNK, bound_memory, hunt  # noqa: E402

CASES = HERE / "cases"


def parse(name: str):
    """Reads an input of a parser: the name of a file, and its content."""
    from parsers import parsers
    from posnmt.errors import UserError

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


def search_parsers(arguments: argparse.Namespace) -> bool:
    """Try damaged files; whether all went well."""
    from parsers import parsers

    names = arguments.only or list(parsers())
    each = max(1, arguments.count // len(names))
    total, well = 0, True
    for name in names:
        parser, attempt, folder = parse(name)
        inputs = st.sampled_from(sorted(parser.inputs)).flatmap(
            lambda file, parser=parser: st.tuples(st.just(file), parser.inputs[file])
        )
        attempt_valid(parser, folder)
        begun = time.process_time()
        bound_memory()
        tried, found = hunt(inputs, attempt, arguments.seed, arguments.first, each)
        shutil.rmtree(folder, ignore_errors=True)
        total += tried
        print(
            f"{name}: {tried:,} inputs in {time.process_time() - begun:.0f} s of a processor, {len(found)} faults",
            flush=True,
        )
        for what, (file, content) in found.items():
            print(f"  {what}\n    kept as {keep(arguments.cases, name, file, content)}", flush=True)
        well = well and not found
    print(f"{total:,} inputs of {len(names)} parsers, seed {arguments.seed}")
    return well


def attempt_valid(parser, folder: Path) -> None:
    """The valid files are read without an error, so that what is tried is the damage."""
    from posnmt.errors import UserError

    for file in parser.inputs:
        if file in parser.files:
            try:
                parser.read(folder, file)
            except UserError as error:
                raise AssertionError(f"{file} is valid, and refused: {error}") from error


def search_commands(arguments: argparse.Namespace) -> bool:
    """Try odd commands; whether all went well."""
    from whole_commands import Commands

    with Commands() as commands:
        bound_memory()
        tried, found = hunt(commands.inputs(), commands.attempt, arguments.seed, arguments.first, arguments.count)
    for what, command in found.items():
        print(
            f"  {what}\n    kept as {keep(arguments.cases, 'commands', 'command', json.dumps(command).encode())}",
            flush=True,
        )
    print(f"{tried:,} commands, {len(found)} faults, seed {arguments.seed}")
    return not found


def main() -> None:
    """Search, and exit with status 1 if a fault was found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=["parsers", "commands"])
    options.add_argument("--count", type=int, default=10_000, help="inputs of all parsers together, or commands")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--first", type=int, default=0, help=f"inputs left out, a multiple of {CHUNK}")
    options.add_argument("--only", nargs="*", help="these parsers alone")
    options.add_argument("--cases", type=Path, default=CASES, help="folder for inputs that fail")
    arguments = options.parse_args()
    warnings.simplefilter("ignore", HypothesisWarning)  # that valid files are long
    sys.exit(not (search_parsers if arguments.what == "parsers" else search_commands)(arguments))


if __name__ == "__main__":
    main()
