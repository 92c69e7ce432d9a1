"""Submissions that a cluster refuses: which are worth another try, and when."""

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
"""What Slurm says (slurm_strerror) where the same submission may be accepted later: limits and outages."""

LIMIT = re.compile(r"\b(?:QOS|Assoc)(?:Max|Grp|Min)\w+")
"""A limit by name, which `sbatch` prints before "Job violates accounting/QOS policy". Those with Submit in their name
count jobs, and pass; a job that is beyond any other (nodes, GPUs, memory, time) always will be."""


def reason(message: str) -> str:
    """What a program of Slurm printed, in one line without the program's name."""
    lines = [re.sub(r"^\w+:\s*(error:\s*)?", "", line, count=1).strip() for line in message.splitlines()]
    return "; ".join(line for line in lines if line) or "Slurm does not say why"


def is_temporary(message: str) -> bool:
    """Whether the same submission may be accepted later; words that are not known are for a person to read: no."""
    limits: list[str] = LIMIT.findall(message)
    if limits:
        return all("Submit" in name for name in limits)
    return any(words.lower() in message.lower() for words in TEMPORARY)


class TemporaryRefusal(Exception):
    """An executor could not start a step, and will have no room for any until it is worth another try."""


class Backoff:
    """When to try again: after waits that double with each refusal.

    Args:
        first, longest: seconds.
    """

    def __init__(self, first: float = 15.0, longest: float = 600.0) -> None:
        self._first, self._longest = first, longest
        self._wait, self._until = 0.0, 0.0

    def refused(self) -> float:
        """Note a refusal; seconds until the next try."""
        self._wait = min(self._longest, 2 * self._wait or self._first)
        self._until = time.monotonic() + self._wait
        return self._wait

    def accepted(self) -> None:
        """Note a success: the next refusal waits as the first did."""
        self._wait = self._until = 0.0

    def is_over(self) -> bool:
        """Whether it is time to try."""
        return time.monotonic() >= self._until
