"""The input text of conditions, read as a stream and checked strictly; irregularities are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.config.writing import EXAMPLES, writing
from posnmt.data.corpus import BYTE_ORDER_MARK, Findings, Pair, TextFile, read_lines, read_pairs

REPORT_EVERY = 100_000
"""Lines between two progress reports."""

Item = TypeVar("Item")


class InputText:
    """The text or parallel text of a condition, which can be read several times.

    Blank lines are kept and the CR of a CRLF is removed; both are counted, and reported by `tell`. Other faults are
    raised together at the end of the text.

    Args:
        files: part → file, with the parts of `corpus.read_pairs`; `source` alone for a text without translation.
        display: for reports; default: nothing is shown.
        accept: more kinds of `Findings` that are accepted.
    """

    def __init__(self, files: dict[str, TextFile], display: Display | None = None, accept: Iterable[str] = ()) -> None:
        self.files, self._accept = files, ("empty", "crlf", *accept)
        self.display = display or Display(quiet=True)
        self.read, self.blank = 0, 0
        self._findings = Findings()

    @property
    def parameters(self) -> dict[str, str]:
        """Part → path, for the manifest."""
        return {part: str(file.path) for part, file in self.files.items()}

    @property
    def facts(self) -> dict[str, int]:
        """The counts of the last complete reading."""
        return {
            "read": self.read,
            "blank": self.blank,
            "carriage_returns_removed": sum(self._findings.count(file, "crlf") for file in self.files.values()),
        }

    def pairs(self, doing: str) -> Iterator[Pair]:
        """The pairs of a parallel text in order; `doing` names the work in progress reports."""
        yield from self._counted(lambda findings: read_pairs(self.files, findings), lambda pair: pair.blank, doing)

    def lines(self, doing: str) -> Iterator[str]:
        """The lines of the source; `doing` names the work in progress reports."""
        source = self.files["source"]
        yield from self._counted(lambda findings: read_lines(source, findings), lambda line: not line.strip(), doing)

    def signature(self) -> list[tuple[int, int]]:
        """Size and modification time of each file that exists; none may be a pipe.

        Raises:
            UserError: one is a pipe, which cannot be read twice.
        """
        signatures = []
        for file in self.files.values():
            if file.path.is_file():
                status = file.path.stat()
                signatures.append((status.st_size, status.st_mtime_ns))
            elif file.path.exists() and not file.path.is_dir():
                raise UserError(f"{file.role} is read more than once, and a pipe cannot be", file.path, "name a file")
        return signatures

    def tell(self) -> None:
        """Report irregularities of the text after it has been read."""
        facts = self.facts
        if facts["blank"]:
            self.display.say(
                f"{facts['blank']:,} of {facts['read']:,} lines are empty on one side at least; they are kept"
            )
        self.tell_removed()

    def tell_removed(self) -> None:
        """Report characters that were removed from lines: carriage returns and byte order marks."""
        facts, say = self.facts, self.display.say
        if facts["carriage_returns_removed"]:
            say(f"{facts['carriage_returns_removed']:,} lines end in CRLF; the CR is removed")
        for file in self.files.values():
            if self._findings.count(file, BYTE_ORDER_MARK):
                say(f"{file.path}: the byte order mark at its start is removed")

    def _counted(
        self, reader: Callable[[Findings], Iterator[Item]], is_blank: Callable[[Item], bool], doing: str
    ) -> Iterator[Item]:
        """The items of a reader, counted; at the end, all faults are raised."""
        findings = Findings(self._accept)
        read = blank = 0
        for item in reader(findings):
            read += 1
            blank += is_blank(item)
            yield item
            if read % REPORT_EVERY == 0:
                self.display.say(f"{doing}: {read:,} lines")
        findings.raise_all()
        self.read, self.blank, self._findings = read, blank, findings


def parallel_text(
    source: str | Path | None = None,
    target: str | Path | None = None,
    tsv: str | Path | None = None,
    documents: str | Path | None = None,
    display: Display | None = None,
) -> InputText:
    """A parallel text from the command line: two aligned files with optional document ids, or one TSV file.

    Raises:
        UserError: neither form is complete, or both are given.
    """
    paths = {"source": source, "target": target, "documents": documents, "tsv": tsv}
    files = {part: TextFile(f"--{part}", Path(path)) for part, path in paths.items() if path is not None}
    if set(files) not in ({"tsv"}, {"source", "target"}, {"source", "target", "documents"}):
        roles = ", ".join(file.role for file in files.values()) or "nothing"
        raise UserError(
            f"a parallel text is two aligned files or one TSV file; got {roles}",
            todo="give --source and --target, or --tsv alone (source <tab> target [<tab> document id])",
        )
    return InputText(files, display)


def language_without_blanks(lines: Iterable[str]) -> str | None:
    """The language of a text without blanks between words, such as `Japanese`, by its first lines; else None."""
    how = writing(islice(lines, EXAMPLES))
    return how.language.capitalize() if how.language and how.counts_characters else None
