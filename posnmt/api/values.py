"""Values that the methods of a `TrainedModel` return. `posnmt.translate.values` has those for attention and positions.

Shapes: J source subwords with `</s>`, d model width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from posnmt.translate.distances import Floats
from posnmt.translate.spans import Interval
from posnmt.translate.words import Span, Word

if TYPE_CHECKING:
    from posnmt.data.text import SideText
    from posnmt.translate.translations import Translation


class TranslationWarning(UserWarning):
    """Some translations of a call lack parts of their lines. The message counts these lines."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a line.

    Attributes:
        text: the translation.
        log_probability: the natural logarithm of the probability of `subwords`, `</s>` included, as
            `TrainedModel.score` computes it for these subwords.
        score: the value by which hypotheses are ranked: log p / (number of subwords + 1)^length_penalty, plus the
            coverage penalty (0 or less) if there is one. p is the probability of the text: the sum over `subwords` and
            every other segmentation of the same text that search found.
        ended: False if the limit of the length ended the translation, and not the model.
        repetitive: whether the translation repeats itself where the source does not (docs/search.md).
        subwords: the subwords of the translation, with `▁` for a blank; the most probable segmentation that search
            found.
        words: the words of the translation, each with its place in `text` and its probability.
        parts: the number of parts in which the line was translated; see `TrainedModel.translate`.
        unknown: texts of the line that the vocabulary lacks, in order.
        protected: spans that `text` copies from the line: placeholders, mark-up, addresses and others.
        differing: protected spans that the line has and the best translation lacks, or the reverse.
        in_sentences: whether the line has several sentences and was translated in parts of one or some of them.
        omitted: sentences of the line that the best translation leaves out, each as (start, end) in characters.
        mended: whether the line was translated again, one sentence at a time, because a sentence was left out.
        source_words: the words of the line, each with its place; empty unless `alignments` were requested.
        alignment: sorted pairs of an index into `source_words` and an index into `words`.
    """

    text: str
    log_probability: float
    score: float
    ended: bool
    repetitive: bool
    subwords: list[str]
    words: list[Word]
    parts: int
    unknown: list[str] = field(default_factory=list)
    protected: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    in_sentences: bool = False
    omitted: list[Interval] = field(default_factory=list)
    mended: bool = False
    source_words: list[Span] = field(default_factory=list)
    alignment: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Encoding:
    """The encoder's output for one line.

    Attributes:
        subwords: the J subwords of the line, of which the last is `</s>`; none for an empty line.
        states: [J,d] a vector for each subword.
    """

    subwords: list[str]
    states: Floats


def hypotheses_of(translation: Translation, target: SideText) -> list[Hypothesis]:
    """The hypotheses of a line, best first.

    Args:
        target: the text pipeline of translations.
    """
    pieces, aligned = target.subwords.pieces, translation.aligned
    hypotheses = []
    for rank, (text, each, repetitive) in enumerate(
        zip(translation.texts, translation.hypotheses, translation.repetitive, strict=False)
    ):
        words = translation.words(rank, target)
        hypotheses.append(
            Hypothesis(
                text,
                each.log_probability,
                each.score,
                each.ended,
                repetitive,
                [pieces[token] for token in each.tokens],
                words,
                translation.parts,
                list(translation.unknown),
                list(translation.protected),
                list(translation.differing),
                translation.in_sentences,
                list(translation.omitted),
                translation.mended,
                aligned.words if aligned else [],
                aligned.links(rank, words) if aligned else [],
            )
        )
    return hypotheses
