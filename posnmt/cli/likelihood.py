"""`posnmt score --by-position`: reads the text, scores the runs, and prints or writes the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posnmt.errors import UserError, quoted, raise_all

if TYPE_CHECKING:
    from posnmt.analyse.likelihood import Design, EncodedTest, Expected, Reached
    from posnmt.analyse.losses import Losses
    from posnmt.config.schema import Positions
    from posnmt.report.likelihood import LikelihoodReport
    from posnmt.run import Run

PLAIN, AFTER_SHORT, AFTER_LONG, SHIFTED = "losses", "after-short", "after-long", "shift"
"""Names of designs, and of their files."""


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
    from posnmt.analyse.losses_files import write_losses
    from posnmt.progress import Display
    from posnmt.report.write import place_faults, write_files
    from posnmt.run import Run, refuse_existing

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
    scored = Comparison(runs, request, display)
    report = scored.report()
    if request.out is None:
        print(report.csv if report else scored.by_character(), end="")
    else:
        write_files(report.files() if report else {"likelihood.csv": scored.by_character().encode()}, request.out)
        for name, losses in scored.losses.items():
            write_losses(request.out / f"{name}.npz", losses)
        display.say(f"written: {request.out}")
    if report:
        for note in report.effects.notes:
            display.say(f"note: {note}")
        for sentence in report.sentences:
            display.say(sentence)


class Comparison:
    """The losses of runs on one test, by design; runs with one vocabulary are compared by subword.

    Attributes:
        losses: name of a design -> its losses; with several vocabularies, `losses-1` and so on for each of them.
        notes: what is to be said of the text and the runs; said as soon as it is known.

    Raises:
        UserError: see `score_by_position`.
    """

    def __init__(self, runs: Sequence[Run], request: Request, display: Any) -> None:
        from posnmt.analyse.likelihood import Reached, losses_of

        self.request, self.display = request, display
        self.notes: list[str] = []
        for note in _differences(runs):
            self._note(note)
        groups: dict[str, list[Run]] = {}
        for run in runs:
            groups.setdefault(run.text_hash(), []).append(run)
        self.groups = list(groups.values())
        if len(self.groups) > 1 and (request.swap or request.shift is not None):
            what = "sentences are swapped and positions shifted for runs with the same subwords, and these have several"
            raise UserError(what, "--swap" if request.swap else "--shift", "leave it out, or train from one store")
        if len(self.groups) > 1 and request.baseline is not None:
            what = "systems with several vocabularies are shown beside each other, without differences"
            raise UserError(what, "--baseline", "leave it out, or train from one store")
        self.reached = [Reached.of(group[0]) for group in self.groups]
        self._say_other_lengths()
        tests = self._tests()
        self.designs = self._designs(tests[0], self.reached[0])
        expected = [self._expected(group, test) for group, test in zip(self.groups, tests, strict=True)]
        self.losses: dict[str, Losses] = {}
        for name, design in self.designs.items():
            self._refuse_undefined(name, [each[name] for each in expected])
            for number, (test, each, reached) in enumerate(zip(tests, expected, self.reached, strict=True), 1):
                named = f"{name}-{number}" if len(self.groups) > 1 else name
                self.losses[named] = losses_of(test, design, each[name], reached)

    def report(self) -> LikelihoodReport | None:
        """All figures of runs with one vocabulary; None: they have several."""
        from posnmt.report.likelihood import likelihood_report

        if len(self.groups) > 1:
            return None
        shifted = {
            f"{name.removeprefix(f'{SHIFTED}-')} +{self.request.shift}": losses
            for name, losses in self.losses.items()
            if name.startswith(f"{SHIFTED}-")
        }
        swapped = self.losses.get(AFTER_SHORT), self.losses.get(AFTER_LONG)
        return likelihood_report(self.losses[PLAIN], *swapped, shifted, self.request.baseline, self.notes)

    def by_character(self) -> str:
        """Bits per character of runs with several vocabularies, as CSV."""
        from posnmt.analyse.by_character import CharacterLosses, character_csv

        pieces = [group[0].text().target.subwords.pieces for group in self.groups]
        return character_csv(CharacterLosses.of(list(zip(self.losses.values(), pieces, strict=True))))

    def _note(self, text: str) -> None:
        """Say a note, and keep it for the report."""
        self.display.say(f"note: {text}")
        self.notes.append(text)

    def _tests(self) -> list[EncodedTest]:
        """The test in the subwords of each group."""
        from posnmt.analyse.likelihood import BLOCK, EncodedTest, document_numbers
        from posnmt.data.marks import mark_for

        sources, targets, ids = _read(self.request)
        documents = document_numbers(ids, len(sources))
        if not ids:
            self._note(f"Without --documents, each {BLOCK} lines count as a document.")
        self.display.say(f"{len(sources):,} sentences of {len(np.unique(documents)):,} documents")
        tests = []
        for run, *_ in self.groups:
            mark = "" if self.request.to is None else mark_for(self.request.to, run.marks)
            tests.append(EncodedTest.of(run.text().marked(mark), sources, targets, documents))
        return tests

    def _designs(self, test: EncodedTest, reached: Reached) -> dict[str, Design]:
        """The designs by name."""
        from posnmt.analyse.likelihood import Design
        from posnmt.analyse.preceding import swap_designs

        plain = Design.plain(test)
        designs = {PLAIN: plain}
        if self.request.swap:
            swapped = swap_designs(test, reached.source)
            if swapped is None:
                what = "no sentence has both a short and a long enough one in its document"
                raise UserError(what, "--swap", "add the other sentences of the documents to the test, or leave it out")
            designs |= dict(zip((AFTER_SHORT, AFTER_LONG), swapped, strict=True))
        if self.request.shift is not None:
            shifted = plain.shifted(self.request.shift)
            designs |= {f"{SHIFTED}-{side}": design for side, design in shifted.items()}
        return designs

    def _expected(self, group: Sequence[Run], test: EncodedTest) -> dict[str, list[Expected]]:
        """Name of a design -> what the model of each run of a group expects."""
        from posnmt.analyse.likelihood import expect

        by_design: dict[str, list[Expected]] = {name: [] for name in self.designs}
        for run in group:
            self.display.say(f"scoring {run.folder}")
            expected = expect(run, test, self.designs, self.request.checkpoint, _positions(self.request.positions))
            for name, each in expected.items():
                by_design[name].append(each)
        return by_design

    def _refuse_undefined(self, name: str, of_groups: Sequence[Sequence[Expected]]) -> None:
        """Say in how many sentences of a design each model is defined, if not in all.

        Raises:
            UserError: in none are all models.
        """
        models = [each for group in of_groups for each in group]
        kept = np.logical_and.reduce([each.defined for each in models])
        for each in models:
            if not each.defined.all():
                count, total = int(each.defined.sum()), len(each.defined)
                self._note(
                    f"{each.model.name} is undefined where a text is longer than its position table: defined in"
                    f" {count:,} of {total:,} sentences ({count / total:.1%}) of {name};"
                    f" {int(kept.sum()):,} are compared."
                )
        if not kept.any():
            what = f"in {name}, no sentence fits the position tables of all runs"
            raise UserError(what, self.request.source, "leave the run with the shortest table out")

    def _say_other_lengths(self) -> None:
        """Say which run's training lengths zones and exposures are those of, where runs differ."""
        from posnmt.analyse.likelihood import Reached

        for group, reached in zip(self.groups, self.reached, strict=True):
            others = [run.folder for run in group[1:] if not reached.same_lengths(Reached.of(run))]
            if others:
                self._note(
                    f"Training lengths are those of {group[0].folder}; {', '.join(map(str, others))} had others."
                )


def _positions(changes: dict[str, Any] | None) -> Positions | None:
    from posnmt.config.schema import Positions

    return None if changes is None else Positions.model_validate(changes)


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
    from posnmt.analyse.likelihood import named

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
    from posnmt.analyse.likelihood import named

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
