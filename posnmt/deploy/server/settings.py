"""The limits of a server."""

from __future__ import annotations

from dataclasses import dataclass

MOST_BEAM = 16
"""Largest beam of a request."""


@dataclass(frozen=True)
class Settings:
    """Limits of requests, of clients and of time.

    Attributes:
        request_bytes: most bytes of a request's body.
        request_characters: most characters of a request's texts.
        request_lines: most lines of a request's texts.
        line_characters: most characters of a line; a translation is finished while somebody waits for it, so a long
            line delays all clients.
        queue_characters: most characters of a model's accepted lines, including those being translated; each line
            counts `queue.OVERHEAD` more.
        batch_characters: most characters that are translated at a time.
        buffered_bytes: most bytes of all bodies that are being read or answered.
        kept_documents, kept_bytes: most documents that are translated or wait to be fetched, and their bytes.
        kept_seconds: seconds that the translation of a document waits to be fetched.
        timeout: seconds from the acceptance of a request to its translation.
        read_seconds: seconds for the head of a request to arrive, and again for its body.
        grace: seconds to finish accepted requests when the server is stopped.
        rate: most requests per minute of a client; None: no limit.
        rate_characters: most characters per minute of a client; None: no limit.
        behind_proxy: whether to trust client addresses from a proxy on this machine (X-Forwarded-For).
        origins: web sites whose pages may send requests and read answers (CORS); `*`: all.
        hosts: names that the server is called by, beside this machine's own; `*`: all.
    """

    request_bytes: int = 1 << 20
    request_characters: int = 50_000
    request_lines: int = 1000
    line_characters: int = 3000
    queue_characters: int = 200_000
    batch_characters: int = 8000
    buffered_bytes: int = 64 << 20
    kept_documents: int = 100
    kept_bytes: int = 64 << 20
    kept_seconds: float = 1800.0
    timeout: float = 60.0
    read_seconds: float = 20.0
    grace: int = 30
    rate: int | None = None
    rate_characters: int | None = None
    behind_proxy: bool = False
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
