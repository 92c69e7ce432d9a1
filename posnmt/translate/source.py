"""The text that `posnmt translate` reads, with the files beside it that have a line for each of its lines."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.data.corpus import Findings, TextFile, document_of, open_text, read_lines
from posnmt.data.lines import arriving_lines, portions
from posnmt.translate.output import is_stream
from posnmt.translate.requests import Request, numbered
from posnmt.translate.runs import DIGITS
from posnmt.translate.together import in_blocks


@dataclass(frozen=True)
class Files:
    """What a translation reads and writes.

    Attributes:
        source, output: the text and its translation; None: standard input or output.
        prefix: has the beginning of each translation, a line for each line of `source`.
        terms: a glossary; see `posnmt.translate.terms`.
        documents: has the document of each line, for `decode.join`.
    """

    source: Path | None = None
    output: Path | None = None
    prefix: Path | None = None
    terms: Path | None = None
    documents: Path | None = None


@dataclass(frozen=True)
class Source:
    """The lines to translate, checked as far as they can be read before the translation.

    Attributes:
        file: the text.
        findings: how its lines were read.
        digest, lines: of its lines, and their number; None: of a pipe, whose lines are read as they arrive.
        prefixes, documents: one for each line; empty: there is no such file.
    """

    file: TextFile
    findings: Findings
    digest: str | None
    lines: int | None
    prefixes: Sequence[str]
    documents: Sequence[str | None]

    @classmethod
    def read(cls, files: Files, join: int) -> Source:
        """The text of some files; `join` is that of `decode`.

        Raises:
            UserError: a fault in a text, files whose lines do not belong together, a pipe with such files, or documents
                of lines that are not joined.
        """
        file = TextFile("input", files.source or Path("standard input"))
        is_pipe = files.source is None or is_stream(files.source)
        digest, lines = (None, None) if is_pipe else _checked(file)
        if files.documents is not None and join == 1:
            raise UserError("documents matter to lines that are translated together", "--documents", "add --join")
        prefixes = _beside(files.prefix, "prefix", "the beginnings of translations belong", file, lines)
        documents = _beside(files.documents, "documents", "document ids belong", file, lines)
        return cls(file, _findings(), digest, lines, prefixes, [document_of(line) for line in documents])

    @property
    def is_pipe(self) -> bool:
        """Whether the lines are read as they arrive, so that they cannot be read again."""
        return self.lines is None

    def portions(self, done: int, join: int) -> Iterator[list[Request]]:
        """The lines after the first ones, in portions; with `join`, a portion ends where a block ends."""
        found = self._portions(done)
        return in_blocks(found, join) if join > 1 else found

    def _portions(self, done: int) -> Iterator[list[Request]]:
        for group in self._groups(done):
            here = slice(done, done + len(group))
            prefixes, documents = self.prefixes[here], self.documents[here]
            yield numbered(group, str(self.file.path), done + 1, prefixes, documents)
            done += len(group)

    def _groups(self, done: int) -> Iterator[list[str]]:
        """The lines of a file after the first ones, or those of a pipe as they arrive."""
        if not self.is_pipe:
            lines = read_lines(self.file, self.findings)
            yield from portions(islice(lines, done, None), done)
        elif self.file.path.exists():
            with open_text(self.file) as stream:
                yield from arriving_lines(stream, self.file, self.findings)
        else:
            yield from arriving_lines(sys.stdin.buffer, self.file, self.findings)

    @property
    def settings(self) -> dict[str, Any]:
        """What a translation that is resumed must have in common with its beginning, as JSON has it."""
        prefix, documents = (
            _digest([each or "" for each in lines]) if lines else None for lines in (self.prefixes, self.documents)
        )
        return {"input": self.digest, "prefix": prefix, "documents": documents}


def _findings() -> Findings:
    return Findings(accept=("empty", "crlf"), stop=True)


def _checked(file: TextFile) -> tuple[str, int]:
    """The SHA-256 of the lines of a file, abbreviated, and their number.

    Raises:
        UserError: a fault in the text.
    """
    digest, lines = hashlib.sha256(), 0
    for line in read_lines(file, _findings()):
        digest.update(f"{line}\n".encode())
        lines += 1
    return digest.hexdigest()[:DIGITS], lines


def _beside(path: Path | None, role: str, belong: str, source: TextFile, lines: int | None) -> list[str]:
    """The lines of a file that has one for each line of `source`.

    Args:
        path: of the file; None: there is none.
        role, belong: what the file has, for error messages.
        lines: of the source; None: of a pipe.

    Raises:
        UserError: a fault in the text, a source that is a pipe, or one with another number of lines.
    """
    if path is None:
        return []
    if lines is None:
        raise UserError(f"{belong} to the lines of a file", "--input", "name a file")
    findings, file = _findings(), TextFile(role, path)
    beside = list(read_lines(file, findings))
    if len(beside) != lines:
        findings.misaligned([source, file], [lines, len(beside)])
    return beside


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]
