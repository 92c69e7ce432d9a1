"""OpenNMT-py's modules without the rest of OpenNMT-py, whose start-up imports a word processor's worth of packages."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path

import pytest


def opennmt(module: str) -> types.ModuleType:
    """`onmt.modules.<module>`, without the packages' own start-up; skips the test where it is missing."""
    if "onmt" not in sys.modules:
        found = importlib.util.find_spec("onmt")
        if found is None or found.origin is None:
            pytest.skip("OpenNMT-py is not installed: make test-peers")
        folder = Path(found.origin).parent
        for name, place in (("onmt", folder), ("onmt.modules", folder / "modules")):
            package = types.ModuleType(name)
            package.__path__ = [str(place)]
            sys.modules[name] = package
    return importlib.import_module(f"onmt.modules.{module}")
