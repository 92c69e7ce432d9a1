"""API keys and rate limits of clients."""

from __future__ import annotations

import hmac
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
"""An environment variable with keys, separated by commas."""

MOST_CLIENTS = 10_000
"""Most clients whose rates are remembered. Those with the oldest requests are forgotten first."""


class Keys:
    """Digests of API keys, with the names of their owners. Without keys, everybody may translate."""

    def __init__(self, keys: dict[str, str]) -> None:
        self._names = [(digest(key), name) for key, name in keys.items()]

    @classmethod
    def read(cls, path: Path | None) -> Keys:
        """Read the keys in a file and in the environment. A line of the file is `KEY [NAME]` or a comment with `#`.

        Raises:
            UserError: the file cannot be read, is not UTF-8, or has no key.
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
                raise UserError("the file has no API key", path, "write a line `KEY NAME`, or leave --keys out")
            keys |= {row[0]: row[1].strip() if len(row) > 1 else f"line {number}" for number, row in rows}
        return cls(keys)

    def __bool__(self) -> bool:
        return bool(self._names)

    def owner(self, key: str | None) -> str | None:
        """The name of a key's owner; None if the key is unknown."""
        if not key:
            return None
        given = digest(key)
        return next(iter([name for own, name in self._names if hmac.compare_digest(own, given)]), None)


def digest(key: str) -> bytes:
    """Digests are compared in place of keys, all of them and in constant time: it says nothing about the keys."""
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


@dataclass
class _Bucket:
    level: float
    at: float


class Rate:
    """A limit of units per minute for each client (a token bucket that holds the units of one minute).

    Args:
        per_minute: the limit; None: no limit.
        clock: returns the time in seconds.
    """

    def __init__(self, per_minute: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute, self.clock = per_minute, clock
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, client: str, units: int = 1) -> float:
        """Take units for a client and return 0. If there are too few, take none and return the seconds until then.

        A client that needs more than the units of one minute waits until the bucket is full, and then gets them.
        """
        if self.per_minute is None:
            return 0.0
        now = self.clock()
        bucket = self._buckets.pop(client, _Bucket(self.per_minute, now))
        self._buckets[client] = bucket  # now the last one, which is forgotten last
        if len(self._buckets) > MOST_CLIENTS:
            del self._buckets[next(iter(self._buckets))]
        bucket.level = min(self.per_minute, bucket.level + (now - bucket.at) * self.per_minute / 60)
        bucket.at = now
        missing = min(units, self.per_minute) - bucket.level
        if missing > 1e-9:
            return math.ceil(missing * 60 / self.per_minute)
        bucket.level -= units
        return 0.0

    def give_back(self, client: str, units: int) -> None:
        """Return units that a client took and did not use."""
        if client in self._buckets:
            self._buckets[client].level += units
