"""`posnmt score --by-position`: reads the text, scores the runs, and prints or writes the report."""

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
    """What is to be scored, as the options have it.

    Attributes:
        source, target, documents: text files; `documents` has a document id for each line.
        out: a new folder for the files.
        swap: whether sentences are also scored after a short and after a long one of their document.
        shift: positions also begin at this number.
        baseline: the system that others are compared with; None: that of the first run.
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
    """Score the models of runs, and write the report and all losses, or print its table.

    Raises:
        UserError: faulty text, runs that cannot be compared, or that do not have what a design needs.
    """
    from posnmt.base.progress import Display
    from posnmt.evaluation.analyse.losses_files import write_all
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
    known = len(scoring.notes)
    scoring.score(display.say)
    for note in scoring.notes[known:]:
        display.say(f"note: {note}")
    report = _report(scoring, request, [*notes, *scoring.notes[known:]])
    if request.out is None:
        print(report.csv if report else scoring.by_character(), end="")
    else:
        write_files(likelihood_files(report) if report else {TABLE: scoring.by_character().encode()}, request.out)
        write_all(scoring.losses, request.out)
        display.say(f"written: {request.out}")
    if report:
        for note in report.effects.notes:
            display.say(f"note: {note}")
        for sentence in report.sentences:
            display.say(sentence)


def _scoring(runs: Sequence[Run], request: Request) -> Scoring:
    """The runs and the test, with the designs that are asked for; nothing is scored yet.

    Raises:
        UserError: faulty text, or a design is not possible.
    """
    from posnmt.config.schema import Positions
    from posnmt.evaluation.analyse.likelihood import named
    from posnmt.evaluation.analyse.losses_files import AFTER_SHORT
    from posnmt.evaluation.analyse.scoring import Model, Scoring, Test

    positions = None if request.positions is None else Positions.model_validate(request.positions)
    models = [Model(named(run), run, request.checkpoint, positions) for run in runs]
    if len({run.text_hash() for run in runs}) > 1:
        _refuse_with_several_vocabularies(request)
    scoring = Scoring(models, Test(*_read(request), request.to), request.swap, request.shift)
    if request.swap and AFTER_SHORT not in scoring.designs:
        what = "no sentence has both a short and a long enough one in its document"
        raise UserError(what, "--swap", "add the other sentences of the documents to the test, or leave it out")
    return scoring


def _refuse_with_several_vocabularies(request: Request) -> None:
    """Raise `UserError` for options that need runs with the same subwords."""
    if request.swap or request.shift is not None:
        what = "sentences are swapped and positions shifted for runs with the same subwords, and these have several"
        raise UserError(what, "--swap" if request.swap else "--shift", "leave it out, or train from one store")
    if request.baseline is not None:
        what = "systems with several vocabularies are shown beside each other, without differences"
        raise UserError(what, "--baseline", "leave it out, or train from one store")


def _report(scoring: Scoring, request: Request, notes: Sequence[str]) -> LikelihoodReport | None:
    """All figures of runs with one vocabulary; None: they have several."""
    from posnmt.evaluation.analyse.losses_files import AFTER_LONG, AFTER_SHORT, PLAIN, of_shifts
    from posnmt.evaluation.report.likelihood import likelihood_report

    if len(scoring.groups) > 1:
        return None
    losses = {name: of_groups[0] for name, of_groups in scoring.losses.items()}
    swapped = losses.get(AFTER_SHORT), losses.get(AFTER_LONG)
    shifted = of_shifts(losses, request.shift)
    return likelihood_report(losses[PLAIN], *swapped, shifted, request.baseline, notes)


def _read(request: Request) -> tuple[list[str], list[str], list[str]]:
    """Source lines, target lines and document ids; no ids where there is no file of them.

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
            raise UserError(
                "a line without a document id", f"{request.documents}:{number}", "write one id on each line"
            )
        ids.append(name)
    return sources, targets, ids


def _refuse_twice(runs: Sequence[Run]) -> None:
    """Check that each run is another system or seed.

    Raises:
        UserError: two are the same.
    """
    from posnmt.evaluation.analyse.likelihood import named

    first: dict[tuple[str, int], Run] = {}
    for run in runs:
        model = named(run)
        other = first.setdefault((model.system, model.seed), run)
        if other is not run:
            what = f"two runs of {model.system} with seed {model.seed}: {other.folder} and {run.folder}"
            raise UserError(what, "RUN", "name one of them, or score each in a command of its own")


def _refuse_unknown(baseline: str | None, runs: Sequence[Run]) -> None:
    """Check the name of a baseline before anything is scored.

    Raises:
        UserError: no run is of this system.
    """
    from posnmt.evaluation.analyse.likelihood import named

    systems = list(dict.fromkeys(named(run).system for run in runs))
    if baseline is not None and baseline not in systems:
        raise UserError(
            f"no run is of the system {quoted(baseline)}", "--baseline", f"choose from {', '.join(systems)}"
        )


def _differences(runs: Sequence[Run]) -> Iterator[str]:
    """A sentence for each setting that makes losses of runs hard to compare, and differs."""
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
