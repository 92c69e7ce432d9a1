"""Settings of search with options that win over them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from posnmt.base.errors import UserError, UserErrors, raise_all
from posnmt.config.schema import Decode
from posnmt.config.yaml import faults


def with_options(decode: Decode, options: Mapping[str, Any]) -> Decode:
    """Settings of search with those options that are not None.

    Raises:
        UserError: an option out of its range; all at once.
    """
    chosen = {key: value for key, value in options.items() if value is not None}
    try:
        return Decode.model_validate({**decode.model_dump(), **chosen})
    except ValidationError as error:
        raise_all(faults(error, Decode, None, {}))
        raise AssertionError from error  # raise_all raised


@contextmanager
def named_as_options(options: Collection[str]) -> Iterator[None]:
    """Name settings of search as options of `translate`: `--mbr` in place of `decode.mbr`.

    A fault is named after the option if that gave the setting. What to do about it always names the option, which wins
    over the configuration.

    Args:
        options: settings of `decode` that the user gave on the command line.
    """
    try:
        yield
    except UserErrors:
        raise
    except UserError as fault:
        section, _, name = (fault.where or "").partition(".")
        where = _option(name) if section == "decode" and name in options else fault.where
        todo = re.sub(r"\bdecode\.(\w+)", lambda setting: _option(setting[1]), fault.todo or "") or None
        raise UserError(fault.what, where, todo) from None


def _option(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"
