"""Text that bypasses the model: it passes on as it is, or stands in the translation as in the source.

- A part without a letter, such as `12/05/2024` or a bare address, passes on.
- Spans (`posnmt.translate.spans`) are taken out before translation and put back after it.
- Words with characters that the vocabulary lacks, and signs that it lacks, are treated as spans.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import regex

from posnmt.config.schema import Decode
from posnmt.config.writing import writing
from posnmt.data.subword import BLANK, UNK
from posnmt.data.text import SideText
from posnmt.translate.alignments import Align, Aligned
from posnmt.translate.requests import Part
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

_MODIFIES = r"[\p{M}\p{Cf}\p{Emoji_Modifier}]"
_UNIT = regex.compile(
    rf"[\w\p{{N}}\p{{M}}\p{{Cf}}]+(?:[-'’][\w\p{{N}}\p{{M}}\p{{Cf}}]+)*"
    rf"|[^\w\s\p{{N}}](?:{_MODIFIES}*\u200d[^\w\s])*{_MODIFIES}*"
)
"""A word, or a sign with what modifies it."""
_LETTERS = re.compile(r"\w(?:.*\w)?")


def protect(parts: Sequence[Part], side: SideText, decode: Decode, terms: Terms | None = None) -> list[Part]:
    """Take out of parts of lines what does not go through the model.

    A line whose translation has a prefix goes through the model whole.

    Args:
        side: the text pipeline of the lines.
        decode: `protect` decides what is taken out; with `join`, a part that passes on stays as context for others.
        terms: a glossary; a word that the vocabulary lacks stays if it belongs to a source term.
    """
    own = patterns(decode)
    done = [_protected(part, side, decode, own, terms) for part in parts]
    without_spans = [part.removed.text for part in done if part.removed is not None]
    rows = iter(side.encode(without_spans) if without_spans else [])
    return [
        replace(part, ids=next(rows))
        if part.removed is not None
        else replace(part, ids=[])
        if part.passed is not None and decode.join == 1
        else part
        for part in done
    ]


def _protected(part: Part, side: SideText, decode: Decode, own: Sequence[re.Pattern[str]], terms: Terms | None) -> Part:
    """A part with what is taken out of it; its subwords are still those of the whole."""
    text, stays_whole = part.text, decode.protect == "off" or bool(part.request.prefix)
    spans = [] if stays_whole else find(text, own)
    unknown: Sequence[str] = ()
    if UNK in part.ids:
        outside = blanked_at(text, spans)
        unknown = side.subwords.unknown(side.split(outside))
        if unknown and not stays_whole:
            spans = joined([*spans, *_unread_and_no_term(outside, side, terms)])
    if stays_whole or not text.strip():
        return replace(part, unknown=unknown)
    without = remove(text, enclosing(text, spans))
    if not without.has_words:
        return replace(part, unknown=unknown, passed=text[without.begin :].strip(" "))
    return replace(part, unknown=unknown, removed=without if spans else None)


def restored(
    parts: Sequence[Part],
    translations: Sequence[Translation],
    target: SideText,
    decode: Decode,
    align: Align | None,
) -> list[Translation]:
    """The translations of parts with what did not go through the model.

    Args:
        target: the text pipeline of translations.
        align: finds links for those that have none; None: spans are placed by their share of the words.
    """
    linked: list[Aligned | None] = [each.aligned for each in translations]
    places = [
        place
        for place, (part, each) in enumerate(zip(parts, translations, strict=True))
        if part.removed is not None and each.aligned is None and each.hypotheses
    ]
    if align and places:
        chosen, tokens = [parts[place] for place in places], [translations[place].tokens for place in places]
        of_places = align([part.model_text for part in chosen], [part.ids for part in chosen], tokens)
        for place, links in zip(places, of_places, strict=True):
            linked[place] = links
    own = patterns(decode)
    done = []
    for part, translation, of_part in zip(parts, translations, linked, strict=True):
        if part.removed is not None:
            translation = _with_spans(translation, part.removed, of_part, target, is_ranked(decode))
        elif part.passed is not None:
            aligned = None if translation.aligned is None else Aligned([], [[]])
            hypotheses = [Hypothesis([], 0.0, 0.0, True)]
            translation = Translation(part.request, [part.passed], hypotheses, [], aligned=aligned)
        has_text = decode.protect != "off" and translation.hypotheses
        others = differing(part.text, translation.text, own) if has_text else ()
        done.append(replace(translation, unknown=part.unknown, differing=others))
    return done


def _with_spans(
    translation: Translation, removed: Removed, linked: Aligned | None, target: SideText, ranked: bool
) -> Translation:
    """The translation of a part with its spans; without links they are placed by their share of the words.

    Args:
        ranked: whether each text is listed once.
    """
    texts = [
        put_back(removed, text, None if linked is None else _characters(linked, rank, translation, target))
        for rank, text in enumerate(translation.texts)
    ]
    kept = first_ranks(texts) if ranked else range(len(texts))
    return replace(
        translation,
        texts=[texts[rank] for rank in kept],
        hypotheses=[translation.hypotheses[rank] for rank in kept if translation.hypotheses],
        aligned=translation.aligned and translation.aligned.only(kept),
        protected=removed.contents,
    )


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
    return [each for each in units if terms is None or terms.required(text) == terms.required(blanked_at(text, [each]))]


def _characters(aligned: Aligned, rank: int, translation: Translation, target: SideText) -> list[Link]:
    """The links of a hypothesis, between characters of the part and of its translation, without signs at words."""
    in_text = translation.spans(rank, target)
    pairs = ((aligned.words[source], in_text[written]) for source, written in aligned.links(rank, in_text))
    return [(_bare(source), _bare(written)) for source, written in pairs]


def _bare(word: Span) -> tuple[int, int]:
    """Where a word stands without the signs at its ends; a sign alone as it is."""
    match = _LETTERS.search(word.text)
    return (word.start + match.start(), word.start + match.end()) if match else (word.start, word.end)
