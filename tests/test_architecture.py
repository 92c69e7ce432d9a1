"""The plan of docs/architecture.md: packages import from lower floors, and no module imports itself through others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FLOORS = (
    {"posnmt", "errors", "linear", "processor", "runtime"},
    {"extras", "files", "interrupt", "parallel", "plugins", "progress", "randomness"},
    {"callable", "config", "dropout", "workflow"},
    {"data", "metrics", "position"},
    {"conditions", "model"},
    {"corpora", "defaults", "resolve"},
    {"run"},
    {"translate"},
    {"analyse", "train"},
    {"report"},
    {"demo", "deploy", "show", "study"},
    {"api"},
    {"cli", "testing"},
    {"__main__"},
)
"""From the ground up. A package imports from itself and from lower floors, and nothing else of posnmt."""


def module(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module(path): path for path in sorted((ROOT / "posnmt").rglob("*.py"))}


def imports(path: Path) -> Iterator[str]:
    """The modules of posnmt that a file imports, in functions too, but not for annotations alone."""
    for node in real(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path}:{node.lineno}: import by the whole name, so that floors can be seen")
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "posnmt":
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                yield whole if whole in FILES else node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] == "posnmt")


def real(node: ast.AST) -> Iterator[ast.AST]:
    """A tree's statements, without what stands under `if TYPE_CHECKING`."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        for child in node.orelse:
            yield from real(child)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):  # no expression imports
            yield from real(child)


def package(name: str) -> str:
    """The package, or the file, of the top level that a module belongs to."""
    return name.split(".")[1] if "." in name else name


@cache
def graph() -> dict[str, set[str]]:
    """Module → the modules that it imports."""
    return {name: set(imports(path)) - {name} for name, path in FILES.items()}


@pytest.mark.parametrize("name", sorted({package(name) for name in FILES}))
def test_a_package_imports_from_lower_floors(name):
    number = {each: floor for floor, names in enumerate(FLOORS) for each in names}
    assert name in number, f"name the floor of {name} here and in docs/architecture.md"
    wrong = {
        f"{one} imports {other}"
        for one, others in graph().items()
        for other in others
        if package(one) == name != package(other) and number[package(other)] >= number[name]
    }
    assert not wrong


def test_floors_are_those_of_the_page():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("## Who imports whom")[1]
    rows = [set(re.findall("`([a-z]+)`", row)) for row in re.findall(r"^\| \d+ \|.*$", page, re.MULTILINE)]
    assert rows == [names - {"posnmt", "__main__"} for names in FLOORS if names != {"__main__"}]
    assert set().union(*FLOORS) == {package(name) for name in FILES}


def test_the_page_names_every_module():
    """`*` in a name stands for any letters; folders of one idea are named as a whole."""
    tree = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    entries = dict(re.findall(r"^  (\w+)(?:/|\.py)((?: .*|\n    .*)*)", tree, re.MULTILINE))
    whole = {"cli", "artificial", "reorder", "huggingface", "figures"}
    missing = []
    for name, path in FILES.items():
        parts = name.split(".")
        if len(parts) < 3 or path.name == "__init__.py" or whole & set(parts[:-1]):
            continue
        words = re.findall(r"[\w*]+", entries.get(parts[1], tree))
        if not any(fnmatch(parts[-1], word) for word in words):
            missing.append(name)
    assert not missing


def test_no_module_imports_itself_by_way_of_others():
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
