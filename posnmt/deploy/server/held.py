"""Documents that are translated, and their translations, which wait in a private folder until they are fetched."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from posnmt.deploy.server.refusal import Refusal, later
from posnmt.deploy.server.settings import Settings

SHARE = 4
"""A client may have this fraction of the documents and of their bytes: the fourth part."""

AT_WORK = 4
"""Documents that are read and translated at a time; others wait for their turn."""


@dataclass(eq=False)
class Document:
    """A document of a client.

    Attributes:
        client: who sent it.
        name: the name of the translation.
        code: its name here, which cannot be guessed.
        key: a second secret that its client must know; empty: there is none.
        state: `queued`, `translating`, `done` or `error`.
        message: what is wrong, in the state `error`.
        characters: characters that were translated.
        warnings: what its client should know.
        size: bytes of the translation.
    """

    client: str
    name: str
    code: str = field(default_factory=lambda: secrets.token_hex(20))
    key: str = ""
    state: str = "queued"
    message: str = ""
    characters: int = 0
    warnings: list[str] = field(default_factory=list)
    size: int = 0


class Held:
    """The documents of a server. A translation is deleted when it was fetched, or when its time is over."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._documents: dict[str, Document] = {}
        self._folder: TemporaryDirectory[str] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(AT_WORK)

    def begin(self, document: Document) -> Document:
        """Hold a new document.

        Raises:
            Refusal: there are too many documents, or too many of its client.
        """
        self._refuse_more(document.client)
        self._documents[document.code] = document
        return document

    def finish(self, document: Document, content: bytes) -> None:
        """Keep the translation of a document.

        Raises:
            Refusal: there is no room for it.
        """
        self._refuse_more(document.client, len(content))
        try:
            self._path(document).write_bytes(content)
        except OSError as error:
            raise Refusal(503, f"the server cannot keep the translation: {error.strerror}") from None
        document.state, document.size = "done", len(content)
        self._end_later(document)

    @asynccontextmanager
    async def turn(self, document: Document) -> AsyncIterator[None]:
        """Wait until it is a document's turn to be translated."""
        async with self._turns:
            document.state = "translating"
            yield

    def fail(self, document: Document, message: str) -> None:
        """Note that a document cannot be translated."""
        document.state, document.message = "error", message
        self._end_later(document)

    def find(self, code: str, key: str = "") -> Document | None:
        """The document with a code and a key; None: there is none, or none any more."""
        document = self._documents.get(code)
        is_known = document is not None and hmac.compare_digest(document.key.encode(), key.encode("utf-8", "replace"))
        return document if is_known else None

    def fetch(self, document: Document) -> bytes:
        """The translation of a document, which is then deleted."""
        content = self._path(document).read_bytes()
        self.drop(document)
        return content

    def drop(self, document: Document) -> None:
        """Forget a document, and delete its translation."""
        if self._documents.pop(document.code, None) and document.state == "done":
            self._path(document).unlink(missing_ok=True)

    def work(self, task: Coroutine[Any, Any, None]) -> None:
        """Work on a document while its client is not connected."""
        self._tasks.add(started := asyncio.ensure_future(task))
        started.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End the work, and delete the folder."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._documents.clear()
        if self._folder is not None:
            self._folder.cleanup()

    def _refuse_more(self, client: str, size: int = 0) -> None:
        """Check that there is room for a document (`size` 0), or for the bytes of a translation.

        Raises:
            Refusal: there is none.
        """
        settings = self._settings
        for who, share in (("this client", SHARE), (None, 1)):
            held = [each for each in self._documents.values() if who is None or each.client == client]
            is_full = not size and len(held) >= settings.kept_documents // share
            if is_full or sum(each.size for each in held) + size > settings.kept_bytes // share:
                what = f"the translations of {who or 'other clients'} that were not fetched leave no room"
                raise later(f"{what}; they are kept for {settings.kept_seconds:g} seconds", settings.kept_seconds)

    def _end_later(self, document: Document) -> None:
        asyncio.get_running_loop().call_later(self._settings.kept_seconds, self.drop, document)

    def _path(self, document: Document) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="posnmt-documents-")  # only this user may read it
        return Path(self._folder.name, document.code)
