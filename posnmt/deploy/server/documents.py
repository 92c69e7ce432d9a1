"""Translate documents with the queue of a model. Each of their sentences waits as a line of a text does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request

from posnmt.base.errors import UserError
from posnmt.deploy.documents.formats import format_of_name
from posnmt.deploy.server.languages import match
from posnmt.deploy.server.models import Model
from posnmt.deploy.server.queue import Full, Job
from posnmt.deploy.server.refusal import Refusal, later
from posnmt.deploy.server.service import BUSY, Service, Translated, warnings
from posnmt.deploy.server.settings import Settings
from posnmt.translate import requests
from posnmt.translate.requests import Search
from posnmt.translate.translations import Translation

LARGER = 20
"""A document may have this many times the characters and sentences of a request. They are translated in portions."""

LONGEST_NAME = 100
"""Most characters of a document's name that are kept."""


@dataclass(frozen=True)
class Source:
    """Documents of one format that are translated together.

    Attributes:
        form: a name in `posnmt.deploy.documents.formats.FORMATS`.
        contents: the bytes of each.
        name: the name of the file, for messages.
        is_file: whether a client sent a file, and not texts in a request, which are not to wait for files.
    """

    form: str
    contents: Sequence[bytes]
    name: str
    is_file: bool = False

    @classmethod
    def sent(cls, name: str, content: bytes) -> Source:
        """A document that a client sent.

        Raises:
            Refusal: its format is not read.
        """
        name = "".join(filter(str.isprintable, name.replace("\\", "/").rpartition("/")[2]))[-LONGEST_NAME:]
        try:
            return cls(format_of_name(name), [content], name, is_file=True)
        except UserError as fault:
            raise Refusal(400, _said(fault)) from None

    def translated_name(self, target: str) -> str:
        """The name of the translation into a language, as LibreTranslate forms it: `page.html` → `page_de.html`."""
        path = Path(self.name)
        return f"{path.stem}_{target}{path.suffix}"


@dataclass(frozen=True)
class Result:
    """Documents that were translated.

    Attributes:
        contents: the bytes of each.
        model: the model that translated them.
        confidence: of the language, if it was detected.
        characters: characters of the sentences that were translated.
        notes: what became of their texts.
        warnings: what the client should know.
    """

    contents: list[bytes]
    model: Model
    confidence: float | None
    characters: int
    notes: list[str]
    warnings: list[str]


async def translate_documents(
    service: Service,
    source: Source,
    languages: tuple[str | None, str],
    client: str,
    request: Request | None = None,
    larger: int = 1,
) -> Result:
    """Translate documents sentence by sentence, as `posnmt translate` does.

    A sentence that the model refuses, or that has too many characters, stays as it is; a warning counts such sentences.

    Args:
        languages: codes of source and target; None: the language of the documents is detected.
        client: who asks; see `Service.client`.
        request: whose client waits; None: nobody is connected, so the first lines wait until the queue has room, too.
        larger: how many times the characters and lines of a request the documents may have.

    Raises:
        Refusal: documents that cannot be read, no such model, too much text, every sentence is refused, a full queue,
            no time left, or nobody waits.
    """
    model, confidence, texts = await _divided(service, source, languages, larger)
    _refuse_large([text for text, _ in texts], service.settings, larger)
    work = _Work(service, client, model, request)
    asked = [requests.Request(text, number, f"{source.name}:{line}") for number, (text, line) in enumerate(texts, 1)]
    results = await work.translations(asked)
    if work.refused and not any(results):
        too_long = len(work.refused[0][0].line) > service.settings.line_characters
        raise Refusal(413 if too_long else 400, _said(work.refused[0][1]))
    placed = [None if each is None else (each.text, bool(each.passed)) for each in results]
    answer = await _call(service, "written", source, model, translations=placed)
    done = [each for each in results if each is not None]
    characters = sum(len(each.request.line) for each in done)
    service.count(client, characters)
    doubts = warnings(model, [Translated(done, [])]) if done else []
    refused = work.warnings(len(texts))
    return Result(answer["contents"], model, confidence, characters, answer["notes"], [*refused, *doubts])


def any_model(service: Service, languages: tuple[str | None, str]) -> Model:
    """A model for two languages; if the source is None, it is to be detected, and this is one of the possible models.

    Raises:
        Refusal: no such model.
    """
    source, target = languages
    possible = service.models.sources_of(match(target, service.models.targets) or "")
    return service.between(source or next(iter(possible), ""), target, [])[0]


async def _divided(
    service: Service, source: Source, languages: tuple[str | None, str], larger: int
) -> tuple[Model, float | None, list[tuple[str, int]]]:
    """The model for documents, the confidence if their language was detected, and their sentences with their lines.

    Raises:
        Refusal: see `translate_documents`.
    """
    code, target = languages
    model, confidence = any_model(service, languages), None
    if code is None and source.form == "tmx" and len(service.models.sources_of(model.target)) > 1:
        raise Refusal(400, "a translation memory has texts in several languages; name the source language")
    most = larger * service.settings.request_lines
    answer = await _call(service, "sentences_of", source, model, most=most)
    if answer["segments"] > most:
        raise Refusal(413, f"{answer['segments']:,} segments are more than the {most:,} of a document; divide it")
    if code is None:
        first, (model, confidence) = model, service.between(None, target, [answer["sample"]])
        if model is not first:
            answer = await _call(service, "sentences_of", source, model, most=most)
    return model, confidence, [(text, line) for text, line in answer["texts"]]


async def _call(service: Service, function: str, source: Source, model: Model, **fields: Any) -> dict[str, Any]:
    """The answer of a function of `posnmt.deploy.documents.reader`.

    Raises:
        Refusal: a document cannot be read, or takes too long.
    """
    languages = (model.source, model.target)
    about = {"form": source.form, "name": source.name, "languages": languages, **fields}
    readers = service.file_readers if source.is_file else service.text_readers
    try:
        return await readers.call(function, list(source.contents), **about)
    except UserError as fault:
        raise Refusal(400, _said(fault)) from None


def _said(fault: UserError) -> str:
    """A fault in the words of a server, which has no options of a command line."""
    return fault.placed if "--" in (fault.todo or "") else fault.line()


def _refuse_large(lines: Sequence[str], settings: Settings, larger: int) -> None:
    """Check that documents are not too large.

    Raises:
        Refusal: they are.
    """
    size, characters = sum(map(len, lines)), larger * settings.request_characters
    if size > characters or len(lines) > larger * settings.request_lines:
        what = f"{size:,} characters in {len(lines):,} sentences are more than the {characters:,} characters"
        raise Refusal(413, f"{what} and {larger * settings.request_lines:,} sentences of a document; divide it")


class _Work:
    """The translation of sentences, a portion at a time.

    Attributes:
        refused: sentences that stay as they are, each with the fault.
    """

    def __init__(self, service: Service, client: str, model: Model, request: Request | None) -> None:
        self._service, self._client, self._model, self._request = service, client, model, request
        self._search: Search = service.search(model, 1)
        self._waits = request is None
        self.refused: list[tuple[requests.Request, UserError]] = []

    async def translations(self, asked: Sequence[requests.Request]) -> list[Translation | None]:
        """The translations of sentences; None: it is refused.

        Raises:
            Refusal: see `translate_documents`.
        """
        longest, results = self._service.settings.line_characters, dict[int, Translation | None]()
        short = [each for each in asked if len(each.line) <= longest]
        for each in asked:
            if len(each.line) > longest:
                what = f"a sentence of {len(each.line):,} characters is longer than the {longest:,} of a line"
                self.refused.append((each, UserError(what, each.where)))
        size = sum(len(each.line) for each in short)
        self._service.charge(self._client, size)
        try:
            for portion in _portions(short, self._service.settings):
                done = await self._translated(portion)
                results |= {each.number: translation for each, translation in zip(portion, done, strict=True)}
        except Refusal as refusal:
            if refusal.status == 429 and not results:
                self._service.give_back(self._client, size)
            raise
        return [results.get(each.number) for each in asked]

    def warnings(self, total: int) -> list[str]:
        """A sentence about the refused ones of so many, if there are any."""
        if not self.refused:
            return []
        return [f"{len(self.refused):,} of {total:,} sentences are not translated: {_said(self.refused[0][1])}"]

    async def _translated(self, portion: Sequence[requests.Request]) -> list[Translation | None]:
        """The translations of a portion; if the model refuses it, those of its halves."""
        try:
            job = await self._queued(portion)
            self._waits = True  # what is begun is finished
            return list(await self._service.outcome(self._request, self._model, job))
        except UserError as fault:
            if len(portion) == 1:
                self.refused.append((portion[0], fault))
                return [None]
        half = len(portion) // 2
        return [*await self._translated(portion[:half]), *await self._translated(portion[half:])]

    async def _queued(self, portion: Sequence[requests.Request]) -> Job:
        """The job of a portion, as soon as the queue has room for it.

        Raises:
            Refusal: the queue has none in time.
        """
        job, end = Job(portion, self._search), time.monotonic() + self._service.settings.timeout
        while True:
            try:
                self._model.queue.add(job)
                return job
            except Full as full:
                if not self._waits or time.monotonic() + full.seconds > end:
                    raise later(BUSY, full.seconds) from None
                await asyncio.sleep(full.seconds)


def _portions(asked: Sequence[requests.Request], settings: Settings) -> Iterator[list[requests.Request]]:
    """Sentences in portions, each within the limits of a request."""
    portion: list[requests.Request] = []
    size = 0
    for each in asked:
        if portion and (size + len(each.line) > settings.request_characters or len(portion) == settings.request_lines):
            yield portion
            portion, size = [], 0
        portion.append(each)
        size += len(each.line)
    if portion:
        yield portion
