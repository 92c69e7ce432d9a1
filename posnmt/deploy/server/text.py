"""Split texts into lines, and join them again with their own line ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, zip_longest


def split(text: str) -> tuple[list[str], list[str]]:
    """The lines of a text, and the line ends between them."""
    parts = re.split(r"(\r?\n)", text)
    return parts[::2], parts[1::2]


def join(lines: Sequence[str], ends: Sequence[str]) -> str:
    """Join lines and the line ends between them."""
    return "".join(chain.from_iterable(zip_longest(lines, ends, fillvalue="")))
