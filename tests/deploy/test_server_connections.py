"""Connections of clients that neither send nor read, on a real server of uvicorn with a large answer."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

import pytest
import uvicorn

from posnmt.deploy.server.connections import patient

SIZE = 30_000_000
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def large(scope, receive, send):
    """Answers with more than the buffers of the system hold."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(SIZE).encode())]})
    await send({"type": "http.response.body", "body": bytes(SIZE)})


@pytest.fixture(scope="module")
def place():
    """The address of a server that is patient for half a second."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(large, http=patient(0.5), loop="asyncio", lifespan="off", log_config=None, timeout_keep_alive=60)
    )
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join(30)
    listener.close()


def connect(place, sent=b"", buffer=None):
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(30)
    connection.connect(place)
    connection.sendall(sent)
    return connection


def rest(connection, pause=0.0):
    """The number of bytes until the answer or the connection ends."""
    count = 0
    with suppress(ConnectionResetError):
        while count < SIZE and (part := connection.recv(1 << 20)):
            count += len(part)
            time.sleep(pause)
    return count


@pytest.mark.parametrize("sent", [b"", REQUEST[:10]])
def test_who_sends_no_whole_head_is_closed(place, sent):
    with connect(place, sent) as connection:
        assert rest(connection) == 0


def test_who_reads_slowly_has_the_whole_answer_and_sends_no_more_is_closed(place):
    with connect(place, REQUEST) as connection:
        assert rest(connection, pause=0.1) >= SIZE  # seconds in all
        while rest(connection):
            pass


def test_who_does_not_read_is_closed(place):
    with connect(place, REQUEST, buffer=10_000) as connection:
        assert connection.recv(10)
        time.sleep(2)
        assert rest(connection) < SIZE
