"""Copies of posnmt's modules beside an export, so that it loads in a Python without posnmt.

Transformers runs code of a folder only if its user says `trust_remote_code=True`. It then copies one file, and the
files that relative imports in it name, all from the folder itself. So the module `a.b.c` is the file `a_b_c.py`, and
its imports are relative. Nothing else of a module is changed, but for what `CHANGES` states.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from posnmt.config.schema import Model
from posnmt.deploy.huggingface.config import AUTO_MAP, PIPELINES, PosnmtConfig
from posnmt.model.registry import ARCHITECTURES
from posnmt_position.registry import SCHEMES

HERE = "posnmt.deploy.huggingface"

ENTRIES = (f"{HERE}.config", f"{HERE}.model", f"{HERE}.tokenizer")
"""The modules whose classes `config.json` and `tokenizer_config.json` name."""

LEFT_OUT = ("posnmt.model.kernels.shaw_triton", f"{HERE}.code")
"""Modules that are not copied: a kernel, since Transformers would ask for Triton, and this one."""

CHANGES = {
    "posnmt.model.registry": (
        'f"posnmt.model.{module}"',
        """f"{__package__}.posnmt_model_{module.replace('.', '_')}\"""",
    ),
    "posnmt_position.registry": (
        'f"posnmt_position.{module}"',
        """f"{__package__}.posnmt_position_{module.replace('.', '_')}\"""",
    ),
    "posnmt.model.kernels.shaw": ("        q.is_cuda\n", "        False  # the copy has no kernel in Triton\n"),
}
"""Module → a text in it and what stands in its place: registries import by name, and the kernel is left out."""


def carry(config: PosnmtConfig, folder: Path) -> bool:
    """Write the modules that a model needs into a folder, and let the configuration name them.

    Returns:
        False, and nothing is written, if the model has a position scheme from outside posnmt.
    """
    model = Model.model_validate(config.posnmt)
    carried = all(isinstance(SCHEMES.get(name), str) for name in _schemes(model))
    config.auto_map, config.custom_pipelines = (AUTO_MAP, PIPELINES) if carried else ({}, {})
    for name, text in copies(model).items() if carried else ():
        (folder / f"{name}.py").write_text(text, encoding="utf-8", newline="\n")
    return carried


def copies(config: Model) -> dict[str, str]:
    """The modules that a model needs: name → text.

    Args:
        config: the `model` section; its position schemes are posnmt's own.
    """
    systems = {
        "posnmt.model.registry": [f"posnmt.model.{ARCHITECTURES[config.architecture].split(':')[0]}"],
        "posnmt_position.registry": sorted(
            {f"posnmt_position.{str(SCHEMES[name]).split(':')[0]}" for name in _schemes(config)}
        ),
    }
    written, waiting = {}, [*ENTRIES]
    while waiting:
        module = waiting.pop()
        if module not in written:
            text, imported = _copied(module, tuple(systems.get(module, ())))
            written[module] = text
            waiting += imported
    return {_flat(module): text for module, text in written.items()}


def _schemes(config: Model) -> set[str]:
    """The names of a model's position schemes."""
    return {choice.scheme for choices in config.schemes.values() for choice in choices}


def _flat(module: str) -> str:
    """The name of the copy of a module."""
    return module.replace(".", "_")


def _path(module: str) -> Path | None:
    """The file of a module; None: there is no such module."""
    spec = importlib.util.find_spec(module)
    return None if spec is None or spec.origin is None else Path(spec.origin)


@cache
def _copied(module: str, systems: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The text of the copy of a module, and the modules that it imports.

    Args:
        systems: modules that it imports by a name that is computed.
    """
    path = _path(module)
    assert path is not None
    text = path.read_text(encoding="utf-8")
    if module in CHANGES:
        old, new = CHANGES[module]
        assert text.count(old) == 1, f"{module} has no longer {old!r}"
        text = text.replace(old, new)
    lines, imported = text.removesuffix("\n").split("\n"), [*systems]
    for node in _imports(ast.parse(text)):
        indent = " " * node.col_offset
        new_lines = []
        if isinstance(node, ast.If):
            new_lines = [f"{indent}if TYPE_CHECKING:", f"{indent}    pass"]
        else:
            for found, names in _targets(node):
                if found in LEFT_OUT:
                    new_lines += [f'{indent}raise ImportError("{found} is not copied")']
                    continue
                imported.append(found)
                new_lines += [f"{indent}{line}" for line in _relative(found, names)]
        assert node.end_lineno is not None
        lines[node.lineno - 1 : node.end_lineno] = new_lines + [""] * (
            node.end_lineno - node.lineno + 1 - len(new_lines)
        )
    lines += [
        f"from .{_flat(system)} import __name__ as _  # so that Transformers copies the file" for system in systems
    ]
    return "\n".join(lines) + "\n", tuple(imported)


def _imports(tree: ast.Module) -> Iterator[ast.If | ast.ImportFrom]:
    """The imports of posnmt's modules, the last first, and blocks that only type checkers read."""
    found: list[ast.If | ast.ImportFrom] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            found.append(node)
            return
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in ("posnmt", "posnmt_position"):
            found.append(node)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return iter(sorted(found, key=lambda node: node.lineno, reverse=True))


def _targets(node: ast.ImportFrom) -> Iterator[tuple[str, list[str] | str]]:
    """What an import reads: (module, its names), or (module, the name that the module itself gets)."""
    names = []
    for alias in node.names:
        inner = f"{node.module}.{alias.name}"
        if _is_module(inner):
            yield inner, alias.asname or alias.name
        else:
            names.append(alias.name if alias.asname is None else f"{alias.name} as {alias.asname}")
    if names:
        yield str(node.module), names


def _is_module(name: str) -> bool:
    parent, _, last = name.rpartition(".")
    folder = _path(parent)
    return folder is not None and folder.name == "__init__.py" and (folder.parent / f"{last}.py").exists()


def _relative(module: str, names: list[str] | str) -> list[str]:
    """The relative import of names of a module, or of the module itself, in lines that Transformers recognises."""
    if isinstance(names, str):
        return [f"from .{_flat(module)} import __name__ as _", f"from . import {_flat(module)} as {names}"]
    return [f"from .{_flat(module)} import {', '.join(names)}"]
