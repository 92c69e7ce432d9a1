"""What of a line does not go through the model: it passes on as it is, or stands in the translation as in the source.

- A part without a letter, such as `12/05/2024` or a bare address, passes on.
- Spans (`posnmt.translate.spans`) are taken out before translation and put back after it.
- Words with characters that the vocabulary lacks are treated as spans, and signs that it lacks likewise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import regex

from posnmt.config.schema import Decode
from posnmt.config.writing import writing
from posnmt.data.subword import BLANK, BREAKS, UNK
from posnmt.data.text import SideText
from posnmt.translate.alignments import Aligned
from posnmt.translate.parts import Parts
from posnmt.translate.search import Hypothesis
from posnmt.translate.spans import (
    Interval,
    Link,
    Removed,
    blanked_at,
    differing,
    enclosing,
    find,
    joined,
    patterns,
    put_back,
    remove,
)
from posnmt.translate.terms import Terms
from posnmt.translate.translations import Translation, first_ranks, is_ranked
from posnmt.translate.words import Span

Align = Callable[[Sequence[int], Sequence[Translation]], Sequence[Aligned]]
"""The links of some translations to the parts at these places."""

_MODIFIES = r"[\p{M}\p{Cf}\p{Emoji_Modifier}]"
_UNIT = regex.compile(
    rf"[\w\p{{N}}\p{{M}}\p{{Cf}}]+(?:[-'’][\w\p{{N}}\p{{M}}\p{{Cf}}]+)*"
    rf"|[^\w\s\p{{N}}](?:{_MODIFIES}*\u200d[^\w\s])*{_MODIFIES}*"
)
"""A word, or a sign with what modifies it."""
_LETTERS = re.compile(r"\w(?:.*\w)?")


@dataclass(frozen=True)
class Protected:
    """Parts of lines as the model reads them.

    Attributes:
        parts: with the subwords of what the model reads; their texts are whole.
        texts: of the parts, without tabs and other breaks.
        passed: place → what passes on of a part; places are those among all parts.
        removed: place → the part without its spans.
        unknown: place → what the vocabulary lacks of the part.
        own: patterns of the user.
        checked: whether the spans of lines and translations are compared.
        ranked: whether a list has each text once.
    """

    parts: Parts
    texts: list[str]
    unknown: Mapping[int, list[str]]
    passed: Mapping[int, str]
    removed: Mapping[int, Removed]
    own: Sequence[re.Pattern[str]]
    checked: bool
    ranked: bool

    @property
    def lines(self) -> list[str]:
        """The text of each part, with blanks in place of what does not go through the model."""
        texts = list(self.texts)
        for place, each in self.removed.items():
            texts[place] = each.blanked
        for place in self.passed:
            texts[place] = ""
        return texts

    @property
    def in_lines(self) -> list[list[str]]:
        """The same of the parts of each line."""
        parts = iter(self.lines)
        return [[next(parts) for _ in texts] for texts in self.parts.texts]

    def restored(self, translations: Sequence[Translation], target: SideText, align: Align | None) -> list[Translation]:
        """The translations of all parts, with what did not go through the model.

        Args:
            target: the text pipeline of translations.
            align: None: spans are placed by their share of the words.
        """
        done = list(translations)
        linked = {place: done[place].aligned for place in self.removed}
        places = [place for place, links in linked.items() if links is None and done[place].hypotheses]
        if align and places:
            linked |= zip(places, align(places, [done[place] for place in places]), strict=True)
        for place, removed in self.removed.items():
            done[place] = self._with_spans(done[place], removed, linked[place], target)
        for place, text in self.passed.items():
            aligned = None if done[place].aligned is None else Aligned([], [[]])
            done[place] = Translation([text], [Hypothesis([], 0.0, 0.0, True)], [], aligned=aligned)
        for place, lacking in self.unknown.items():
            done[place] = replace(done[place], unknown=lacking)
        if self.checked:
            for place, (text, each) in enumerate(zip(self.texts, done, strict=True)):
                if each.hypotheses and (others := differing(text, each.text, self.own)):
                    done[place] = replace(each, differing=others)
        return done

    def _with_spans(
        self, translation: Translation, removed: Removed, linked: Aligned | None, target: SideText
    ) -> Translation:
        """The translation of a part with its spans; where links are not known, by their share of the words."""
        texts = [
            put_back(removed, text, None if linked is None else _characters(linked, rank, translation, target))
            for rank, text in enumerate(translation.texts)
        ]
        kept = first_ranks(texts) if self.ranked else range(len(texts))
        return replace(
            translation,
            texts=[texts[rank] for rank in kept],
            hypotheses=[translation.hypotheses[rank] for rank in kept if translation.hypotheses],
            aligned=translation.aligned and translation.aligned.only(kept),
            protected=removed.contents,
        )


def protect(
    parts: Parts, side: SideText, decode: Decode, prefixes: Sequence[str] = (), terms: Terms | None = None
) -> Protected:
    """Take out of parts of lines what does not go through the model.

    Args:
        side: the text pipeline of the lines.
        decode: `protect` says what; with `join`, parts that pass on still are context for their neighbours.
        prefixes: the beginning of the translation of each line; a line that has one goes through the model whole.
        terms: of a glossary, which say better what becomes of a word than its characters.
    """
    own, is_on = patterns(decode), decode.protect != "off"
    texts = [BREAKS.sub(" ", text) for of_line in parts.texts for text in of_line]
    given = zip(prefixes or [""] * len(parts.texts), parts.texts, strict=True)
    may_change = [is_on and not prefix for prefix, of_line in given for _ in of_line]
    lacking: dict[int, list[str]] = {}
    passed: dict[int, str] = {}
    removed: dict[int, Removed] = {}
    for place, (text, row) in enumerate(zip(texts, parts.flat, strict=True)):
        spans = find(text, own) if may_change[place] else []
        if UNK in row:
            outside = blanked_at(text, spans)
            if unknown := side.subwords.unknown(side.split(outside)):
                lacking[place] = unknown
                spans = joined([*spans, *_unread_and_no_term(outside, side, terms)]) if may_change[place] else []
        if not may_change[place] or not text.strip():
            continue
        without = remove(text, enclosing(text, spans))
        if not without.has_words:
            passed[place] = text[without.begin :].strip(" ")
        elif spans:
            removed[place] = without
    encoded = dict(zip(removed, side.encode([each.text for each in removed.values()]), strict=True))
    if decode.join == 1:
        encoded |= {place: [] for place in passed}
    return Protected(parts.with_subwords(encoded), texts, lacking, passed, removed, own, is_on, is_ranked(decode))


def unread(text: str, side: SideText) -> list[Interval]:
    """The words and signs of a text that the vocabulary cannot spell.

    A whole word counts, so that `10²` is not read as 10; in scripts without blanks, a run of letters none of which is
    known. A sign counts with what modifies it, as an emoji with its joiners.
    """
    units = [match.span() for match in _UNIT.finditer(text)]
    rows = side.encode([text[start:end] for start, end in units])
    mark = len(replace(side, mark="").encode([side.mark])[0]) if side.mark else 0
    spaced = not writing([text]).counts_characters
    intervals = []
    for (start, end), row in zip(units, rows, strict=True):
        is_word = any(map(str.isalnum, text[start:end]))
        own = [token for token in row[mark:] if side.subwords.pieces[token] != BLANK]
        if UNK in own and (spaced or not is_word or set(own) == {UNK}):
            intervals.append(Interval(start, end))
    return intervals


def _unread_and_no_term(text: str, side: SideText, terms: Terms | None) -> list[Interval]:
    """The words and signs that the vocabulary cannot spell and that belong to no source term."""
    units = unread(text, side)
    return [each for each in units if terms is None or terms.wanted(text) == terms.wanted(blanked_at(text, [each]))]


def _characters(aligned: Aligned, rank: int, translation: Translation, target: SideText) -> list[Link]:
    """The links of a hypothesis, between characters of the part and of its translation, without signs at words."""
    in_text = translation.spans(rank, target)
    pairs = ((aligned.words[source], in_text[written]) for source, written in aligned.links(rank, in_text))
    return [(_bare(source), _bare(written)) for source, written in pairs]


def _bare(word: Span) -> tuple[int, int]:
    """Where a word stands without the signs at its ends; a sign alone as it is."""
    match = _LETTERS.search(word.text)
    return (word.start + match.start(), word.start + match.end()) if match else (word.start, word.end)
