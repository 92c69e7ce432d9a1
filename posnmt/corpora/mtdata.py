"""Look up the locations of corpora in the index of mtdata (Gowda et al. 2021, mtdata 0.5).

Only the index is used, because mtdata's downloads are neither resumable nor verified. mtdata is run as a separate
program, because its package requires older versions of our dependencies. So it may be installed in an environment of
its own (`pipx install mtdata`).
"""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, nearest
from posnmt.base.programs import found, output_of
from posnmt.corpora.download import Say, locked
from posnmt.corpora.spec import Remote

INSTALL = "pip install 'posnmt[data]', or pipx install mtdata; or name the corpus by url (docs/corpora.md)"

_TWO_LETTERS = dict(
    re.findall(
        r"(\w+):(\w+)",
        """
        afr:af amh:am ara:ar aze:az bel:be ben:bn bos:bs bul:bg cat:ca ces:cs cym:cy dan:da deu:de ell:el eng:en est:et
        eus:eu fas:fa fin:fi fra:fr gle:ga glg:gl guj:gu hau:ha heb:he hin:hi hrv:hr hun:hu hye:hy ibo:ig ind:id isl:is
        ita:it jpn:ja kan:kn kat:ka kaz:kk khm:km kir:ky kor:ko lao:lo lav:lv lit:lt mal:ml mar:mr mkd:mk mlt:mt mon:mn
        msa:ms mya:my nep:ne nld:nl nno:nn nob:nb nor:no pan:pa pol:pl por:pt pus:ps ron:ro rus:ru sin:si slk:sk slv:sl
        som:so spa:es sqi:sq srp:sr swa:sw swe:sv tam:ta tel:te tgl:tl tha:th tur:tr ukr:uk urd:ur uzb:uz vie:vi xho:xh
        yor:yo zho:zh zul:zu
        """,
    )
)
"""mtdata's codes (ISO 639-3) → codes of two letters (ISO 639-1), for the most common languages."""


def look_up(identifier: str, cache: Path, say: Say) -> Remote:
    """The location of the files of a corpus according to mtdata.

    Args:
        identifier: such as `Statmt-europarl-10-deu-eng`.
        cache: folder; mtdata's index (150 MB) is in a subfolder of it.
        say: called when the index is built, which takes some 20 seconds the first time.

    Raises:
        UserError: mtdata is not installed or fails, the id is unknown, or the corpus has an unsupported format.
    """
    folder = cache / "mtdata"
    with locked(folder / "index", say):
        index = _index(identifier, folder, say)
    known: list[str] = []
    with index.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["did"] == identifier:
                return as_remote(entry)
            known.append(entry["did"])
    # Comparison with all 300,000 ids would take minutes; a misspelt id usually has the right beginning.
    near = nearest(identifier, [name for name in known if name[:6].lower() == identifier[:6].lower()])
    todo = f"did you mean {near!r}?" if near else "`mtdata list -id -l eng-deu` lists its corpora"
    raise UserError(f"mtdata has no corpus {identifier!r}", None, todo)


def as_remote(entry: dict[str, Any]) -> Remote:
    """The URLs, members and format in a line of mtdata's index.

    Raises:
        UserError: the format is not supported.
    """
    identifier = entry["did"]
    forms = {"tsv": "tsv", "tmx": "tmx", "txt": "text", "raw": "text"}
    ending = entry.get("in_ext") or entry.get("ext", "")
    form = next((forms[part] for part in ending.split(".") if part in forms), None)
    pair = identifier.split("-")[3:]
    if form is None or len(pair) != 2:
        todo = "for a test set, see sacrebleu in docs/corpora.md; else unpack it by hand and give its path"
        raise UserError(
            f"{identifier} is not a pair of texts in a supported format{f' ({ending})' if ending else ''}", None, todo
        )
    languages = [_TWO_LETTERS.get(code.split("_")[0], code.split("_")[0]) for code in pair]
    fields = (entry.get("meta") or {}).get("fields", {})
    tree = {
        "url": entry["url"],
        "members": entry.get("in_paths") or [],
        "form": form,
        "columns": entry.get("cols") or (0, 1),
        "documents": fields.get("doc_id") if form == "tsv" else None,
        "languages": languages,
    }
    try:
        return Remote.model_validate(tree)
    except ValueError:
        raise UserError(f"{identifier} has an unsupported arrangement of files", None, INSTALL) from None


def _index(identifier: str, folder: Path, say: Say) -> Path:
    """mtdata's index as JSON lines, built by mtdata if it does not exist."""
    if (program := found("mtdata")) is None:
        what = f"{identifier} is not in the catalogue, and mtdata, which may have it, is not installed"
        raise UserError(what, None, INSTALL)
    environment = os.environ | {"MTDATA": str(folder.resolve())}
    # In a folder where no file of the user can shadow its modules.
    run = partial(output_of, name="mtdata", todo=INSTALL, folder=folder, environment=environment)
    version = run([program, "--version"]).split()[1]
    index = folder / f"mtdata.index.{version}.jsonl"
    if not index.exists():
        say(f"{program}: building its index, which takes some 20 seconds the first time")
        run([program, "list", "-id", "-n", "none"])
    if not index.exists():
        raise UserError(f"mtdata {version} did not write {index.name}", folder, "install mtdata 0.5.1")
    return index
