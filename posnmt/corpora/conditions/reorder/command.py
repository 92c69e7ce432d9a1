"""`posnmt condition reorder`: put source text into the word order of the target, by a learned model or a program."""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from posnmt.base.errors import UserError, raise_all
from posnmt.base.output import existing
from posnmt.base.progress import Display, warn
from posnmt.config.writing import unsegmented
from posnmt.corpora.conditions.files import MANIFEST, PlainFiles
from posnmt.corpora.conditions.reorder.preorder import LONGEST, PASSES, SHORTEST, Preorderer, learn
from posnmt.corpora.conditions.text import language_without_blanks
from posnmt.data.alignment import (
    Links,
    align,
    kendall_tau,
    pharaoh,
    read_alignment,
    target_places,
    tokens,
)
from posnmt.data.corpus import Findings, TextFile, read_lines, read_pairs

MODEL, ALIGNMENT = "model.json", "pairs.align"

FEWEST = 20
"""The smallest number of sentence pairs for learning and measuring."""

HELD_OUT = 1_000
"""Most pairs that are held out to measure the order on; at most a tenth of all pairs are."""

Sentences = list[list[str]]
Orderer = Callable[[Sentences, str], list[list[int]]]
"""Takes sentences and a name for messages; returns the positions of each sentence's tokens in the new order."""


@dataclass(frozen=True)
class Parallel:
    """Tokenised sentence pairs with alignments, and the rows that are held out to measure the order on."""

    sources: Sentences
    links: list[Links]
    blank: int
    held_out: list[int]

    def to_learn(self) -> list[int]:
        """The rows of suitable length whose source is not held out."""
        held_out = {tuple(self.sources[row]) for row in self.held_out}
        return [
            row
            for row, source in enumerate(self.sources)
            if SHORTEST <= len(source) <= LONGEST and tuple(source) not in held_out
        ]


@dataclass(frozen=True)
class Reordering:
    """What `posnmt condition reorder` is asked for.

    Attributes:
        apply: `NAME=FILE`, texts to reorder.
        source, target: sentence pairs to learn from, or only to measure on if there is a model or a program.
        alignment: their word alignments; default: computed by eflomal.
        model: an existing model.
        program: a shell command that reorders instead, which reads lines and writes them reordered.
        seed: seed of the choice of held-out pairs and of learning.
        passes: number of passes over the pairs while learning.

    Raises:
        UserError: options that contradict each other.
    """

    apply: Sequence[str]
    source: str | Path | None = None
    target: str | Path | None = None
    alignment: str | Path | None = None
    model: str | Path | None = None
    program: str | None = None
    seed: int = 1
    passes: int = PASSES

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            raise UserError("only one side of a parallel text is named", "--source, --target", "name both, or neither")
        if self.model is not None and self.program is not None:
            raise UserError("a model and a command cannot be combined", "--model, --command", "leave one out")
        if self.source is None and self.alignment is not None:
            raise UserError("alignments need their parallel text", "--alignment", "name it with --source and --target")
        if self.source is None and self.model is None and self.program is None:
            raise UserError(
                "there is nothing to learn from", "--source, --target", "name both, or --model or --command"
            )


def command(out: str | Path, asked: Reordering, display: Display | None = None) -> dict[str, Any]:
    """Write the texts of `posnmt condition reorder`; return the manifest.

    The folder has each text of `apply` under its name, the model if one was learned, and the alignments if they were
    computed. The order before and after is measured on held-out pairs if there are `source` and `target`.

    Args:
        out: the folder.
        display: for progress; default: none is shown.
    """
    display = display or Display(quiet=True)
    applied = _applications(asked.apply, Path(out))
    texts = {name: _read(path) for name, path in applied.items()}
    facts: dict[str, Any] = {}
    with PlainFiles(out) as files:
        parallel = None
        if asked.source is not None and asked.target is not None:
            parallel = _read_parallel(asked.source, asked.target, asked.alignment, asked.seed, display)
            if asked.alignment is None:
                files.write((ALIGNMENT,), ((pharaoh(links),) for links in parallel.links))
        if asked.program is not None:
            orderer = external(asked.program)
        elif asked.model is not None:
            orderer = _internal(Preorderer.load(asked.model), display)
        else:
            assert parallel is not None  # else there is nothing to learn from
            learned = _learn(parallel, asked.seed, asked.passes, display)
            files.write((MODEL,), ((learned.save(),),))
            orderer = _internal(learned, display)
            facts["learned_from"] = len(parallel.to_learn())
        if parallel is not None:
            facts |= {"pairs": len(parallel.sources), "blank_pairs": parallel.blank}
            facts["held_out"] = measure(parallel, orderer)
            display.say(_describe(facts["held_out"]))
        facts["files"] = {}
        for name, sentences in texts.items():
            orders = orderer(sentences, str(applied[name]))
            files.write((name,), ((" ".join(text[i] for i in order),) for text, order in _both(sentences, orders)))
            changed = sum(order != sorted(order) for order in orders)
            facts["files"][name] = {"lines": len(orders), "changed": changed}
            display.say(f"{name}: {changed:,} of {len(orders):,} lines in another order")
        inputs = {name: getattr(asked, name) for name in ("source", "target", "alignment", "model")}
        parameters = {
            "apply": {name: str(path) for name, path in applied.items()},
            **{key: str(value) for key, value in {**inputs, "command": asked.program}.items() if value is not None},
            "seed": asked.seed,
            "passes": asked.passes,
        }
        return files.finish("reorder", parameters, facts)


def measure(parallel: Parallel, orderer: Orderer) -> dict[str, Any]:
    """Kendall's tau of the held-out pairs before and after, averaged over sentences in which it is defined.

    Returns:
        `pairs` held out, `measured` of them, `tau_before`, `tau_after` and the share of sentences `changed`.
    """
    sources = [parallel.sources[row] for row in parallel.held_out]
    orders = orderer(sources, "held-out pairs")
    before, after = [], []
    for row, order in _both(parallel.held_out, orders):
        places = target_places(parallel.links[row], len(order))
        old, new = kendall_tau(places), kendall_tau(places[order])
        if old is not None and new is not None:
            before.append(old)
            after.append(new)
    return {
        "pairs": len(sources),
        "measured": len(before),
        "tau_before": round(fmean(before), 4) if before else None,
        "tau_after": round(fmean(after), 4) if after else None,
        "changed": round(fmean(order != sorted(order) for order in orders), 4),
    }


def external(program: str) -> Orderer:
    """An orderer that runs a shell command once for each text, from lines to reordered lines.

    Repeated tokens in a line are assumed to keep their order.

    Raises:
        UserError: the command fails, or its output has other lines or tokens; names the line.
    """

    def order(sentences: Sentences, where: str) -> list[list[int]]:
        text = "".join(" ".join(sentence) + "\n" for sentence in sentences)
        done = subprocess.run(program, shell=True, input=text.encode(), capture_output=True)  # noqa: S602  --command
        if done.returncode != 0:
            message = done.stderr.decode(errors="replace").strip().splitlines()
            reason = f": {message[-1]}" if message else ""
            raise UserError(
                f"the command ended with status {done.returncode}{reason}", "--command", "run it separately"
            )
        try:
            lines = done.stdout.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            raise UserError("the output of the command is not valid UTF-8", "--command") from None
        if len(lines) != len(sentences):
            raise UserError(
                f"the command wrote {len(lines):,} lines for {len(sentences):,}",
                where,
                "it must write one line for each input line",
            )
        return [_match(*row, f"{where}:{n}") for n, row in enumerate(_both(sentences, map(tokens, lines)), start=1)]

    return order


def _both(first: Iterable[Any], second: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
    """`zip` of two iterables of equal length."""
    return zip(first, second, strict=True)


def _match(sentence: list[str], reordered: list[str], where: str) -> list[int]:
    """The permutation from one list of tokens to the other."""
    missing = Counter(sentence) - Counter(reordered)
    added = Counter(reordered) - Counter(sentence)
    if missing or added:
        signs = [f"{word!r} is missing" for word in missing] + [f"{word!r} is new" for word in added]
        raise UserError(f"the command changed the tokens of a line: {signs[0]}", where, "it may only reorder them")
    positions: defaultdict[str, deque[int]] = defaultdict(deque)
    for position, word in enumerate(sentence):
        positions[word].append(position)
    return [positions[word].popleft() for word in reordered]


def _internal(model: Preorderer, display: Display) -> Orderer:
    """An orderer that uses a model."""

    def order(sentences: Sentences, where: str) -> list[list[int]]:
        orders = []
        for number, sentence in enumerate(sentences):
            if number % 200 == 0:
                display.show("reordering", number / len(sentences), where)
            orders.append(model.order(sentence))
        return orders

    return order


def _learn(parallel: Parallel, seed: int, passes: int, display: Display) -> Preorderer:
    rows = parallel.to_learn()
    sources = [parallel.sources[row] for row in rows]
    places = [target_places(parallel.links[row], len(parallel.sources[row])) for row in rows]
    if all(kendall_tau(each) is None for each in places):
        raise UserError(
            "no sentence has two words with different target positions, so there is no order to learn",
            "--alignment",
            "check that the alignments belong to these texts",
        )
    display.say(
        f"learning from {len(rows):,} of {len(parallel.sources):,} pairs; the others are held out, have the source of "
        f"a held-out pair, or do not have {SHORTEST} to {LONGEST} source words"
    )
    return learn(sources, places, seed, passes, show=lambda done, state: display.show("learning", done, state))


def _read_parallel(
    source: str | Path, target: str | Path, alignment: str | Path | None, seed: int, display: Display
) -> Parallel:
    """Sentence pairs with alignments, which are computed if there is no file of them."""
    findings = Findings(accept=("empty", "crlf"))
    files = {"source": TextFile("--source", Path(source)), "target": TextFile("--target", Path(target))}
    pairs = [(tokens(pair.source), tokens(pair.target)) for pair in read_pairs(files, findings)]
    findings.raise_all()
    _warn_of_crlf(findings, files.values())
    for side, texts in (("source", [pair[0] for pair in pairs]), ("target", [pair[1] for pair in pairs])):
        if why := _unsegmented(texts, f"the {side}"):
            raise UserError(why, files[side].path, "separate words by spaces first: docs/prepare.md has segmenters")
    if len(pairs) < FEWEST:
        raise UserError(f"{len(pairs)} sentence pairs are too few; at least {FEWEST} are needed", source)
    if alignment is None:
        display.say(f"aligning {len(pairs):,} pairs with eflomal")
        links = align(pairs)
    else:
        links = read_alignment(alignment, pairs)
    blank = sum(not (source_tokens and target_tokens) for source_tokens, target_tokens in pairs)
    if blank:
        display.say(f"{blank:,} pairs with an empty side are not used")
    size = min(HELD_OUT, len(pairs) // 10)
    held_out = sorted(Random(f"held out {seed}").sample(range(len(pairs)), size))
    return Parallel([pair[0] for pair in pairs], links, blank, held_out)


def _read(path: Path) -> Sentences:
    """The tokens of each line of a text; blank lines are kept."""
    findings, file = Findings(accept=("crlf",)), TextFile("--apply", path)
    sentences = [tokens(line) for line in read_lines(file, findings, blank_is_fault=False)]
    findings.raise_all()
    _warn_of_crlf(findings, [file])
    if why := _unsegmented(sentences, str(path)):
        warn(f"{why}: separate words by spaces first; only words between spaces are reordered")
    return sentences


def _warn_of_crlf(findings: Findings, files: Iterable[TextFile]) -> None:
    """Warn about carriage returns that were removed."""
    for file in files:
        if count := findings.count(file, "crlf"):
            warn(f"{count:,} lines of {file.path} end in CRLF; the carriage return is removed")


def _unsegmented(sentences: Sentences, text: str) -> str | None:
    """The reason to believe that the tokens of a text are not words; None if there is none."""
    lengths = [len(sentence) for sentence in sentences if sentence]
    if unsegmented(lengths.count(1), len(lengths)):
        return f"nearly every line of {text} is a single token"
    language = language_without_blanks(map(" ".join, sentences))
    return f"{text} is {language} without spaces between words" if language else None


def _applications(pairs: Sequence[str], out: Path) -> dict[str, Path]:
    """`NAME=FILE` options as name → path, checked that the names may be written."""
    applied: dict[str, Path] = {}
    faults = []
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not name or not path:
            faults.append(UserError(f"a text to reorder is written NAME=FILE; got {pair!r}", "--apply"))
        elif name in (MANIFEST, MODEL, ALIGNMENT, ".", "..") or Path(name).name != name or not name.isprintable():
            faults.append(UserError(f"{name!r} cannot name a reordered text", "--apply", "use a plain file name"))
        elif name in applied:
            faults.append(UserError(f"two texts are called {name!r}", "--apply", "give each its own name"))
        else:
            applied[name] = Path(path)
    # Checked before minutes of learning.
    raise_all([*faults, *existing(out, (*applied, MODEL, ALIGNMENT, MANIFEST))])
    return applied


def _describe(facts: dict[str, Any]) -> str:
    if facts["tau_before"] is None:
        return "held-out pairs: no links to measure the order by"
    return (
        f"{facts['measured']:,} held-out pairs: Kendall's tau {facts['tau_before']:.3f} before, "
        f"{facts['tau_after']:.3f} after; {facts['changed']:.0%} of the sentences changed"
    )
