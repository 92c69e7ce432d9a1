"""Options of a scheme: a frozen dataclass whose fields state default, meaning and limits, and whose values are checked.

    class Settings(Options):
        distance: int = option(16, "clipping distance, in tokens", ge=1)
        cell: Literal["gru", "lstm"] | None = option(None, "none: no recurrence")

A field has one of these types: bool, int, float, str, `Literal`, None, a union of them, or `tuple[X, ...]` of one.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, dataclass_transform, get_args, get_origin, get_type_hints

from posnmt_position.errors import PositionError, nearest, quoted

LARGEST = 100_000_000
"""The largest whole number: PyTorch cannot count the bytes of matrices far beyond it."""

FARTHEST = 1e12
"""The largest other number, above and below 0: products of a few are finite."""

_LIMITS = {
    "multiple_of": ("a multiple of", lambda value, limit: value % limit == 0),
    "le": ("less than or equal to", operator.le),
    "lt": ("less than", operator.lt),
    "ge": ("greater than or equal to", operator.ge),
    "gt": ("greater than", operator.gt),
}
"""Limit of a number -> its words, and whether a value keeps it."""

_WORDS = {bool: "a valid boolean", int: "a valid integer", float: "a valid number", str: "a valid string"}


def option(default: Any, help: str = "", *, min_length: int = 0, **limits: float) -> Any:
    """A field of `Options`.

    Args:
        default: its value if none is given.
        help: what it means; `posnmt systems --parts` and the documentation show it.
        min_length: of a tuple.
        limits: of a number, or of each number of a tuple: `ge`, `gt`, `le`, `lt`, `multiple_of`.
    """
    assert limits.keys() <= _LIMITS.keys(), f"no such limit: {limits}"
    return dataclasses.field(default=default, metadata={"help": help, "min_length": min_length, **limits})


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a scheme. A subclass needs no decorator.

    True is not a number, 1 is not a boolean, and a text is neither. A field of type float accepts a whole number, and
    one of type tuple a list. NumPy's numbers count as numbers.
    """

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        """Check the values, and convert them to the types of their fields.

        Raises:
            PositionError: values that do not fit their fields; all of them in one error.
        """
        if faults := self.faults(type(self).__qualname__, vars(self)):
            raise PositionError("\n".join(faults))
        for name, kind in get_type_hints(type(self)).items():
            object.__setattr__(self, name, _converted(getattr(self, name), kind))

    @classmethod
    def faults(cls, owner: str, given: Mapping[str, Any]) -> list[str]:
        """What is wrong with options before they are built: a sentence for each fault.

        Args:
            owner: what has the options, such as the name of a scheme.
            given: the options by name.
        """
        return list(cls._faults(owner, given))

    @classmethod
    def _faults(cls, owner: str, given: Mapping[str, Any]) -> Iterator[str]:
        kinds, fields = get_type_hints(cls), {field.name: field for field in dataclasses.fields(cls)}
        for name, value in given.items():
            if name in fields:
                yield from (
                    f"{owner}.{name}{place}: {rule}" for place, rule in _broken(value, kinds[name], fields[name])
                )
            else:
                near = nearest(name, fields)
                advice = f"did you mean {near!r}?" if near else f"its options: {', '.join(fields) or 'none'}"
                yield f"{owner} has no option {name!r}; {advice}"
        for name, field in fields.items():
            if field.default is dataclasses.MISSING and name not in given:
                yield f"{owner} needs the option {name!r}"


def _broken(value: Any, kind: Any, field: dataclasses.Field[Any]) -> Iterator[tuple[str, str]]:
    """The rules that a value breaks: (place inside the value, sentence)."""
    fitting = [each for each in _alternatives(kind) if _fits(value, each)]
    if not fitting:
        words = " or ".join(_words(each) for each in _alternatives(kind) if each is not NoneType)
        yield "", f"Input should be {words}, got {quoted(value)}"
    elif get_origin(fitting[0]) is tuple:
        if len(value) < field.metadata.get("min_length", 0):
            yield "", f"Input should have at least {field.metadata['min_length']} item, got {quoted(value)}"
        for place, each in enumerate(value):
            yield from ((f".{place}{inner}", rule) for inner, rule in _broken(each, get_args(fitting[0])[0], field))
    elif fitting[0] in (int, float) and (rule := _beyond(value, fitting[0], field.metadata)):
        yield "", rule


def _beyond(value: Any, kind: type, limits: Mapping[str, Any]) -> str | None:
    """The first limit that a number breaks."""
    if kind is float and not _is_finite(value):
        return f"Input should be a finite number, got {quoted(value)}"
    for name, (words, holds) in _LIMITS.items():
        if name in limits and not holds(value, limits[name]):
            return f"Input should be {words} {limits[name]:,}, got {quoted(value)}"
    if kind is int:
        return f"{quoted(value)} is more than {LARGEST:,}" if value > LARGEST else None
    return (
        None if abs(value) <= FARTHEST else f"Input should be from {-FARTHEST:g} to {FARTHEST:g}, got {quoted(value)}"
    )


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can be
        return False


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value has a type, which is not a union. Limits are not checked."""
    if get_origin(kind) is Literal:
        return any(type(value) is type(each) and value == each for each in get_args(kind))
    if get_origin(kind) is tuple:
        return isinstance(value, list | tuple)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return isinstance(value, kind)


def _converted(value: Any, kind: Any) -> Any:
    """A value that fits, in the type of its field."""
    kind = next(each for each in _alternatives(kind) if _fits(value, each))
    if get_origin(kind) is tuple:
        return tuple(_converted(each, get_args(kind)[0]) for each in value)
    return kind(value) if kind in (int, float) else value


def _words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        *others, last = map(repr, get_args(kind))
        return f"{', '.join(others)} or {last}" if others else last
    return "a valid list" if get_origin(kind) is tuple else _WORDS.get(kind, f"a {getattr(kind, '__name__', kind)}")
