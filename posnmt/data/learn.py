"""The first pass of `prepare`: checks every line, and learns the text pipeline or loads an existing one."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from posnmt.base.errors import UserError, raise_all
from posnmt.base.parallel.processes import ordered_map
from posnmt.base.progress import Work
from posnmt.config.schema import Config, Subword
from posnmt.config.writing import base_code
from posnmt.config.yaml import expand
from posnmt.data.corpus import BYTE_ORDER_MARK, CHUNK, Chunk, Findings
from posnmt.data.encode import CountForms
from posnmt.data.extend import extended
from posnmt.data.listed import Files, Part, all_files, read_parts
from posnmt.data.subword import UNK, Reservoir, Subwords
from posnmt.data.text import SIDES, SideText, TextPipeline
from posnmt.data.tokenise import TruecaseLearner, Words

# Fixed, and not train.seed, so that runs with different seeds share one vocabulary and one store.
SAMPLE_SEED = 1
HELD_OUT_SEED = 2

Report = Callable[[str], None]


class Learned(NamedTuple):
    """The result of the first pass.

    Attributes:
        text: the text pipeline.
        findings: the line counts of the files, and the irregularities in them.
        held_out: the numbers of the `data.held_out` training pairs that serve as dev.
    """

    text: TextPipeline
    findings: Findings
    held_out: frozenset[int]


def learn(config: Config, files: Files, processes: int, say: Report) -> Learned:
    """First pass: check every line of every file, then learn truecasing and subwords from the training text."""
    data, settings = config.data, config.subword
    findings = Findings(data.accept)
    sample: Reservoir[tuple[str, str]] = Reservoir(settings.sample, SAMPLE_SEED)
    held_out = HeldOut(data.held_out or 0)
    text = None if settings.text is None else _load_pipeline(config)
    languages = data.source_language, data.target_language
    sides = [
        Words(language, tokeniser, rules=base_code(language) if tokeniser == "moses" else None)
        for language, tokeniser in zip(languages, data.tokenisers, strict=True)
    ]
    checked = {
        name: with_progress(read_parts(parts, findings), f"checking data.{name}", say, size=_size(parts))
        for name, parts in files.items()
    }
    chunks = _sampled(checked["train"], sample, held_out)
    if data.truecase and text is None:
        _learn_truecasing(sides, chunks, processes)
    for _ in chunks:
        pass
    for _ in checked.get("dev", ()):
        pass
    findings.raise_all()
    for note in findings.notes:
        say(note)
    for file in all_files(files):
        if findings.count(file, BYTE_ORDER_MARK):
            say(f"{file.path}: the byte order mark at its start is removed")
        if number := findings.count(file, "crlf"):
            say(f"{file.path}: {number:,} lines end in CRLF; the CR is removed")
    if not sample.items:
        raise UserError("no training pair is left: every one has an empty side", "data.train", "check the files")

    if text is None:
        say(f"learning {settings.type} subwords from {len(sample.items):,} pairs")
        text = _learn_subwords(sides, sample.items, settings, data.marks, processes)
    else:
        say(f"taking tokenisation and subwords from {text_folder(config)}")
        if settings.pieces == "extended":
            text = _extended(text, sample.items, config, processes, say)
    text = text.with_marks(data.marks)
    _refuse_unreadable_marks(text, data.marks)
    return Learned(text, findings, held_out.lines())


def _refuse_unreadable_marks(text: TextPipeline, marks: Sequence[str]) -> None:
    """Check that the subwords tell marks apart; those that are learned with them do.

    Raises:
        UserError: a mark has characters that the subwords lack.
    """
    for mark, ids in zip(marks, text.source.subwords.encode(marks), strict=True):
        if UNK in ids:
            what = f"the vocabulary that subword.text names lacks characters of the mark {mark}"
            raise UserError(what, "data.train", "choose a mark of characters that it has, or learn new subwords")


class HeldOut:
    """Draws pairs of the training text to serve as dev. One that occurs again would be trained on, and is not drawn.

    Args:
        wanted: how many. If fewer pairs occur once, all are drawn from.
    """

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self._lines, self._digests = array("q"), array("q")

    def add(self, line: int, source: str, target: str) -> None:
        """Offer the pair with a number."""
        if self.wanted:
            text = f"{source.strip()}\n{target.strip()}".encode()
            self._lines.append(line)
            self._digests.frombytes(blake2b(text, digest_size=8).digest())

    def lines(self) -> frozenset[int]:
        """The numbers of the drawn pairs."""
        lines = np.asarray(self._lines)
        _, first, times = np.unique(np.asarray(self._digests), return_index=True, return_counts=True)
        once = lines[np.sort(first[times == 1])]
        drawn: Reservoir[int] = Reservoir(self.wanted, HELD_OUT_SEED)
        for line in (once if len(once) >= self.wanted else lines).tolist():
            drawn.add(line)
        return frozenset(drawn.items)


def _learn_truecasing(sides: Sequence[Words], chunks: Iterable[Chunk], processes: int) -> None:
    """Learn truecasing from chunks, for the sides that Moses tokenises."""
    truecased = [words if words.tokeniser == "moses" else None for words in sides]
    learners = [TruecaseLearner() for _ in sides]
    with closing(ordered_map(CountForms(*truecased), chunks, processes)) as counted:
        for forms in counted:
            for learner, of_side in zip(learners, forms, strict=True):
                learner.forms.update(of_side)
    for words, learner in zip(truecased, learners, strict=True):
        if words is not None:
            words.truecaser = learner.truecaser()


def _learn_subwords(
    sides: Sequence[Words], pairs: Sequence[tuple[str, str]], settings: Subword, marks: Sequence[str], processes: int
) -> TextPipeline:
    """The pipeline with subwords learned from some pairs, and with an entry for each mark of a source.

    Raises:
        UserError: the text does not support so large a vocabulary; with two vocabularies, the faults of both.
    """
    texts = [_tokenised(words, [pair[side] for pair in pairs], processes) for side, words in enumerate(sides)]
    if settings.shared:
        shared = Subwords.learn(itertools.chain(*texts), settings, "shared", marks)
        return TextPipeline(SideText(sides[0], shared), SideText(sides[1], shared))
    learned, faults = [], []
    for role, words, sentences in zip(SIDES, sides, texts, strict=True):
        try:
            own = marks if role == "source" else ()
            learned.append(SideText(words, Subwords.learn(sentences, settings, role, own)))
        except UserError as fault:
            faults.append(fault)
    raise_all(faults)
    return TextPipeline(learned[0], learned[1])


def _extended(
    text: TextPipeline, pairs: list[tuple[str, str]], config: Config, processes: int, say: Report
) -> TextPipeline:
    """The pipeline extended by entries for characters of some pairs that it lacks.

    Raises:
        UserError: the subwords cannot be extended.
    """
    coverage, folder = config.subword.character_coverage, text_folder(config)
    sides = text.source, text.target
    texts = [_tokenised(side.words, [pair[index] for pair in pairs], processes) for index, side in enumerate(sides)]
    if text.shared:
        subwords = [extended(text.source.subwords, [*texts[0], *texts[1]], coverage, folder)] * 2
    else:
        subwords = [extended(side.subwords, own, coverage, folder) for side, own in zip(sides, texts, strict=True)]
    added = [len(new) - len(side.subwords) for new, side in zip(subwords, sides, strict=True)]
    shown = f"{added[0]:,}" if text.shared else f"{added[0]:,} source and {added[1]:,} target"
    say(f"the vocabulary is extended by {shown} characters")
    source, target = (SideText(side.words, new) for side, new in zip(sides, subwords, strict=True))
    return TextPipeline(source, target).with_marks(text.source.marks)


def text_folder(config: Config) -> Path:
    """Return the folder that `subword.text` names, seen from `data.root`."""
    return Path(config.data.root) / expand(str(config.subword.text), "subword.text")


def _load_pipeline(config: Config) -> TextPipeline:
    """The pipeline of `subword.text`, checked against the settings of the config.

    Raises:
        UserError: lists every setting that differs.
    """
    data, folder = config.data, text_folder(config)
    text = TextPipeline.load(folder)
    sides: list[Words] = [text.source.words, text.target.words]
    configured = {
        "subword.shared": config.subword.shared,
        "data.source_language": data.source_language,
        "data.target_language": data.target_language,
        "data.tokenise": _of_sides(*data.tokenisers),
        "data.truecase": data.truecase,
    }
    loaded = {
        "subword.shared": text.shared,
        "data.source_language": sides[0].language,
        "data.target_language": sides[1].language,
        "data.tokenise": _of_sides(*[words.tokeniser for words in sides]),
        "data.truecase": any(words.truecaser is not None for words in sides),
    }
    raise_all(
        [
            UserError(
                f"{key} is {configured[key]!r}, but subword.text was made with {loaded[key]!r}",
                folder,
                "make them equal",
            )
            for key in configured
            if configured[key] != loaded[key]
        ]
    )
    return text


def _of_sides(source: str, target: str) -> str | dict[str, str]:
    """The tokenisers of both sides, as in a configuration."""
    return source if source == target else {"source": source, "target": target}


def _sampled(chunks: Iterable[Chunk], sample: Reservoir[tuple[str, str]], held_out: HeldOut) -> Iterator[Chunk]:
    """The same chunks; offers their pairs without a blank side to `sample` and to `held_out`."""
    for chunk in chunks:
        for line, source, target in zip(chunk.lines, chunk.sources, chunk.targets, strict=True):
            if source.strip() and target.strip():
                sample.add((source, target))
                held_out.add(line, source, target)
        yield chunk


def _tokenised(words: Words, texts: list[str], processes: int) -> list[str]:
    if words.tokeniser == "none":
        return texts
    chunks = (texts[first : first + CHUNK] for first in range(0, len(texts), CHUNK))
    with closing(ordered_map(words.split_all, chunks, processes)) as batches:
        return list(itertools.chain.from_iterable(batches))


def with_progress(
    chunks: Iterable[Chunk], doing: str, say: Report, total: int | None = None, size: int | None = None
) -> Iterator[Chunk]:
    """The same chunks, with their progress on the open display.

    Args:
        total: pairs in all chunks, if that is known.
        size: instead, the bytes of both sides.
    """
    say(doing)
    with Work(doing, "pairs", total, size) as work:
        for chunk in chunks:
            yield chunk
            lines = [] if size is None else itertools.chain(chunk.sources, chunk.targets)
            work.add(len(chunk.lines), sum(len(line.encode()) + 1 for line in lines))


def _size(parts: Sequence[Part]) -> int | None:
    """The bytes of the sentences of corpora; None if a file is compressed, or has more than sentences."""
    read = [(role, file) for part in parts for role, file in part.files.items() if role != "documents"]
    if any(file.compression or role == "file" for role, file in read):
        return None
    return sum(file.path.stat().st_size for _, file in read)
