"""The environments of neural metrics: Python environments apart from posnmt's own, in the user's cache.

An environment is named by the digest of its list of packages, so metrics with the same list share it. A file that is
written last marks it as complete; one without this file, or that is no longer what the file says, is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import TypedDict

from posnmt.base.errors import UserError
from posnmt.base.files import cache_folder, locked, read_json
from posnmt.base.output import write_json
from posnmt.base.progress import Display

MARK = "complete.json"
CONTENT = (
    "import importlib.metadata, json, sys; print(json.dumps({'python': '.'.join(map(str, sys.version_info[:3])),"
    " 'packages': {d.metadata['Name']: d.version for d in importlib.metadata.distributions()}}, sort_keys=True))"
)
"""A program that prints the versions in an environment."""
COLLECTED = re.compile(r"(Collecting|Processing|Requirement already satisfied:) (\S+)")
"""pip's lines that name a package."""


class Content(TypedDict):
    """What an environment has: its version of Python, and package → version."""

    python: str
    packages: dict[str, str]


def folder() -> Path:
    """The folder of environments, of installed metrics and of their scores."""
    return cache_folder() / "metrics"


def variables() -> dict[str, str]:
    """The environment variables of a program in an environment: without those that lead Python to other packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


@dataclass(frozen=True)
class Environment:
    """One environment.

    Attributes:
        packages: the requirements file with its packages.
    """

    packages: Path

    @property
    def folder(self) -> Path:
        """Where it is, or will be."""
        return folder() / "environments" / hashlib.sha256(self.packages.read_bytes()).hexdigest()[:16]

    @property
    def python(self) -> Path:
        """Return the path of the environment's Python, which need not exist yet."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def fault(self) -> str | None:
        """What is wrong with it; None: it is complete and as it was made."""
        if not self.folder.exists():
            return "it is not made"
        if (made := read_json(self.folder / MARK)) is None:
            return "it is half made"
        if not self.python.exists():
            return "its Python is no longer there"
        return None if self._content() == made else "its packages are not those that it was made with"

    def make(
        self, python: str, wheels: Path | None, pythons: tuple[str, ...], display: Display, before: Callable[[], None]
    ) -> bool:
        """Make it, unless it is complete.

        Args:
            python: the Python that it is made with.
            wheels: a folder with all packages, instead of the package index.
            pythons: the versions of Python that have the packages; empty: any.
            display: shows the progress.
            before: called before packages are fetched.

        Returns:
            Whether it was made.

        Raises:
            UserError: the Python cannot be used, or a package cannot be installed.
        """
        with locked(self.folder.with_name(f"{self.folder.name}.lock"), lambda: display.say("waiting: being installed")):
            if self.fault() is None:
                return False
            self._check(python, pythons)
            before()
            shutil.rmtree(self.folder, ignore_errors=True)
            display.say(f"making an environment in {self.folder}")
            _ran([python, "-m", "venv", str(self.folder)], "the environment", "install Python's venv and ensurepip")
            self._install(wheels, display)
            content = self._content()
            assert content is not None  # pip has just run there
            write_json(self.folder / MARK, content)
            return True

    def _check(self, python: str, pythons: tuple[str, ...]) -> None:
        """Check that a Python has the packages.

        Raises:
            UserError: it cannot be started, or is of another version.
        """
        todo = "name the program of another: --python PROGRAM"
        version = _ran([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], "Python", todo).strip()
        if pythons and version not in pythons:
            raise UserError(f"the packages are for Python {' and '.join(pythons)}; this is {version}", python, todo)

    def _install(self, wheels: Path | None, display: Display) -> None:
        """Install the packages with pip, from a folder of wheels if one is given; raise a UserError if pip fails."""
        where = [] if wheels is None else ["--no-index", "--find-links", str(wheels)]
        options = ["--disable-pip-version-check", "--no-input", "--only-binary", ":all:", "--retries", "1", *where]
        total, seen, errors = len(list(requirements(self.packages))), 0, ["pip ended early"]
        for line in _lines([str(self.python), "-m", "pip", "install", *options, "-r", str(self.packages)]):
            if (found := COLLECTED.match(line)) is not None:
                seen += 1
                display.show("packages", min(1.0, seen / max(1, total)), Path(found[2]).name)
            errors += [line.removeprefix("ERROR: ")] if line.startswith("ERROR: ") else []
            if line == "exit 0":
                return
        call = f"{self.python} -m pip download --only-binary :all: -r {self.packages} -d FOLDER"
        todo = f"without a network: run `{call}` where there is one, copy FOLDER here, and add --from FOLDER"
        if wheels is not None:
            todo = f"FOLDER must have a wheel of every package: `{call}` fills it, where there is a network"
        raise UserError(f"the packages could not be installed: {errors[-1]}", self.packages, todo)

    def _content(self) -> Content | None:
        """What it has; None: its Python does not run."""
        call = [str(self.python), "-I", "-c", CONTENT]
        try:
            done = subprocess.run(call, capture_output=True, text=True, env=variables(), check=True)
            content: Content = json.loads(done.stdout)
        except (OSError, ValueError, subprocess.CalledProcessError):
            return None
        return content


def requirements(packages: Path) -> Iterator[str]:
    """The lines of a requirements file that name a package."""
    lines = (line.strip() for line in packages.read_text(encoding="utf-8").splitlines())
    return (line for line in lines if line and not line.startswith("#"))


def default_python() -> str:
    """The Python that makes environments by default: the one that runs posnmt."""
    return sys.executable


def _lines(call: list[str]) -> Iterator[str]:
    """The lines that a program prints, and `exit STATUS`; it ends with the iteration."""
    with subprocess.Popen(
        call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=variables()
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                yield line.strip()
            yield f"exit {process.wait()}"
        finally:
            process.kill()


def _ran(call: list[str], what: str, todo: str) -> str:
    """Run a program and return its output.

    Raises:
        UserError: it is not there, or fails.
    """
    try:
        done = subprocess.run(call, capture_output=True, text=True, errors="replace", env=variables())
    except OSError as error:
        raise UserError(f"{what} cannot be started: {error.strerror}", call[0], todo) from None
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()[-1]
        raise UserError(f"{what} failed: {reason}", call[0], todo)
    return done.stdout
