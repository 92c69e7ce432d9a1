"""A real HTTP server on loopback that serves files as good and bad servers do; and archives to serve."""

import hashlib
import io
import tarfile
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """A file, and how it is served.

    Attributes:
        data: its bytes.
        ranges: "if-range" (as RFC 9110 says), "always" (whatever If-Range says), "never".
        validators: whether ETag and Last-Modified are sent.
        length: Content-Length to claim, or None for none at all.
        drops: for each coming answer, the bytes after which the connection breaks; then no more.
        statuses: for each coming request, a status to answer instead; then the file.
        pause: set to let what is held back after the first half go.
    """

    data: bytes
    ranges: str = "if-range"
    validators: bool = True
    length: int | None = -1
    drops: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    pause: threading.Event | None = None

    @property
    def etag(self):
        return f'"{hashlib.md5(self.data).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.requests.append((self.path, self.headers.get("Range")))
        file = self.server.files.get(self.path)
        if file is None:
            return self.send_error(404)
        if file.statuses:
            self.send_response(file.statuses.pop(0))
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        start = 0
        wanted, condition = self.headers.get("Range"), self.headers.get("If-Range")
        if wanted and file.ranges != "never" and (file.ranges == "always" or condition == file.etag):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(file.data) - 1}/{len(file.data)}")
        else:
            self.send_response(200)
        if file.validators:
            self.send_header("ETag", file.etag)
        if file.length is not None:
            self.send_header("Content-Length", str(len(file.data) - start if file.length < 0 else file.length))
        self.end_headers()
        body = file.data[start:]
        if file.drops:
            self.wfile.write(body[: file.drops.pop(0)])
            return self.connection.close()
        if file.pause is not None:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            file.pause.wait(60)
            body = body[len(body) // 2 :]
        return self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """Paths → files, and the requests that came, as (path, Range)."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, Served] = {}
        self.requests: list[tuple[str, str | None]] = []

    def handle_error(self, request, client_address):
        """A client that goes away is no fault here."""

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}{path}"

    def serve(self, path, data, **how):
        """Serve bytes at a path; the URL."""
        self.files[path] = Served(data, **how)
        return self.url(path)


@contextmanager
def serving():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def tar(path, mode, texts, links=()):
    """An archive with a folder, files (name → bytes) and links (name, kind) at a path; the path."""
    with tarfile.open(path, mode) as archive:
        folder = tarfile.TarInfo("x")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in texts.items():
            item = tarfile.TarInfo(name)
            item.size = len(data)
            archive.addfile(item, io.BytesIO(data))
        for name, kind in links:
            item = tarfile.TarInfo(name)
            item.type, item.linkname = kind, "/etc/passwd"
            archive.addfile(item)
    return path


def zipped(path, texts):
    """The same as a zip archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("x")
        for name, data in texts.items():
            archive.writestr(name, data)
    return path
