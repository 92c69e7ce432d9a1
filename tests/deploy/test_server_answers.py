"""Answers of every path: their heads, and whether pages of allowed sites can read them."""

from __future__ import annotations

import pytest

from posnmt.deploy.server.settings import Settings
from tests.support.answering import answering


@pytest.fixture(scope="module")
def served():
    with answering() as server:
        yield server


def test_every_path_that_can_be_read_has_a_head(served):
    paths = served.get("/openapi.json").json()["paths"]
    readable = [path for path, methods in paths.items() if "get" in methods]
    assert len(readable) > 5
    for path in [*readable, "/", "/docs", "/openapi.json", "/metrics", "/nowhere", "/translate"]:
        head, whole = served.head(path), served.get(path)
        assert (head.status_code, head.content) == (whole.status_code, b"")
        assert head.headers["Content-Type"] == whole.headers["Content-Type"]


def test_pages_that_are_allowed_can_read_every_error():
    """Also those that middleware sends, and those that nobody foresaw."""

    def failing(app):
        @app.get("/fault")
        def fault():
            raise ZeroDivisionError

    query, form = {"q": "lo", "source": "en", "target": "de", "api_key": "a"}, "/translate"
    settings = Settings(origins=("https://a.b",), request_bytes=1000, rate=4, read_seconds=1.0)
    with answering(settings, keys=[("a", "alice")], changed=failing) as server:
        origin = {"headers": {"Origin": "https://a.b"}}
        answers = [
            server.post(form, json={**query, "q": 5}, **origin),
            server.post(form, json={**query, "api_key": "x"}, **origin),
            server.get("/nowhere", **origin),
            server.get(form, **origin),
            server.post(form, data=b"x" * 2000, **origin),
            server.get("/fault", **origin),
            *[server.post(form, json=query, **origin) for _ in range(5)],
        ]
    assert [each.status_code for each in answers] == [400, 403, 404, 405, 413, 500, *[200] * 4, 429]
    for each in answers:
        assert each.headers["Access-Control-Allow-Origin"] == "https://a.b", each.status_code
        assert list(each.json()) == (["translatedText"] if each.status_code == 200 else ["error"])
        assert "Retry-After" in each.headers["Access-Control-Expose-Headers"]
