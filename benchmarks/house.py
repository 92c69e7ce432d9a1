"""How far a reader must go in the code: frames, files, arrows between packages, complexity.

    python benchmarks/house.py [--json FILE] [--graph FILE.dot|FILE.svg]

Figures of the posnmt that is imported (PYTHONPATH chooses another checkout). Some are counted in the source:

- *Rooms*: the packages and modules directly below posnmt, without `__init__` (the *face*) and `__main__`, and
  posnmt_position, where it is apart. An *arrow* leads to a room that another imports, in functions too; "with types"
  adds imports for annotations. *Arrows back* lead to the face, or to a room from which others return. *Floors*: rooms
  on the longest path of the other arrows. *Circles*: groups of modules that import each other, not through the face.
- *Complexity* is McCabe's as radon counts it; more than 20 is D or worse. *Statements* and *bodies* are without
  docstrings. A *one-line body* may be empty. *Parameters* are without self, cls, *a and **k. A function without
  decorators is *referenced once* if its name stands once as a name, an attribute or an import.

The others are of real runs on this CPU, of a tiny model on made-up words, with two threads; frames and calls are those
of Python functions of the package, without comprehensions.

- *Frames*: from the command's function to optimizer.step or search(), both counted. Where search runs in a thread of a
  pool, the frames of the main thread are added.
- *Entered by three updates*: from one call of optimizer.step to the third after it. *By `posnmt train`*: by a command
  of a few updates and an evaluation, whose text is prepared and whose modules are imported.
- *The way of the configuration*: files with a function that train() calls, directly or through others, and that
  receives the configuration or a section of it: as an argument, or as an element or attribute of one. A stop is a
  function that is called with it for the first time; the way ends at the 400th.
- *The way of a line*: files with a function that receives a word of the line, or its subwords, however deep in an
  argument, from Translator.translate to search(). A *climb*: the next such function is in a room on a higher floor.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import inspect
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

PACKAGES = ("posnmt", "posnmt_position")
FACE, START = "posnmt", "__main__"
TRAIN = ("posnmt.training.train:train", "posnmt.training.loop:train", "posnmt.train.loop:train")
TRANSLATE = ("posnmt.translate.translator:Translator.translate",)
SEARCH = ("posnmt.translate.search:search",)
COMMANDS = ("posnmt.cli.main:main",)
RUN = ("posnmt.run.run:Run", "posnmt.run:Run")
"""What is followed, by the names that it has or had; the first that exists is taken."""

PARTS = {
    "position": "posnmt_position position linear dropout randomness processor",
    "base": "base errors files parallel progress interrupt extras plugins runtime version workflow.lock",
    "heart": "metrics config data model run resolve defaults translate train training",
    "wing corpora": "corpora conditions",
    "wing evaluation": "evaluation analyse report show",
    "wing study": "study workflow",
    "wing deploy": "deploy",
    "entrance": "api cli testing demo callable posnmt __main__",
}
"""Part of the whole -> its rooms, and what belongs to another part than the rest of its room."""

STOPS = 400
UPDATES = 3
WARM = 2

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While


class Module(NamedTuple):
    """A source file, with all nodes of its tree; `typed` is what it imports for annotations alone."""

    path: Path
    nodes: list[ast.AST]
    lines: int
    imported: Counter[str]
    typed: Counter[str]


def room(name: str) -> str:
    """The room of a module: `posnmt.data.store` is in data; the face is `posnmt`."""
    return name.split(".")[1] if name.startswith("posnmt.") else name.split(".")[0]


def part(name: str) -> str:
    """The part of a module, by the longest of the names of `PARTS` that fits."""
    below = name.removeprefix("posnmt.").split(".")
    for length in range(len(below), 0, -1):
        for title, names in PARTS.items():
            if ".".join(below[:length]) in names.split():
                return title
    raise SystemExit(f"{name}: name its room in PARTS of {__file__}")


@cache
def sources() -> dict[str, Path]:
    """The folders of the packages, without importing them."""
    specs = {name: importlib.util.find_spec(name) for name in PACKAGES}
    return {name: Path(spec.origin).parent for name, spec in specs.items() if spec is not None and spec.origin}


def read(folders: dict[str, Path]) -> dict[str, Module]:
    """The modules of packages, by name."""
    paths: dict[str, Path] = {}
    for package, folder in folders.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            paths[".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    modules = {}
    for name, path in paths.items():
        text = path.read_text(encoding="utf-8")
        nodes, found = list(ast.walk(ast.parse(text))), (Counter[str](), Counter[str]())
        checks = (each for each in nodes if isinstance(each, ast.If) and "TYPE_CHECKING" in ast.dump(each.test))
        typed = {id(node) for check in checks for each in check.body for node in ast.walk(each)}
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                whole = [module + each.name for each in node.names]
                targets = {each if each in paths else each.rpartition(".")[0] for each in whole}
                found[id(node) in typed].update(targets & paths.keys() - {name})
        modules[name] = Module(path, nodes, len(text.splitlines()), *found)
    return modules


@dataclass(frozen=True)
class Graph:
    """Who imports whom: of each node, the others that it imports."""

    below: dict[str, set[str]]

    @classmethod
    def of(cls, modules: dict[str, Module], types: bool, named: Callable[[str], str] = room) -> Graph:
        """The graph of rooms, or of modules if each is `named` by itself; with imports for types or without."""
        below: dict[str, set[str]] = {named(name): set() for name in modules if room(name) != START}
        for name in modules.keys() - {f"{FACE}.{START}"}:
            found = modules[name].imported + (modules[name].typed if types else Counter())
            below[named(name)] |= {named(target) for target in found} - {named(name)}
        return cls(below)

    @cached_property
    def reached(self) -> dict[str, set[str]]:
        """Node -> those that it imports through others, or directly; not by way of the face."""
        reached = {}
        for start in self.below.keys() - {FACE}:
            todo, seen = [start], set[str]()
            while todo:
                new = self.below[todo.pop()] - seen - {FACE}
                seen |= new
                todo += new
            reached[start] = seen
        return reached | {FACE: set()}

    @property
    def back(self) -> set[tuple[str, str]]:
        """Arrows to the face, and those in circles."""
        arrows = {(one, other) for one, others in self.below.items() for other in others}
        return {(one, other) for one, other in arrows if other == FACE or one in self.reached[other]}

    @cached_property
    def floors(self) -> dict[str, int]:
        """The floor of each node, from 1: one above the highest that it imports."""
        back, floors = self.back, dict[str, int]()

        def floor(node: str) -> int:
            if node not in floors:
                lower = (floor(other) for other in self.below[node] if (node, other) not in back)
                floors[node] = 1 + max(lower, default=0)
            return floors[node]

        return {node: floor(node) for node in sorted(self.below)}

    @property
    def circles(self) -> set[frozenset[str]]:
        """Groups of nodes that reach each other."""
        inside = {node for node, others in self.reached.items() if node in others}
        return {frozenset(each for each in self.reached[node] if node in self.reached[each]) for node in inside}

    def dot(self) -> str:
        """The graph for Graphviz: a row a floor, arrows back in red."""
        rows = defaultdict(list)
        for node, floor in self.floors.items():
            rows[floor].append(f'"{node}" [fillcolor={1 + list(PARTS).index(part(node))}]')
        back = self.back
        arrows = [
            f'"{one}" -> "{other}"' + " [color=red, constraint=false]" * ((one, other) in back)
            for one, others in sorted(self.below.items())
            for other in sorted(others)
        ]
        style = "node [shape=box, style=filled, colorscheme=pastel18]; edge [color=gray60]"
        same = [f"{{rank=same; {'; '.join(rows[floor])}}}" for floor in sorted(rows)]
        return "\n".join(["digraph house {", style, *same, *arrows, "}", ""])


def body_lines(function: Function) -> int:
    """The lines from the first to the last statement of a function, its docstring aside."""
    body = function.body[ast.get_docstring(function, clean=False) is not None :]
    return 1 + (body[-1].end_lineno or 0) - body[0].lineno if body else 0


def parameters(function: Function) -> int:
    """The parameters that a function names, without self and cls."""
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len(named) - bool(named and named[0].arg in ("self", "cls"))


def complexity(node: ast.AST, inner: bool = False) -> int:
    """McCabe's number of a function, as radon counts it: without functions and classes inside."""
    if inner and isinstance(node, Function | ast.ClassDef):
        return 0
    if isinstance(node, ast.Assert):
        return 1  # radon does not look inside
    own = isinstance(node, Loop | ast.If | ast.IfExp | ast.comprehension) + len(getattr(node, "handlers", ()))
    own += isinstance(node, Loop | ast.Try | ast.TryStar) and bool(node.orelse)
    own += len(node.ifs) if isinstance(node, ast.comprehension) else 0
    own += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
    if isinstance(node, ast.Match):
        own += sum(not isinstance(each.pattern, ast.MatchAs) or bool(each.pattern.pattern) for each in node.cases)
    below = ast.iter_child_nodes(node) if inner else node.body  # type: ignore[attr-defined]
    return (not inner) + own + sum(complexity(each, True) for each in below)


def in_source(modules: dict[str, Module]) -> dict[str, int | str]:
    """Row -> its figure, counted in the source."""
    nodes = [(name, node) for name, module in modules.items() for node in module.nodes]
    functions = [(name, node) for name, node in nodes if isinstance(node, Function)]
    documented = [node for _, node in nodes if isinstance(node, ast.Module | ast.ClassDef | Function)]
    docstrings = sum(ast.get_docstring(node) is not None for node in documented)
    used = Counter(node.id for _, node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    used.update(node.attr for _, node in nodes if isinstance(node, ast.Attribute))
    used.update(node.name for _, node in nodes if isinstance(node, ast.alias))
    once = [node for _, node in functions if used[node.name] == 1 and not node.decorator_list]
    many = [node for name, node in functions if parameters(node) >= 10 and ".kernels." not in name]
    lines = Counter[str]()
    for name, module in modules.items():
        lines[part(name)] += module.lines
    inner = [each for name, each in modules.items() if part(name) in ("position", "base", "heart")]
    into_wings = [target for each in inner for target in each.imported.elements() if part(target).startswith("wing")]
    rooms, typed = Graph.of(modules, types=False), Graph.of(modules, types=True)
    hard = sorted(((complexity(node), f"{name}.{node.name}") for name, node in functions), reverse=True)
    return {
        "functions with a one-line body": sum(body_lines(node) <= 1 for _, node in functions),
        "functions referenced once, of at most 3 lines": sum(1 <= body_lines(node) <= 3 for node in once),
        "functions with 10 parameters or more, outside kernels": len(many),
        "blocks of complexity D or worse": sum(number > 20 for number, _ in hard),
        "the most complex": ", ".join(f"`{name}` {number}" for number, name in hard[:2]),
        "rooms": len(rooms.below.keys() - {FACE}),
        "floors": max(rooms.floors.values()),
        "arrows": sum(map(len, rooms.below.values())),
        "arrows back": len(rooms.back),
        "of them to the face": sum(other == FACE for _, other in rooms.back),
        "arrows back, with types": len(typed.back),
        "circles of modules": len(Graph.of(modules, False, str).circles),
        "circles of modules, with types": len(Graph.of(modules, True, str).circles),
        "imports of the face (`import posnmt` for its version)": sum(each.imported[FACE] for each in modules.values()),
        "imports of a wing by position, base or heart": len(into_wings),
        "files": len(modules),
        "files of at most 40 lines": sum(module.lines <= 40 for module in modules.values()),
        "functions": len(functions),
        "statements": sum(isinstance(node, ast.stmt) for _, node in nodes) - docstrings,
        "lines": lines.total(),
        **{f"lines of {title}": lines[title] for title in PARTS},
    }


def counts(code: CodeType) -> bool:
    """Whether the code is a function of the package, and neither a comprehension nor the body of a class."""
    function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    return bool(function) and any(Path(code.co_filename).is_relative_to(folder) for folder in sources().values())


@contextmanager
def calls(told: Callable[[FrameType], None]) -> Iterator[None]:
    """Tell a function of the frame of each call in the package, in all threads that begin meanwhile."""
    known = cache(counts)

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and known(frame.f_code):
            told(frame)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def frames_from(start: CodeType, frame: FrameType | None) -> int:
    """The frames of the package from `start` to `frame`, with those of the main thread if this is another."""
    main, codes = threading.main_thread(), []
    for each in (frame, None if threading.current_thread() is main else sys._current_frames()[main.ident or 0]):
        while each is not None:
            codes += [each.f_code] * counts(each.f_code)
            each = each.f_back
    return codes.index(start) + 1


def named(places: Iterable[str]) -> Any:
    """The first object that exists, of several `module:name`."""
    for place in places:
        module, _, names = place.partition(":")
        try:
            return reduce(getattr, names.split("."), importlib.import_module(module))
        except (ModuleNotFoundError, AttributeError):
            continue
    raise SystemExit(f"none of {', '.join(places)} exists: name what took its place in {__file__}")


def code_of(function: Any) -> CodeType:
    return inspect.unwrap(function).__code__  # type: ignore[no-any-return]


def command(name: str) -> CodeType:
    """The code of the function of a command."""
    import click

    main = named(COMMANDS)
    return code_of(main.get_command(click.Context(main), name).callback)


def invoke(*arguments: str | Path) -> None:
    """Run a command in this process."""
    from click.testing import CliRunner

    result = CliRunner().invoke(named(COMMANDS), list(map(str, arguments)))
    if result.exit_code:
        raise SystemExit(f"posnmt {' '.join(map(str, arguments))} fails:\n{result.output}") from result.exception


def given(frame: FrameType) -> list[Any]:
    """The arguments of a call."""
    code = frame.f_code
    starred = sum(bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS))
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + starred]
    return [frame.f_locals[name] for name in names if name in frame.f_locals]


def inside(value: Any) -> list[Any]:
    """What a container, or an object of the package, holds."""
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    own = type(value).__module__.split(".")[0] in PACKAGES and hasattr(value, "__dict__")
    return list((value if isinstance(value, dict) else vars(value) if own else {}).values())


def sections(value: Any) -> set[type]:
    """The classes of a configuration and of the sections in it."""
    kind = type(value)
    return set().union({kind} if kind.__module__.split(".")[0] in PACKAGES else (), *map(sections, inside(value)))


def has_line(value: Any, words: list[str], ids: list[int], seen: set[int]) -> bool:
    """Whether a value is or holds a word of a line, or its subwords in order; each of `seen` is looked at once."""
    if isinstance(value, str):
        return any(word in value for word in words)
    if "int" in str(getattr(value, "dtype", "")):
        value = value.reshape(-1).tolist()
    if isinstance(value, list | tuple) and value and isinstance(value[0], int):
        return any(list(value[place : place + len(ids)]) == ids for place in range(len(value)))
    new = id(value) not in seen
    seen.add(id(value))
    return new and any(has_line(each, words, ids, seen) for each in inside(value))


def in_training(*arguments: str | Path) -> dict[str, int]:
    """Row -> its figure, of a run of `posnmt train`."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    start, train = command("train"), code_of(named(TRAIN))
    entered: defaultdict[int, set[CodeType]] = defaultdict(set)  # before each step
    frames: list[int] = []
    kinds: set[type] = set()
    way: dict[CodeType, None] = {}

    def told(frame: FrameType) -> None:
        entered[len(frames)].add(frame.f_code)
        if frame.f_code is train:
            kinds.update(sections(frame.f_locals["config"]))
        if kinds and any(type(each) in kinds for value in given(frame) for each in (value, *inside(value))):
            way[frame.f_code] = None

    with calls(told):
        hook = register_optimizer_step_pre_hook(lambda *_: frames.append(1 + frames_from(start, sys._getframe())))
        invoke("train", *arguments)
    hook.remove()
    updates = set().union(*(entered[number] for number in range(WARM, WARM + UPDATES)))
    whole = set().union(*entered.values())
    return {
        "frames from `posnmt train` to `optimizer.step`": frames[-1],
        "files that the configuration visits from `train()`": count_files(list(way)[:STOPS]),
        "files entered by three updates": count_files(updates),
        "functions entered by three updates": len(updates),
        "files entered by `posnmt train`": count_files(whole),
        "functions entered by `posnmt train`": len(whole),
    }


def count_files(codes: Iterable[CodeType]) -> int:
    return len({code.co_filename for code in codes})


def in_translation(run: Path, line: Path, floor: Callable[[str], int]) -> dict[str, int]:
    """Row -> its figure, of a run of `posnmt translate`; `floor` of a file."""
    start, translate, search = command("translate"), code_of(named(TRANSLATE)), code_of(named(SEARCH))
    text = line.read_text(encoding="utf-8").strip()
    ids = [int(each) for each in named(RUN).open(run).text().source.encode([text])[0]]
    frames: list[int] = []
    way: list[CodeType] = []

    def told(frame: FrameType) -> None:
        if (way or frame.f_code is translate) and not frames and has_line(given(frame), text.split(), ids, set()):
            way.append(frame.f_code)
        if frame.f_code is search:
            frames.append(frames_from(start, frame))

    with calls(told):
        invoke("translate", run, "--input", line, "--output", f"{line}.out")
    return {
        "frames from `posnmt translate` to `search()`": frames[0],
        "files that a line visits from `Translator.translate` to `search()`": count_files(way),
        "climbs on that way": sum(one < other for one, other in pairwise(floor(code.co_filename) for code in way)),
    }


def in_runs(modules: dict[str, Module]) -> dict[str, int]:
    """Row -> its figure, of real runs."""
    import torch

    torch.set_num_threads(2)
    floors = Graph.of(modules, types=False).floors
    rooms = {str(module.path): room(name) for name, module in modules.items()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, line = set_up(folder)
        invoke("train", config, "--out", folder / "first")  # imports everything, prepares the text
        trained = in_training(config, "--out", folder / "run")
        invoke("translate", folder / "run", "--input", line, "--output", folder / "first.out")
        return trained | in_translation(folder / "run", line, lambda file: floors[rooms[file]])


def set_up(folder: Path) -> tuple[Path, Path]:
    """Write a made-up corpus with a configuration, and a line to translate."""
    drawn = random.Random(1)
    words = ["".join(drawn.choices("abcdefgh", k=4)) for _ in range(12)]
    text = {split: {side: f"{folder}/{split}.{side}" for side in ("source", "target")} for split in ("train", "dev")}
    for file in (file for sides in text.values() for file in sides.values()):
        lines = [" ".join(drawn.choices(words, k=drawn.randint(3, 8))) + "\n" for _ in range(60)]
        Path(file).write_text("".join(lines), encoding="utf-8")
    side = {"layers": 1, "position": [{"scheme": "relative", "distance": 4}]}
    steps = WARM + UPDATES + 1
    content = {
        "data": {**text, "store": f"{folder}/stores"},
        "subword": {"vocabulary": 40},
        "model": {"d_model": 16, "feed_forward": 24, "heads": 2, "encoder": side, "decoder": side},
        "train": {"steps": steps, "batch": 64, "optimizer": "adam", "dev_bleu": False, "average": 1},
    }
    config, line = folder / "config.yaml", folder / "line"
    config.write_text(json.dumps(content), encoding="utf-8")
    line.write_text(" ".join(words[:5]) + "\n", encoding="utf-8")
    return config, line


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--graph", type=Path, metavar="FILE", help="write the graph of rooms, as .dot or .svg")
    arguments = parser.parse_args()
    svg = arguments.graph is not None and arguments.graph.suffix == ".svg"
    program = shutil.which("dot") or ""
    if svg and not program:
        raise SystemExit("Graphviz, which writes SVG, is not installed: name a file .dot")
    modules = read(sources())
    if arguments.graph:
        dot = Graph.of(modules, types=False).dot()
        drawn = subprocess.run([program, "-Tsvg"], input=dot, text=True, stdout=-1, check=True).stdout if svg else dot
        arguments.graph.write_text(drawn, encoding="utf-8")
    figures = in_runs(modules) | in_source(modules)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print("| | |\n|---|---|")
    for row, figure in figures.items():
        print(f"| {row} | {f'{figure:,}' if isinstance(figure, int) else figure} |")


if __name__ == "__main__":
    main()
