"""Signs of wrong files in a corpus: dev pairs in train, copies, exchanged or shifted sides.

They are counted once, when a corpus is prepared, and are in the manifest as `signs`; every training prints them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posnmt.config.schema import Data
from posnmt.config.writing import EXAMPLES
from posnmt.data.corpus import Findings
from posnmt.data.listed import Files, Part, files_of, lines_of, read_part
from posnmt.data.offsets import Shift, shifts_in, shifts_of
from posnmt.data.offsets import sentences as sentences_of_shifts
from posnmt.data.survey import language_of

if TYPE_CHECKING:
    from posnmt.data.store import Split, Store
    from posnmt.data.text import TextPipeline

OVERLAP = 0.01
"""The share of dev pairs that may be in train without a warning."""

COPIES = 0.1
"""The share of pairs that may have equal sides without a warning."""

MARGIN = 0.2
"""Nats per pair of characters by which another language must fit better; English and German differ by 0.5 to 1."""

_BETWEEN_WORDS = re.compile(r"[\W\d_]+")

Sides = tuple[Sequence[str], Sequence[str]]


def signs(splits: dict[str, Split], files: Files, text: TextPipeline) -> dict[str, Any]:
    """The signs in the finished splits and in the first lines of the input files, for the manifest.

    Args:
        text: of the splits.
    """
    counted: dict[str, Any] = {}
    if "dev" in splits:
        prefixes = text.source.subwords.encode(text.source.marks)
        counted["dev_pairs_in_train"] = overlap(splits["dev"], splits["train"], prefixes)
    if "dev" in files:
        counted["exchanged"] = exchanged(_first_lines(files["train"]), _first_lines(files["dev"]))
    counted["shifts"] = {
        name if len(parts) == 1 else f"{name}.{number}": _shifts(part, splits[name], number)
        for name, parts in files.items()
        for number, part in enumerate(parts)
    }
    return counted


def _shifts(part: Part, split: Split, number: int) -> list[Shift]:
    """The misaligned stretches of a corpus, the one with a number in its split."""
    last = int(split.lines[split.corpora == number][-1])
    return shifts_in(partial(lines_of, part), last) if "file" in part.files else shifts_of(part.files, last)


def warnings(store: Store, data: Data) -> list[str]:
    """A sentence for each sign that the corpus of a training has wrong files."""
    sentences, manifest = [], store.manifest
    counted, splits = manifest["signs"], manifest["splits"]
    again = counted.get("dev_pairs_in_train", 0)
    if again > OVERLAP * splits.get("dev", {}).get("kept", math.inf):
        sentences.append(
            f"{again:,} of {splits['dev']['kept']:,} dev pairs are training pairs as well: dev scores are too good"
        )
    for name, split in splits.items():
        if split["copies"] > COPIES * split["kept"]:
            sentences.append(
                f"{name}: the target is a copy of the source in {split['copies']:,} of {split['kept']:,} pairs"
            )
    if counted.get("exchanged"):
        sentences.append(
            "dev's source looks like the target of the training text, and the reverse: are the files of dev exchanged?"
        )
    for name, stretches in counted.get("shifts", {}).items():
        sentences += [f"{name}: {sentence}" for sentence in sentences_of_shifts(stretches, "target", "source")]
    written = (data.source_language, data.target_language)
    for corpus in files_of(data)["train"]:
        named = tuple(language_of((name,)) for name in (corpus.source, corpus.target))
        if None not in written and named == written[::-1] and named[0] != named[1]:
            sentences.append(
                f"by their names the files are {named[0]} and {named[1]}, and data.source_language and .target_language"
                f" are {written[0]} and {written[1]}"
            )
    return list(dict.fromkeys(sentences))


def overlap(some: Split, many: Split, prefixes: Sequence[Sequence[int]] = ()) -> int:
    """How many pairs of a split are in another one, with the same subwords on both sides.

    Args:
        prefixes: subwords that the source may have before it in the other split.
    """
    others = fingerprints(many)
    found = np.isin(fingerprints(some), others)
    for prefix in prefixes:
        pairs = [some.pair(number) for number in range(len(some))]
        sources = _hashes_of([[*prefix, *source.tolist()] for source, _ in pairs])
        found |= np.isin(_paired(sources, _hashes_of([target.tolist() for _, target in pairs])), others)
    return int(found.sum())


def fingerprints(split: Split) -> NDArray[np.uint64]:
    """A 64-bit hash of the subwords of each pair, [N]."""
    return np.concatenate([_paired(_hashes(*source), _hashes(*target)) for source, target in split.record_batches()])


def contained(
    split: Split,
    sources: Sequence[Sequence[int]],
    references: Sequence[Sequence[Sequence[int]]],
    prefixes: Sequence[Sequence[int]] = (),
) -> tuple[int, int]:
    """How many sources are in a split with the same subwords, and how many together with one of their references.

    Args:
        sources: the subwords of each source, which is not empty.
        references: the subwords of each translation, for each reference; one that is empty is in no split.
        prefixes: subwords that a source may have before it in the split.
    """
    asked = [_hashes_of([[*before, *source] for source in sources]) for before in ((), *prefixes)]
    targets = [_hashes_of(each) for each in references]
    pairs = [_paired(each, target) for each in asked for target in targets]
    has_source, has_pair = np.zeros(len(sources), bool), np.zeros(len(sources), bool)
    for source, target in split.record_batches():
        hashes = _hashes(*source)
        for each in asked:
            has_source |= np.isin(each, hashes)
        paired = _paired(hashes, _hashes(*target))
        for each in pairs:
            has_pair |= np.isin(each, paired)
    return int(has_source.sum()), int(has_pair.sum())


def _paired(sources: NDArray[np.uint64], targets: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each pair, of the hashes of its sides."""
    return sources * np.uint64(0x9E3779B97F4A7C15) + targets


def _hashes_of(rows: Sequence[Sequence[int]]) -> NDArray[np.uint64]:
    """`_hashes` for lists; 0 for an empty list."""
    hashes = np.zeros(len(rows), np.uint64)
    filled = [number for number, row in enumerate(rows) if len(row)]
    if filled:
        starts = np.cumsum([0, *(len(rows[number]) for number in filled)])
        hashes[filled] = _hashes(np.concatenate([np.asarray(rows[n], np.int32) for n in filled]), starts)
    return hashes


def _hashes(ids: NDArray[np.int32], starts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Σ g(id_i) · b^i modulo 2^64 of each row, b odd; rows are not empty."""
    ids, starts = ids[starts[0] : starts[-1]], starts - starts[0]
    lengths = np.diff(starts)
    powers = np.cumprod(np.full(int(lengths.max()), 0xD1342543DE82EF95, dtype=np.uint64))
    places = np.arange(len(ids)) - np.repeat(starts[:-1], lengths)
    mixed = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    return np.add.reduceat(mixed * powers[places], starts[:-1])


def exchanged(train: Sides, dev: Sides) -> bool:
    """Whether dev looks like the training text with its sides exchanged.

    A side alone can mislead: Chinese documentation of software, with many English words, looks more like English.
    """
    return sum(likeness(dev[side], train[1 - side], train[side]) for side in (0, 1)) / 2 > MARGIN


def likeness(text: Iterable[str], one: Iterable[str], other: Iterable[str]) -> float:
    """Nats per pair of characters by which a text looks more like one text than like another."""
    counts = _bigrams(text)
    return _likelihood(counts, _bigrams(one)) - _likelihood(counts, _bigrams(other))


def _bigrams(lines: Iterable[str]) -> Counter[str]:
    """Pairs of letters in lower case; one blank stands for everything between words, as in tokenised text."""
    return Counter(
        first + second for line in lines for first, second in pairwise(_BETWEEN_WORDS.sub(" ", line.lower()))
    )


def _likelihood(counts: Counter[str], learned: Counter[str]) -> float:
    """The mean log-likelihood of pairs of characters by the frequencies of others; an unseen pair counts once."""
    total = learned.total() + len(learned) + 1
    return sum(count * math.log((learned[pair] + 1) / total) for pair, count in counts.items()) / max(1, counts.total())


def _first_lines(parts: Sequence[Part]) -> Sides:
    """The first lines of both sides of corpora, of each the same number."""
    pairs = list[tuple[str, str]]()
    for part in parts:
        chunks = read_part(part, Findings(accept=("empty", "crlf")))
        found = ((s, t) for chunk in chunks for s, t in zip(chunk.sources, chunk.targets, strict=True))
        pairs += islice(found, EXAMPLES // len(parts))
    source, target = zip(*pairs, strict=True)
    return source, target
