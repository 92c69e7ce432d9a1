"""`posnmt condition join`: join consecutive sentence pairs, source with source and target with target.

With two sentences the result is the test set concat_seq of Rosendahl et al. (2019, section 4.2, Table 3). Such lines
test whether a model translates a second sentence, not whether it translates longer ones: a model trained on single
sentences writes one sentence for such a line, at any length (docs/results/corrections.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.config.writing import EXAMPLES
from posnmt.corpora.conditions.files import PlainFiles
from posnmt.corpora.conditions.text import InputText, language_without_blanks
from posnmt.data.corpus import Pair

FILES = ("joined.source", "joined.target", "joined.lines")


def join(
    out: str | Path,
    text: InputText,
    sentences: int = 2,
    source_separator: str | None = None,
    target_separator: str | None = None,
    drop_rest: bool = False,
) -> dict[str, Any]:
    """Join groups of consecutive pairs into one pair each. No pair is in two groups, and no group in two documents.

    joined.source and joined.target have the text, joined.lines the input's line numbers, such as `3 4`. Consecutive
    pairs with the same id are a document, and so are consecutive pairs without an id. If fewer than `sentences` pairs
    are left at the end of a document, they are a shorter group.

    Args:
        out: the folder.
        text: a parallel text, in document order.
        sentences: pairs in a group.
        source_separator: text between source sentences; default: a blank, but nothing in Japanese or Chinese without
            blanks between words.
        target_separator: the same for target sentences.
        drop_rest: whether to drop the shorter group at the end of a document.

    Returns:
        The manifest.

    Raises:
        UserError: the text is faulty, a separator would break a line, or no group is written.
    """
    for option, separator in (("--source-separator", source_separator), ("--target-separator", target_separator)):
        if separator and "\n" in separator:
            raise UserError("a separator may not contain a line feed, which ends a line", option, "use a space")
    counts: Counter[str] = Counter()
    separators = {"source": source_separator, "target": target_separator}

    def rows() -> Iterator[tuple[str, str, str]]:
        every = text.pairs("joining")
        first = list(islice(every, EXAMPLES))
        _choose_separators(separators, first)
        for document, pairs in groupby(chain(first, every), key=lambda pair: pair.document):
            counts["documents"] += document is not None
            while group := list(islice(pairs, sentences)):
                counts["without_document"] += len(group) * (document is None)
                if len(group) < sentences:
                    counts["rest_groups"] += 1
                    counts["rest_pairs"] += len(group)
                    if drop_rest:
                        continue
                yield (
                    _joined((pair.source for pair in group), separators["source"]),
                    _joined((pair.target for pair in group), separators["target"]),
                    " ".join(str(pair.line) for pair in group),
                )

    with PlainFiles(out) as files:
        written = files.write(FILES, rows())
        if not written:
            raise UserError(
                f"no document has {sentences} pairs, and shorter groups are dropped", "--sentences", "join fewer"
            )
        facts = {
            **text.facts,
            "documents": counts["documents"],
            "without_document": counts["without_document"],
            "written": written,
            "rest_groups": counts["rest_groups"],
            "rest_pairs": counts["rest_pairs"],
        }
        text.tell()
        _tell(text, facts, sentences, drop_rest)
        for side, separator in (("source", source_separator), ("target", target_separator)):
            if separator is None and not separators[side]:
                text.display.say(f"the {side} has no spaces between words: its sentences are joined without one")
        parameters = {
            **text.parameters,
            "sentences": sentences,
            "source_separator": separators["source"],
            "target_separator": separators["target"],
            "rest": "drop" if drop_rest else "keep",
        }
        return files.finish("join", parameters, facts)


def _choose_separators(separators: dict[str, str | None], pairs: list[Pair]) -> None:
    """Fill in the separators that are None, by the script of each side's first lines."""
    for side, separator in separators.items():
        if separator is None:
            language = language_without_blanks(getattr(pair, side) for pair in pairs)
            separators[side] = "" if language in ("Japanese", "Chinese") else " "


def _joined(lines: Iterable[str], separator: str | None) -> str:
    """Join the lines that are not blank."""
    return (separator or "").join(line for line in lines if line.strip())


def _tell(text: InputText, facts: dict[str, int], sentences: int, drop_rest: bool) -> None:
    """Report what was joined and what was left."""
    say, read = text.display.say, f"{facts['read']:,} pairs"
    documents = f"; documents: {facts['documents']:,}" if facts["documents"] else ""
    say(f"{read} became {facts['written']:,}, joined by {sentences}{documents}")
    if facts["rest_pairs"]:
        became = "dropped" if drop_rest else f"kept, in shorter groups: {facts['rest_groups']:,}"
        say(f"too few for a group at the ends of documents: {facts['rest_pairs']:,} of {read}; {became}")
    if facts["documents"] and facts["without_document"]:
        say(f"without document id, and joined among themselves: {facts['without_document']:,} of {read}")
