"""The plan of docs/architecture.md: packages import from lower floors, and no module imports itself through others."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
POSITION = ROOT / "position"
PACKAGES = (ROOT / "posnmt", POSITION / "posnmt_position")

FLOORS = (
    {"base", "posnmt_position"},
    {"config", "metrics"},
    {"data"},
    {"corpora", "model"},
    {"run"},
    {"translate"},
    {"evaluation", "training"},
    {"deploy", "study"},
    {"api", "position", "testing"},
    {"posnmt"},
    {"cli"},
    {"__main__"},
)
"""From the ground up. A package imports from itself and from lower floors, and nothing else of posnmt."""

OURS = {folder.name for folder in PACKAGES}


def module(path: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(POSITION if path.is_relative_to(POSITION) else ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module(path): path for folder in PACKAGES for path in sorted(folder.rglob("*.py"))}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path, annotations: bool = False) -> Iterator[str]:
    """The modules of posnmt that a file imports, in functions too, and for annotations alone if these are asked for."""
    for node in statements(parsed(path), annotations):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path}:{node.lineno}: import by the whole name, so that floors can be seen")
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                yield whole if whole in FILES else node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] in OURS)


def statements(node: ast.AST, annotations: bool = True) -> Iterator[ast.AST]:
    """A tree's statements; `annotations`: also those under `if TYPE_CHECKING`."""
    if_typed = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if if_typed and not annotations:
        for child in node.orelse:
            yield from statements(child, annotations)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):  # no expression imports
            yield from statements(child, annotations)


def package(name: str) -> str:
    """The package of posnmt, or its file, that a module belongs to; posnmt_position is one."""
    return name.split(".")[name.startswith("posnmt.")]


@cache
def graph(annotations: bool = False) -> dict[str, set[str]]:
    """Module → the modules that it imports; `posnmt` itself hands names on, and is no reason to import it."""
    return {name: set(imports(path, annotations)) - {name} for name, path in FILES.items() if name != "posnmt"}


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


def test_the_package_of_schemes_imports_pytorch_and_the_standard_library_alone():
    for path in sorted((POSITION / "posnmt_position").rglob("*.py")):
        for node in statements(parsed(path)):
            modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            modules += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            tops = {module.split(".")[0] for module in modules}
            assert tops <= {"torch", "posnmt_position", *sys.stdlib_module_names}, f"{path}:{node.lineno}"


def test_floors_are_those_of_the_page():
    page = (
        (ROOT / "docs" / "architecture.md")
        .read_text(encoding="utf-8")
        .split("## Who imports whom")[1]
        .split("\n## ")[0]
    )
    rows = [set(re.findall("`([a-z_]+)`", row)) for row in re.findall(r"^\| \d+ \|.*$", page, re.MULTILINE)]
    assert rows == [*FLOORS[:8], set().union(*FLOORS[8:]) - {"posnmt", "__main__"}]
    assert set().union(*FLOORS) == {package(name) for name in FILES}


def test_the_heart_imports_no_wing():
    """With `base`; imports for annotations alone count as well."""
    heart = {"base", "posnmt_position", "metrics", "config", "data", "model", "run", "translate", "training"}
    wrong = {
        f"{one} imports {other}"
        for one, others in graph(annotations=True).items()
        for other in others
        if package(one) in heart and package(other) not in heart
    }
    assert not wrong


@pytest.mark.parametrize("annotations", [False, True])
def test_no_module_imports_itself_by_way_of_others(annotations):
    try:
        TopologicalSorter(graph(annotations)).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize("name", ["evaluation", "study"])
def test_no_function_of_a_wing_is_hard_to_follow(name, monkeypatch):
    """By McCabe's number and by parameters, as `benchmarks/house.py` counts them."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    house = importlib.import_module("house")
    hard = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in FILES.values()
        if path.is_relative_to(ROOT / "posnmt" / name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, house.Function) and (house.complexity(node) > 20 or house.parameters(node) >= 10)
    }
    assert not hard
