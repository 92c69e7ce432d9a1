"""Arguments of the public functions, checked by their types."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from pydantic import ValidationError
from pydantic_core import SchemaValidator

from posnmt.config.numbers import exact
from posnmt.errors import UserError, quoted, raise_all
from posnmt.files import validator


def checked(value: Any, kind: Any, name: str = "", todo: str | None = None) -> Any:
    """An argument as a value of a type: NumPy's 5 is an integer, True and "5" are none, and a string is a path.

    Args:
        kind: any type that pydantic knows; a dataclass is made from a dictionary.
        name: of the argument, for messages; empty: the fields of a dataclass are arguments themselves.
        todo: what to do where it is of another type.

    Raises:
        UserError: it is of another type, or some of its elements are; all at once.
    """
    try:
        return _exact(kind).validate_python(value)
    except ValidationError as error:
        raise_all([_fault(problem, name, todo) for problem in error.errors()])
        raise AssertionError from error  # raise_all raised: a ValidationError holds at least one problem


def _exact(kind: Any) -> SchemaValidator:
    """What checks that values are of a type, with numbers as in a configuration."""
    schema = deepcopy(validator(kind).core_schema)
    exact(schema)
    return SchemaValidator(schema)


def _fault(problem: Any, name: str, todo: str | None) -> UserError:
    """A problem of a pydantic error, with the argument and the keys of the element in it."""
    keys = [key for key in problem["loc"] if key != "[key]"]  # pydantic's mark of a fault of the key itself
    argument, *keys = [name, *keys] if name else keys
    message = problem["msg"]
    place = f"{argument}{''.join(f'[{key!r}]' for key in keys)}"
    return UserError(f"{message[0].lower()}{message[1:]}; got {quoted(problem['input'])}", place, todo)
