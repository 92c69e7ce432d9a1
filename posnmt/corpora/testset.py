"""sacreBLEU's test sets. `Downloads` fetches the files, and sacreBLEU converts them."""

from __future__ import annotations

import copy
import shutil
import tempfile
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, raise_all, refuse_unknown
from posnmt.base.extras import requires
from posnmt.corpora.archive import extract, is_archive
from posnmt.corpora.download import Checksum, Downloads, Say


def choose_pair(name: str, requested: str | None, languages: tuple[str, str]) -> str:
    """The language pair of a test set, such as `en-de`.

    Args:
        name: the test set.
        requested: the pair in the recipe; None: the pair of `languages`.
        languages: source and target.

    Raises:
        UserError: there is no such test set, it does not have the pair, or sacreBLEU is not installed.
    """
    requires("train")
    from sacrebleu.dataset import DATASETS

    refuse_unknown(name, DATASETS, "test set of sacreBLEU")
    pairs = DATASETS[name].langpairs
    pair = requested or "-".join(languages)
    if {*pair.split("-")} != set(languages):
        raise UserError(
            f"{name}: the pair is {pair}, but {'-'.join(languages)} is requested", "pair", "change one of them"
        )
    if pair not in pairs:
        back = "-".join(reversed(pair.split("-")))
        todo = f"it has {back}: write pair: {back}" if back in pairs else f"it has {', '.join(pairs)}"
        raise UserError(f"the test set {name} of sacreBLEU has no pair {pair}", None, todo)
    return pair


def write_test_set(name: str, pair: str, downloads: Downloads, folder: Path, say: Say) -> dict[str, Path]:
    """Fetch a test set and write its texts.

    The files are put where sacreBLEU expects them, and sacreBLEU converts SGML, XML, TSV or plain text to lines. If
    there are several references, the first is used. Document ids are written if the set has them.

    Args:
        name: the test set.
        pair: one of its language pairs.
        downloads: the cache.
        folder: folder of the new files.
        say: called with a line about the choice of a reference.

    Returns:
        `source`, `target` and possibly `documents` → file.

    Raises:
        UserError: a file cannot be fetched, or sacreBLEU cannot read it.
    """
    from sacrebleu.dataset import DATASETS

    data: Any = copy.copy(DATASETS[name])
    raw = Path(tempfile.mkdtemp(prefix="raw-", dir=folder))
    # sacreBLEU chooses the folder of a data set when the package is imported; here it is replaced.
    data._outdir, data._rawdir = str(folder), str(raw)
    data.maybe_download = lambda: None
    needed = {_raw_name(member) for member in _members(data.langpairs[pair])}
    _unpack(data, needed, raw, downloads)
    try:
        files = dict(zip(data.fieldnames(pair), map(Path, data.get_files(pair)), strict=True))
        references = list(map(Path, data.get_reference_files(pair)))
    except Exception as error:  # sacreBLEU's parsers may raise anything on unexpected files
        raise UserError(
            f"sacreBLEU cannot read {name} {pair}: {error}", None, "is this sacreBLEU up to date?"
        ) from error
    if not references:
        raise UserError(f"{name} {pair} has no reference", None, "choose another test set")
    if len(references) > 1:
        say(f"{name} {pair}: the first of {len(references)} references is used, {references[0].name}")
    texts = {"source": files["src"], "target": references[0]}
    ids = files.get("docid") or _document_ids(data, raw, pair, folder)
    if ids is not None and _clean_ids(ids):
        texts["documents"] = ids
    shutil.rmtree(raw)
    return texts


def _members(entry: Any) -> list[str]:
    """The names of a language pair's files in the tables of sacreBLEU."""
    return [entry["path"]] if isinstance(entry, dict) else list(entry)


def _raw_name(member: str) -> str:
    """The name of a file without the column number that TSV test sets have before it."""
    return member.partition(":")[2] if member[:1].isdigit() and ":" in member else member


def _unpack(data: Any, needed: set[str], raw: Path, downloads: Downloads) -> None:
    """Fetch the files of a test set and put the needed ones where sacreBLEU expects them."""
    places = {member: raw / member for member in needed}
    for path in places.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    missing, faults = set(needed), []
    for url, digest in zip(data.data, data.md5 or [None] * len(data.data), strict=True):
        try:
            file = downloads.get(url, Checksum("md5", digest) if digest else None)
        except UserError as fault:
            faults.append(fault)
            continue
        unpacked = data._get_tarball_filename(url)
        if unpacked in missing:
            shutil.copyfile(file, places[unpacked])
            missing.remove(unpacked)
        elif missing and is_archive(file):
            missing -= extract(file, {member: places[member] for member in missing}, optional=True)
    raise_all(faults)
    if missing:
        raise UserError(
            f"{data.name} has no {' and no '.join(sorted(missing))}", data.data[0], "is sacreBLEU up to date?"
        )


def _document_ids(data: Any, raw: Path, pair: str, folder: Path) -> Path | None:
    """Document ids in the files of an SGML set, such as that of 2008, if sacreBLEU does not list them."""
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

    if not isinstance(data, FakeSGMLDataset):
        return None
    ids = folder / "docid"
    data._convert_meta(str(raw / _members(data.langpairs[pair])[0]), "docid", str(ids))
    return ids


def _clean_ids(path: Path) -> bool:
    """Rewrite each id as one word, because only the first word is read; return whether every line has an id."""
    ids = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    path.write_text("".join(f"{'_'.join(identifier.split())}\n" for identifier in ids), encoding="utf-8", newline="\n")
    return all(identifier.strip() for identifier in ids)
