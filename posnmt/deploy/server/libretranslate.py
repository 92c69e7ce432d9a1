"""LibreTranslate's interface."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from posnmt.deploy.server.fields import Body, body_of, read
from posnmt.deploy.server.languages import detect, language_name, match
from posnmt.deploy.server.refusal import Refusal
from posnmt.deploy.server.service import Service, warning_header


class Query(Body):
    """One text or several to translate."""

    q: str | list[str] = Field(description="the text, or a list of texts")
    source: str = Field(description="language code, or `auto`")
    target: str = Field(description="language code")
    format: str = Field("text", description="`text`")
    alternatives: int = Field(0, ge=0, description="number of other translations of each text")
    api_key: str | None = None


class DetectQuery(Body):
    """A text in an unknown language."""

    q: str
    api_key: str | None = None


class ErrorBody(BaseModel):
    """An error."""

    error: str


LEAST = 0.05
"""Smallest probability of a language in an answer of /detect."""

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 403, 408, 413, 429, 500, 503, 504)
}


def routes(service: Service) -> APIRouter:
    """The routes of this interface."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post("/translate", responses=ERRORS, openapi_extra=body_of(Query))
    async def translate(request: Request) -> JSONResponse:
        """Translate one text or several sentence by sentence. Line ends stay."""
        query = await read(request, Query)
        client = service.client(request, query.api_key)
        if query.format != "text":
            raise Refusal(400, f"{query.format} format is not supported; send text")
        texts = [query.q] if isinstance(query.q, str) else query.q
        model, confidence = service.between(None if query.source == "auto" else query.source, query.target, texts)
        search = service.search(model, 1 + query.alternatives)
        translated = await service.translate(request, client, model, texts, search)
        answer: dict[str, Any] = {"translatedText": [each.text() for each in translated]}
        if confidence is not None:
            detected = {"confidence": round(100 * confidence, 1), "language": model.source}
            answer["detectedLanguage"] = [detected for _ in texts]
        if query.alternatives:
            answer["alternatives"] = [each.alternatives(query.alternatives) for each in translated]
        if isinstance(query.q, str):
            answer = {name: values[0] for name, values in answer.items()}
        return JSONResponse(answer, headers=warning_header(model, translated))

    @router.get("/languages")
    async def languages() -> list[dict[str, Any]]:
        """List the source languages, each with its target languages."""
        return [
            {"code": code, "name": language_name(code), "targets": service.models.targets_of(code)}
            for code in service.models.sources
        ]

    @router.post("/detect", responses=ERRORS, openapi_extra=body_of(DetectQuery))
    async def detect_language(request: Request) -> list[dict[str, Any]]:
        """List the possible languages of a text, most probable first, if their confidence is at least 5 percent.

        If a language is one of the server's source languages, its code is the server's.
        """
        query = await read(request, DetectQuery)
        service.client(request, query.api_key)
        shares = {match(code, service.models.sources) or code: share for code, share in detect(query.q).items()}
        return [
            {"confidence": round(100 * share, 1), "language": code} for code, share in shares.items() if share >= LEAST
        ]

    @router.get("/health", responses={503: {"description": "a translating thread has ended"}})
    async def health() -> JSONResponse:
        """State whether the server can translate."""
        alive = all(model.worker.is_alive() for model in service.models.all)
        return JSONResponse({"status": "ok" if alive else "error"}, 200 if alive else 503)

    return router
