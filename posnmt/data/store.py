"""The store: a prepared corpus in memory-mapped Arrow files, read without copies.

A store is a folder: `manifest.json` (inputs and counts), `train.arrow` and possibly `dev.arrow`, `text/` (the
`TextPipeline`) and `dropped.tsv`; with `subword.sampling` also `train.1.arrow` and so on, the pairs of `train.arrow` in
random segmentations. Rows are in corpus order. An Arrow file consists of record batches of `ROWS` rows,
except the last, so that row i is located in constant time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from typing_extensions import TypedDict

from posnmt.base.errors import UserError
from posnmt.base.files import load_json, sha256_of
from posnmt.base.version import check_format
from posnmt.data.corpus import LINE_BITS
from posnmt.data.offsets import Shift
from posnmt.data.text import TextPipeline

ROWS = 8192

Number = TypeVar("Number", np.int32, np.int64)
Ids = tuple[NDArray[np.int32], NDArray[np.int64]]

# The original text is stored for dev only, where BLEU needs it.
SCHEMA = pa.schema(
    [
        ("line", pa.int64()),
        ("document", pa.large_string()),
        ("source", pa.large_list(pa.int32())),
        ("target", pa.large_list(pa.int32())),
        ("source_text", pa.large_string()),
        ("target_text", pa.large_string()),
    ]
)


class SplitWriter:
    """Writes the rows of a split, `ROWS` at a time. A context manager."""

    def __init__(self, path: Path) -> None:
        self._writer = pa.ipc.new_file(str(path), SCHEMA)
        self._pending = pa.Table.from_batches([], SCHEMA)

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush(1)
        self._writer.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows of the columns of `SCHEMA`."""
        self._pending = pa.concat_tables([self._pending, pa.Table.from_batches([rows])])
        self._flush(ROWS)

    def _flush(self, least: int) -> None:
        """Write pending rows while there are at least this many."""
        while len(self._pending) >= least:
            (batch,) = self._pending.slice(0, ROWS).combine_chunks().to_batches()
            self._writer.write_batch(batch)
            self._pending = self._pending.slice(ROWS)


class Split:
    """A split of a store, memory-mapped. Pickled as its path, for worker processes.

    Args:
        path: the Arrow file.

    Attributes:
        source_lengths, target_lengths: int32 [N], subwords of each pair, without bos and eos.

    Raises:
        UserError: the file is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            reader = pa.ipc.open_file(pa.memory_map(str(path)))
            self._batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
            for batch in self._batches:
                batch.validate()  # Arrow would read beyond the buffer of a column that is too short
        except (OSError, pa.ArrowException) as error:
            raise UserError(
                f"the store is damaged: {error}", path, "delete the store's folder and prepare it again"
            ) from None
        self._source = [_ids(batch, "source") for batch in self._batches]
        self._target = [_ids(batch, "target") for batch in self._batches]
        self.source_lengths, self.target_lengths = _lengths(self._source), _lengths(self._target)

    def __reduce__(self) -> tuple[type[Split], tuple[Path]]:
        return Split, (self.path,)

    def __len__(self) -> int:
        return len(self.source_lengths)

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """int64 [N]: the number of each pair, which is its line or, in a list, `corpus << LINE_BITS | line`."""
        return np.concatenate([_numbers(batch.column("line"), np.int64) for batch in self._batches])

    @property
    def lines(self) -> NDArray[np.int64]:
        """int64 [N]: the 1-based line of each pair in the original files of its corpus."""
        return self.numbers & ((1 << LINE_BITS) - 1)

    @cached_property
    def corpora(self) -> NDArray[np.int64]:
        """int64 [N]: the number of the corpus of each pair in a list of corpora, ascending; 0 without a list."""
        return self.numbers >> LINE_BITS

    def pair(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Source and target ids of pair `index`: int32 views into the file, read-only, without bos and eos."""
        batch, row = self._place(index)
        source, starts = self._source[batch]
        target, target_starts = self._target[batch]
        return source[starts[row] : starts[row + 1]], target[target_starts[row] : target_starts[row + 1]]

    def record_batches(self) -> Iterator[tuple[Ids, Ids]]:
        """Source and target of up to `ROWS` pairs at a time: ids [tokens], and the start of each pair [rows + 1]."""
        return zip(self._source, self._target, strict=True)

    def target_counts(self, size: int) -> NDArray[np.int64]:
        """How often each of `size` subwords occurs in the targets, int64 [size]; bos and eos are not in them."""
        counts = np.zeros(size, dtype=np.int64)
        for ids, starts in self._target:
            counts += np.bincount(ids[starts[0] : starts[-1]], minlength=size)
        return counts

    def where(self, index: int) -> str:
        """The origin of a pair, for errors."""
        listed = f" of data.train.{self.corpora[index]}" if self.corpora.any() else ""
        return f"line {self.lines[index]}{listed}"

    @property
    def documents(self) -> pa.LargeStringArray:
        """[N]: the document id of each pair; null where it has none."""
        return pa.concat_arrays([batch.column("document") for batch in self._batches])

    def document(self, index: int) -> str | None:
        """The document id of pair `index`, if it has one."""
        batch, row = self._place(index)
        return self._batches[batch].column("document")[row].as_py()

    @cached_property
    def source_texts(self) -> list[str]:
        """The original source lines [N]; for dev only."""
        return self._texts("source_text")

    @cached_property
    def target_texts(self) -> list[str]:
        """The original target lines [N], the references; for dev only."""
        return self._texts("target_text")

    def _texts(self, column: str) -> list[str]:
        if self._batches[0].column(column).null_count:
            raise ValueError(f"the store has no text of {self.path.stem}, only its subwords")
        return [text for batch in self._batches for text in batch.column(column).to_pylist()]

    def _place(self, index: int) -> tuple[int, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of {len(self)}")
        return divmod(index, ROWS)


class _Side(TypedDict):
    """Subwords of a side of a split, and lines that were decoded again: see `posnmt.data.restored`."""

    subwords: int
    unknown: int
    longest: int
    compared: int
    changed: int
    blanks_changed: int
    replaced: NotRequired[list[tuple[str, str, int]]]


class _Counts(TypedDict):
    """How many pairs of a split were read, kept and dropped."""

    read: int
    kept: int
    dropped: dict[str, int]
    kept_too_long: int
    copies: int
    source: _Side
    target: _Side


class _Signs(TypedDict):
    """The data warnings of a store, which `posnmt.data.suspicions` computes."""

    dev_pairs_in_train: NotRequired[int]
    exchanged: NotRequired[bool]
    shifts: NotRequired[dict[str, list[Shift]]]


class _SampledSide(TypedDict):
    """Subwords of all random segmentations of a side; how many of these the usual one replaces as too long."""

    subwords: int
    replaced: int


class _Sampling(TypedDict):
    """Random segmentations of the training pairs."""

    segmentations: int
    source: _SampledSide
    target: _SampledSide


class CorpusCounts(TypedDict):
    """Pairs of a corpus in a list; those read are held out, dropped or kept."""

    read: int
    held_out: int
    dropped: dict[str, int]
    kept: int


class _Manifest(TypedDict):
    """What is read of the manifest."""

    key: str
    settings: dict[str, dict[str, Any]]
    splits: dict[str, _Counts]
    corpora: NotRequired[list[CorpusCounts]]
    signs: _Signs
    sampling: NotRequired[_Sampling]
    files: dict[str, str]
    versions: dict[str, str]


class Store:
    """A prepared corpus; `Store.open` reads one.

    Attributes:
        manifest: inputs and counts; see docs/files.md.
        text: the text pipeline of its ids.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any], text: TextPipeline) -> None:
        self.folder, self.manifest, self.text = folder, manifest, text
        self._splits: dict[str, Split] = {}

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """The finished store in a folder.

        Raises:
            UserError: there is none, it is damaged, or another version of posnmt wrote it.
        """
        folder = Path(folder)
        path = folder / "manifest.json"
        if not path.is_file():
            raise UserError("no prepared store here", folder, "make one with `posnmt prepare CONFIG`")
        again = "delete the store's folder and prepare it again"
        manifest = load_json(path, dict[str, Any], "the manifest of the store", again)
        check_format(manifest.get("format"), path)
        load_json(path, _Manifest, "the manifest of the store", again)
        return cls(folder, manifest, TextPipeline.load(folder / "text"))

    def verify(self) -> None:
        """Check that every file is as it was written.

        Raises:
            UserError: files of the store are damaged; names them.
        """
        files = self.manifest["files"].items()
        damaged = [name for name, digest in files if _digest(self.folder / name) != digest]
        if damaged:
            what = f"the store is damaged: {', '.join(damaged)} is not what was written"
            raise UserError(what, self.folder, "delete this folder and prepare it again")

    @property
    def splits(self) -> list[str]:
        """The names of the splits: train, and dev if there is one."""
        return list(self.manifest["splits"])

    def split(self, name: str) -> Split:
        """The split `train` or `dev`.

        Raises:
            UserError: the store has no such split.
        """
        if name not in self.manifest["splits"]:
            raise UserError(f"the store has no split {name!r}", self.folder, f"it has {', '.join(self.splits)}")
        return self._split(name)

    def trained(self) -> list[Split]:
        """The splits that passes of training read in turn: the random segmentations, or `train` if there are none."""
        sampling = self.manifest.get("sampling")
        return [self._split(name) for name in (sampled_splits(sampling["segmentations"]) if sampling else ["train"])]

    def target_counts(self) -> NDArray[np.int64]:
        """int64 [V]: how often the training targets have each subword, in all random segmentations together."""
        size = self.text.target.size
        return np.sum([split.target_counts(size) for split in self.trained()], axis=0)

    def _split(self, name: str) -> Split:
        if name not in self._splits:
            self._splits[name] = Split(self.folder / f"{name}.arrow")
        return self._splits[name]


def sampled_splits(segmentations: int) -> list[str]:
    """The names of so many random segmentations of `train`."""
    return [f"train.{number}" for number in range(1, segmentations + 1)]


def _digest(path: Path) -> str | None:
    """SHA-256 of a file; None if it cannot be read."""
    try:
        return sha256_of(path)
    except OSError:
        return None


def _ids(batch: pa.RecordBatch, side: str) -> Ids:
    """All ids of a side of a record batch [tokens], and the start of each row in them [rows + 1]; views."""
    column = batch.column(side)
    return _numbers(column.values, np.int32), _numbers(column.offsets, np.int64)


def _numbers(array: pa.Array, kind: type[Number]) -> NDArray[Number]:
    """A column of numbers as a read-only view [N]; `to_numpy` would import pandas, if it is installed, for a second."""
    if array.null_count:
        raise pa.ArrowInvalid("a number is missing")
    values = array.buffers()[1]
    return np.frombuffer(b"" if values is None else values, kind, len(array), array.offset * np.dtype(kind).itemsize)


def _lengths(side: list[Ids]) -> NDArray[np.int32]:
    """The lengths of all rows of a side, int32 [N]."""
    return np.concatenate([np.diff(starts) for _, starts in side]).astype(np.int32)
