"""Swap curves: how scores fall as more words of the source are swapped (Chen et al. 2019a, Figures 3-5).

Each system translates copies of the test source in which a growing share of the words was swapped (`posnmt condition
swap` makes them); all translations are scored against the one reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from posnmt.errors import UserError, raise_all

OPTION = "--swapped"
# System and share of swapped words → its translation.
Swapped = dict[tuple[str, float], Path]


def parse_swapped(pairs: Sequence[str], systems: Iterable[str]) -> Swapped:
    """`NAME:SHARE=FILE` as on the command line: what NAME, one of the systems, made of a source swapped by SHARE.

    Raises:
        UserError: not of this form, a share that is not above 0 and at most 1, an unknown system, one share of a system
            twice; all at once.
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
            faults.append(UserError(f"a translation of a swapped source is written {form}; got {pair!r}", OPTION))
        elif key[0] not in known:
            todo = f"choose from {', '.join(known)}"
            faults.append(UserError(f"no output is called {key[0]!r}, which {pair!r} names", OPTION, todo))
        elif key in swapped:
            faults.append(UserError(f"{key[0]!r} has two outputs for the share {key[1]:g}", OPTION))
        else:
            swapped[key] = Path(path)
    raise_all(faults)
    return swapped


def _share(text: str) -> float:
    """The share, or one that is refused when the text is none."""
    try:
        return float(text)
    except ValueError:
        return -1.0


def swap_curves(
    names: Sequence[tuple[str, float]], values: dict[str, list[Any]], ends: dict[str, list[Any]]
) -> list[dict[str, Any]]:
    """For every system with swapped sources its scores over the shares, rising.

    Args:
        names: of each of M outputs, the system and the share of swapped words in the source; 0 for the source itself.
        values: measure → its values over the whole test set first: `[0][M]`.
        ends: measure → lower and upper end of each likewise, `[0][M][2]`; empty if there are no intervals.

    Returns:
        `name`, `shares`, every measure with its value at each share, and `intervals`: measure → [lower, upper] at each
        share, or None.
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
