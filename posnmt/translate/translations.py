"""Translations as text: decoded hypotheses, in the order of their scores or of their similarity to each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posnmt.config.schema import Decode
from posnmt.errors import UserError
from posnmt.translate.alignments import Aligned
from posnmt.translate.mbr import expected_similarities
from posnmt.translate.repetition import is_repetitive
from posnmt.translate.search import Hypothesis

if TYPE_CHECKING:
    from posnmt.data.text import TextPipeline


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

    @property
    def text(self) -> str:
        """The best translation."""
        return self.texts[0]

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
    """The `nbest` translations of each source, by `decode.mbr` or by their own order."""
    kept = [group[: decode.mbr or nbest] for group in hypotheses]
    texts = iter(text.target.decode([each.tokens for group in kept for each in group]))
    translations = []
    for source, group in zip(sources, kept, strict=True):
        pairs = [(next(texts), each) for each in group]
        if decode.mbr and len(pairs) > 1:
            similar = expected_similarities([each for each, _ in pairs], _weights(group, decode))
            pairs = [pairs[place] for place in np.argsort(-similar, kind="stable")]
        pairs = pairs[:nbest]
        translations.append(Translation([each for each, _ in pairs] or [""], [each for _, each in pairs], source))
    return translations


def _weights(hypotheses: Sequence[Hypothesis], decode: Decode) -> list[float]:
    """How probable each hypothesis is among them; samples count as often as they were drawn."""
    if decode.sampling is not None:
        return [1.0] * len(hypotheses)
    best = max(each.log_probability for each in hypotheses)
    return [math.exp(each.log_probability - best) for each in hypotheses]


def refuse_too_many(nbest: int, decode: Decode) -> None:
    """Check that search keeps as many translations as are wanted.

    Raises:
        UserError: it does not.
    """
    wanted = max(nbest, decode.mbr)
    if decode.sampling is None and wanted > decode.beam:
        what = f"{wanted} translations of a line are wanted, and the beam keeps {decode.beam}"
        raise UserError(what, "--nbest" if nbest == wanted else "decode.mbr", "raise --beam, or sample")
    if decode.mbr and nbest > decode.mbr:
        raise UserError(f"{nbest} translations are wanted of {decode.mbr} candidates", "decode.mbr", "raise --mbr")
