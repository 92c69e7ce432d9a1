"""The options of positions of commands that translate: changes of positions for long texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from posnmt.cli.group import NumberRange

_POSITIONS = click.option(
    "--positions",
    multiple=True,
    metavar="CHANGE=VALUE",
    help="a change of positions for texts longer than those of training (docs/long.md): interpolate=2, ntk=2, yarn=2,"
    " clip=16, group=4, temperature=log; repeated, or several with commas",
)
_INTERPOLATE = click.option(
    "--interpolate",
    type=NumberRange(min=0, min_open=True),
    metavar="FACTOR",
    help="the same as --positions interpolate=FACTOR",
)


def positions_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--positions` and the older `--interpolate`."""
    return _POSITIONS(_INTERPOLATE(command))


def chosen_positions(texts: Sequence[str], interpolate: float | None = None) -> dict[str, Any] | None:
    """The setting `decode.positions`; None: none was given.

    Args:
        texts: values of the option.
        interpolate: value of the older option `--interpolate`.

    Raises:
        UserError: no `CHANGE=VALUE`, an unknown change, or a value that it does not take.
    """
    if not texts and interpolate is None:
        return None
    from pydantic import ValidationError

    from posnmt.base.errors import UserError, combined, quoted, refuse_unknown
    from posnmt.config.numbers import in_digits
    from posnmt.config.schema import Decode, Positions
    from posnmt.config.yaml import faults

    chosen: dict[str, Any] = {} if interpolate is None else {"interpolate": interpolate}
    for text in ",".join(texts).split(",") if texts else []:
        name, given, value = (part.strip() for part in text.partition("="))
        if not given:
            raise UserError(f"a change of positions is CHANGE=VALUE; got {text!r}", "--positions", "such as clip=16")
        refuse_unknown(name, Positions.model_fields, "change of positions")
        if name in chosen:
            raise UserError(f"{name} is given twice", "--positions", "leave one of them out")
        try:
            chosen[name] = in_digits(value)
        except ValueError as error:
            raise UserError(f"{name}: {error}; got {quoted(value)}", "--positions") from None
    try:
        # as text of the command line, which a configuration would not accept as a number
        return Decode.model_validate({"positions": chosen}, strict=False).positions.model_dump()
    except ValidationError as error:
        raise combined(faults(error, Decode, None, {})) from None
