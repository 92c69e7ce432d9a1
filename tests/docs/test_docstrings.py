"""Every public function and class of the package says in more than five words what it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FEWEST = 6


def public(node: ast.Module | ast.ClassDef, before: str = "") -> Iterator[tuple[str, str | None]]:
    """The public functions and classes in a module or class by name, each with its docstring."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not each.name.startswith("_"):
            yield f"{before}{each.name}", ast.get_docstring(each)
            if isinstance(each, ast.ClassDef):
                yield from public(each, f"{each.name}.")


@pytest.mark.parametrize("folder", ["posnmt", "position/posnmt_position"])
def test_docstrings_say_something(folder):
    short = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for name, docstring in public(ast.parse(file.read_text(encoding="utf-8")))
        if docstring is not None and len(docstring.split()) < FEWEST
    ]
    assert short == []
