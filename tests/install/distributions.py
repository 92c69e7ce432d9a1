"""The sdist and the wheel: built from a clean copy of the tree, and what they must and must not have."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

SOURCES = ["posnmt", "position/posnmt_position"]
"""The folders of the import packages that posnmt's distributions contain."""

PACKAGED = [
    "posnmt/py.typed",
    "posnmt/corpora/catalogue.yaml",
    "posnmt/corpora/artificial/*.py",
    "posnmt/evaluation/report/templates/report.html",
    "posnmt/evaluation/report/templates/style.css",
    "posnmt/evaluation/report/templates/report.js",
    "posnmt/study/recipes/neishi2019.yaml",
]
"""Patterns that some file of both must match."""

OUTSIDE = [".*", "build/*", "runs/*", "demo/*", "*.pyc"]
"""Patterns that no file of either may match."""

OUTSIDE_WHEEL = ["tests/*", "position/*", "benchmarks/*", "docs/*", "notebooks/*", "configs/*"]
"""Patterns that no file of the wheel may match. An sdist has the tests and what they read."""

LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?!https?:|#)([^)\s]+)")
"""A link or picture with a relative address: its mark of a picture, what is before the address, and the address."""


def clean_copy(root: Path, out: Path) -> Path:
    """A copy of what git has or would add, so that nothing ignored gets into a distribution."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        stdout=subprocess.PIPE,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (root / name).is_file() and not (root / name).is_symlink():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, out / name)
    return out


def published(tree: Path, url: str) -> None:
    """Give a copy of the tree the address of its repository, so that links of README work on PyPI.

    Args:
        tree: changed in README.md and pyproject.toml.
        url: of the repository on a host with GitHub's paths, such as https://github.com/OWNER/posnmt.
    """
    readme, project = tree / "README.md", tree / "pyproject.toml"
    readme.write_text(
        LINK.sub(
            lambda found: f"{found[1]}{found[2]}{url}/{'raw' if found[1] else 'blob'}/main/{found[3]}",
            readme.read_text(),
        )
    )
    urls = {
        "Source": url,
        "Documentation": f"{url}/blob/main/docs/README.md",
        "Changes": f"{url}/blob/main/CHANGELOG.md",
    }
    table = "".join(f'{name} = "{address}"\n' for name, address in urls.items())
    project.write_text(project.read_text().replace("[project.scripts]", f"[project.urls]\n{table}\n[project.scripts]"))


def built(python: Path, tree: Path, out: Path, *options: str) -> list[Path]:
    """The distributions that `python -m build` makes of a tree: an sdist, and a wheel of the sdist."""
    command = [str(python), "-m", "build", "--outdir", str(out), *options, str(tree)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}")
    return sorted(out.iterdir())


def faults(tree: Path, sdist: Path, wheel: Path) -> list[str]:
    """What is wrong with the content of an sdist and a wheel that are built from a tree."""
    everything = [str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()]
    source = [name for name in everything if not name.startswith(".") and "/." not in name]
    packages = [
        name.removeprefix("position/") for name in everything if name.startswith(tuple(f"{each}/" for each in SOURCES))
    ]
    return [
        *_faults(f"{sdist.name}: ", source, _sdist(sdist), [], OUTSIDE),
        *_faults(
            f"{wheel.name}: ",
            packages,
            _wheel(wheel),
            ["*.dist-info/licenses/LICENSE", "*.dist-info/METADATA"],
            OUTSIDE + OUTSIDE_WHEEL,
        ),
    ]


def _faults(
    where: str, files: list[str], content: dict[str, bytes], others: list[str], outside: list[str]
) -> list[str]:
    names = list(content)
    missing = [name for name in files if name not in content]
    missing += [pattern for pattern in [*PACKAGED, *others] if not any(fnmatch(name, pattern) for name in names)]
    wrong = [name for name in names if any(fnmatch(name, pattern) for pattern in outside)]
    return [f"{where}lacks {name}" for name in missing] + [f"{where}has {name}" for name in wrong]


def differences(one: Path, other: Path, below: str = "") -> list[str]:
    """The files that differ between two wheels, of those whose names begin with `below`."""
    first, second = (
        {name: content for name, content in _wheel(wheel).items() if name.startswith(below)} for wheel in (one, other)
    )
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def _sdist(path: Path) -> dict[str, bytes]:
    """Name below the top folder -> content."""
    with tarfile.open(path) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        return {member.name.partition("/")[2]: archive.extractfile(member).read() for member in files}


def _wheel(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
