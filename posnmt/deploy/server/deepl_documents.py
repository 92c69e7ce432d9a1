"""The part of DeepL's interface (version 2) that translates documents: upload, status, download."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import ConfigDict, Field

from posnmt.deploy.server.deepl import ERRORS
from posnmt.deploy.server.documents import LARGER, Source, any_model, translate_documents
from posnmt.deploy.server.downloads import download
from posnmt.deploy.server.fields import Body, body_of, read, read_upload, unknown
from posnmt.deploy.server.held import Document
from posnmt.deploy.server.refusal import Refusal
from posnmt.deploy.server.service import Service, header_of

REFUSED = (
    "glossary_id", "glossary_ids", "style_id", "translation_memory_id", "translation_memory_threshold",
)  # fmt: skip
"""Fields whose effect on the translation of a document is not possible here."""


class DocumentQuery(Body):
    """A document to translate, in the field `file` of a multipart form."""

    model_config = ConfigDict(extra="allow")

    target_lang: str = Field(description="language code")
    source_lang: str | None = Field(None, description="language code; default: it is detected")
    filename: str | None = Field(None, description="the name of the file, in place of the name that the form has")
    output_format: str | None = Field(
        None, description="the ending of the file: no document becomes one of another format"
    )
    formality: str = Field("default", description="`default`, `prefer_more` or `prefer_less`, which have no effect")
    enable_beta_languages: bool = Field(False, description="has no effect, as in DeepL")
    auth_key: str | None = Field(None, description="in place of the header Authorization: DeepL-Auth-Key KEY")


class HandleQuery(Body):
    """The second secret of a document, from the answer to its upload."""

    document_key: str
    auth_key: str | None = None


def routes(service: Service) -> APIRouter:
    """Return a router with the routes for documents, under `/v2/document`."""
    router, held = APIRouter(prefix="/v2/document", tags=["DeepL"]), service.held

    async def work(document: Document, source: Source, languages: tuple[str | None, str]) -> None:
        try:
            async with held.turn(document):
                result = await translate_documents(service, source, languages, document.client, larger=LARGER)
                document.characters = result.characters
                document.warnings += [*result.warnings, *result.notes]
                held.finish(document, result.contents[0])
        except Refusal as refusal:
            held.fail(document, refusal.message)
        except Exception:
            held.fail(document, "internal error of the server; its log has the details")
            raise

    async def found(request: Request, code: str) -> Document:
        query = await read(request, HandleQuery)
        service.client(request, query.auth_key)
        document = held.find(code, query.document_key)
        if document is None:
            what = "no such document, or another key; a translation is deleted when it was fetched, or"
            raise Refusal(404, f"{what} after {service.settings.kept_seconds:g} seconds")
        return document

    @router.post("", responses=ERRORS, openapi_extra=body_of(DocumentQuery, file=True))
    async def upload_document(request: Request) -> JSONResponse:
        """Accept a document. Its translation can be fetched when its status is `done`."""
        query, name, content = await read_upload(request, DocumentQuery)
        client = service.client(request, query.auth_key)
        source = Source.sent(query.filename or name, content)
        _refuse(query, source)
        languages = query.source_lang or None, query.target_lang
        any_model(service, languages)
        document = Document(client, source.name, key=secrets.token_hex(32), warnings=unknown(query, REFUSED))
        held.begin(document)
        held.work(work(document, source, languages))
        answer = {"document_id": document.code, "document_key": document.key}
        return JSONResponse(answer, headers=header_of(document.warnings))

    @router.post("/{code}", responses=ERRORS, openapi_extra=body_of(HandleQuery))
    async def document_status(request: Request, code: str) -> JSONResponse:
        """State whether a document is `queued`, `translating`, `done`, or cannot be translated (`error`)."""
        document = await found(request, code)
        answer: dict[str, Any] = {"document_id": code, "status": document.state}
        if document.state == "done":
            answer["billed_characters"] = document.characters
        if document.state == "error":
            answer |= {"error_message": document.message, "message": document.message}
        return JSONResponse(answer, headers=header_of(document.warnings))

    @router.post("/{code}/result", responses=ERRORS, openapi_extra=body_of(HandleQuery), response_class=Response)
    async def document_result(request: Request, code: str) -> Response:
        """Fetch the translation of a document, which is then deleted."""
        document = await found(request, code)
        if document.state == "error":
            raise Refusal(400, document.message)
        if document.state != "done":
            raise Refusal(503, f"the document is not ready: {document.state}", {"Retry-After": "1"})
        return download(document.name, held.fetch(document), header_of(document.warnings))

    return router


def _refuse(query: DocumentQuery, source: Source) -> None:
    """Check that a document is wanted as it can be made here.

    Raises:
        Refusal: it is not.
    """
    unsupported = [name for name in REFUSED if (query.model_extra or {}).get(name)]
    if query.formality not in ("", "default", "prefer_more", "prefer_less"):
        unsupported.append("formality")
    if unsupported:
        raise Refusal(400, f"{', '.join(unsupported)}: not supported by this server for documents; leave it out")
    ending = Path(source.name).suffix[1:].lower()
    if query.output_format and query.output_format.lower() != ending:
        raise Refusal(400, f"output_format: a translation has the format of its document, {ending}")
