"""DeepL's interface for texts, as its OpenAPI description has it (github.com/DeepLcom/openapi, version 3.11.0)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from posnmt.base.errors import UserError
from posnmt.config.writing import base_code
from posnmt.data.lines import checked_lines
from posnmt.deploy.documents.segment import TagRules
from posnmt.deploy.documents.tagged import Layout
from posnmt.deploy.server.fields import Body, body_of, read
from posnmt.deploy.server.formatting import keep_formatting
from posnmt.deploy.server.glossaries import dictionary_of, merged
from posnmt.deploy.server.models import Model
from posnmt.deploy.server.refusal import Refusal
from posnmt.deploy.server.service import Service, Translated, header_of, warnings
from posnmt.deploy.server.text import join
from posnmt.translate.sentences import sentences
from posnmt.translate.terms import Terms

REFUSED = (
    "style_id", "translation_memory_id", "translation_memory_threshold", "custom_instructions",
)  # fmt: skip
"""Fields of DeepL's interface that no model here can obey."""

MOST_GLOSSARIES = 5
"""Most glossaries of a request."""


def _listed(value: Any) -> Any:
    """A list of names, or names between commas, or a list of such texts, as a list of names."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        return value
    return [name.strip() for each in texts for name in each.split(",") if name.strip()]


Names = Annotated[list[str], BeforeValidator(_listed)]
"""Names, which forms have between commas or as a repeated field."""


class Query(Body):
    """A request to translate texts, with options of DeepL's interface."""

    model_config = ConfigDict(extra="allow")

    text: str | list[str] = Field(description="the text, or a list of texts")
    target_lang: str = Field(description="language code")
    source_lang: str | None = Field(None, description="language code; default: it is detected")
    context: str | None = Field(
        None, description="text before each text; it counts if the model was trained with context"
    )
    show_billed_characters: bool = Field(False, description="whether the answer counts the characters of each text")
    split_sentences: str | int | bool | None = Field(
        None,
        description="what ends a sentence: `1`: punctuation and line ends; `nonewlines`: punctuation, default for HTML;"
        " `0`: nothing",
    )
    preserve_formatting: bool = Field(
        False, description="whether translations begin and end with the punctuation and the case of their sentences"
    )
    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = Field(
        "default", description="`prefer_more` and `prefer_less` have no effect; `more` and `less` are errors"
    )
    model_type: Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None = Field(
        None, description="no effect: there is one model for two languages"
    )
    glossary_id: str | None = Field(None, description="a glossary; `source_lang` is then required")
    glossary_ids: Names = Field([], max_length=MOST_GLOSSARIES, description="glossaries, the first one counts first")
    tag_handling: Literal["xml", "html"] | None = Field(None, description="the kind of tags in the texts")
    tag_handling_version: Literal["v1", "v2"] = Field("v2", description="no effect")
    outline_detection: bool = Field(True, description="false: only `splitting_tags` separate sentences")
    non_splitting_tags: Names = Field([], description="elements that stand inside a sentence")
    splitting_tags: Names = Field([], description="elements that separate sentences")
    ignore_tags: Names = Field([], description="elements that are not translated")
    enable_beta_languages: bool = Field(False, description="no effect, as at DeepL")
    auth_key: str | None = Field(None, description="in place of the header Authorization: DeepL-Auth-Key KEY")

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, values: Any) -> Any:
        """Optional fields that are null or empty count as left out."""
        required = ("text", "target_lang")
        return {name: each for name, each in values.items() if name in required or each not in (None, "", [])}

    @property
    def splitting(self) -> Literal["0", "1", "nonewlines"]:
        """What ends a sentence.

        Raises:
            Refusal: it is none of the three.
        """
        given = self.split_sentences
        if given is None:
            return "nonewlines" if self.tag_handling == "html" else "1"
        plain = {"0": "0", "false": "0", "1": "1", "true": "1", "nonewlines": "nonewlines"}.get(str(given).lower())
        if plain is None:
            raise Refusal(400, "Invalid request: split_sentences: input should be '0', '1' or 'nonewlines'")
        return plain  # type: ignore[return-value]

    @property
    def layout(self) -> Layout:
        """How the texts are divided into sentences."""
        lower = str.lower if self.tag_handling == "html" else str
        as_one = self.splitting == "0"
        rules = TagRules(
            ignored=frozenset(map(lower, self.ignore_tags)),
            splitting=frozenset(map(lower, self.splitting_tags)),
            joining=frozenset(map(lower, self.non_splitting_tags)),
            detects=self.outline_detection and not (as_one and self.tag_handling == "xml"),
            lines=self.splitting == "1",
        )
        return Layout(self.tag_handling, rules, as_one)


class ErrorBody(BaseModel):
    """The body of an error: `message` says what is wrong."""

    message: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 403, 404, 408, 413, 429, 456, 500, 503, 504)
}


@dataclass(frozen=True)
class Asked:
    """A request with what its fields stand for.

    Attributes:
        query: its fields.
        texts: its texts.
        model: the model that answers.
        terms: of its glossaries; None: it has none.
        context: lines before each text that the model reads.
        remarks: sentences about what has no effect.
    """

    query: Query
    texts: Sequence[str]
    model: Model
    terms: Terms | None
    context: Sequence[str]
    remarks: Sequence[str]

    @property
    def is_simple(self) -> bool:
        """Whether the texts are lines, each of which the engine may divide into sentences."""
        return self.query.tag_handling is None and self.query.splitting == "1" and not (self.terms or self.context)

    def finished(self, source: str, translation: str) -> str:
        """What is written for the translation of a sentence or a line."""
        if not self.query.preserve_formatting:
            return translation
        return keep_formatting(source, translation, self.model.target)


def routes(service: Service) -> APIRouter:
    """Return a router with the route that translates texts, `/v2/translate`."""
    router = APIRouter(prefix="/v2", tags=["DeepL"])

    @router.post("/translate", responses=ERRORS, openapi_extra=body_of(Query))
    async def translate_text(request: Request) -> JSONResponse:
        """Translate texts, with their tags and line ends in place."""
        query = await read(request, Query)
        client = service.client(request, query.auth_key)
        _refuse_unknown(query)
        asked = await _asked(service, query, service.holder(request, query.auth_key))
        translate = _by_lines if asked.is_simple else _by_sentences
        written, translations = await translate(service, request, client, asked)
        fields: dict[str, Any] = {"detected_source_language": asked.model.source.upper()}
        if query.model_type:
            fields["model_type_used"] = query.model_type.removeprefix("prefer_")
        if query.tag_handling:
            fields["tag_handling_version"] = query.tag_handling_version
        billed = [{"billed_characters": len(each)} if query.show_billed_characters else {} for each in asked.texts]
        answers = [{**fields, "text": text, **own} for text, own in zip(written, billed, strict=True)]
        said = [*asked.remarks, *warnings(asked.model, translations)]
        return JSONResponse({"translations": answers}, headers=header_of(said))

    return router


def _refuse_unknown(query: Query) -> None:
    """Check that a request asks for nothing that is not possible here.

    Raises:
        Refusal: it does.
    """
    others = dict(query.model_extra or {})
    unsupported = [name for name in REFUSED if others.pop(name, None) is not None]
    if query.formality in ("more", "less"):
        unsupported.append("formality")
    if unsupported:
        raise Refusal(400, f"{', '.join(unsupported)}: not supported by this server; leave it out")
    for name in others:
        known = ", ".join([*Query.model_fields, *REFUSED])
        raise Refusal(400, f"Invalid request: no field is called {name[:100]!r}; choose from: {known}")


async def _asked(service: Service, query: Query, holder: str) -> Asked:
    """What a request asks for.

    Raises:
        Refusal: no such model, glossary or text.
    """
    texts = [query.text] if isinstance(query.text, str) else query.text
    try:
        checked_lines([each.replace("\n", " ") for each in texts], "text")
    except UserError as error:
        raise Refusal(400, f"Invalid request: {error.lines[0]}") from None
    model, _ = service.between(query.source_lang, query.target_lang, texts)
    terms = await asyncio.to_thread(_terms, service, query, holder, model)
    context, remarks = _context(query, model, terms)
    return Asked(query, texts, model, terms, context, remarks)


def _terms(service: Service, query: Query, holder: str, model: Model) -> Terms | None:
    """The terms of the glossaries of a request.

    Raises:
        Refusal: there is no such glossary, it is for other languages, or the model takes no terms.
    """
    if query.glossary_id and query.glossary_ids:
        raise Refusal(400, "glossary_id and glossary_ids cannot be used together")
    ids = query.glossary_ids or ([query.glossary_id] if query.glossary_id else [])
    if not ids:
        return None
    if query.source_lang is None:
        raise Refusal(400, "source_lang is required with a glossary")
    pair = base_code(model.source), base_code(model.target)
    found = []
    for each in ids:
        glossary = service.glossaries.get(holder, each)
        try:
            found.append(dictionary_of(glossary, pair))
        except Refusal as refusal:
            raise Refusal(400, refusal.message) from None
    if not takes_terms(model):
        raise Refusal(400, f"glossary_id: {model.engine.name} takes no glossary; leave it out")
    return found[0].terms if len(found) == 1 else merged(found)


def takes_terms(model: Model) -> bool:
    """Whether a model can translate with a glossary."""
    return "terms" in model.engine.serves


def _context(query: Query, model: Model, terms: Terms | None) -> tuple[list[str], list[str]]:
    """The lines of the context that the model reads before each sentence, and a remark if it reads none.

    Clients such as Weblate send the same context with every request, so a context is not an error for a model that
    cannot use it.
    """
    if query.context is None or not query.context.strip():
        return [], []
    if model.engine.context == 1:
        return [], ["context has no effect, as the model was not trained with train.context"]
    if terms is not None or model.decode.mbr:
        return [], ["context has no effect together with a glossary or decode.mbr"]
    lines = [each.strip() for line in query.context.splitlines() for each in sentences(line, model.source)]
    return list(filter(None, lines))[1 - model.engine.context :], []


async def _by_lines(
    service: Service, request: Request, client: str, asked: Asked
) -> tuple[list[str], list[Translated]]:
    """The translations of texts line by line."""
    translated = await service.translate(request, client, asked.model, asked.texts, service.search(asked.model, 1))
    written = []
    for each in translated:
        lines = [asked.finished(line.request.line, line.text) for line in each.translations]
        written.append(join(lines, each.ends))
    return written, translated


async def _by_sentences(
    service: Service, request: Request, client: str, asked: Asked
) -> tuple[list[str], list[Translated]]:
    """The translations of texts that are divided into sentences here, by a process of their own.

    Raises:
        Refusal: a text has broken tags, or takes too long.
    """
    layout, model = asked.query.layout, asked.model
    size = sum(map(len, asked.texts))
    service.refuse_large(size, len(asked.texts))
    contents = [each.encode() for each in asked.texts]
    about = {"name": "text", "languages": (model.source, model.target), "layout": layout.as_json()}
    divided = await _read(service, "sentences_of", contents, about)
    options: dict[str, Any] = {"split": "huge", "complete": "warn"} if layout.as_one else {}
    search = service.search(model, 1, terms=asked.terms, **options)
    lines = [text for text, _ in divided["texts"]]
    translations = await service.lines(request, client, model, lines, search, size, asked.context)
    made = [
        (asked.finished(line, each.text), bool(each.passed)) for line, each in zip(lines, translations, strict=True)
    ]
    answer = await _read(service, "written", contents, {**about, "translations": made})
    return [each.decode() for each in answer["contents"]], [Translated(translations, [])]


async def _read(service: Service, function: str, contents: list[bytes], fields: dict[str, Any]) -> dict[str, Any]:
    """The answer of a function of `posnmt.deploy.documents.reader`.

    Raises:
        Refusal: a text has broken tags, or takes too long.
    """
    try:
        return await service.text_readers.call(function, contents, **fields)
    except UserError as error:
        raise Refusal(400, f"Tag handling parsing failed, please check input: {error.line()}") from None
