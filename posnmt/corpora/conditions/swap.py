"""`posnmt condition swap`: source text with a share of each sentence's words swapped (Chen et al. 2019a, section 6.5).

C19a: "We randomly swapped words of a source sentence in the test set according to different percentages of incorrectly
swapped words in a sentence." Here, a share s means that s n / 2 pairs of words are swapped in a sentence of n words.
The pairs are drawn at random and have no word in common, so s n words change their place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from posnmt.base.errors import UserError
from posnmt.config.writing import EXAMPLES, unsegmented
from posnmt.corpora.conditions.files import PlainFiles
from posnmt.corpora.conditions.text import InputText, language_without_blanks

_BLANKS = re.compile("([ \t]+)")


def swap(out: str | Path, text: InputText, shares: Sequence[float], seed: int = 1) -> dict[str, Any]:
    """Write a text once for each share of swapped words, as swapped-SHARE.source.

    A line keeps its words and its blanks. Pairs that are swapped at one share are also swapped at every larger share,
    and do not depend on the other shares.

    Args:
        out: the folder.
        text: with the `source` text; words are separated by blanks and tabs.
        shares: shares of each sentence's words, each above 0 and at most 1.
        seed: seed of the random choice of words.

    Returns:
        The manifest; its statistics have, for each share, the numbers of swapped words and of changed lines.

    Raises:
        UserError: the text is faulty or its words are not separated, or a share is out of range or repeated.
    """
    named = {f"{share:g}": share for share in shares}
    if not named or len(named) < len(shares) or not all(0 < share <= 1 for share in shares):
        listed = ", ".join(f"{share:g}" for share in shares) or "none"
        raise UserError(f"shares are different numbers above 0 and at most 1; got {listed}", "--share", "0.1 is 10 %")
    swapped, changed = dict.fromkeys(named, 0), dict.fromkeys(named, 0)
    words = single = filled = 0
    examples: list[str] = []

    def rows() -> Iterator[list[str]]:
        nonlocal words, single, filled
        random = Random(f"swap {seed}")
        for line in text.lines("swapping"):
            if len(examples) < EXAMPLES:
                examples.append(line)
            sentence = Sentence(line, random)
            words += len(sentence)
            single += len(sentence) == 1
            filled += len(sentence) > 0
            row = []
            for name, share in named.items():
                row.append(sentence.swapped(share))
                swapped[name] += 2 * sentence.swaps(share)
                changed[name] += row[-1] != line
            yield row

    with PlainFiles(out) as files:
        files.write([f"swapped-{name}.source" for name in named], rows())
        language = language_without_blanks(examples)
        if language or unsegmented(single, filled):
            why = (
                f"the text is {language} without spaces between words"
                if language
                else ("nearly every line is a single word")
            )
            raise UserError(
                f"{why}, and only words between spaces can be swapped",
                text.files["source"].path,
                "separate words by spaces first: docs/prepare.md has segmenters",
            )
        text.tell()
        facts = {}
        for name in named:
            proportion = round(swapped[name] / words, 4) if words else 0.0
            facts[name] = {"swapped_words": swapped[name], "share": proportion, "changed_lines": changed[name]}
            text.display.say(
                f"{name}: {swapped[name]:,} of {words:,} words swapped ({proportion:.2%}), "
                f"{changed[name]:,} of {text.read:,} lines changed"
            )
        parameters = {**text.parameters, "shares": list(shares), "seed": seed}
        return files.finish("swap", parameters, {**text.facts, "words": words, "shares": facts})


class Sentence:
    """A line of which any share of the words can be swapped. The order in which words are swapped is drawn once.

    Args:
        line: the text.
        random: the generator of random numbers.
    """

    def __init__(self, line: str, random: Random) -> None:
        self._parts = _BLANKS.split(line)  # words at even places, blanks at odd ones
        places = [place for place in range(0, len(self._parts), 2) if self._parts[place]]
        # By sorting: Python guarantees that the numbers of random() do not change between versions, but not shuffle().
        keys = {place: random.random() for place in places}
        self._order = sorted(places, key=keys.__getitem__)
        self._chance = random.random()

    def __len__(self) -> int:
        return len(self._order)

    def swaps(self, share: float) -> int:
        """The number of pairs to swap, rounded up or down at random.

        So the share is right on average for sentences of every length. Rounding to the nearest integer would never
        change short sentences.
        """
        return min(int(share * len(self) / 2 + self._chance), len(self) // 2)

    def swapped(self, share: float) -> str:
        """The line with this share of its words swapped."""
        parts = self._parts.copy()
        for number in range(self.swaps(share)):
            first, second = self._order[2 * number : 2 * number + 2]
            parts[first], parts[second] = parts[second], parts[first]
        return "".join(parts)
