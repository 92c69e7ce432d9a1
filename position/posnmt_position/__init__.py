"""Position schemes for Transformers: where word order comes from. README.md has an entry for each.

`seam` is the interface of a scheme, `registry` the list of schemes. The names in `__all__` are the public ones.
"""

from posnmt_position.errors import PositionError
from posnmt_position.options import Options, option
from posnmt_position.registry import SCHEMES, check, create
from posnmt_position.seam import CrossSpan, LayeredScheme, LayerPosition, LayerPositions, Scheme, Span, Stack, join

__version__ = "0.1.0"

__all__ = [
    "SCHEMES",
    "CrossSpan",
    "LayerPosition",
    "LayerPositions",
    "LayeredScheme",
    "Options",
    "PositionError",
    "Scheme",
    "Span",
    "Stack",
    "__version__",
    "check",
    "create",
    "join",
    "option",
]
