"""Strict numbers and booleans: pydantic would accept one for the other, and text for both."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Any

from pydantic_core import PydanticKnownError, core_schema

_NO_SCHEMAS = {"default", "metadata", "serialization"}
"""Parts of a schema that hold values, not schemas."""

BEYOND = 2**63
"""Whole numbers of a setting without another limit are below this."""

_EXPONENT = re.compile("[-+]?[0-9]+[eE][-+]?[0-9]+")


def in_digits(text: str) -> str:
    """The text of a number, unchanged. Python's `int` and `float` would also read `1_0` and digits of other scripts.

    Raises:
        ValueError: it has such characters; a configuration would not accept it as a number either.
    """
    if "_" in text or not text.isascii():
        raise ValueError("a number is written in the digits 0 to 9, without underscores")
    return text


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
        reading = as_number if kind == "float" else _as_int if limited else _as_limited_int
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
    return number


def as_number(value: Any) -> Any:
    """A text such as 2e-3 as a number; anything else unchanged.

    Reading YAML keeps it as text, since the names of a study's steps depend on how its recipe writes it.
    """
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value
