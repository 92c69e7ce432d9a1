"""`make test-install`: build the sdist and the wheel, check them, install the wheel and use it as a stranger would.

The Python that runs this installs everything, and uses it. Each `--also PYTHON` installs all but PyTorch, since not
every machine can get a build of PyTorch for it, and runs the commands that do not need it. For the other versions of
Python, and with PyTorch, the dependencies are resolved, and nothing is run. Exit status 1: something failed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.install.distributions import built, clean_copy, differences, faults, published

ROOT = Path(__file__).parents[2]
TOOLS = ["build==1.6.1", "twine==7.0.0", "uv==0.9.9"]
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
STRANGER = Path(__file__).with_name("stranger.py")


def tools(folder: Path) -> Path:
    """The Python of an environment with the programs that build and check."""
    venv.create(folder, with_pip=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *TOOLS], check=True)
    return folder / "bin" / "python"


def build(folder: Path, python: Path, out: Path, url: str | None) -> Path:
    """Build both in a clean copy of the tree, and the wheel of position/, and check them; posnmt's wheel.

    Raises:
        SystemExit: a file is missing, is too many, or differs between the sdist's wheel, the tree's, and position/'s.
    """
    trees = [clean_copy(ROOT, folder / name) for name in ("tree", "again", "seen")]
    for each in trees:
        if url is not None:
            published(each, url)
    tree, again, seen = trees
    wheel, sdist = sorted(built(python, tree, out), key=lambda path: path.suffix != ".whl")
    subprocess.run([python, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
    [direct] = built(python, again, folder / "direct", "--wheel")
    found = faults(seen, sdist, wheel)
    found += [f"{name} differs between a wheel of the sdist and one of the tree" for name in differences(wheel, direct)]
    [alone] = built(python, clean_copy(ROOT, folder / "position") / "position", folder / "small", "--wheel")
    found += [
        f"{name} differs between posnmt's wheel and {alone.name}"
        for name in differences(wheel, alone, "posnmt_position/")
    ]
    if found:
        sys.exit("\n".join(found))
    position_alone(folder, alone)
    return wheel


def position_alone(folder: Path, wheel: Path) -> None:
    """Install the wheel of position/ with PyTorch and pytest alone, and run its tests beside it."""
    shutil.copytree(
        ROOT / "position", folder / "position", ignore=shutil.ignore_patterns("posnmt_position", "pyproject.toml")
    )
    venv.create(folder / "alone", with_pip=True)
    python = folder / "alone" / "bin" / "python"
    packages = [f"{wheel}[test]", "-c", ROOT / "constraints.txt"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    subprocess.run([python, "-m", "pytest", "-q", folder / "position" / "tests"], check=True, cwd=folder)


def resolve(python: Path, wheel: Path, version: str) -> None:
    """Find wheels of all dependencies for a version of Python, in the pinned versions; nothing is downloaded."""
    options = ["--quiet", "--no-header", "--no-annotate", "--only-binary=:all:", f"--python-version={version}"]
    subprocess.run(
        [python, "-m", "uv", "pip", "compile", *options, "--native-tls", "-c", ROOT / "constraints.txt", "-"],
        input=f"posnmt[all] @ {wheel.as_uri()}",
        text=True,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    print(f"Python {version}: wheels of all dependencies, PyTorch too, exist in the pinned versions")


def main() -> None:
    """Build, check, install, use."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", nargs="*", default=[], metavar="PYTHON", help="such as python3.13")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the sdist and the wheel")
    parser.add_argument(
        "--url", help="the repository, for links of README on PyPI, such as https://github.com/OWNER/posnmt"
    )
    arguments = parser.parse_args()
    for old in arguments.out.glob("posnmt-*"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="posnmt-build-") as folder:
        python = tools(Path(folder) / "tools")
        wheel = build(Path(folder), python, arguments.out, arguments.url)
        for version in VERSIONS:
            resolve(python, wheel, version)
    stranger = [STRANGER, wheel, "--constraints", ROOT / "constraints.txt"]
    subprocess.run([sys.executable, *stranger], check=True)
    for other in arguments.also:
        subprocess.run([other, *stranger, "--without-torch"], check=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"failed: {' '.join(map(str, error.cmd))}")
