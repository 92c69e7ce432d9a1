"""The built-in corpus: an artificial language pair with any sentence length, exact references and word alignments.

`generate` yields sentence pairs, `write` writes corpora of disjoint sets, and `command` writes the corpus of `posnmt
condition artificial`. lexicon.py has the words, grammar.py the grammar, and growth.py controls length and reordering.
docs/artificial.md describes what the corpus can and cannot show.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from posnmt.base.errors import UserError, raise_all
from posnmt.corpora.artificial.grammar import Pair, translate
from posnmt.corpora.artificial.growth import SHORTEST, Grower
from posnmt.corpora.artificial.lexicon import DEFAULT_SIZE, Lexicon, make_lexicon
from posnmt.corpora.conditions.files import PlainFiles

SHARES: dict[str, float | None] = {"short": 0.0, "long": 1.0, "mixed": None}
"""Named reordering → `share` of `Grower.sentence`; None: the share is drawn for each sentence."""

PATIENCE = 200
"""After this number of consecutive draws without a new sentence, a length is considered exhausted."""


@dataclass(frozen=True)
class Split:
    """One set of a corpus: the number of pairs, and the smallest and largest number of source words."""

    count: int
    minimum: int
    maximum: int


def generate(
    count: int,
    minimum: int,
    maximum: int,
    seed: int | str,
    *,
    reordering: str | float = "mixed",
    lexicon: Lexicon | int = DEFAULT_SIZE,
    weights: Mapping[int, float] | None = None,
    exclude: Iterable[str] = (),
) -> Iterator[Pair]:
    """`count` pairs with different sources; the same arguments give the same pairs.

    If a length has too few different sentences, the other lengths provide the rest.

    Args:
        count: pairs.
        minimum, maximum: source length in words, both included; at least 2.
        seed: seed of the sentences.
        reordering: `short`, `long`, `mixed`, or a share from 0 (short) to 1 (long); see `Grower.sentence`.
        lexicon: the words, or their number.
        weights: relative frequency of each source length (0 for missing lengths); default: uniform.
        exclude: sources to avoid.

    Raises:
        UserError: arguments are out of range; or, after the last pair, there are too few different sentences.
    """
    split = Split(count, minimum, maximum)
    raise_all(_faults("", split))
    words = make_lexicon(lexicon) if isinstance(lexicon, int) else lexicon
    frequencies = {
        length: 1.0 if weights is None else weights.get(length, 0.0) for length in range(minimum, maximum + 1)
    }
    if min(frequencies.values()) < 0 or not 0 < sum(frequencies.values()) < float("inf"):
        raise UserError(f"weights of lengths {minimum} to {maximum} must be 0 or more, not all 0", "weights")
    return _draw(split, Random(f"sentences {seed}"), _share(reordering), words, frequencies, set(exclude))


def corpus(
    splits: Mapping[str, Split],
    seed: int,
    *,
    reordering: str | float = "mixed",
    lexicon: Lexicon | int = DEFAULT_SIZE,
) -> dict[str, list[Pair]]:
    """Several sets of pairs. No two sets share a source sentence.

    The sets are drawn from the last to the first, each with its own seed. So a set does not depend on the size of the
    sets before it: if train is first, test does not change with the size of train.

    Raises:
        UserError: a set has faults (all are reported), or too few different sentences of its lengths.
    """
    raise_all([fault for name, split in splits.items() for fault in _faults(name, split)])
    words = make_lexicon(lexicon) if isinstance(lexicon, int) else lexicon
    used: set[str] = set()
    sets: dict[str, list[Pair]] = {}
    for name, split in reversed(list(splits.items())):
        try:
            pairs = list(
                generate(
                    split.count, split.minimum, split.maximum, f"{seed} {name}",
                    reordering=reordering, lexicon=words, exclude=used,
                )
            )  # fmt: skip
        except UserError as error:
            raise UserError(f"{name}: {error.what}", error.where, error.todo) from None
        used.update(pair.source for pair in pairs)
        sets[name] = pairs
    return {name: sets[name] for name in splits}


def write(
    out: str | Path,
    splits: Mapping[str, Split],
    seed: int,
    *,
    reordering: str | float = "mixed",
    lexicon: int = DEFAULT_SIZE,
) -> dict[str, Any]:
    """Write a corpus as plain files.

    For each set NAME: NAME.source, NAME.target and NAME.align (Pharaoh format), aligned line by line; and lexicon.tsv
    (category, source, target stems, class) and manifest.json (parameters, hashes, statistics). No file is overwritten.

    Returns:
        The manifest.
    """
    words = make_lexicon(lexicon)
    with PlainFiles(out) as files:
        sets = corpus(splits, seed, reordering=reordering, lexicon=words)
        for name, pairs in sets.items():
            rows = ((pair.source, pair.target, pair.pharaoh) for pair in pairs)
            files.write((f"{name}.source", f"{name}.target", f"{name}.align"), rows)
        files.write(("lexicon.tsv",), ((row,) for row in words.rows()))
        parameters = {
            "seed": seed,
            "reordering": reordering,
            "lexicon": lexicon,
            "sets": {name: asdict(split) for name, split in splits.items()},
        }
        return files.finish("artificial", parameters, {name: statistics(pairs) for name, pairs in sets.items()})


@dataclass(frozen=True)
class Design:
    """The corpus of `posnmt condition artificial`, with its defaults.

    Attributes:
        train, dev, test: pairs; `test-long` has as many as `test`.
        min_length, max_length: source words in `train` and `dev`.
        test_max_length: source words in `test`, which is uniform from `min_length` on. `test-long` has only lengths
            above `max_length`, and is omitted if there are none.
        seed, reordering, lexicon: see `generate`.
    """

    train: int = 20_000
    dev: int = 500
    test: int = 1_000
    min_length: int = 3
    max_length: int = 14
    test_max_length: int = 42
    seed: int = 1
    reordering: str | float = "mixed"
    lexicon: int = DEFAULT_SIZE

    def splits(self) -> dict[str, Split]:
        """The sets by name.

        Raises:
            UserError: tests would be shorter than the training text.
        """
        longest, longest_test = self.max_length, self.test_max_length
        if longest_test < longest:
            raise UserError(
                f"the longest test length, {longest_test}, is below the longest training length, {longest}",
                "test_max_length",
                f"choose at least {longest}",
            )
        splits = {
            "train": Split(self.train, self.min_length, longest),
            "dev": Split(self.dev, self.min_length, longest),
            "test": Split(self.test, self.min_length, longest_test),
        }
        if longest_test > longest:
            splits["test-long"] = Split(self.test, longest + 1, longest_test)
        return splits


def command(out: str | Path, **options: Any) -> dict[str, Any]:
    """Write the corpus of `posnmt condition artificial`; return the manifest.

    Args:
        options: fields of `Design`.
    """
    design = Design(**options)
    return write(out, design.splits(), design.seed, reordering=design.reordering, lexicon=design.lexicon)


def statistics(pairs: Iterable[Pair]) -> dict[str, dict[str, float]]:
    """Smallest, mean and largest length of each side and displacement, in words; `pairs` must not be empty.

    The mean displacement is the mean over all words. The smallest and largest are those among the largest displacements
    of each sentence.
    """
    pairs = list(pairs)
    sources = [pair.source_length for pair in pairs]
    targets = [pair.target_length for pair in pairs]
    largest = [pair.max_displacement for pair in pairs]
    moved = sum(sum(pair.displacements) for pair in pairs)

    def summary(values: list[int], mean: float) -> dict[str, float]:
        return {"minimum": min(values), "mean": round(mean, 3), "maximum": max(values)}

    return {
        "source_length": summary(sources, sum(sources) / len(pairs)),
        "target_length": summary(targets, sum(targets) / len(pairs)),
        "displacement": summary(largest, moved / sum(sources)),
    }


def _draw(
    split: Split, random: Random, share: float | None, lexicon: Lexicon, weights: dict[int, float], seen: set[str]
) -> Iterator[Pair]:
    grower = Grower(lexicon, random)

    def new(length: int) -> Pair | None:
        """A pair with a new source, or None if the length is exhausted."""
        for _ in range(PATIENCE):
            pair = translate(grower.sentence(length, random.random() if share is None else share))
            if pair.source not in seen:
                seen.add(pair.source)
                return pair
        return None

    lengths = {length: weight for length, weight in weights.items() if weight > 0}
    count = 0
    while count < split.count:
        if not lengths:
            raise UserError(
                f"there are only {count} different sentences of {split.minimum} to {split.maximum} words, "
                f"and {split.count} are requested",
                todo="request fewer or longer sentences, or a larger lexicon",
            )
        choices, bounds = list(lengths), list(accumulate(lengths.values()))
        for _ in range(split.count - count):
            length = choices[bisect(bounds, random.random() * bounds[-1], hi=len(bounds) - 1)]
            pair = new(length)
            if pair is None:
                del lengths[length]
                break
            count += 1
            yield pair


def _share(reordering: str | float) -> float | None:
    """The share of a named reordering; None: drawn for each sentence."""
    if isinstance(reordering, str) and reordering in SHARES:
        return SHARES[reordering]
    try:
        share = float(reordering)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UserError(f"reordering is {', '.join(SHARES)}, or a number from 0 to 1, not {reordering!r}", "reordering")
    return share


def _faults(name: str, split: Split) -> list[UserError]:
    head = f"{name}: " if name else ""
    faults = []
    if split.count < 1:
        faults.append(UserError(f"{head}the number of sentences must be 1 or more, not {split.count}"))
    if split.minimum < SHORTEST:
        faults.append(
            UserError(
                f"{head}the shortest sentence, a name and a verb, has {SHORTEST} words, not {split.minimum}",
                todo=f"set the shortest length to {SHORTEST} or more",
            )
        )
    if split.maximum < split.minimum:
        faults.append(UserError(f"{head}the longest length, {split.maximum}, is below the shortest, {split.minimum}"))
    return faults
