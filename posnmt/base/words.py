"""Words of messages."""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    """A number with its noun: "1 update", "1,200 updates", "0.5 minutes", "2 passes"."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{shown} {noun}{ending}"
