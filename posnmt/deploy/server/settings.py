"""The limits of a server."""

from __future__ import annotations

from dataclasses import dataclass

MOST_BEAM = 16
"""The widest beam that a request may ask for."""


@dataclass(frozen=True)
class Settings:
    """Limits of requests, of clients and of time.

    Attributes:
        request_bytes: of a request's body.
        request_characters: of the texts of a request.
        request_lines: of the texts of a request.
        line_characters: of a line; a batch that has begun is finished, and a long line delays everybody.
        queue_characters: of the accepted lines of a model, those at work included, each with `queue.OVERHEAD`.
        batch_characters: of the lines that are translated at a time.
        buffered_bytes: of all bodies that are read or answered at a time.
        timeout: seconds from the acceptance of a request to its translation.
        read_seconds: in which the head of a request must arrive, and then its body.
        grace: seconds in which accepted requests are finished when the server is stopped.
        rate: requests a minute of a client; None: no limit.
        rate_characters: characters a minute of a client; None: no limit.
        behind_proxy: whether a proxy on this machine names the clients (X-Forwarded-For).
        origins: sites whose pages may send requests and read answers (CORS); `*`: all.
        hosts: names that the server is called by, beside this machine's own; `*`: all.
    """

    request_bytes: int = 1 << 20
    request_characters: int = 50_000
    request_lines: int = 1000
    line_characters: int = 3000
    queue_characters: int = 200_000
    batch_characters: int = 8000
    buffered_bytes: int = 64 << 20
    timeout: float = 60.0
    read_seconds: float = 20.0
    grace: int = 30
    rate: int | None = None
    rate_characters: int | None = None
    behind_proxy: bool = False
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
