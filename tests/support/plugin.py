"""Packages with parts for posnmt, installed into a folder: what pip would leave there, without pip."""

from __future__ import annotations

from pathlib import Path

SCHEME = """
import torch
from torch import nn
from posnmt.position import LayerPosition, Options, Scheme


class Bias(LayerPosition):
    reads_keys = False

    def __init__(self, heads):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(heads, 1))

    def by_offset(self, span):
        return -self.slope * span.diagonals.abs()


class Mine(Scheme):
    class Settings(Options):
        pass

    def __init__(self, stack, settings):
        super().__init__()
        self.bias = Bias(stack.heads)

    def layer(self, index):
        return self.bias
"""
"""A scheme that works."""

INIT = "    def __init__(self, stack, settings):\n        super().__init__()\n"


def install(folder: Path, name: str, version: str, entries: dict[str, dict[str, str]], modules: dict[str, str]) -> Path:
    """Install a package.

    Args:
        entries: group -> name -> `module:object`.
        modules: file -> text.
    """
    folder.mkdir(exist_ok=True)
    for file, text in modules.items():
        (folder / file).write_text(text, encoding="utf-8")
    for old in folder.glob(f"{name.replace('-', '_')}-*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        line for group, named in entries.items() for line in (f"[{group}]", *(f"{n} = {v}" for n, v in named.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in modules))
    return folder
