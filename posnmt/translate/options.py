"""Settings of search: options that override them, and the check that an engine serves them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from posnmt.base.errors import UserError, UserErrors, combined
from posnmt.config.marks import offered
from posnmt.config.schema import Decode
from posnmt.config.yaml import faults

ASKED = ("nbest", "format", "resume", "prefix", "terms", "alignments", "join", "documents")
"""What can be asked for beside the settings of search, as options of `posnmt translate`."""

EVERYTHING = frozenset([*Decode.model_fields, *ASKED])

SPEED_ALONE = {name for name, _, _ in offered(Decode, lambda on: on.speed)}
"""Settings of search that change scores by rounding alone, and may change where a translation is resumed."""


def with_options(decode: Decode, options: Mapping[str, Any]) -> Decode:
    """Settings of search with those options that are not None.

    Raises:
        UserError: an option out of its range; all at once.
    """
    chosen = {key: value for key, value in options.items() if value is not None}
    try:
        return Decode.model_validate({**decode.model_dump(), **chosen})
    except ValidationError as error:
        raise combined(faults(error, Decode, None, {})) from None


def unserved(serves: Collection[str], decode: Decode | None, asked: Collection[str] = ()) -> list[str]:
    """The names of what is not served: settings off their defaults, except those of speed, and what is asked for."""
    settings = [] if decode is None else [*offered(Decode, lambda on: not on.speed)]
    others = [name for name, field, _ in settings if name not in serves and getattr(decode, name) != field.default]
    return [*(f"decode.{name}" for name in others), *(name for name in asked if name not in serves)]


def refuse_unserved(
    who: str, serves: Collection[str], decode: Decode | None, asked: Collection[str] = (), todo: str = "leave it out"
) -> None:
    """Check that an engine, or a way to translate, serves what a translation needs.

    Args:
        who: the engine or the way, for people.
        serves: names of settings of search, and of `ASKED`.
        decode: the settings; None: they are not looked at.
        asked: what is asked for beside them, of `ASKED`, or settings that were given as options.
        todo: what to do instead.

    Raises:
        UserError: it does not, and would ignore it.
    """
    if names := unserved(serves, decode, asked):
        raise UserError(f"not available with {who}", ", ".join(names), todo)


@contextmanager
def named_as_options(options: Collection[str]) -> Iterator[None]:
    """Name settings of search as options of `translate`: `--mbr` in place of `decode.mbr`.

    A fault is named after the option if the option gave the setting. The advice always names the option, since it
    overrides the configuration.

    Args:
        options: settings of `decode` that the user gave on the command line.
    """
    try:
        yield
    except UserErrors:
        raise
    except UserError as fault:
        where = ", ".join(_named(each, options) for each in fault.where.split(", ")) if fault.where else None
        todo = re.sub(r"\bdecode\.(\w+)", lambda setting: _option(setting[1]), fault.todo or "") or None
        raise UserError(fault.what, where, todo) from None


def _named(where: str, options: Collection[str]) -> str:
    """The place of a fault: the option, if an option is at fault."""
    section, _, name = where.rpartition(".")
    is_option = (section == "decode" and name in options) or (not section and name in ASKED)
    return _option(name) if is_option else where


def _option(setting: str) -> str:
    flags = {name: on.flag for name, _, on in offered(Decode, lambda on: on.flag != "")}
    return flags.get(setting, f"--{setting.replace('_', '-')}")
