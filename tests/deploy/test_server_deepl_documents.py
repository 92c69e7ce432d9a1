"""Documents of DeepL's interface, asked by DeepL's own package: upload, status, download."""

from __future__ import annotations

import asyncio
import io
import time
from types import SimpleNamespace

import deepl
import pytest

from posnmt.deploy.server.settings import Settings
from tests.support.answering import answering
from tests.support.commands import run
from tests.support.untrained import LEARNED

PAGE = "<h1>uns mebu zabi</h1>\n<p>uns <i>leve</i>. Bevu sipo.\n"
SENTENCES = ["uns mebu zabi", "uns leve.", "Bevu sipo."]


@pytest.fixture(scope="module")
def served():
    with answering(languages=(("en", "de"), ("ru", "de"))) as server:
        yield server


@pytest.fixture
def client(served):
    return deepl.DeepLClient("any key", server_url=served.url)


@pytest.fixture(scope="module")
def expected():
    return run("translate", LEARNED, "--document", "html", stdin=PAGE)[0]


def upload(client, content=PAGE, **options):
    options = {"filename": "page.html", "source_lang": "EN", "target_lang": "DE", **options}
    return client.translate_document_upload(content, **options)


def ended(client, handle):
    """The status of a document that is translated or cannot be."""
    end = time.monotonic() + 60
    while (status := client.translate_document_get_status(handle)).ok and not status.done:
        assert time.monotonic() < end
        time.sleep(0.05)
    return status


def test_a_document_by_deepls_own_call(client, expected, tmp_path, monkeypatch):
    """Which asks again after five seconds; here sooner."""
    clock = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(seconds / 50))
    monkeypatch.setattr(deepl.translator, "time", clock)
    (tmp_path / "page.html").write_text(PAGE)
    before = client.get_usage().character.count
    status = client.translate_document_from_filepath(
        tmp_path / "page.html", tmp_path / "new.html", source_lang="EN", target_lang="DE"
    )
    assert (tmp_path / "new.html").read_text() == expected
    assert (status.status, status.billed_characters) == (status.Status.DONE, sum(map(len, SENTENCES)))
    assert client.get_usage().character.count - before == sum(map(len, SENTENCES))


def test_a_document_is_downloaded_once_with_its_key(client, expected, served):
    handle = upload(client)
    assert ended(client, handle).done
    wrong = deepl.DocumentHandle(handle.document_id, handle.document_key[::-1])
    for call in (client.translate_document_get_status, client.translate_document_download):
        with pytest.raises(deepl.DeepLException, match="Not found"):
            call(wrong)
    assert served.get(f"/download_file/{handle.document_id}.html").status_code == 404  # has no key
    output = io.BytesIO()
    client.translate_document_download(handle, output)
    assert output.getvalue().decode() == expected
    for call in (client.translate_document_get_status, client.translate_document_download):
        with pytest.raises(deepl.DeepLException, match="Not found"):
            call(handle)


def test_the_states_of_a_document(client, expected, served, monkeypatch):
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 1)  # of what is not ready
    held = served.service.held
    free, held._turns = held._turns, asyncio.Semaphore(0)
    try:
        handle = upload(client)
        assert client.translate_document_get_status(handle).status.value == "queued"
        with pytest.raises(deepl.DocumentNotReadyException, match="Document not ready"):
            client.translate_document_download(handle)
        held._turns._loop.call_soon_threadsafe(held._turns.release)
        assert ended(client, handle).done
    finally:
        held._turns = free
    broken = upload(client, "<tmx>", filename="a.tmx")
    status = ended(client, broken)
    assert (status.status.value, status.billed_characters) == ("error", None)
    assert "not well-formed XML" in status.error_message
    with pytest.raises(deepl.DeepLException, match=r"Bad request"):
        client.translate_document_download(broken)


def test_the_language_of_a_document_is_detected(client):
    russian = upload(client, "<p>Это предложение на русском языке.</p>", source_lang=None)
    assert ended(client, russian).done
    french = ended(client, upload(client, "Bonjour tout le monde, comment allez-vous ?", source_lang=None))
    assert french.error_message.startswith("the text is in French (fr), not in en or ru")


def test_what_an_upload_cannot_have(client):
    for options, message in [
        ({"filename": "a.docx"}, "a Word document is not read"),
        ({"filename": "a.png"}, r"a file with the ending '.png' is not read \(a.png\); send one of .txt"),
        ({"target_lang": "FR"}, "FR is not supported as a target language"),
        ({"source_lang": "FR"}, "FR is not supported as a source language"),
        ({"output_format": "docx"}, "output_format: a translation has the format of its document, html"),
        ({"formality": "more"}, "formality: not supported by this server for documents"),
    ]:
        with pytest.raises(deepl.DeepLException, match=message):
            upload(client, **options)
    assert ended(client, upload(client, output_format="html", formality="prefer_less")).done
    assert ended(client, upload(client, extra_body_parameters={"filename": "b.txt"})).done


def test_documents_wait_for_room_in_the_queue():
    settings = Settings(request_lines=2, queue_characters=100)
    text = "uns mebu zabi\n" * 9
    expected = run("translate", LEARNED, "--document", "text", stdin=text)[0]
    with answering(settings) as server:
        client = deepl.DeepLClient("any key", server_url=server.url)
        for handle in [upload(client, text, filename="a.txt") for _ in range(6)]:
            assert ended(client, handle).error_message is None
            output = io.BytesIO()
            client.translate_document_download(handle, output)
            assert output.getvalue().decode() == expected
        queue = server.service.models.all[0].queue
        assert (queue.size, queue.jobs) == (0, 0)
