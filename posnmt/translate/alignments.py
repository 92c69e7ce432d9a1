"""Word alignments of translations, by the attention of the last decoder layer to the source.

Each subword of a translation is linked to the source subword that gets most attention in the step that predicts it.
Attention is the mean over the heads of the last layer, and over the models of an ensemble. A subword has no link if
the end symbol of the source or the mark of a target language gets most attention. Two words are linked if subwords of
them are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from posnmt.data.batch import batches_by_length, collate
from posnmt.translate.watched import watching
from posnmt.translate.words import Span, spans

if TYPE_CHECKING:
    from posnmt.data.text import SideText
    from posnmt.model.base import TranslationModel

Align = Callable[[Sequence[str], Sequence[Sequence[int]], Sequence[Sequence[Sequence[int]]]], "Sequence[Aligned]"]
"""Finds the links of lines, given their texts, their subwords, and the subwords of each of their hypotheses."""


@dataclass(frozen=True)
class Aligned:
    """The links of the hypotheses of a line.

    Attributes:
        words: the words of the source line.
        attended: for each hypothesis the source word that each of its subwords is linked to, by number; None: no link.
    """

    words: list[Span]
    attended: list[list[int | None]]

    def links(self, hypothesis: int, words: Iterable[Span]) -> list[tuple[int, int]]:
        """The linked words, (source, target), counted from 0 and sorted.

        Args:
            hypothesis: its number.
            words: of the hypothesis.
        """
        targets = _number_of_word(words)
        pairs = zip(self.attended[hypothesis], targets, strict=True) if targets else ()
        return sorted({(source, target) for source, target in pairs if source is not None})

    def only(self, hypotheses: Sequence[int]) -> Aligned:
        """The links of some of the hypotheses, given by their numbers."""
        return Aligned(self.words, [self.attended[number] for number in hypotheses if self.attended])


def align(
    models: Sequence[TranslationModel],
    side: SideText,
    lines: Sequence[str],
    sources: Sequence[Sequence[int]],
    hypotheses: Sequence[Sequence[Sequence[int]]],
    batch: int,
) -> list[Aligned]:
    """The links of all hypotheses of each line.

    Args:
        models: an ensemble, or one; the attention is their mean.
        side: the text pipeline of the lines.
        sources: the subwords of each line, the mark of a target language included.
        hypotheses: the subwords of each hypothesis of each line.
        batch: most padded subwords of a batch.

    Raises:
        UserError: a model that is not a Transformer.
    """
    owners = [number for number, group in enumerate(hypotheses) for _ in group]
    targets = [tokens for group in hypotheses for tokens in group]
    places = iter(_attended(models, [sources[owner] for owner in owners], targets, batch))
    marked = _subwords_of_mark(side)
    aligned = []
    for line, source, group in zip(lines, sources, hypotheses, strict=True):
        words = spans(side, line, source[marked:])
        numbers: list[int | None] = [*[None] * marked, *_number_of_word(words)]
        numbers += [None] * (len(source) + 1 - len(numbers))  # of </s>, and where the line shows no word
        aligned.append(Aligned(words, [[numbers[place] for place in next(places)] for _ in group]))
    return aligned


def joined(parts: Sequence[Aligned], texts: Sequence[str]) -> Aligned:
    """The links of a line in parts, put together from the links of its parts.

    Args:
        texts: the parts of the line, which are the line when joined.
    """
    words: list[Span] = []
    attended: list[list[int | None]] = [[] for _ in range(max(len(part.attended) for part in parts))]
    begin = 0
    for part, text in zip(parts, texts, strict=True):
        for rank, links in enumerate(attended if part.attended else []):
            numbers = part.attended[min(rank, len(part.attended) - 1)]
            links += [None if number is None else len(words) + number for number in numbers]
        words += [Span(word.text, begin + word.start, begin + word.end, word.subwords) for word in part.words]
        begin += len(text)
    return Aligned(words, attended)


def _subwords_of_mark(side: SideText) -> int:
    """The number of subwords of the mark before each source."""
    if not side.mark:
        return 0
    [alone] = replace(side, mark="").encode([side.mark])
    return len(alone)


def _number_of_word(words: Iterable[Span]) -> list[int]:
    """For each subword the number of its word."""
    return [number for number, word in enumerate(words) for _ in range(word.subwords)]


@torch.inference_mode()
def _attended(
    models: Sequence[TranslationModel], sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch: int
) -> list[list[int]]:
    """For each subword of each target the place of the source subword with most attention, `</s>` included."""
    places: list[list[int]] = [[] for _ in targets]
    longest = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    with watching(models, "an alignment", "alignments") as watched:
        for numbers in batches_by_length(longest, batch):
            pairs = [(np.asarray(sources[n], np.int32), np.asarray(targets[n], np.int32)) for n in numbers]
            padded = collate(pairs).to(next(models[0].parameters()).device)
            for model in models:
                model(padded.source, padded.source_lengths, padded.target_in)
            width = padded.source.shape[1]
            best = torch.stack([each.weights[..., -width:] for each in watched]).mean(0).argmax(-1)  # [S,T]
            for number, row in zip(numbers, best.tolist(), strict=True):
                places[number] = row[: len(targets[number])]
    return places
