"""Names are the field's: words of our own dialect name nothing in the package."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

BANNED = {
    "laid": "by offset, or an offset bias",
    "meet": "project_onto, product",
    "merit": "selection_score",
    "room": "buffer, capacity, limit",
    "said": "message",
    "told": "message, counted",
}
"""Word -> what the field calls it, by what it is."""


def test_no_name_is_of_our_own_dialect():
    wrong = []
    for path in sorted((Path(__file__).parents[1] / "posnmt").rglob("*.py")):
        with tokenize.open(path) as file:
            for token in tokenize.generate_tokens(file.readline):
                parts = re.findall("[A-Z]?[a-z]+|[A-Z]+", token.string) if token.type == tokenize.NAME else []
                words = BANNED.keys() & {part.lower().removesuffix("s") for part in parts}
                wrong += [f"{path}:{token.start[0]}: {token.string}: say {BANNED[word]}" for word in words]
    assert not wrong, "\n".join(wrong)
