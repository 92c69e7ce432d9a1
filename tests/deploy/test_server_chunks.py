"""Chunked bodies over a real connection: whatever sizes, extensions and trailers they have, the memory is bounded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat

import pytest

from tests.support.serving import Serving, serving
from tests.support.untrained import LEARNED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the peak memory is read from /proc"),
]
MIB = 1 << 20
HEAD = (
    b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
BODIES = {
    "a declared size": [b"ffffffffffff\r\n", *repeat(b"a" * 65536, 64)],
    "a size without end": repeat(b"0" * 65536, 1024),
    "an extension without end": [b"1;", *repeat(b"a" * 65536, 1024)],
    "trailers without end": [b"1\r\n{\r\n0\r\n", *repeat(b"A: b\r\n" * 8192, 1024)],
    "chunks of a byte": repeat(b"1\r\n \r\n" * 8192, 256),
}
"""What a client sends of a body, in parts; the last has 2 MiB in so many chunks."""


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving(LEARNED, "--rate", 1000) as running:
        yield running


def peak(server: Serving) -> int:
    """The most memory that the server has had, in bytes."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


@pytest.mark.parametrize("name", BODIES)
def test_a_chunked_body_takes_little_memory(name: str, server: Serving) -> None:
    question = {"q": "lo dumo", "source": "en", "target": "de"}
    assert server.post("/translate", question)[0] == 200
    before = peak(server)
    answer = b""
    with server.connect() as connection, suppress(ConnectionError):
        connection.sendall(HEAD)
        for part in BODIES[name]:
            connection.sendall(part)
        answer = connection.recv(65536)
    print(f"{name}: {(peak(server) - before) / MIB:.0f} MiB, {answer[:40]!r}")
    assert peak(server) - before < 32 * MIB
    assert b" 5" not in answer.split(b"\r\n")[0]
    assert server.post("/translate", question)[0] == 200
