"""The completeness that the settings of an analysis ask for: their faults, and the files that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from posnmt.base.errors import UserError, quoted, raise_all
from posnmt.config.writing import EXAMPLES, writing
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.evaluation.analyse.completeness.labels import OPTION, Labels, read_labels
from posnmt.evaluation.analyse.completeness.measure import Completeness, completeness
from posnmt.evaluation.analyse.completeness.realign import realigned
from posnmt.evaluation.analyse.inputs import Text, input_record
from posnmt.evaluation.analyse.sentence_scores import label
from posnmt.evaluation.analyse.settings import Settings


def parse_judged(pairs: Sequence[str]) -> dict[str, Path]:
    """Parse `NAME=FILE` options: name of an output → its file of labels.

    Raises:
        UserError: an option has another form, or an output has two files; all at once.
    """
    judged: dict[str, Path] = {}
    faults = []
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not (name.strip() and path):
            faults.append(UserError(f"labels are written NAME=FILE; got {quoted(pair)}", OPTION))
        elif name.strip() in judged:
            faults.append(UserError(f"{quoted(name.strip())} has two files of labels", OPTION))
        else:
            judged[name.strip()] = Path(path)
    raise_all(faults)
    return judged


def measured_completeness(
    texts: Sequence[Text], settings: Settings, shown: int
) -> tuple[Completeness, list[dict[str, Any]]]:
    """The completeness of outputs, and the records of the files that it read.

    Args:
        texts: source, first reference, and outputs; those of swapped sources last.
        shown: how many are no outputs of swapped sources.

    Raises:
        UserError: a file has faults.
    """
    records = []

    def labels(name: str, sizes: np.ndarray) -> Labels | None:
        if name not in settings.judged:
            return None
        path = settings.judged[name]
        read = read_labels(path, sizes)
        records.append(input_record(TextFile("labels", path), lines=len(read.places), system=name))
        return read

    further = list(_pairs(settings.parallel, records)) if settings.parallel else []
    source, target = (writing(text.lines[:EXAMPLES]).code for text in texts[:2])
    complete = completeness(
        texts[0].lines, texts[1].lines, {label(text): text.lines for text in texts[2:]},
        (settings.source_language or source, settings.target_language or target), further, labels, shown,
    )  # fmt: skip
    return complete, records


def cut_paragraphs(texts: Sequence[Text], settings: Settings) -> tuple[list[Text], list[int]]:
    """Texts of paragraphs with a line for each sentence of the source, and the number of each in its paragraph, from 0.

    Args:
        texts: source, references and outputs.
    """
    source, target = (writing(text.lines[:EXAMPLES]).code for text in texts[:2])
    languages = settings.source_language or source, settings.target_language or target
    cut = realigned(texts[0].lines, [text.lines for text in texts[1:]], languages)
    stripped = [[line.strip() for line in lines] for lines in cut.texts]
    return [replace(text, lines=lines) for text, lines in zip(texts, stripped, strict=True)], cut.places


def _pairs(paths: tuple[Path, Path], records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The lines of aligned text; its records are added.

    Raises:
        UserError: a file has faults, or they have different numbers of lines.
    """
    findings = Findings(accept=("empty", "crlf"))
    files = [TextFile(f"parallel {side}", path) for side, path in zip(("source", "target"), paths, strict=True)]
    texts = [list(read_lines(file, findings)) for file in files]
    if len(texts[0]) != len(texts[1]):
        findings.misaligned(files, [len(text) for text in texts])
    findings.raise_all()
    records += [
        input_record(file, lines=len(text), digests=findings.digests) for file, text in zip(files, texts, strict=True)
    ]
    return list(zip(*texts, strict=True))
