"""Small files that declare or unpack to much: a bomb for each reader, and a harmless file of the same kind.

`python -m tests.fuzz.bombs NAME KIND FOLDER` reads one of them, and prints the peak memory of its process in bytes and
the fault as JSON.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import shutil
import sqlite3
import sys
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from tests.fuzz import bomb_files, bomb_models
from tests.fuzz.bomb import FROZEN, MIB, Bomb


def _zeros(place: Path, size: int, head: bytes = b"", tail: bytes = b"", unit: bytes = bytes(MIB)) -> None:
    """A .gz file of a head, of about so many bytes of repeated units, and of a tail."""
    with gzip.open(place, "wb", compresslevel=1) as file:
        file.write(head)
        for _ in range(size // len(unit)):
            file.write(unit)
        file.write(tail)


# Archives


def _member(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    made = tarfile.TarInfo(name)
    made.size, made.type = size, kind
    return made.tobuf(tarfile.GNU_FORMAT)


def _long_name(place: Path, bomb: bool) -> None:
    size = 256 * MIB if bomb else 512
    head = _member("././@LongLink", size, tarfile.GNUTYPE_LONGNAME)
    _zeros(place / "a", size, head, _member("a", 0) + bytes(1024), unit=b"x" * 512)


def _many_members(place: Path, bomb: bool) -> None:
    _zeros(place / "a", 512 * (500_000 if bomb else 10), tail=bytes(1024), unit=_member("a", 0))


def _sparse(place: Path, bomb: bool) -> None:
    """A sparse file in the form 1.0 of PAX, whose table is in its content."""
    count = 10_000_000
    table = f"{count}\n".encode() + b"0\n" * 2 * count if bomb else b""
    table += bytes(-len(table) % 512)
    made = tarfile.TarInfo("a")
    made.size = len(table)
    if bomb:
        made.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1"}
    (place / "a").write_bytes(gzip.compress(made.tobuf(tarfile.PAX_FORMAT) + table + bytes(1024), 1))


def _extract(place: Path) -> None:
    from posnmt.corpora.archive import extract, is_archive

    is_archive(place / "a")
    extract(place / "a", {"none": place / "none"}, optional=True)


# Databases


def _database(more: str) -> Callable[[Path, bool], None]:
    """The results of a study, to which a bomb adds what SQL says."""

    def make(place: Path, bomb: bool) -> None:
        from posnmt.study.database import FILE, write_tables

        write_tables(place / FILE, {"results": [{"recipe": "mine"}]})
        if bomb:
            with closing(sqlite3.connect(place / FILE)) as database:
                database.executescript(more)

    return make


ENDLESS = """
DROP TABLE results;
CREATE VIEW results AS WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)
SELECT printf('%d %1000s', i, 'a') AS value FROM n
"""
COMPUTED = "ALTER TABLE results ADD COLUMN more TEXT AS (hex(zeroblob(300000000)))"
LONG = "INSERT INTO results (recipe) VALUES (zeroblob(200000000))"


def _rows(place: Path) -> None:
    from posnmt.study.database import read

    read(place)


# Requests


def _chunks(place: Path, bomb: bool) -> None:
    """The body of a request, and the bytes of its chunks; as one chunk it is harmless."""
    (place / "body").write_bytes(bytes(range(256)) * 4096)
    (place / "chunk").write_text("2" if bomb else str(MIB))


def _body(place: Path) -> None:
    import asyncio

    from posnmt.deploy.server.bodies import Bodies
    from posnmt.deploy.server.metrics import Metrics
    from posnmt.deploy.server.settings import Settings

    content, size, read = (place / "body").read_bytes(), int((place / "chunk").read_text()), []
    starts = iter(range(0, len(content), size))

    async def receive() -> dict[str, Any]:
        start = next(starts)
        last = start + size >= len(content)
        return {"type": "http.request", "body": content[start : start + size], "more_body": not last}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        read.append((await receive())["body"])

    scope = {"type": "http", "path": "/translate", "method": "POST", "headers": []}
    bodies = Bodies(app, Settings(read_seconds=100.0), Metrics(), frozenset())
    asyncio.run(bodies(scope, receive, receive))
    assert read == [content]


# Text


def _short_lines(place: Path, bomb: bool) -> None:
    _zeros(place / "a.gz", 64 * MIB if bomb else 1000, unit=b"a\n" * 500)


def _lines(place: Path) -> None:
    from posnmt.data.corpus import Findings, TextFile, read_lines

    list(read_lines(TextFile("input", place / "a.gz"), Findings(stop=True)))


def _columns(place: Path, bomb: bool) -> None:
    from posnmt.study.packed import archived

    rows = b",\n" * (8 * MIB if bomb else 10)
    (place / "a").write_bytes(lzma.compress(archived({"a.csv": b"a,b\n" + rows}), preset=1))


def _cells(place: Path, bomb: bool) -> None:
    from posnmt.study.packed import archived

    names = ",".join(map(str, range(1_000_000 if bomb else 3)))
    (place / "a").write_bytes(lzma.compress(archived({"a.csv": f"{names}\n".encode()}), preset=1))


def _copy(place: Path) -> None:
    from posnmt.study.packed import separated, unpack

    separated(unpack(place / "a")["a.csv"], place / "a")


# XML and documents

UNIT = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>'


def _memory_of(unit: str, place: Path) -> None:
    (place / "a").write_bytes(gzip.compress(f'<tmx version="1.4"><header/><body>{unit}</body></tmx>'.encode()))


def _nested(place: Path, bomb: bool) -> None:
    levels = 200_000 if bomb else 3
    _memory_of(UNIT.format("<hi>" * levels + "a" + "</hi>" * levels), place)


def _elements(place: Path, bomb: bool) -> None:
    _memory_of("<a/>" * (4_000_000 if bomb else 3) + UNIT.format("a"), place)


def _segment(place: Path, bomb: bool) -> None:
    _memory_of(UNIT.format("a" * (200 * MIB if bomb else 3)), place)


def _comment(place: Path, bomb: bool) -> None:
    tail = f"--><tmx><body>{UNIT.format('a')}</body></tmx>".encode()
    _zeros(place / "a", 200 * MIB if bomb else 1000, b"<?xml version='1.0'?><!--", tail, b"a" * 1000)


def _tmx(place: Path) -> None:
    from posnmt.corpora.tmx import write_tmx

    write_tmx(place / "a", ("en", "de"), [place / "one", place / "two"], print)


NESTED = {
    "tmx": ("<tmx><body>" + UNIT.replace("{}", "%s") + "</body></tmx>", "<hi>", "</hi>"),
    "xliff": (
        "<xliff version='1.2'><file source-language='en' target-language='de' datatype='x' original='x'><body>"
        "<trans-unit id='1'><source>%s</source></trans-unit></body></file></xliff>",
        "<g id='1'>",
        "</g>",
    ),
    "html": ("<p>%s</p>", "<b>", "</b>"),
    "markdown": ("%s", "> ", ""),
    "json": ("%s", "[", "]"),
}
"""Format -> the frame of a document, and what opens and closes a level in it."""


def _nested_document(form: str) -> Callable[[Path, bool], None]:
    def make(place: Path, bomb: bool) -> None:
        frame, opens, closes = NESTED[form]
        levels = 20_000 if bomb else 3
        (place / "a").write_text(frame % (opens * levels + ('"a"' if form == "json" else "a") + closes * levels))

    return make


def _document(form: str) -> Callable[[Path], None]:
    def read_it(place: Path) -> None:
        from posnmt.deploy.documents.formats import read

        read(form, (place / "a").read_bytes(), place / "a", ("en", "de")).content()

    return read_it


# Settings and JSON


def _deep_setting(place: Path, bomb: bool) -> None:
    (place / "a").write_text(".".join("a" * (100_000 if bomb else 3)) + "=1")


def _setting(place: Path) -> None:
    from posnmt.config.yaml import override

    override({}, (place / "a").read_text())


def _deep_json(place: Path, bomb: bool) -> None:
    levels = 1_000_000 if bomb else 0
    (place / "a").write_text('{"a": ' + "[" * levels + "1" + "]" * levels + "}")


def _json(place: Path) -> None:
    from posnmt.base.files import load_json, read_json

    read_json(place / "a")
    load_json(place / "a", dict[str, int], "the file", "write it again")


# Models


def _wide_run(key: str, value: str) -> Callable[[Path, bool], None]:
    def make(place: Path, bomb: bool) -> None:
        shutil.copytree(FROZEN / "run", place / "run")
        if bomb:
            config = place / "run" / "config.yaml"
            lines = config.read_text().splitlines()
            changed = [f"{line.partition(':')[0]}: {value}" if line.strip().startswith(key) else line for line in lines]
            assert changed != lines
            config.write_text("\n".join(changed))

    return make


def _run(place: Path) -> None:
    from posnmt.run.run import Run

    Run.open(place / "run").model()


def _marian(**changes: int) -> Callable[[Path, bool], None]:
    def make(place: Path, bomb: bool) -> None:
        from tests.support.marian import write

        write(place / "model")
        path = place / "model" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **(changes if bomb else {})}))

    return make


def _import(place: Path) -> None:
    from posnmt.deploy.importing.marian import read

    read(place / "model", ("en", "de"))


def _compressed_checkpoint(place: Path, bomb: bool) -> None:
    """A checkpoint of PyTorch whose storage is compressed."""
    import torch

    torch.save({"a": torch.zeros((400 * MIB if bomb else 1024) // 4)}, place / "stored")
    method = zipfile.ZIP_DEFLATED if bomb else zipfile.ZIP_STORED
    with zipfile.ZipFile(place / "stored") as old, zipfile.ZipFile(place / "a", "w", method) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    (place / "stored").unlink()


def _checkpoint(place: Path) -> None:
    from posnmt.deploy.importing.checkpoint import tensors_of, unpickled

    for tensor in tensors_of(unpickled(place / "a"), place / "a").values():
        tensor.float().sum()


def _header(place: Path, bomb: bool) -> None:
    """A safetensors file whose header, or one of whose tensors, is said to be of any length."""
    tensor = {"dtype": "F32", "shape": [10**12 if bomb else 1], "data_offsets": [0, 4 * 10**12 if bomb else 4]}
    text = json.dumps({"a": tensor}).encode()
    (place / "a").write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))


def _tensors(place: Path) -> None:
    from posnmt.model.weights import read_tensors

    read_tensors(place / "a")


def _field(number: int, length: int) -> bytes:
    """The key and the length of a field of protobuf."""
    out = bytearray([number << 3 | 2])
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes([*out, length])


def _declared_piece(place: Path, bomb: bool) -> None:
    """A SentencePiece model, one of whose fields is said to have nearly 2 GiB."""
    model = (FROZEN / "run" / "text" / "source.model").read_bytes()
    (place / "a.model").write_bytes(model + (_field(1, 2**31 - 100) if bomb else b""))


def _trainer_spec(place: Path, bomb: bool) -> None:
    """A SentencePiece model that says it was trained with a vocabulary of 2^31 - 1, and a sample as large."""
    model = (FROZEN / "run" / "text" / "source.model").read_bytes()
    largest = b"\xff\xff\xff\xff\x07"
    spec = b"\x20" + largest + b"\x58" + largest  # vocab_size, input_sentence_size
    (place / "a.model").write_bytes(model + (_field(2, len(spec)) + spec if bomb else b""))


def _subwords(place: Path) -> None:
    from posnmt.data.subword import Subwords

    len(Subwords.load(place / "a.model"))


BOMBS = {
    "tar, a long name": Bomb(_long_name, _extract, 32),
    "tar, many files": Bomb(_many_members, _extract, 256),
    "tar, a table of a sparse file": Bomb(_sparse, _extract, 32),
    "database, a view": Bomb(_database(ENDLESS), _rows, 32),
    "database, a computed column": Bomb(_database(COMPUTED), _rows, 32),
    "database, a long text": Bomb(_database(LONG), _rows, 32),
    "request, small chunks": Bomb(_chunks, _body, 16),
    "lines in .gz": Bomb(_short_lines, _lines, 400),
    "copy, many rows": Bomb(_columns, _copy, 256),
    "copy, many columns": Bomb(_cells, _copy, 256),
    "tmx, nested": Bomb(_nested, _tmx, 64),
    "tmx, elements": Bomb(_elements, _tmx, 128),
    "tmx, a segment": Bomb(_segment, _tmx, 128),
    "tmx, a comment": Bomb(_comment, _tmx, 64),
    **{f"{form} document, nested": Bomb(_nested_document(form), _document(form), 256) for form in NESTED},
    "setting, nested": Bomb(_deep_setting, _setting, 32),
    "JSON, nested": Bomb(_deep_json, _json, 128),
    "run, d_model": Bomb(_wide_run("d_model:", "16384"), _run, 64),
    "run, feed_forward": Bomb(_wide_run("feed_forward:", "100000000"), _run, 64),
    "run, layers": Bomb(_wide_run("layers:", "1000"), _run, 128),
    "marian, vocab_size": Bomb(_marian(vocab_size=10**7), _import, 32),
    "marian, d_model": Bomb(_marian(d_model=2**40), _import, 32),
    "marian, layers": Bomb(_marian(encoder_layers=10**9), _import, 64),
    "torch, compressed": Bomb(_compressed_checkpoint, _checkpoint, 32),
    "safetensors, declared": Bomb(_header, _tensors, 32),
    "sentencepiece, declared": Bomb(_declared_piece, _subwords, 32),
    "sentencepiece, trainer spec": Bomb(_trainer_spec, _subwords, 32),
    **bomb_files.BOMBS,
    **bomb_models.BOMBS,
}


def main() -> None:
    """Read one file, and print the peak memory and the fault."""
    options = argparse.ArgumentParser()
    for name in ("name", "folder"):
        options.add_argument(name)
    given = options.parse_args()
    fault = None
    sys.stdout, out = io.StringIO(), sys.stdout
    try:
        BOMBS[given.name].read(Path(given.folder))
    except UserError as error:
        fault = error.lines
    # Not `ru_maxrss`: a process that is started inherits the one of its parent.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps({"peak": int(status["VmHWM"].split()[0]) << 10, "fault": fault}), file=out)


if __name__ == "__main__":
    main()
