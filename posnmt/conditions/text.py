"""The text files that the conditions are made from: read strictly, as a stream, and what is odd in them counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from posnmt.data.corpus import BYTE_ORDER_MARK, Findings, Pair, TextFile, read_lines, read_pairs
from posnmt.errors import UserError
from posnmt.progress import Display

REPORT_EVERY = 100_000
"""Lines between two signs of life."""

Item = TypeVar("Item")


class InputText:
    """One text, or a parallel one, that a condition is made from. It can be read several times.

    Blank lines stay and the CR of a CRLF is removed; both are counted, and said by `tell`. What else is wrong with a
    file ends the reading with every fault at once.

    Args:
        files: part → file, with the parts of `corpus.read_pairs`; `source` alone for a text without translation.
        display: for what is said; default: nothing is.
    """

    def __init__(self, files: dict[str, TextFile], display: Display | None = None) -> None:
        self.files = files
        self.display = display or Display(quiet=True)
        self.read, self.blank = 0, 0
        self._findings = Findings()

    @property
    def parameters(self) -> dict[str, str]:
        """Part → path as given, for the manifest."""
        return {part: str(file.path) for part, file in self.files.items()}

    @property
    def facts(self) -> dict[str, int]:
        """What the last complete reading counted."""
        return {
            "read": self.read,
            "blank": self.blank,
            "carriage_returns_removed": sum(self._findings.count(file, "crlf") for file in self.files.values()),
        }

    def pairs(self, doing: str) -> Iterator[Pair]:
        """The pairs of a parallel text in their order; `doing` is said now and then."""
        yield from self._counted(lambda findings: read_pairs(self.files, findings), lambda pair: pair.blank, doing)

    def lines(self, doing: str) -> Iterator[str]:
        """The lines of the source alone; `doing` is said now and then."""
        source = self.files["source"]
        yield from self._counted(lambda findings: read_lines(source, findings), lambda line: not line.strip(), doing)

    def tell(self) -> None:
        """Say what is odd in the text, once it has been read."""
        facts, say = self.facts, self.display.say
        if facts["blank"]:
            say(f"{facts['blank']:,} of {facts['read']:,} lines are blank, on one side at least; they are kept")
        if facts["carriage_returns_removed"]:
            say(f"{facts['carriage_returns_removed']:,} lines end in CRLF; the CR is removed")
        for file in self.files.values():
            if self._findings.count(file, BYTE_ORDER_MARK):
                say(f"{file.path}: the byte order mark at its start is removed")

    def _counted(
        self, reader: Callable[[Findings], Iterator[Item]], is_blank: Callable[[Item], bool], doing: str
    ) -> Iterator[Item]:
        """What a reader gives, counted; at the end, the faults it found are raised."""
        findings = Findings(accept=("empty", "crlf"))
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
    """A parallel text as the command line names it: two aligned files, perhaps document ids, or one TSV file.

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


def unsegmented(single: int, filled: int) -> bool:
    """Whether text looks as if its words were not separated: 9 in 10 lines that are not blank are one word.

    Args:
        single: lines of one word.
        filled: lines that are not blank.
    """
    return filled > 0 and single >= 0.9 * filled
