"""The class of metrics: how a metric counts sentences, and how sums of its counts become a score.

Counts add up over sentences. A corpus is counted once into an array `[N, K]`; the score of any part of it, such as a
length bin or a resample, is a function of the sum of its rows.

Legend: N sentences, R references of a sentence (their number may differ), K counts of a metric, `...` any shape.
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
        references: the different numbers of references that sentences of the whole text have.
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
        """The matches of every system up to `BLEU_ORDER`, of words as `words` splits them; cached by that function."""
        if words not in self._matches:
            sides = self.systems, padded(self.references)
            of_systems, (first, *further) = ([[words(line) for line in lines] for lines in side] for side in sides)
            self._matches[words] = matches(of_systems, first, BLEU_ORDER, further)
        return self._matches[words]


@dataclass(frozen=True)
class Metric(Measure):
    """A metric. Its class overrides `counter`, or else `count`; `score`, unless it is a mean; and `signature`.

    Attributes:
        needs_spaces: a warning about text without blanks between words, with {} for "in this text, which ..."; empty
            if there is none.
        counts_words: whether it depends on `Counting.characters`.
        by_sentence: whether the report's browser of sentences first shows those in which systems differ most by it.
    """

    higher: bool | None = True
    needs_spaces: str = ""
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
        """The counts `[N, K]` of each of several systems, as by `counter`; it may be faster for several."""
        import numpy as np

        outputs = list(chain.from_iterable(texts.systems))
        counts = np.asarray(self.counter([*texts.references] * len(texts.systems), counting)(outputs))
        return np.split(counts, len(texts.systems))

    def score(self, sums: np.ndarray, sentences: bool = False) -> np.ndarray:
        """The score of each corpus: sums of counts `[..., K]` → `[...]`; by default, the first by the second count.

        An empty corpus has the score of an empty output with an empty reference.

        Args:
            sums: of counts.
            sentences: whether they are counts of single sentences, which some metrics score differently.
        """
        import numpy as np

        return sums[..., 0] / np.maximum(sums[..., 1], 1)

    def signature(self, counting: Counting) -> str:
        """The settings on which its scores depend, in the style of sacreBLEU."""
        return f"nrefs:{shown_references(counting)}"

    def ahead(self, differences: np.ndarray) -> np.ndarray:
        """Differences of scores, with the opposite sign if lower scores are better."""
        return -differences if self.higher is False else differences


def shown_references(counting: Counting) -> str:
    """The number of references, as signatures write it."""
    return str(*counting.references) if len(counting.references) == 1 else "var"


def for_sacrebleu(counting: Counting) -> Any:
    """References that only tell sacreBLEU their number; it accepts None, though its types do not."""
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
    """R texts of N lines, for the largest number R of references; a sentence with fewer repeats its first."""
    count = max(map(len, references), default=1)
    return [[of_line[text] if text < len(of_line) else of_line[0] for of_line in references] for text in range(count)]
