"""Bodies of requests at the limits of the server's memory and time, without a network."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from posnmt.deploy.server.bodies import DISCARDED, Bodies
from posnmt.deploy.server.metrics import Metrics
from posnmt.deploy.server.settings import Settings

LIMITS = Settings(request_bytes=100, buffered_bytes=150, read_seconds=0.2)


class Exchange:
    """A request in parts, and the answer to it."""

    def __init__(self, bodies, parts, path="/translate"):
        self.scope = {"type": "http", "path": path, "method": "POST", "headers": []}
        self.parts, self.status, self.read, self.bodies = list(parts), None, 0, bodies

    async def receive(self):
        if not self.parts:
            await asyncio.sleep(3600)  # a client that sends no more
        part = self.parts.pop(0)
        if part is None:
            return {"type": "http.disconnect"}
        self.read += len(part)
        return {"type": "http.request", "body": part, "more_body": not part.endswith(b".")}

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]

    async def run(self):
        await self.bodies(self.scope, self.receive, self.send)
        return self.status


def in_a_loop(coroutine):
    """What a coroutine returns, run in a thread: tests with a browser leave an event loop in theirs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def bodies(app):
    return Bodies(app, LIMITS, Metrics(), frozenset(["/translate"]))


def app_that(waits=0.0):
    seen = []

    async def app(scope, receive, send):
        seen.append((await receive())["body"])
        await asyncio.sleep(waits)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app, seen


def test_a_body_in_parts_is_whole():
    app, seen = app_that()
    assert in_a_loop(Exchange(bodies(app), [b"a" * 50, b"", b"b."]).run()) == 200
    assert seen == [b"a" * 50 + b"b."]


def test_a_body_above_the_limit_is_read_to_its_end_and_discarded():
    app, seen = app_that()
    exchange = Exchange(bodies(app), [b"a" * 40] * 20 + [b"."])
    assert in_a_loop(exchange.run()) == 413
    assert (exchange.parts, seen) == ([], [])
    endless = Exchange(bodies(app), [b"a" * 100] * 1000)
    assert in_a_loop(endless.run()) == 413
    assert endless.read == DISCARDED * 100 + 100


def test_a_slow_body_and_a_client_that_goes_away():
    app, seen = app_that()
    assert in_a_loop(Exchange(bodies(app), [b"a"]).run()) == 408
    assert in_a_loop(Exchange(bodies(app), [b"a", None]).run()) is None
    assert seen == []


def test_bodies_at_a_time_are_bounded_together():
    app, _ = app_that(waits=0.1)
    shared = bodies(app)

    async def several():
        first = [Exchange(shared, [b"a" * 89 + b"."]).run() for _ in range(3)]
        return await asyncio.gather(*first), await Exchange(shared, [b"a" * 89 + b"."]).run()

    assert in_a_loop(several()) == ([200, 503, 503], 200)


def test_answers_are_counted_by_known_paths():
    app, _ = app_that()
    shared = bodies(app)
    in_a_loop(Exchange(shared, [b"."]).run())
    in_a_loop(Exchange(shared, [b"."], "/else").run())
    in_a_loop(Exchange(shared, [b"x" * 101, b"."]).run())
    value = shared.metrics.registry.get_sample_value
    assert value("posnmt_requests_total", {"path": "/translate", "status": "200"}) == 1
    assert value("posnmt_requests_total", {"path": "other", "status": "200"}) == 1
    assert value("posnmt_requests_total", {"path": "/translate", "status": "413"}) == 1
