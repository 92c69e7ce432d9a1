"""Likelihood by position in a study: score the references of a test with all runs, report, and read both again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired

from typing_extensions import TypedDict

from posnmt.base.files import load_json
from posnmt.base.output import write_json, write_text
from posnmt.data.corpus import Findings, TextFile, document_of, read_lines

if TYPE_CHECKING:
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


def save(
    models: Sequence[Model], baseline: str, test: Path, swap: bool, shift: int | None, folder: Path, say: Say
) -> None:
    """Score the references of a test, and write losses, table and page.

    Args:
        models: one or more, of any vocabularies.
        baseline: the system that the others are compared with.
        test: folder of the text.
        swap: whether sentences are also scored after a short and after a long sentence of their document.
        shift: sentences are also scored with positions that begin at this number; None: they are not.
        folder: to write to.
        say: called with progress lines.

    Raises:
        UserError: a run lacks the lengths of its training, no sentence fits the position tables of all runs, or
            positions are shifted of a model that has none.
    """
    from posnmt.evaluation.analyse.losses import write_all
    from posnmt.evaluation.analyse.scoring import Scoring, Test
    from posnmt.evaluation.report.likelihood import TABLE
    from posnmt.evaluation.report.write import likelihood_files, write_files

    scoring = Scoring(
        models, Test(lines_of(test / "source"), lines_of(test / "target"), documents_of(test)), swap, shift
    )
    scoring.score(say)
    about: _About = {"baseline": baseline, "notes": scoring.notes, "shift": shift}
    write_json(folder / ABOUT, about)
    write_all(scoring.losses, folder)
    if len(scoring.groups) > 1:
        write_text(folder / TABLE, scoring.by_character())
    elif (report := read(folder).report) is not None:
        write_files(likelihood_files(report), folder)


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
