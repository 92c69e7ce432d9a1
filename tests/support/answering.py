"""A server in a thread of the test, over a real connection: its parts can be looked at, and its settings are fields."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import requests
import uvicorn

from posnmt.deploy.server.app import application
from posnmt.deploy.server.clients import Keys
from posnmt.deploy.server.command import address, listening
from posnmt.deploy.server.metrics import Metrics
from posnmt.deploy.server.models import Choice, Models, load
from posnmt.deploy.server.service import Service
from posnmt.deploy.server.settings import Settings
from tests.support.serving import LATEST
from tests.support.untrained import LEARNED


class Answering:
    """A running server.

    Attributes:
        url: its address.
        service: its parts.
    """

    def __init__(self, url, service):
        self.url, self.service = url, service

    def post(self, path, **parts):
        """The answer to a POST; see `requests.post`."""
        return requests.post(self.url + path, timeout=LATEST, **parts)

    def get(self, path, **parts):
        """The answer to a GET."""
        return requests.get(self.url + path, timeout=LATEST, **parts)

    def head(self, path, **parts):
        """The answer to a HEAD."""
        return requests.head(self.url + path, timeout=LATEST, **parts)

    def send(self, name, content, path="/translate_file", **fields):
        """The answer to the upload of a document from English to German, unless fields say otherwise."""
        languages = {"source": "en", "target": "de"} if path == "/translate_file" else {"target_lang": "DE"}
        return self.post(path, files={"file": (name, content)}, data=languages | fields)

    def translation(self, name, content, **fields):
        """The translation of a document: its name and its bytes."""
        answer = self.send(name, content, **fields)
        assert answer.status_code == 200, answer.text
        place = answer.json()["translatedFileUrl"]
        assert place.startswith(f"{self.url}/download_file/")
        return place.rpartition("/")[2].partition(".")[2], self.get(place.removeprefix(self.url)).content


@contextmanager
def answering(settings=None, languages=(("en", "de"),), keys=(), changed=lambda app: None, folder=LEARNED):
    """A server of a run, once for each pair of languages; `changed` may add routes to it."""
    settings, metrics = settings or Settings(), Metrics()
    chosen = [Choice("-".join(pair), folder, pair) for pair in languages]
    models = Models([load(choice, "torch", "model", {}, settings, metrics) for choice in chosen])
    service = Service(models, Keys(dict(keys)), settings)
    app = application(service, metrics)
    changed(app)
    config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", lifespan="on", proxy_headers=False)
    with listening("127.0.0.1", 0) as listener:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        end = time.monotonic() + LATEST
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < end
            time.sleep(0.01)
        try:
            yield Answering(address(listener), service)
        finally:
            server.should_exit = True
            thread.join(LATEST)
