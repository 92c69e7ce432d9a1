"""Sentences of a line that its translation leaves out: found by three signs, without a reference.

- G: how well a sentence explains the translation, in nats for each of its n subwords and its end. It is how much less
  likely the translation is from the source without the sentence (as in Vamvas and Sennrich 2022, equation 1, who
  divide by the subwords of the translation): G_j = [ln p(y | x) - ln p(y | x without j)] / (n_j + 1).
- S: whether the translation has fewer sentences than the source.
- A: the share of a sentence's content words that some subword of the translation is aligned to.

S costs nothing, A one forward pass without search, and G one for the source and one for each sentence. So G is computed
only where S or a low A makes a line suspicious; where models have no alignments, S alone does. A low G decides. The
threshold is fitted on outputs that were judged and on translations from which a sentence was deleted
(benchmarks/omissions.py, benchmarks/notes/length.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from posnmt.config.schema import Decode
from posnmt.config.writing import writing
from posnmt.data.text import SideText, TextPipeline
from posnmt.translate.alignments import Align, Aligned
from posnmt.translate.requests import Part
from posnmt.translate.sentences import sentences
from posnmt.translate.spans import Interval
from posnmt.translate.translations import Translation

CONTENT = 4
"""Letters of a content word, at least, in scripts with blanks between words."""

SUSPICIOUS = 0.5
"""Share of aligned content words of a sentence below which G is computed."""

EXPLAINED = 0.65
"""G below which a sentence counts as left out; fitted by benchmarks/omissions.py."""

Score = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], Sequence[float]]
"""The log-probabilities of targets given their sources, both as subwords, end symbols included."""


@dataclass(frozen=True)
class Pair:
    """A source of several sentences and its translation.

    Attributes:
        text: of the source, with blanks for what does not go through the model.
        source: its subwords.
        sentences: where its sentences with words stand.
        target: the subwords of the translation.
        fewer: how many sentences the translation lacks compared with the source; 0 if it has as many or more.
        aligned: its links, if they are known.
    """

    text: str
    source: Sequence[int]
    sentences: Sequence[Interval]
    target: Sequence[int]
    fewer: int
    aligned: Aligned | None = None


class Evidence(NamedTuple):
    """The sign G of a sentence, and A, which may have made it suspicious; None: no alignments."""

    explained: float
    aligned: float | None

    @property
    def is_omission(self) -> bool:
        """Whether the sentence counts as left out."""
        return self.explained < EXPLAINED


def intervals(text: str, language: str, blanked: str | None = None) -> list[Interval]:
    """Where the sentences of a text stand that have a letter, without the white space around them.

    Args:
        language: code, for the ends of sentences.
        blanked: the text with blanks for what does not count; None: all of it counts.
    """
    counted = text if blanked is None else blanked
    ends = [0, *accumulate(map(len, sentences(text, language)))]
    places = []
    for start, end in pairwise(ends):
        part = text[start:end]
        if any(map(str.isalpha, counted[start:end])):
            begin = start + len(part) - len(part.lstrip())
            places.append(Interval(begin, start + len(part.rstrip())))
    return places


def with_omissions(
    parts: Sequence[Part],
    translations: Sequence[Translation],
    decode: Decode,
    text: TextPipeline,
    score: Score,
    align: Align | None,
    learned: int,
) -> list[Translation]:
    """The translations of parts of lines, with the sentences that they leave out.

    A part with words whose translation is empty leaves out all of its sentences, whatever `decode.complete` says.

    Args:
        align: None: there are no alignments.
        learned: the most sentences of a line that the models have learned to translate together. If a part has more,
            and its translation has n sentences less than the part, the n sentences that explain least count as left
            out. In other parts a smaller number proves nothing: a reference may join two sentences.
    """
    languages = text.source.words.language, text.target.words.language
    omitted: dict[int, Sequence[Interval]] = {}
    pairs: dict[int, Pair] = {}
    for place, (part, each) in enumerate(zip(parts, translations, strict=True)):
        is_empty = not each.text.strip()
        if each.passed or not part.ids or not each.hypotheses or (decode.complete == "off" and not is_empty):
            continue
        of_part = intervals(part.text, languages[0], part.model_text)
        if is_empty:
            omitted[place] = of_part
        elif len(of_part) > 1:
            fewer = max(0, len(of_part) - len(intervals(each.text, languages[1])))
            pairs[place] = Pair(part.model_text, part.ids, of_part, each.hypotheses[0].tokens, fewer, each.aligned)
    signs = examine([*pairs.values()], text.source, score, align)
    for (place, pair), of_pair in zip(pairs.items(), signs, strict=True):
        omitted[place] = [pair.sentences[each] for each in left_out(of_pair, pair.fewer, len(of_pair) <= learned)]
    return [replace(each, omitted=omitted.get(place, ())) for place, each in enumerate(translations)]


def left_out(signs: Sequence[Evidence | None], fewer: int, learned: bool) -> list[int]:
    """The places of the sentences of a line that count as left out, in order.

    Args:
        signs: of each sentence, as `examine` returns them.
        fewer: how many sentences the translation lacks compared with the line.
        learned: whether the models have learned to translate this many sentences together.
    """
    judged = [(place, sign) for place, sign in enumerate(signs) if sign is not None]
    judged.sort(key=lambda each: each[1].explained)
    count = sum(sign.is_omission for _, sign in judged)
    return sorted(place for place, _ in judged[: count if learned else max(count, fewer)])


def examine(
    pairs: Sequence[Pair], source: SideText, score: Score, align: Align | None, everything: bool = False
) -> list[list[Evidence | None]]:
    """The signs of each sentence of each pair; None: nothing is suspicious.

    Args:
        source: the text pipeline of the sources.
        everything: whether all sentences count as suspicious.
    """
    shares = _shares(pairs, align)
    suspicious = [
        (number, place)
        for number, (pair, of_pair) in enumerate(zip(pairs, shares, strict=True))
        for place, share in enumerate(of_pair)
        if everything or pair.fewer or (share is not None and share < SUSPICIOUS)
    ]
    texts = [_without(pairs[number].text, pairs[number].sentences[place]) for number, place in suspicious]
    without = source.encode(texts)
    numbers = sorted({number for number, _ in suspicious})
    scores = score(
        [*(pairs[number].source for number in numbers), *without],
        [pairs[number].target for number in numbers] + [pairs[number].target for number, _ in suspicious],
    )
    whole = dict(zip(numbers, scores, strict=False))
    signs: list[list[Evidence | None]] = [[None] * len(pair.sentences) for pair in pairs]
    for (number, place), rest, alone in zip(suspicious, without, scores[len(numbers) :], strict=True):
        subwords = max(0, len(pairs[number].source) - len(rest))
        signs[number][place] = Evidence((whole[number] - alone) / (subwords + 1), shares[number][place])
    return signs


def _without(text: str, sentence: Interval) -> str:
    """A text without one of its sentences."""
    return f"{text[: sentence.start]} {text[sentence.end :]}"


def _shares(pairs: Sequence[Pair], align: Align | None) -> list[list[float | None]]:
    """The share of aligned content words of each sentence; None: there are no alignments."""
    links: list[Aligned | None] = [pair.aligned for pair in pairs]
    unknown = [number for number, each in enumerate(links) if each is None]
    if align is not None and unknown:
        chosen = [pairs[number] for number in unknown]
        texts, sources = [each.text for each in chosen], [each.source for each in chosen]
        aligned = align(texts, sources, [[each.target] for each in chosen])
        for number, each in zip(unknown, aligned, strict=True):
            links[number] = each
    return [
        [None if each is None else _share(each, pair.text, where) for where in pair.sentences]
        for pair, each in zip(pairs, links, strict=True)
    ]


def _share(aligned: Aligned, text: str, sentence: Interval) -> float:
    """The share of the content words of a sentence that the best translation is aligned to.

    A sentence without any has its words count; one without words counts as aligned.
    """
    least = 1 if writing([text]).counts_characters else CONTENT
    linked = set(aligned.attended[0])
    letters = {
        number: sum(map(str.isalpha, word.text))
        for number, word in enumerate(aligned.words)
        if sentence.start <= word.start < sentence.end
    }
    counted = [number for number, count in letters.items() if count >= least]
    counted = counted or [number for number, count in letters.items() if count]
    return sum(number in linked for number in counted) / len(counted) if counted else 1.0
