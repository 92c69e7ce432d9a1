"""Position schemes for models and schemes outside posnmt (docs/api.md): `posnmt_position`, with plug-ins.

The names in `__all__` are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posnmt.model.positions import create
    from posnmt_position import (
        SCHEMES,
        LayeredScheme,
        LayerPosition,
        LayerPositions,
        Options,
        Scheme,
        Span,
        Stack,
        join,
        option,
    )

__all__ = [
    "SCHEMES",
    "LayerPosition",
    "LayerPositions",
    "LayeredScheme",
    "Options",
    "Scheme",
    "Span",
    "Stack",
    "create",
    "join",
    "option",
]


def __getattr__(name: str) -> Any:
    """A public name that is not imported yet (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'posnmt.position' has no attribute {name!r}")
    package = "posnmt.model.positions" if name == "create" else "posnmt_position"
    value = globals()[name] = getattr(importlib.import_module(package), name)
    return value
