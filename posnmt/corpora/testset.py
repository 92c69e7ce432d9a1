"""sacreBLEU's test sets: fetched by `Downloads`, processed by sacreBLEU."""

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


def choose_pair(name: str, wanted: str | None, languages: tuple[str, str]) -> str:
    """The language pair of a test set, as `en-de`.

    Args:
        name: of the test set.
        wanted: the pair in the recipe, or None.
        languages: source and target.

    Raises:
        UserError: no such test set, it does not have the pair, or sacreBLEU is not installed.
    """
    requires("train")
    from sacrebleu.dataset import DATASETS

    refuse_unknown(name, DATASETS, "test set of sacreBLEU")
    pairs = DATASETS[name].langpairs
    pair = wanted or "-".join(languages)
    if {*pair.split("-")} != set(languages):
        raise UserError(
            f"{name}: the pair {pair} is not {'-'.join(languages)}, which is requested", "pair", "change one"
        )
    if pair not in pairs:
        back = "-".join(reversed(pair.split("-")))
        todo = f"it has {back}: write pair: {back}" if back in pairs else f"it has {', '.join(pairs)}"
        raise UserError(f"the test set {name} of sacreBLEU has no pair {pair}", None, todo)
    return pair


def write_test_set(name: str, pair: str, downloads: Downloads, folder: Path, say: Say) -> dict[str, Path]:
    """Fetch a test set and write its texts.

    sacreBLEU converts the SGML, XML, TSV or plain files to lines; the files are put where it expects them. Of several
    references the first is used. Document ids are written if the set has them.

    Args:
        name: of the test set.
        pair: one of its language pairs.
        downloads: the cache.
        folder: folder of the new files.
        say: called with a line about a choice.

    Returns:
        `source`, `target` and possibly `documents` → file.

    Raises:
        UserError: a file cannot be fetched, or sacreBLEU cannot read it.
    """
    from sacrebleu.dataset import DATASETS

    data: Any = copy.copy(DATASETS[name])
    raw = Path(tempfile.mkdtemp(prefix="raw-", dir=folder))
    # The folder of a data set of sacreBLEU is set when the package is imported; here it is replaced.
    data._outdir, data._rawdir = str(folder), str(raw)
    data.maybe_download = lambda: None
    needed = {_raw_name(member) for member in _members(data.langpairs[pair])}
    _unpack(data, needed, raw, downloads)
    try:
        files = dict(zip(data.fieldnames(pair), map(Path, data.get_files(pair)), strict=True))
        references = list(map(Path, data.get_reference_files(pair)))
    except Exception as error:  # its parsers may raise anything on unexpected files
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
    """The files of a language pair, by their names in the tables of sacreBLEU."""
    return [entry["path"]] if isinstance(entry, dict) else list(entry)


def _raw_name(member: str) -> str:
    """The name of the file without the column number that precedes it for TSV test sets."""
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
    """The document ids of an SGML set for which sacreBLEU does not list them, if its files have them (2008)."""
    from sacrebleu.dataset.fake_sgml import FakeSGMLDataset

    if not isinstance(data, FakeSGMLDataset):
        return None
    ids = folder / "docid"
    data._convert_meta(str(raw / _members(data.langpairs[pair])[0]), "docid", str(ids))
    return ids


def _clean_ids(path: Path) -> bool:
    """Rewrite each id as one word, since only the first word of a line is used; whether every line has an id."""
    ids = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    path.write_text("".join(f"{'_'.join(identifier.split())}\n" for identifier in ids), encoding="utf-8", newline="\n")
    return all(identifier.strip() for identifier in ids)
