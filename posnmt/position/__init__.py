"""Position schemes, the order information of a stack: `seam` is the interface, `registry` the list of schemes.

The names in `__all__` are for models and schemes outside posnmt (docs/api.md); they are imported when first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posnmt.position.options import Options, option
    from posnmt.position.registry import SCHEMES
    from posnmt.position.seam import LayeredScheme, LayerPosition, LayerPositions, Scheme, Span, Stack, join

_MODULES = {
    "SCHEMES": "position.registry",
    "create": "model.positions",
    "LayerPosition": "position.seam",
    "LayerPositions": "position.seam",
    "LayeredScheme": "position.seam",
    "Options": "position.options",
    "Scheme": "position.seam",
    "Span": "position.seam",
    "Stack": "position.seam",
    "join": "position.seam",
    "option": "position.options",
}
"""Name -> module of posnmt that defines it."""

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
    if name not in _MODULES:
        raise AttributeError(f"module 'posnmt.position' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"posnmt.{_MODULES[name]}"), name)
    return value
