"""Word alignments of a parallel corpus, from a file or computed by eflomal, and measures of word order.

A link (i, j) connects source token i and target token j, both counted from 0. Tokens are separated by blanks and tabs
only, as in `tokens`, so that positions agree with those of common aligners.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.base.programs import found, output_of
from posnmt.data.corpus import Findings, TextFile, read_lines

Links = frozenset[tuple[int, int]]

INSTALL = "pip install eflomal (it needs a C compiler), or give the alignments of another aligner as a file"
_LINK = re.compile(r"(\d+)-(\d+)")
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def tokens(line: str) -> list[str]:
    """The tokens of a line, separated by blanks and tabs."""
    return [token for token in re.split("[ \t]+", line) if token]


def read_alignment(path: str | Path, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Links]:
    """Read alignments in Pharaoh format (`0-0 1-2`), line n for pair n; an empty line is a pair without links.

    Args:
        pairs: source and target tokens of each pair.

    Raises:
        UserError: a line in another format, a link outside its sentence, or a wrong number of lines.
    """
    file = TextFile("alignment", Path(path))
    findings = Findings(accept=("crlf",))
    alignment = []
    for number, line in enumerate(read_lines(file, findings, blank_is_fault=False), start=1):
        if number <= len(pairs):
            source, target = pairs[number - 1]
            alignment.append(_links(line, len(source), len(target), f"{path}:{number}"))
    findings.raise_all()
    if findings.lines[file] != len(pairs):
        raise UserError(
            f"{findings.lines[file]:,} lines of alignments for {len(pairs):,} sentence pairs",
            path,
            "line n must have the links of pair n",
        )
    return alignment


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """Write links as text in Pharaoh format (`0-0 1-2`), in ascending order."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def align(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Links]:
    """Alignments by eflomal (Östling and Tiedemann 2016) in both directions, symmetrised.

    Case is ignored. A pair with 1,024 or more tokens on a side has no links. The system seeds eflomal, so two calls
    differ in a few links: keep the result for reproducibility. It runs as a separate program.

    Raises:
        UserError: eflomal is not installed, or fails.
    """
    if (program := found("eflomal-align")) is None:
        raise UserError("word alignments need eflomal, which is not installed", None, INSTALL)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
            _write_numbers(folder / side, texts)
        call = [program, "--overwrite"]
        for option, file in (("-s", "source"), ("-t", "target"), ("-f", "forward"), ("-r", "reverse")):
            call += [option, str(folder / file)]
        output_of(call, "eflomal", INSTALL)
        forward, reverse = (read_alignment(folder / file, pairs) for file in ("forward", "reverse"))
    return [symmetrise(there, back) for there, back in zip(forward, reverse, strict=True)]


def symmetrise(forward: Iterable[tuple[int, int]], reverse: Iterable[tuple[int, int]]) -> Links:
    """The links of two directions as one alignment: grow-diag-final-and (Koehn et al. 2005).

    Neighbours of the intersection, also diagonal ones, in the union are added while one of their tokens has no link;
    then all forward and reverse links both of whose tokens have no link.
    """
    first, second = set(forward), set(reverse)
    union, links = first | second, first & second
    rows, columns = {i for i, _ in links}, {j for _, j in links}

    def add(link: tuple[int, int]) -> None:
        links.add(link)
        rows.add(link[0])
        columns.add(link[1])

    grown = sorted(links)
    while grown:
        seeds, grown = grown, []
        for i, j in seeds:
            for down, right in _NEIGHBOURS:
                link = (i + down, j + right)
                if link in union and link not in links and (link[0] not in rows or link[1] not in columns):
                    add(link)
                    grown.append(link)
    for direction in (first, second):
        for link in sorted(direction):
            if link[0] not in rows and link[1] not in columns:
                add(link)
    return frozenset(links)


def alignment_error_rate(guesses: Iterable[Links], gold: Iterable[Links]) -> float:
    """1 - 2 |A and G| / (|A| + |G|) over a corpus (Och and Ney 2003, if all gold links are sure); 0 is perfect."""
    common = total = 0
    for guess, right in zip(guesses, gold, strict=True):
        common += len(guess & right)
        total += len(guess) + len(right)
    return 1 - 2 * common / total


def target_places(links: Links, length: int) -> NDArray[np.float64]:
    """The target position of each source token: the mean position of its links; NaN without links.

    Args:
        length: number of source tokens.

    Returns:
        [length] positions.
    """
    sums, counts = np.zeros(length), np.zeros(length)
    for i, j in links:
        sums[i] += j
        counts[i] += 1
    with np.errstate(invalid="ignore"):
        return sums / counts


def kendall_tau(places: NDArray[np.float64]) -> float | None:
    """Kendall's tau of an order of tokens against their target order: 1 for the same order, -1 for the reverse.

    Pairs with equal places, or with a token without links, are ignored.

    Args:
        places: target positions of the tokens, in the order to be measured.

    Returns:
        (pairs in target order - pairs in reverse order) / both; None if all pairs are ignored.
    """
    later = np.triu(np.sign(places[None, :] - places[:, None]), 1)
    ahead, behind = np.count_nonzero(later > 0), np.count_nonzero(later < 0)
    return (ahead - behind) / (ahead + behind) if ahead + behind else None


def _links(line: str, sources: int, targets: int, where: str) -> Links:
    """The links of one line in Pharaoh format, checked."""
    links = set()
    for link in line.split():
        match = _LINK.fullmatch(link)
        if match is None:
            raise UserError(f"{link!r} is not a link", where, "write links as SOURCE-TARGET, counted from 0: 0-0 1-2")
        i, j = int(match[1]), int(match[2])
        for side, position, length in (("source", i, sources), ("target", j, targets)):
            if position >= length:
                raise UserError(
                    f"link {link} is outside the {side} sentence, which has {length} tokens",
                    where,
                    "align exactly this text; tokens are counted from 0",
                )
        links.add((i, j))
    return frozenset(links)


def _write_numbers(path: Path, texts: Iterable[Sequence[str]]) -> None:
    """Write tokens as numbers, ignoring case; the aligner would split tokens at other white space."""
    numbers: dict[str, int] = {}
    with path.open("w", encoding="ascii", newline="\n") as file:
        for text in texts:
            file.write(" ".join(str(numbers.setdefault(token.lower(), len(numbers))) for token in text) + "\n")
