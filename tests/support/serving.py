"""`posnmt serve` in a process of its own, and what clients of it need."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

LATEST = 120
"""Seconds after which what a test waits for has failed."""


class Serving:
    """A running server.

    Attributes:
        url: its address.
        process: of the server.
    """

    def __init__(self, *arguments, environment=None):
        command = [sys.executable, "-m", "posnmt", "serve", "--port", "0", *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.messages = []
        self._reader = threading.Thread(target=lambda: self.messages.extend(self.process.stderr), daemon=True)
        self._reader.start()
        late = threading.Timer(LATEST, self.process.kill)
        late.start()
        self.url = self.process.stdout.readline().strip()
        late.cancel()
        if not self.url:
            self.end()
        assert self.url, self.err

    @property
    def err(self):
        """Standard error so far."""
        return "".join(self.messages)

    def post(self, path, fields=None, data=None, headers=(), timeout=LATEST):
        """Status, answer and headers of a POST of JSON, or of bytes."""
        body = json.dumps(fields).encode() if data is None else data
        return self._open(path, body, {"Content-Type": "application/json", **dict(headers)}, timeout)

    def get(self, path, headers=()):
        """Status, answer and headers of a GET."""
        return self._open(path, None, dict(headers), LATEST)

    def _open(self, path, body, headers, timeout):
        request = urllib.request.Request(self.url + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, _value(answer), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _value(error), error.headers

    def connect(self):
        """A raw connection."""
        place = urlsplit(self.url)
        return socket.create_connection((place.hostname, place.port), timeout=LATEST)

    def figure(self, name):
        """The sum of a figure of /metrics over its labels."""
        rows = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return sum(map(float, rows))

    def wait_for(self, name, value):
        """Wait until a figure of /metrics has a value."""
        end = time.monotonic() + LATEST
        while self.figure(name) != value:
            assert time.monotonic() < end, f"{name} is {self.figure(name)}, not {value}"
            time.sleep(0.05)

    def end(self, number=signal.SIGTERM):
        """Stop the server by a signal; its exit status."""
        self.process.send_signal(number)
        status = self.process.wait(LATEST)
        self._reader.join(LATEST)
        self.process.stdout.close()
        self.process.stderr.close()
        return status


def _value(answer):
    text = answer.read().decode(errors="replace")
    with suppress(ValueError):
        return json.loads(text)
    return text


@contextmanager
def serving(*arguments, environment=None):
    """A server, stopped at the end."""
    server = Serving(*arguments, environment=environment)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.end()


def together(count, work):
    """The results of `work(number)` for so many numbers, computed in threads that begin at once."""
    gate, results = threading.Barrier(count), [None] * count

    def one(number):
        gate.wait()
        results[number] = work(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LATEST)
    return results


def http_request(path, fields):
    """The bytes of a POST of JSON, for raw connections."""
    body = json.dumps(fields).encode()
    head = ["Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([f"POST {path} HTTP/1.1", *head, "", ""]).encode() + body
