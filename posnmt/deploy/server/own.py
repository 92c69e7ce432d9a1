"""posnmt's own interface: every hypothesis with its scores and subwords, and what is known of the models."""

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


class Asked(Body):
    """Texts to translate with a model, or between two languages."""

    model_config = ConfigDict(extra="forbid")

    text: str | list[str] = Field(description="the text, or a list of texts")
    model: str | None = Field(None, description="a name of /v1/models; needed where languages do not decide")
    source: str | None = Field(None, description="language code")
    target: str | None = Field(None, description="language code")
    nbest: int = Field(1, ge=1, description="hypotheses of each line, at most the beam")
    alignments: bool = Field(False, description="whether words are linked to those of the source")
    api_key: str | None = Field(None, description="in place of the header Authorization: Bearer KEY")


OPTIONS = {
    name: (
        Annotated[field.annotation | None, *field.metadata],  # type: ignore[operator]
        Field(None, description=f"{field.description}; default: as the server was started"),
    )
    for name, field, _ in offered(Decode, lambda on: on.server and on.python == "call")
}
"""The settings of search that a request may have, as fields."""

Query = create_model("Query", __base__=Asked, __doc__=Asked.__doc__, **OPTIONS)  # type: ignore[call-overload]


class SpanBody(BaseModel):
    """A word: characters `start` to `end` of its text, counted from 0; `end` is behind the last."""

    text: str
    start: int
    end: int


class WordBody(SpanBody):
    """A word of a translation.

    Attributes:
        subwords: how many of the next subwords are its own.
        probability: of the word, given the source and all words before it.
    """

    subwords: int
    probability: float


class HypothesisBody(BaseModel):
    """One translation of a line.

    Attributes:
        log_probability: natural logarithm of the probability of its subwords, end symbol included.
        score: log p / length^length_penalty, by which hypotheses rank; p is the sum of the probabilities of all splits
            of the text that search found.
        ended: false if the output limit ended it.
        repetitive: whether it repeats itself, as the source does not.
        subwords: of the output.
        words: of the text, in order.
        parts: in which the line was translated, one after the other: its sentences, or as `split` says.
        alignment: if asked for, pairs of a source word and a word, by their numbers from 0.
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
        longest_part: subwords of its longest part, if it was translated in parts.
        unknown: what the vocabulary lacks of the line.
        protected: what stands in the translations as in the line: placeholders, mark-up, addresses and others.
        differing: of these what the line has and the best translation lacks, or the reverse.
        in_sentences: whether it was translated in parts of one or some sentences, as it has more.
        omitted: its sentences that the best translation leaves out.
        mended: whether it was translated again, a sentence at a time, as a sentence was left out.
        source_words: of the line, if alignments were asked for.
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
    """Translations of texts, in order, and what to know of them."""

    model: str
    source: str
    target: str
    translations: list[TextBody]
    warnings: list[str]


class ModelBody(BaseModel):
    """A model.

    Attributes:
        system: named system, if it is one.
        trained: shortest and longest training sentences of each side, in subwords, if recorded.
        sentences_per_line: the shares of training lines with at least 1, 2, … sentences by side, if recorded.
        beam: the default.
        output_limit: `max_ratio` x source + `max_extra`, in subwords.
        alignments: whether it has them.
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
    """The routes of this interface."""
    router = APIRouter(prefix="/v1", tags=["posnmt"])

    @router.post(
        "/translate",
        response_model=AnswerBody,
        response_model_exclude_none=True,
        responses=ERRORS,
        openapi_extra=body_of(Query),
    )
    async def translate_lines(request: Request) -> dict[str, Any]:
        """Translate texts, a result for each line, with n-best lists, scores, subwords and alignments."""
        query: Asked = await read(request, Query)
        client = service.client(request, query.api_key)
        texts = [query.text] if isinstance(query.text, str) else query.text
        model = _model(service, query, texts)
        options = {name: getattr(query, name) for name in OPTIONS}
        if query.nbest > (beam := options["beam"] or model.decode.beam):
            raise Refusal(400, f"nbest {query.nbest} is more than the beam of {beam} keeps; raise beam")
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
        """The models with their languages and limits."""
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


def _model(service: Service, query: Asked, texts: list[str]) -> Model:
    """The model that a request names, or that its languages decide."""
    models = service.models
    if query.model is not None:
        if query.model not in models.by_name:
            raise Refusal(400, f"no model is called {query.model!r}; there are: {', '.join(models.by_name)}")
        return models.by_name[query.model]
    if query.target is not None:
        return service.between(query.source, query.target, texts)[0]
    if len(models.all) > 1:
        raise Refusal(400, f"name a model or a target language; there are: {', '.join(models.by_name)}")
    return models.all[0]


def _text(model: Model, text: Translated) -> dict[str, Any]:
    """A text with its lines as `posnmt translate --format jsonl` writes them, and their lengths."""
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
