"""Checks of the types of arguments of public functions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cache, wraps
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from pydantic import ValidationError
from pydantic_core import SchemaValidator

from posnmt.base.errors import UserError, combined, quoted
from posnmt.base.files import validator
from posnmt.config.numbers import exact
from posnmt.config.yaml import rule
from posnmt.data.lines import checked_lines

if TYPE_CHECKING:
    import torch

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

PLAIN = {bool, int, float, str, Path, type(None)}
"""Types that `typed` checks. Arguments of other types, such as lines and settings, are checked where they are read."""

UNIONS = (Union, UnionType)


def typed(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a function check arguments of plain types by their annotations, and raise UserError for other types.

    Without it Python takes True for 1, and any non-empty text for true: `allow_plugins="no"` would allow plug-ins. The
    keys of `**options: Unpack[SomeTypedDict]` are arguments like others, with the default None.
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
    """The arguments of plain types -> the type that they are checked against. `str | Path` is checked as a path."""
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
    """Convert an argument to a type. NumPy's 5 is an integer, True and "5" are not, and a string can be a path.

    Args:
        value: the argument.
        kind: any type that pydantic knows; a dataclass is made from a dictionary.
        name: the argument's name, for messages; empty: the fields of a dataclass are arguments themselves.
        todo: advice for the error, if the argument has another type.

    Raises:
        UserError: the argument or some of its elements have another type. All faults are reported at once.
    """
    try:
        return _exact(kind).validate_python(value)
    except ValidationError as error:
        raise combined([_fault(problem, name, todo) for problem in error.errors()]) from None


@cache
def _exact(kind: Any) -> SchemaValidator:
    """A validator of a type that accepts the same numbers as a configuration."""
    schema = deepcopy(validator(kind).core_schema)
    exact(schema)
    return SchemaValidator(schema)


def _fault(problem: Any, name: str, todo: str | None) -> UserError:
    """A problem of a pydantic error as a user error, which names the argument and the element, as in `scores['a']`."""
    keys = [key for key in problem["loc"] if key != "[key]"]  # pydantic's mark for a faulty key
    argument, *keys = [name, *keys] if name else keys
    place = f"{argument}{''.join(f'[{key!r}]' for key in keys)}"
    return UserError(f"{rule(problem)}; got {quoted(problem['input'])}", place, todo)


def beside(values: Iterable[str | None] | None, name: str, lines: Sequence[str], optional: bool = False) -> list[str]:
    """An argument that has one text for each of some lines; empty where it is not given.

    Args:
        name, optional: as in `checked_lines`.

    Raises:
        UserError: it has another number of texts.
    """
    if values is None:
        return []
    texts = checked_lines(values, name, optional)
    if len(texts) != len(lines):
        raise UserError(f"{len(lines):,} lines have {len(texts):,} {name}", name, "give one for each line")
    return texts


def plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with each mapping as a dictionary; values of other types are checked with the settings."""
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in options.items()}


def positive(number: int, name: str) -> int:
    """A number that is at least 1; `name` is that of the argument.

    Raises:
        UserError: it is less.
    """
    if number < 1:
        raise UserError(f"a whole number of 1 or more is needed; got {number}", name)
    return number


def torch_device(name: str | None) -> torch.device | None:
    """A device of PyTorch by its name.

    Raises:
        UserError: PyTorch has no such device here, or it is Apple's MPS.
    """
    import torch

    if name is None:
        return None
    todo = "leave it out, or name cpu"
    try:
        if torch.device(name).type == "mps":
            raise UserError("MPS has no float64, in which positions are computed", "device", todo)
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        what = str(error).partition("\n")[0]
        raise UserError(f"PyTorch has no device {name!r} here: {what}", "device", todo) from None
