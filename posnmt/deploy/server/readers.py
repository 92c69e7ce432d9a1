"""Processes that read and write documents for a server. One that takes too long is ended, and harms nobody else."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from typing import Any

from posnmt.base.errors import UserError
from posnmt.deploy.server.refusal import Refusal

PROCESSES = 2
"""The number of processes. They begin with the first documents."""


class Reader:
    """Run `posnmt.deploy.documents.reader` as a process, and call its functions."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "posnmt.deploy.documents.reader"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def call(self, function: str, contents: list[bytes], fields: dict[str, Any]) -> dict[str, Any]:
        """The answer of a function of the process.

        Raises:
            UserError: the function raises it.
            EOFError: the process has ended.
        """
        assert self._process.stdin
        assert self._process.stdout
        encoded = [base64.b64encode(each).decode() for each in contents]
        try:
            print(json.dumps({"call": function, "contents": encoded, **fields}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except (OSError, ValueError):
            line = ""
        if not line:
            raise EOFError
        answer: dict[str, Any] = json.loads(line)
        if "fault" in answer:
            raise UserError(*answer["fault"])
        answer["contents"] = [base64.b64decode(each) for each in answer.get("contents", [])]
        return answer

    def end(self) -> None:
        """Kill the process, wait for its end, and close its pipes."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream
            stream.close()


class Readers:
    """The processes of a server.

    Args:
        seconds: the time for a document to be read, and again to be written.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._idle: list[Reader] = []
        self._turns = asyncio.Semaphore(PROCESSES)

    async def call(self, function: str, contents: list[bytes], **fields: Any) -> dict[str, Any]:
        """The answer of a function of `posnmt.deploy.documents.reader`.

        Raises:
            UserError: the function raises it.
            Refusal: it takes too long, or its process ends.
        """
        async with self._turns:
            reader = self._idle.pop() if self._idle else await asyncio.to_thread(Reader)
            answer = asyncio.ensure_future(asyncio.to_thread(reader.call, function, contents, fields))
            try:
                result = await asyncio.wait_for(asyncio.shield(answer), self._seconds)
            except UserError:
                self._idle.append(reader)
                raise
            except TimeoutError:
                await self._give_up(reader, answer)
                what = f"reading the document takes longer than {self._seconds:g} seconds"
                raise Refusal(413, f"{what}; send a smaller or simpler one") from None
            except EOFError:
                await self._give_up(reader, answer)
                raise Refusal(500, "reading the document failed; the server's log has the details") from None
            except BaseException:
                await self._give_up(reader, answer)
                raise
            self._idle.append(reader)
            return result

    async def _give_up(self, reader: Reader, answer: asyncio.Future[dict[str, Any]]) -> None:
        """End a process, and with it the wait for its answer."""
        await asyncio.to_thread(reader.end)
        await asyncio.gather(answer, return_exceptions=True)

    def close(self) -> None:
        """End the processes that do nothing."""
        while self._idle:
            self._idle.pop().end()
