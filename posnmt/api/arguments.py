"""Arguments of the public functions, checked by their types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache, wraps
from pathlib import Path
from types import UnionType
from typing import Any, ParamSpec, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from pydantic import ValidationError
from pydantic_core import SchemaValidator

from posnmt.base.errors import UserError, combined, quoted
from posnmt.base.files import validator
from posnmt.config.numbers import exact

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

PLAIN = {bool, int, float, str, Path, type(None)}
"""Types of single values. Arguments of other types, such as lines and settings, are checked where they are read."""

UNIONS = (Union, UnionType)


def typed(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A function that checks its arguments of plain types by its annotations, and raises UserError for others.

    Python itself takes True for 1, and any text for true: `allow_plugins="no"` would allow them. The keys of
    `**options: Unpack[SomeTypedDict]` are arguments like others, None by default.
    """
    signature = _signature(function)

    @wraps(function)
    def checking(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        given = signature.bind(*arguments, **options)
        for name, kind in _plain(function).items():
            if name in given.arguments:
                given.arguments[name] = checked(given.arguments[name], kind, name)
        return function(*given.args, **given.kwargs)

    checking.__signature__ = signature  # type: ignore[attr-defined]
    named = {
        name: each.annotation for name, each in signature.parameters.items() if name not in function.__annotations__
    }
    checking.__annotations__ = {**function.__annotations__, **named}
    return checking


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, with the names of a TypedDict in place of `**options: Unpack[…]`."""
    signature = inspect.signature(function)
    parameters = []
    for each in signature.parameters.values():
        if unpacked := re.fullmatch(r"Unpack\[(\w+)\]", str(each.annotation)):
            parameters += [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
                for name, hint in get_type_hints(function.__globals__[unpacked[1]]).items()
            ]
        else:
            parameters.append(each)
    return signature.replace(parameters=parameters)


@cache
def _plain(function: Callable[..., Any]) -> dict[str, Any]:
    """The arguments of plain types, with what they are checked by: `str | Path` is a path."""
    hints = get_type_hints(function)
    hints.pop("return", None)
    for name, hint in [*hints.items()]:
        if get_origin(hint) is Unpack:
            hints |= get_type_hints(get_args(hints.pop(name))[0])
    parts = {name: {*get_args(hint)} if get_origin(hint) in UNIONS else {hint} for name, hint in hints.items()}
    return {
        name: (Path | None if type(None) in parts[name] else Path) if Path in parts[name] else hint
        for name, hint in hints.items()
        if parts[name] <= PLAIN
    }


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
        raise combined([_fault(problem, name, todo) for problem in error.errors()]) from None


@cache
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
