"""What the interfaces share: who asks, which model answers, and how a translation waits for its turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from fastapi import Request

from posnmt.base import plugins
from posnmt.base.errors import UserError, printable
from posnmt.data.lines import checked_lines
from posnmt.deploy.server.clients import Keys, Rate, digest
from posnmt.deploy.server.glossaries import Glossaries
from posnmt.deploy.server.held import Held
from posnmt.deploy.server.languages import Undecided, detect_among, match
from posnmt.deploy.server.models import Model, Models
from posnmt.deploy.server.queue import Full, Job
from posnmt.deploy.server.readers import Readers
from posnmt.deploy.server.refusal import Refusal, later
from posnmt.deploy.server.settings import MOST_BEAM, Settings
from posnmt.deploy.server.text import join, split
from posnmt.translate.requests import Search, numbered
from posnmt.translate.terms import Terms
from posnmt.translate.translations import Translation, losses

WARNING = "X-Posnmt-Warning"
"""The header of warnings where an interface has no field for them."""

LONGEST_WARNING = 4000
"""Most characters of this header: clients limit the lines of a head."""

EVERYBODY = ""
"""Whose characters are counted where there are no keys: counts of addresses would grow without end."""

BUSY = "the server has as much work as it can do in time; send the request again"
"""What a client is told whose lines find no place in the queue."""

GONE = 499
"""The status that is counted where a client has gone before its answer."""


TERMS = 10
"""A sentence with terms of a glossary may cost this many times as much as the longest line without terms."""

_GROUPS = count()
"""Numbers of groups of lines that are translated together, so that no group has lines of two requests."""


@dataclass(frozen=True)
class Translated:
    """A text and its translation.

    Attributes:
        translations: of its lines.
        ends: the line ends between them.
    """

    translations: list[Translation]
    ends: list[str]

    def text(self, rank: int = 0) -> str:
        """The text of the lines' best translations, or of the next ones; the best where a line has fewer."""
        return join(
            [each.texts[rank] if rank < len(each.texts) else each.text for each in self.translations], self.ends
        )

    @property
    def source(self) -> str:
        """Return the text that was translated, with its line ends."""
        return join([each.request.line for each in self.translations], self.ends)

    def alternatives(self, count: int) -> list[str]:
        """Up to so many other translations, best first."""
        others = dict.fromkeys(self.text(rank) for rank in range(1, count + 1))
        others.pop(self.text(), None)
        return list(others)


class Service:
    """The models with the limits of those who use them, and the documents that these sent."""

    def __init__(self, models: Models, keys: Keys, settings: Settings, glossaries: Glossaries | None = None) -> None:
        self.models, self.keys, self.settings = models, keys, settings
        self.held = Held(settings)
        self.glossaries = glossaries or Glossaries()
        self.file_readers, self.text_readers = Readers(settings.timeout), Readers(settings.timeout)
        self._used: Counter[str] = Counter()
        self._rate, self._rate_characters = Rate(settings.rate), Rate(settings.rate_characters)

    def client(self, request: Request, key: str | None = None) -> str:
        """Who asks: the owner of an API key, or an address where there are no keys.

        Args:
            key: a key in the fields of the request; otherwise `Authorization` has it.

        Raises:
            Refusal: no such key, or too many requests.
        """
        if self.keys:
            given = _key(request, key)
            owner = self.keys.owner(given)
            if owner is None:
                what = "this API key is not known here" if given else "an API key is needed"
                raise Refusal(403, f"{what}; ask the operator of this server for one")
            client = owner
        else:
            client = request.client.host if request.client else "unknown"
        if wait := self._rate.wait(client):
            raise later(f"more than {self._rate.per_minute:,} requests a minute", wait)
        return client

    def holder(self, request: Request, key: str | None = None) -> str:
        """Whose glossaries a request may use: a digest of its key; where there are no keys, everybody's.

        A digest tells keys apart that have the same name, and does not change with the key's line in its file.

        Args:
            key: as in `client`, which has accepted it.
        """
        return digest(_key(request, key)).hex() if self.keys else EVERYBODY

    def between(self, source: str | None, target: str, texts: Sequence[str]) -> tuple[Model, float | None]:
        """The model for two languages, and the confidence if the source was detected.

        Args:
            source: a code; None: the language of the texts is detected.

        Raises:
            Refusal: no such model.
        """
        models = self.models
        into = match(target, models.targets)
        if into is None:
            raise Refusal(
                400, f"{target} is not supported as a target language; there are: {', '.join(models.targets)}"
            )
        confidence = None
        if source is None:
            source, confidence = self._detected("\n".join(texts), models.sources_of(into))
        model = models.between(source, into)
        if model is None:
            if match(source, models.sources) is None:
                listed = ", ".join(models.sources)
                raise Refusal(400, f"{source} is not supported as a source language; there are: {listed}")
            raise Refusal(400, f"{target} is not available as a target language from {source}")
        return model, confidence

    def _detected(self, text: str, codes: list[str]) -> tuple[str, float]:
        """One of some languages that a text is in, with a confidence of 0 to 1."""
        try:
            return detect_among(text, codes)
        except Undecided as undecided:
            raise Refusal(400, str(undecided)) from None

    def search(
        self,
        model: Model,
        nbest: int,
        scored: bool = False,
        aligned: bool = False,
        terms: Terms | None = None,
        **options: Any,
    ) -> Search:
        """The search for `nbest` translations of each line; the beam becomes at least as wide.

        Args:
            terms: a glossary; None: there is none.
            options: settings of `decode`; None: as the model has it.

        Raises:
            Refusal: too many translations, or alignments by a model that has none.
        """
        if aligned and not model.engine.aligns:
            raise Refusal(400, f"model {model.name} has no alignments; Transformers that PyTorch computes have")
        width = max(nbest, options.get("beam") or model.decode.beam)
        if width > MOST_BEAM and width != model.decode.beam:
            raise Refusal(400, f"at most {MOST_BEAM} translations of a text, and as wide a beam, can be asked for")
        others = {name: value for name, value in {**options, "beam": width}.items() if value is not None}
        return Search(model.decode.model_copy(update=others), nbest, scored, aligned, terms)

    async def translate(
        self, request: Request, client: str, model: Model, texts: Sequence[str], search: Search
    ) -> list[Translated]:
        """The translation of each text, in order.

        Raises:
            Refusal: too much text, a full queue, a line that the model cannot read, no time left, or nobody waits.
        """
        parts = [split(text) for text in texts]
        lines = [line for each, _ in parts for line in each]
        translations = iter(await self.lines(request, client, model, lines, search, sum(map(len, texts))))
        return [Translated([next(translations) for _ in each], ends) for each, ends in parts]

    async def lines(
        self,
        request: Request,
        client: str,
        model: Model,
        lines: Sequence[str],
        search: Search,
        size: int,
        context: Sequence[str] = (),
    ) -> list[Translation]:
        """The translation of each line, in order.

        Args:
            size: the characters of the texts that the lines are from.
            context: lines that stand before each of the lines; fewer than `model.engine.context`.

        Raises:
            Refusal: as `translate`.
        """
        settings, together = self.settings, 1 + len(context)
        lines = self._checked([each for line in lines for each in (*context, line)])
        work = max(size, sum(map(len, lines)))
        self.refuse_large(work, len(lines))
        longest = max(map(len, lines), default=0)
        if longest > settings.line_characters:
            what = f"a line of {longest:,} characters is longer than the {settings.line_characters:,} of a line"
            raise Refusal(413, f"{what}; write a sentence a line")
        groups = [str(next(_GROUPS)) for _ in lines[::together]] if context else []
        documents = [group for group in groups for _ in range(together)]
        if context:
            search = replace(search, decode=search.decode.model_copy(update={"join": together}))
        # Looking for terms of a glossary takes time, in which others are answered.
        job = await asyncio.to_thread(Job, numbered(lines, "text", documents=documents), search, together)
        if search.terms is not None and job.largest > TERMS * settings.line_characters:
            raise Refusal(413, "a sentence has too many words of the glossary; send shorter sentences")
        self._add(client, work, model, job)
        translations = await self._wait(request, model, job)
        self.count(client, size)
        return translations[together - 1 :: together]

    def refuse_large(self, characters: int, lines: int = 0) -> None:
        """Check the size of a request.

        Raises:
            Refusal: it is too large.
        """
        settings = self.settings
        if characters > settings.request_characters or lines > settings.request_lines:
            what = f"{characters:,} characters in {lines:,} lines" if lines else f"{characters:,} characters"
            most = f"{settings.request_characters:,} characters and {settings.request_lines:,} lines of a request"
            raise Refusal(413, f"{what} are more than the {most}; send fewer")

    def count(self, client: str, size: int) -> None:
        """Note that so many characters were translated for a client."""
        self._used[client if self.keys else EVERYBODY] += size

    def used(self, client: str) -> int:
        """Characters translated for a client since the start; where there are no keys, for everybody."""
        return self._used[client if self.keys else EVERYBODY]

    def _checked(self, lines: list[str]) -> list[str]:
        try:
            return checked_lines(lines, "text")
        except UserError as error:
            raise Refusal(400, f"Invalid request: {error.lines[0]}") from None

    def _add(self, client: str, size: int, model: Model, job: Job) -> None:
        """Put a job of so many characters into the queue; if it is refused, they do not count for its client's rate.

        Raises:
            Refusal: too many characters a minute, or a full queue.
        """
        self.charge(client, size)
        try:
            model.queue.add(job)
        except Full as full:
            self.give_back(client, size)
            raise later(BUSY, full.seconds) from None

    def charge(self, client: str, size: int) -> None:
        """Take so many characters from a client's rate.

        Raises:
            Refusal: too many characters a minute.
        """
        if wait := self._rate_characters.wait(client, size):
            raise later(f"more than {self._rate_characters.per_minute:,} characters a minute", wait)

    def give_back(self, client: str, size: int) -> None:
        """Return characters that `charge` took, and that are not translated."""
        self._rate_characters.give_back(client, size)

    async def _wait(self, request: Request, model: Model, job: Job) -> list[Translation]:
        """As `outcome`, where a line that the model cannot read is refused."""
        try:
            return await self.outcome(request, model, job)
        except UserError as error:
            raise Refusal(400, error.line()) from None

    async def outcome(self, request: Request | None, model: Model, job: Job) -> list[Translation]:
        """The translations of a job; if they come too late, or nobody waits for them, its lines leave the queue.

        Args:
            request: whose client may go; None: nobody is connected while the job is translated.

        Raises:
            Refusal: no time left, nobody waits, or a fault of a part of the model from outside.
            UserError: a line that the model cannot read.
        """
        result = asyncio.wrap_future(job.future)
        gone = asyncio.ensure_future(_disconnected(request) if request else asyncio.Event().wait())
        try:
            await asyncio.wait((result, gone), timeout=self.settings.timeout, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
        except Exception as error:
            if isinstance(error, UserError) or plugins.fault(error) is None:
                raise
            what = "a part of the model from outside posnmt has a fault, and the server's log has the details"
            raise Refusal(500, what) from None
        finally:
            gone.cancel()
            if not result.done():
                model.queue.drop(job)
                result.cancel()
        if gone.done():
            raise Refusal(GONE, "the client has gone")
        raise Refusal(504, f"the translation was not ready within {self.settings.timeout:g} seconds; send fewer texts")


def _key(request: Request, key: str | None) -> str:
    """The API key of a request, from its fields or else from its header; empty if there is none."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return key or (value.strip() if scheme.lower() in ("bearer", "deepl-auth-key") else "")


async def _disconnected(request: Request) -> None:
    """Wait until the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def warnings(model: Model, texts: Sequence[Translated]) -> list[str]:
    """Sentences that warn of long lines, of outputs that were cut, and of losses in translations."""
    translations = [each for text in texts for each in text.translations]
    decode, longest = model.decode, longest_trained(model)
    limited = sum(each.at_limit for each in translations)
    lengths = [len(each.source) if each.longest_part is None else each.longest_part for each in translations]
    longer = sum(longest is not None and length > longest for length in lengths)
    of = f"of {len(translations):,} lines"
    sentences = []
    if in_parts := sum(each.too_long for each in translations):
        sentences.append(f"{in_parts:,} {of} were too long for one piece and were translated in parts")
    if limited:
        limit = f"{decode.max_ratio:g} x source + {decode.max_extra} subwords"
        sentences.append(f"{limited:,} {of} reached the output limit of {limit}")
    if longer:
        sentences.append(f"{longer:,} {of} are longer than the {longest:,} subwords of the longest training sentence")
    if alone := sum(bool(each.request.document) and each.joined == 1 for each in translations):
        sentences.append(f"{alone:,} {of} were translated without the context, as they are too long together")
    if missing := sum(bool(each.missing_terms) for each in translations):
        sentences.append(f"{missing:,} {of} lack a term of the glossary in their translations")
    return [*sentences, *losses(translations)]


def longest_trained(model: Model) -> int | None:
    """Subwords of the longest source sentence in training, if recorded."""
    return model.trained["source"]["longest"] if model.trained else None


def warning_header(model: Model, texts: Sequence[Translated]) -> dict[str, str]:
    """The header with the warnings, if there are any."""
    return header_of(warnings(model, texts))


def header_of(sentences: Sequence[str]) -> dict[str, str]:
    """The header with some sentences, if there are any; signs that a header cannot have are escaped."""
    text = printable("; ".join(sentences)).encode("ascii", "backslashreplace").decode()[:LONGEST_WARNING]
    return {WARNING: text} if sentences else {}
