"""Translations as text: decoded hypotheses, ordered by their scores or by their similarity to each other.

Search distinguishes hypotheses by their subwords, and different subwords may give the same text. A ranked list has each
text once, with the sum of the probabilities of its hypotheses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from posnmt.config.schema import Decode
from posnmt.translate.alignments import Aligned
from posnmt.translate.mbr import expected_similarities
from posnmt.translate.repetition import is_repetitive
from posnmt.translate.requests import Part, Request, Search
from posnmt.translate.search import Hypothesis
from posnmt.translate.spans import Interval, blanked
from posnmt.translate.together import Found
from posnmt.translate.words import GAP, Span, Word, spans, words

if TYPE_CHECKING:
    from posnmt.data.text import SideText, TextPipeline
    from posnmt.translate.terms import Terms


@dataclass(frozen=True)
class Translation:
    """The hypotheses of a line, or of a part of it, best first; an empty line has one text, empty, and no hypothesis.

    Attributes:
        request: the line.
        texts: of the hypotheses.
        source: subwords of the line, without eos; empty if nothing of it went through the model.
        parts: the number of parts in which the line was translated; see `posnmt.translate.parts`.
        aligned: the links of all hypotheses; None: they were not asked for.
        joined: the number of lines that were translated together, this one included; see `posnmt.translate.together`.
        fell_apart: whether the line was translated alone because the translation of its group reached the limit.
        too_long: whether the line is in parts because of its length, and not because it has several sentences.
        longest_part: subwords of the longest part; None: the line is whole.
        protected: the spans that each translation has as the line has them; see `posnmt.translate.protect`.
        unknown: the characters of the line that the vocabulary lacks, in order.
        differing: spans that the line has and its best translation lacks, or the reverse.
        omitted: where the sentences stand in the line that its best translation leaves out; see
            `posnmt.translate.omissions`.
        mended: whether the line was translated again, a sentence at a time, because a sentence was left out.
        missing_terms: the target terms that its best translation must have and lacks; None: there is no glossary.
    """

    request: Request
    texts: list[str]
    hypotheses: list[Hypothesis]
    source: Sequence[int]
    parts: int = 1
    aligned: Aligned | None = None
    joined: int = 1
    fell_apart: bool = False
    too_long: bool = False
    longest_part: int | None = None
    protected: Sequence[str] = ()
    unknown: Sequence[str] = ()
    differing: Sequence[str] = ()
    omitted: Sequence[Interval] = ()
    mended: bool = False
    missing_terms: Sequence[str] | None = None

    @property
    def in_sentences(self) -> bool:
        """Whether it is in parts because of its number of sentences, and for nothing else."""
        return self.parts > 1 and not self.too_long and not self.mended

    @property
    def faults(self) -> int:
        """Sentences that are left out, and one more where the output limit ended the translation."""
        return len(self.omitted) + self.at_limit

    @property
    def text(self) -> str:
        """The text of the hypothesis with the best score."""
        return self.texts[0]

    @property
    def tokens(self) -> list[list[int]]:
        """The subword ids of each hypothesis, best first."""
        return [each.tokens for each in self.hypotheses]

    def spans(self, rank: int, target: SideText) -> list[Span]:
        """The words of a hypothesis, but for those that did not go through the model; `target` is its text pipeline."""
        return spans(target, blanked(self.texts[rank], self.protected, GAP), self.hypotheses[rank].tokens)

    def words(self, rank: int, target: SideText) -> list[Word]:
        """The same with their probabilities; none where no probabilities were asked for."""
        each = self.hypotheses[rank]
        return words(target, blanked(self.texts[rank], self.protected, GAP), each.tokens, each.log_probabilities)

    def with_missing(self, terms: Terms) -> Translation:
        """The translation with the terms that it lacks; a line that is passed on needs none."""
        line = blanked(self.request.line, self.protected)
        return replace(self, missing_terms=[] if self.passed else terms.missing(line, self.text))

    @property
    def passed(self) -> bool:
        """Whether the line has no words, and is passed on as it is."""
        return bool(self.hypotheses) and not self.source and bool(self.text)

    @property
    def at_limit(self) -> bool:
        """Whether the length limit ended the best hypothesis."""
        return bool(self.hypotheses) and not self.hypotheses[0].ended

    @property
    def repetitive(self) -> list[bool]:
        """For each hypothesis whether it repeats itself; see `is_repetitive`."""
        return [is_repetitive(self.source, hypothesis.tokens) for hypothesis in self.hypotheses]

    @property
    def remarks(self) -> list[str]:
        """The names in `REMARKS` of what a reader of the best translation should know."""
        return [name for name, holds in REMARKS.items() if holds(self)]


REMARKS: dict[str, Callable[[Translation], Any]] = {
    "passed": lambda each: each.passed,
    "in_sentences": lambda each: each.in_sentences,
    "mended": lambda each: each.mended,
    "too_long": lambda each: each.too_long,
    "at_limit": lambda each: each.at_limit,
    "omitted": lambda each: each.omitted,
    "fell_apart": lambda each: each.fell_apart,
    "missing_terms": lambda each: each.missing_terms,
    "unknown": lambda each: each.unknown,
    "differing": lambda each: each.differing,
    "repetitive": lambda each: any(each.repetitive[:1]),
}
"""Name → whether it holds for the best translation of a line."""


def as_text(text: TextPipeline, parts: Sequence[Part], found: Sequence[Found], search: Search) -> list[Translation]:
    """The translations of each part: the best by score, the best by `decode.mbr`, or the first samples.

    Args:
        found: all hypotheses or samples of each part.
    """
    decoded = iter(text.target.decode([each.tokens for of_part in found for each in of_part.hypotheses]))
    translations = []
    for part, of_part in zip(parts, found, strict=True):
        pairs = [(next(decoded), each) for each in of_part.hypotheses]
        if is_ranked(search.decode):
            pairs = _ranked(pairs, search.decode)
        pairs = pairs[: search.nbest]
        texts, hypotheses = [each for each, _ in pairs] or [""], [each for _, each in pairs]
        translation = Translation(part.request, texts, hypotheses, part.ids)
        translations.append(replace(translation, joined=of_part.joined, fell_apart=of_part.fell_apart))
    return translations


def first_ranks(texts: Sequence[str]) -> list[int]:
    """The first rank of each different text, in order."""
    return sorted(dict(zip(reversed(texts), reversed(range(len(texts))), strict=True)).values())


def is_ranked(decode: Decode) -> bool:
    """Whether hypotheses are ranked. Samples alone have the order in which they were drawn, and may be equal."""
    return decode.sampling is None or decode.mbr > 0


def _ranked(pairs: Sequence[tuple[str, Hypothesis]], decode: Decode) -> list[tuple[str, Hypothesis]]:
    """The different texts of some hypotheses, each with one hypothesis, best first."""
    of_text: dict[str, list[Hypothesis]] = {}
    for text, each in pairs:
        of_text.setdefault(text, []).append(each)
    merged = [(text, _merged(group, decode.length_penalty)) for text, group in of_text.items()]
    if decode.sampling is None:
        merged.sort(key=lambda pair: -pair[1].score)
    merged = merged[: decode.mbr or None]
    if decode.mbr and len(merged) > 1:
        similar = expected_similarities([text for text, _ in merged], _weights(pairs, merged, decode))
        merged = [merged[place] for place in np.argsort(-similar, kind="stable")]
    return merged


def _merged(hypotheses: Sequence[Hypothesis], length_penalty: float) -> Hypothesis:
    """The most probable hypothesis of a text, with a score from the sum of the probabilities of all of them."""
    different = {tuple(each.tokens): each for each in hypotheses}  # samples may be equal
    if len(different) == 1:
        return hypotheses[0]
    best = max(different.values(), key=lambda each: each.log_probability)
    added = math.log(math.fsum(math.exp(each.log_probability - best.log_probability) for each in different.values()))
    score = (best.log_probability + added) / (len(best.tokens) + 1) ** length_penalty + best.coverage
    return replace(best, score=score, added=added)


def _weights(
    pairs: Sequence[tuple[str, Hypothesis]], merged: Sequence[tuple[str, Hypothesis]], decode: Decode
) -> list[float]:
    """How probable each merged text is among them; samples count as often as they were drawn."""
    if decode.sampling is not None:
        drawn = Counter(text for text, _ in pairs)
        return [drawn[text] for text, _ in merged]
    totals = [each.log_probability + each.added for _, each in merged]
    return [math.exp(total - max(totals)) for total in totals]


def losses(translations: Sequence[Translation]) -> list[str]:
    """Sentences that count the lines with unknown characters, lost or gained spans, and lost sentences."""
    of, sentences = f"of {len(translations):,} lines", []
    if unknown := sum(bool(each.unknown) for each in translations):
        sentences.append(f"{unknown:,} {of} contain characters that the vocabulary lacks")
    if differing := sum(bool(each.differing) for each in translations):
        sentences.append(
            f"{differing:,} {of} lose, gain or change placeholders, markup, addresses or paths in their translations"
        )
    if omitted := sum(bool(each.omitted) for each in translations):
        sentences.append(f"{omitted:,} {of} contain sentences that their translations leave out")
    if mended := sum(each.mended for each in translations):
        sentences.append(f"{mended:,} {of} were translated again a sentence at a time, as a sentence was left out")
    return sentences
