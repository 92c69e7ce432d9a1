"""Settings of search with options that win over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from posnmt.config.schema import Decode
from posnmt.config.yaml import faults
from posnmt.errors import raise_all


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
