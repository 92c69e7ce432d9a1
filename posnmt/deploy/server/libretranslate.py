"""LibreTranslate's interface."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from posnmt.deploy.documents.formats import NAMED
from posnmt.deploy.documents.raw import MARK
from posnmt.deploy.server.documents import LARGER, Source, translate_documents
from posnmt.deploy.server.downloads import download
from posnmt.deploy.server.fields import Body, body_of, read, read_upload, unknown
from posnmt.deploy.server.heads import IS_HEAD
from posnmt.deploy.server.held import Document
from posnmt.deploy.server.languages import detect, language_name, match
from posnmt.deploy.server.models import Model
from posnmt.deploy.server.refusal import Refusal
from posnmt.deploy.server.service import Service, header_of, warnings


class Keyed(Body):
    """The fields that every request may have."""

    model_config = ConfigDict(extra="allow")

    api_key: str | None = None
    secret: str | None = Field(None, description="has no effect: keys decide who may translate")


class Query(Keyed):
    """One text or several to translate."""

    q: str | list[str] = Field(description="the text, or a list of texts")
    source: str = Field(description="language code, or `auto`")
    target: str = Field(description="language code")
    format: str | None = Field("text", description="`text` or `html`")
    alternatives: int = Field(0, ge=0, description="number of other translations of each text; none of HTML")


class FileQuery(Keyed):
    """A document to translate, in the field `file` of a multipart form."""

    source: str = Field(description="language code, or `auto`")
    target: str = Field(description="language code")


class DetectQuery(Keyed):
    """A text in an unknown language."""

    q: str


class ErrorBody(BaseModel):
    """The body of an error: `error` says what is wrong."""

    error: str


LEAST = 0.05
"""Smallest probability of a language in an answer of /detect."""

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 403, 408, 413, 429, 500, 503, 504)
}


AUTO = "auto"
"""The code for a language that is to be detected."""

PAUSE = 500
"""Milliseconds without a new letter after which LibreTranslate's page asks for a translation."""


def routes(service: Service) -> APIRouter:
    """Return a router with the routes of LibreTranslate's interface."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post("/translate", responses=ERRORS, openapi_extra=body_of(Query))
    async def translate(request: Request) -> JSONResponse:
        """Translate one text or several sentence by sentence. Line ends stay, and so does the markup of HTML."""
        query = await read(request, Query)
        client = service.client(request, query.api_key)
        if query.format not in ("text", "html", "", None):
            raise Refusal(400, f"{query.format} format is not supported; send text or html")
        texts = [query.q] if isinstance(query.q, str) else query.q
        translate_all = _of_html if query.format == "html" else _of_texts
        translated, others, detected, doubts = await translate_all(service, request, client, query, texts)
        answer: dict[str, Any] = {"translatedText": translated}
        if detected:
            answer["detectedLanguage"] = [detected for _ in texts]
        if query.alternatives:
            answer["alternatives"] = others
        if isinstance(query.q, str):
            answer = {name: values[0] for name, values in answer.items()}
        return JSONResponse(answer, headers=header_of([*unknown(query), *doubts]))

    @router.post("/translate_file", responses=ERRORS, openapi_extra=body_of(FileQuery, file=True))
    async def translate_file(request: Request) -> JSONResponse:
        """Translate a document. The answer has the address of its translation, which can be fetched once."""
        query, name, content = await read_upload(request, FileQuery)
        client = service.client(request, query.api_key)
        source, languages = Source.sent(name, content), _languages(query)
        document = service.held.begin(Document(client, source.name))
        try:
            async with service.held.turn(document):
                result = await translate_documents(service, source, languages, client, request, LARGER)
                document.name = source.translated_name(result.model.target)
                service.held.finish(document, result.contents[0])
        finally:
            if document.state != "done":
                service.held.drop(document)
        place = f"{request.base_url}download_file/{document.code}.{quote(document.name, safe='')}"
        answer: dict[str, Any] = {"translatedFileUrl": place, "notes": result.notes}
        if result.confidence is not None:
            answer["detectedLanguage"] = _detected(result.model, result.confidence)
        return JSONResponse(answer, headers=header_of([*unknown(query), *result.warnings]))

    @router.get("/download_file/{name}", responses={404: {"model": ErrorBody}}, response_class=Response)
    async def download_file(request: Request, name: str) -> Response:
        """Fetch the translation of a document, which is then deleted. Its address is the only key that it needs."""
        document = service.held.find(name.partition(".")[0])
        if document is None or document.state != "done":
            what = "no such translation; it is deleted when it was fetched, or"
            raise Refusal(404, f"{what} after {service.settings.kept_seconds:g} seconds")
        if IS_HEAD in request.scope:
            return download(document.name, b"", {"Content-Length": str(document.size)})
        return download(document.name, service.held.fetch(document), {})

    @router.get("/frontend/settings")
    async def frontend_settings() -> dict[str, Any]:
        """State the limits and choices that a page needs."""
        target = service.models.targets[0]
        return {
            "apiKeys": bool(service.keys),
            "charLimit": service.settings.request_characters,
            "filesTranslation": True,
            "frontendTimeout": PAUSE,
            "keyRequired": bool(service.keys),
            "language": {
                "source": {"code": AUTO, "name": "Auto Detect"},
                "target": {"code": target, "name": language_name(target)},
            },
            "suggestions": False,
            "supportedFilesFormat": list(NAMED),
        }

    @router.post("/suggest", responses={403: {"model": ErrorBody}})
    async def suggest() -> None:
        """Refuse a better translation, as LibreTranslate does unless it collects them."""
        raise Refusal(403, "suggestions are disabled on this server: a model learns from its training texts alone")

    @router.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """List the languages, each with its target languages; those without any are targets alone."""
        models = service.models
        return [
            {"code": code, "name": language_name(code), "targets": models.targets_of(code)}
            for code in dict.fromkeys([*models.sources, *models.targets])
        ]

    @router.post("/detect", responses=ERRORS, openapi_extra=body_of(DetectQuery))
    async def detect_language(request: Request) -> JSONResponse:
        """List the possible languages of a text, most probable first, if their confidence is at least 5 percent.

        If a language is one of the server's source languages, its code is the server's.
        """
        query = await read(request, DetectQuery)
        service.client(request, query.api_key)
        shares = {match(code, service.models.sources) or code: share for code, share in detect(query.q).items()}
        found = [
            {"confidence": round(100 * share, 1), "language": code} for code, share in shares.items() if share >= LEAST
        ]
        return JSONResponse(found, headers=header_of(unknown(query)))

    @router.get("/health", responses={503: {"description": "a translating thread has ended"}})
    async def health() -> JSONResponse:
        """State whether the server can translate."""
        alive = all(model.worker.is_alive() for model in service.models.all)
        return JSONResponse({"status": "ok" if alive else "error"}, 200 if alive else 503)

    return router


Answer = tuple[list[str], list[list[str]], dict[str, Any] | None, list[str]]
"""Of each text its translation and other translations; the language, if it was detected; and warnings."""


def _languages(query: Query | FileQuery) -> tuple[str | None, str]:
    """The codes of source and target; None: the source is to be detected."""
    return None if query.source == AUTO else query.source, query.target


def _detected(model: Model, confidence: float) -> dict[str, Any]:
    return {"confidence": round(100 * confidence, 1), "language": model.source}


async def _of_texts(service: Service, request: Request, client: str, query: Query, texts: list[str]) -> Answer:
    model, confidence = service.between(*_languages(query), texts)
    search = service.search(model, 1 + query.alternatives)
    translated = await service.translate(request, client, model, texts, search)
    detected = None if confidence is None else _detected(model, confidence)
    others = [each.alternatives(query.alternatives) for each in translated]
    return [each.text() for each in translated], others, detected, warnings(model, translated)


async def _of_html(service: Service, request: Request, client: str, query: Query, texts: list[str]) -> Answer:
    """The answer for texts with markup. Each is read as a page, and a mark says that its characters are UTF-8.

    Raises:
        Refusal: see `translate_documents`; or there are too many texts or characters, or half of a surrogate pair.
    """
    service.refuse_large(sum(map(len, texts)), len(texts))
    try:
        contents = [f"{MARK}{text}".encode() for text in texts]
    except UnicodeEncodeError:
        raise Refusal(400, "Invalid request: half of a surrogate pair, which is no character") from None
    result = await translate_documents(service, Source("html", contents, "q"), _languages(query), client, request)
    doubts = ["alternatives are not made of HTML"] * bool(query.alternatives) + result.warnings
    detected = None if result.confidence is None else _detected(result.model, result.confidence)
    return [each.decode("utf-8-sig") for each in result.contents], [[] for _ in texts], detected, doubts
