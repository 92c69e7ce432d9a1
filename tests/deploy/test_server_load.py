"""A server that has more to do than it can: what it accepts it serves, and what nobody waits for it does not."""

from __future__ import annotations

import random
import signal
import threading
import time
import urllib.error

import pytest

from tests.support.commands import run
from tests.support.serving import http_request, serving
from tests.support.untrained import LEARNED, untrained

LONG = "uns mebu zabi " * 20
"""A line that takes the model seconds, since it never ends an output."""

SHORT = {"q": "lo dumo", "source": "en", "target": "de"}


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A run that was never trained, and so writes each output up to its limit."""
    return untrained(tmp_path_factory.mktemp("slow") / "slow", "relative")


class Asking(threading.Thread):
    """A request that is waited for in a thread."""

    def __init__(self, server, fields):
        super().__init__()
        self.server, self.fields, self.answer, self.ended = server, fields, None, None
        self.start()

    def run(self):
        try:
            self.answer = self.server.post("/translate", self.fields)
        except OSError as error:
            self.answer = error
        self.ended = time.monotonic()


def long(lines=1):
    return {**SHORT, "q": [LONG] * lines}


@pytest.fixture(scope="module")
def served(slow):
    """A queue of 1,500 characters; a long line counts 300."""
    with serving(slow, "--queue", 1500, "--batch-characters", 700) as server:
        yield server


def test_what_is_too_much_is_refused_at_once_and_the_rest_is_served(served, slow):
    expected = run("translate", slow, stdin=f"{LONG}\nlo dumo\n".encode())[0].splitlines()
    first = Asking(served, long(4))
    served.wait_for("posnmt_queue_characters", 1200)
    accepted = [Asking(served, SHORT) for _ in range(5)]  # 27 each
    served.wait_for("posnmt_queue_characters", 1335)
    status, answer, headers = served.post("/translate", long())
    assert first.is_alive()
    assert status == 429
    assert "send the request again" in answer["error"]
    assert int(headers["Retry-After"]) >= 1
    assert served.post("/v2/translate", {"text": LONG, "target_lang": "DE"})[0] == 429
    for each in (first, *accepted):
        each.join()
    assert first.answer[:2] == (200, {"translatedText": [expected[0]] * 4})
    assert [each.answer[:2] for each in accepted] == [(200, {"translatedText": expected[1]})] * 5
    assert max(each.ended for each in accepted) < first.ended  # a short request does not wait for a long one
    served.wait_for("posnmt_queue_characters", 0)


def test_lines_of_a_client_that_has_gone_are_not_translated(served):
    before = served.figure("posnmt_lines_total")
    first = Asking(served, long(3))
    served.wait_for("posnmt_queue_characters", 900)
    with served.connect() as connection:
        connection.sendall(http_request("/translate", {**SHORT, "q": [LONG, LONG]}))
        served.wait_for("posnmt_queue_characters", 1500)
    served.wait_for("posnmt_queue_requests", 0)
    assert first.is_alive()
    first.join()
    assert first.answer[0] == 200
    served.wait_for("posnmt_queue_characters", 0)
    assert served.figure("posnmt_lines_total") - before in (3, 4)  # one may have been at work
    assert "Traceback" not in served.err


def test_a_signal_ends_it_when_accepted_requests_are_answered(served):
    """The last test of this server."""
    asked = [Asking(served, long()) for _ in range(3)]
    served.wait_for("posnmt_queue_characters", 900)
    assert served.end(signal.SIGTERM) == 0
    for each in asked:
        each.join()
    assert [each.answer[0] for each in asked] == [200] * 3
    with pytest.raises(urllib.error.URLError):
        served.get("/health")
    assert "Traceback" not in served.err


@pytest.mark.slow
def test_time_limits(slow):
    with serving(slow, "--timeout", 1, "--grace", 1, "--batch-characters", 1) as server:
        asked = Asking(server, long(50))
        asked.join()
        status, answer, _ = asked.answer
        assert (status, answer) == (504, {"error": "the translation was not ready within 1 seconds; send fewer texts"})
        server.wait_for("posnmt_queue_characters", 0)
        assert server.figure("posnmt_lines_total") < 10
        assert server.end(signal.SIGINT) == 0


@pytest.mark.slow
def test_what_is_not_finished_in_the_time_of_grace_is_given_up(slow):
    with serving(slow, "--grace", 1, "--batch-characters", 1) as server:
        asked = Asking(server, long(50))
        server.wait_for("posnmt_queue_characters", 15_000)
        assert server.end(signal.SIGTERM) == 0
        asked.join()
        assert asked.answer[:2] == (503, {"error": "the server is being stopped"})
        assert "Traceback" not in server.err


def _stopped(slow, engine, seconds, second_signal):
    """The exit status and the messages of a server that is stopped while it translates what nobody waits for."""
    with serving(slow, "--grace", 1, "--timeout", 5, "--engine", engine) as server:
        with server.connect() as connection:
            connection.sendall(http_request("/translate", {**SHORT, "q": "uns mebu zabi " * 200, "alternatives": 5}))
            server.wait_for("posnmt_queue_requests", 0)  # it is at work
            time.sleep(seconds)
        if second_signal:
            server.process.send_signal(signal.SIGINT)
        return server.end(signal.SIGINT if second_signal else signal.SIGTERM), server.err


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_signal_in_the_middle_of_a_search_ends_it_in_order(slow, engine):
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")
    status, messages = _stopped(slow, engine, 0.3, second_signal=False)
    assert status == 0
    assert "Traceback" not in messages


@pytest.mark.slow
@pytest.mark.parametrize("second_signal", [False, True])
@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_signal_at_any_moment_ends_it_in_order(slow, engine, second_signal):
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    for _ in range(5):
        status, messages = _stopped(slow, engine, moments.uniform(0, 2), second_signal)
        assert status == 0, (seed, messages)
        assert "Traceback" not in messages


def test_a_search_that_nobody_waits_for_ends(slow):
    with serving(slow, "--timeout", 600) as server:
        with server.connect() as connection:
            connection.sendall(http_request("/translate", {**SHORT, "q": "uns mebu zabi " * 200, "alternatives": 5}))
            server.wait_for("posnmt_queue_requests", 0)
        server.wait_for("posnmt_queue_characters", 0)
        assert server.figure("posnmt_lines_total") == 0


@pytest.mark.slow
def test_ctranslate2_serves_the_same_behind_a_proxy():
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")
    line = "uns mebu zabi"
    with serving(LEARNED, "--engine", "ctranslate2", "--behind-proxy", "--rate", 1) as server:
        query = {**SHORT, "q": line}
        expected = run("translate", LEARNED, stdin=f"{line}\n".encode())[0].strip()
        assert server.post("/translate", query)[:2] == (200, {"translatedText": expected})
        statuses = [
            server.post("/translate", query, headers={"X-Forwarded-For": f"198.51.100.{number}"})[0]
            for number in (1, 2, 1)
        ]
        assert statuses == [200, 200, 429]
        assert server.get("/v1/models")[1][0]["engine"].startswith("CTranslate2 ")
