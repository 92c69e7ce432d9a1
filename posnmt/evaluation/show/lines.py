"""The lines that models are measured on: a text of the user's, or the dev text of a run, without lines too long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from posnmt.base.errors import UserError, raise_all
from posnmt.data.corpus import Findings, TextFile, corpus_files, read_lines, read_pairs
from posnmt.data.store import Store
from posnmt.evaluation.analyse.seen import training_store
from posnmt.run.run import Run
from posnmt.translate.translator import Translator

MOST_SUBWORDS = 256
"""The longest lines that are used for means: the memory for attention grows with the square of the length."""

MOST_WORDS = 32
"""The longest lines that are drawn with their words."""


@dataclass(frozen=True)
class Lines:
    """Lines with their numbers in the text, and their translations.

    Attributes:
        origin: the text, in words.
        numbers: of each line, from 1.
        sources: the lines.
        targets: their translations; None: each model translates the lines itself.
        notes: what was left out, in sentences.
    """

    origin: str
    numbers: Sequence[int]
    sources: Sequence[str]
    targets: Sequence[str] | None
    notes: Sequence[str] = ()


def read(source: Path, target: Path | None) -> Lines:
    """The lines of files.

    Raises:
        UserError: faulty or empty text, or different numbers of lines.
    """
    findings = Findings(accept=("empty", "crlf"))
    files = [TextFile("source", source), *([TextFile("target", target)] if target else [])]
    texts = [list(read_lines(file, findings)) for file in files]
    if len({len(text) for text in texts}) > 1:
        findings.misaligned(files, [len(text) for text in texts])
    findings.raise_all()
    if not any(line.strip() for line in texts[0]):
        raise UserError("every line is empty", source, "name a text with at least one sentence")
    return Lines(str(source), range(1, len(texts[0]) + 1), texts[0], texts[1] if target else None)


def dev_of(run: Run, name: str) -> Lines:
    """The dev pairs of a run, from its store or from the files of its config.

    Args:
        run: the run.
        name: its name on the page.

    Raises:
        UserError: neither is on this machine.
    """
    folder = training_store(run)
    if folder is not None and "dev" in (store := Store.open(folder)).splits:
        split = store.split("dev")
        sources, targets = split.source_texts, split.target_texts
        return Lines(f"the dev text of {name}", range(1, len(sources) + 1), sources, targets)
    corpus = run.config.data.dev
    if corpus is not None:
        files = corpus_files(corpus, run.config.data.root, "data.dev")
        if all(file.path.exists() for file in files.values()):
            findings = Findings(accept=("empty", "crlf"))
            pairs = list(read_pairs(files, findings))
            findings.raise_all()
            return Lines(
                f"the dev text of {name}", range(1, len(pairs) + 1),
                [pair.source for pair in pairs], [pair.target for pair in pairs],
            )  # fmt: skip
    raise UserError("the dev text of this run is not on this machine", run.folder, "give some lines with --source FILE")


def chosen(lines: Lines, translators: Sequence[Translator], most: int) -> Lines:
    """The first `most` lines that are not empty, and that every model reads within `MOST_SUBWORDS`.

    Raises:
        UserError: there is none.
    """
    limits = []
    for translator in translators:
        model = translator.models[0]
        limits.append([MOST_SUBWORDS if each is None else min(MOST_SUBWORDS, each - 1)
                       for each in (model.longest_source, model.longest_target)])  # fmt: skip
    kept: list[int] = []
    empty = long = others = 0
    for place, source in enumerate(lines.sources):
        target = "" if lines.targets is None else lines.targets[place]
        if not source.strip():
            empty += 1
        elif len(kept) == most:
            others += 1
        elif any(
            len(translator.text.source.encode([source])[0]) > of_source
            or len(translator.text.target.encode([target])[0]) > of_target
            for translator, (of_source, of_target) in zip(translators, limits, strict=True)
        ):
            long += 1
        else:
            kept.append(place)
    least = min(limit for each in limits for limit in each)
    notes = [
        note
        for count, note in (
            (empty, f"{empty:,} empty lines were left out."),
            (long, f"{long:,} lines of more than {least:,} subwords were left out."),
            (
                others,
                f"The first {most:,} lines were taken; {others:,} others were not looked at (--lines takes more).",
            ),
        )
        if count
    ]
    if not kept:
        raise_all([UserError(f"all lines have more than {least:,} subwords", lines.origin, "give shorter lines")])
    targets = None if lines.targets is None else [lines.targets[place] for place in kept]
    numbers, sources = [lines.numbers[place] for place in kept], [lines.sources[place] for place in kept]
    return Lines(lines.origin, numbers, sources, targets, notes)
