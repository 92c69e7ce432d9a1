"""Run the `console` blocks of pages, and compare the output with what the pages show.

    python docs/scripts/console.py docs/train.md            # compare; exit with 1 if a page is out of date
    python docs/scripts/console.py --write docs/train.md    # fill in output that is missing or differs

A block whose info string is `console` is a session in a shell. Lines that begin with `$ ` are commands. A command goes
on over lines that end in a backslash, over a here-document, and until its quotes are closed. The other lines are what
the command prints on both streams. A line `…` stands for any lines, also none, and `…` in a line for any characters.

The blocks of a page run in order in one shell, in a copy of the workspace that workspace.py builds. Before output is
compared, numbers, times and hashes are replaced by signs and runs of spaces by one space, on both sides. The path of
the copy is shown as `~/work`. Lines of progress, which a terminal shows for a moment, are left out.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

DOCS = Path(__file__).parents[1]
WORKSPACE = DOCS.parent / "build" / "workspace"
SHOWN = "~/work"
"""What stands for the folder in which the commands run."""

BASH = shutil.which("bash") or "/bin/bash"
LONGEST = 10
"""Lines of output that a page shows of one command."""

LEFT_OUT = "…"
SECONDS = 600
"""After this time a command has failed."""

BLOCK = re.compile(r"^( *)```console\n(.*?)^\1```[ ]*$", re.DOTALL | re.MULTILINE)
PROGRESS = re.compile(r"[a-z][\w. -]*?(?: +\d+%  .+|  \d+ (?:h|min|s)(?: \d+ (?:min|s))?)")
"""A line that a terminal shows for a moment, and a pipe every ten seconds: it is left out."""

SIGNS = (
    (re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b"), "HASH"),
    (re.compile(r"\d[\d.,]*(?: (?:d|h|min|s|ms)\b)(?: \d[\d.,]*(?: (?:h|min|s|ms)\b))*"), "TIME"),
    (re.compile(r"[-+−]?\d[\d.,]*(?:e[-+]?\d+)?"), "0"),
    (re.compile(r"[-─]{3,}"), "---"),
    (re.compile(r"\s+"), " "),
)


@dataclass
class Command:
    """A command of a page and the output that the page shows.

    Attributes:
        line: its line in the page.
        text: its lines, without `$ `.
        output: lines; empty if the page shows none.
    """

    line: int
    text: list[str]
    output: list[str] = field(default_factory=list)


@dataclass
class Block:
    """A session: a `console` block of a page.

    Attributes:
        start, end: places of its content in the page.
        indent: what each line begins with.
        before: lines in front of the first command, which are a fault.
    """

    start: int
    end: int
    indent: str
    commands: list[Command]
    before: list[str]

    def text(self) -> str:
        """Return the content as it stands in the page."""
        lines = list(self.before)
        for command in self.commands:
            lines += [f"$ {command.text[0]}", *command.text[1:], *command.output]
        return "".join(f"{self.indent}{line}".rstrip() + "\n" for line in lines)


def blocks(page: str) -> list[Block]:
    """Read the `console` blocks of a page."""
    found = []
    for match in BLOCK.finditer(page):
        first = page[: match.start(2)].count("\n") + 1
        lines = [line.removeprefix(match[1]) for line in match[2].splitlines()]
        block = Block(match.start(2), match.end(2), match[1], [], [])
        for number, line in enumerate(lines, first):
            command = block.commands[-1] if block.commands else None
            if command and not command.output and unfinished(command.text):
                command.text.append(line)
            elif line.startswith("$ "):
                block.commands.append(Command(number, [line[2:]]))
            else:
                (command.output if command else block.before).append(line)
        found.append(block)
    return found


def unfinished(lines: Sequence[str]) -> bool:
    """Say whether a shell would wait for another line of a command."""
    if lines[-1].endswith("\\"):
        return True
    return any(words in parsed(lines) for words in ("unexpected EOF", "unexpected end of file", "here-document"))


def parsed(lines: Sequence[str]) -> str:
    """Return what a shell says against a command that it reads and does not run."""
    text = "\n".join(lines) + "\n"
    return subprocess.run([BASH, "-n"], input=text, capture_output=True, text=True, check=False).stderr.strip()


class Session:
    """A shell in a fresh copy of a workspace; use it in a `with` statement, which ends what it has started.

    Args:
        workspace: what workspace.py built.
    """

    def __init__(self, workspace: Path) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="console-")
        place = Path(self._place.name).resolve()
        self.folder = place / "work"
        shutil.copytree(workspace, self.folder, symlinks=True)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(place), "LANG": "C.UTF-8", "TERM": "dumb", "COLUMNS": "80", "NO_COLOR": "1",
            "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "POSNMT_CACHE": str(place / "cache"),
            **{name: os.environ[name] for name in ("PYTHONPATH", "TMPDIR") if name in os.environ},
        }  # fmt: skip
        if "PYTHONPATH" in environment:
            folders = [str(Path(each).resolve()) for each in environment["PYTHONPATH"].split(os.pathsep) if each]
            environment["PYTHONPATH"] = os.pathsep.join(folders)
        self._script = place / "command"
        self._shell = subprocess.Popen(
            [BASH, "--norc", "--noprofile"],
            cwd=self.folder, env=environment, start_new_session=True, text=True, encoding="utf-8", errors="replace",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()
        self._shell.wait()
        self._place.cleanup()

    def run(self, command: Sequence[str]) -> tuple[list[str], int]:
        """Run a command; return the lines that it printed and its exit status.

        Raises:
            EOFError: the command ended the shell, or took longer than `SECONDS`.
        """
        assert self._shell.stdin
        assert self._shell.stdout
        self._script.write_text("\n".join(command) + "\n", encoding="utf-8")
        mark = f"end-of-command-{os.urandom(8).hex()}"
        self._shell.stdin.write(f". {self._script} < /dev/null\nprintf '\\n%s %d\\n' {mark} $?\n")
        self._shell.stdin.flush()
        signal.signal(signal.SIGALRM, lambda *_: self._end())
        signal.alarm(SECONDS)
        try:
            lines: list[str] = []
            for line in self._shell.stdout:
                if line.startswith(mark):
                    text = "".join(lines).removesuffix("\n").replace(str(self.folder), SHOWN)
                    printed = text.replace(f"{self._script}: line ", "bash: line ").splitlines()
                    return [each for each in printed if not PROGRESS.fullmatch(each)], int(line.split()[1])
                lines.append(line)
        finally:
            signal.alarm(0)
        raise EOFError(f"it ended the shell, or took longer than {SECONDS} seconds: " + "".join(lines[-3:]))

    def _end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)


def normal(line: str) -> str:
    """Replace what changes from run to run by signs."""
    for pattern, sign in SIGNS:
        line = pattern.sub(sign, line)
    return line.strip()


def agree(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Say whether a page shows what a command printed; `…` in a line stands for any characters, alone for any lines."""
    wanted = "".join(
        "(?:.*\n)*" if line.strip() == LEFT_OUT else re.escape(normal(line)).replace(LEFT_OUT, ".*") + "\n"
        for line in trimmed(shown)
    )
    return re.fullmatch(wanted, "".join(normal(line) + "\n" for line in trimmed(printed))) is not None


def trimmed(lines: Sequence[str]) -> list[str]:
    """Leave out empty lines at both ends."""
    return "\n".join(line.rstrip() for line in lines).strip("\n").split("\n") if any(map(str.strip, lines)) else []


def excerpt(printed: Sequence[str]) -> list[str]:
    """Shorten output to what a page shows: the first lines, `…`, and the last ones."""
    lines = trimmed(printed)
    return lines if len(lines) <= LONGEST else [*lines[: LONGEST - 4], LEFT_OUT, *lines[-3:]]


def faults(page: str) -> Iterator[tuple[int, str]]:
    """Find what is wrong with the form of a page's sessions; nothing runs.

    Yields:
        A line of the page, and what is wrong there.
    """
    for block in blocks(page):
        line = page[: block.start].count("\n") + 1
        if block.before or not block.commands:
            yield line, "a console block begins with a command: a line that starts with `$ `"
        elif not any(command.output for command in block.commands):
            yield line, "no output: run docs/scripts/console.py --write on this page"
        for command in block.commands:
            if len(command.output) > LONGEST:
                yield command.line, f"{len(command.output)} lines of output: show {LONGEST}, and `…` for the others"
            if said := parsed(command.text):
                yield command.line, f"a shell cannot read this command: {said}"


def replay(page: str, workspace: Path) -> tuple[str, list[tuple[int, str]]]:
    """Run the sessions of a page.

    Returns:
        The page with the output of today where it shows none or another, and the faults: lines of the page and what is
        wrong there.
    """
    found = blocks(page)
    wrong: list[tuple[int, str]] = []
    with Session(workspace) as session:
        for command in (command for block in found for command in block.commands):
            try:
                printed, status = session.run(command.text)
            except EOFError as error:
                wrong.append((command.line, f"{command.text[0]}: {error}"))
                break
            if not agree(command.output, printed):
                told = "\n".join([*("- " + line for line in command.output), *("+ " + line for line in printed)])
                wrong.append((command.line, f"{command.text[0]}: the output differs\n{told}"))
                command.output = excerpt(printed)
            if status and not re.search("error|not found|no such", "\n".join(command.output), re.IGNORECASE):
                wrong.append((command.line, f"{command.text[0]}: exit status {status}, and the page shows no error"))
    for block in reversed(found):
        page = page[: block.start] + block.text() + page[block.end :]
    return page, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare pages, or fill them; return the exit status."""
    parser = argparse.ArgumentParser(description="Run the console blocks of pages, and compare their output.")
    parser.add_argument("pages", nargs="*", type=Path, help="default: every page of docs/ with a console block")
    parser.add_argument("--write", action="store_true", help="write the output of today into the pages")
    parser.add_argument("--workspace", type=Path, default=WORKSPACE, help="default: build/workspace, built if missing")
    given = parser.parse_args(arguments)
    if not given.workspace.exists():
        from workspace import main as build

        build(given.workspace)
    wrong = 0
    for path in given.pages or sorted(DOCS.rglob("*.md")):
        page = path.read_text(encoding="utf-8")
        if not blocks(page):
            continue
        new, differ = replay(page, given.workspace)
        if given.write and new != page:
            path.write_text(new, encoding="utf-8")
        found = [*differ, *faults(new if given.write else page)]
        wrong += len(found)
        for line, what in sorted(found):
            print(f"{path}:{line}: {what}")
    return int(wrong > 0 and not given.write)


if __name__ == "__main__":
    sys.exit(main())
