"""Dev and test pairs held out of a corpus: whole documents, or blocks of consecutive lines if none are known.

No line of the test is in the training text, and each is one sentence: a second sentence is not length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from posnmt.base.errors import UserError
from posnmt.base.output import write_text
from posnmt.data.corpus import Findings, Pair, TextFile, read_pairs
from posnmt.translate.sentences import sentences

BLOCK = 20
"""Consecutive lines that stand for a document where none is known."""
SEED = 1
"""Of the order in which documents are drawn."""
FILES = ("source", "target", "documents")


@dataclass(frozen=True)
class Usable:
    """The pairs that a test keeps, and how many it does not.

    Attributes:
        pairs: kept.
        blank: pairs with a blank side.
        seen: pairs whose source or target is a line of the training text.
        several: pairs whose source has several sentences.
    """

    pairs: Sequence[Pair]
    blank: int = 0
    seen: int = 0
    several: int = 0


def read(source: Path, target: Path, documents: Path | None = None) -> list[Pair]:
    """The pairs of a corpus, each with its document; blocks stand for documents that are not known.

    Raises:
        UserError: every fault of the files; they have different numbers of lines.
    """
    names = zip(FILES, (source, target, documents), strict=True)
    files = {
        part: TextFile("--documents" if part == "documents" else part.upper(), path) for part, path in names if path
    }
    findings = Findings(("empty", "crlf"))
    pairs = list(read_pairs(files, findings))
    findings.raise_all()
    return [pair._replace(document=pair.document or f"block-{(pair.line - 1) // BLOCK + 1}") for pair in pairs]


def hold_out(pairs: Sequence[Pair], *wanted: int) -> list[list[Pair]]:
    """Parts of at least so many pairs, of whole documents that are drawn at random, and last the rest.

    Args:
        pairs: of the corpus.
        wanted: pairs of each part; 0: none.

    Returns:
        The parts and the rest, each in the order of the corpus.

    Raises:
        UserError: the documents are so large that less than half of the corpus would be left.
    """
    of_document: dict[str | None, list[Pair]] = {}
    for pair in pairs:
        of_document.setdefault(pair.document, []).append(pair)
    order = list(of_document)
    Random(SEED).shuffle(order)
    parts: list[list[Pair]] = []
    for count in wanted:
        part: list[Pair] = []
        while order and len(part) < count:
            part += of_document[order.pop()]
        parts.append(sorted(part))
    rest = sorted(pair for name in order for pair in of_document[name])
    if 2 * len(rest) < len(pairs):
        left = f"{len(rest):,} of {len(pairs):,} pairs would be left to train on"
        what = f"the corpus has {len(of_document):,} documents or blocks of lines, and {left}"
        raise UserError(what, None, "name --dev and --test, or a larger corpus")
    return [*parts, rest]


def usable(pairs: Iterable[Pair], training: Sequence[Pair], language: str) -> Usable:
    """The pairs that a test keeps.

    Args:
        pairs: that were held out, or given.
        training: the training text.
        language: code of the source, by whose rules sentences end.
    """
    sources, targets = {pair.source for pair in training}, {pair.target for pair in training}
    found, kept = Usable([]), []
    for pair in pairs:
        if pair.blank:
            found = replace(found, blank=found.blank + 1)
        elif pair.source in sources or pair.target in targets:
            found = replace(found, seen=found.seen + 1)
        elif len(sentences(pair.source, language)) > 1:
            found = replace(found, several=found.several + 1)
        else:
            kept.append(pair)
    return replace(found, pairs=kept)


def write(pairs: Sequence[Pair], folder: Path, name: str, languages: tuple[str, str], documents: bool = False) -> None:
    """Write pairs as `NAME.SOURCE` and `NAME.TARGET` by their languages, with `NAME.documents` if asked for."""
    source, target = languages
    texts = {source: [pair.source for pair in pairs], target: [pair.target for pair in pairs]}
    texts |= {"documents": [str(pair.document) for pair in pairs]} if documents else {}
    for ending, lines in texts.items():
        write_text(folder / f"{name}.{ending}", "".join(f"{line}\n" for line in lines))
