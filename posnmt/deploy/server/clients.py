"""Who may translate, and how much: API keys and rate limits."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.data.corpus import Findings, TextFile, read_lines

VARIABLE = "POSNMT_API_KEYS"
"""The environment variable with keys, separated by commas."""

MOST_CLIENTS = 10_000
"""Clients whose rates are remembered; beyond them, those that asked longest ago are forgotten."""


class Keys:
    """API keys, by their digests, with the names of their owners; without any, everybody may translate."""

    def __init__(self, keys: dict[str, str]) -> None:
        self._names = {_digest(key): name for key, name in keys.items()}

    @classmethod
    def read(cls, path: Path | None) -> Keys:
        """The keys of a file, `KEY [NAME]` a line, `#` before comments; and those of the environment.

        Raises:
            UserError: a file that cannot be read, is not UTF-8, or has no key.
        """
        keys = {key.strip(): f"key {number}" for number, key in enumerate(os.environ.get(VARIABLE, "").split(","), 1)}
        keys.pop("", None)
        if path is not None:
            findings = Findings(accept=["crlf"], stop=True)
            lines = read_lines(TextFile("the file of API keys", path), findings, blank_is_fault=False)
            rows = [
                (number, line.split(maxsplit=1)) for number, line in enumerate(lines, 1) if line.split("#")[0].strip()
            ]
            if not rows:
                raise UserError("no API key in this file", path, "write `KEY NAME` in a line, or leave --keys out")
            keys |= {row[0]: row[1].strip() if len(row) > 1 else f"line {number}" for number, row in rows}
        return cls(keys)

    def __bool__(self) -> bool:
        return bool(self._names)

    def owner(self, key: str | None) -> str | None:
        """The name of a key's owner; None: no such key."""
        return self._names.get(_digest(key)) if key else None


def _digest(key: str) -> bytes:
    """Digests are compared, so that the time of a comparison does not depend on the keys."""
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


@dataclass
class _Bucket:
    level: float
    at: float


class Rate:
    """So many units a minute for each client, and as many at once after a minute's rest.

    Args:
        a_minute: None: no limit.
        clock: seconds.
    """

    def __init__(self, a_minute: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.a_minute, self.clock = a_minute, clock
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, client: str, units: int = 1) -> float:
        """Take units of a client and return 0; or take none, and return the seconds until there are enough.

        A client that asks for more than a minute's units at once waits for a full minute's, and then has them.
        """
        if self.a_minute is None:
            return 0.0
        now = self.clock()
        bucket = self._buckets.pop(client, _Bucket(self.a_minute, now))
        self._buckets[client] = bucket  # the last to be forgotten
        if len(self._buckets) > MOST_CLIENTS:
            del self._buckets[next(iter(self._buckets))]
        bucket.level = min(self.a_minute, bucket.level + (now - bucket.at) * self.a_minute / 60)
        bucket.at = now
        missing = min(units, self.a_minute) - bucket.level
        if missing > 1e-9:
            return math.ceil(missing * 60 / self.a_minute)
        bucket.level -= units
        return 0.0

    def give_back(self, client: str, units: int) -> None:
        """Return units that a client has taken and not used."""
        if client in self._buckets:
            self._buckets[client].level += units
