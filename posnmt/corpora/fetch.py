"""Fetch public corpora into a cache, and extract them as aligned text files.

The cache has the fetched files (downloads/), the texts extracted from them (texts/, one folder with a manifest.json for
each corpus), and the checksums of first fetches (fetched.json). See docs/corpora.md.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from posnmt.base.errors import UserError, existing_file, raise_all
from posnmt.base.files import cache_folder, load_json, sha256_of
from posnmt.base.output import changing, creating
from posnmt.base.version import __version__
from posnmt.config.writing import base_code
from posnmt.corpora.archive import extract
from posnmt.corpora.catalogue import Entry, by_mtdata, entry
from posnmt.corpora.download import PAUSES, Checksum, Downloads, Say, Show, locked
from posnmt.corpora.licensed import write_licensed
from posnmt.corpora.mtdata import look_up
from posnmt.corpora.spec import Corpus, Indexed, Listed, LocalText, Remote, TestSet, spec
from posnmt.corpora.testset import choose_pair, write_test_set
from posnmt.corpora.text import write_text, write_tsv
from posnmt.corpora.tmx import write_tmx

__all__ = ["FetchedCorpus", "copy", "default_cache", "fetch", "spec"]

_MANIFEST = "manifest.json"
_PARTS = ("source", "target", "documents")


class _Text(TypedDict):
    """What the manifest of the cache records of one text."""

    sha256: str
    lines: int


class _Texts(TypedDict):
    """The texts of a corpus in the cache."""

    source: _Text
    target: _Text
    documents: NotRequired[_Text]


class _Facts(TypedDict):
    """The manifest of a corpus in the cache."""

    files: _Texts
    references: NotRequired[dict[str, _Text]]


@dataclass(frozen=True)
class FetchedCorpus:
    """A corpus on this machine.

    Attributes:
        source, target: aligned text, one sentence a line.
        document_ids: a document id for each line, for `posnmt condition join --documents`; None if the corpus has none.
        lines: the number of lines; None for the user's own files, which are not read here.
        licence, citation: those in the catalogue.
        references: the other references of a test set that has several.
    """

    source: Path
    target: Path
    document_ids: Path | None
    lines: int | None = None
    licence: str | None = None
    citation: str | None = None
    references: tuple[Path, ...] = ()


def default_cache() -> Path:
    """The cache of corpora for all studies of a user: `corpora` in the cache (`cache_folder`)."""
    return cache_folder() / "corpora"


def copy(fetched: FetchedCorpus, out: str, languages: tuple[str, str]) -> FetchedCorpus:
    """A corpus in new files: `out` and a language each, and `out`.ids with the document ids if there are any.

    Raises:
        UserError: one of the files exists. Nothing is written.
    """
    texts = {
        Path(f"{out}.{ending}"): text
        for ending, text in zip(
            (*languages, "ids"), (fetched.source, fetched.target, fetched.document_ids), strict=True
        )
        if text is not None
    }
    with changing(next(iter(texts)).parent, new=True) as changes:
        for path, text in texts.items():
            shutil.copyfile(text, changes.path(path.name))
    source, target, *ids = texts
    return replace(fetched, source=source, target=target, document_ids=ids[0] if ids else None)


def fetch(
    corpus: Corpus,
    cache: Path,
    languages: tuple[str, str],
    say: Say,
    show: Show | None = None,
    pauses: Sequence[float] = PAUSES,
    origin: Path | None = None,
) -> FetchedCorpus:
    """A corpus as aligned text files. It is fetched if it is not in the cache.

    Args:
        corpus: result of `spec`.
        cache: folder for all corpora.
        languages: source and target, as codes of two letters; a corpus in the other direction is reversed.
        say: called with a line about each stage.
        show: called with the progress of a download; default: lines to `say`.
        pauses: seconds before each further attempt of a download.
        origin: folder of the distribution of a corpus that needs a licence; None: it is in the cache, or is refused.

    Raises:
        UserError: the corpus cannot be fetched (the message states how to do so by hand), or its content is not as
            expected.
    """
    match corpus:
        case LocalText():
            return _local(corpus)
        case Listed():
            listed = entry(corpus.name)
            if listed.licensed is not None:
                fetched = _licensed(listed, corpus.name, cache, languages, say, origin)
            else:
                public = listed.fetchable(corpus.name)
                _refuse_origin(corpus.name, origin)
                fetched = fetch(public, cache, languages, say, show, pauses)
            if listed.pairs not in (None, fetched.lines):
                say(f"{corpus.name}: {fetched.lines:,} pairs, but the catalogue lists {listed.pairs:,}")
            return replace(fetched, licence=listed.licence, citation=listed.citation)
        case Indexed():
            name = by_mtdata(corpus.mtdata)
            resolved = Listed(name=name) if name is not None else look_up(corpus.mtdata, cache, say)
            return fetch(resolved, cache, languages, say, show, pauses)
        case TestSet():
            pair = choose_pair(corpus.sacrebleu, corpus.pair, languages)
            order = _order((pair.split("-")[0], pair.split("-")[1]), languages, corpus.label)
        case Remote():
            order = _order(corpus.languages or languages, languages, corpus.label)
    _refuse_origin(corpus.label, origin)
    downloads = Downloads(cache, say, show, pauses)

    def make(folder: Path) -> dict[str, Path]:
        if isinstance(corpus, TestSet):
            texts = write_test_set(corpus.sacrebleu, pair, downloads, folder, say)
        else:
            texts = _write_remote(corpus, languages, downloads, folder, say)
        downloads.record()
        return texts if order == (0, 1) else texts | {"source": texts["target"], "target": texts["source"]}

    key = {"corpus": corpus.model_dump(mode="json"), "languages": languages, "version": 2}
    return _cached_texts(cache, corpus.label, key, make, say)


def _order(has: tuple[str, str], requested: tuple[str, str], label: str) -> tuple[int, int]:
    """The indices of source and target among the two texts of a corpus."""
    own, pair = has, requested
    if set(own) != set(pair):  # without the regions
        own, pair = (base_code(has[0]), base_code(has[1])), (base_code(requested[0]), base_code(requested[1]))
    if set(own) != set(pair):
        what = f"{label} is {'-'.join(has)}, but {'-'.join(requested)} is requested"
        raise UserError(what, None, "name another corpus")
    return own.index(pair[0]), own.index(pair[1])


def _refuse_origin(name: str, origin: Path | None) -> None:
    if origin is not None:
        raise UserError(f"{name} is fetched, and not read from a folder", "--from", "leave --from out for it")


def _licensed(
    listed: Entry, name: str, cache: Path, languages: tuple[str, str], say: Say, origin: Path | None
) -> FetchedCorpus:
    """A corpus that needs a licence: from the cache, or from the folder of its distribution.

    The cache has it in the direction of the catalogue alone: its folder is named once for both.
    """
    assert listed.licensed is not None
    licensed, order = listed.licensed, _order(listed.pair, languages, name)

    def make(folder: Path) -> dict[str, Path]:
        if origin is None:
            raise listed.refused(name)
        return write_licensed(licensed, name, origin, folder, say)

    key = {"licensed": licensed.model_dump(mode="json"), "languages": listed.pair, "version": 1}
    cached = _cached_texts(cache, name, key, make, say)
    if order == (0, 1):
        return cached
    return replace(cached, source=cached.target, target=cached.source, references=())  # a reference has one source


def _local(corpus: LocalText) -> FetchedCorpus:
    """The user's own files. Their text is checked later, when it is read."""
    source, target = (existing_file(path, side) for path, side in zip(corpus.path, _PARTS, strict=False))
    documents = existing_file(corpus.documents, "documents") if corpus.documents else None
    return FetchedCorpus(source, target, documents)


def _write_remote(
    corpus: Remote, languages: tuple[str, str], downloads: Downloads, folder: Path, say: Say
) -> dict[str, Path]:
    """Fetch the files of a corpus and write its two texts in their original order."""
    files, missing = [], []
    for url, digest in zip(corpus.urls, corpus.checksums, strict=True):
        try:
            files.append(downloads.get(url, Checksum("sha256", digest) if digest else None))
        except UserError as fault:
            missing.append(fault)
    raise_all(missing)
    say(f"{corpus.label}: extracting its texts")
    if corpus.members:
        members = {member: folder / f"member-{number}" for number, member in enumerate(corpus.members)}
        extract(files[0], members)
        files = list(members.values())
    texts = {part: folder / f"made-{part}" for part in _PARTS[:2]}
    match corpus.kind:
        case "text":
            write_text(files, list(texts.values()))
        case "tsv":
            if corpus.documents is not None:
                texts["documents"] = folder / "made-documents"
            write_tsv(files[0], corpus.columns, corpus.documents, list(texts.values()), say)
        case "tmx":
            write_tmx(files[0], corpus.languages or languages, list(texts.values()), say)
    return texts


def _cached_texts(
    cache: Path, label: str, key: dict[str, Any], make: Callable[[Path], dict[str, Path]], say: Say
) -> FetchedCorpus:
    """The texts of a corpus in the cache. Their folder is created atomically if it does not exist."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    name = re.sub(r"[^\w.]+", "-", label.removeprefix("https://").removeprefix("http://")).strip("-")[-60:]
    folder = cache / "texts" / f"{name}-{'-'.join(key['languages'])}-{digest[:8]}"
    with locked(folder, say):
        if not folder.exists():
            with creating(folder) as ready:
                with tempfile.TemporaryDirectory(dir=ready) as work:
                    texts = make(Path(work))
                    for part, path in texts.items():
                        path.replace(ready / part)
                facts = {part: {"sha256": sha256_of(ready / part), "lines": _lines(ready / part)} for part in texts}
                _refuse_misaligned(label, facts)
                files = {part: fact for part, fact in facts.items() if part in _PARTS}
                further = {part: fact for part, fact in facts.items() if part not in _PARTS}
                manifest = {"posnmt": __version__, **key, "files": files, "references": further}
                (ready / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8", newline="\n")
            say(f"{label}: {facts['source']['lines']:,} pairs")
        known: Any = load_json(folder / _MANIFEST, _Facts, "its manifest", "remove its folder to create it again")
        facts, further = known["files"], known.get("references", {})
    for part, fact in {**facts, **further}.items():
        if sha256_of(existing_file(folder / part, part)) != fact["sha256"]:
            raise UserError(
                "this text has changed since it was written", folder / part, "remove its folder to create it again"
            )
    return FetchedCorpus(
        folder / "source",
        folder / "target",
        folder / "documents" if "documents" in facts else None,
        facts["source"]["lines"],
        references=tuple(folder / part for part in sorted(further)),
    )


def _refuse_misaligned(label: str, facts: dict[str, dict[str, Any]]) -> None:
    counts = {part: fact["lines"] for part, fact in facts.items()}
    if len(set(counts.values())) > 1:
        counted = ", ".join(f"{part} has {count:,}" for part, count in counts.items())
        raise UserError(f"{label}: different line counts: {counted}", None, "line n of each must belong together")
    if not counts["source"]:
        raise UserError(f"{label} has no lines", None, "inspect the file")


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)
