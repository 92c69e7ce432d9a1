"""Lines whose translation leaves out a sentence, translated again a sentence at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from posnmt.translate.omissions import intervals
from posnmt.translate.requests import Request, Search
from posnmt.translate.translations import Translation


def mended(
    translations: Sequence[Translation],
    language: str,
    search: Search,
    serves: Collection[str],
    translate: Callable[[Sequence[Request], Search], Sequence[Translation]],
) -> list[Translation]:
    """The translations of lines, with those of a second try where the second leaves out less.

    A line is tried again if a sentence of it is left out, or if the output limit ended its translation while several
    sentences were translated as one. A line with a prefix is not tried again: its parts could not have the prefix. The
    second try has an output for each sentence and joins no lines.

    Args:
        language: the code of the lines' language.
        serves: the settings of search that the engine has; see `posnmt.translate.engine.Engine`.
        translate: translates some lines again.
    """
    places = [place for place, each in enumerate(translations) if _may_be_mended(each, language)]
    if not places:
        return list(translations)
    changed: dict[str, object] = {"split": "sentences", "complete": "warn", "join": 1}
    if "min_length" in serves:
        changed["min_length"] = max(1, search.decode.min_length)
    again = replace(search, decode=search.decode.model_copy(update=changed))
    done = list(translations)
    for place, other in zip(places, translate([done[place].request for place in places], again), strict=True):
        if other.faults < done[place].faults:
            done[place] = replace(other, mended=True)
    return done


def _may_be_mended(translation: Translation, language: str) -> bool:
    """Whether something is left out of a translation whose line can be translated a sentence at a time."""
    if translation.request.prefix:
        return False
    sentences = len(intervals(translation.request.line, language)) if translation.at_limit else 0
    return bool(translation.omitted) or sentences > translation.parts
