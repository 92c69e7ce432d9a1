"""`prepare`: from text files to a store, once.

The corpus streams by twice: first every line is checked, a sample is drawn and truecasing is learned; then, with the
subwords learned, every pair is encoded and written or dropped with a reason. Memory holds the sample and one chunk. A
store is named by the hash of its inputs and settings, built beside its place and moved there whole.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import posnmt
from posnmt.config import Config
from posnmt.data.corpus import BYTE_ORDER_MARK, Findings, Pair, TextFile, corpus_files, read_pairs
from posnmt.data.store import FORMAT, Row, SplitWriter, Store
from posnmt.data.subword import UNK, Reservoir, Subwords
from posnmt.data.text import SideText, TextPipeline, text_hash
from posnmt.data.tokenise import TruecaseLearner, Words
from posnmt.errors import UserError, existing_file, raise_all
from posnmt.yaml_file import expand

if TYPE_CHECKING:
    from rich.table import Table

CHUNK = 10_000
TOLD_EVERY = 100_000
# Fixed, not train.seed: runs that differ in their seed share one vocabulary and one store.
SAMPLE_SEED = 1
REASONS = ("empty", "no subwords", "source too long", "target too long", "both too long")
_MEASURES = {"subwords": "subwords kept", "unknown": "of them unknown", "longest": "longest, in subwords"}

Report = Callable[[str], None]
Files = dict[str, dict[str, TextFile]]


def prepare(config: Config, out: Path | None = None, report: Report | None = None) -> Store:
    """The store of a configuration's corpora: opened if it exists, else built.

    Args:
        config: the configuration; its data and subword sections matter.
        out: folder of stores; default: `data.store`, else `$POSNMT_CACHE/stores`, else `~/.cache/posnmt/stores`.
        report: told what is going on, a line at a time.

    Raises:
        UserError: every fault of every input file, before anything is written.
    """
    say: Report = report or (lambda message: None)
    files = _files(config)
    root = _store_root(config, out)
    before = _signatures(files)
    say("hashing the input files")
    hashes = {file: _hash_file(file) for file in _all(files)}
    key = _key(config, files, hashes)
    folder = root / key[:16]
    if (folder / "manifest.json").exists():
        say(f"these inputs are prepared already: {folder}")
        return Store.open(folder)

    text, findings = _learn(config, files, say)
    try:
        root.mkdir(parents=True, exist_ok=True)
        building = root / f".{key[:16]}.{uuid.uuid4().hex[:8]}"
        building.mkdir()
        try:
            splits = _write(config, files, text, building, say)
            manifest = {
                "format": FORMAT,
                "key": key,
                "settings": _settings(config),
                "inputs": [_input(file, hashes[file], findings) for file in _all(files)],
                "vocabulary": {"source": text.source.size, "target": text.target.size, "shared": text.shared},
                "splits": splits,
                "versions": _versions(),
            }
            if _signatures(files) != before:
                raise UserError("an input file changed while it was being prepared", "data", "prepare again")
            text.save(building / "text")
            content = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
            (building / "manifest.json").write_text(content, encoding="utf-8", newline="\n")
            _move_into_place(building, folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    except OSError as error:
        todo = "make room or choose another folder with --out or data.store"
        raise UserError(f"the store cannot be written: {error.strerror or error}", root, todo) from error
    say(f"store written: {folder}")
    return Store.open(folder)


def table(store: Store) -> Table:
    """What was kept and what was dropped, with the reasons, a column a split."""
    from rich.table import Table

    splits = list(store.manifest["splits"].values())
    rows = [("read", [split["read"] for split in splits])]
    rows += [(f"dropped: {reason}", [split["dropped"][reason] for split in splits]) for reason in REASONS]
    rows += [("kept", [split["kept"] for split in splits])]
    rows += [("kept though over data.max_length", [split["kept_too_long"] for split in splits])]
    for side in ("source", "target"):
        for name in ("subwords", "unknown", "longest"):
            rows.append((f"{side}: {_MEASURES[name]}", [split[side][name] for split in splits]))
    result = Table("pairs", *store.splits, title=str(store.folder))
    for column in result.columns[1:]:
        column.justify = "right"
    for name, numbers in rows:
        result.add_row(name, *[f"{number:,}" for number in numbers], end_section=name == "kept")
    return result


def _files(config: Config) -> Files:
    """The input files of each split; every one that is missing, a folder, a pipe or of no bytes is told at once."""
    corpora = {"train": config.data.train} | ({"dev": config.data.dev} if config.data.dev else {})
    files: Files = {}
    faults: list[UserError] = []
    for name, corpus in corpora.items():
        try:
            files[name] = corpus_files(corpus, config.data.root, f"data.{name}")
        except UserError as fault:
            faults.append(fault)
    for file in _all(files):
        try:
            path = existing_file(file.path, file.role)
            if not path.is_file():
                raise UserError(f"{file.role} is not a regular file, but it is read twice", path, "save it to a file")
            if path.stat().st_size == 0:
                raise UserError(f"{file.role} is empty", path, "give a file with at least one line")
        except UserError as fault:
            faults.append(fault)
    raise_all(faults)
    return files


def _all(files: Files) -> list[TextFile]:
    """The files of all splits."""
    return [file for parts in files.values() for file in parts.values()]


def _signatures(files: Files) -> list[tuple[int, int]]:
    """Size and time of change of every file, to notice one that is written to meanwhile."""
    states = [file.path.stat() for file in _all(files)]
    return [(state.st_size, state.st_mtime_ns) for state in states]


def _store_root(config: Config, out: Path | None) -> Path:
    """The folder of stores."""
    if out is not None:
        root = Path(out)
    elif config.data.store is not None:
        root = Path(config.data.root) / expand(config.data.store, "data.store")
    else:
        root = Path(os.environ.get("POSNMT_CACHE") or Path.home() / ".cache" / "posnmt") / "stores"
    if root.exists() and not root.is_dir():
        raise UserError("the folder of stores is a file", root, "choose another with --out or data.store")
    return root


def _settings(config: Config) -> dict[str, Any]:
    """The settings that a store depends on."""
    names = ("source_language", "target_language", "tokenise", "truecase", "max_length")
    data = {name: getattr(config.data, name) for name in names} | {"accept": sorted(set(config.data.accept))}
    if config.subword.text is not None:
        return {"data": data, "subword": {"text": text_hash(_text_folder(config))}}
    return {"data": data, "subword": config.subword.model_dump(mode="json", exclude={"text"})}


def _text_folder(config: Config) -> Path:
    """The folder of `subword.text`, which is set."""
    return Path(config.data.root) / expand(str(config.subword.text), "subword.text")


def _given_text(config: Config) -> TextPipeline:
    """The pipeline of `subword.text`; what the config says of text must be true of it.

    Raises:
        UserError: names every setting that is not.
    """
    data, folder = config.data, _text_folder(config)
    text = TextPipeline.load(folder)
    wanted: dict[str, Any] = {"subword.shared": config.subword.shared}
    found: dict[str, Any] = {"subword.shared": text.shared}
    for side, language in (("source", data.source_language), ("target", data.target_language)):
        words: Words = getattr(text, side).words
        wanted |= {f"data.{side}_language": language, "data.tokenise": data.tokenise, "data.truecase": data.truecase}
        found |= {
            f"data.{side}_language": words.language,
            "data.tokenise": "moses" if words.tokenised else "none",
            "data.truecase": words.truecaser is not None,
        }
    raise_all(
        [
            UserError(
                f"{key} is {wanted[key]!r}, but subword.text was made with {found[key]!r}", folder, "make them equal"
            )
            for key in wanted
            if wanted[key] != found[key]
        ]
    )
    return text


def _hash_file(file: TextFile) -> str:
    """SHA-256 of a file's bytes as they lie on disk."""
    try:
        with file.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{file.role} cannot be read: {error.strerror}", file.path, "check its permissions") from None


def _key(config: Config, files: Files, hashes: dict[TextFile, str]) -> str:
    """SHA-256 of all that a store depends on: contents, not names, of the files."""
    inputs = [
        [split, part, file.compression, hashes[file]] for split, parts in files.items() for part, file in parts.items()
    ]
    whole = json.dumps([FORMAT, _settings(config), inputs], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()


def _learn(config: Config, files: Files, say: Report) -> tuple[TextPipeline, Findings]:
    """First pass: check every line of every file, then learn truecasing and subwords from the training text."""
    data, settings = config.data, config.subword
    findings = Findings(data.accept)
    sample: Reservoir[tuple[str, str]] = Reservoir(settings.sample, SAMPLE_SEED)
    given = None if settings.text is None else _given_text(config)
    sides = [Words(language, data.tokenise == "moses") for language in (data.source_language, data.target_language)]
    learners = [TruecaseLearner() for _ in sides] if data.truecase and given is None else []
    for pair in _told(read_pairs(files["train"], findings), "checking data.train", say):
        if pair.blank:
            continue
        sample.add((pair.source, pair.target))
        for words, learner, text in zip(sides, learners, (pair.source, pair.target), strict=False):
            learner.add(words.split(text))
    if "dev" in files:
        for _ in _told(read_pairs(files["dev"], findings), "checking data.dev", say):
            pass
    findings.raise_all()
    for file in _all(files):
        if findings.count(file, BYTE_ORDER_MARK):
            say(f"{file.path}: the byte order mark at its start is removed")
    if not sample.items:
        raise UserError("no training pair is left: every one has an empty side", "data.train", "check the files")

    if given is not None:
        say(f"taking tokenisation and subwords from {_text_folder(config)}")
        return given, findings
    for words, learner in zip(sides, learners, strict=False):
        words.truecaser = learner.truecaser()
    say(f"learning {settings.type} subwords from {len(sample.items):,} pairs")
    source = (sides[0].split(text) for text, _ in sample.items)
    target = (sides[1].split(text) for _, text in sample.items)
    if settings.shared:
        shared = Subwords.learn(itertools.chain(source, target), settings, "shared")
        return TextPipeline(SideText(sides[0], shared), SideText(sides[1], shared)), findings
    learned, faults = [], []
    for role, words, sentences in (("source", sides[0], source), ("target", sides[1], target)):
        try:
            learned.append(SideText(words, Subwords.learn(sentences, settings, role)))
        except UserError as fault:
            faults.append(fault)
    raise_all(faults)
    return TextPipeline(*learned), findings


def _told(pairs: Iterable[Pair], doing: str, say: Report) -> Iterator[Pair]:
    """The same pairs; says what is being done and how far it has come."""
    say(doing)
    for pair in pairs:
        yield pair
        if pair.line % TOLD_EVERY == 0:
            say(f"{doing}: {pair.line:,} pairs")


def _write(config: Config, files: Files, text: TextPipeline, folder: Path, say: Report) -> dict[str, Any]:
    """Second pass: encode every pair and write it, or drop it with a reason; what became of them, by split."""
    splits = {}
    with (folder / "dropped.tsv").open("w", encoding="utf-8", newline="\n") as dropped:
        dropped.write("split\tline\treason\tsource length\ttarget length\n")
        for name, parts in files.items():
            findings = Findings(config.data.accept, stop=True)
            pairs = _told(read_pairs(parts, findings), f"encoding data.{name}", say)
            account = _Account(name, config.data.max_length)
            with SplitWriter(folder / f"{name}.arrow") as writer:
                while chunk := list(itertools.islice(pairs, CHUNK)):
                    sources = text.source.encode([pair.source for pair in chunk])
                    targets = text.target.encode([pair.target for pair in chunk])
                    for pair, source, target in zip(chunk, sources, targets, strict=True):
                        reason = account.enter(pair, source, target)
                        if reason is not None:
                            dropped.write(f"{name}\t{pair.line}\t{reason}\t{len(source)}\t{len(target)}\n")
                            continue
                        texts = (pair.source, pair.target) if name == "dev" else (None, None)
                        writer.add(Row(pair.line, pair.document, source, target, *texts))
            splits[name] = account.manifest()
            if splits[name]["kept"] == 0:
                reasons = ", ".join(f"{number:,} {reason}" for reason, number in account.dropped.items())
                todo = f"raise data.max_length ({config.data.max_length}), or check the files"
                raise UserError(f"no {name} pair is left: dropped are {reasons}", f"data.{name}", todo)
    return splits


class _Account:
    """Decides on each pair of a split and keeps the books; length drops training pairs alone, for dev is to measure."""

    def __init__(self, split: str, max_length: int | None) -> None:
        self.filtered, self.max_length = split == "train", max_length
        self.dropped: Counter[str] = Counter()
        self.read = self.kept = self.kept_too_long = 0
        self.subwords, self.unknown, self.longest = [0, 0], [0, 0], [0, 0]

    def enter(self, pair: Pair, source: list[int], target: list[int]) -> str | None:
        """The reason why a pair is dropped, or None."""
        self.read += 1
        too_long = self._too_long(source, target)
        reason = "empty" if pair.blank else None if source and target else "no subwords"
        reason = reason or (too_long if self.filtered else None)
        if reason is not None:
            self.dropped[reason] += 1
            return reason
        self.kept += 1
        self.kept_too_long += too_long is not None
        for side, ids in enumerate((source, target)):
            self.subwords[side] += len(ids)
            self.unknown[side] += ids.count(UNK)
            self.longest[side] = max(self.longest[side], len(ids))
        return None

    def _too_long(self, source: list[int], target: list[int]) -> str | None:
        limit = self.max_length
        over = [limit is not None and len(ids) > limit for ids in (source, target)]
        if all(over):
            return "both too long"
        return "source too long" if over[0] else "target too long" if over[1] else None

    def manifest(self) -> dict[str, Any]:
        """The books as the manifest has them."""
        dropped = {reason: self.dropped[reason] for reason in REASONS}
        books = {"read": self.read, "kept": self.kept, "dropped": dropped, "kept_too_long": self.kept_too_long}
        for side, name in enumerate(("source", "target")):
            names = {"subwords": self.subwords, "unknown": self.unknown, "longest": self.longest}
            books[name] = {measure: values[side] for measure, values in names.items()}
        return books


def _input(file: TextFile, digest: str, findings: Findings) -> dict[str, Any]:
    """What the manifest says of an input file."""
    return {
        "role": file.role,
        "path": str(file.path),
        "sha256": digest,
        "lines": findings.lines[file],
        "empty_lines": findings.count(file, "empty"),
        "crlf_removed": findings.count(file, "crlf"),
        "byte_order_mark_removed": bool(findings.count(file, BYTE_ORDER_MARK)),
    }


def _versions() -> dict[str, str]:
    """The software that made a store."""
    packages = {name: version(name) for name in ("sentencepiece", "sacremoses", "pyarrow")}
    return {"posnmt": posnmt.__version__, "python": platform.python_version(), **packages}


def _move_into_place(building: Path, folder: Path) -> None:
    """Rename the finished store to its name, in one step."""
    try:
        building.replace(folder)
    except OSError:
        # Another process finished the same store first: its contents are the same.
        if not (folder / "manifest.json").exists():
            raise
