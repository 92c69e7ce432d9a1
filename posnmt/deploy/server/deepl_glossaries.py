"""DeepL's interface for glossaries: version 2, each with one dictionary, and version 3, which can change."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ConfigDict, Field, model_validator

from posnmt.config.writing import base_code
from posnmt.deploy.server.deepl import ERRORS, takes_terms
from posnmt.deploy.server.fields import Body, body_of, read
from posnmt.deploy.server.glossaries import (
    MOST_BYTES,
    Dictionary,
    Glossary,
    dictionary,
    dictionary_of,
    entries_of,
    has_controls,
)
from posnmt.deploy.server.refusal import Refusal
from posnmt.deploy.server.service import Service

TSV = "text/tab-separated-values"
"""The media type of entries."""


INDEXED = re.compile(r"dictionaries\[([0-9]{1,3})\]\.(\w+)")
"""The name of a dictionary's field in a form, as DeepL's packages for Node.js and .NET send it."""


class DictionaryBody(Body):
    """A dictionary of a glossary: two languages, and the entries as a table."""

    model_config = ConfigDict(extra="forbid")

    source_lang: str
    target_lang: str
    entries: str = Field(description="a line for each entry: source term, tab or comma, target term")
    entries_format: Literal["tsv", "csv"] = "tsv"


class CreateQuery(DictionaryBody):
    """A new glossary with one dictionary."""

    name: str


class WithDictionaries(Body):
    """A request with dictionaries, whose fields have an index if it is a form."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _of_form(cls, values: Any) -> Any:
        indexed: dict[int, dict[str, Any]] = {}
        plain = {}
        for name, value in values.items():
            if match := INDEXED.fullmatch(name):
                indexed.setdefault(int(match[1]), {})[match[2]] = value
            else:
                plain[name] = value
        return plain | {"dictionaries": [indexed[at] for at in sorted(indexed)]} if indexed else plain


class CreateQuery3(WithDictionaries):
    """A request for a new glossary, with a list of dictionaries."""

    name: str
    dictionaries: list[DictionaryBody]


class ChangeQuery(WithDictionaries):
    """A change of a glossary: its name, and entries to add to one of its dictionaries."""

    name: str | None = None
    dictionaries: list[DictionaryBody] = Field([], max_length=1)


class PairQuery(Body):
    """The languages that identify a dictionary of a glossary."""

    source_lang: str
    target_lang: str


def routes(service: Service) -> APIRouter:
    """Return a router with the routes for glossaries, of versions 2 and 3."""
    router = APIRouter(tags=["DeepL"])
    _add_version_2(router, service)
    _add_version_3(router, service)
    return router


def pairs_with_terms(service: Service) -> list[tuple[str, str]]:
    """The pairs of languages, without regions, whose model takes a glossary."""
    models = [each for each in service.models.all if service.models.between(each.source, each.target) is each]
    pairs = [(base_code(each.source), base_code(each.target)) for each in models if takes_terms(each)]
    return list(dict.fromkeys(pairs))


def _add_version_2(router: APIRouter, service: Service) -> None:
    glossaries = service.glossaries

    @router.get("/v2/glossary-language-pairs", responses=ERRORS)
    async def language_pairs(request: Request) -> dict[str, Any]:
        """List the pairs of languages for which a glossary can be used."""
        service.client(request)
        pairs = pairs_with_terms(service)
        return {"supported_languages": [{"source_lang": source, "target_lang": target} for source, target in pairs]}

    @router.post("/v2/glossaries", status_code=201, responses=ERRORS, openapi_extra=body_of(CreateQuery))
    async def create(request: Request) -> dict[str, Any]:
        """Create a glossary with one dictionary."""
        query = await read(request, CreateQuery)
        service.client(request)
        name, new = await asyncio.to_thread(_new, service, query.name, [query])
        return _of_version_2(await asyncio.to_thread(glossaries.create, service.holder(request), name, new))

    @router.get("/v2/glossaries", responses=ERRORS)
    async def listed(request: Request) -> dict[str, Any]:
        """List the glossaries with one dictionary."""
        service.client(request)
        own = glossaries.of(service.holder(request))
        return {"glossaries": [_of_version_2(each) for each in own if len(each.dictionaries) == 1]}

    @router.get("/v2/glossaries/{glossary_id}", responses=ERRORS)
    async def details(request: Request, glossary_id: str) -> dict[str, Any]:
        """Describe a glossary: its name, languages and number of entries."""
        service.client(request)
        return _of_version_2(glossaries.get(service.holder(request), glossary_id))

    @router.get("/v2/glossaries/{glossary_id}/entries", responses=ERRORS)
    async def entries(request: Request, glossary_id: str) -> Response:
        """The entries of a glossary as a table with tabs."""
        service.client(request)
        accepted = [each.partition(";")[0].strip() for each in request.headers.get("accept", "*/*").split(",")]
        if not {TSV, "text/*", "*/*", ""} & set(accepted):
            raise Refusal(415, f"entries have the type {TSV}")
        found = _single(glossaries.get(service.holder(request), glossary_id))
        return Response(_table(found), media_type=TSV)

    @router.delete("/v2/glossaries/{glossary_id}", status_code=204, responses=ERRORS)
    async def delete(request: Request, glossary_id: str) -> None:
        """Delete a glossary with its entries."""
        service.client(request)
        await asyncio.to_thread(glossaries.delete, service.holder(request), glossary_id)


def _add_version_3(router: APIRouter, service: Service) -> None:
    glossaries = service.glossaries

    @router.post("/v3/glossaries", status_code=201, responses=ERRORS, openapi_extra=body_of(CreateQuery3))
    async def create(request: Request) -> dict[str, Any]:
        """Create a glossary with one dictionary or several."""
        query = await read(request, CreateQuery3)
        service.client(request)
        name, new = await asyncio.to_thread(_new, service, query.name, query.dictionaries)
        return _of_version_3(await asyncio.to_thread(glossaries.create, service.holder(request), name, new))

    @router.get("/v3/glossaries", responses=ERRORS)
    async def listed(request: Request) -> dict[str, Any]:
        """List the glossaries, with their dictionaries but without entries."""
        service.client(request)
        return {"glossaries": [_of_version_3(each) for each in glossaries.of(service.holder(request))]}

    @router.get("/v3/glossaries/{glossary_id}", responses=ERRORS)
    async def details(request: Request, glossary_id: str) -> dict[str, Any]:
        """Describe a glossary: its name, and its dictionaries without their entries."""
        service.client(request)
        return _of_version_3(glossaries.get(service.holder(request), glossary_id))

    @router.patch("/v3/glossaries/{glossary_id}", responses=ERRORS, openapi_extra=body_of(ChangeQuery))
    async def change(request: Request, glossary_id: str) -> dict[str, Any]:
        """Change the name of a glossary, or add entries to a dictionary."""
        query = await read(request, ChangeQuery)
        service.client(request)
        name, new = await asyncio.to_thread(_new, service, query.name, query.dictionaries)
        holder = service.holder(request)
        return _of_version_3(await asyncio.to_thread(glossaries.change, holder, glossary_id, name, new, add=True))

    @router.delete("/v3/glossaries/{glossary_id}", status_code=204, responses=ERRORS)
    async def delete(request: Request, glossary_id: str) -> None:
        """Delete a glossary with all of its dictionaries."""
        service.client(request)
        await asyncio.to_thread(glossaries.delete, service.holder(request), glossary_id)

    @router.get("/v3/glossaries/{glossary_id}/entries", responses=ERRORS)
    async def entries(request: Request, glossary_id: str) -> dict[str, Any]:
        """Return the entries of a dictionary as a table with tabs."""
        query = await read(request, PairQuery)
        service.client(request)
        found = dictionary_of(glossaries.get(service.holder(request), glossary_id), _pair(query))
        return {"dictionaries": [{**_languages(found), "entries": _table(found), "entries_format": "tsv"}]}

    @router.put("/v3/glossaries/{glossary_id}/dictionaries", responses=ERRORS, openapi_extra=body_of(DictionaryBody))
    async def put(request: Request, glossary_id: str) -> dict[str, Any]:
        """Put a dictionary in place of the one of the same languages, or add it."""
        query = await read(request, DictionaryBody)
        service.client(request)
        _, [new] = await asyncio.to_thread(_new, service, None, [query])
        await asyncio.to_thread(glossaries.change, service.holder(request), glossary_id, None, [new])
        return _counted(new)

    @router.delete("/v3/glossaries/{glossary_id}/dictionaries", status_code=204, responses=ERRORS)
    async def delete_dictionary(request: Request, glossary_id: str) -> None:
        """Delete the dictionary of a pair of languages."""
        query = await read(request, PairQuery)
        service.client(request)
        await asyncio.to_thread(glossaries.delete, service.holder(request), glossary_id, _pair(query))


def _new(service: Service, name: str | None, given: Sequence[DictionaryBody]) -> tuple[Any, list[Dictionary]]:
    """The name and the dictionaries that a request gives, checked.

    Raises:
        Refusal: the name is empty or too long, two dictionaries have the same languages, no model can use one, or its
            entries are wrong.
    """
    if name is not None and (not name.strip() or len(name.encode("utf-8", "surrogatepass")) > MOST_BYTES):
        raise Refusal(400, f"Invalid request: name: a name has 1 to {MOST_BYTES:,} bytes")
    if name is not None and has_controls(name):
        raise Refusal(400, "Invalid request: name: a control character")
    pairs, supported = list(map(_pair, given)), pairs_with_terms(service)
    for pair in pairs:
        if pair not in supported:
            listed = ", ".join(map("-".join, supported)) or "none"
            raise Refusal(400, f"a glossary for {'-'.join(pair)} cannot be used here; supported: {listed}")
    if len(set(pairs)) < len(pairs):
        raise Refusal(400, "Invalid request: dictionaries: two of them have the same languages")
    named = zip(given, pairs, strict=True)
    return name, [dictionary(*pair, entries_of(each.entries, each.entries_format, pair)) for each, pair in named]


def _pair(query: DictionaryBody | PairQuery) -> tuple[str, str]:
    """The codes of a dictionary's languages, without region."""
    return base_code(query.source_lang), base_code(query.target_lang)


def _single(glossary: Glossary) -> Dictionary:
    """The only dictionary of a glossary.

    Raises:
        Refusal: it has none or several.
    """
    if len(glossary.dictionaries) != 1:
        count = len(glossary.dictionaries)
        raise Refusal(400, f"the glossary has {count} dictionaries; see /v3/glossaries/{glossary.glossary_id}")
    return glossary.dictionaries[0]


def _table(one: Dictionary) -> str:
    """The entries as a table with tabs."""
    return "\n".join(map("\t".join, one.entries.items()))


def _languages(one: Dictionary) -> dict[str, str]:
    return {"source_lang": one.source, "target_lang": one.target}


def _counted(one: Dictionary) -> dict[str, Any]:
    """Describe a dictionary by its languages and its number of entries."""
    return {**_languages(one), "entry_count": len(one.entries)}


def _of_version_2(glossary: Glossary) -> dict[str, Any]:
    """A glossary with one dictionary, without its entries."""
    return {**_facts(glossary), "ready": True, **_counted(_single(glossary))}


def _of_version_3(glossary: Glossary) -> dict[str, Any]:
    """Describe a glossary and its dictionaries, without their entries."""
    return {**_facts(glossary), "dictionaries": list(map(_counted, glossary.dictionaries))}


def _facts(glossary: Glossary) -> dict[str, Any]:
    return {"glossary_id": glossary.glossary_id, "name": glossary.name, "creation_time": glossary.created}
