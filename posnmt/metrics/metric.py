"""What a metric is: how it counts sentences, and how sums of its counts become a score.

Counts add up over sentences. A corpus is counted once into an array `[N, K]`; the score of any part of it, such as a
length bin or a resample, is a function of the sum of its rows.

Legend: N sentences, R references of a sentence (each may have another number), K counts of a metric, `...` any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from posnmt.metrics.measure import Measure
from posnmt.metrics.ngrams import Matches, Sentence, matches

if TYPE_CHECKING:
    import numpy as np

BLEU_ORDER = 4

References = Sequence[Sequence[str]]
"""For each of N sentences its references, at least one."""
Words = Callable[[str], Sentence]


@dataclass(frozen=True)
class Counting:
    """Settings that metrics share.

    Attributes:
        bleu_tokenizer: sacreBLEU's tokeniser, for BLEU.
        characters: whether a metric with `counts_words` counts characters instead.
        references: all numbers of references that sentences of the whole text have.
    """

    bleu_tokenizer: str = "13a"
    characters: bool = False
    references: Collection[int] = (1,)


@dataclass(frozen=True)
class Texts:
    """The outputs of several systems for N sentences, with the n-grams that they share with the references.

    Attributes:
        systems: each system's N outputs.
        references: of the sentences.
    """

    systems: Sequence[list[str]]
    references: References
    _matches: dict[Words, list[Matches]] = field(default_factory=dict)

    def matches(self, words: Words) -> list[Matches]:
        """The n-grams of every system up to `BLEU_ORDER`; the same function `words` is applied once."""
        if words not in self._matches:
            sides = self.systems, padded(self.references)
            of_systems, (first, *further) = ([[words(line) for line in lines] for lines in side] for side in sides)
            self._matches[words] = matches(of_systems, first, BLEU_ORDER, further)
        return self._matches[words]


@dataclass(frozen=True)
class Metric(Measure):
    """A metric. Its class overrides `counter`, or else `count`; `score`, unless it is a mean; and `signature`.

    Attributes:
        needs_blanks: a warning about text without blanks between words, with {} for "in this text, which ..."; empty:
            there is none.
        counts_words: whether `Counting.characters` concerns it.
        by_sentence: whether the report's browser of sentences opens with those in which systems differ most by it.
    """

    higher: bool | None = True
    needs_blanks: str = ""
    counts_words: bool = False
    by_sentence: bool = False

    def counter(self, references: References, counting: Counting) -> Callable[[list[str]], np.ndarray]:
        """A function that counts: N outputs → `[N, K]` whole numbers of 0 or more.

        Args:
            references: of the N sentences.
            counting: settings.
        """
        return lambda outputs: self.count(Texts([outputs], references), counting)[0]

    def count(self, texts: Texts, counting: Counting) -> list[np.ndarray]:
        """The counts `[N, K]` of each of several systems: as with `counter`, where that can be faster."""
        import numpy as np

        outputs = list(chain.from_iterable(texts.systems))
        counts = np.asarray(self.counter([*texts.references] * len(texts.systems), counting)(outputs))
        return np.split(counts, len(texts.systems))

    def score(self, sums: np.ndarray, sentences: bool = False) -> np.ndarray:
        """The score of each corpus: sums of counts `[..., K]` → `[...]`; by default the mean, first by second count.

        An empty corpus has the score of an empty output with an empty reference.

        Args:
            sums: of counts.
            sentences: whether they are counts of single sentences, which some metrics score in another way.
        """
        import numpy as np

        return sums[..., 0] / np.maximum(sums[..., 1], 1)

    def signature(self, counting: Counting) -> str:
        """The settings that its scores depend on, in the style of sacreBLEU."""
        return f"nrefs:{shown_references(counting)}"

    def ahead(self, differences: np.ndarray) -> np.ndarray:
        """Differences of scores, with their sign changed if lower scores are better."""
        return -differences if self.higher is False else differences


def shown_references(counting: Counting) -> str:
    """The number of references as signatures have it."""
    return str(*counting.references) if len(counting.references) == 1 else "var"


def for_sacrebleu(counting: Counting) -> Any:
    """References from which sacreBLEU takes their number; its types do not know of None, which it accepts."""
    counts = counting.references
    return [["" if text < count else None for count in counts] for text in range(max(counts))]


def of_sentences(texts: Sequence[list[str]]) -> list[list[str]]:
    """The references of each sentence, from R texts of N lines.

    An empty line in one of several texts is no reference. A line that is empty in all of them has one empty reference.
    """
    if len(texts) == 1:
        return [[line] for line in texts[0]]
    return [[each for each in of_line if each.strip()] or [""] for of_line in zip(*texts, strict=True)]


def padded(references: References) -> list[list[str]]:
    """As many texts of N lines as a sentence has references at most; where one has fewer, its first stands again."""
    count = max(map(len, references), default=1)
    return [[of_line[text] if text < len(of_line) else of_line[0] for of_line in references] for text in range(count)]
