"""Host names that a server answers to, and pages of other sites."""

from __future__ import annotations

import itertools
import socket

import pytest

from tests.support.serving import serving
from tests.support.untrained import LEARNED

TEXT = "uns mebu zabi"
QUERY = {"q": TEXT, "source": "en", "target": "de"}
QUERIES = {
    "/translate": QUERY,
    "/v2/translate": {"text": TEXT, "target_lang": "de"},
    "/v1/translate": {"text": TEXT},
    "/detect": {"q": TEXT},
}


@pytest.fixture(scope="module")
def served():
    with serving(f"mine={LEARNED}", "--allow-origin", "https://a.b", "--allow-host", "Translate.example.org") as server:
        yield server


def _own(server):
    return server.url.removeprefix("http://")


def test_addresses_and_own_names_are_answered(served):
    port = _own(served).rpartition(":")[2]
    own = [
        "127.0.0.1",
        "127.0.0.1:1",
        f"localhost:{port}",
        "LOCALHOST.",
        "my.localhost",
        "[::1]",
        f"[::1]:{port}",
        "10.0.0.7",
    ]
    for host in [*own, socket.gethostname(), "translate.example.org:443"]:
        assert served.get("/health", {"Host": host})[0] == 200, host


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:80", "[::1", "1", "", "a b"],
)
def test_other_names_are_refused_on_every_route(served, host):
    paths = served.get("/openapi.json")[1]["paths"]
    routes = [(path, method.upper()) for path, methods in paths.items() for method in methods]
    assert len(routes) > 8
    for path, method in [*routes, ("/", "GET"), ("/metrics", "GET"), ("/docs", "GET"), ("/none", "GET")]:
        if method == "POST":
            status = served.post(path, QUERY, headers={"Host": host, "Origin": f"http://{host}"})[0]
        else:
            status = served.get(path, {"Host": host})[0]
        assert status in (400, 403), (path, method)  # 400: h11 finds that it is no host name at all


def test_several_hosts_do_not_hide_one(served):
    with served.connect() as connection:
        connection.sendall(
            b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        )
        assert connection.recv(20).split()[1] in (b"400", b"403")


SENDERS = {
    "a program": ({}, 200),
    "its own page": ({"Origin": "http://{own}", "Sec-Fetch-Site": "same-origin"}, 200),
    "its own page, by a proxy that changes Host": ({"Origin": "https://x.org", "Sec-Fetch-Site": "same-origin"}, 200),
    "its own page, by an old browser": ({"Origin": "http://{own}"}, 200),
    "a visitor": ({"Sec-Fetch-Site": "none"}, 200),
    "a page that is allowed": ({"Origin": "https://a.b", "Sec-Fetch-Site": "cross-site"}, 200),
    "a page of another site": ({"Origin": "https://c.d", "Sec-Fetch-Site": "cross-site"}, 403),
    "the same, by an old browser": ({"Origin": "https://c.d"}, 403),
    "another port": ({"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, 403),
    "a page in a frame or a file": ({"Origin": "null"}, 403),
    "an image or a form": ({"Sec-Fetch-Site": "cross-site"}, 403),
    "no address": ({"Origin": "http://["}, 403),
}


@pytest.mark.parametrize("sender", SENDERS)
def test_who_may_send_texts(served, sender):
    headers, expected = SENDERS[sender]
    headers = {name: value.format(own=_own(served)) for name, value in headers.items()}
    kinds = ["application/json", "text/plain", "application/x-www-form-urlencoded"]
    before = served.figure("posnmt_lines_total")
    for (path, query), kind in itertools.product(QUERIES.items(), kinds):
        status = served.post(path, query, headers={"Content-Type": kind, **headers})[0]
        if expected == 403 or kind.endswith("json"):
            assert status == expected, (path, kind)
    assert (served.figure("posnmt_lines_total") > before) == (expected == 200)


def test_answers_that_refuse_can_be_read_by_pages_that_are_allowed(served):
    for data, status in ((b"x" * (2 << 20), 413), (b"{", 400)):
        answer = served.post("/translate", data=data, headers={"Origin": "https://a.b"})
        assert (answer[0], answer[2]["Access-Control-Allow-Origin"]) == (status, "https://a.b")


def test_all_hosts_and_origins_are_allowed_by_a_star():
    with serving(LEARNED, "--allow-origin", "*", "--allow-host", "*") as server:
        headers = {"Host": "evil.example", "Origin": "https://c.d", "Sec-Fetch-Site": "cross-site"}
        assert server.post("/translate", QUERY, headers=headers)[0] == 200
