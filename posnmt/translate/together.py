"""Lines that are translated together, each in the context of the others, by models trained with `train.context`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from posnmt.data.subword import BREAK
from posnmt.translate.parts import Parts
from posnmt.translate.search import Hypothesis
from posnmt.translate.translations import Translation

Search = Callable[[Sequence[Sequence[int]], Sequence[int]], list[list[Hypothesis]]]
"""The hypotheses of sources, best first, with so many breaks each."""


def blocks(lines: Sequence[str], documents: Sequence[str | None], join: int) -> list[range]:
    """The places of lines in blocks of up to `join` consecutive ones, which no document and no blank line divides.

    Args:
        lines: in the order of their documents.
        documents: the document of each line, None for a line without; none at all: a blank line alone ends one.
    """
    ranges, first = list[range](), 0
    for place in range(1, len(lines) + 1):
        if (
            place == len(lines)
            or place - first == join
            or not lines[place].strip()
            or not lines[first].strip()
            or (documents and not documents[place] == documents[first] is not None)
        ):
            ranges.append(range(first, place))
            first = place
    return ranges


def in_blocks(
    portions: Iterable[list[str]], documents: Sequence[str | None], join: int, done: int = 0
) -> Iterator[list[str]]:
    """Portions of lines that end where a block ends, so that blocks do not depend on portions.

    Args:
        documents, join: as of `blocks`, the documents of all lines.
        done: lines before the first portion, which is the beginning of a block.
    """
    waiting: list[str] = []
    for portion in portions:
        waiting += portion
        *_, last = blocks(waiting, documents[done : done + len(waiting)], join)
        is_whole = len(last) == join or not waiting[last.start].strip()
        if end := last.stop if is_whole else last.start:
            yield waiting[:end]
            waiting, done = waiting[end:], done + end
    if waiting:
        yield waiting


@dataclass(frozen=True)
class Together:
    """The hypotheses of sentences, some of them translated together.

    Attributes:
        hypotheses: of each sentence; one alone where it was translated with others.
        sizes: sentences that each was translated with, itself included.
        fell_apart: the sentences of groups that the output limit ended, each of them translated alone.
    """

    hypotheses: list[list[Hypothesis]]
    sizes: list[int]
    fell_apart: set[int]

    def marked(self, translations: Iterable[Translation]) -> list[Translation]:
        """The translations of the sentences, with how each was made."""
        return [
            replace(each, joined=size, fell_apart=place in self.fell_apart)
            for place, (each, size) in enumerate(zip(translations, self.sizes, strict=True))
        ]


@dataclass(frozen=True)
class Groups:
    """The parts of lines in groups that are translated together.

    Attributes:
        sources: the subwords of each group, with `BREAK` between its sentences.
        sizes: sentences of each group.
    """

    sources: list[list[int]]
    sizes: list[int]

    def translate(self, search: Search, length_penalty: float) -> Together:
        """The hypotheses of all sentences, in order."""
        results = search(self.sources, [size - 1 for size in self.sizes])
        hypotheses, sizes, fell_apart = list[list[Hypothesis]](), list[int](), dict[int, list[int]]()
        for source, size, of_group in zip(self.sources, self.sizes, results, strict=True):
            separate = apart(of_group[0], size, length_penalty) if size > 1 else None
            if separate is not None:
                hypotheses += [[each] for each in separate]
                sizes += [size] * size
                continue
            if size > 1:
                fell_apart |= dict(enumerate(sentences_of(source), len(sizes)))
            hypotheses += [of_group] * size
            sizes += [1] * size
        for place, again in zip(fell_apart, search([*fell_apart.values()], [0] * len(fell_apart)), strict=True):
            hypotheses[place] = again
        return Together(hypotheses, sizes, set(fell_apart))


def grouped(parts: Parts, in_block: Sequence[range], longest: int | None) -> Groups:
    """The parts of lines in groups: the lines of a block, where none of them is in parts.

    Args:
        in_block: places of the lines of each block, all lines in order.
        longest: most subwords of a group; the lines of a larger one are translated alone. None: no limit.
    """
    sources, sizes = list[list[int]](), list[int]()
    for lines in in_block:
        of_lines = [parts.encoded[line] for line in lines]
        together = [ids for [ids, *_] in of_lines]
        whole = joined(together)
        fits = longest is None or len(whole) <= longest
        if fits and all(together) and all(len(each) == 1 for each in of_lines):
            sources.append(whole)
            sizes.append(len(together))
        else:
            flat = [ids for each in of_lines for ids in each]
            sources += flat
            sizes += [1] * len(flat)
    return Groups(sources, sizes)


def joined(sentences: Sequence[Sequence[int]]) -> list[int]:
    """The subwords of sentences with `BREAK` between them."""
    return [token for sentence in sentences for token in (BREAK, *sentence)][1:]


def sentences_of(tokens: Sequence[int]) -> list[list[int]]:
    """The sentences of `joined`."""
    ends = [place for place, token in enumerate(tokens) if token == BREAK]
    return [list(tokens[begin + 1 : end]) for begin, end in pairwise([-1, *ends, len(tokens)])]


def apart(hypothesis: Hypothesis, sentences: int, length_penalty: float) -> list[Hypothesis] | None:
    """The hypotheses of the sentences of a group; None: the limit ended it, so that the last one is cut or missing.

    A `BREAK` belongs to the sentence that it ends, as eos belongs to the last one. The coverage penalty ranks whole
    groups: the attention to a sentence is not that of its translation alone, so the scores of sentences are without it.
    """
    written = sentences_of(hypothesis.tokens)
    if not hypothesis.ended or len(written) != sentences:
        return None
    gained = hypothesis.log_probabilities
    parts, begin = [], 0
    for tokens in written:
        end = begin + len(tokens)
        is_last = end == len(hypothesis.tokens)
        log_probability = (
            (hypothesis.log_probability - sum(gained[:begin]) if is_last else sum(gained[begin : end + 1]))
            if gained
            else math.nan
        )
        score = log_probability / (len(tokens) + 1) ** length_penalty
        parts.append(Hypothesis(tokens, log_probability, score, True, gained[begin:end]))
        begin = end + 1
    return parts
