"""Settings of search with options that win over them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from posnmt.config.schema import Decode
from posnmt.config.yaml import faults
from posnmt.errors import UserError, raise_all


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
    """Name settings of search that options gave as these: `--mbr` in place of `decode.mbr`.

    Args:
        options: settings of `decode` that the user gave on the command line.
    """
    try:
        yield
    except UserError as fault:
        section, _, name = (fault.where or "").partition(".")
        if section != "decode" or name not in options:
            raise
        raise UserError(fault.what, f"--{name.replace('_', '-')}", fault.todo) from None
