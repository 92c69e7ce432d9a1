"""What of a line does not go through the model: it passes on as it is, or stands in the translation as in the source.

- A part without a letter, such as `12/05/2024` or a bare address, passes on.
- Spans (`posnmt.translate.spans`) are taken out before translation and put back after it.
- Words with characters that the vocabulary lacks are treated as spans, and signs that it lacks likewise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from posnmt.config.schema import Decode
from posnmt.config.writing import writing
from posnmt.data.subword import UNK
from posnmt.data.text import SideText
from posnmt.translate.alignments import Aligned
from posnmt.translate.parts import Parts
from posnmt.translate.search import Hypothesis
from posnmt.translate.spans import Interval, Link, Removed, blanked, differing, find, joined, put_back, remove
from posnmt.translate.translations import Translation

Align = Callable[[Sequence[int], Sequence[Translation]], Sequence[Aligned]]
"""The links of some translations to the parts at these places."""

_WORD = re.compile(r"\w+(?:[-'’]\w+)*")


@dataclass(frozen=True)
class Protected:
    """Parts of lines as the model reads them.

    Attributes:
        parts: without spans; the text of each is whole.
        passed: place → what passes on of a part; places are those among all parts.
        removed: place → the part without its spans.
        unknown: place → what the vocabulary lacks of the part.
        own: patterns of the user.
        checked: whether the spans of lines and translations are compared.
    """

    parts: Parts
    unknown: Mapping[int, list[str]]
    passed: Mapping[int, str] = field(default_factory=dict)
    removed: Mapping[int, Removed] = field(default_factory=dict)
    own: Sequence[re.Pattern[str]] = ()
    checked: bool = True

    @property
    def lines(self) -> list[str]:
        """The text of each part, with blanks in place of what is taken out."""
        texts = [text for texts in self.parts.texts for text in texts]
        for place, each in self.removed.items():
            texts[place] = blanked(texts[place], (each.whole[start:end] for start, end in each.spans))
        return texts

    def restored(self, translations: Sequence[Translation], target: SideText, align: Align | None) -> list[Translation]:
        """The translations of all parts, with what did not go through the model.

        Args:
            target: the text pipeline of translations.
            align: None: spans are placed by their share of the words.
        """
        whole = [text for texts in self.parts.texts for text in texts]
        done = list(translations)
        places = [place for place in self.removed if done[place].hypotheses]
        links = align(places, [done[place] for place in places]) if align and places else [None] * len(places)
        linked = dict(zip(places, links, strict=True))
        for place, removed in self.removed.items():
            of_part, each = linked.get(place), done[place]
            texts = [
                put_back(removed, text, None if of_part is None else _characters(of_part, rank, each, target))
                for rank, text in enumerate(each.texts)
            ]
            contents = [removed.whole[start:end] for start, end in removed.spans]
            done[place] = replace(each, texts=texts, protected=contents)
        for place, text in self.passed.items():
            aligned = None if done[place].aligned is None else Aligned([], [[]])
            hypotheses = [Hypothesis([], 0.0, 0.0, True)]
            done[place] = Translation([text], hypotheses, [], aligned=aligned)
        for place, lacking in self.unknown.items():
            done[place] = replace(done[place], unknown=lacking)
        if self.checked:
            for place, (text, each) in enumerate(zip(whole, done, strict=True)):
                if each.hypotheses and (others := differing(text, each.text, self.own)):
                    done[place] = replace(each, differing=others)
        return done


def protect(parts: Parts, side: SideText, decode: Decode) -> Protected:
    """Take out of parts of lines what does not go through the model.

    Args:
        side: the text pipeline of the lines.
        decode: `protect` says what; with `join`, parts that pass on still are context for their neighbours.
    """
    texts = [text for texts in parts.texts for text in texts]
    rows = parts.flat
    lacking: dict[int, list[str]] = {}
    if decode.protect == "off":
        lacking = {
            place: side.subwords.unknown(side.split(texts[place])) for place, row in enumerate(rows) if UNK in row
        }
        return Protected(parts, lacking, checked=False)
    own = [] if decode.protect == "auto" else list(map(re.compile, decode.protect))
    passed: dict[int, str] = {}
    removed: dict[int, Removed] = {}
    for place, text in enumerate(texts):
        if not rows[place]:
            continue
        spans = find(text, own)
        if UNK in rows[place]:
            outside = blanked(text, (text[start:end] for start, end in spans))
            if unknown := side.subwords.unknown(side.split(outside)):
                lacking[place] = unknown
                spans = joined([*spans, *words_with(unknown, outside)])
        without = remove(text, spans)
        if not without.has_words:
            passed[place] = text[without.begin :].strip()
        elif spans:
            removed[place] = without
    encoded = dict(zip(removed, side.encode([each.text for each in removed.values()]), strict=True))
    if decode.join == 1:
        encoded |= {place: [] for place in passed}
    flat = iter([encoded.get(place, row) for place, row in enumerate(rows)])
    inside = replace(parts, encoded=[[next(flat) for _ in each] for each in parts.encoded])
    return Protected(inside, lacking, passed, removed, own)


def words_with(unknown: Sequence[str], text: str) -> list[Interval]:
    """The words of a text with characters that the vocabulary lacks, and the other signs that it lacks.

    In scripts without blanks a run of such characters counts, where no letter stands beside it.
    """
    signs = "".join(sorted({sign for run in unknown for sign in run}))
    spaced = not writing([text]).counts_characters
    intervals = []
    for match in re.finditer(f"[{re.escape(signs)}]+", text):
        start, end = match.span()
        if any(map(str.isalnum, match.group())):
            word = next((each.span() for each in _WORD.finditer(text) if each.end() > start), (start, end))
            if spaced:
                start, end = min(start, word[0]), max(end, word[1])
            elif word != (start, end):
                continue
        intervals.append(Interval(start, end))
    return intervals


def _characters(aligned: Aligned, rank: int, translation: Translation, target: SideText) -> list[Link]:
    """The links of a hypothesis, between characters of the part and of its translation."""
    in_text = translation.spans(rank, target)
    pairs = ((aligned.words[source], in_text[written]) for source, written in aligned.links(rank, in_text))
    return [((source.start, source.end), (written.start, written.end)) for source, written in pairs]
