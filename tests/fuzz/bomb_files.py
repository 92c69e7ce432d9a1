"""Bombs of compressed text, archives, settings, glossaries and requests: see `bombs.py`."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.fuzz.bomb import MIB, Bomb

# Compressed text


def _zeros(pack: Callable[[bytes], bytes], name: str) -> Callable[[Path, bool], None]:
    """Lines of two bytes, in as many streams as it takes."""

    def make(place: Path, bomb: bool) -> None:
        (place / name).write_bytes(pack(b"a\n" * (8 * MIB if bomb else 500)) * (12 if bomb else 1))

    return make


def _dictionary(place: Path, bomb: bool) -> None:
    """A .xz file whose header asks for a dictionary of 3 GB."""
    content = bytearray(lzma.compress(b"a line\n"))
    if bomb:
        header = slice(12, 12 + 4 * (content[12] + 1))
        content[16] = 39
        content[header.stop - 4 : header.stop] = zlib.crc32(content[header][:-4]).to_bytes(4, "little")
    (place / "a.xz").write_bytes(content)


def _streams(place: Path, bomb: bool) -> None:
    """A million files of .gz, one after another."""
    (place / "a.gz").write_bytes(gzip.compress(b"a\n", mtime=0) * (1_000_000 if bomb else 2))


def _lines(name: str) -> Callable[[Path], None]:
    def read_it(place: Path) -> None:
        from posnmt.data.corpus import Findings, TextFile, read_lines

        for _ in read_lines(TextFile("input", place / name), Findings(stop=True)):
            pass

    return read_it


def _unpacked(place: Path) -> None:
    from posnmt.corpora.archive import unpacked

    with unpacked(place / "a.bz2") as stream:
        for _ in stream:
            pass


# Archives


def _zip_of_zeros(place: Path, bomb: bool) -> None:
    with zipfile.ZipFile(place / "a", "w", zipfile.ZIP_DEFLATED) as box, box.open("a", "w") as file:
        for _ in range(400 if bomb else 1):
            file.write(bytes(MIB) if bomb else b"a\n")


def _zip_of_many(place: Path, bomb: bool) -> None:
    """A zip file of 400,000 names; all stand for the content of the first."""
    with zipfile.ZipFile(place / "a", "w") as box:
        box.writestr("a", b"a\n")
    if bomb:
        content = (place / "a").read_bytes()
        at = content.rindex(b"PK\1\2")
        end = content.rindex(b"PK\5\6")
        names = content[at:end] * 400_000
        tail = b"PK\6\6" + (44).to_bytes(8, "little") + bytes([45, 0, 45, 0]) + bytes(8)
        tail += 2 * (400_000).to_bytes(8, "little") + len(names).to_bytes(8, "little") + at.to_bytes(8, "little")
        tail += b"PK\6\7" + bytes(4) + (at + len(names)).to_bytes(8, "little") + bytes([1, 0, 0, 0])
        tail += b"PK\5\6" + bytes(4) + b"\xff" * 12 + bytes(2)
        (place / "a").write_bytes(content[:at] + names + tail)


def _extract(place: Path) -> None:
    from posnmt.corpora.archive import extract, is_archive

    is_archive(place / "a")
    extract(place / "a", {"a": place / "out"})


# Settings, recipes and glossaries


def _aliases(place: Path, bomb: bool) -> None:
    """A billion laughs: each line has ten times what the line before has."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 30 if bomb else 2)]
    (place / "a").write_text("\n".join(lines))


def _deep_yaml(place: Path, bomb: bool) -> None:
    levels = 1_000_000 if bomb else 3
    (place / "a").write_text("a: " + "[" * levels + "]" * levels)


def _many_keys(place: Path, bomb: bool) -> None:
    (place / "a").write_text("".join(f"{number}: \n" for number in range(400_000 if bomb else 3)))


def _yaml(place: Path) -> None:
    from posnmt.config.yaml import read_yaml

    read_yaml(place / "a", "config", "a mapping")


def _recipe(place: Path, bomb: bool) -> None:
    """A recipe of a billion trainings."""
    from tests.support.recipe_case import SMALL

    scale = {**SMALL["scales"]["smoke"], "seeds": 10**9 if bomb else 1}
    (place / "a.yaml").write_text(yaml.safe_dump({**SMALL, "scales": {"smoke": scale}}))


def _plan(place: Path) -> None:
    from posnmt.study.load import load
    from posnmt.study.plan import plan

    recipe = load(str(place / "a.yaml"))
    for scale in recipe.scales:
        plan(recipe, scale, place)


def _long_term(place: Path, bomb: bool) -> None:
    """A glossary whose only term has as many words as a line may have."""
    (place / "terms").write_text(("a " * (2 * MIB if bomb else 2)).strip() + "\tb\n")
    (place / "line").write_text("a " * 10_000)


def _terms(place: Path) -> None:
    from posnmt.translate.terms import Terms

    Terms.read(place / "terms").required((place / "line").read_text())


# JSON


def _json_of(content: Callable[[], bytes], harmless: bytes) -> Callable[[Path, bool], None]:
    return lambda place, bomb: (place / "a").write_bytes(content() if bomb else harmless) and None


def _vocabulary(place: Path) -> None:
    from posnmt.base.files import load_json

    load_json(place / "a", list[str], "vocabulary", "get it again")


def _packed_json(place: Path, bomb: bool) -> None:
    """A copy of a study whose facts have millions of values, which compress to little."""
    from posnmt.study.packed import archived

    versions = ",".join(f'"{number}":""' for number in range(4_000_000 if bomb else 1))
    step = '{"key":"k","finished":"f","seconds":1,"versions":{' + versions + "}}"
    files = {"runs/a/steps.json": f'{{"train":{step},"translations":{{}}}}'.encode()}
    (place / "runs.tar.xz").write_bytes(lzma.compress(archived(files), preset=1))
    (place / "published.json").write_text('{"format": 1}')


def _copy(place: Path) -> None:
    from posnmt.study.copied import Copy

    len(Copy(place).facts)


# Requests


def _request(kind: str, content: Callable[[bool], bytes]) -> Callable[[Path, bool], None]:
    def make(place: Path, bomb: bool) -> None:
        (place / "kind").write_text(kind)
        (place / "a").write_bytes(content(bomb))

    return make


def _fields(place: Path) -> None:
    """Read the fields of a request as the server does, its body in parts of 16 kB, as it arrives."""
    import asyncio

    from fastapi import Request

    from posnmt.base.errors import UserError
    from posnmt.deploy.server.fields import read
    from posnmt.deploy.server.own import Query
    from posnmt.deploy.server.refusal import Refusal

    body = (place / "a").read_bytes()
    parts = [body[at : at + (1 << 14)] for at in range(0, len(body), 1 << 14)]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    headers = [(b"content-type", (place / "kind").read_bytes())]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers, "app": None}
    try:
        asyncio.run(read(Request(scope, receive), Query))
    except Refusal as refusal:
        raise UserError(refusal.message) from None


BODY = MIB
"""Bytes of the largest body (`Settings.request_bytes`)."""
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
_PART = b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\na\r\n'

REQUESTS = {
    "nested JSON": _request(_JSON, lambda bomb: b'{"text":' + (b"[" * (BODY // 2 - 5) if bomb else b'"a"}')),
    "JSON of many faults": _request(
        _JSON, lambda bomb: b'{"text":[' + b"1," * (BODY // 2 - 9 if bomb else 0) + b'"a"]}'
    ),
    "JSON of many fields": _request(
        _JSON,
        lambda bomb: b"{" + b"".join(b'"%d":0,' % each for each in range(95_000 if bomb else 0)) + b'"text":"a"}',
    ),
    "many fields": _request(_FORM, lambda bomb: b"a=&" * (BODY // 3 if bomb else 0) + b"text=a"),
    "many parts": _request(
        "multipart/form-data; boundary=b", lambda bomb: _PART * (BODY // len(_PART) if bomb else 1) + b"--b--\r\n"
    ),
}

BOMBS = {
    "lines in .xz": Bomb(_zeros(lzma.compress, "a.xz"), _lines("a.xz"), 32),
    "lines in .bz2": Bomb(_zeros(bz2.compress, "a.bz2"), _unpacked, 32),
    "xz, a dictionary": Bomb(_dictionary, _lines("a.xz"), 32),
    "gz, a million files": Bomb(_streams, _lines("a.gz"), 64),
    "zip, a file of zeros": Bomb(_zip_of_zeros, _extract, 32),
    "zip, many files": Bomb(
        _zip_of_many, _extract, 256
    ),  # Python reads the list of names whole: 10 bytes of memory for one of the file
    "yaml, aliases": Bomb(_aliases, _yaml, 32),
    "yaml, nested": Bomb(_deep_yaml, _yaml, 64),
    "yaml, many keys": Bomb(_many_keys, _yaml, 32),
    "recipe, trainings": Bomb(_recipe, _plan, 32),
    "terms, a long one": Bomb(_long_term, _terms, 256),
    "JSON, many faults": Bomb(_json_of(lambda: b"[" + b"1," * 5_000_000 + b"1]", b'["a"]'), _vocabulary, 128),
    "copy, many values": Bomb(_packed_json, _copy, 256),
    **{f"request, {name}": Bomb(make, _fields, 64) for name, make in REQUESTS.items()},
}
