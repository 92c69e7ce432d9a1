"""What the methods of a scheme and of its views return for a few tokens: those that return something wrong are named.

Shapes are those of `seam`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from posnmt_position.seam import CrossSpan, LayerPosition, LayerPositions, Scheme, Span, Stack

ROWS, TOKENS = 2, 3

APART = ("reads", "keep", "allows", "refine")
"""Methods of a view that attention to the source does not call."""

Expected = tuple[str, Callable[[Any], bool]]
"""What a method must return, in words, and whether a value is that."""


@torch.no_grad()
def wrong_returns(scheme: Scheme, stack: Stack) -> Iterator[tuple[str, str | None]]:
    """A sentence for each method that returns something wrong, and `file:line` of the method.

    The methods are called with zeros. Random number generators are restored after the last fault.
    """
    device = next((each.device for each in scheme.parameters()), torch.empty(0).device)
    x = torch.zeros(ROWS, TOKENS, stack.d_model, device=device)
    span = CrossSpan(0, TOKENS, device, None, TOKENS + 1, ratio=1.5) if stack.cross else Span(0, TOKENS, device)
    q, k = (torch.zeros(ROWS, stack.heads, each, stack.d_head, device=device) for each in (TOKENS, span.end))
    calls = {
        "reads": (), "rotate": (q, q, span), "by_offset": (span,), "logits": (q, k, span), "allows": (span,),
        "values": (q.new_full((*q.shape[:3], span.end), 1 / span.end), span), "refine": (x, x, span),
    }  # fmt: skip
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield from _wrong(scheme, Scheme, "embed", (x, span, None), _expected(x, q, span)["embed"])
        views = [view for index in range(stack.layers) if (view := scheme.view_in(index)) is not None]
        for view in dict.fromkeys(views):
            if stack.cross:
                yield from _apart(view)
            wrong = list(_wrong(view, LayerPosition, "keep", (x, span), _expected(x, q, span)["keep"]))
            yield from wrong
            if wrong:
                continue  # the other methods may read it
            span.kept.update(LayerPositions([view]).keep(x, span))
            for method, arguments in calls.items():
                yield from _wrong(view, LayerPosition, method, arguments, _expected(x, q, span)[method])


def _apart(view: LayerPosition) -> Iterator[tuple[str, str | None]]:
    """The methods of a view that attention to the source would not call."""
    for method in APART:
        own = getattr(type(view), method)
        if own is not getattr(LayerPosition, method):
            yield f"{type(view).__name__}.{method} has no effect in attention to the source", _place(own)


def _wrong(
    owner: Any, base: type, method: str, arguments: tuple[Any, ...], expected: Expected
) -> Iterator[tuple[str, str | None]]:
    """What is wrong with a method's value, if the class of its owner overrides it."""
    own, (words, holds) = getattr(type(owner), method), expected
    if own is getattr(base, method):
        return
    value = getattr(owner, method)(*arguments)
    if not holds(value):
        yield f"{type(owner).__name__}.{method} returned {_shown(value)} in place of {words}", _place(own)


def _place(method: Any) -> str | None:
    code = getattr(method, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else None


def _expected(x: Tensor, q: Tensor, span: Span) -> dict[str, Expected]:
    """Method -> what it must return for embeddings `x` and queries and keys `q`."""
    heads, width, square = q.shape[1], len(span.diagonals), (*q.shape[:3], span.end)

    def is_table(value: Any) -> bool:
        return isinstance(value, Tensor) and value.shape[-1:] == (width,)

    def is_rotated(value: Any) -> bool:
        if not (isinstance(value, tuple) and len(value) == 2 and all(isinstance(each, Tensor) for each in value)):
            return False
        return all(each.shape[:-1] == q.shape[:-1] for each in value) and value[0].shape == value[1].shape

    return {
        "embed": (
            f"embeddings of shape {[*x.shape]} and a carry",
            lambda value: isinstance(value, tuple) and len(value) == 2 and _is(value[0], x.shape),
        ),
        "reads": (
            f"a mask of shape {[heads, x.shape[-1]]}, of bool",
            lambda value: value is None or (value.dtype == torch.bool and _is(value, (heads, x.shape[-1]))),
        ),
        "rotate": (f"queries and keys of shape {[*q.shape]}", is_rotated),
        "keep": (
            f"a tensor of shape {[x.shape[0], heads, x.shape[1], 'm']}",
            lambda value: (
                isinstance(value, Tensor)
                and value.dim() == 4
                and _broadcasts((*q.shape[:3], 0), value[..., :0])
                and (value.shape[0], value.shape[2]) == (q.shape[0], q.shape[2])
            ),
        ),
        "by_offset": (f"a table of shape [heads, {width}]", is_table),
        "logits": (f"terms that broadcast to {[*square]}", lambda value: value is None or _broadcasts(square, value)),
        "allows": (
            f"a table of shape [heads, {width}], of bool",
            lambda value: value is None or (is_table(value) and value.dtype == torch.bool),
        ),
        "values": (
            f"terms of shape {[*q.shape[:3]]} with the features of a head",
            lambda value: value is None or _broadcasts((*q.shape,), value),
        ),
        "refine": (f"a tensor of shape {[*x.shape]}", lambda value: _is(value, x.shape)),
    }


def _is(value: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(value, Tensor) and value.shape == shape


def _broadcasts(shape: tuple[int, ...], value: Any) -> bool:
    """Whether a value is a tensor that can be added to one of this shape without changing the shape."""
    if not isinstance(value, Tensor) or value.dim() > len(shape):
        return False
    return all(size in (1, full) for size, full in zip(reversed(value.shape), reversed(shape), strict=False))


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {[*value.shape]}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return "None" if value is None else f"a {type(value).__name__}"
