"""Units of the length of a line: words, characters or subwords.

Begin and end symbols are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.data.subword import Subwords
from posnmt.data.text import SideText, TextPipeline

UNITS = ("words", "tokens", "subwords", "characters")
CountLengths = Callable[[list[str]], list[int]]


def length_unit(unit: str, subword_model: Path | None = None, side: str = "source") -> CountLengths:
    """The function that counts the length of each line in a unit.

    Args:
        unit: `words` (separated by blanks), `tokens` (likewise, of text that is already tokenised or in subwords),
            `characters` (Unicode code points, blanks included) or `subwords`.
        subword_model: only for `subwords`: a SentencePiece `.model` file, for text that is already tokenised; or the
            `text` folder of a run or a store, which also tokenises, as in training.
        side: `source` or `target`, for a folder.

    Raises:
        UserError: an unknown unit, or a subword model that is missing, unreadable or not applicable.
    """
    if unit not in UNITS:
        raise UserError(f"no unit of length is called {unit!r}", "--unit", f"choose from {', '.join(UNITS)}")
    if unit == "subwords":
        if subword_model is None:
            raise UserError("lengths in subwords need the subword model", "--subword-model", "give a .model file")
        if subword_model.is_dir():
            text: SideText = getattr(TextPipeline.load(subword_model), side)
            return lambda lines: [len(row) for row in text.encode(lines)]
        subwords = Subwords.load(subword_model)
        return lambda lines: [len(row) for row in subwords.encode(lines)]
    if subword_model is not None:
        raise UserError(
            f"a subword model is given, but lengths are in {unit}", subword_model, "set the unit to subwords"
        )
    if unit in ("words", "tokens"):
        return lambda lines: [len(line.split()) for line in lines]
    return lambda lines: [len(line) for line in lines]
