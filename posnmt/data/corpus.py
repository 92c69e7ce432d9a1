"""Strict line-by-line reading of text files.

A file is read as bytes and split on "\\n" only (a line may contain U+2028 or U+0085), and no line is skipped. Faults
are collected in `Findings`: the first occurrence and the count of each kind in each file, so that one run reports them
all.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import itertools
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from posnmt.base.errors import UserError, existing_file, raise_all
from posnmt.config.corpora import Corpus
from posnmt.config.yaml import expand
from posnmt.data.unpack import limited_lines, unpacking

# kind of fault -> message, advice
_SENTENCES = {
    "utf-8": ("not valid UTF-8: {detail}", "save the file as UTF-8"),
    "nul": ("a NUL character: {detail}", "remove it"),
    "empty": ("empty line", "fill it, or drop such pairs, counted: {accept}"),
    "crlf": ("line ends in CRLF", "convert it to LF, or remove the CR, counted: {accept}"),
    "columns": ("wrong number of tab-separated columns: {detail}", "write source <tab> target [<tab> document id]"),
    "column": ("a column is missing: {detail}", "correct the line, or the numbers in fields"),
    "json": (
        "not an object of JSON: {detail}",
        'write one object a line, such as {{"source": "...", "target": "..."}}',
    ),
    "field": ("a field is missing: {detail}", "name two of them in fields: {{source: ..., target: ...}}"),
    "type": ("a field is no text: {detail}", "name fields of text in fields: {{source: ..., target: ...}}"),
    "surrogate": ("half of a surrogate pair, which is no character: {detail}", "remove it"),
}
# A byte order mark is removed and counted; it is not a fault.
BYTE_ORDER_MARK = "byte order mark"
# A unit of a translation memory without one of the languages is no pair; it is counted, and is not a fault.
NOT_BOTH = "not in both languages"
# In a list of corpora, the number of a pair's line is above that of its corpus: 2^40 lines are more than any file has.
LINE_BITS = 40
# The first bytes of files that are not UTF-8 text -> message, advice
_OTHER = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<xz>\xfd7zXZ)|(?P<archive>BZh[1-9]1AY|\x28\xb5\x2f\xfd)|(?P<utf16>\xff\xfe|\xfe\xff)"
    rb"|(?P<zip>PK\x03\x04)|(?P<pdf>%PDF-)|(?P<rtf>\{\\rtf)|(?P<office>\xd0\xcf\x11\xe0)"
)
_OTHERS = {
    "gzip": ("is compressed by gzip", "let its name end in .gz"),
    "xz": ("is compressed by xz", "let its name end in .xz"),
    "archive": ("is compressed", "unpack it, or compress it by gzip or xz"),
    "utf16": ("is in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"),
    "zip": ("is a ZIP archive, or an office document, which is one", "unpack it, or save its text in a plain file"),
    "pdf": ("is a PDF", "save its text in a plain file"),
    "rtf": ("is an RTF document", "save its text in a plain file"),
    "office": ("is an office document", "save its text in a plain file"),
}
# Number of lines that are read, encoded and written together.
CHUNK = 10_000


@dataclass(frozen=True)
class TextFile:
    """A text file and its role, such as `data.train.source`."""

    role: str
    path: Path

    @property
    def compression(self) -> str:
        """`.gz`, `.xz` or nothing, by the suffix of the name."""
        suffix = self.path.suffix.lower()
        return suffix if suffix in (".gz", ".xz") else ""

    def place(self, line: int) -> str:
        """A line of the file, for messages."""
        return f"{self.path}:{line}"


class Pair(NamedTuple):
    """A source line, its translation, their 1-based line number, and their document if it is known."""

    line: int
    source: str
    target: str
    document: str | None

    @property
    def blank(self) -> bool:
        """Whether a side has only white space."""
        return not self.source.strip() or not self.target.strip()


class Chunk(NamedTuple):
    """Consecutive pairs of a corpus as columns: line numbers, texts, and documents (None if no pair has one).

    Attributes:
        mark: of the corpus, which is put before each source when it is encoded; empty for no mark.
    """

    lines: Sequence[int]
    sources: list[str]
    targets: list[str]
    documents: list[str | None] | None
    mark: str = ""

    @property
    def corpus(self) -> int:
        """The number of the corpus in a list of corpora."""
        return self.lines[0] >> LINE_BITS


def chunk_of(pairs: Sequence[Pair]) -> Chunk:
    """Consecutive pairs, at least one, as columns."""
    lines, sources, targets, documents = zip(*pairs, strict=True)
    return Chunk(list(lines), list(sources), list(targets), list(documents))


class Findings:
    """The faults in text files, with their counts.

    Args:
        accept: kinds that are counted but are not faults (`empty`, `crlf`).
        stop: raise at the first fault; otherwise collect them for `raise_all`.

    Attributes:
        lines: of each file that was read to its end.
        digests: the SHA-256 of the text of each pipe that was read to its end, since it cannot be read again.
        notes: sentences about what is no fault.
    """

    def __init__(self, accept: Iterable[str] = (), stop: bool = False) -> None:
        self.accept, self.stop = frozenset(accept) | {BYTE_ORDER_MARK, NOT_BOTH}, stop
        self.notes: list[str] = []
        self.lines: dict[TextFile, int] = {}
        self.digests: dict[TextFile, str] = {}
        self._counts: Counter[tuple[TextFile, str]] = Counter()
        self._first: dict[tuple[TextFile, str], tuple[int, str]] = {}
        self._unreadable: dict[TextFile, UserError] = {}
        self._other: list[UserError] = []

    def add(self, kind: str, file: TextFile, line: int, detail: str = "") -> None:
        """Record a line with a fault, or an accepted irregularity."""
        self._counts[file, kind] += 1
        self._first.setdefault((file, kind), (line, detail))
        if self.stop and kind not in self.accept:
            raise self._fault(file, kind)

    def unreadable(self, file: TextFile, fault: UserError) -> None:
        """Record that a file could not be read to its end."""
        if self.stop:
            raise fault
        self._unreadable[file] = fault

    def misaligned(self, files: list[TextFile], counts: list[int], hints: Sequence[str] = ()) -> None:
        """Record different line counts, and hints where lines are lost; not if a file could not be read to its end."""
        if any(file in self._unreadable for file in files):
            return
        counted = ", ".join(f"{file.path} has {count:,}" for file, count in zip(files, counts, strict=True))
        todo = "; ".join(["line n of each file must belong to line n of the others", *hints])
        fault = UserError(f"different line counts: {counted}", ", ".join(file.role for file in files), todo)
        if self.stop:
            raise fault
        self._other.append(fault)

    def count(self, file: TextFile, kind: str) -> int:
        """The number of lines of a file with a fault of this kind."""
        return self._counts[file, kind]

    def raise_all(self) -> None:
        """Raise all collected faults, one for each file and kind; do nothing if there are none."""
        # sorted by line, since files are read alternately
        ordered = sorted(self._first, key=lambda each: self._first[each][0])
        faults = [self._fault(file, kind) for file, kind in ordered if kind not in self.accept]
        raise_all([*self._unreadable.values(), *self._other, *faults])

    def _fault(self, file: TextFile, kind: str) -> UserError:
        what, todo = _SENTENCES[kind]
        todo = todo.format(accept=f"data.accept: [{kind}] in the configuration, or --set 'data.accept=[{kind}]'")
        line, detail = self._first[file, kind]
        number = self._counts[file, kind]
        total = f", the first of {number:,} such lines" if number > 1 else ""
        return UserError(what.format(detail=detail) + total, file.place(line), todo)


def document_of(line: str) -> str | None:
    """The document id in a line of a file of ids: the text before the first blank; None for a blank line."""
    return next(iter(line.split(maxsplit=1)), None)


def open_text(file: TextFile) -> BinaryIO:
    """A text file opened for reading bytes, decompressed by the suffix of its name.

    Raises:
        UserError: it is missing, a folder, or not readable.
    """
    path = existing_file(file.path, file.role)
    try:
        return unpacking(path, file.compression) if file.compression else path.open("rb")
    except OSError as error:
        raise UserError(f"{file.role} cannot be opened: {error.strerror}", path, "check its permissions") from None


def decode_lines(
    stream: Iterable[bytes], file: TextFile, findings: Findings, blank_is_fault: bool = True
) -> Iterator[str]:
    """Decode and check lines; every input line yields a string without its line end.

    Args:
        stream: lines split on "\\n", such as an open binary file or `sys.stdin.buffer`.
        file: names the stream in messages.
        findings: collects faults; a faulty line yields a replacement, so that lines stay aligned.
        blank_is_fault: whether a line with only white space is a fault.
    """
    for number, raw in enumerate(stream, start=1):
        yield _decode_line(raw, number, file, findings, blank_is_fault)


def _decode_line(raw: bytes, number: int, file: TextFile, findings: Findings, blank_is_fault: bool) -> str:
    """Decode one line and record its findings, as `decode_lines` describes."""
    raw = raw.removesuffix(b"\n")
    if raw.endswith(b"\r"):
        findings.add("crlf", file, number)
        raw = raw[:-1]
    if number == 1 and raw.startswith(codecs.BOM_UTF8):
        findings.add(BYTE_ORDER_MARK, file, number)
        raw = raw[len(codecs.BOM_UTF8) :]
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} of the line is 0x{raw[error.start]:02X}"
        findings.add("utf-8", file, number, detail)
        line = raw.decode("utf-8", errors="replace")
    if "\0" in line:
        findings.add("nul", file, number, f"byte {raw.index(0) + 1} of the line")
    if blank_is_fault and not line.strip():
        findings.add("empty", file, number)
    return line


def decode_block(raws: list[bytes], first: int, file: TextFile, findings: Findings, blank_is_fault: bool) -> list[str]:
    """Lines as in `decode_lines`: all at once if there are no faults, which is ten times as fast."""
    joined = b"".join(raws)
    if b"\r" not in joined and b"\0" not in joined and not (first == 1 and joined.startswith(codecs.BOM_UTF8)):
        with contextlib.suppress(UnicodeDecodeError):
            lines = joined.decode("utf-8").removesuffix("\n").split("\n")
            if not blank_is_fault or all(map(str.strip, lines)):
                return lines
    return [_decode_line(raw, number, file, findings, blank_is_fault) for number, raw in enumerate(raws, first)]


def read_lines(file: TextFile, findings: Findings, blank_is_fault: bool = True) -> Iterator[str]:
    """The lines of a plain, .gz or .xz file, checked as in `decode_lines`, as a stream.

    A missing or empty file, a folder and a damaged archive are faults too. The last line needs no line end.
    """
    return decode_lines(_raw_lines(file, findings), file, findings, blank_is_fault)


def read_blocks(file: TextFile, findings: Findings, blank_is_fault: bool = True) -> Iterator[list[str]]:
    """The lines of `read_lines` in lists of up to `CHUNK`, several times as fast."""
    raws, first = _raw_lines(file, findings), 1
    while block := list(itertools.islice(raws, CHUNK)):
        yield decode_block(block, first, file, findings, blank_is_fault)
        first += len(block)


def _raw_lines(file: TextFile, findings: Findings) -> Iterator[bytes]:
    """The lines of a file as bytes with their ends; records their number, or that the file is unreadable."""
    try:
        stream = open_text(file)
    except UserError as fault:
        findings.unreadable(file, fault)
        return
    number = 0
    digest = None if file.path.is_file() else hashlib.sha256()
    with stream:
        if not file.compression and (other := _OTHER.match(stream.peek(8))):  # type: ignore[attr-defined]
            what, todo = _OTHERS[str(other.lastgroup)]
            findings.unreadable(file, UserError(f"{file.role} is no plain text: it {what}", file.path, todo))
            return
        try:
            for line in limited_lines(stream, file.path):
                number += 1
                if digest is not None:
                    digest.update(line)
                yield line
        except UserError as fault:
            findings.unreadable(file, fault)
            return
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            kind = f"is a damaged {file.compression} file" if file.compression else "cannot be read"
            what, where = f"{file.role} {kind}: {error}", f"{file.path}:{number + 1}"
            findings.unreadable(file, UserError(what, where, "get the file again"))
            return
    if number == 0:
        findings.unreadable(file, UserError(f"{file.role} is empty", file.path, "give a file with at least one line"))
    findings.lines[file] = number
    if digest is not None:
        findings.digests[file] = digest.hexdigest()


def corpus_files(corpus: Corpus, root: str | Path, role: str) -> dict[str, TextFile]:
    """The files of a corpus by part: source, target and possibly documents; or tsv.

    Args:
        corpus: the section of the configuration.
        root: base folder of relative paths.
        role: config key of the corpus, such as `data.train`.

    Raises:
        UserError: a path names an environment variable that is not set.
    """
    files = {}
    for part in ("source", "target", "documents", "tsv"):
        path = getattr(corpus, part)
        if path is not None:
            files[part] = TextFile(f"{role}.{part}", Path(root) / expand(path, f"{role}.{part}"))
    return files


def read_pairs(files: dict[str, TextFile], findings: Findings) -> Iterator[Pair]:
    """The pairs of a corpus in order, as a stream, pairs with a blank side included.

    Args:
        files: result of `corpus_files`.
        findings: collects faults, including different line counts.
    """
    for chunk in read_chunks(files, findings):
        documents = chunk.documents or itertools.repeat(None)
        yield from map(Pair, chunk.lines, chunk.sources, chunk.targets, documents)


def read_chunks(files: dict[str, TextFile], findings: Findings) -> Iterator[Chunk]:
    """The pairs of `read_pairs`, up to `CHUNK` at a time, several times as fast."""
    return _read_table(files["tsv"], findings) if "tsv" in files else _read_aligned(files, findings)


def _read_aligned(files: dict[str, TextFile], findings: Findings) -> Iterator[Chunk]:
    """Pairs from two files, and from a third file of document ids if there is one."""
    parts = [part for part in ("source", "target", "documents") if part in files]
    # a blank line in the file of documents: a pair without a document
    streams = [read_blocks(files[part], findings, blank_is_fault=part != "documents") for part in parts]
    first = 1
    for blocks in itertools.zip_longest(*streams, fillvalue=[]):
        counts = [len(block) for block in blocks]
        lines = range(first, first + min(counts))
        documents = [document_of(line) for line in blocks[2]] if len(blocks) == 3 else None
        first += min(counts)
        if lines:
            source, target = (block[: len(lines)] for block in blocks[:2])
            yield Chunk(lines, source, target, documents and documents[: len(lines)])
        if len(set(counts)) > 1:
            before = lines.start - 1
            totals = [before + count + sum(map(len, rest)) for count, rest in zip(counts, streams, strict=True)]
            findings.misaligned([files[part] for part in parts], totals)
            return


def _read_table(file: TextFile, findings: Findings) -> Iterator[Chunk]:
    """Pairs from a file of tab-separated columns."""
    first = 1
    for block in read_blocks(file, findings, blank_is_fault=False):
        pairs = []
        for number, line in enumerate(block, first):
            columns = line.split("\t") if line.strip() else ["", ""]
            if len(columns) not in (2, 3):
                findings.add("columns", file, number, f"{len(columns)}, not 2 or 3")
                continue
            document = columns[2].strip() if len(columns) == 3 else ""
            pair = Pair(number, columns[0], columns[1], document or None)
            if pair.blank:
                findings.add("empty", file, number)
            pairs.append(pair)
        first += len(block)
        if pairs:
            yield chunk_of(pairs)
