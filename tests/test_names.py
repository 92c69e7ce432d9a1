"""Names are the field's: words of our own dialect name nothing in the package."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "posnmt"

BANNED = {
    "laid": "by offset, or an offset bias",
    "meet": "project_onto, product",
    "merit": "selection_score",
    "room": "buffer, capacity, limit",
    "said": "message",
    "told": "message, counted",
}
"""Word -> what the field calls it, by what it is."""

VAGUE = ("found", "made")
"""Words that fit any result; a name says what the thing is."""


def words(name: str) -> set[str]:
    """The words of an identifier, in lower case."""
    return {word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name)}


def test_no_name_is_of_our_own_dialect():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        with tokenize.open(path) as file:
            for token in tokenize.generate_tokens(file.readline):
                parts = words(token.string) if token.type == tokenize.NAME else set()
                found = BANNED.keys() & {part.removesuffix("s") for part in parts}
                wrong += [f"{path}:{token.start[0]}: {token.string}: say {BANNED[word]}" for word in found]
    assert not wrong, "\n".join(wrong)


def defined(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the name of every variable, attribute, argument, function and class that a module defines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


def test_names_say_what_things_are():
    wrong = [
        f"{path}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, name in defined(ast.parse(path.read_text(encoding="utf-8")))
        if words(name) & set(VAGUE)
    ]
    assert not wrong, "\n".join(wrong)
