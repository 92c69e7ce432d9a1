"""The version of posnmt, those of packages, and the format of all that posnmt writes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from posnmt.base.errors import UserError, quoted

__version__ = "0.1.0"

FORMAT = 1
"""The format of configurations, runs, stores, studies, published studies and exports; raised when a meaning changes."""


UNKNOWN = "unknown"


@cache  # the folders of packages are searched
def version_of(package: str) -> str:
    """The version of a package, by its metadata; `UNKNOWN` if it has none, as a package inside another may not."""
    from importlib.metadata import PackageNotFoundError, version  # late, since it is slow to import

    try:
        return version(package)
    except PackageNotFoundError:
        return UNKNOWN


def format_fault(number: object) -> str | None:
    """What is wrong with a format number that was read; None if this posnmt reads the format."""
    if isinstance(number, int) and number > FORMAT:
        return f"written by a newer posnmt, in format {number}; this one ({__version__}) reads format {FORMAT}"
    return None if number == FORMAT else f"this is no format: {quoted(number)}; the format is {FORMAT}"


def check_format(number: object, where: Path) -> None:
    """Refuse a file, or a folder, of another format.

    Raises:
        UserError: a newer posnmt wrote it, or the number is not that of a format.
    """
    if (fault := format_fault(number)) is not None:
        raise UserError(fault, where, "install a newer posnmt, or make it again with this one")
