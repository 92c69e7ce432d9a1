"""`posnmt translate` of a document."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, existing_file
from posnmt.base.extras import requires
from posnmt.base.progress import Display
from posnmt.config.schema import Decode
from posnmt.data.portions import portions
from posnmt.deploy.command import elsewhere, refuse_ensemble
from posnmt.deploy.documents.formats import WHOLE, read
from posnmt.deploy.documents.segment import Kept, Sentence, divide, has_letters, join
from posnmt.translate.command import Chosen, Engine, choose_runs
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
    format of `WHOLE`, so does its segment. A segment without words, such as an address, stays as well.

    Args:
        chosen: the engine and the settings of search.
        form: a name in `ENDINGS`.
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
    wanted = [segment for segment in document.segments if segment.has_letters]
    divided = [divide(segment, languages[0]) for segment in wanted]
    texts = [
        (each, segment.line)
        for segment, parts in zip(wanted, divided, strict=True)
        for each in parts
        if has_letters(each.text)
    ]
    with Display() as display:
        report = _Report(name, glossary)
        alone = chosen.decode.model_copy(update={"join": 1})  # neighbours in a document may be a title and a menu
        translated = _translate(engine, alone, texts, report, display, glossary)
        kept: list[Kept] = []
        for segment, parts in zip(wanted, divided, strict=True):
            results = [translated.get(id(each)) for each in parts if has_letters(each.text)]
            if all(each is not None and each.passed for each in results):
                segment.passes = True
                kept.append(Kept(segment.line, " ".join(each.text for each in parts), "text without words"))
            elif (all if form in WHOLE else any)(each is not None for each in results):
                placed = [
                    each.place(translated[id(each)].text if id(each) in translated else each.text) for each in parts
                ]
                segment.translated = join(parts, placed)
        content = document.content()
        write_whole(output, content)
        blank = len(document.segments) - len(wanted)
        done = refused = through = 0
        for segment, parts in zip(wanted, divided, strict=True):
            if not segment.passes:
                results = [translated.get(id(each)) for each in parts if has_letters(each.text)]
                is_done = segment.translated is not None and None not in results
                done, refused = done + is_done, refused + (not is_done)
                if segment.translated is not None:
                    through += sum(each is not None and not each.passed for each in results)
        kept = [*document.kept, *kept]
        display.say(f"note: {through:,} of {len(texts):,} sentences in {len(wanted):,} segments are translated")
        if blank:
            display.say(f"note: {blank:,} segments without letters are left as they are")
        for note in [*ledger(done, kept, refused), *document.notes, *engine.notes]:
            display.say(f"note: {note}")
        for warning in report.warnings():
            display.say(f"warning: {warning}")


def choose(
    engine: str, folders: Sequence[Path], checkpoint: str, search: dict[str, Any], with_terms: bool = False
) -> Chosen:
    """What is to translate, by the options of `posnmt translate`; `with_terms`: whether it is given a glossary.

    Raises:
        UserError: see `choose_runs` and `elsewhere`.
    """
    if engine == "torch":
        return choose_runs(folders, checkpoint, search)
    refuse_ensemble(folders)
    return elsewhere(engine, folders[0], checkpoint, search, ["terms"] if with_terms else [])


def refuse_options(given: dict[str, Any]) -> None:
    """Check that no option was given that is about lines.

    Raises:
        UserError: one was; `given` are options and whether they were.
    """
    if options := [name for name, value in given.items() if value]:
        raise UserError("a document is translated as a whole", ", ".join(options), "leave it out, or --document lines")


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
