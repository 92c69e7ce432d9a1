"""Packed files of published studies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from posnmt.study.packed import archived, compressed


def pack(files: Mapping[str, bytes], packed: Path) -> None:
    """Write files by their paths as a copy has them."""
    packed.write_bytes(compressed(archived(files), packed))
