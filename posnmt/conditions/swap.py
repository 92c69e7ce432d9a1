"""`posnmt condition swap`: source text with a share of each sentence's words swapped (Chen et al. 2019a, section 6.5).

C19a: "We randomly swapped words of a source sentence in the test set according to different percentages of incorrectly
swapped words in a sentence." Here: a sentence of n words has s n / 2 pairs of words exchange their places, at a share
s; the pairs are drawn at random and have no word in common, so that s n words stand at another's place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from posnmt.conditions.files import PlainFiles
from posnmt.conditions.text import InputText, unsegmented
from posnmt.errors import UserError

_BLANKS = re.compile("([ \t]+)")


def swap(out: str | Path, text: InputText, shares: Sequence[float], seed: int = 1) -> dict[str, Any]:
    """Write a text once for each share of swapped words, as swapped-SHARE.source.

    A line keeps its words and its blanks. What is swapped at one share is swapped at every larger one, and does not
    depend on which other shares are asked for.

    Args:
        out: the folder.
        text: the `source` to swap words in; a word is what runs of blanks and tabs separate.
        shares: of each sentence's words, each above 0 and at most 1.
        seed: of the draws.

    Returns:
        The manifest; its statistics have, for each share, the words at another's place and the lines that changed.

    Raises:
        UserError: the text is faulty or not separated into words, or the shares are out of range or come twice.
    """
    named = {f"{share:g}": share for share in shares}
    if not named or len(named) < len(shares) or not all(0 < share <= 1 for share in shares):
        listed = ", ".join(f"{share:g}" for share in shares) or "none"
        raise UserError(f"shares are different numbers above 0 and at most 1; got {listed}", "--share", "0.1 is 10 %")
    swapped, changed = dict.fromkeys(named, 0), dict.fromkeys(named, 0)
    words = single = filled = 0

    def rows() -> Iterator[list[str]]:
        nonlocal words, single, filled
        random = Random(f"swap {seed}")
        for line in text.lines("swapping"):
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
        if unsegmented(single, filled):
            raise UserError(
                "nearly every line is a single word, which has none to swap with",
                text.files["source"].path,
                "separate words by blanks first",
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
    """A line whose words can be swapped by any share, with one draw of the order in which they are.

    Args:
        line: the text.
        random: what the draw is made from.
    """

    def __init__(self, line: str, random: Random) -> None:
        self._parts = _BLANKS.split(line)  # words at even places, blanks at odd ones
        places = [place for place in range(0, len(self._parts), 2) if self._parts[place]]
        # By sorting, since Python promises that random() gives the same numbers for ever, but not shuffle().
        keys = {place: random.random() for place in places}
        self._order = sorted(places, key=keys.__getitem__)
        self._chance = random.random()

    def __len__(self) -> int:
        """The number of words."""
        return len(self._order)

    def swaps(self, share: float) -> int:
        """How many pairs of words exchange their places.

        Where `share` of the words are no even number, chance rounds up or down, so that the share is right on average
        for sentences of every length; by rounding to the nearest, short sentences would never be touched.
        """
        return min(int(share * len(self) / 2 + self._chance), len(self) // 2)

    def swapped(self, share: float) -> str:
        """The line with this share of its words swapped."""
        parts = self._parts.copy()
        for number in range(self.swaps(share)):
            first, second = self._order[2 * number : 2 * number + 2]
            parts[first], parts[second] = parts[second], parts[first]
        return "".join(parts)
