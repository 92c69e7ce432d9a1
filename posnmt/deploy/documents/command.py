"""`posnmt translate` of a document."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from posnmt.base.errors import UserError, existing_file
from posnmt.base.extras import requires
from posnmt.base.progress import Display
from posnmt.data.lines import portions
from posnmt.data.marks import lacks_mark
from posnmt.deploy.documents.division import Division
from posnmt.deploy.documents.formats import FORMATS, read
from posnmt.deploy.documents.segment import Sentence
from posnmt.translate.engine import Engine
from posnmt.translate.engines import ModelChoice
from posnmt.translate.options import ASKED, EVERYTHING, refuse_unserved
from posnmt.translate.output import refuse_unwritable, write_whole
from posnmt.translate.requests import Request, Search
from posnmt.translate.terms import Terms
from posnmt.translate.translations import Translation

SHOWN = 10
"""Places that a warning lists."""


def translate_document(
    model: ModelChoice,
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
        model: its settings of search have `join` 1.
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
    engine = model.load()
    sides = engine.text.source, engine.text.target
    languages = languages or (sides[0].words.language, model.target or sides[1].words.language)
    document = read(form, data, name, languages)
    division = Division(document, languages[0], FORMATS[form].whole)
    with Display() as display:
        tags = () if engine.text.source.mark else tuple(model.marks())
        report, search = _Report(name, tags), Search(model.decode, scored=False, terms=glossary)
        translated = _translate(engine, search, name, division.texts, report, display)
        write_whole(output, division.content(translated))
        for note in [*division.notes(), *engine.notes]:
            display.say(f"note: {note}")
        for warning in report.warnings():
            display.say(f"warning: {warning}")


def refuse_options(asked: Collection[str]) -> None:
    """Check that no option was given that is about lines.

    Raises:
        UserError: one was; see `refuse_unserved`.
    """
    who = "a document, which is translated as a whole"
    refuse_unserved(who, EVERYTHING - {*ASKED} | {"terms"}, None, asked, "leave it out, or --document lines")


SIGNS = {
    "missing_terms": "lack a term of --terms",
    "at_limit": "reached the output limit; see --max-ratio and --max-extra",
    "repetitive": "repeat themselves, as the source does not",
    "empty": "are empty",
    "omitted": "leave out a sentence of their texts; see --complete",
    "mended": "were made again a sentence at a time, as a sentence was left out; see --complete",
    "unknown": "translate texts with characters that the vocabulary lacks",
    "differing": "lose, add or change placeholders, markup, addresses or paths of their texts",
    "untagged": "are of texts without a language tag of the training text; choose the target language with --to",
    "too_long": "were made in parts, since the sentences are too long for one piece; see --split",
}
"""Name in `posnmt.translate.translations.REMARKS`, `empty` or `untagged` → what is said of translations."""


class _Report:
    """Sentences that the engine refused, and places with doubtful translations.

    Args:
        tags: the language tags that sentences must begin with; empty: none is needed.
    """

    def __init__(self, name: Path, tags: Collection[str]) -> None:
        self._name, self._tags = name, tags
        self._refused: list[tuple[Request, UserError]] = []
        self._places: dict[str, list[int]] = {}

    def refused(self, request: Request, fault: UserError) -> None:
        """A sentence that stays as it is."""
        self._refused.append((request, fault))

    def refuse_all(self) -> None:
        """Refuse a document without a translation.

        Raises:
            UserError: the first fault, if anything was refused.
        """
        for request, fault in self._refused[:1]:
            more = len(self._refused) - 1
            if more and fault.where == request.where:
                raise UserError(f"{fault.what} (and {more:,} more sentences)", fault.where, fault.todo)
            raise fault

    def add(self, line: int, translation: Translation) -> None:
        """Note what is doubtful about the translation of a sentence in a line of the document."""
        is_empty = not translation.text.strip()
        signs = {*translation.remarks} - {"omitted"} | {"empty"} if is_empty else {*translation.remarks}
        signs |= {"untagged"} if lacks_mark(translation.request.line, self._tags) else set()
        for sign in SIGNS:
            if sign in signs:
                self._places.setdefault(sign, []).append(line)

    def warnings(self) -> list[str]:
        """What was not translated and which translations look wrong: a line for each."""
        left = [
            f"not translated: {UserError(fault.what, request.where, fault.todo).line()}"
            for request, fault in self._refused
        ]
        doubts = []
        for sign, lines in self._places.items():
            shown = ", ".join(map(str, lines[:SHOWN])) + f" and {len(lines) - SHOWN:,} more" * (len(lines) > SHOWN)
            doubts.append(f"{len(lines):,} translations {SIGNS[sign]} ({self._name}, lines {shown})")
        return left + doubts


def _translate(
    engine: Engine, search: Search, name: Path, texts: Sequence[tuple[Sentence, int]], report: _Report, display: Display
) -> dict[int, Translation]:
    """The translations by the identity of the sentence; `texts` are sentences with their lines in the document.

    Raises:
        UserError: the engine refuses every sentence.
    """
    requests = [Request(each.text, number, f"{name}:{line}") for number, (each, line) in enumerate(texts, 1)]
    translated: dict[int, Translation] = {}
    done = 0
    for group in portions(zip(texts, requests, strict=True)):
        results = _of_group(engine, search, [request for _, request in group], report)
        for ((sentence, line), _), result in zip(group, results, strict=True):
            if result is not None:
                translated[id(sentence)] = result
                report.add(line, result)
        done += len(group)
        display.show("translating", done / len(texts), f"{done:,} of {len(texts):,} sentences")
    if not translated:
        report.refuse_all()
    return translated


def _of_group(
    engine: Engine, search: Search, requests: Sequence[Request], report: _Report
) -> Sequence[Translation | None]:
    """The translations of sentences; if the engine refuses one, each is translated by itself. None: it is refused."""
    try:
        return engine.translate(requests, search)
    except UserError:
        results: list[Translation | None] = []
    for request in requests:
        try:
            results += engine.translate([request], search)
        except UserError as fault:
            report.refused(request, fault)
            results.append(None)
    return results
