"""The options `--positions` and `--interpolate`, which change positions for texts longer than those of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from posnmt.cli.group import NumberRange
from posnmt.cli.help import option

_POSITIONS = option(
    "--positions",
    multiple=True,
    metavar="CHANGE=VALUE",
    help="a change of positions for texts longer than those of training (docs/long.md): interpolate=2, ntk=2, yarn=2,"
    " clip=16, group=4, temperature=log; repeated, or several with commas; default: the run's config",
    heading="Model",
    common=False,
)
_INTERPOLATE = option(
    "--interpolate",
    type=NumberRange(min=0, min_open=True),
    metavar="FACTOR",
    help="the same as --positions interpolate=FACTOR; default: the run's config",
    heading="Model",
    common=False,
)


def positions_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--positions` and `--interpolate` to a command."""
    return _POSITIONS(_INTERPOLATE(command))


def chosen_positions(texts: Sequence[str], interpolate: float | None = None) -> dict[str, Any] | None:
    """The setting `decode.positions` from the options; None if neither is used.

    Args:
        texts: values of `--positions`.
        interpolate: value of `--interpolate`.

    Raises:
        UserError: a text is not `CHANGE=VALUE`, the change is unknown, or it does not take the value.
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
        # values are texts here, which are accepted as numbers only if not strict
        return Decode.model_validate({"positions": chosen}, strict=False).positions.model_dump()
    except ValidationError as error:
        raise combined(faults(error, Decode, None, {})) from None
