"""Translations as text: decoded hypotheses, in the order of their scores or of their similarity to each other.

Search tells hypotheses apart by their subwords, and different subwords may give the same text. A ranked list has each
text once, with the sum of the probabilities of its hypotheses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.translate.alignments import Aligned
from posnmt.translate.mbr import expected_similarities
from posnmt.translate.repetition import is_repetitive
from posnmt.translate.search import Hypothesis
from posnmt.translate.spans import Interval, blanked
from posnmt.translate.words import GAP, Span, Word, spans, words

if TYPE_CHECKING:
    from posnmt.data.text import SideText, TextPipeline
    from posnmt.translate.terms import Terms


@dataclass(frozen=True)
class Translation:
    """The hypotheses of one line, best first; an empty line has one, empty, without a probability.

    Attributes:
        source: subwords of the line, without eos.
        parts: in which the line was translated, one after the other; see `posnmt.translate.parts`.
        aligned: the links of all hypotheses; None: not asked for.
        joined: lines that were translated together with it, itself included; see `posnmt.translate.together`.
        too_long: whether it is in parts because of its length, and not because it has several sentences.
        longest_part: subwords of the longest part; None: of the line, which is whole.
        fell_apart: whether it was to be translated with others, whose output reached the limit, and so was alone.
        protected: what stands in each translation as in the line; see `posnmt.translate.protect`.
        unknown: what the vocabulary lacks of the line, in order.
        differing: spans that the line has and its best translation lacks, or the reverse.
        omitted: where sentences stand in the line that its best translation leaves out; see
            `posnmt.translate.omissions`.
        mended: whether it was translated again, a sentence at a time, as something was left out.
    """

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
        """The best translation."""
        return self.texts[0]

    def spans(self, rank: int, target: SideText) -> list[Span]:
        """The words of a hypothesis, but for those that did not go through the model; `target` is its text pipeline."""
        return spans(target, blanked(self.texts[rank], self.protected, GAP), self.hypotheses[rank].tokens)

    def words(self, rank: int, target: SideText) -> list[Word]:
        """The same with their probabilities; none where no probabilities were asked for."""
        each = self.hypotheses[rank]
        return words(target, blanked(self.texts[rank], self.protected, GAP), each.tokens, each.log_probabilities)

    def missing(self, line: str, terms: Terms) -> list[str]:
        """The target terms that the translation of a line must have, and does not have."""
        return [] if self.passed else terms.missing(blanked(line, self.protected), self.text)

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
        """Of each hypothesis whether it repeats itself; see `is_repetitive`."""
        return [is_repetitive(self.source, hypothesis.tokens) for hypothesis in self.hypotheses]


def as_text(
    text: TextPipeline,
    sources: Sequence[Sequence[int]],
    hypotheses: Sequence[Sequence[Hypothesis]],
    decode: Decode,
    nbest: int,
) -> list[Translation]:
    """The `nbest` translations of each source: the best by score, the best by `decode.mbr`, or the first samples.

    Args:
        hypotheses: all that search or sampling has of each source.
    """
    decoded = iter(text.target.decode([each.tokens for group in hypotheses for each in group]))
    translations = []
    for source, group in zip(sources, hypotheses, strict=True):
        pairs = [(next(decoded), each) for each in group]
        if is_ranked(decode):
            pairs = _ranked(pairs, decode)
        pairs = pairs[:nbest]
        translations.append(Translation([each for each, _ in pairs] or [""], [each for _, each in pairs], source))
    return translations


def first_ranks(texts: Sequence[str]) -> list[int]:
    """The first rank of each different text, in order."""
    return sorted(dict(zip(reversed(texts), reversed(range(len(texts))), strict=True)).values())


def is_ranked(decode: Decode) -> bool:
    """Whether hypotheses are ranked. Samples alone have the order in which they were drawn, and may be equal."""
    return decode.sampling is None or decode.mbr > 0


def _ranked(pairs: Sequence[tuple[str, Hypothesis]], decode: Decode) -> list[tuple[str, Hypothesis]]:
    """The different texts of some hypotheses, each with one of them, best first."""
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
    """The most probable of the hypotheses of a text; its score is made of the sum of their probabilities."""
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


def refuse_too_many(nbest: int, decode: Decode) -> None:
    """Check that search keeps as many translations as are wanted.

    Raises:
        UserError: it does not.
    """
    wanted = max(nbest, decode.mbr)
    if decode.sampling is None and wanted > decode.beam:
        what = f"{wanted} translations of a line are wanted, and the beam keeps {decode.beam}"
        raise UserError(what, None if nbest == wanted else "decode.mbr", "raise decode.beam, or sample")
    if decode.mbr and nbest > decode.mbr:
        raise UserError(f"{nbest} translations are wanted of {decode.mbr} candidates", "decode.mbr", "raise decode.mbr")


def kept_badly(translations: Sequence[Translation]) -> list[str]:
    """How many lines have characters that the vocabulary lacks, lost or gained spans, or lost sentences: one each."""
    of, sentences = f"of {len(translations):,} lines", []
    if unknown := sum(bool(each.unknown) for each in translations):
        sentences.append(f"{unknown:,} {of} have characters that the vocabulary lacks")
    if differing := sum(bool(each.differing) for each in translations):
        sentences.append(
            f"{differing:,} {of} have other placeholders, mark-up, addresses or paths in their translations"
        )
    if omitted := sum(bool(each.omitted) for each in translations):
        sentences.append(f"{omitted:,} {of} have sentences that their translations leave out")
    if mended := sum(each.mended for each in translations):
        sentences.append(f"{mended:,} {of} were translated again a sentence at a time, as a sentence was left out")
    return sentences
