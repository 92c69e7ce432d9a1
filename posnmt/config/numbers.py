"""Strict numbers and booleans: pydantic would accept one for the other, and text for both."""

from __future__ import annotations

import math
import re
from numbers import Integral, Real
from typing import Any

from pydantic_core import PydanticKnownError, core_schema

_NO_SCHEMAS = {"default", "metadata", "serialization"}
"""Parts of a schema that hold values, not schemas."""

BEYOND = 2**31
"""Whole numbers of a setting without another upper limit are below this, on both sides of 0."""

FARTHEST = 1e12
"""Other numbers of a setting without another upper limit are at most this, above and below 0.

Products of a few of them are finite in float64, and each of them is in float32.
"""

_EXPONENT = re.compile("[-+]?[0-9]+[eE][-+]?[0-9]+")


def in_digits(text: str) -> str:
    """The text of a number, unchanged. Python's `int` and `float` would also read `1_0` and digits of other scripts.

    Raises:
        ValueError: it has such characters; a configuration would not accept it as a number either.
    """
    if "_" in text or not text.isascii():
        raise ValueError("a number is written in the digits 0 to 9, without underscores")
    return text


def within(number: float) -> float:
    """A number of a command line, unchanged, if it has no other limit.

    Raises:
        ValueError: it is not below `BEYOND`, or not at most `FARTHEST`.
    """
    if isinstance(number, int) and abs(number) >= BEYOND:
        raise ValueError(f"a whole number below {BEYOND:,} is needed")
    if math.isfinite(number) and abs(number) > FARTHEST:
        raise ValueError(f"a number of {FARTHEST:g} or less is needed")
    return number


def exact(schema: Any) -> None:
    """Change a schema of pydantic in place: booleans are not numbers, numbers are not booleans, and text is neither.

    A whole number is accepted as a float; 1.0 is not accepted as a whole number. NumPy's numbers are accepted, and so
    is a text such as 2e-3.
    """
    if isinstance(schema, list | tuple):
        for each in schema:
            exact(each)
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind in ("int", "float"):
        inner: Any = {**schema, "strict": True}
        limited = {"le", "lt"} & {*schema}
        readings = {"float": (_as_limited_number, as_number), "int": (_as_limited_int, _as_int)}
        reading = readings[kind][bool(limited)]
        schema.clear()
        schema.update(core_schema.no_info_before_validator_function(reading, inner))
        return
    if kind == "bool":
        schema["strict"] = True
    for key, part in schema.items():
        if key not in _NO_SCHEMAS:
            exact(part)


def _as_int(value: Any) -> Any:
    """A whole number of NumPy as one of Python; anything else unchanged."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def _as_limited_int(value: Any) -> Any:
    """Like `_as_int`, for settings without a limit of their own.

    Raises:
        PydanticKnownError: the number is too large.
    """
    number = _as_int(value)
    if isinstance(number, int) and number >= BEYOND:
        raise PydanticKnownError("less_than", {"lt": BEYOND})
    if isinstance(number, int) and number <= -BEYOND:
        raise PydanticKnownError("greater_than", {"gt": -BEYOND})
    return number


def _as_limited_number(value: Any) -> Any:
    """Like `as_number`, for settings without a limit of their own.

    Raises:
        PydanticKnownError: the number is too large, or too far below 0.
    """
    number: Any = as_number(value)
    is_number = isinstance(number, Real)
    if is_number and FARTHEST < number < math.inf:
        raise PydanticKnownError("less_than_equal", {"le": FARTHEST})
    if is_number and -math.inf < number < -FARTHEST:
        raise PydanticKnownError("greater_than_equal", {"ge": -FARTHEST})
    return number


def as_number(value: Any) -> Any:
    """A text such as 2e-3 as a number; anything else unchanged.

    Reading YAML keeps it as text, since the names of a study's steps depend on how its recipe writes it.
    """
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value
