"""`posnmt condition length-split` and `cap`: training text controlled by the length of its sentences.

Splits are those of Neishi and Yoshinaga (2019, section 5.3, Table 5), caps those of Rosendahl et al. (2019, section
4.2, Table 2). Memory holds the lengths, never the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posnmt.conditions.files import PlainFiles
from posnmt.conditions.text import InputText, unsegmented
from posnmt.data.corpus import Pair
from posnmt.data.length_unit import CountLengths, length_unit
from posnmt.errors import UserError
from posnmt.progress import warn

if TYPE_CHECKING:
    from rich.table import Table

Lengths = NDArray[np.int32]
"""`[N, 2]`: source and target length of each pair."""

SIDES = ("source", "target")
NAMES = {2: ("short", "long"), 3: ("short", "middle", "long")}
CHUNK = 10_000


@dataclass(frozen=True)
class Unit:
    """What lengths count, on each side."""

    name: str
    source: CountLengths
    target: CountLengths
    parameters: dict[str, str]


def choose_unit(unit: str | None, subword_model: Path | None = None, target_subword_model: Path | None = None) -> Unit:
    """The unit of length; by default subwords where a model is given, else words.

    Args:
        unit: `words`, `characters` or `subwords`.
        subword_model: SentencePiece model, or a `text` folder; the target's as well, if it has no other.
        target_subword_model: that of the target.

    Raises:
        UserError: the unit is unknown, or a model is missing, unreadable or not wanted.
    """
    name = unit or ("subwords" if subword_model else "words")
    models = {"subword_model": subword_model, "target_subword_model": target_subword_model}
    paths = {option: str(path) for option, path in models.items() if path is not None}
    count = length_unit(name, subword_model), length_unit(name, target_subword_model or subword_model, "target")
    return Unit(name, *count, {"unit": name, **paths})


def length_split(out: str | Path, text: InputText, unit: Unit, parts: int = 3) -> dict[str, Any]:
    """Write a parallel text in parts of rising source length that have almost equally many source tokens.

    Of each part NAME (`short`, `middle`, `long`; `short`, `long`; else `part-1` ...): NAME.source, NAME.target and
    NAME.lines, the input's line numbers. Within a part the order is that of the input.

    Args:
        out: the folder.
        text: a parallel text, of regular files, since it is read once to count and once for each part.
        unit: what lengths count.
        parts: how many.

    Returns:
        The manifest.

    Raises:
        UserError: the text is faulty, or cannot be cut into so many parts.
    """
    before = _signature(text)
    names = NAMES.get(parts) or tuple(f"part-{number}" for number in range(1, parts + 1))
    with PlainFiles(out) as files:
        lengths = np.concatenate([each for _, each in _measured(text.pairs("counting"), unit)])
        _warn_of_unsegmented(lengths, unit)
        part_of = equal_tokens(lengths[:, 0], parts)
        for part, name in enumerate(names):
            pairs = compress(text.pairs(f"writing {name}"), part_of == part)
            files.write(_files_of(name), map(_row, pairs))
        if _signature(text) != before:
            raise UserError("an input file changed while it was being split", out, "split it again")
        table = {name: describe(lengths[part_of == part]) for part, name in enumerate(names)}
        text.tell()
        parameters = {**text.parameters, **unit.parameters, "parts": parts}
        return files.finish("length-split", parameters, {**text.facts, "parts": table})


def equal_tokens(lengths: NDArray[np.integer[Any]], parts: int) -> NDArray[np.int64]:
    """The part of each sentence, if they are sorted by length and cut where the number of tokens is nearest equal.

    Of sentences of one length, those that come first in the text go into the lower part. A part differs from an equal
    share of the tokens by at most the longest sentence.

    Args:
        lengths: `[N]`.
        parts: how many.

    Returns:
        `[N]`: from 0 (the shortest) on.

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
            f"{len(lengths):,} pairs with {before[-1]:,} source tokens cannot be cut into {parts} equal parts: one of "
            "them would be empty",
            "--parts",
            "ask for fewer parts, or give more text",
        )
    part_of = np.empty(len(lengths), np.int64)
    part_of[order] = np.repeat(np.arange(parts), sizes)
    return part_of


def cap(out: str | Path, text: InputText, unit: Unit, maximum: int) -> dict[str, Any]:
    """Write the pairs of which neither side is longer than a maximum, in their order.

    They go into capped.source, capped.target and capped.lines, the input's line numbers.

    Args:
        out: the folder.
        text: a parallel text.
        unit: what lengths count.
        maximum: the longest that is kept.

    Returns:
        The manifest; its statistics describe what is kept, and what is dropped because of which side.

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
                f"{shortest} is the least that keeps one",
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
    """The columns of N19's Table 5 and the mean, of some pairs `[N, 2]`; of none, their lengths are None."""
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
    """The parts of a manifest of `length_split` or `cap` as a table, a row a part and side."""
    from rich.box import SIMPLE
    from rich.table import Table

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
    """Some thousand pairs at a time, with their lengths."""
    while chunk := list(islice(pairs, CHUNK)):
        counts = unit.source([pair.source for pair in chunk]), unit.target([pair.target for pair in chunk])
        yield chunk, np.array(counts, np.int32).T


def _signature(text: InputText) -> list[tuple[int, int]]:
    """Size and time of change of each file, of those that exist; none may be a pipe."""
    signatures = []
    for file in text.files.values():
        if file.path.is_file():
            status = file.path.stat()
            signatures.append((status.st_size, status.st_mtime_ns))
        elif file.path.exists() and not file.path.is_dir():
            raise UserError(f"{file.role} is read more than once, and a pipe cannot be", file.path, "name a file")
    return signatures


def _warn_of_unsegmented(lengths: Lengths, unit: Unit) -> None:
    """Warn where lengths in words mean nothing."""
    for side, column in zip(SIDES, lengths.T, strict=True):
        if unit.name == "words" and unsegmented(int((column == 1).sum()), int((column > 0).sum())):
            warn(
                f"nearly every line of the {side} is a single word: separate words by blanks first, or count characters"
            )


def _files_of(name: str) -> tuple[str, str, str]:
    return f"{name}.source", f"{name}.target", f"{name}.lines"


def _row(pair: Pair) -> tuple[str, str, str]:
    return pair.source, pair.target, str(pair.line)
