"""Swap curves: scores over the share of swapped words in the source (Chen et al. 2019a, Figures 3-5).

Each system translates copies of the test source with increasing shares of swapped words (see `posnmt condition swap`);
all translations are scored against the same reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, quoted, raise_all
from posnmt.config.numbers import in_digits

OPTION = "--swapped"
# System and share of swapped words → its translation.
Swapped = dict[tuple[str, float], Path]


def parse_swapped(pairs: Sequence[str], systems: Iterable[str]) -> Swapped:
    """Parse `NAME:SHARE=FILE` options: the translation by the system NAME of a source with a SHARE of swapped words.

    Raises:
        UserError: an option has another form, a share is not above 0 and at most 1, a system is unknown, or a share of
            a system is a duplicate; all at once.
    """
    swapped: Swapped = {}
    faults = []
    known = list(systems)
    for pair in pairs:
        name, share = pair.partition("=")[0].rpartition(":")[::2]
        path = pair.partition("=")[2]
        key = (name.strip(), _share(share))
        if not (key[0] and path and 0 < key[1] <= 1):
            form = "NAME:SHARE=FILE with a share above 0 and at most 1, such as mine:0.1=out.de"
            faults.append(UserError(f"a translation of a swapped source is written {form}; got {quoted(pair)}", OPTION))
        elif of_key := faults_of([key], known):
            faults += of_key
        elif key in swapped:
            faults.append(UserError(f"{quoted(key[0])} has two outputs for the share {key[1]:g}", OPTION))
        else:
            swapped[key] = Path(path)
    raise_all(faults)
    return swapped


def faults_of(swapped: Iterable[tuple[str, float]], systems: Sequence[str]) -> list[UserError]:
    """Faults of the systems and the shares of translations of swapped sources.

    Args:
        swapped: system and share of each.
        systems: names of all outputs.
    """
    faults = []
    for name, share in swapped:
        if name not in systems:
            what = f"no output is called {quoted(name)}, of which there is a translation of a swapped source"
            faults.append(UserError(what, OPTION, f"choose from {', '.join(systems)}"))
        if not 0 < share <= 1:
            what = f"the share of swapped words is above 0 and at most 1; got {share:g} of {quoted(name)}"
            faults.append(UserError(what, OPTION, "0.1 is 10 %"))
    return faults


def _share(text: str) -> float:
    """The share, or an invalid one if the text is not a number."""
    try:
        return float(in_digits(text))
    except ValueError:
        return -1.0


def swap_curves(
    names: Sequence[tuple[str, float]], values: dict[str, list[Any]], ends: dict[str, list[Any]]
) -> list[dict[str, Any]]:
    """The scores of every system with swapped sources, by increasing share.

    Args:
        names: for each of M outputs, the system and the share of swapped words in the source; 0 for the source itself.
        values: measure → `[1 + G][M]`, of which the first row, over the full test set, is used.
        ends: measure → the intervals likewise, `[1 + G][M][2]`; empty without intervals.

    Returns:
        For each system `name`, `shares`, every measure with its value at each share, and `intervals`: measure →
        [lower, upper] at each share, or None.
    """
    curves = []
    for system in dict.fromkeys(name for name, share in names if share):
        rows = sorted((share, row) for row, (name, share) in enumerate(names) if name == system)
        curves.append(
            {
                "name": system,
                "shares": [share for share, _ in rows],
                **{measure: [scores[0][row] for _, row in rows] for measure, scores in values.items()},
                "intervals": {measure: [limits[0][row] for _, row in rows] for measure, limits in ends.items()} or None,
            }
        )
    return curves
