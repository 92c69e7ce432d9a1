"""Lines whose translation leaves out a sentence, translated again a sentence at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from posnmt.config.schema import Decode
from posnmt.data.text import SideText
from posnmt.translate.omissions import intervals
from posnmt.translate.translations import Translation

Again = Callable[[Sequence[int], Decode], Sequence[Translation]]
"""The translations of the lines at some places with other settings."""


def mended(
    lines: Sequence[str],
    translations: Sequence[Translation],
    side: SideText,
    decode: Decode,
    prefixes: Sequence[str],
    again: Again,
) -> list[Translation]:
    """The translations, with those of another try where one leaves out less.

    A line is tried again if something of it is left out, or if the output limit ended its translation while several
    sentences were translated as one. A line with a prefix is not: its parts could not have it. The try has an output
    for each sentence and joins no lines.

    Args:
        side: the text pipeline of the lines.
        prefixes: of the translations; none: all are free.
    """
    places = [
        place
        for place, (line, each) in enumerate(zip(lines, translations, strict=True))
        if not (prefixes and prefixes[place])
        and (each.omitted or (each.at_limit and len(intervals(line, side.words.language)) > each.parts))
    ]
    done = list(translations)
    if not places:
        return done
    changed = {"split": "sentences", "complete": "warn", "join": 1, "min_length": max(1, decode.min_length)}
    for place, other in zip(places, again(places, decode.model_copy(update=changed)), strict=True):
        if other.faults < done[place].faults:
            done[place] = replace(other, mended=True)
    return done
