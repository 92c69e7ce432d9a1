"""Packages that can be called: `posnmt.train` is a package, and `posnmt.train(config, out)` trains.

docs/decisions/0012-python-api.md gives the reasons.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

from posnmt.extras import requires


class CallablePackage(ModuleType):
    """A package `posnmt.NAME` whose call is that of the function NAME in `posnmt.api.NAME`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function; a UserError says what to install where packages are missing."""
        return self._function()(*arguments, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        """That of the function, for `inspect.signature` and for the help of notebooks."""
        return inspect.signature(self._function())

    def _function(self) -> Any:
        name = self.__name__.rpartition(".")[2]
        requires(name)
        return getattr(importlib.import_module(f"posnmt.api.{name}"), name)
