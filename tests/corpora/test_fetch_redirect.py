"""Redirects of a real server on loopback: to another host, to a file, to ftp, and from a name with a password."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from posnmt.base.errors import UserError
from posnmt.corpora.download import Downloads


@contextmanager
def web(to):
    """A server that redirects `/there` and answers everything else; its URL, and the headers of its requests."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            seen.append(dict(self.headers.items()))
            self.send_response(302 if self.path == "/there" else 200)
            self.send_header("Set-Cookie", "secret=1; Path=/")
            if self.path == "/there":
                self.send_header("Location", to)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def get(tmp_path, url):
    return Downloads(tmp_path / "cache", lambda line: None, pauses=(), timeout=10).get(url)


@pytest.mark.parametrize("kind", ["file", "ftp", "data"])
def test_a_redirect_leads_to_the_web_alone(tmp_path, kind):
    (tmp_path / "secret").write_text("secret")
    with web("http://127.0.0.1:1/") as (other, asked):
        to = {
            "file": f"file://{tmp_path}/secret",
            "ftp": other.replace("http", "ftp") + "/a",
            "data": "data:text/plain,secret",
        }[kind]
        with (
            web(to) as (url, _),
            pytest.raises(UserError, match=f"(?i)redirect.* '{kind}:.* not (followed|allowed)") as raised,
        ):
            get(tmp_path, f"{url}/there")
    assert asked == []
    assert len(raised.value.lines) == 1
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.read_bytes() == b"secret"]


def test_another_host_gets_neither_credentials_nor_cookies(tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    with web("") as (other, asked), web(f"{other}/here") as (url, first):
        assert get(tmp_path, f"{url}/there").read_bytes() == b"ok"
    for headers in (*first, *asked):
        assert not {"authorization", "cookie", "proxy-authorization"} & {name.lower() for name in headers}
    assert (len(first), len(asked)) == (1, 1)
