"""posnmt's own interface: hypotheses with scores and subwords, and information about the models."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, create_model

from posnmt.config.marks import offered
from posnmt.config.schema import Decode
from posnmt.deploy.server.fields import Body, body_of, read
from posnmt.deploy.server.libretranslate import ERRORS
from posnmt.deploy.server.models import Model
from posnmt.deploy.server.refusal import Refusal
from posnmt.deploy.server.service import Service, Translated, warnings
from posnmt.translate.records import facts, hypothesis_records, source_words


class QueryWithoutOptions(Body):
    """Texts to translate with a model, or between two languages."""

    model_config = ConfigDict(extra="forbid")

    text: str | list[str] = Field(description="the text, or a list of texts")
    model: str | None = Field(None, description="a name of /v1/models; required if languages do not determine it")
    source: str | None = Field(None, description="language code")
    target: str | None = Field(None, description="language code")
    nbest: int = Field(1, ge=1, description="number of hypotheses of each line, at most the beam")
    alignments: bool = Field(False, description="whether to align words with those of the source")
    api_key: str | None = Field(None, description="in place of the header Authorization: Bearer KEY")


OPTIONS = {
    name: (
        Annotated[field.annotation | None, *field.metadata],  # type: ignore[operator]
        Field(None, description=f"{field.description}; default: as the server was started"),
    )
    for name, field, _ in offered(Decode, lambda on: on.server and on.python == "call")
}
"""The search settings that a request may have, as fields."""

Query = create_model(  # type: ignore[call-overload]
    "Query", __base__=QueryWithoutOptions, __doc__=QueryWithoutOptions.__doc__, **OPTIONS
)


class SpanBody(BaseModel):
    """A part of a text: characters `start` (from 0) to `end`, which is not included."""

    text: str
    start: int
    end: int


class WordBody(SpanBody):
    """A word of a translation.

    Attributes:
        subwords: number of its subwords, which follow those of the word before.
        probability: probability of the word given the source and all words before it.
    """

    subwords: int
    probability: float


class HypothesisBody(BaseModel):
    """One translation of a line.

    Attributes:
        text: the translation.
        log_probability: natural logarithm of the probability of its subwords, end symbol included.
        score: log p / length^length_penalty, by which hypotheses are ranked; p is the sum of the probabilities of all
            segmentations of the text that search found.
        ended: false if the output limit ended it.
        repetitive: whether it repeats itself where the source does not.
        subwords: subwords of the text.
        words: words of the text, in order.
        parts: number of parts in which the line was translated: sentences, or as `split` says.
        alignment: if requested, pairs of indices of a source word and a word, from 0.
    """

    text: str
    log_probability: float
    score: float
    ended: bool
    repetitive: bool
    subwords: list[str]
    words: list[WordBody]
    parts: int
    alignment: list[tuple[int, int]] | None = None


class LineBody(BaseModel):
    """A line with its hypotheses, best first; an empty line has none.

    Attributes:
        source: the line.
        source_subwords: number of its subwords.
        longest_part: number of subwords of its longest part, if it was translated in parts.
        unknown: texts of the line that the vocabulary lacks.
        protected: spans that the translations copy from the line: placeholders, mark-up, addresses and others.
        differing: protected spans that the line has and the best translation lacks, or the reverse.
        in_sentences: whether it has several sentences and was translated in parts of one or some of them.
        omitted: sentences that the best translation leaves out.
        mended: whether it was translated again, one sentence at a time, because a sentence was left out.
        source_words: words of the line, if alignments were requested.
        hypotheses: its translations.
    """

    source: str
    source_subwords: int
    longest_part: int | None = None
    unknown: list[str]
    protected: list[str]
    differing: list[str]
    in_sentences: bool
    omitted: list[SpanBody]
    mended: bool
    source_words: list[SpanBody] | None = None
    hypotheses: list[HypothesisBody]


class TextBody(BaseModel):
    """A text: its best translation, and its lines."""

    text: str
    lines: list[LineBody]


class AnswerBody(BaseModel):
    """Translations of texts, in order, and warnings about them."""

    model: str
    source: str
    target: str
    translations: list[TextBody]
    warnings: list[str]


class ModelBody(BaseModel):
    """A model.

    Attributes:
        name: the name by which requests choose it.
        source, target: codes of its languages.
        system: the named system, if it is one.
        engine: the program that computes.
        trained: the shortest and longest training sentences of each side, in subwords, if recorded.
        sentences_per_line: for each side, the shares of training lines with at least 1, 2, … sentences, if recorded.
        beam: the default beam.
        output_limit: limit of the output: `max_ratio` x source + `max_extra`, in subwords.
        alignments: whether the model can align words.
    """

    name: str
    source: str
    target: str
    system: str | None
    engine: str
    trained: dict[str, dict[str, int]] | None
    sentences_per_line: dict[str, list[float]] | None
    beam: int
    output_limit: dict[str, float]
    alignments: bool


def routes(service: Service) -> APIRouter:
    """Return a router with the routes of posnmt's own interface, under `/v1`."""
    router = APIRouter(prefix="/v1", tags=["posnmt"])

    @router.post(
        "/translate",
        response_model=AnswerBody,
        response_model_exclude_none=True,
        responses=ERRORS,
        openapi_extra=body_of(Query),
    )
    async def translate_lines(request: Request) -> dict[str, Any]:
        """Translate texts. The answer has n-best lists, scores, subwords and alignments of each line."""
        query: QueryWithoutOptions = await read(request, Query)
        client = service.client(request, query.api_key)
        texts = [query.text] if isinstance(query.text, str) else query.text
        model = _model(service, query, texts)
        options = {name: getattr(query, name) for name in OPTIONS}
        if query.nbest > (beam := options["beam"] or model.decode.beam):
            raise Refusal(400, f"nbest {query.nbest} is larger than the beam, {beam}; raise beam")
        search = service.search(model, query.nbest, True, query.alignments, **options)
        translated = await service.translate(request, client, model, texts, search)
        return {
            "model": model.name,
            "source": model.source,
            "target": model.target,
            "translations": [_text(model, each) for each in translated],
            "warnings": warnings(model, translated),
        }

    @router.get("/models", response_model=list[ModelBody])
    async def models() -> list[dict[str, Any]]:
        """List the models with their languages and limits."""
        return [
            {
                "name": model.name,
                "source": model.source,
                "target": model.target,
                "system": model.system,
                "engine": model.engine.name,
                "trained": model.trained,
                "sentences_per_line": model.sentences_per_line,
                "beam": model.decode.beam,
                "output_limit": {"max_ratio": model.decode.max_ratio, "max_extra": model.decode.max_extra},
                "alignments": model.engine.aligns,
            }
            for model in service.models.all
        ]

    return router


def _model(service: Service, query: QueryWithoutOptions, texts: list[str]) -> Model:
    """The model that a request names, or that its languages determine."""
    models = service.models
    if query.model is not None:
        if query.model not in models.by_name:
            raise Refusal(400, f"no model is called {query.model!r}; choose from: {', '.join(models.by_name)}")
        return models.by_name[query.model]
    if query.target is not None:
        return service.between(query.source, query.target, texts)[0]
    if len(models.all) > 1:
        raise Refusal(400, f"name a target language or one of the models {', '.join(models.by_name)}")
    return models.all[0]


def _text(model: Model, text: Translated) -> dict[str, Any]:
    """A text and its lines in the form of `posnmt translate --format jsonl`, with their lengths."""
    target = model.engine.text.target
    lines = [
        {
            "source": translation.request.line,
            "source_subwords": len(translation.source),
            "longest_part": translation.longest_part,
            **facts(translation),
            "source_words": source_words(translation),
            "hypotheses": hypothesis_records(translation, target),
        }
        for translation in text.translations
    ]
    return {"text": text.text(), "lines": lines}
