"""What somebody does who has a wheel and a Python: install it in an empty environment, and use it from another folder.

`python3.13 stranger.py posnmt-0.1.0-py3-none-any.whl --constraints constraints.txt [--without-torch]`. It needs the
standard library alone, so that it runs in any system with a Python. Exit status 1: something failed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

LATE = re.compile(r"(torch|triton|nvidia|cuda)([-_].*)?$")
"""Names of PyTorch and of the packages that it alone brings."""

SHORT = [
    "--set=model.size=tiny", "--set=train.steps=20", "--set=train.evaluate_every=10", "--set=subword.vocabulary=400",
]  # fmt: skip


class Environment:
    """An empty virtual environment of the Python that runs this program.

    Args:
        folder: a new folder for it.
        place: the working folder of its commands.
    """

    def __init__(self, folder: Path, place: Path) -> None:
        venv.create(folder, with_pip=True)
        self.folder, self.place = folder, place

    def run(self, program: str, *arguments: object, status: int = 0) -> str:
        """Run a program of the environment; its standard output and error.

        Raises:
            SystemExit: its exit status is another, or it shows a traceback.
        """
        command = [str(self.folder / "bin" / program), *map(str, arguments)]
        done = subprocess.run(command, cwd=self.place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != status or "Traceback" in done.stdout:
            sys.exit(f"{program} {' '.join(command[1:])}\nstatus {done.returncode}:\n{done.stdout}")
        return done.stdout

    def install(self, *arguments: object) -> None:
        """`pip install`, from wheels alone: where a package has none, a compiler may be needed."""
        self.run("python", "-m", "pip", "install", "--quiet", "--only-binary=:all:", *arguments)

    def install_without_torch(self, *arguments: object) -> None:
        """Install what pip would install, in the same versions, but PyTorch and what it alone brings."""
        plan = self.place / "plan.json"
        self.install("--dry-run", "--report", plan, *arguments)
        items = json.loads(plan.read_text())["install"]
        wanted = [item for item in items if not LATE.fullmatch(item["metadata"]["name"])]
        self.install("--no-deps", *(item["download_info"]["url"] for item in wanted))

    def size(self) -> dict[str, float]:
        """MB of `site-packages`: of PyTorch, and of everything else but pip."""
        packages = next(self.folder.glob("lib/python*/site-packages"))
        total = dict.fromkeys(("torch", "others"), 0.0)
        for path in packages.rglob("*"):
            top = path.relative_to(packages).parts[0].lower()
            if path.is_file() and not path.is_symlink() and not top.startswith(("pip", "setuptools")):
                total["torch" if LATE.fullmatch(top.split("-")[0]) else "others"] += path.stat().st_size / 1e6
        return total


def look_around(environment: Environment) -> None:
    """The commands that need no model: they import no PyTorch."""
    assert "posnmt train" in environment.run("posnmt", "--help")
    assert "rope" in environment.run("posnmt", "systems")
    environment.run("posnmt", "data", "list")
    environment.run("posnmt", "study", "list")
    environment.run("posnmt", "condition", "artificial", "--out", "pair", "--train", 2000, "--dev", 50, "--test", 60)


def analyse(environment: Environment, *options: object) -> None:
    """Compare two outputs, and find the report with its tables and figures."""
    text = ("--source", "pair/test.source", "--reference", "pair/test.target", "--samples", 100)
    outputs = ("--output", "copy=pair/test.source", "--output", "right=pair/test.target")
    environment.run("posnmt", "analyse", *text, *outputs, *options, "--out", "analysis")
    names = {path.suffix for path in (environment.place / "analysis").rglob("*")}
    assert {".html", ".json", ".csv", ".tex", ".svg", ".pdf"} <= names, names


def translate(environment: Environment, out: str) -> bytes:
    """A translation of the test text, with as many lines."""
    environment.run("posnmt", "translate", "run", "--input", "pair/test.source", "--output", out)
    translation = (environment.place / out).read_bytes()
    assert translation.count(b"\n") == (environment.place / "pair/test.source").read_bytes().count(b"\n")
    return translation


def everything(folder: Path, wheel: Path, constraints: list[object]) -> None:
    """Install all, and train, translate, score, analyse; install what translates alone, and translate the same."""
    place = folder / "elsewhere"
    place.mkdir()
    whole = Environment(folder / "all", place)
    whole.install(*constraints, f"{wheel}[all]")
    whole.run("python", "-m", "pip", "check")
    look_around(whole)
    text = ("--source", "pair/train.source", "--target", "pair/train.target")
    whole.run("posnmt", "train", *text, *SHORT, "--out", "run")
    translation = translate(whole, "all.out")
    assert whole.run("posnmt", "score", "run", "--source", "pair/dev.source", "--target", "pair/dev.target")
    analyse(whole, "--run", "run")
    whole.run("python", "-c", "import posnmt; assert len(posnmt.load('run').translate(['a b', 'c'])) == 2")
    print("all:", _sizes(whole))

    alone = Environment(folder / "alone", place)
    alone.install(*constraints, wheel)
    assert translate(alone, "alone.out") == translation
    refused = alone.run("posnmt", "train", *text, "--out", "other", status=2)
    assert refused.splitlines()[-1].endswith('pip install "posnmt[train]"'), refused
    print("to translate alone:", _sizes(alone))


def all_but_torch(folder: Path, wheel: Path, constraints: list[object]) -> None:
    """Install all but PyTorch, and run the commands that do not import it."""
    place = folder / "elsewhere"
    place.mkdir()
    environment = Environment(folder / "all", place)
    environment.install_without_torch(*constraints, f"{wheel}[all]")
    look_around(environment)
    analyse(environment)


def _sizes(environment: Environment) -> str:
    return ", ".join(f"{name} {size:.0f} MB" for name, size in environment.size().items())


def main() -> None:
    """Install the wheel that the command line names, and use it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--constraints", type=Path, help="exact versions; default: the newest of every package")
    parser.add_argument("--without-torch", action="store_true")
    arguments = parser.parse_args()
    constraints = ["-c", arguments.constraints.resolve()] if arguments.constraints else []
    use = all_but_torch if arguments.without_torch else everything
    with tempfile.TemporaryDirectory(prefix="posnmt-install-") as folder:
        use(Path(folder), arguments.wheel.resolve(), constraints)
    what = "all but torch" if arguments.without_torch else "everything"
    print(f"Python {sys.version.split()[0]}: installed and used, {what}")


if __name__ == "__main__":
    main()
