"""What an analysis asks for: the completeness of translations, and paragraphs cut into the parts of each sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from posnmt.base.errors import UserError, quoted, raise_all
from posnmt.config.writing import EXAMPLES, writing
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.evaluation.analyse.completeness.evidence import parts
from posnmt.evaluation.analyse.completeness.labels import OPTION, Labels, read_labels
from posnmt.evaluation.analyse.completeness.lexicon import aligned
from posnmt.evaluation.analyse.completeness.measure import UNKNOWN, Completeness, completeness
from posnmt.evaluation.analyse.completeness.words import Line, split
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
        shown: number of outputs that are not for swapped sources.

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
    """The lines of aligned text; records of its files are added to `records`.

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


@dataclass(frozen=True)
class Realigned:
    """Texts with a line for each sentence of the source.

    Attributes:
        texts: the source, then its translations; the lines of a paragraph, joined, are the paragraph.
        places: for each line the number of its sentence in its paragraph, from 0.
    """

    texts: list[list[str]]
    places: list[int]


def realigned(
    source: Sequence[str], translations: Sequence[Sequence[str]], languages: tuple[str | None, str | None]
) -> Realigned:
    """Cut translations of paragraphs where the sentences of the source end.

    Args:
        source: N paragraphs; a paragraph without words remains one line.
        translations: texts of N lines, the reference first: the lexicon is learned from it.
        languages: codes of the source's and the target's language; None: unknown.
    """
    here, there = (code or UNKNOWN for code in languages)
    sources = [split(line, here) for line in source]
    texts = [[split(line, there) for line in lines] for lines in translations]
    _, strengths_of = aligned(sources, texts[0], texts)
    expansion = sum(len(line.forms) for line in texts[0]) / max(1, sum(len(line.forms) for line in sources))
    cut: list[list[str]] = [[] for _ in translations]
    for number, line in enumerate(sources):
        for new, whole, text, strengths in zip(cut, translations, texts, strengths_of, strict=True):
            if line.sentences:
                own = parts(line, text[number], strengths(number), expansion, INSIDE_COST)
                new += _pieces(whole[number], text[number], own)
            else:
                new.append(whole[number])
    first = [each for line, text in zip(sources, source, strict=True) for each in line.sentences or [text]]
    places = [place for line in sources for place in range(max(1, len(line.sentences)))]
    return Realigned([first, *cut], places)


def _pieces(text: str, line: Line, own: Sequence[slice]) -> list[str]:
    """A text cut before the first word of each part except the first; opening marks such as `„` stay with the word."""
    begins = [0]
    for part in own[1:]:
        begin = line.starts[part.start] if part.start < len(line.starts) else len(text)
        while begin < len(text) and begin > begins[-1] and text[begin - 1] in OPENING:
            begin -= 1
        begins.append(max(begins[-1], begin))
    return [text[start:end] for start, end in pairwise([*begins, len(text)])]


INSIDE_COST = 5.0
"""The cost of a cut inside a sentence: it is rarely right, since it leaves half a sentence in each of two lines."""
OPENING = "([{„“‚‘«「『（《¿¡"
"""Marks that belong to the word after them."""
