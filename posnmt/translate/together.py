"""Lines that are translated together, each in the context of the others, by models trained with `train.context`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from posnmt.data.subword import BREAK
from posnmt.translate.requests import Part, Request
from posnmt.translate.search import Hypothesis


def blocks(requests: Sequence[Request], join: int) -> list[range]:
    """The places of lines in blocks of up to `join` consecutive lines of one document, without blank lines.

    A blank line, and a line without a document, is a block by itself.

    Args:
        requests: lines in the order of their documents.
    """
    ranges, first = list[range](), 0
    for place in range(1, len(requests) + 1):
        if (
            place == len(requests)
            or place - first == join
            or not requests[place].line.strip()
            or not requests[first].line.strip()
            or not requests[place].document == requests[first].document is not None
        ):
            ranges.append(range(first, place))
            first = place
    return ranges


def in_blocks(portions: Iterable[list[Request]], join: int) -> Iterator[list[Request]]:
    """Portions of lines that end where a block ends, so that blocks do not depend on portions.

    Args:
        portions: the first line is the beginning of a block.
        join: as in `blocks`.
    """
    waiting: list[Request] = []
    for portion in portions:
        waiting += portion
        *_, last = blocks(waiting, join)
        is_whole = len(last) == join or not waiting[last.start].line.strip()
        if end := last.stop if is_whole else last.start:
            yield waiting[:end]
            waiting = waiting[end:]
    if waiting:
        yield waiting


@dataclass(frozen=True)
class Found:
    """What search found for a part.

    Attributes:
        hypotheses: a single one where the part was translated with others.
        joined: the number of parts that were translated together, this one included.
        fell_apart: whether the part was translated alone because the translation of its group reached the limit.
    """

    hypotheses: list[Hypothesis]
    joined: int = 1
    fell_apart: bool = False


def grouped(lines: Sequence[Sequence[Part]], join: int, longest: int | None) -> list[list[Part]]:
    """The parts of lines in groups: the lines of a block are one group if none of them is in parts.

    Args:
        lines: the parts of each line.
        join: as in `blocks`.
        longest: most subwords of a group; the lines of a larger one are translated alone. None: no limit.
    """
    groups: list[list[Part]] = []
    for block in blocks([parts[0].request for parts in lines], join):
        of_lines = [lines[place] for place in block]
        parts = [part for each in of_lines for part in each]
        fits = longest is None or len(joined([part.ids for part in parts])) <= longest
        if fits and len(parts) == len(of_lines) and all(part.ids for part in parts):
            groups.append(parts)
        else:
            groups += [[part] for part in parts]
    return groups


def search_together(
    groups: Sequence[Sequence[Part]],
    search: Callable[[Sequence[Part]], list[list[Hypothesis]]],
    length_penalty: float,
) -> list[Found]:
    """What search finds for the parts of all groups, in order; a group whose translation is cut is searched apart."""
    found: list[Found] = []
    for group, hypotheses in zip(groups, search([_whole(group) for group in groups]), strict=True):
        if len(group) == 1:
            found.append(Found(hypotheses))
        elif (separate := apart(hypotheses[0], len(group), length_penalty)) is None:
            found += [Found([], fell_apart=True)] * len(group)
        else:
            found += [Found([each], len(group)) for each in separate]
    parts = [part for group in groups for part in group]
    alone = iter(search([part for part, each in zip(parts, found, strict=True) if each.fell_apart]))
    return [replace(each, hypotheses=next(alone)) if each.fell_apart else each for each in found]


def _whole(group: Sequence[Part]) -> Part:
    """The parts of a group as one."""
    if len(group) == 1:
        return group[0]
    return replace(group[0], ids=joined([part.ids for part in group]), breaks=len(group) - 1)


def joined(sentences: Sequence[Sequence[int]]) -> list[int]:
    """The subwords of sentences with `BREAK` between them."""
    return [token for sentence in sentences for token in (BREAK, *sentence)][1:]


def sentences_of(tokens: Sequence[int]) -> list[list[int]]:
    """Split the subwords that `joined` returned into sentences again."""
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
