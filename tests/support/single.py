"""A model that has learned single sentences by heart, and so drops the second one of a line."""

from __future__ import annotations

from pathlib import Path

from tests.support import corpus


def config(folder: Path, **settings) -> Path:
    """As `corpus.memorised`, with sentences that begin with a capital letter and end with a full stop."""
    path = corpus.memorised(folder, **settings)
    for side in ("source", "target"):
        file = folder / "corpus" / f"dev.{side}"
        file.write_text("".join(f"{each[:1].upper()}{each[1:]}.\n" for each in file.read_text().splitlines()))
    return path


def sentences(folder: Path, side: str = "source") -> list[str]:
    """The sentences that it has learned."""
    return (folder / "corpus" / f"dev.{side}").read_text().splitlines()
