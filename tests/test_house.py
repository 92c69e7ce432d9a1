"""benchmarks/house.py: what it counts in a made-up package, and in this one."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]

PACKAGE = {
    "__init__.py": """'''The face.'''
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from posnmt.cli import main
__version__ = "1"
""",
    "__main__.py": "from posnmt.cli import main\nmain()\n",
    "errors.py": "def once():\n    return 1\n",
    "data/__init__.py": "",
    "data/one.py": """
from typing import TYPE_CHECKING
from posnmt import errors, __version__
if TYPE_CHECKING:
    from posnmt.data.two import Two
def empty():
    '''Nothing.'''
def two_lines(a, b, c, d, e, f, g, h, i, *, j):
    a = b
    return empty(), a
""",
    "data/two.py": """
from posnmt.data.one import two_lines
class Two:
    @property
    def size(self):
        return 1
    def both(self):
        return two_lines, self.size
""",
    "study.py": "import posnmt.data.two\ndef lazy():\n    from posnmt.cli import main\n    return main\n",
    "cli.py": "from posnmt.study import lazy\ndef main():\n    return call()\ndef call():\n    return lazy()\n",
    "model.py": "from posnmt.study import lazy\nimport posnmt.study\n",
}
"""File -> its text. The heart's model imports a wing, cli and study import each other."""


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", ROOT / "benchmarks" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def made(house, tmp_path):
    for name, text in PACKAGE.items():
        path = tmp_path / "posnmt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return house.read({"posnmt": tmp_path / "posnmt"})


def test_figures_of_a_made_up_package(house, made):
    figures = house.in_source(made)
    assert figures.pop("the most complex") == "`posnmt.study.lazy` 1, `posnmt.errors.once` 1"
    lines = {name: len(text.splitlines()) for name, text in PACKAGE.items()}
    assert {row: figure for row, figure in figures.items() if figure} == {
        "functions with a one-line body": 6,  # all but two_lines and lazy
        "functions referenced once, of at most 3 lines": 1,  # call
        "functions with 10 parameters or more, outside kernels": 1,
        "rooms": 5,
        "floors": 4,  # errors, data, cli and study (side by side), model
        "arrows": 6,
        "arrows back": 3,
        "of them to the face": 1,
        "arrows back, with types": 3,
        "circles of modules": 1,
        "circles of modules, with types": 2,
        "imports of the face (`import posnmt` for its version)": 1,
        "imports of a wing by position, base or heart": 2,
        "files": 9,
        "files of at most 40 lines": 9,
        "functions": 8,
        "statements": 33,
        "lines": sum(lines.values()),
        "lines of base": lines["errors.py"],
        "lines of heart": sum(count for name, count in lines.items() if name.startswith(("data/", "model"))),
        "lines of wing study": lines["study.py"],
        "lines of entrance": lines["__init__.py"] + lines["__main__.py"] + lines["cli.py"],
    }


def test_the_graph_of_a_made_up_package(house, made):
    graph = house.Graph.of(made, types=False)
    assert graph.back == {("data", "posnmt"), ("cli", "study"), ("study", "cli")}
    assert graph.circles == {frozenset({"cli", "study"})}
    text = graph.dot()
    assert text.count(" -> ") == 6
    assert text.count("red") == 3
    assert text.count("rank=same") == max(graph.floors.values())


def test_a_package_of_its_own_is_a_room(house, tmp_path):
    for package, text in (("posnmt", "import posnmt_position.seam\n"), ("posnmt_position", "")):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
        (tmp_path / package / "seam.py").write_text(text)
    (tmp_path / "posnmt" / "seam.py").rename(tmp_path / "posnmt" / "model.py")
    modules = house.read({name: tmp_path / name for name in ("posnmt", "posnmt_position")})
    assert house.Graph.of(modules, types=False).floors == {"posnmt": 1, "model": 2, "posnmt_position": 1}
    assert house.in_source(modules)["lines of heart"] == 1
    assert house.part("posnmt_position.seam") == "position"


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("pass", 1),
        ("if a or b and c or d:\n  pass\nelif e:\n  pass\nelse:\n  pass", 1 + 1 + 2 + 1 + 1),
        ("for a in b:\n  pass\nelse:\n  pass\nwhile c:\n  pass", 1 + 2 + 1),
        ("try:\n  pass\nexcept A:\n  pass\nexcept B:\n  pass\nelse:\n  pass\nfinally:\n  pass", 1 + 2 + 1),
        ("assert a or b", 1 + 1),
        ("x = [a if b else c for a in b for d in a if d if e]", 1 + 1 + 2 + 2),
        ("match a:\n  case 1: pass\n  case 2: pass\n  case _: pass", 1 + 2),
        ("def inner():\n  if a: pass\nclass Inner:\n  if a: pass", 1),
        ("with a:\n  x = lambda: b or c", 1 + 1),
    ],
)
def test_complexity_is_counted_by_hand(house, body, number):
    function = ast.parse("def f(a=x if y else z):\n" + "\n".join(f"  {line}" for line in body.splitlines())).body[0]
    assert house.complexity(function) == number


def test_parameters_are_those_that_have_names(house):
    def count(arguments: str) -> int:
        return house.parameters(ast.parse(f"def f({arguments}): pass").body[0])

    assert [count(each) for each in ("", "self", "a, /, b, *c, d, **e", "cls, a")] == [0, 0, 3, 1]


@pytest.mark.slow
def test_this_package(house):
    modules = house.read(house.sources())
    figures = house.in_source(modules)
    paths = [path for folder in house.sources().values() for path in folder.rglob("*.py")]
    assert figures["files"] == len(paths) == len(modules)
    assert figures["lines"] == sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
    assert figures["lines"] == sum(figures[f"lines of {title}"] for title in house.PARTS)
    assert figures["circles of modules"] == 0  # as tests/test_architecture.py has it
    graph = house.Graph.of(modules, types=False)
    assert {other for _, other in graph.back} <= {house.FACE}
    assert figures["floors"] == len(set(graph.floors.values()))


def test_what_is_followed_exists(house):
    codes = [house.code_of(house.named(each)) for each in (house.TRAIN, house.TRANSLATE, house.SEARCH)]
    assert [code.co_name for code in codes] == ["train", "translate", "search"]
    assert {house.command(name).co_name for name in ("train", "translate")} == {"train", "translate"}
    assert house.named(house.RUN).__name__ == "Run"
    with pytest.raises(SystemExit):
        house.named(["posnmt.nowhere:nothing"])


@pytest.mark.parametrize(
    ("value", "has"),
    [
        ("a word.", True),
        ("wor d", False),
        ([3, 5, 8, 9], True),
        ([5, 3, 8], False),
        (np.array([[0, 0], [5, 8]], np.int32), True),
        (np.array([5.0, 8.0]), False),
        ({"key": (["other"], [[5, 8]])}, True),
        (["other", {1: 2}], False),
    ],
)
def test_a_line_is_seen_in_an_argument(house, value, has):
    assert house.has_line(value, ["word", "line"], [5, 8], set()) is has


def test_a_value_that_holds_itself_is_looked_at_once(house):
    value: list[object] = ["other"]
    value.append(value)
    assert not house.has_line(value, ["word"], [5, 8], set())


def test_arguments_are_those_of_the_call(house):
    frames = []

    def function(a, *b, c=3, **d):
        e = 5
        frames.append(sys._getframe())
        return e

    function(1, 2, d=4)
    assert house.given(frames[0]) == [1, 3, (2,), {"d": 4}]
    assert house.inside(SimpleNamespace(a=1)) == []  # no class of the package


@pytest.mark.slow  # two trainings and two translations
def test_figures_of_runs(house):
    figures = house.in_runs(house.read(house.sources()))
    assert all(figure >= 0 for figure in figures.values())
    for what in ("files", "functions"):
        assert 0 < figures[f"{what} entered by three updates"] < figures[f"{what} entered by `posnmt train`"]
    assert figures["files entered by three updates"] <= figures["functions entered by three updates"]
    assert figures["frames from `posnmt translate` to `search()`"] > 2  # the command, search and a thread's
