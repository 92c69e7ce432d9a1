"""The packages that a GPU machine without a registry lacks, as one folder to carry there.

    python benchmarks/gpu_pack.py --have NAMES.txt --out .gpu/site [--python 3.12]

NAMES.txt names the packages that are there, one a line, as `pip list` does. Needed is what posnmt takes to train and to
translate, its tests, and what these packages need, in the versions of the environment that runs this, by its metadata.
A package that NAMES.txt has is left out, with what it needs. There, put the folder on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
TESTED_WITH = ("pytest", "hypothesis")
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (35, 34, 31, 28, 27, 24, 17, 12, 5)]
PLATFORMS += [f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")]


def main() -> None:
    """Install what is missing into the folder, and say its size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--have", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python", default="3.12", help="version of Python there (%(default)s)")
    arguments = parser.parse_args()
    have = {canonical(name) for name in arguments.have.read_text(encoding="utf-8").split()}
    found = missing(roots(), have, arguments.python)
    install(found, arguments.out, arguments.python)
    size = sum(path.stat().st_size for path in arguments.out.rglob("*") if path.is_file())
    print(f"{' '.join(found)}: {size / 2**20:.1f} MiB in {arguments.out}")


def roots() -> list[Requirement]:
    """What posnmt needs to train and to translate, and its tests."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return [
        Requirement(each)
        for each in (*project["dependencies"], *project["optional-dependencies"]["train"], *TESTED_WITH)
    ]


def missing(needed: list[Requirement], have: set[str], python: str) -> list[str]:
    """`name==version` of what is needed and not there, and of what that needs, by the metadata of this environment.

    Args:
        have: canonical names.
        python: version of Python there, such as 3.12.
    """
    found: dict[str, str] = {}
    left = list(needed)
    while left:
        name = canonical(left.pop().name)
        if name in have or name in found:
            continue
        installed = distribution(name)
        found[name] = f"{name}=={installed.version}"
        left += requirements(installed.requires or [], python)
    return sorted(found.values())


def requirements(lines: list[str], python: str) -> Iterator[Requirement]:
    """Those that hold for a version of Python, without extras."""
    there = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    for each in map(Requirement, lines):
        if each.marker is None or each.marker.evaluate(there):
            yield each


def install(packages: list[str], out: Path, python: str) -> None:
    """Unpack the wheels of packages for a version of Python on x86-64 Linux into a new folder."""
    if out.exists():
        shutil.rmtree(out)
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-compile",
    ]
    words += ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", f"--target={out}"]
    subprocess.run([*words, *(f"--platform={each}" for each in PLATFORMS), *packages], check=True)
    shutil.rmtree(out / "bin", ignore_errors=True)


def canonical(name: str) -> str:
    """A name as registries compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
