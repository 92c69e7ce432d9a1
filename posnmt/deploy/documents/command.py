"""`posnmt translate` of a document."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from posnmt.base.errors import UserError, existing_file
from posnmt.base.extras import requires
from posnmt.base.progress import Display
from posnmt.config.schema import Decode
from posnmt.data.lines import portions
from posnmt.deploy.documents.formats import FORMATS, read
from posnmt.deploy.documents.segment import Kept, Segment, Sentence, divide, has_letters, join
from posnmt.translate.command import Chosen, Engine
from posnmt.translate.options import ASKED, EVERYTHING, refuse_unserved
from posnmt.translate.output import refuse_unwritable, write_whole
from posnmt.translate.terms import Terms
from posnmt.translate.translations import Translation

SENTENCE = "sentence"
"""The origin of sentences, by which faults of them are known from those of settings."""

SHOWN = 10
"""Places that a warning lists."""


def translate_document(
    chosen: Chosen,
    form: str,
    source: Path | None,
    output: Path | None,
    languages: tuple[str, str] | None = None,
    terms: Path | None = None,
) -> None:
    """Translate a document into another of the same format.

    Segments are translated sentence by sentence. A sentence that the engine refuses stays as it is, and is named; in a
    format that is whole, so does its segment. A segment without words, such as an address, stays as well.

    Args:
        chosen: the engine and the settings of search, with `join` 1.
        form: a name in `FORMATS`.
        source, output: files; None: standard input or output.
        languages: codes of source and target; None: those of the model, with the target that was chosen of several.
        terms: a file of source terms and target terms; see `posnmt.translate.terms`.

    Raises:
        UserError: a document that cannot be read, one without anything to translate, every sentence is refused, or an
            output that cannot be written.
    """
    requires("documents")
    if output is not None:
        refuse_unwritable(output)
    glossary = None if terms is None else Terms.read(terms)
    name = Path("standard input") if source is None else source
    data = sys.stdin.buffer.read() if source is None else existing_file(source, "input").read_bytes()
    engine = chosen.load()
    sides = engine.text.source, engine.text.target
    languages = languages or (sides[0].words.language, chosen.target or sides[1].words.language)
    document = read(form, data, name, languages)
    parts = [_Divided(each, divide(each, languages[0])) for each in document.segments if each.has_letters]
    texts = [(each, part.segment.line) for part in parts for each in part.lettered]
    with Display() as display:
        report = _Report(name, glossary)
        translated = _translate(engine, chosen.decode, texts, report, display, glossary)
        for part in parts:
            part.place(translated, is_whole=FORMATS[form].whole)
        write_whole(output, document.content())
        blank = len(document.segments) - len(parts)
        through = sum(part.through for part in parts)
        done = sum(part.is_done for part in parts)
        passed = [Kept(each.segment.line, each.text, "text without words") for each in parts if each.segment.passes]
        display.say(f"note: {through:,} of {len(texts):,} sentences in {len(parts):,} segments are translated")
        if blank:
            display.say(f"note: {blank:,} segments without letters are left as they are")
        sums = ledger(done, [*document.kept, *passed], len(parts) - len(passed) - done)
        for note in [*sums, *document.notes, *engine.notes]:
            display.say(f"note: {note}")
        for warning in report.warnings():
            display.say(f"warning: {warning}")


@dataclass
class _Divided:
    """A segment and its sentences, with the translations of those that have letters; None: one that is refused."""

    segment: Segment
    sentences: list[Sentence]
    results: list[Translation | None] = field(default_factory=list)

    @property
    def lettered(self) -> list[Sentence]:
        return [each for each in self.sentences if has_letters(each.text)]

    @property
    def text(self) -> str:
        return " ".join(each.text for each in self.sentences)

    @property
    def is_done(self) -> bool:
        """Whether the whole segment is translated, and written."""
        return self.segment.translated is not None and None not in self.results

    @property
    def through(self) -> int:
        """Sentences that went through the model, of a segment that is written."""
        written = self.segment.translated is not None
        return sum(written and each is not None and not each.passed for each in self.results)

    def place(self, translated: dict[int, Translation], is_whole: bool) -> None:
        """Fill the segment; if it `is_whole`, only where all its sentences are translated."""
        self.results = [translated.get(id(each)) for each in self.lettered]
        if all(each is not None and each.passed for each in self.results):
            self.segment.passes = True
        elif (all if is_whole else any)(each is not None for each in self.results):
            texts = [translated[id(each)].text if id(each) in translated else each.text for each in self.sentences]
            placed = [each.place(text) for each, text in zip(self.sentences, texts, strict=True)]
            self.segment.translated = join(self.sentences, placed)


def refuse_options(asked: Collection[str]) -> None:
    """Check that no option was given that is about lines.

    Raises:
        UserError: one was; see `refuse_unserved`.
    """
    who = "a document, which is translated as a whole"
    refuse_unserved(who, EVERYTHING - {*ASKED} | {"terms"}, None, asked, "leave it out, or --document lines")


def ledger(translated: int, kept: Sequence[Kept], refused: int) -> list[str]:
    """What became of a document's texts with letters, as lines for people.

    Args:
        translated: the number of texts that are translated.
        kept: those that the document's reader did not hand over, and those that are addresses or placeholders alone.
        refused: the number of texts that the engine refused, or a sentence of them.
    """
    total = translated + len(kept) + refused
    sums = [f"{total:,} texts with letters: {translated:,} translated, {len(kept):,} kept, {refused:,} refused"]
    lines: dict[str, list[int]] = {}
    for each in kept:
        lines.setdefault(each.reason, []).append(each.line)
    places = (f"{len(at):,} {reason} (first in line {min(at):,})" for reason, at in lines.items())
    return [*sums, f"kept: {', '.join(places)}"] if kept else sums


class _Report:
    """Places with doubtful translations, or none."""

    def __init__(self, name: Path, terms: Terms | None = None) -> None:
        self._name, self._terms = name, terms
        self._refused: list[tuple[int, UserError]] = []
        self._places: dict[str, list[int]] = {}

    def refused(self, line: int, fault: UserError) -> None:
        """A sentence that stays as it is."""
        self._refused.append((line, fault))

    def refuse_all(self) -> None:
        """Refuse a document without a translation.

        Raises:
            UserError: the first fault, with its place in the document if it is that of a sentence; none if nothing was
                refused.
        """
        for line, fault in self._refused[:1]:
            if not (fault.where or "").startswith(f"{SENTENCE}:"):
                raise fault
            more = f" (and {len(self._refused) - 1:,} more sentences)" if len(self._refused) > 1 else ""
            raise UserError(f"{fault.what}{more}", f"{self._name}:{line}", fault.todo)

    def add(self, line: int, text: str, translation: Translation) -> None:
        """The translation of a text."""
        signs = {
            "lack a term of --terms": self._terms is not None and bool(self._terms.missing(text, translation.text)),
            "reached the output limit; see --max-ratio and --max-extra": translation.at_limit,
            "repeat themselves, as the source does not": any(translation.repetitive[:1]),
            "are empty": not translation.text.strip(),
            "leave out a sentence of their texts; see --complete": bool(
                translation.omitted and translation.text.strip()
            ),
            "were made again a sentence at a time, as a sentence was left out; see --complete": translation.mended,
            "are of texts with characters that the vocabulary lacks": bool(translation.unknown),
            "have other placeholders, mark-up, addresses or paths than their texts": bool(translation.differing),
            "were made in parts, since the sentences are too long for one piece; see --split": translation.too_long,
        }
        for sign, is_so in signs.items():
            if is_so:
                self._places.setdefault(sign, []).append(line)

    def warnings(self) -> list[str]:
        """What the user is to know."""
        left = [
            f"not translated: {UserError(fault.what, f'{self._name}:{line}', fault.todo).line()}"
            for line, fault in self._refused
        ]
        doubts = []
        for sign, lines in self._places.items():
            shown = ", ".join(map(str, lines[:SHOWN])) + f" and {len(lines) - SHOWN:,} more" * (len(lines) > SHOWN)
            doubts.append(f"{len(lines):,} translations {sign} ({self._name}, lines {shown})")
        return left + doubts


def _translate(
    engine: Engine,
    decode: Decode,
    texts: Sequence[tuple[Sentence, int]],
    report: _Report,
    display: Display,
    terms: Terms | None,
) -> dict[int, Translation]:
    """The translations by the identity of the sentence; `texts` are sentences with their lines.

    Raises:
        UserError: the engine refuses every sentence.
    """
    translated: dict[int, Translation] = {}
    translate = partial(engine.translate, scored=False, terms=terms)
    done = 0
    for group in portions(iter(texts)):
        lines = [sentence.text for sentence, _ in group]
        try:
            results: list[Translation | None] = [*translate(lines, decode, 1, done + 1, SENTENCE)]
        except UserError:
            results = []
            for number, (sentence, line) in enumerate(group, done + 1):
                try:
                    results += translate([sentence.text], decode, 1, number, SENTENCE)
                except UserError as fault:
                    report.refused(line, fault)
                    results.append(None)
        for (sentence, line), result in zip(group, results, strict=True):
            if result is not None:
                translated[id(sentence)] = result
                report.add(line, sentence.text, result)
        done += len(group)
        display.show("translating", done / len(texts), f"{done:,} of {len(texts):,} sentences")
    if not translated:
        report.refuse_all()
    return translated
