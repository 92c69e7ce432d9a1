"""`posnmt.analyse`: the command `posnmt analyse` as a function that returns values."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from pydantic import Field, NonNegativeInt, PositiveInt

from posnmt.api.arguments import checked, typed
from posnmt.base.errors import UserError, UserErrors, refuse_unknown
from posnmt.base.progress import Display
from posnmt.data.lines import checked_lines, listed
from posnmt.evaluation.analyse.analyse import Analysis as Measured
from posnmt.evaluation.analyse.analyse import analyse as measure
from posnmt.evaluation.analyse.citation import citation
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.evaluation.analyse.settings import Settings
from posnmt.evaluation.report.bands import BANDS, Bands
from posnmt.evaluation.report.figures.style import COLUMN, NARROWEST, WIDEST, Font, Style
from posnmt.evaluation.report.printed import OF_ONE_CHART, Figure, figures_of, of_analysis
from posnmt.metrics.registry import DEFAULT_METRICS

Lines = str | Path | Sequence[str]
"""A text: the path of a file, or a list of its lines."""

Numbers = str | Path | Sequence[float]
"""A score for each sentence: the path of a file, or a list."""

_NAMES = ("metrics", "lower_is_better")
"""Settings that are lists, and for which a single string is accepted too."""
_TEXTS = ("trained_on", "documents", "word_frequencies")
"""Settings that are texts."""
_RESAMPLING = tuple(each.name for each in fields(Resampling))
_SETTINGS = tuple(each.name for each in fields(Settings) if each.name != "resampling")


@dataclass(frozen=True, kw_only=True)
class _Checked(Settings):
    """Settings of an analysis with limits. On the command line, the options have these limits."""

    metrics: Annotated[Sequence[str], Field(min_length=1)] = DEFAULT_METRICS
    metric_batch: PositiveInt = 8
    processes: PositiveInt = 1


@dataclass(frozen=True)
class Analysis:
    """The result of `posnmt.analyse`.

    Attributes:
        measured: all values, with the texts and the counts of every sentence.
    """

    measured: Measured

    @property
    def results(self) -> dict[str, Any]:
        """All figures, as in `results.json`; docs/files.md describes the fields."""
        return self.measured.results

    @property
    def verdict(self) -> str:
        """The outcome of the comparison in a sentence, as the report states it."""
        sentence: str = self.results["verdict"]["sentence"]
        return sentence

    @property
    def citation(self) -> str:
        """The first sentence of the verdict with all that it depends on, to cite."""
        sentence: str = self.results["citation"]
        return sentence

    @typed
    def rows(self, table: str = "scores") -> list[dict[str, Any]]:
        """One of the tables of the report as rows, for `pandas.DataFrame(analysis.rows())`.

        Args:
            table: `scores` (a row for each system and length bin, with every measure and the ends of its interval; the
                bin `all` is the whole test set), `differences`, `cuts`, `significance`, `seeds`, `swap`, `positions`,
                `words`, `word_differences`, `lengths`, `places` or `completeness`.

        Returns:
            A dictionary column -> value for each row, with None for missing values; an empty list if this analysis has
            no such table.

        Raises:
            UserError: there is no table of this name.
        """
        from posnmt.evaluation.report.tables import TABLES, tables

        refuse_unknown(table, TABLES, "table")
        heading, rows = tables(self.results)[table]
        return [dict(zip(heading, row, strict=True)) for row in rows]

    @typed
    def figure(
        self,
        kind: str = "length",
        measure: str | None = None,
        systems: Sequence[str] = (),
        width: float = COLUMN,
        font: str = "sans",
        bands: str = "range",
    ) -> Figure:
        """A figure for print, as `posnmt figure` draws it. A notebook shows it, and `figure.save(path)` writes it.

        Args:
            kind: `length` (a measure by source length), `difference` (from the baseline), `place` (precision and
                recall by place in the sentence) or `swap`.
            measure: default: the main metric.
            systems: the names of those to draw; default: all.
            width: in inches.
            font: `sans`, or `serif`, which has the widths of Times.
            bands: what stands around the means of several seeds: `range` (from the lowest to the highest), `sd` (a
                standard deviation), `ci` (95 % intervals) or `none`. A single output has the interval of the analysis.

        Raises:
            UserError: an argument has another value, or the analysis has no such figure.
        """
        refuse_unknown(kind, OF_ONE_CHART, "kind of figure")
        refuse_unknown(font, get_args(Font), "font")
        refuse_unknown(bands, BANDS, "kind of bands")
        names = [systems] if isinstance(systems, str) else listed(systems, "systems")
        inches = checked(width, Annotated[float, Field(ge=NARROWEST, le=WIDEST)], "width")
        style = Style(inches, cast(Font, font), bands != "none", alone=True)
        [figure] = figures_of(of_analysis(self.results, kind, measure), style, cast(Bands, bands), names)
        return figure

    @typed
    def report(self, out: str | Path, examples: int | None = None) -> Path:
        """Write report.html, results.json, tables and figures into a folder; return the path of report.html.

        Args:
            out: the folder, created if it does not exist.
            examples: number of sentences in the page's example browser; None: all.

        Raises:
            UserError: the files cannot be written, or `examples` is not a whole number of 0 or more.
        """
        from posnmt.evaluation.report.write import write

        write(self.measured, Path(out), checked(examples, NonNegativeInt | None, "examples"))
        return Path(out) / "report.html"


@typed
def analyse(
    source: Lines,
    reference: Lines | Sequence[Path | Sequence[str | None]],
    outputs: Mapping[str, Lines],
    *,
    swapped: Mapping[tuple[str, float], Lines] | None = None,
    scores: Mapping[str, Mapping[str, Numbers]] | None = None,
    show_progress: bool = False,
    **settings: Any,
) -> Analysis:
    """Measure the translations of any systems, overall and by source length. Nothing is written.

    Args:
        source, reference: texts aligned line by line: lists of lines, or paths of files (plain, .gz, .xz).
            Several references are a list of `Path`s or of lists of lines; None or an empty line in one of them means
            that the sentence has no such reference.
        outputs: name of a system -> its translation of `source`; NAME:SEED for several seeds of a system.
        swapped: (name of a system, share of swapped words) -> its translation of the source with that share swapped.
        scores: metric -> name of a system -> sentence scores of another program, such as COMET: a list of numbers, or
            the path of a file with one per line.
        show_progress: whether to show progress on standard error.
        settings: those of `posnmt.evaluation.analyse.analyse.Settings`, such as `unit`, `bin_width`, `bin_edges`,
            `max_trained_length`, `trained_on`, `metrics` (one name or several), `target_language` and
            `bleu_tokenizer`, and those of resampling: `samples`, `seed`, `significance` and `correction`. The defaults
            are those of `posnmt analyse`.

    Raises:
        UserError: a setting is unknown, an argument has another type, or the settings or texts have faults. All faults
            are reported at once.
    """
    for name in settings:
        refuse_unknown(name, (*_SETTINGS, *_RESAMPLING), "setting of an analysis")
    outputs = checked(outputs, dict[str, Any], "outputs", "give a dictionary: name of a system -> its translation")
    todo = "give a dictionary: (name of a system, share of swapped words) -> its translation"
    swapped = checked(swapped or {}, dict[tuple[str, float], Any], "swapped", todo)
    todo = "give a dictionary of dictionaries: metric -> name of a system -> its scores"
    scores = checked(scores or {}, dict[str, dict[str, Any]], "scores", todo)
    settings = {name: [each] if name in _NAMES and isinstance(each, str) else each for name, each in settings.items()}
    resampling = checked({name: settings.pop(name) for name in _RESAMPLING if name in settings}, Resampling)
    with _files() as files, Display(quiet=not show_progress) as display:
        for name in _TEXTS:
            if settings.get(name) is not None:
                settings[name] = files.path(name, settings[name])
        measured = measure(
            files.path("source", source),
            files.references(reference),
            {name: files.path(f"outputs[{name!r}]", lines) for name, lines in outputs.items()},
            checked({"resampling": resampling, **settings}, _Checked),
            {key: files.path(f"swapped[{key!r}]", lines) for key, lines in swapped.items()},
            display.say,
            {
                metric: {name: files.numbers(f"scores[{metric!r}][{name!r}]", each) for name, each in systems.items()}
                for metric, systems in scores.items()
            },
        )
        for record in measured.results["inputs"]:
            record["path"] = files.renamed(record["path"])
        if (path := measured.results["words"]["frequencies"]) is not None:
            measured.results["words"]["frequencies"] = files.renamed(path)
        measured.results["citation"] = citation(measured.results)
    return Analysis(measured)


class _Files:
    """Writes lists of lines to files in a folder.

    Attributes:
        names: path of a file -> the argument whose lines it has.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, str] = {}

    def path(self, name: str, lines: str | Path | Sequence[str | None], optional: bool = False) -> Path:
        """The path of a text; a list of lines is written to a file.

        Args:
            name: the argument.
            lines: the text.
            optional: whether a line may be None, which means an empty line.

        Raises:
            UserError: an element of the list is not a line.
        """
        if isinstance(lines, str | Path):
            return Path(lines)
        return self._write(name, checked_lines(lines, name, optional))

    def references(self, reference: Lines | Sequence[Path | Sequence[str | None]]) -> Path | list[Path]:
        """The path of the reference, or the paths of several references, in which None is an empty line."""
        if isinstance(reference, str | Path):
            return Path(reference)
        texts = listed(reference, "reference")
        if all(isinstance(each, str | None) for each in texts):
            return self.path("reference", cast(Lines, texts))
        return [
            self.path(f"reference[{index}]", cast(Sequence[str | None], each), optional=len(texts) > 1)
            for index, each in enumerate(texts)
        ]

    def numbers(self, name: str, numbers: Numbers) -> Path:
        """The path of sentence scores; a list of numbers is written to a file."""
        if isinstance(numbers, str | Path):
            return Path(numbers)
        return self._write(name, [str(number) for number in listed(numbers, name)])

    def _write(self, name: str, lines: Sequence[str]) -> Path:
        path = self.folder / f"{len(self.names)}.txt"
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        self.names[str(path)] = name
        return path

    def renamed(self, text: str) -> str:
        """A text in which the paths of files are replaced by their arguments."""
        for path, name in self.names.items():
            text = text.replace(path, name)
        return text


@contextmanager
def _files() -> Iterator[_Files]:
    """A temporary folder for lists of lines. Errors name the arguments in place of its files."""
    with tempfile.TemporaryDirectory(prefix="posnmt-") as folder:
        files = _Files(Path(folder))
        try:
            yield files
        except UserErrors as errors:
            raise UserErrors([_renamed(fault, files) for fault in errors.faults]) from None
        except UserError as error:
            raise _renamed(error, files) from None


def _renamed(fault: UserError, files: _Files) -> UserError:
    where = None if fault.where is None else files.renamed(fault.where)
    return UserError(files.renamed(fault.what), where, fault.todo)
