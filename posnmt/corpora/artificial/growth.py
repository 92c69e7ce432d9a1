"""Trees of the built-in language pair with an exact number of source words, grown from a budget of words.

Every builder takes a budget and spends all of it, so that no sentence is rejected for its length. Clauses are embedded
up to `DEPTH` levels; the rest of the budget goes to siblings: adjuncts, conjuncts, clauses. So the depth of recursion
does not grow with the length.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from posnmt.corpora.artificial.grammar import Clause, Noun, Nouns, Predicate, Relative, Sentence, Tense
from posnmt.corpora.artificial.lexicon import Lexicon

Item = TypeVar("Item")

SHORTEST = 2
"""Source words of the shortest sentence: a name and an intransitive verb."""

CORE = 8
"""Source words of the longest clause with short reordering. A sentence of at most this length is one clause."""

DEPTH = 3
MOST_WORDS = (6, 10, 16, 24)
"""Most source words of a subject, object or adjunct, by the number of levels of embedding left inside it."""


class Grower:
    """Grows random trees.

    Args:
        lexicon: the words.
        random: the source of all choices.
    """

    def __init__(self, lexicon: Lexicon, random: Random) -> None:
        self.lexicon = lexicon
        self._random = random.random

    def sentence(self, words: int, share: float) -> Sentence:
        """A sentence of exactly `words` source words.

        Args:
            words: at least `SHORTEST`.
            share: where words beyond a core clause go: 1: into that clause, which gives long displacements; 0: into
                separate short clauses, which gives short ones; between: this share into the clause.
        """
        core = words if words <= CORE else CORE // 2 + self._below(CORE // 2 + 1)
        separate = round((1 - share) * (words - core))
        if separate <= SHORTEST:  # too few for a conjunction and a clause
            separate = 0 if share > 0 or words <= CORE else SHORTEST + 1
        clauses = [self._clause(size - 1, DEPTH) for size in self._cut(separate, SHORTEST + 1, CORE + 1)]
        clauses.insert(self._below(len(clauses) + 1), self._clause(words - separate, DEPTH))
        return Sentence(clauses, [int(self._chance(0.3)) for _ in clauses[1:]])

    def _clause(self, words: int, depth: int) -> Clause:
        size = self._size(min(words - 1, MOST_WORDS[depth]))
        return Clause(self._nouns(size, depth), self._predicates(words - size, depth))

    def _predicates(self, words: int, depth: int) -> list[Predicate]:
        """One predicate, or two with a conjunction. Only the last may contain a clause, which extends to its end."""
        if words < 4 or not self._chance(0.12):
            return [self._predicate(words, depth)]
        first = 1 + self._below(words - 2)
        return [self._predicate(first, depth, last=False), self._predicate(words - 1 - first, depth)]

    def _predicate(self, words: int, depth: int, last: bool = True, gap: bool = False) -> Predicate:
        """A predicate. `gap`: its object is the noun that its relative clause modifies, and not in the clause."""
        tense: Tense = "present"
        left = words - 1
        if left and self._chance(0.5):
            tense = "past" if self._chance(0.6) else "future"
            left -= 1
        predicate = Predicate(self._pick(self.lexicon.intransitive), tense)
        if gap:
            predicate.verb = self._pick(self.lexicon.transitive)
        elif last and depth and left > SHORTEST and self._chance(0.12):
            predicate.verb = self._pick(self.lexicon.speech)
            inside = left - 1 if self._chance(0.6) else left - 1 - self._below(min(MOST_WORDS[0], left - SHORTEST))
            left -= 1 + inside
            self._adjoin(predicate, left, depth)
            predicate.complement = self._clause(inside, depth - 1)
            return predicate
        elif left and self._chance(0.75):
            predicate.verb = self._pick(self.lexicon.transitive)
            size = min(left, MOST_WORDS[depth])
            size = size if self._chance(0.5) else self._size(size)
            predicate.object = self._nouns(size, depth)
            left -= size
        self._adjoin(predicate, left, depth)
        return predicate

    def _adjoin(self, predicate: Predicate, words: int, depth: int) -> None:
        """Spend words on an adverb and prepositional phrases of at least two words each."""
        if words == 1 or (words > 2 and self._chance(0.3)):
            predicate.adverb = self._pick(self.lexicon.adverbs)
            words -= 1
        predicate.adjuncts = [
            (self._pick(self.lexicon.prepositions), self._nouns(size - 1, depth))
            for size in self._cut(words, 2, MOST_WORDS[depth] + 1)
        ]

    def _nouns(self, words: int, depth: int) -> Nouns:
        """A noun, or several joined; `words` is at most `MOST_WORDS[depth]`."""
        if words < 3 or not self._chance(0.15):
            return [self._noun(words, depth)]
        return [self._noun(size - 1, depth) for size in self._cut(words + 1, 2, words - 1)]

    def _noun(self, words: int, depth: int) -> Noun:
        if words == 1:
            return Noun(self._pick(self.lexicon.names))
        noun = Noun(self._pick(self.lexicon.nouns), plural=self._chance(0.4), definite=self._chance(0.6))
        left = words - 2
        if left and self._chance(0.2):
            noun.numeral, noun.plural = self._pick(self.lexicon.numerals), True
            left -= 1
        adjectives = min(left, int(self._chance(0.5)) + int(self._chance(0.2)))
        left -= adjectives
        if left == 1:
            adjectives, left = adjectives + 1, 0
        noun.adjectives = self._distinct(self.lexicon.adjectives, adjectives)
        if left > 2 and depth and self._chance(0.7):
            # A relative clause needs its brackets and a verb; 'of' needs a name.
            size = left if left < 5 or self._chance(0.7) else 3 + self._below(left - 4)
            noun.relative = self._relative(size - 2, depth - 1)
            left -= size
        if left:
            noun.possessor = self._noun(left - 1, depth)
        return noun

    def _relative(self, words: int, depth: int) -> Relative:
        if words < 2 or self._chance(0.6):
            return Relative((), self._predicates(words, depth))
        size = self._size(min(words - 1, MOST_WORDS[depth]))
        return Relative(self._nouns(size, depth), [self._predicate(words - size, depth, gap=True)])

    def _size(self, most: int) -> int:
        """A size from 1 to `most`, small ones more often."""
        return 1 + self._below(min(most, 3) if self._chance(0.6) else most)

    def _cut(self, words: int, least: int, most: int) -> list[int]:
        """Random parts from `least` to `most` that add up to `words`, which is 0 or at least `least`."""
        parts = []
        while words:
            size = least + self._below(min(words, most) - least + 1)
            if 0 < words - size < least:
                size = words if words <= most else words - least
            parts.append(size)
            words -= size
        return parts

    def _distinct(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different items, for small counts."""
        chosen: list[Item] = []
        while len(chosen) < count:
            item = self._pick(items)
            if item not in chosen:
                chosen.append(item)
        return chosen

    # Only `random()` itself is the same in every Python version.
    def _below(self, bound: int) -> int:
        return int(self._random() * bound)

    def _chance(self, probability: float) -> bool:
        return self._random() < probability

    def _pick(self, items: Sequence[Item]) -> Item:
        return items[int(self._random() * len(items))]
