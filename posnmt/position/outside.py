"""Schemes from outside posnmt: what their methods return is checked, so that a wrong shape is reported where it arises.

The methods of a scheme, and of its views, that return tensors are checked in a subclass of each class, so that
posnmt's own schemes are computed as ever. Shapes are those of `posnmt.position.seam`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from posnmt.base import plugins
from posnmt.position.seam import LayerPosition, Scheme, Span

Wanted = tuple[Callable[[], str], Callable[[Any], bool]]
"""What a method must return, in words, and whether a value is that."""


def check_outputs(scheme: Scheme, name: str) -> None:
    """Have what a scheme and its views return checked from now on.

    Args:
        name: of the scheme in configurations.
    """
    kind: Any = type(scheme)
    scheme.__class__ = _checked(kind, name)


def _like(x: Tensor, what: str) -> Wanted:
    return lambda: f"{what} of shape {[*x.shape]}", lambda value: isinstance(value, Tensor) and value.shape == x.shape


def _broadcasts(shape: tuple[int, ...], value: Any) -> bool:
    """Whether a tensor can be added to another one without changing its shape."""
    if not isinstance(value, Tensor) or value.dim() > len(shape):
        return False
    return all(size in (1, full) for size, full in zip(reversed(value.shape), reversed(shape), strict=False))


def _embed(x: Tensor, span: Span, carry: Any) -> Wanted:
    what, holds = _like(x, "embeddings")
    return (
        lambda: f"{what()} and a carry",
        lambda value: isinstance(value, tuple) and len(value) == 2 and holds(value[0]),
    )


def _rotate(q: Tensor, k: Tensor, span: Span) -> Wanted:
    def holds(value: Any) -> bool:
        if not (isinstance(value, tuple) and len(value) == 2 and all(isinstance(each, Tensor) for each in value)):
            return False
        same = value[0].shape[:-1] == q.shape[:-1] and value[1].shape[:-1] == k.shape[:-1]
        return same and value[0].shape[-1:] == value[1].shape[-1:]

    return lambda: f"queries and keys of shapes {[*q.shape]} and {[*k.shape]}", holds


def _logits(q: Tensor, k: Tensor, span: Span) -> Wanted:
    shape = (*q.shape[:-1], k.shape[-2])
    return lambda: f"terms that broadcast to {[*shape]}", lambda value: value is None or _broadcasts(shape, value)


def _by_offset(span: Span) -> Wanted:
    width = span.length + span.end - 1
    return (
        lambda: f"a table of shape [heads, {width}]",
        lambda value: isinstance(value, Tensor) and value.shape[-1:] == (width,),
    )


def _allows(span: Span) -> Wanted:
    what, holds = _by_offset(span)
    return lambda: f"{what()}, of bool", lambda value: value is None or (holds(value) and value.dtype == torch.bool)


def _values(weights: Tensor, span: Span) -> Wanted:
    rows = weights.shape[:-1]

    def holds(value: Any) -> bool:
        return value is None or (isinstance(value, Tensor) and _broadcasts((*rows, *value.shape[-1:]), value))

    return lambda: f"terms of shape {[*rows]} with the features of a head", holds


def _refine(before: Tensor, after: Tensor, span: Span) -> Wanted:
    return _like(after, "a tensor")


_OF_SCHEME: dict[str, Callable[..., Wanted]] = {"embed": _embed}
_OF_VIEW: dict[str, Callable[..., Wanted]] = {
    "rotate": _rotate, "logits": _logits, "by_offset": _by_offset, "values": _values, "allows": _allows,
    "refine": _refine,
}  # fmt: skip


@cache
def _checked(kind: type, name: str) -> type:
    """The subclass of a scheme's or a view's class that checks what the methods return that it overrides."""
    is_scheme = issubclass(kind, Scheme)
    base, wanted = (Scheme, _OF_SCHEME) if is_scheme else (LayerPosition, _OF_VIEW)
    methods: dict[str, Any] = {
        method: _with_check(kind, name, method, of)
        for method, of in wanted.items()
        if getattr(kind, method) is not getattr(base, method)
    }
    if is_scheme:

        def layer(self: Scheme, index: int) -> LayerPosition | None:
            view: LayerPosition | None = kind.layer(self, index)  # type: ignore[attr-defined]
            of_view: Any = type(view)
            if view is not None and of_view.__module__.partition(".")[0] != "posnmt" and not hasattr(view, _MARK):
                view.__class__ = _checked(of_view, name)
            return view

        methods["layer"] = layer
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), {**methods, **names, _MARK: True})


_MARK = "_outputs_are_checked"


def _with_check(kind: type, name: str, method: str, wanted: Callable[..., Wanted]) -> Callable[..., Any]:
    """A method that calls that of a class, and checks what it returns."""
    own = getattr(kind, method)

    def checked(self: Any, *arguments: Any) -> Any:
        value = own(self, *arguments)
        what, holds = wanted(*arguments)
        if not holds(value):
            code = getattr(own, "__code__", None)
            place = f"{code.co_filename}:{code.co_firstlineno}" if code else None
            raise plugins.wrong_output(
                name, f"{kind.__name__}.{method} returned {_shown(value)} in place of {what()}", place
            )
        return value

    return checked


def _shown(value: Any) -> str:
    """A returned value in words."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {[*value.shape]}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return "None" if value is None else f"a {type(value).__name__}"
