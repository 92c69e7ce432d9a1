"""Position schemes, the order information of a stack: `seam` is the interface, `registry` the list of schemes.

The names in `__all__` are for models and schemes outside posnmt (docs/api.md); they are imported when first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posnmt.position.registry import SCHEMES, create
    from posnmt.position.seam import LayerPosition, LayerPositions, Options, Scheme, Span, Stack, join

_MODULES = {
    "SCHEMES": "registry",
    "create": "registry",
    "LayerPosition": "seam",
    "LayerPositions": "seam",
    "Options": "seam",
    "Scheme": "seam",
    "Span": "seam",
    "Stack": "seam",
    "join": "seam",
}
"""Name -> module of this package that defines it."""

__all__ = ["SCHEMES", "LayerPosition", "LayerPositions", "Options", "Scheme", "Span", "Stack", "create", "join"]


def __getattr__(name: str) -> Any:
    """A public name that is not imported yet (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module 'posnmt.position' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"posnmt.position.{_MODULES[name]}"), name)
    return value
