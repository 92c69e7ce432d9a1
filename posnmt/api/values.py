"""What the methods of a `TrainedModel` return; `posnmt.translate.values` has attention and positions.

Shapes: J source subwords with `</s>`, d model width.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from posnmt.translate.distances import Floats
from posnmt.translate.spans import Interval
from posnmt.translate.words import Span, Word


class TranslationWarning(UserWarning):
    """Some translations of a call do not have all that their lines have; the message counts the lines."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a line.

    Attributes:
        text: the translation.
        log_probability: the natural logarithm of the probability of `subwords`, `</s>` included, as
            `TrainedModel.score` computes it for these subwords.
        score: log p / (number of subwords + 1)^length_penalty, by which hypotheses are ranked, and the coverage penalty
            if there is one. p is the probability of the text: that of `subwords`, and of each other split of the same
            text that search found.
        ended: False where the limit of the length ended it, not the model.
        repetitive: whether it repeats itself, as the source does not (docs/translate.md).
        subwords: of the translation, `▁` for a blank; the most probable ones that search found.
        words: of the translation, each with its place in `text` and its probability.
        parts: in which the line was translated, one after the other; see `TrainedModel.translate`.
        unknown: what the vocabulary lacks of the line.
        protected: what stands in `text` as in the line: placeholders, mark-up, addresses and others.
        differing: of these what the line has and the best translation lacks, or the reverse.
        in_sentences: whether the line was translated in parts of one or some sentences, as it has more.
        omitted: sentences of the line that the best translation leaves out, as their first character and the one behind
            their last.
        mended: whether the line was translated again, a sentence at a time, as a sentence was left out.
        source_words: of the line, each with its place in it; none unless `alignments` were asked for.
        alignment: pairs of a word of `source_words` and one of `words`, by their numbers from 0, sorted.
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
        subwords: [J] of the line; the last is `</s>`. An empty line has none.
        states: [J,d] a vector for each subword.
    """

    subwords: list[str]
    states: Floats
