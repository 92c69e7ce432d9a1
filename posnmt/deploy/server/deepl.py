"""The part of DeepL's interface (version 2) that translates text."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from posnmt.deploy.server.fields import Body, body_of, read
from posnmt.deploy.server.languages import language_name
from posnmt.deploy.server.refusal import Refusal
from posnmt.deploy.server.service import Service, warning_header

UNLIMITED = 1_000_000_000_000
"""The character limit that DeepL states for accounts without a limit."""

REFUSED = (
    "glossary_id", "glossary_ids", "style_id", "translation_memory_id", "custom_instructions", "tag_handling",
)  # fmt: skip
"""Fields whose effect on the translation is not possible here. Other fields, such as `context`, are ignored."""


class Query(Body):
    """Texts to translate."""

    model_config = ConfigDict(extra="allow")

    text: str | list[str] = Field(description="the text, or a list of texts")
    target_lang: str = Field(description="language code")
    source_lang: str | None = Field(None, description="language code; default: it is detected")
    split_sentences: str | int | bool = Field(
        "1", description="`0`: lines are not split into sentences; otherwise as the server was started"
    )
    formality: str = Field("default", description="`default`, `prefer_more` or `prefer_less`, which have no effect")
    auth_key: str | None = Field(None, description="in place of the header Authorization: DeepL-Auth-Key KEY")


class LanguagesQuery(Body):
    """A choice of languages to list."""

    type: str = Field("source", pattern="^(source|target)$")
    auth_key: str | None = None


class UsageQuery(Body):
    """The key whose usage is requested."""

    auth_key: str | None = None


class ErrorBody(BaseModel):
    """An error."""

    message: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 403, 408, 413, 429, 500, 503, 504)
}


def routes(service: Service) -> APIRouter:
    """The routes of this interface."""
    router = APIRouter(prefix="/v2", tags=["DeepL"])

    @router.post("/translate", responses=ERRORS, openapi_extra=body_of(Query))
    async def translate_text(request: Request) -> JSONResponse:
        """Translate texts sentence by sentence. Line ends stay."""
        query = await read(request, Query)
        client = service.client(request, query.auth_key)
        unsupported = [name for name in REFUSED if (query.model_extra or {}).get(name)]
        if query.formality not in ("default", "prefer_more", "prefer_less"):
            unsupported.append("formality")
        if unsupported:
            raise Refusal(400, f"{', '.join(unsupported)}: not supported by this server; leave it out")
        texts = [query.text] if isinstance(query.text, str) else query.text
        model, _ = service.between(query.source_lang, query.target_lang, texts)
        whole = str(query.split_sentences).lower() in ("0", "false")
        split, complete = ("huge", "warn") if whole else (None, None)
        search = service.search(model, 1, split=split, complete=complete)
        translated = await service.translate(request, client, model, texts, search)
        answers = [
            {
                "detected_source_language": model.source.upper(),
                "text": each.text(),
                "billed_characters": len(each.source),
            }
            for each in translated
        ]
        return JSONResponse({"translations": answers}, headers=warning_header(model, translated))

    @router.get("/languages", responses=ERRORS)
    async def list_languages(request: Request) -> list[dict[str, Any]]:
        """List the source languages or the target languages."""
        query = await read(request, LanguagesQuery)
        service.client(request, query.auth_key)
        codes = service.models.sources if query.type == "source" else service.models.targets
        formality = {"supports_formality": False} if query.type == "target" else {}
        return [{"language": code.upper(), "name": language_name(code), **formality} for code in codes]

    @router.get("/usage", responses=ERRORS)
    async def usage(request: Request) -> dict[str, int]:
        """Count the characters translated since the start for this key, or for all clients if there are no keys."""
        query = await read(request, UsageQuery)
        client = service.client(request, query.auth_key)
        return {"character_count": service.used(client), "character_limit": UNLIMITED}

    return router
