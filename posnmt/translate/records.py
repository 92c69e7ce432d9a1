"""Translations as lines of output: as text, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from posnmt.data.alignment import pharaoh
from posnmt.translate.translations import Translation

if TYPE_CHECKING:
    from posnmt.data.text import SideText


def output_lines(translation: Translation, form: str, nbest: int, target: SideText) -> Iterator[str]:
    """The output lines of a line.

    Args:
        form: `text` or `jsonl`.
        nbest: how many translations were asked for.
        target: the text pipeline of translations.
    """
    number = translation.request.number
    if form == "jsonl":
        row = {
            "line": number,
            "source": translation.request.line,
            **facts(translation),
            "hypotheses": hypothesis_records(translation, target),
        }
        if (of_line := source_words(translation)) is not None:
            row["source_words"] = of_line
        if translation.missing_terms is not None:
            row["missing_terms"] = list(translation.missing_terms)
        yield json.dumps(row, ensure_ascii=False) + "\n"
    elif nbest == 1:
        yield "\t".join([translation.text, *_pharaoh(translation, 0, target)]) + "\n"
    else:
        scores = [f"{each.score:.6f}" for each in translation.hypotheses] or [""]
        for place, (score, text) in enumerate(zip(scores, translation.texts, strict=True)):
            yield "\t".join([str(number), score, text, *_pharaoh(translation, place, target)]) + "\n"


def _pharaoh(translation: Translation, place: int, target: SideText) -> list[str]:
    """The links of a hypothesis, such as `0-0 1-2`; empty text for an empty line, and no text without alignments."""
    if translation.aligned is None:
        return []
    if not translation.hypotheses:
        return [""]
    return [pharaoh(translation.aligned.links(place, translation.spans(place, target)))]


def facts(translation: Translation) -> dict[str, Any]:
    """What a reader should know of a line and its best translation, as JSON has it."""
    line = translation.request.line
    return {
        **{name: list(getattr(translation, name)) for name in ("unknown", "protected", "differing")},
        "in_sentences": translation.in_sentences,
        "omitted": [{"text": line[start:end], "start": start, "end": end} for start, end in translation.omitted],
        "mended": translation.mended,
    }


def source_words(translation: Translation) -> list[dict[str, Any]] | None:
    """The words of a line as JSON has them; None: no alignments were asked for."""
    if translation.aligned is None:
        return None
    return [{"text": word.text, "start": word.start, "end": word.end} for word in translation.aligned.words]


def hypothesis_records(translation: Translation, target: SideText) -> list[dict[str, Any]]:
    """The hypotheses of a line as JSON has them; `target` is the text pipeline of translations."""
    pieces = target.subwords.pieces
    records: list[dict[str, Any]] = []
    for place, (text, hypothesis, repetitive) in enumerate(
        zip(translation.texts, translation.hypotheses, translation.repetitive, strict=False)
    ):
        in_order = translation.words(place, target)
        record = {
            "text": text,
            "log_probability": hypothesis.log_probability,
            "score": hypothesis.score,
            "ended": hypothesis.ended,
            "repetitive": repetitive,
            "subwords": [pieces[token] for token in hypothesis.tokens],
            "words": [asdict(word) for word in in_order],
            "parts": translation.parts,
        }
        if translation.joined > 1:
            record["joined"] = translation.joined
        if translation.aligned is not None:
            record["alignment"] = translation.aligned.links(place, in_order)
        records.append(record)
    return records
