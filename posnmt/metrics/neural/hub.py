"""Whether the hub can be reached, before the packages of a metric are fetched, which are more than a gigabyte.

Whatever it answers, its own library finds the model later, or says why not.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from posnmt.metrics.neural.run import missing

SECONDS = 10
"""The longest wait for an answer."""


def refuse_unreachable(model: str) -> None:
    """Refuse a model of the hub that is not in its cache, if nothing answers at the hub's address.

    Args:
        model: its id on the hub.

    Raises:
        UserError: it cannot be had.
    """
    address = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    if (_cache() / f"models--{model.replace('/', '--')}").exists():
        return
    try:
        urlopen(Request(address, method="HEAD"), timeout=SECONDS).close()  # noqa: S310
    except HTTPError:
        return
    except (OSError, ValueError) as error:
        raise missing(model, f"{address} cannot be reached ({getattr(error, 'reason', error)})") from None


def _cache() -> Path:
    """The folder in which the hub's library keeps models."""
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    return Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
