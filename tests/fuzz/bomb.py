"""What a bomb is: a small file that declares or unpacks to much, and the reader that must refuse it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FROZEN = Path(__file__).parents[1] / "frozen"
MIB = 1 << 20


@dataclass(frozen=True)
class Bomb:
    """A reader, and what it is given.

    Attributes:
        make: writes a file or a folder; its second argument says whether it is the bomb.
        read: reads it.
        most: MiB that the bomb may take beside what the harmless one takes.
    """

    make: Callable[[Path, bool], None]
    read: Callable[[Path], Any]
    most: int
