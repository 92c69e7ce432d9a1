"""The input texts of an analysis: parse their options, read them aligned, and warn about their properties."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, quoted, raise_all
from posnmt.data.corpus import BYTE_ORDER_MARK, Findings, TextFile, read_lines
from posnmt.data.length_unit import length_unit
from posnmt.data.offsets import sentences, shifts

# A text with this many lines that end in a blank and a full stop counts as tokenised; sacreBLEU's threshold.
MANY_TOKENISED = 100

# A warning about more than MANY_TEXTS texts names the NAMED_TEXTS texts with most lines.
MANY_TEXTS, NAMED_TEXTS = 6, 3


@dataclass(frozen=True)
class Text:
    """One of the aligned texts.

    Attributes:
        file: its file.
        lines: its sentences.
        system: the system whose output it is; None: it is the source or a reference.
        share: of swapped words in the source of this output.
    """

    file: TextFile
    lines: list[str]
    system: str | None = None
    share: float = 0.0


LONGEST_NAME = 200
"""Characters of a system's name."""


def parse_outputs(pairs: Sequence[str]) -> dict[str, Path]:
    """Parse `NAME=FILE` options: name → path, in order.

    Raises:
        UserError: a name or a file is missing, or a name is unprintable, too long or a duplicate; all at once.
    """
    outputs: dict[str, Path] = {}
    faults = []
    for pair in pairs:
        name, sign, path = pair.partition("=")
        name = name.strip()
        if not (name and sign and path):
            what, todo = f"an output is written NAME=FILE; got {quoted(pair)}", "for example mine=test.out"
            faults.append(UserError(what, "--output", todo))
        elif (fault := name_fault(name)) is not None:
            faults.append(fault)
        elif name in outputs:
            todo = f"give each system its own name; for several seeds of a system, use {name}:1 and {name}:2"
            faults.append(UserError(f"two outputs are called {quoted(name)}", "--output", todo))
        else:
            outputs[name] = Path(path)
    raise_all(faults)
    return outputs


def name_fault(name: str) -> UserError | None:
    """Why an output cannot have this name; None if it can. Figures and pages cannot print every character."""
    if not name.strip() or not name.isprintable():
        what = f"an output cannot be called {quoted(name)}"
        return UserError(what, "--output", "give it a name of printable characters, on one line")
    if len(name) > LONGEST_NAME:
        what = f"the name of an output has {len(name):,} characters: {quoted(name)}"
        return UserError(what, "--output", f"take at most {LONGEST_NAME}")
    return None


def read_aligned(
    source: Path,
    references: Sequence[Path],
    outputs: dict[str, Path],
    swapped: dict[tuple[str, float], Path],
    findings: Findings,
) -> list[Text]:
    """Read source, references, outputs and outputs of swapped sources, in this order, with equally many lines.

    Raises:
        UserError: the files have faults; all at once.
    """
    files: list[tuple[TextFile, str | None, float]] = [
        (TextFile("source", source), None, 0.0),
        *(
            (TextFile(f"reference {number}" if number > 1 else "reference", path), None, 0.0)
            for number, path in enumerate(references, start=1)
        ),
        *((TextFile(f"output {name}", path), name, 0.0) for name, path in outputs.items()),
        *((TextFile(f"output {name} at {share:g}", path), name, share) for (name, share), path in swapped.items()),
    ]
    texts = [Text(file, list(read_lines(file, findings)), system, share) for file, system, share in files]
    counts = [len(text.lines) for text in texts]
    if len(set(counts)) > 1:
        findings.misaligned([text.file for text in texts], counts, list(_lost_lines(texts)))
    findings.raise_all()
    return texts


def _lost_lines(texts: Sequence[Text]) -> Iterator[str]:
    """Sentences on where texts that have more or fewer lines than the source begin to be shifted."""
    source, reference, *_ = texts
    count = len(source.lines)
    for text in texts[1:]:
        compared = reference if text.system is not None and len(reference.lines) == count else source
        if len(text.lines) != count:
            found = shifts(compared.lines, [*text.lines, *[""] * count][:count])
            kind, other = (
                "reference" if text.system is None else "output",
                "source" if compared is source else "reference",
            )
            yield from (f"{text.file.role}: {sentence}" for sentence in sentences(found, kind, other))


def warnings_of(texts: list[Text], findings: Findings, ter_band: int | None, ter_characters: bool = False) -> list[str]:
    """Warnings about properties of the texts that affect the figures.

    Args:
        texts: from `read_aligned`.
        findings: from reading them.
        ter_band: the width of the band of TER's search; None: TER was not measured.
        ter_characters: whether TER counts characters.
    """
    references = [text for text in texts[1:] if not text.system]
    unit = "characters" if ter_characters else "words"
    lengths_of = length_unit(unit)
    of_references = [lengths_of(text.lines) for text in references] if ter_band is not None else []
    warnings: list[tuple[str, int, str]] = []
    for text in texts:
        warnings += _of_lines(text, findings, gaps=len(references) > 1 and text in references)
        if text.system:
            warnings += _tokenised(text)
        if text.system and ter_band is not None:
            warnings += _far(text, lengths_of(text.lines), of_references, ter_band, unit)
    bare = sum(not line.strip() for line in texts[1].lines)
    if bare and len(references) > 1:
        what = f" of {len(texts[1].lines)} lines are empty in all of them; they are scored against an empty reference."
        warnings.append(("references", bare, what))
    for number, text in enumerate(texts):
        for other in texts[:number]:
            if text.lines == other.lines:
                warnings.append((text.file.role, 0, f": the same text as {other.file.role}."))
    return once(warnings)


def _of_lines(text: Text, findings: Findings, gaps: bool) -> Iterator[tuple[str, int, str]]:
    """Warnings about the lines of a text, as its file has them; `gaps`: empty ones are no references."""
    role, count = text.file.role, len(text.lines)
    if findings.count(text.file, BYTE_ORDER_MARK):
        yield role, 0, ": began with a byte order mark, which was removed."
    if empty := findings.count(text.file, "empty"):
        kept = "they are no references of their sentences" if gaps else "they are kept and count"
        yield role, empty, f" of {count} lines are empty; {kept}."
    if crlf := findings.count(text.file, "crlf"):
        yield role, crlf, f" of {count} lines ended in CRLF; the CR was removed."


def _tokenised(text: Text) -> Iterator[tuple[str, int, str]]:
    """A warning about an output that looks tokenised."""
    if sum(line.endswith(" .") for line in text.lines) >= MANY_TOKENISED:
        yield text.file.role, 0, ": looks tokenised; scores of tokenised text do not compare with published ones."


def _far(
    text: Text, lengths: Sequence[int], references: Sequence[Sequence[int]], band: int, unit: str
) -> Iterator[tuple[str, int, str]]:
    """A warning about the lengths of an output, if those of all references are out of the reach of TER's search."""
    far = sum(  # an empty line in a further reference is a gap
        min(abs(length - each) for each in (first, *filter(None, further))) > band
        for length, (first, *further) in zip(lengths, zip(*references, strict=True), strict=True)
    )
    if far:
        what = (
            f" of {len(text.lines)} lines are more than {band} {unit} longer or shorter than the reference; "
            "sacreBLEU searches TER's edits too narrowly for them, and may find too many."
        )
        yield text.file.role, far, what


def once(warnings: Iterable[tuple[str, int, str]]) -> list[str]:
    """The sentences of warnings; warnings that end alike share a sentence.

    If it is about many texts, the texts with most lines are named, and the others counted.

    Args:
        warnings: of each the role of its text, a number of lines or 0, and the rest of the sentence.
    """
    alike: dict[str, list[tuple[str, int]]] = {}
    for role, count, rest in warnings:
        alike.setdefault(rest, []).append((role, count))
    return [_named(texts) + rest for rest, texts in alike.items()]


def _named(texts: Sequence[tuple[str, int]]) -> str:
    """The beginning of a sentence: texts with their numbers of lines."""
    most, others = list(texts), 0
    if len(texts) > MANY_TEXTS:
        most = sorted(texts, key=lambda each: -each[1])[:NAMED_TEXTS]
        others = len(texts) - NAMED_TEXTS
    names = ", ".join(f"{role}: {count}" if count else role for role, count in most)
    if not others:
        return names
    return f"{names}, and {others} other texts" + (f": at most {most[-1][1]}" if most[-1][1] else "")


def input_record(
    file: TextFile,
    text: Text | None = None,
    lines: int | None = None,
    system: str | None = None,
    digests: Mapping[TextFile, str] | None = None,
) -> dict[str, Any]:
    """The record of an input file in the results.

    Args:
        file: which.
        text: its text if it is one of the aligned ones.
        lines, system: of other files.
        digests: of pipes, from `Findings`.
    """
    digest = (digests or {}).get(file)
    if digest is None:
        with file.path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    role = file.role
    if text is not None:
        lines = len(text.lines)
        if text.system is not None:
            role = f"output at {text.share:g}" if text.share else "output"
            system = text.system
    return {"role": role, "system": system, "path": str(file.path), "sha256": digest, "lines": lines}
