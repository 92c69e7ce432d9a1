"""The corpora of a configuration as they are read: one for each split, or a list of them to train on.

In a list, a pair is numbered by its corpus and its line: `corpus << LINE_BITS | line`. A single corpus has number 0, so
that its numbers are its lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.config.corpora import Corpus, Fields, ListedCorpus, format_of
from posnmt.config.schema import Data
from posnmt.config.yaml import expand
from posnmt.data.corpus import LINE_BITS, Chunk, Findings, TextFile, corpus_files, read_chunks
from posnmt.data.tables import Table, read_table


@dataclass(frozen=True)
class Part:
    """A corpus to read.

    Attributes:
        files: the files by part, as `corpus_files` has them; or `file`, a `Table`.
        mark: that is put before each source; empty for none.
    """

    files: dict[str, TextFile]
    mark: str = ""

    @property
    def first(self) -> TextFile:
        """The first file; each of its lines is a pair, except in a translation memory."""
        return next(iter(self.files.values()))

    @property
    def content(self) -> list[Any]:
        """What its pairs depend on beside the contents of the files: how they are read, and the mark."""
        fields = [[each.format, *each.texts, each.document] for each in self.files.values() if isinstance(each, Table)]
        return [fields, self.mark]


Files = dict[str, list[Part]]
"""The corpora of each split."""


def files_of(data: Data) -> dict[str, list[Corpus]]:
    """The sections of the corpora of each split."""
    train: list[Corpus] = [*data.corpora] if isinstance(data.train, list) else [data.train]
    return {"train": train} | ({"dev": [data.dev]} if data.dev else {})


def part_of(corpus: Corpus, data: Data, role: str) -> Part:
    """A corpus to read.

    Args:
        corpus: a section of the configuration.
        role: its key, such as `data.train`.

    Raises:
        UserError: a path names an environment variable that is not set, or has no known ending.
    """
    if not isinstance(corpus, ListedCorpus):
        return Part(corpus_files(corpus, data.root, role))
    mark = corpus.mark or ""
    if corpus.file is None:
        return Part(corpus_files(corpus, data.root, role), mark)
    role = f"{role}.file"
    path = Path(data.root) / expand(corpus.file, role)
    try:
        kind = format_of(path.name)
    except ValueError as error:
        raise UserError(str(error), role) from None
    if kind == "tsv" and corpus.fields is None:
        return Part({"tsv": TextFile(role, path)}, mark)
    fields = corpus.fields or Fields(source="source", target="target")
    if kind == "tmx" and corpus.fields is None:
        fields = Fields(source=data.source_language, target=data.target_language)
    return Part({"file": Table(role, path, kind, fields.source, fields.target, fields.document)}, mark)


def read_part(part: Part, findings: Findings) -> Iterator[Chunk]:
    """The pairs of a corpus in order, up to `CHUNK` at a time, numbered by their lines."""
    table = part.files.get("file")
    return read_table(table, findings) if isinstance(table, Table) else read_chunks(part.files, findings)


def read_parts(parts: Sequence[Part], findings: Findings) -> Iterator[Chunk]:
    """The pairs of corpora in order; no chunk has pairs of two corpora."""
    for corpus, part in enumerate(parts):
        for chunk in read_part(part, findings):
            lines = chunk.lines if corpus == 0 else [corpus << LINE_BITS | line for line in chunk.lines]
            yield chunk._replace(lines=lines, mark=part.mark)


def lines_of(part: Part, blocks: Sequence[range]) -> tuple[list[str], list[str]]:
    """The texts of some pairs of a corpus, numbered from 0."""
    wanted = set(itertools.chain.from_iterable(blocks))
    chunks = read_part(part, Findings(accept=("empty", "crlf")))
    pairs = (
        (line, pair) for chunk in chunks for line, *pair in zip(chunk.lines, chunk.sources, chunk.targets, strict=True)
    )
    last = max(wanted, default=-1) + 1
    upto = itertools.takewhile(lambda found: found[0] <= last, pairs)
    texts = {line - 1: pair for line, pair in upto if line - 1 in wanted}
    rows = [texts.get(row, ["", ""]) for block in blocks for row in block]
    return [source for source, _ in rows], [target for _, target in rows]


def all_files(files: Files) -> list[TextFile]:
    """List the text files of all splits, each corpus after the other."""
    return [file for parts in files.values() for part in parts for file in part.files.values()]
