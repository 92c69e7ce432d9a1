"""`posnmt condition length-split` and `cap`: training text selected by sentence length.

Splits are those of Neishi and Yoshinaga (2019, section 5.3, Table 5), caps those of Rosendahl et al. (2019, section
4.2, Table 2). Only the lengths are held in memory, not the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.table import Table

from posnmt.base.errors import UserError
from posnmt.base.progress import warn
from posnmt.config.writing import unsegmented
from posnmt.corpora.conditions.files import PlainFiles
from posnmt.corpora.conditions.text import InputText, language_without_blanks
from posnmt.data.corpus import Pair
from posnmt.data.length_unit import CountLengths, length_unit

Lengths = NDArray[np.int32]
"""`[N, 2]`: source and target length of each pair."""

SIDES = ("source", "target")
NAMES = {2: ("short", "long"), 3: ("short", "middle", "long")}
CHUNK = 10_000


@dataclass(frozen=True)
class Unit:
    """The unit of length of each side."""

    name: str
    source: CountLengths
    target: CountLengths
    parameters: dict[str, str]


def choose_unit(unit: str | None, subword_model: Path | None = None, target_subword_model: Path | None = None) -> Unit:
    """The unit of length; default: subwords with a model, else words.

    Args:
        unit: `words`, `characters` or `subwords`.
        subword_model: SentencePiece model or `text` folder of the source, and by default of the target.
        target_subword_model: the target's SentencePiece model or `text` folder.

    Raises:
        UserError: the unit is unknown, or a model is missing, unreadable or not applicable.
    """
    name = unit or ("subwords" if subword_model else "words")
    models = {"subword_model": subword_model, "target_subword_model": target_subword_model}
    paths = {option: str(path) for option, path in models.items() if path is not None}
    count = length_unit(name, subword_model), length_unit(name, target_subword_model or subword_model, "target")
    return Unit(name, *count, {"unit": name, **paths})


def length_split(out: str | Path, text: InputText, unit: Unit, parts: int = 3) -> dict[str, Any]:
    """Split a parallel text into parts of increasing source length with almost equal numbers of source tokens.

    Each part NAME (`short`, `middle`, `long`; `short`, `long`; else `part-1` ...) has NAME.source, NAME.target and
    NAME.lines, the input's line numbers. Within a part the order is that of the input.

    Args:
        out: the folder.
        text: a parallel text in regular files, not pipes: it is read once to count and once for each part.
        unit: the unit of length.
        parts: number of parts.

    Returns:
        The manifest.

    Raises:
        UserError: the text is faulty, or cannot be split into this number of parts.
    """
    before = text.signature()
    names = NAMES.get(parts) or tuple(f"part-{number}" for number in range(1, parts + 1))
    with PlainFiles(out) as files:
        lengths = np.concatenate([each for _, each in _measured(text.pairs("counting"), unit)])
        _warn_of_unsegmented(lengths, unit)
        part_of = equal_tokens(lengths[:, 0], parts)
        for part, name in enumerate(names):
            pairs = compress(text.pairs(f"writing {name}"), part_of == part)
            files.write(_files_of(name), map(_row, pairs))
        if text.signature() != before:
            raise UserError("an input file changed while it was being split", out, "split it again")
        table = {name: describe(lengths[part_of == part]) for part, name in enumerate(names)}
        text.tell()
        parameters = {**text.parameters, **unit.parameters, "parts": parts}
        return files.finish("length-split", parameters, {**text.facts, "parts": table})


def equal_tokens(lengths: NDArray[np.integer[Any]], parts: int) -> NDArray[np.int64]:
    """The part of each sentence, if sentences are sorted by length and split into parts of nearly equal tokens.

    Of sentences of equal length, earlier ones are in the lower part. A part differs from an equal share of the tokens
    by at most the longest sentence.

    Args:
        lengths: `[N]`.
        parts: number of parts.

    Returns:
        `[N]`, 0 for the shortest.

    Raises:
        UserError: a part would have no sentence.
    """
    order = np.argsort(lengths, kind="stable")
    before = np.concatenate([[0], np.cumsum(lengths[order], dtype=np.int64)])  # [N + 1] tokens before each cut
    shares = before[-1] * np.arange(1, parts) / parts
    cuts = np.searchsorted(before, shares)
    cuts -= (before[cuts] - shares) > (shares - before[cuts - 1])
    sizes = np.diff(cuts, prepend=0, append=len(lengths))
    if (sizes <= 0).any():
        raise UserError(
            f"{len(lengths):,} pairs with {before[-1]:,} source tokens cannot be split into {parts} equal parts: one "
            "would be empty",
            "--parts",
            "use fewer parts or more text",
        )
    part_of = np.empty(len(lengths), np.int64)
    part_of[order] = np.repeat(np.arange(parts), sizes)
    return part_of


def cap(out: str | Path, text: InputText, unit: Unit, maximum: int) -> dict[str, Any]:
    """Write the pairs whose sides are both at most `maximum` long, in order.

    The files are capped.source, capped.target and capped.lines, the input's line numbers.

    Args:
        out: the folder.
        text: a parallel text.
        unit: the unit of length.
        maximum: the largest length.

    Returns:
        The manifest; its statistics describe the kept pairs, and the dropped ones by the side that is too long.

    Raises:
        UserError: the text is faulty, or nothing is kept.
    """
    chunks: list[Lengths] = []

    def kept() -> Iterator[Pair]:
        for pairs, lengths in _measured(text.pairs("capping"), unit):
            chunks.append(lengths)
            yield from compress(pairs, lengths.max(axis=1) <= maximum)

    with PlainFiles(out) as files:
        if not files.write(_files_of("capped"), map(_row, kept())):
            shortest = min(int(lengths.max(axis=1).min()) for lengths in chunks)
            raise UserError(
                f"no pair has at most {maximum} {unit.name} on both sides",
                "--max-length",
                f"choose {shortest} or more",
            )
        lengths = np.concatenate(chunks)
        _warn_of_unsegmented(lengths, unit)
        source, target = (lengths > maximum).T
        table = {
            "kept": ~source & ~target,
            "source too long": source & ~target,
            "target too long": target & ~source,
            "both too long": source & target,
        }
        text.tell()
        dropped = int((source | target).sum())
        text.display.say(f"{dropped:,} of {len(lengths):,} pairs have a side of more than {maximum} and are dropped")
        parameters = {**text.parameters, **unit.parameters, "max_length": maximum}
        facts = {**text.facts, "parts": {name: describe(lengths[rows]) for name, rows in table.items()}}
        return files.finish("cap", parameters, facts)


def describe(lengths: Lengths) -> dict[str, Any]:
    """The columns of N19's Table 5 and the mean, for pairs `[N, 2]`; lengths are None without pairs."""
    facts: dict[str, Any] = {"pairs": len(lengths)}
    for side, column in zip(SIDES, lengths.T, strict=True):
        nonempty = len(column) > 0
        facts[side] = {
            "tokens": int(column.sum(dtype=np.int64)),
            "mean": round(float(column.mean()), 2) if nonempty else None,
            "shortest": int(column.min()) if nonempty else None,
            "longest": int(column.max()) if nonempty else None,
        }
    return facts


def length_table(manifest: dict[str, Any]) -> Table:
    """The parts of a manifest of `length_split` or `cap` as a table, with a row for each part and side."""
    columns = ("tokens", "mean", "shortest", "longest")
    table = Table(box=SIMPLE, title=f"lengths in {manifest['parameters']['unit']}")
    table.add_column("part")
    for column in ("pairs", "side", *columns):
        table.add_column(column, justify="left" if column == "side" else "right")
    for name, facts in manifest["statistics"]["parts"].items():
        for side in SIDES:
            head = (name, f"{facts['pairs']:,}") if side == SIDES[0] else ("", "")
            cells = [facts[side][column] for column in columns]
            table.add_row(*head, side, *map(_cell, cells))
    return table


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"


def _measured(pairs: Iterator[Pair], unit: Unit) -> Iterator[tuple[list[Pair], Lengths]]:
    """The pairs in chunks, with their lengths.

    Raises:
        UserError: lengths are in words, and a side has no blanks between words.
    """
    first = True
    while chunk := list(islice(pairs, CHUNK)):
        if first and unit.name == "words":
            _refuse_unsegmented(chunk)
        first = False
        counts = unit.source([pair.source for pair in chunk]), unit.target([pair.target for pair in chunk])
        yield chunk, np.array(counts, np.int32).T


def _refuse_unsegmented(pairs: list[Pair]) -> None:
    """Refuse to count words of text that is written without blanks between them."""
    for side in SIDES:
        if language := language_without_blanks(getattr(pair, side) for pair in pairs):
            raise UserError(
                f"the {side} is {language} without spaces between words, which cannot be counted",
                "--unit",
                "choose --unit characters, or subwords with --subword-model; or separate words by spaces first",
            )


def _warn_of_unsegmented(lengths: Lengths, unit: Unit) -> None:
    """Warn if lengths in words are meaningless."""
    for side, column in zip(SIDES, lengths.T, strict=True):
        if unit.name == "words" and unsegmented(int((column == 1).sum()), int((column > 0).sum())):
            warn(
                f"nearly every line of the {side} is a single word: separate words by spaces first, or count characters"
            )


def _files_of(name: str) -> tuple[str, str, str]:
    return f"{name}.source", f"{name}.target", f"{name}.lines"


def _row(pair: Pair) -> tuple[str, str, str]:
    return pair.source, pair.target, str(pair.line)
