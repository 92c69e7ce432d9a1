"""Parts of posnmt that tables name as `module:object`, so that what nobody asks for is not imported."""

from __future__ import annotations

import importlib
from typing import Any


def named(path: str) -> Any:
    """The object that `module:object` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
