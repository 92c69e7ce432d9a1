"""Submissions that a cluster refuses: whether and when to retry them."""

from __future__ import annotations

import re
import time

TEMPORARY = (
    "Job violates accounting/QOS policy",
    "temporarily unable to accept job",
    "Resource temporarily unavailable",
    "Required partition not available (inactive or drain)",
    "Unable to contact slurm controller",
    "timed out",
    "Zero Bytes were transmitted or received",
    "standby mode",
    "Connection refused",
    "Connection reset",
    "Transport endpoint is not connected",
)
"""Messages of Slurm (slurm_strerror) after which the same submission may be accepted later: limits and outages."""

LIMIT = re.compile(r"\b(?:QOS|Assoc)(?:Max|Grp|Min)\w+")
"""The name of a limit, which `sbatch` prints before "Job violates accounting/QOS policy". Limits with Submit in their
name count jobs, so waiting helps. A job that exceeds any other limit (nodes, GPUs, memory, time) always will."""


def reason(message: str) -> str:
    """The message of a Slurm program as one line, without the program's name."""
    lines = [re.sub(r"^\w+:\s*(error:\s*)?", "", line, count=1).strip() for line in message.splitlines()]
    return "; ".join(line for line in lines if line) or "Slurm does not say why"


def is_temporary(message: str) -> bool:
    """Whether the same submission may be accepted later; an unknown message is taken to be permanent."""
    limits: list[str] = LIMIT.findall(message)
    if limits:
        return all("Submit" in name for name in limits)
    return any(words.lower() in message.lower() for words in TEMPORARY)


class TemporaryRefusal(Exception):
    """An executor cannot start a step now; its `has_capacity` is False until the next attempt is due."""


class Backoff:
    """Exponential backoff: the waiting time doubles with each refusal.

    Args:
        first, longest: waiting times in seconds.
    """

    def __init__(self, first: float = 15.0, longest: float = 600.0) -> None:
        self._first, self._longest = first, longest
        self._wait, self._until = 0.0, 0.0

    def refused(self) -> float:
        """Record a refusal; return the seconds until the next attempt."""
        self._wait = min(self._longest, 2 * self._wait or self._first)
        self._until = time.monotonic() + self._wait
        return self._wait

    def accepted(self) -> None:
        """Record a success: the next refusal waits for `first` seconds again."""
        self._wait = self._until = 0.0

    def is_over(self) -> bool:
        """Whether the next attempt is due."""
        return time.monotonic() >= self._until
