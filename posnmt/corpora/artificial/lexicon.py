"""The words of the built-in language pair: invented stems on both sides, made by a seeded syllable generator.

Source stems have open syllables (`balo`), target stems closed ones (`kethun`), so that the two sides share no words.
Two properties of a word are not visible in the source: the class of a noun, and the target stem of an ambiguous verb or
adjective, which depends on the class of a noun.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from posnmt.base.errors import UserError

DEFAULT_SIZE = 120
SMALLEST_SIZE, LARGEST_SIZE = 40, 20_000

CLASSES = ("living", "long", "round")
"""Noun classes; a `noun_class` is an index into this."""


class Word(NamedTuple):
    """One entry of the lexicon.

    Attributes:
        source: the source word, never inflected.
        targets: target stem for each class of the noun that decides it; all equal unless the word is ambiguous.
        noun_class: class of a noun or a name, index into `CLASSES`; 0 for other words.
        name: whether it is a proper name, without article, number or modifiers.
    """

    source: str
    targets: tuple[str, str, str]
    noun_class: int = 0
    name: bool = False


@dataclass(frozen=True)
class Lexicon:
    """All content words by category. Every source word and every target stem belongs to a single entry."""

    nouns: tuple[Word, ...]
    names: tuple[Word, ...]
    adjectives: tuple[Word, ...]
    numerals: tuple[Word, ...]
    adverbs: tuple[Word, ...]
    prepositions: tuple[Word, ...]
    intransitive: tuple[Word, ...]
    transitive: tuple[Word, ...]
    speech: tuple[Word, ...]

    def categories(self) -> Iterator[tuple[str, Word]]:
        """Every word with the name of its category, sorted by category."""
        for category, words in vars(self).items():
            for word in words:
                yield category, word

    def rows(self) -> Iterator[str]:
        """The lexicon as TSV lines: category, source, target stem(s) by class, class of a noun (else `-`)."""
        for category, word in self.categories():
            stems = word.targets[0] if len(set(word.targets)) == 1 else "/".join(word.targets)
            noun_class = CLASSES[word.noun_class] if category in ("nouns", "names") else "-"
            yield f"{category}\t{word.source}\t{stems}\t{noun_class}"


SHARES = {
    "nouns": 0.42, "names": 0.08, "adjectives": 0.13, "numerals": 0.04, "adverbs": 0.05, "prepositions": 0.05,
    "intransitive": 0.07, "transitive": 0.13, "speech": 0.03,
}  # fmt: skip
AMBIGUOUS = {"transitive": 0.25, "adjectives": 0.2}
"""Share of a category whose target stem differs between the living class and the two other classes."""

SOURCE_ONSETS = ["b", "d", "f", "g", "l", "m", "n", "p", "r", "s", "t", "v", "z"]
TARGET_ONSETS = ["k", "th", "sh", "h", "j", "w", "y", "n", "t", "s", "r"]
TARGET_CODAS = ["n", "th", "k", "sh", "m", "l", "s"]
VOWELS = ["a", "e", "i", "o", "u"]


def make_lexicon(size: int = DEFAULT_SIZE, seed: int = 0) -> Lexicon:
    """A lexicon of `size` source words; the same size and seed give the same words.

    Args:
        size: content words of all categories; the grammar adds a dozen function words.
        seed: seed of the words; sentences have another, so corpora with different seeds share a language.

    Raises:
        UserError: size outside 40 to 20,000.
    """
    if not SMALLEST_SIZE <= size <= LARGEST_SIZE:
        raise UserError(
            f"an artificial lexicon has {SMALLEST_SIZE} to {LARGEST_SIZE} words, not {size}",
            "lexicon",
            f"choose a size from {SMALLEST_SIZE} to {LARGEST_SIZE}",
        )
    random = Random(f"lexicon {size} {seed}")
    # All stems of a side have the same number of syllables, so that no stem is another stem with a suffix.
    sources = _stems(random, 2 if size <= 1500 else 3, source=True)
    targets = _stems(random, 2 if size <= 2500 else 3, source=False)

    def word(category: str, index: int, total: int) -> Word:
        name = category == "names"
        first = next(targets)
        other = next(targets) if index < total * AMBIGUOUS.get(category, 0.0) else first
        source = next(sources)
        if name:
            return Word(source.capitalize(), (first.capitalize(),) * 3, name=True)
        # Classes alternate, so that each has a third of the nouns; stems are random anyway.
        return Word(source, (first, other, other), index % len(CLASSES) if category == "nouns" else 0)

    counts = {category: max(2, round(share * size)) for category, share in SHARES.items()}
    counts["nouns"] += size - sum(counts.values())
    return Lexicon(**{
        category: tuple(word(category, index, total) for index in range(total)) for category, total in counts.items()
    })  # fmt: skip


def _stems(random: Random, syllables: int, source: bool) -> Iterator[str]:
    """An endless stream of distinct stems: open syllables, the last one closed on the target side."""
    onsets = SOURCE_ONSETS if source else TARGET_ONSETS
    seen = set()
    while True:
        stem = "".join(_choose(random, onsets) + _choose(random, VOWELS) for _ in range(syllables))
        if not source:
            stem += _choose(random, TARGET_CODAS)
        if stem not in seen:
            seen.add(stem)
            yield stem


def _choose(random: Random, items: list[str]) -> str:
    # Only `random()` itself is the same in every Python version.
    return items[int(random.random() * len(items))]
