"""posnmt: Transformer translators whose source of word order you choose.

    model = posnmt.load("runs/mine")
    model.translate(["A sentence.", "Another one."])

The names in `__all__` are the public Python API (docs/api.md); they are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from posnmt.base.version import __version__

if TYPE_CHECKING:
    from posnmt import position, testing
    from posnmt.api.analyse import Analysis, analyse
    from posnmt.api.load import TrainedModel, load
    from posnmt.api.options import LoadOptions, SearchOptions
    from posnmt.api.train import train
    from posnmt.api.values import Encoding, Hypothesis, TranslationWarning
    from posnmt.base.errors import UserError
    from posnmt.base.interrupt import Interrupted
    from posnmt.evaluation.report.printed import Figure
    from posnmt.run.run import Run
    from posnmt.translate.values import AttentionMap, Attentions, DistanceBias, Positions

_MODULES = {
    "load": "api.load",
    "TrainedModel": "api.load",
    "Hypothesis": "api.values",
    "Encoding": "api.values",
    "TranslationWarning": "api.values",
    "SearchOptions": "api.options",
    "LoadOptions": "api.options",
    "Attentions": "translate.values",
    "AttentionMap": "translate.values",
    "DistanceBias": "translate.values",
    "Positions": "translate.values",
    "Analysis": "api.analyse",
    "Figure": "evaluation.report.printed",
    "train": "api.train",
    "analyse": "api.analyse",
    "Run": "run.run",
    "UserError": "base.errors",
    "Interrupted": "base.interrupt",
}
"""Name -> module of posnmt that defines it."""

_PUBLIC = ("position", "testing")
"""Public modules."""

_EXTRAS = {"train": "train", "analyse": "analyse", "Analysis": "analyse", "Figure": "analyse"}
"""Name -> the extra that its module needs."""

__all__ = [
    "Analysis",
    "AttentionMap",
    "Attentions",
    "DistanceBias",
    "Encoding",
    "Figure",
    "Hypothesis",
    "Interrupted",
    "LoadOptions",
    "Positions",
    "Run",
    "SearchOptions",
    "TrainedModel",
    "TranslationWarning",
    "UserError",
    "__version__",
    "analyse",
    "load",
    "position",
    "testing",
    "train",
]


def __getattr__(name: str) -> Any:
    """A public name that is not imported yet (PEP 562).

    Raises:
        posnmt.UserError: it needs packages that are not installed.
    """
    if name in _PUBLIC:
        return importlib.import_module(f"posnmt.{name}")
    if name in _MODULES:
        if name in _EXTRAS:
            from posnmt.base.extras import requires

            requires(_EXTRAS[name])
        value = globals()[name] = getattr(importlib.import_module(f"posnmt.{_MODULES[name]}"), name)
        return value
    raise AttributeError(f"module 'posnmt' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, and what is imported already."""
    return sorted({*globals(), *__all__})
