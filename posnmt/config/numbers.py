"""Numbers are numbers and booleans are booleans: pydantic would take one for the other, and text for both."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Any

from pydantic_core import PydanticKnownError, core_schema

_NO_SCHEMAS = {"default", "metadata", "serialization"}
"""Parts of a schema that hold the values of users and of pydantic."""

BEYOND = 2**63
"""Whole numbers are below this, where a setting has no other limit."""

_EXPONENT = re.compile("[-+]?[0-9]+[eE][-+]?[0-9]+")


def in_digits(text: str) -> str:
    """The text of a number as it is, for Python's `int` and `float`, which also read `1_0` and digits of other scripts.

    Raises:
        ValueError: it is written with such signs, so that a configuration would not accept it as a number.
    """
    if "_" in text or not text.isascii():
        raise ValueError("a number is written in the digits 0 to 9, without underscores")
    return text


def exact(schema: Any) -> None:
    """Change a schema of pydantic's, in place, so that it accepts no boolean as a number, no number as a boolean, and
    no text as either.

    A whole number is accepted where any number is; 1.0 is not accepted as a whole number. NumPy's numbers are numbers,
    and so is a text such as 2e-3.
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
    """NumPy's whole numbers as Python's, and everything else as it is."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def _as_limited_int(value: Any) -> Any:
    """As `_as_int`, for whole numbers without a limit of their own.

    Raises:
        PydanticKnownError: the number is too large.
    """
    number = _as_int(value)
    if isinstance(number, int) and number >= BEYOND:
        raise PydanticKnownError("less_than", {"lt": BEYOND})
    return number


def as_number(value: Any) -> Any:
    """Text such as 2e-3 as the number, and everything else as it is.

    YAML keeps it as text, as it always did in posnmt: the names of a study's steps depend on how a recipe writes it.
    """
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value
