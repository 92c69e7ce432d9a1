"""Likelihood by position in a study: score the references of a test with all runs, report, and read both again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired

import numpy as np
from typing_extensions import TypedDict

from posnmt.base.errors import UserError
from posnmt.base.files import load_json
from posnmt.base.output import write_json, write_text
from posnmt.data.corpus import Findings, TextFile, document_of, read_lines

if TYPE_CHECKING:
    from posnmt.evaluation.analyse.losses import Losses, Scored
    from posnmt.evaluation.analyse.scoring import Model
    from posnmt.evaluation.report.likelihood import LikelihoodReport

Say = Callable[[str], None]
ABOUT = "likelihood.json"


class _About(TypedDict):
    """Facts that the files of losses do not hold."""

    baseline: str
    notes: list[str]
    shift: NotRequired[int | None]


@dataclass(frozen=True)
class Likelihood:
    """The result of a finished step.

    Attributes:
        notes: what was left out.
        csv: its table.
        report: None if the systems have different subwords; `csv` is then by character.
    """

    notes: Sequence[str]
    csv: str
    report: LikelihoodReport | None


@dataclass(frozen=True)
class TakenOver:
    """Models of a likelihood whose losses were taken over from a copy, beside those that are scored here.

    Attributes:
        models: the settings of all models, in their order; those with a `row` are taken over.
        scored: their names.
        files: design -> the file of losses.
    """

    models: Sequence[Mapping[str, Any]]
    scored: Sequence[Scored]
    files: Mapping[str, Path]


def save(
    models: Sequence[Model],
    baseline: str,
    test: Path,
    swap: bool,
    shift: int | None,
    folder: Path,
    say: Say,
    taken: TakenOver | None = None,
) -> None:
    """Score the references of a test, and write losses, table and page.

    Args:
        models: those that are scored, of any vocabularies; none if all losses were taken over.
        baseline: the system that the others are compared with.
        test: folder of the text.
        swap: whether sentences are also scored after a short and after a long sentence of their document.
        shift: sentences are also scored with positions that begin at this number; None: they are not.
        folder: to write to.
        say: called with progress lines.
        taken: the models whose losses were taken over.

    Raises:
        UserError: a run lacks the lengths of its training, no sentence fits the position tables of all runs,
            positions are shifted of a model that has none, or the losses taken over are of another text.
    """
    from posnmt.evaluation.analyse.losses import write_all
    from posnmt.evaluation.analyse.scoring import Scoring, Test, undefined
    from posnmt.evaluation.report.likelihood import TABLE
    from posnmt.evaluation.report.write import likelihood_files, write_files

    notes: list[str] = []
    losses: dict[str, list[Losses]] = {}
    scoring = None
    if models:
        scoring = Scoring(
            models, Test(lines_of(test / "source"), lines_of(test / "target"), documents_of(test)), swap, shift
        )
        scoring.score(say)
        notes, losses = scoring.notes, scoring.losses
    if taken is not None:
        losses = {name: [each] for name, each in _with_taken(losses, taken).items()}
        count = sum("row" in each for each in taken.models)
        notes = [*notes, f"The losses of {count} of {len(taken.models)} models are those of a published copy."]
    about: _About = {"baseline": baseline, "notes": [*notes, *undefined(losses)], "shift": shift}
    write_json(folder / ABOUT, about)
    write_all(losses, folder)
    if scoring is not None and len(scoring.groups) > 1:
        write_text(folder / TABLE, scoring.by_character())
    elif (report := read(folder).report) is not None:
        write_files(likelihood_files(report), folder)


def _with_taken(own: Mapping[str, Sequence[Losses]], taken: TakenOver) -> dict[str, Losses]:
    """Design -> the losses of all models: those scored here and those taken over.

    The designs are those that were taken over. The lengths of trainings are those of the first model.

    Raises:
        UserError: the losses taken over are of another text, of other designs, or in other subwords.
    """
    from posnmt.evaluation.analyse.losses import of_models, read_losses, together, without_text

    over = [number for number, model in enumerate(taken.models) if "row" in model]
    here = [number for number in range(len(taken.models)) if number not in over]
    found = {}
    for design, path in taken.files.items():
        try:
            rows = [taken.models[number]["row"] for number in over]
            parts = [(over, of_models(read_losses(path), rows, [taken.scored[number] for number in over]))]
            if here:
                [losses] = own[design]
                parts.append((here, without_text(losses)))
            parts.sort(key=lambda part: part[0][0])
            whole = together([losses for _, losses in parts])
        except (ValueError, IndexError, KeyError):
            what = "the losses that were taken over are of another text, or in other subwords"
            raise UserError(what, path, "delete the folder, and train again what the study compares") from None
        order = np.argsort([number for numbers, _ in parts for number in numbers])
        found[design] = of_models(whole, order.tolist(), taken.scored)
    return found


def read(folder: Path) -> Likelihood:
    """Read what `save` wrote; the report is computed from the losses.

    Raises:
        UserError: a file is damaged.
    """
    from posnmt.evaluation.analyse.losses import AFTER_LONG, AFTER_SHORT, PLAIN, SHIFTED, of_shifts, read_losses
    from posnmt.evaluation.report.likelihood import TABLE, likelihood_report

    about = load_json(folder / ABOUT, _About, "the notes on losses", "delete the folder, and run the study again")
    if not (folder / f"{PLAIN}.npz").exists():
        return Likelihood(about["notes"], (folder / TABLE).read_text(encoding="utf-8"), None)
    after_short, after_long = (
        read_losses(path) if (path := folder / f"{name}.npz").exists() else None for name in (AFTER_SHORT, AFTER_LONG)
    )
    losses = read_losses(folder / f"{PLAIN}.npz")
    shifted = of_shifts({path.stem: read_losses(path) for path in folder.glob(f"{SHIFTED}*.npz")}, about.get("shift"))
    report = likelihood_report(losses, after_short, after_long, shifted, about["baseline"], about["notes"])
    return Likelihood(report.notes, report.csv, report)


def documents_of(text: Path) -> list[str]:
    """The document of each line of a text of a study; empty if documents are not known."""
    path = text / "documents"
    return [document_of(line) or "" for line in lines_of(path)] if path.exists() else []


def lines_of(path: Path) -> list[str]:
    """The lines of a text of a study, which was checked when it was made."""
    return list(read_lines(TextFile("text", path), Findings(accept=("empty", "crlf"))))
