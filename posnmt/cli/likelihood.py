"""`posnmt score --by-position`: read the text, score the runs, and print or write the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posnmt.base.errors import UserError, quoted, raise_all

if TYPE_CHECKING:
    from posnmt.evaluation.analyse.scoring import Scoring
    from posnmt.evaluation.report.likelihood import LikelihoodReport
    from posnmt.run.run import Run


@dataclass(frozen=True)
class Request:
    """The options of a command that scores by position.

    Attributes:
        source, target, documents: text files; `documents` has a document id for each line.
        out: a new folder for the files; None: print the table.
        swap: whether to score each sentence also after a short and after a long sentence of its document.
        shift: score also with positions that begin at this number; None: do not.
        baseline: the system that others are compared with; None: the system of the first run.
        checkpoint, positions, to: see `posnmt score`.
    """

    source: Path
    target: Path
    documents: Path | None
    out: Path | None
    swap: bool
    shift: int | None
    baseline: str | None
    checkpoint: str
    positions: dict[str, Any] | None
    to: str | None


def score_by_position(folders: Sequence[Path], request: Request) -> None:
    """Score the models of runs. Write the report and all losses, or print the report's table.

    Raises:
        UserError: the text is faulty, or the runs cannot be compared in the designs that the options ask for.
    """
    from posnmt.base.output import creating
    from posnmt.base.progress import Display
    from posnmt.evaluation.analyse.losses import write_all
    from posnmt.evaluation.analyse.scoring import undefined
    from posnmt.evaluation.report.likelihood import TABLE
    from posnmt.evaluation.report.write import likelihood_files, place_faults, write_files
    from posnmt.run.run import Run, refuse_existing

    if request.swap and request.documents is None:
        what = "the preceding sentence is one of the same document, and no document ids are given"
        raise UserError(what, "--swap", "add --documents")
    if request.out is not None:
        raise_all(place_faults(request.out))
        refuse_existing(request.out, "the output folder", "choose another --out")
    display = Display()
    runs = [Run.open(folder) for folder in folders]
    _refuse_twice(runs)
    _refuse_unknown(request.baseline, runs)
    scoring = _scoring(runs, request)
    notes = [*_differences(runs), *scoring.notes]
    for note in notes:
        display.say(f"note: {note}")
    scoring.score(display.say)
    further = [*undefined(scoring.losses)]
    for note in further:
        display.say(f"note: {note}")
    report = _report(scoring, request, [*notes, *further])
    if request.out is None:
        print(report.csv if report else scoring.by_character(), end="")
    else:
        request.out.parent.mkdir(parents=True, exist_ok=True)
        with creating(request.out) as building:
            write_files(likelihood_files(report) if report else {TABLE: scoring.by_character().encode()}, building)
            write_all(scoring.losses, building)
        display.say(f"written: {request.out}")
    if report:
        for note in report.effects.notes:
            display.say(f"note: {note}")
        for sentence in report.sentences:
            display.say(sentence)


def _scoring(runs: Sequence[Run], request: Request) -> Scoring:
    """Prepare the runs, the test and the requested designs. Nothing is scored yet.

    Raises:
        UserError: the text is faulty, or a design is not possible with it.
    """
    from posnmt.config.schema import Positions
    from posnmt.evaluation.analyse.likelihood import named
    from posnmt.evaluation.analyse.losses import AFTER_SHORT
    from posnmt.evaluation.analyse.scoring import Model, Scoring, Test

    positions = None if request.positions is None else Positions.model_validate(request.positions)
    models = [Model(named(run), run, request.checkpoint, positions) for run in runs]
    if len({run.text_hash() for run in runs}) > 1:
        _refuse_with_several_vocabularies(request)
    scoring = Scoring(models, Test(*_read(request), request.to), request.swap, request.shift)
    if request.swap and AFTER_SHORT not in scoring.designs:
        what = "no document has both a short enough and a long enough sentence to put before another"
        raise UserError(what, "--swap", "add the other sentences of the documents to the test, or leave --swap out")
    return scoring


def _refuse_with_several_vocabularies(request: Request) -> None:
    """Raise `UserError` for options that need runs with the same subwords."""
    if request.swap or request.shift is not None:
        what = "this needs runs with the same subwords, and these runs have several vocabularies"
        raise UserError(what, "--swap" if request.swap else "--shift", "leave it out, or train from one store")
    if request.baseline is not None:
        what = "runs with several vocabularies are not compared with a baseline"
        raise UserError(what, "--baseline", "leave it out, or train from one store")


def _report(scoring: Scoring, request: Request, notes: Sequence[str]) -> LikelihoodReport | None:
    """All figures of the runs; None if they have several vocabularies."""
    from posnmt.evaluation.analyse.losses import AFTER_LONG, AFTER_SHORT, PLAIN, of_shifts
    from posnmt.evaluation.report.likelihood import likelihood_report

    if len(scoring.groups) > 1:
        return None
    losses = {name: of_groups[0] for name, of_groups in scoring.losses.items()}
    swapped = losses.get(AFTER_SHORT), losses.get(AFTER_LONG)
    shifted = of_shifts(losses, request.shift)
    return likelihood_report(losses[PLAIN], *swapped, shifted, request.baseline, notes)


def _read(request: Request) -> tuple[list[str], list[str], list[str]]:
    """Source lines, target lines and document ids. The list of ids is empty if there is no file of them.

    Raises:
        UserError: faulty text, different line counts, or a line without an id.
    """
    from posnmt.data.corpus import Findings, TextFile, document_of, read_lines

    findings = Findings(accept=("empty", "crlf"))
    files = [TextFile("source", request.source), TextFile("target", request.target)]
    if request.documents is not None:
        files.append(TextFile("documents", request.documents))
    texts = [list(read_lines(file, findings)) for file in files]
    if len({len(lines) for lines in texts}) > 1:
        findings.misaligned(files, [len(lines) for lines in texts])
    findings.raise_all()
    sources, targets, *more = texts
    ids = []
    for number, line in enumerate(more[0] if more else [], 1):
        name = document_of(line)
        if name is None:
            raise UserError("the line has no document id", f"{request.documents}:{number}", "write one id on each line")
        ids.append(name)
    return sources, targets, ids


def _refuse_twice(runs: Sequence[Run]) -> None:
    """Check that no two runs have the same system and seed.

    Raises:
        UserError: two runs do.
    """
    from posnmt.evaluation.analyse.likelihood import named

    first: dict[tuple[str, int], Run] = {}
    for run in runs:
        model = named(run)
        other = first.setdefault((model.system, model.seed), run)
        if other is not run:
            what = f"two runs are of {model.system} with seed {model.seed}: {other.folder} and {run.folder}"
            raise UserError(what, "RUN", "name one of them, or score them in separate commands")


def _refuse_unknown(baseline: str | None, runs: Sequence[Run]) -> None:
    """Check that some run is of the baseline's system.

    Raises:
        UserError: none is.
    """
    from posnmt.evaluation.analyse.likelihood import named

    systems = list(dict.fromkeys(named(run).system for run in runs))
    if baseline is not None and baseline not in systems:
        raise UserError(
            f"no run is of the system {quoted(baseline)}", "--baseline", f"choose from {', '.join(systems)}"
        )


def _differences(runs: Sequence[Run]) -> Iterator[str]:
    """A sentence for each setting that differs between runs and makes their losses hard to compare."""
    settings = {
        "train.label_smoothing": lambda run: run.config.train.label_smoothing,
        "train.precision": lambda run: run.config.train.precision,
        "the checkpoint that became the model": lambda run: run.record.get("model", "not recorded"),
    }
    for name, read in settings.items():
        values = {run.folder: read(run) for run in runs}
        if len(set(values.values())) > 1:
            shown = ", ".join(f"{folder} has {value}" for folder, value in values.items())
            yield f"Losses are compared although runs differ in {name}: {shown}."
