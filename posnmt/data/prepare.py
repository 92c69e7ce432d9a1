"""`prepare`: converts text files to a store.

The corpus is read twice: the first pass checks every line, draws a sample and learns truecasing; the second, with the
learned subwords, encodes every pair and writes it, or drops it with a reason. Only the sample and a few chunks are in
memory; a large corpus is processed on all cores. A store is named by the hash of its inputs and settings, built in a
temporary folder and renamed when complete.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.markup import escape
from rich.table import Table

from posnmt.base.errors import UserError, existing_file, raise_all
from posnmt.base.files import Digests, cache_folder, folder_digests, locked, sha256_of
from posnmt.base.output import creating
from posnmt.base.parallel.cores import cores
from posnmt.base.parallel.processes import ordered_map
from posnmt.base.version import FORMAT, __version__, version_of
from posnmt.config.schema import Config, Data, Pairs, SubwordSampling
from posnmt.config.segmenters import SEGMENTERS, requires
from posnmt.config.writing import base_code
from posnmt.config.yaml import expand
from posnmt.data.corpus import BYTE_ORDER_MARK, LINE_BITS, NOT_BOTH, Chunk, Findings, TextFile
from posnmt.data.encode import REASONS, Account, EncodeChunk
from posnmt.data.learn import Report, learn, text_folder, with_progress
from posnmt.data.listed import Files, Part, all_files, files_of, part_of, read_parts
from posnmt.data.pairing import pairs_of, read_lexicon, translations_of
from posnmt.data.restored import LEARNED, settings_of, shown
from posnmt.data.sampling import Sampler
from posnmt.data.store import CorpusCounts, Split, SplitWriter, Store, sampled_splits
from posnmt.data.suspicions import signs
from posnmt.data.text import SIDES, SideText, TextPipeline, text_hash

_DIGESTS = Digests()
"""Digests of input files. `posnmt train` prepares twice: to complete the configuration, and to train."""

_MEASURES = {
    "subwords": "subwords kept",
    "unknown": "of them unknown",
    "longest": "longest, in subwords",
    "compared": "lines decoded again",
    "changed": "of them with other characters",
    "blanks_changed": "of them with other spaces",
}

COMPARED = 100_000
"""The approximate number of lines of a split that are decoded again and compared; all lines of a smaller split."""


class Inputs(NamedTuple):
    """The input files before they are read.

    Attributes:
        files: the files of each split.
        hashes: SHA-256 of the bytes of each.
        signatures: result of `_signatures`.
    """

    files: Files
    hashes: dict[TextFile, str]
    signatures: list[tuple[int, int]]


def prepare(
    config: Config, out: Path | None = None, report: Report | None = None, processes: int | None = None,
    check: Callable[[str], None] | None = None,
) -> Store:  # fmt: skip
    """The store of a configuration's corpora: opened if it exists, else built.

    Args:
        config: its sections `data` and `subword` are used.
        out: folder of stores; default: `data.store`, else `stores` in the cache (`cache_folder`).
        report: called with a line about each stage.
        processes: for a large corpus; default: one for each core. The store does not depend on their number.
        check: called with the key of the store before it is opened or built; may raise.

    Raises:
        UserError: a segmenter is not installed; or all faults of all input files, before anything is written.
    """
    say: Report = report or (lambda message: None)
    for tokeniser in config.data.tokenisers:
        requires(tokeniser)
    files = input_files(config.data)
    root = _store_root(config.data, out)
    signatures = _signatures(files)
    hashes = _hashes(files, say)
    inputs, key = Inputs(files, hashes, signatures), _key(config, files, hashes)
    if check is not None:
        check(key)
    folder = root / key[:16]
    if (folder / "manifest.json").exists():
        say(f"these inputs are prepared already: {folder}")
        store = Store.open(folder)
        if differing := _other_versions(config.data.tokenisers, store):
            todo = "to use what is installed, delete the folder and prepare again"
            say(f"warning: it was prepared with {differing}; {todo}")
        return store

    try:
        with locked(root / f".{key[:16]}.lock", lambda: say("another process is preparing these inputs; waiting")):
            if not (folder / "manifest.json").exists():
                _make(config, inputs, key, folder, processes or cores(), say)
    except OSError as error:
        todo = "free disk space, or choose another folder with --out or data.store"
        raise UserError(f"the store cannot be written: {error.strerror or error}", root, todo) from error
    return Store.open(folder)


def _make(config: Config, inputs: Inputs, key: str, folder: Path, processes: int, say: Report) -> None:
    """Prepare a store in a temporary folder, and rename it when it is complete."""
    files = inputs.files
    text, findings, held_out = learn(config, files, processes, say)
    samplers = _samplers(config.subword.sampling, text)
    with creating(folder) as building:
        sources = {name: partial(read_parts, parts) for name, parts in files.items()}
        if held_out:
            sources = {name: partial(_chunks, files["train"], held_out, name == "dev") for name in ("train", "dev")}
        pairs = {name: sum(findings.lines[part.first] for part in parts) for name, parts in files.items()}
        every = -(-pairs["train"] // COMPARED)
        if held_out:
            pairs = {"train": pairs["train"] - len(held_out), "dev": len(held_out)}
        splits, more = _write(config, sources, text, samplers, building, processes, pairs, every, say)
        if config.data.corpora:
            more["corpora"] = _corpora(files["train"], findings, more["corpora"], held_out)
        if config.subword.pairs is not None and text.pairs is None:
            text = _with_pairs(config, config.subword.pairs, text, Split(building / "train.arrow"), say)
        manifest = {
            "format": FORMAT,
            "key": key,
            "settings": _settings(config),
            "inputs": [_input(file, inputs.hashes[file], findings) for file in all_files(files)],
            "vocabulary": {"source": text.source.size, "target": text.target.size, "shared": text.shared},
            "splits": splits,
            "signs": signs({name: Split(building / f"{name}.arrow") for name in splits}, files, text),
            "versions": _versions(config.data.tokenisers),
        } | more
        if _signatures(files) != inputs.signatures:
            raise UserError("an input file changed while it was being prepared", "data", "prepare again")
        text.save(building / "text")
        manifest["files"] = folder_digests(building)
        content = json.dumps(manifest, ensure_ascii=False, indent=2) + "\n"
        (building / "manifest.json").write_text(content, encoding="utf-8", newline="\n")
    say(f"store written: {folder}")


def dropped(store: Store) -> list[str]:
    """A sentence for each split of which pairs were dropped, with the reasons."""
    sentences = []
    for name, split in store.manifest["splits"].items():
        reasons = [f"{number:,} {reason}" for reason, number in split["dropped"].items() if number]
        if reasons:
            lost = split["read"] - split["kept"]
            sentences.append(
                f"{name}: {lost:,} of {split['read']:,} pairs dropped ({', '.join(reasons)});"
                f" {store.folder / 'dropped.tsv'} lists them"
            )
    return sentences


def changed(store: Store) -> list[str]:
    """A sentence for each side of the training text that decoding does not restore, with examples."""
    sentences = []
    for side, means in zip(SIDES, ("note: the model does not read", "warning: translations cannot have"), strict=True):
        counts = store.manifest["splits"]["train"][side]
        if counts["changed"]:
            pairs = [(before, after) for before, after, _ in counts.get("replaced", [])]
            examples = ", ".join(f"{shown(before)} becomes {shown(after)}" for before, after in pairs)
            text: SideText = getattr(store.text, side)
            settings = dict.fromkeys(name for pair in pairs for name in settings_of(text, *pair))
            if {*LEARNED} & {*settings} and "text" in (taken := store.manifest["settings"]["subword"]):
                others = [name for name in settings if name not in LEARNED]
                settings = dict.fromkeys([LEARNED[0] if "pieces" in taken else "subword.pieces: extended", *others])
            sentences.append(
                f"{means} some characters of the text: of {counts['compared']:,} {side} lines {counts['changed']:,}"
                f" are others once they are encoded and decoded ({examples}); see {', '.join(settings)}"
            )
    return sentences


def sampled(store: Store) -> list[str]:
    """One sentence about the random segmentations in a store: their number, length and size; empty without them."""
    if (counts := store.manifest.get("sampling")) is None:
        return []
    number, usual = counts["segmentations"], store.manifest["splits"]["train"]
    longer = " and ".join(
        f"{counts[side]['subwords'] / number / usual[side]['subwords']:.2f} times the {side} subwords" for side in SIDES
    )
    size = sum((store.folder / f"{name}.arrow").stat().st_size for name in sampled_splits(number))
    sentence = f"train: {number:,} random segmentations of each pair, with {longer}, {size / 2**20:,.1f} MiB"
    if replaced := sum(counts[side]["replaced"] for side in SIDES):
        of = f"{replaced:,} of {2 * number * usual['kept']:,}"
        sentence += f"; {of} were longer than data.max_length, and are replaced by the usual segmentation"
    return [sentence]


def table(store: Store) -> Table:
    """The numbers of pairs kept and dropped, with reasons, in a column for each split."""
    splits = list(store.manifest["splits"].values())
    rows = [("read", [split["read"] for split in splits])]
    rows += [(f"dropped: {reason}", [split["dropped"].get(reason, 0) for split in splits]) for reason in REASONS]
    rows += [("kept", [split["kept"] for split in splits])]
    rows += [("kept though over data.max_length", [split["kept_too_long"] for split in splits])]
    for side in ("source", "target"):
        for name, measure in _MEASURES.items():
            rows.append((f"{side}: {measure}", [split[side][name] for split in splits]))
    result = Table("pairs", *store.splits, title=str(store.folder))
    for column in result.columns[1:]:
        column.justify = "right"
    for name, numbers in rows:
        result.add_row(name, *[f"{number:,}" for number in numbers], end_section=name == "kept")
    return result


def corpora_table(store: Store, data: Data) -> Table | None:
    """The pairs of each corpus of a list: read, dropped by reason, kept, and in a pass; None without a list."""
    if not data.corpora:
        return None
    counts = store.manifest["corpora"]
    reasons = [reason for reason in (*REASONS, NOT_BOTH) if any(each["dropped"].get(reason) for each in counts)]
    dropped = [f"dropped: {reason}" for reason in reasons]
    result = Table("corpus", "read", "held out", *dropped, "kept", "weight", "in a pass", "used", title="data.train")
    for column in result.columns[1:-1]:
        column.justify = "right"
    for number, (section, each) in enumerate(zip(data.corpora, counts, strict=True)):
        seen = f"{each['kept'] * section.weight:,.10g}"
        used = "always" if section.whole else f"from {section.begin:g} until {section.until:g}"
        mark = f" {section.mark}" if section.mark else ""
        name = section.file or section.tsv or section.source
        numbers = [
            each["read"],
            each["held_out"],
            *(each["dropped"].get(reason, 0) for reason in reasons),
            each["kept"],
        ]
        row = [
            escape(f"{number}: {name}{mark}"),
            *(f"{count:,}" for count in numbers),
            f"{section.weight:g}",
            seen,
            used,
        ]
        result.add_row(*row)
    return result


def input_files(data: Data) -> Files:
    """The input files of each split; reports all that are missing, folders, pipes or empty together."""
    files: Files = {}
    faults: list[UserError] = []
    for name, corpora in files_of(data).items():
        for number, corpus in enumerate(corpora):
            role = f"data.{name}.{number}" if name == "train" and data.corpora else f"data.{name}"
            try:
                files.setdefault(name, []).append(part_of(corpus, data, role))
            except UserError as fault:
                faults.append(fault)
    for file in all_files(files):
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


def _signatures(files: Files) -> list[tuple[int, int]]:
    """Size and modification time of every file, to detect a change during preparation."""
    states = [file.path.stat() for file in all_files(files)]
    return [(state.st_size, state.st_mtime_ns) for state in states]


def store_folder(data: Data, key: str) -> Path:
    """The folder of the store with a key, whether it exists or not."""
    return _store_root(data, None) / key[:16]


def _store_root(data: Data, out: Path | None) -> Path:
    if out is not None:
        root = Path(out)
    elif data.store is not None:
        root = Path(data.root) / expand(data.store, "data.store")
    else:
        root = cache_folder() / "stores"
    if root.exists() and not root.is_dir():
        raise UserError("the folder of stores is a file", root, "choose another with --out or data.store")
    return root


def _settings(config: Config) -> dict[str, Any]:
    """The settings that a store depends on."""
    names = ("source_language", "target_language", "tokenise", "truecase", "max_length")
    data = config.data.model_dump(mode="json", include=set(names)) | {"accept": sorted(set(config.data.accept))}
    if config.data.held_out is not None:
        data["held_out"] = config.data.held_out
    languages = config.data.source_language, config.data.target_language
    rules = {
        side: base_code(language)
        for side, language, tokeniser in zip(SIDES, languages, config.data.tokenisers, strict=True)
        if tokeniser == "moses" and base_code(language) != language
    }
    if rules:
        data["rules"] = rules
    more: dict[str, Any] = {}
    if config.subword.pairs is not None:
        lexicon = _lexicon(config, config.subword.pairs)
        more["pairs"] = {
            "lexicon": None if lexicon is None else sha256_of(existing_file(lexicon, "lexicon")),
            "threshold": config.subword.pairs.threshold,
        }
    if config.subword.sampling is not None:
        more["sampling"] = config.subword.sampling.model_dump(mode="json")
    if config.subword.text is not None:
        subword: dict[str, Any] = {"text": text_hash(text_folder(config))}
        if config.subword.pieces == "extended":
            subword |= config.subword.model_dump(mode="json", include={"pieces", "character_coverage", "sample"})
    else:
        subword = config.subword.model_dump(mode="json", exclude={"text", "pieces", "pairs", "sampling"})
    return {"data": data, "subword": subword | more}


def _samplers(settings: SubwordSampling | None, text: TextPipeline) -> tuple[Sampler, Sampler] | None:
    """The samplers of random segmentations of source and target; None if `subword.sampling` is not set."""
    if settings is None:
        return None
    marks = text.source.marks
    return Sampler(text.source.subwords, settings, marks), Sampler(text.target.subwords, settings, marks)


def _lexicon(config: Config, pairs: Pairs) -> Path | None:
    return None if pairs.lexicon is None else Path(config.data.root) / expand(pairs.lexicon, "subword.pairs.lexicon")


def _with_pairs(config: Config, pairs: Pairs, text: TextPipeline, train: Split, say: Report) -> TextPipeline:
    """The text pipeline with the pairs of its subwords."""
    lexicon = _lexicon(config, pairs)
    if lexicon is None:
        say("aligning subwords with eflomal")
        translations = translations_of(train.pair(index) for index in range(len(train)))
    else:
        translations, unknown = read_lexicon(lexicon, text)
        if unknown:
            say(f"{lexicon}: {unknown:,} entries are not of two subwords of these vocabularies, and pair nothing")
    paired = pairs_of(text, train, translations, pairs.threshold)
    numbers = ", ".join(f"{number:,} {name}" for name, number in paired.count().items())
    say(f"pairs of subwords: {numbers}")
    return replace(text, pairs=paired)


def _hashes(files: Files, say: Report) -> dict[TextFile, str]:
    """SHA-256 of the bytes of each file."""
    if any(file.path not in _DIGESTS for file in all_files(files)):
        say("hashing the input files")
    return {file: _hash_file(file) for file in all_files(files)}


def _hash_file(file: TextFile) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal."""
    try:
        return _DIGESTS[file.path]
    except OSError as error:
        raise UserError(f"{file.role} cannot be read: {error.strerror}", file.path, "check its permissions") from None


def _key(config: Config, files: Files, hashes: dict[TextFile, str]) -> str:
    """SHA-256 of everything that a store depends on: the contents of the files, not their names."""
    inputs = [
        [*_place(config.data, split, number, part), role, file.compression, hashes[file]]
        for split, parts in files.items()
        for number, part in enumerate(parts)
        for role, file in part.files.items()
    ]
    content = json.dumps([FORMAT, _settings(config), inputs], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _place(data: Data, split: str, number: int, part: Part) -> list[Any]:
    """The place of a corpus in the key of a store; in a list, how it is read is a part of it."""
    return [split, number, *part.content] if split == "train" and data.corpora else [split]


def _corpora(
    parts: Sequence[Part], findings: Findings, kept: Mapping[int, Account], held_out: frozenset[int]
) -> list[CorpusCounts]:
    """The counts of each corpus of a list.

    Args:
        kept: the account of each corpus in `train`, by its number.
        held_out: the numbers of pairs that are in dev instead.
    """
    counts = []
    for number, part in enumerate(parts):
        account, file = kept[number], part.first
        dropped = {reason: account.dropped[reason] for reason in REASONS}
        if lacking := findings.count(file, NOT_BOTH):
            dropped[NOT_BOTH] = lacking
        held = sum(each >> LINE_BITS == number for each in held_out)
        counts.append(CorpusCounts(read=findings.lines[file], held_out=held, dropped=dropped, kept=account.kept))
    return counts


def _chunks(parts: Sequence[Part], lines: frozenset[int], chosen: bool, findings: Findings) -> Iterator[Chunk]:
    """The pairs of corpora with some numbers if `chosen`, else all others."""
    for chunk in read_parts(parts, findings):
        rows = [row for row, line in enumerate(chunk.lines) if (line in lines) == chosen]
        if rows:
            documents = chunk.documents and [chunk.documents[row] for row in rows]
            sources, targets = ([side[row] for row in rows] for side in (chunk.sources, chunk.targets))
            yield Chunk([chunk.lines[row] for row in rows], sources, targets, documents, chunk.mark)


def _write(
    config: Config, sources: Mapping[str, Callable[[Findings], Iterator[Chunk]]], text: TextPipeline,
    samplers: tuple[Sampler, Sampler] | None, folder: Path, processes: int, pairs: dict[str, int], every: int,
    say: Report,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """Second pass: encode every pair and write it, or drop it with a reason.

    Args:
        pairs: how many each split has, kept or not.
        every: one line of so many is decoded again.

    Returns:
        The counts of each split; `sampling` and the counts of random segmentations, if there are some; `corpora` and
        the account of each corpus of a list in `train`.
    """
    splits: dict[str, Any] = {}
    more: dict[str, Any] = {}
    listed = len(config.data.corpora)
    column = "corpus\t" if listed else ""
    with (folder / "dropped.tsv").open("w", encoding="utf-8", newline="\n") as dropped:
        dropped.write(f"split\t{column}line\treason\tsource length\ttarget length\n")
        for name, read in sources.items():
            found = Findings(config.data.accept, stop=True)
            chunks = with_progress(read(found), f"encoding data.{name}", say, total=pairs[name])
            account = Account()
            accounts = {number: Account() for number in range(listed if name == "train" else 0)}
            drawing = samplers if name == "train" else None
            encode = EncodeChunk(text, name, config.data.max_length, drawing, every)
            names = [name, *(sampled_splits(drawing[0].settings.segmentations) if drawing else ())]
            with ExitStack() as stack:
                writers = [stack.enter_context(SplitWriter(folder / f"{each}.arrow")) for each in names]
                encoded = stack.enter_context(closing(ordered_map(encode, chunks, processes)))
                for part in encoded:
                    for writer, rows in zip(writers, (part.rows, *part.sampled), strict=True):
                        writer.add(rows)
                    account.add(part.account)
                    if part.corpus in accounts:
                        accounts[part.corpus].add(part.account)
                    for number, *why in part.dropped:
                        place = [*([part.corpus] if listed else []), number & ((1 << LINE_BITS) - 1)]
                        dropped.write("\t".join(map(str, (name, *place, *why))) + "\n")
            splits[name] = account.manifest()
            if accounts:
                more["corpora"] = accounts
            if drawing:
                more["sampling"] = {"segmentations": len(names) - 1, **account.sampling()}
            if account.kept == 0:
                raise _nothing_left(name, account, config.data)
            faults = [_nothing_left(f"{name}.{each}", of, config.data) for each, of in accounts.items() if not of.kept]
            raise_all(faults)
    return splits, more


def _nothing_left(name: str, account: Account, data: Data) -> UserError:
    """The fault of a split that has no pair."""
    dropped = ", ".join(f"{number:,} {reason}" for reason, number in account.dropped.items() if number)
    if not dropped:
        what, todo = f"all {data.held_out or 0:,} pairs are held out, and none is left to train on", "hold out fewer"
        return UserError(what, "data.held_out", todo)
    too_long = sum(account.dropped[reason] for reason in REASONS if reason.endswith("too long"))
    limit = f"raise data.max_length ({data.max_length}), or " if too_long else ""
    return UserError(f"no {name} pair is left: dropped are {dropped}", f"data.{name}", f"{limit}check the files")


def _input(file: TextFile, digest: str, findings: Findings) -> dict[str, Any]:
    """The manifest's entry of an input file."""
    return {
        "role": file.role,
        "path": str(file.path),
        "sha256": digest,
        "lines": findings.lines[file],
        "empty_lines": findings.count(file, "empty"),
        "crlf_removed": findings.count(file, "crlf"),
        "byte_order_mark_removed": bool(findings.count(file, BYTE_ORDER_MARK)),
    }


def _other_versions(tokenisers: Sequence[str], store: Store) -> str:
    """The packages that a store's subwords may depend on and that are installed in another version now."""
    recorded = store.manifest["versions"]
    beside = ("posnmt", "python", "pyarrow")
    installed = {name: now for name, now in _versions(tokenisers).items() if name not in beside}
    return ", ".join(
        f"{name} {recorded[name]} ({now} is installed)"
        for name, now in installed.items()
        if recorded.get(name, now) != now
    )


def _versions(tokenisers: Sequence[str]) -> dict[str, str]:
    """Versions of the software that made a store, including segmenters that were used."""
    segmenters = [SEGMENTERS[name].packages for name in tokenisers if name in SEGMENTERS]
    names = ("sentencepiece", "sacremoses", "pyarrow", *itertools.chain.from_iterable(segmenters))
    packages = {name: version_of(name) for name in names}
    return {"posnmt": __version__, "python": platform.python_version(), **packages}
