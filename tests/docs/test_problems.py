"""The messages that docs/problems.md explains are messages of posnmt."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.support.documents import ROOT, read

OF_THE_SHELL = {"command not found: posnmt"}


@cache
def literals() -> str:
    """All texts in the code, one a line; of a text with fields, what stands between them."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "posnmt").rglob("*.py"))]
    texts = [each.value for tree in trees for each in ast.walk(tree) if isinstance(each, ast.Constant)]
    return "\n".join(each for each in texts if isinstance(each, str))


def explained(page: str) -> list[str]:
    """The messages in the first cells of the page's tables."""
    return [
        message for cell in re.findall(r"^\| ([^|]*) \|", page, re.MULTILINE) for message in re.findall("`(.+?)`", cell)
    ]


def unknown(messages: list[str]) -> list[str]:
    """The messages of which the code lacks a part; `…` stands for what differs from case to case."""
    return [
        message
        for message in messages
        if message not in OF_THE_SHELL
        and not all(part.strip() in literals() for part in message.split("…") if part.strip())
    ]


def test_messages_that_are_explained_exist():
    messages = explained(read(ROOT / "docs" / "problems.md"))
    assert len(messages) > 30
    assert not unknown(messages)


def test_a_message_that_does_not_exist_is_seen():
    page = "| what you see | why |\n|---|---|\n| `no … pair is left`, or `no … pear is left` | `why` |\n"
    assert explained(page) == ["no … pair is left", "no … pear is left"]
    assert unknown(explained(page)) == ["no … pear is left"]
