"""OpenNMT-py's modules without the rest of OpenNMT-py, whose start-up imports a word processor's worth of packages."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

PACKAGES = ("onmt.modules", "onmt.encoders", "onmt.decoders", "onmt.models", "onmt.utils")

PLACES = {
    "context_gate_factory": "gate",
    "GlobalAttention": "global_attention",
    "MultiHeadedAttention": "multi_headed_attn",
    "AverageAttention": "average_attn",
}
"""What modules take from the package `onmt.modules` itself -> the module that has it."""


def opennmt(module: str) -> types.ModuleType:
    """`onmt.<module>`, without the packages' own start-up; skips the test where it is missing."""
    if "onmt" not in sys.modules:
        found = importlib.util.find_spec("onmt")
        if found is None or found.origin is None:
            pytest.skip("OpenNMT-py is not installed: make test-peers")
        folder = Path(found.origin).parent
        for name in ("onmt", *PACKAGES):
            package = types.ModuleType(name)
            package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
            sys.modules[name] = package
        sys.modules["onmt.modules"].__getattr__ = _part  # type: ignore[method-assign]
    return importlib.import_module(f"onmt.{module}")


def _part(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"onmt.modules.{PLACES[name]}"), name)
