"""Pairs subwords by their translations, their spelling and their frequency (see `posnmt.data.word_pairs`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from posnmt.base.errors import UserError
from posnmt.config.numbers import in_digits
from posnmt.data.alignment import align
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.data.store import Split
from posnmt.data.subword import SPECIALS
from posnmt.data.text import TextPipeline
from posnmt.data.word_pairs import WordPairs

Translations = Mapping[tuple[int, int], float]
"""Probabilities of target subwords given source subwords."""


def pair_words(
    pieces: tuple[Sequence[str], Sequence[str]],
    counts: tuple[Sequence[int], Sequence[int]],
    translations: Translations,
    threshold: float,
) -> WordPairs:
    """Pair the subwords of two vocabularies.

    Args:
        pieces: the entries of source and target vocabulary, special symbols first.
        counts: how often each occurs in the training text.
        translations: the most probable ones become pairs of the class `lm`; each subword is in at most one pair.
        threshold: least probability of a pair of this class.
    """
    rows = [(word, word, "all") for word in range(SPECIALS)]
    free = [dict.fromkeys(range(SPECIALS, len(side))) for side in pieces]  # sets with an order

    def add(source: int, target: int, kind: str) -> None:
        if source in free[0] and target in free[1]:
            del free[0][source], free[1][target]
            rows.append((source, target, kind))

    ranked = sorted(translations, key=lambda pair: (-translations[pair], -counts[0][pair[0]], pair))
    for source, target in ranked:
        if translations[source, target] >= threshold:
            add(source, target, "lm")
    spelt = {pieces[1][word]: word for word in free[1]}
    for source in list(free[0]):
        if pieces[0][source] in spelt:
            add(source, spelt[pieces[0][source]], "wf")
    by_rank = [
        sorted(side, key=lambda word, of=of: (-of[word], word))  # type: ignore[misc]
        for side, of in zip(free, counts, strict=True)
    ]
    for source, target in zip(*by_rank, strict=False):
        add(source, target, "ur")
    return WordPairs.of(rows)


def translations_of(pairs: Iterable[tuple[Iterable[int], Iterable[int]]]) -> dict[tuple[int, int], float]:
    """The share of each source subword's occurrences that eflomal links to a target subword.

    Raises:
        UserError: eflomal is not installed, or fails.
    """
    rows = [(list(map(str, source)), list(map(str, target))) for source, target in pairs]
    linked: Counter[tuple[int, int]] = Counter()
    for (source, target), links in zip(rows, align(rows), strict=True):
        linked.update({(int(source[i]), int(target[j])) for i, j in links})
    # a subword that occurs twice in a sentence counts once, on both sides of the division
    occurs = Counter(int(word) for source, _ in rows for word in set(source))
    return {(source, target): number / occurs[source] for (source, target), number in linked.items()}


def read_lexicon(path: Path, text: TextPipeline) -> tuple[dict[tuple[int, int], float], int]:
    """The translations in a file, one a line (source <tab> target <tab> probability), and the number of unknown ones.

    A translation is known if both words are entries of the vocabularies, in SentencePiece's form (`▁` for a blank).

    Raises:
        UserError: names the first line of another form.
    """
    ids = [{piece: word for word, piece in enumerate(side.subwords.pieces)} for side in (text.source, text.target)]
    translations, unknown = {}, 0
    findings = Findings(accept=("crlf",))
    for number, line in enumerate(read_lines(TextFile("lexicon", path), findings), start=1):
        try:
            source, target, share = line.split("\t")
            probability = float(in_digits(share))
            if not 0 <= probability <= 1:
                raise ValueError
        except ValueError:
            todo = "write source <tab> target <tab> probability, for example ▁dog <tab> ▁Hund <tab> 0.8"
            raise UserError("not an entry of a lexicon", f"{path}:{number}", todo) from None
        if source in ids[0] and target in ids[1]:
            translations[ids[0][source], ids[1][target]] = probability
        else:
            unknown += 1
    findings.raise_all()
    return translations, unknown


def pairs_of(text: TextPipeline, train: Split, translations: Translations, threshold: float) -> WordPairs:
    """`pair_words` for the vocabularies of a text pipeline, with the counts of a training split."""
    pieces = text.source.subwords.pieces, text.target.subwords.pieces
    counts = [np.zeros(len(side), np.int64) for side in pieces]
    for sides in train.record_batches():
        for count, (ids, starts) in zip(counts, sides, strict=True):
            count += np.bincount(ids[starts[0] : starts[-1]], minlength=len(count))
    return pair_words(pieces, (counts[0].tolist(), counts[1].tolist()), translations, threshold)
