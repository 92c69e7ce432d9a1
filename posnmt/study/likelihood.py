"""Likelihood by position in a study: losses of a test's references from all runs, their report, and both read again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import TypedDict

from posnmt.errors import UserError
from posnmt.files import load_json, write_json, write_text

if TYPE_CHECKING:
    from posnmt.analyse.likelihood import Design, EncodedTest, Expected, Reached
    from posnmt.analyse.losses import Losses, Scored
    from posnmt.config.schema import Positions
    from posnmt.report.likelihood import LikelihoodReport
    from posnmt.run import Run

Say = Callable[[str], None]
PLAIN, AFTER_SHORT, AFTER_LONG = "losses", "after-short", "after-long"
"""Names of designs, and of their files."""
PLACES = {PLAIN: "", AFTER_SHORT: " after a short one", AFTER_LONG: " after a long one"}
"""Design -> where its sentences stand."""
ABOUT = "likelihood.json"
TABLE = "likelihood.csv"


class _About(TypedDict):
    """What the files of losses do not say."""

    baseline: str
    notes: list[str]


@dataclass(frozen=True)
class Model:
    """A run that is scored.

    Attributes:
        scored: its system, as the report calls it, and its seed.
        run: of its training.
        positions: changes of positions; None: those of the run's configuration.
    """

    scored: Scored
    run: Run
    positions: Positions | None = None


@dataclass(frozen=True)
class Likelihood:
    """What a finished step has.

    Attributes:
        notes: what was left out.
        csv: its table.
        report: None where the systems have different subwords, so that `csv` is by character.
    """

    notes: Sequence[str]
    csv: str
    report: LikelihoodReport | None


def save(models: Sequence[Model], baseline: str, test: Path, swap: bool, folder: Path, say: Say) -> None:
    """Score the references of a test, and write losses, table and page.

    Args:
        models: one or more, of any vocabularies.
        baseline: the system that the others are compared with.
        test: folder of the text.
        swap: whether sentences are also scored after a short and after a long one of their documents, if there are any.
        folder: to write to.
        say: called with progress lines.

    Raises:
        UserError: a run lacks the lengths of its training, or no sentence fits the position tables of all runs.
    """
    from posnmt.analyse.by_character import CharacterLosses, character_csv
    from posnmt.analyse.losses_files import write_losses
    from posnmt.report.write import write_files

    of_vocabulary: dict[str, list[Model]] = {}
    for model in models:
        of_vocabulary.setdefault(model.run.text_hash(), []).append(model)
    groups = list(of_vocabulary.values())
    scoring = _Scoring(groups, test, swap, say)
    about: _About = {"baseline": baseline, "notes": scoring.notes}
    write_json(folder / ABOUT, about)
    for name, of_groups in scoring.losses.items():
        for number, losses in enumerate(of_groups, 1):
            write_losses(folder / (f"{name}-{number}.npz" if len(groups) > 1 else f"{name}.npz"), losses)
    if len(groups) > 1:
        pieces = [group[0].run.text().target.subwords.pieces for group in groups]
        losses_by_character = CharacterLosses.of(list(zip(scoring.losses[PLAIN], pieces, strict=True)))
        write_text(folder / TABLE, character_csv(losses_by_character))
    elif (report := read(folder).report) is not None:
        write_files(report.files(), folder)


def read(folder: Path) -> Likelihood:
    """What `save` wrote; the report is computed from the losses.

    Raises:
        UserError: a file is damaged.
    """
    from posnmt.analyse.losses_files import read_losses
    from posnmt.report.likelihood import likelihood_report

    about: _About = load_json(
        folder / ABOUT, _About, "the notes on losses", "delete the folder, and run the study again"
    )
    if not (folder / f"{PLAIN}.npz").exists():
        return Likelihood(about["notes"], (folder / TABLE).read_text(encoding="utf-8"), None)
    after_short, after_long = (
        read_losses(path) if (path := folder / f"{name}.npz").exists() else None for name in (AFTER_SHORT, AFTER_LONG)
    )
    losses = read_losses(folder / f"{PLAIN}.npz")
    report = likelihood_report(losses, after_short, after_long, baseline=about["baseline"], notes=about["notes"])
    return Likelihood(report.notes, report.csv, report)


class _Scoring:
    """The losses of models on a test.

    Args:
        groups: of models that share a vocabulary.
        test, swap, say: see `save`.

    Attributes:
        losses: name of a design -> those of each group.
        notes: what was left out, in sentences.
    """

    def __init__(self, groups: Sequence[Sequence[Model]], test: Path, swap: bool, say: Say) -> None:
        from posnmt.analyse.likelihood import Reached, losses_of

        self._say, self.notes = say, list[str]()
        reached = [Reached.of(group[0].run) for group in groups]
        for group, its_first in zip(groups, reached, strict=True):
            self.notes += _other_lengths(group, its_first)
        tests, has_documents = self._encoded(groups, test)
        designs = self._designs(tests, reached[0], swap, has_documents)
        expected = [self._expected(group, text, designs) for group, text in zip(groups, tests, strict=True)]
        self.losses: dict[str, list[Losses]] = {}
        for name, design in designs.items():
            self._note_undefined(name, [each for group in expected for each in group[name]])
            self.losses[name] = [
                losses_of(text, design, group[name], its_reached)
                for text, group, its_reached in zip(tests, expected, reached, strict=True)
            ]

    def _encoded(self, groups: Sequence[Sequence[Model]], test: Path) -> tuple[list[EncodedTest], bool]:
        """The test in the subwords of each group, and whether it has documents."""
        from posnmt.analyse.likelihood import BLOCK, EncodedTest, document_numbers
        from posnmt.data.corpus import document_of

        sources, targets = _lines(test / "source"), _lines(test / "target")
        ids = [document_of(line) or "" for line in _lines(test / "documents")] if (test / "documents").exists() else []
        if not ids:
            self.notes.append(f"The test has no document ids: each {BLOCK} lines count as a document.")
        numbers = document_numbers(ids, len(sources))
        return [EncodedTest.of(group[0].run.text(), sources, targets, numbers) for group in groups], bool(ids)

    def _designs(
        self, tests: Sequence[EncodedTest], reached: Reached, swap: bool, has_documents: bool
    ) -> dict[str, Design]:
        """The designs by name."""
        from posnmt.analyse.likelihood import Design
        from posnmt.analyse.preceding import swap_designs

        designs = {PLAIN: Design.plain(tests[0])}
        if not swap:
            return designs
        if len(tests) > 1 or not has_documents:
            why = "the systems have different subwords" if len(tests) > 1 else "the test has no document ids"
            self.notes.append(f"No sentence was scored after a short and after a long one: {why}.")
        elif (swapped := swap_designs(tests[0], reached.source)) is None:
            self.notes.append("No sentence has both a short and a long enough one in its document.")
        else:
            designs |= dict(zip((AFTER_SHORT, AFTER_LONG), swapped, strict=True))
        return designs

    def _expected(
        self, group: Sequence[Model], test: EncodedTest, designs: Mapping[str, Design]
    ) -> dict[str, list[Expected]]:
        """Name of a design -> what each model of a group expects."""
        from posnmt.analyse.likelihood import expect

        by_design: dict[str, list[Expected]] = {name: [] for name in designs}
        for model in group:
            self._say(f"scoring with {model.scored.name}")
            for name, each in expect(model.run, test, designs, positions=model.positions).items():
                by_design[name].append(replace(each, model=model.scored))
        return by_design

    def _note_undefined(self, name: str, expected: Sequence[Expected]) -> None:
        """Note in how many sentences of a design each model is defined, if not in all.

        Raises:
            UserError: in none are all models.
        """
        kept = np.logical_and.reduce([each.defined for each in expected])
        for each in expected:
            if not each.defined.all():
                count, total = int(each.defined.sum()), len(each.defined)
                self.notes.append(
                    f"{each.model.name} is undefined where a text is longer than its position table: defined in "
                    f"{count:,} of {total:,} sentences{PLACES[name]}; {int(kept.sum()):,} are compared."
                )
        if not kept.any():
            what = f"no sentence{PLACES[name]} fits the position tables of all systems"
            raise UserError(what, "likelihoods", "leave out the system with the shortest table")


def _other_lengths(group: Sequence[Model], reached: Reached) -> Iterator[str]:
    """A sentence that says whose training lengths zones are those of, where runs differ."""
    from posnmt.analyse.likelihood import Reached

    others = {model.scored.system for model in group[1:] if not reached.same_lengths(Reached.of(model.run))}
    if others:
        yield (
            f"Zones are those of the training of {group[0].scored.system}; {', '.join(sorted(others))} had sentences "
            "of other lengths."
        )


def _lines(path: Path) -> list[str]:
    """The lines of a text of a study, which was checked when it was made."""
    from posnmt.data.corpus import Findings, TextFile, read_lines

    return list(read_lines(TextFile("text", path), Findings(accept=("empty", "crlf"))))
