"""`posnmt translate` and `posnmt score`: from files or standard input to lines, in order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from posnmt.base.progress import Display
from posnmt.base.version import __version__
from posnmt.config.schema import Positions
from posnmt.config.writing import is_foreign
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.data.marks import lacks_mark, mark_for
from posnmt.run.run import Run
from posnmt.translate.engine import Engine
from posnmt.translate.engines import ModelChoice
from posnmt.translate.options import SPEED_ALONE
from posnmt.translate.output import Output, PartialOutput, opened
from posnmt.translate.records import output_lines
from posnmt.translate.requests import Search
from posnmt.translate.runs import DIGITS
from posnmt.translate.source import Files, Source
from posnmt.translate.summary import WARNINGS, summary
from posnmt.translate.terms import Terms
from posnmt.translate.translator import Translator, choose_runs


@dataclass(frozen=True)
class Work:
    """The amount and duration of a translation.

    Attributes:
        lines: lines translated.
        source_subwords: of these lines.
        seconds: from text to text, without the loading of the model.
    """

    lines: int
    source_subwords: int
    seconds: float


def translate_file(folder: Path, files: Files, search: dict[str, Any]) -> Work:
    """Translate a file by a run, as text.

    Args:
        search: settings of `decode` that override the run's; `positions` as a whole.

    Raises:
        UserError: no run folder, or as `translate_lines`.
    """
    return translate_lines(choose_runs([folder], "model", search), files)


def translate_lines(
    model: ModelChoice,
    files: Files,
    form: str = "text",
    nbest: int = 1,
    alignments: bool = False,
    resume: bool = False,
) -> Work:
    """Translate a file or standard input, portion by portion.

    Args:
        model: loaded when the text has been checked.
        form: `text` or `jsonl`.
        nbest: translations of each line.
        alignments: whether the words of translations are linked to those of their lines.
        resume: go on with an output that was begun; see `posnmt.translate.output.opened`.

    Raises:
        UserError: faulty text (a file is checked completely before anything is translated), nbest above the beam, a
            line too long for a finite position table, or an output that cannot be written or resumed.
    """
    search = Search(model.decode, nbest, scored=form == "jsonl" or nbest > 1, aligned=alignments)
    search.refuse_too_many()
    source = Source.read(files, model.decode.join)
    search = replace(search, terms=None if files.terms is None else Terms.read(files.terms))
    engine = model.load()
    tags = () if engine.text.source.mark else tuple(model.marks())
    subwords, started = 0, time.monotonic()

    def settings() -> dict[str, Any]:
        return _settings(model, engine, source, search) | {"format": form}

    with Display() as display, opened(files.output, settings, resume) as out, _kept(out, source.is_pipe, display):
        record = out.record
        if source.lines is not None and resume:
            display.say(f"resuming after {record.lines:,} of {source.lines:,} lines")
        for requests in source.portions(record.lines, model.decode.join):
            translations = engine.translate(requests, search)
            written = [line for each in translations for line in output_lines(each, form, nbest, engine.text.target)]
            for each in translations:
                line = each.request.line
                foreign, untagged = is_foreign(line, engine.text.source.words.language), lacks_mark(line, tags)
                remarks = [*each.remarks, *["foreign"] * foreign, *["untagged"] * untagged]
                record.remark(each.request.number, remarks)
            out.add("".join(written), len(requests))
            subwords += sum(len(each.source) for each in translations)
            if source.lines is not None:
                done = f"{record.lines:,} of {source.lines:,} lines"
                display.show("translating", record.lines / source.lines, done)
        for sentence in summary(record, model.decode, engine, source.findings, source.file):
            display.say(sentence)
    return Work(record.lines, subwords, time.monotonic() - started)


def _settings(model: ModelChoice, engine: Engine, source: Source, search: Search) -> dict[str, Any]:
    """What the translation of a line depends on, as JSON has it; a translation is resumed with the same alone."""
    return {
        "posnmt": __version__,
        "engine": engine.name,
        **source.settings,
        "terms": search.terms and search.terms.digest[:DIGITS],
        "mark": engine.text.source.mark,
        "alignments": search.aligned,
        **model.identity(),
        **search.decode.model_dump(exclude=SPEED_ALONE),
        **({"precision": engine.precision} if engine.precision else {}),
        "nbest": search.nbest,
    }


@contextmanager
def _kept(out: Output, is_pipe: bool, display: Display) -> Iterator[None]:
    """Say what is kept where a translation into a file ends early; a file can be resumed, a pipe cannot."""
    try:
        yield
    except BaseException:
        if isinstance(out, PartialOutput) and out.record.lines:
            what = f"the translations of the first {out.record.lines:,} lines are kept in {out.folder}"
            display.say(f"note: {what}" + "; --resume goes on from there" * (not is_pipe))
        raise


def score_files(
    folder: Path,
    source: Path,
    target: Path,
    checkpoint: str,
    positions: dict[str, Any] | None = None,
    to: str | None = None,
) -> None:
    """Print the log-probability of each pair of lines.

    Args:
        positions: changes of positions, in place of those of the run's configuration.
        to: the target language, of a model for several.

    Raises:
        UserError: faulty text, different line counts, a line too long for a finite position table, or no mark for the
            language.
    """
    run = Run.open(folder)
    mark = "" if to is None else mark_for(to, run.known_marks)
    findings = Findings(accept=("empty", "crlf"))
    files = [TextFile("source", source), TextFile("target", target)]
    sources, targets = (list(read_lines(file, findings)) for file in files)
    if len(sources) != len(targets):
        findings.misaligned(files, [len(sources), len(targets)])
    findings.raise_all()
    chosen = None if positions is None else Positions.model_validate(positions)
    translator = Translator.load([run], checkpoint, chosen)
    translator.text = translator.text.marked(mark)
    if untagged := 0 if mark else sum(lacks_mark(line, run.marks) for line in sources):
        with Display() as display:
            display.say(f"warning: {WARNINGS['untagged'].format(of=f'{untagged:,} of {len(sources):,}')}")
    for value in translator.score_lines(sources, targets, names=(str(source), str(target))):
        print(f"{value:.6f}")
