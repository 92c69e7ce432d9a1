"""API keys, rates, slow bodies and addresses of a running server."""

from __future__ import annotations

import socket
import time

import deepl
import pytest

from tests.support.commands import refused
from tests.support.serving import http_request, serving
from tests.support.untrained import LEARNED

QUERY = {"q": "uns mebu zabi", "source": "en", "target": "de"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("secret-a alice\nsecret-b bob\nsecret-d dora\n")
    options = [
        "--keys",
        keys,
        "--rate",
        5,
        "--rate-characters",
        100,
        "--read-timeout",
        1,
        "--allow-origin",
        "https://a.b",
    ]
    with serving(f"mine={LEARNED}", *options, environment={"POSNMT_API_KEYS": "secret-c"}) as server:
        yield server


def test_who_has_no_key_is_refused(served):
    assert served.post("/translate", QUERY)[:2] == (
        403,
        {"error": "an API key is needed; ask the operator of this server for one"},
    )
    assert served.post("/translate", {**QUERY, "api_key": "x"})[0] == 403
    assert served.post("/detect", {"q": "lo"})[0] == 403
    assert served.post("/v1/translate", {"text": "lo"})[0] == 403
    assert served.post("/v1/translate", {"text": "lo", "api_key": "x"})[0] == 403
    with pytest.raises(deepl.AuthorizationException, match="this API key is not known here"):
        deepl.DeepLClient("wrong", server_url=served.url).translate_text("lo", target_lang="DE")
    assert served.get("/languages")[0] == served.get("/health")[0] == 200


def test_a_key_goes_into_the_field_or_the_header(served):
    assert served.post("/translate", {**QUERY, "api_key": "secret-a"})[0] == 200
    assert served.post("/translate?api_key=secret-a", QUERY)[0] == 200
    assert served.post("/v1/translate", {"text": "lo"}, headers={"Authorization": "Bearer secret-a"})[0] == 200
    assert served.post("/v1/translate", {"text": "lo", "api_key": "secret-a"})[0] == 200
    client = deepl.DeepLClient("secret-c", server_url=served.url)
    assert client.get_usage().character.count == 0
    client.translate_text("lo dumo", target_lang="DE")
    assert client.get_usage().character.count == 7


def test_more_requests_than_the_rate_wait(served):
    headers = {"Authorization": "Bearer secret-b"}
    answers = [served.post("/translate", QUERY, headers=headers) for _ in range(7)]
    assert [status for status, _, _ in answers][:5] == [200] * 5
    status, answer, headers = answers[-1]
    assert (status, answer) == (429, {"error": "more than 5 requests a minute"})
    assert 1 <= int(headers["Retry-After"]) <= 12
    assert served.post("/translate", {**QUERY, "api_key": "secret-a"})[0] == 200  # others are not concerned


def test_more_characters_than_the_rate_wait(served):
    query = {**QUERY, "q": "uns mebu zabi " * 6, "api_key": "secret-d"}
    assert served.post("/translate", query)[0] == 200
    status, answer, headers = served.post("/translate", query)
    assert (status, answer) == (429, {"error": "more than 100 characters a minute"})
    assert 1 <= int(headers["Retry-After"]) <= 41


def test_a_request_that_does_not_arrive_is_ended(served):
    whole = http_request("/translate", QUERY)
    with served.connect() as silent, served.connect() as head, served.connect() as body:
        head.sendall(whole[:30])
        body.sendall(whole[:-5])
        answer = body.recv(1000).decode()
        assert answer.startswith("HTTP/1.1 408")
        assert head.recv(100) == b""
        assert silent.recv(100) == b""


def test_a_client_that_sends_byte_after_byte_does_not_keep_a_connection(served):
    def drip(connection):
        for byte in http_request("/translate", QUERY) * 100:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)

    with served.connect() as connection, pytest.raises((BrokenPipeError, ConnectionResetError)):
        drip(connection)


def test_pages_of_a_site_that_is_allowed(served):
    assert served.get("/languages", {"Origin": "https://a.b"})[2]["Access-Control-Allow-Origin"] == "https://a.b"
    assert served.get("/languages", {"Origin": "https://c.d"})[2]["Access-Control-Allow-Origin"] is None


def test_addresses_that_cannot_be_served(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        [line] = refused("serve", LEARNED, "--port", taken.getsockname()[1])
    assert line.startswith("error: cannot listen on this address: Address already in use (127.0.0.1:")
    assert "no address" in refused("serve", LEARNED, "--host", "no.such.host.invalid")[0]


def test_what_cannot_be_served(tmp_path):
    assert "no such run folder" in refused("serve", tmp_path / "absent", "--port", 0)[0]
    assert "two models are called 'learned'" in refused("serve", LEARNED, LEARNED, "--port", 0)[0]
    assert "does not exist" in refused("serve", LEARNED, "--keys", tmp_path / "keys", "--port", 0)[0]
    assert "does not translate in int8" in refused("serve", LEARNED, "--precision", "int8", "--port", 0)[0]
