"""The tables of a study, in the layout of its recipe, with our figures and the published ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

from posnmt.evaluation.analyse.bins import TrainedLengths, few, mark_of
from posnmt.evaluation.report.grid import Cell, Grid, Head, Row, Sheet, stem, with_best
from posnmt.evaluation.report.significance import agreed
from posnmt.study import published
from posnmt.study.layout import CORPORA, PARTS, Column, Table, words_at
from posnmt.study.marks import signs, uncorrected
from posnmt.study.measured import StudyResults, Variant
from posnmt.study.measures import OF_RUNS, SPEEDS
from posnmt.study.measures import measure as measure_of

SPREAD = "Figures are means over seeds ± standard deviations."
IN_TURN = "Speeds are means over turns, in which the systems were measured one after the other."
NOT_IN_TURN = "Not measured in turn with the others; the speed of each training is under Cost."


def sheets(results: StudyResults) -> list[Sheet]:
    """All tables of the recipe, in its order."""
    tables: list[Sheet] = []
    for table in results.recipe.tables:
        name = stem(f"table-{table.table}", [each.name for each in tables])
        grids, legend = KINDS[table.kind](results, table)
        sheet = Sheet(name, f"Table {table.table}", words_at(table.caption, results.scale), grids)
        spread = [SPREAD] if any(cell.spread for cell in sheet.cells) else []
        note = [words_at(table.note, results.scale)] if table.note else []
        tables.append(replace(sheet, legend=[*spread, *legend, *note]))
    return tables


def figure_cell(
    results: StudyResults,
    variant: Variant,
    values: dict[int, float],
    measure: str,
    analysis: str | None,
    unit: float = 1,
    decimals: int | None = None,
) -> Cell:
    """The mean of a figure over seeds, or why there is none.

    Args:
        results: of the study.
        variant: the system and its training.
        values: seed -> figure.
        measure: of the figure.
        analysis: of the figure; None: a measure of runs.
        unit, decimals: of the published figures in the column.
    """
    absence = results.absence(variant, analysis)
    if not values:
        if absence is not None:
            return Cell(own=absence[0], note=_sentence(absence[1]), absent=True)
        return Cell(own="–", note=_unmeasured(results, measure, analysis), absent=True)
    mean, several = fmean(values.values()), len(values) > 1 and measure not in SPEEDS
    deviation = stdev(values.values()) if several else 0.0
    return Cell(
        own=published.show(mean, measure, unit, decimals),
        spread=published.show_spread(deviation, measure, unit, decimals) if several and measure not in OF_RUNS else "",
        note=_sentence(absence[1]) if absence else "",
        mean=mean,
        deviation=deviation if several else None,
        seeds=1 if measure in SPEEDS else len(values),  # speeds are those of one seed, in several turns
    )


def _sentence(text: str) -> str:
    """A reason as a sentence of its own."""
    return f"{text[0].upper()}{text[1:]}."


def _unmeasured(results: StudyResults, measure: str, analysis: str | None) -> str:
    """Why there is no figure, although the system was run and analysed."""
    if measure in SPEEDS:
        return NOT_IN_TURN
    if analysis is None:
        return "It was not recorded."
    measured = results.measured[analysis].results["systems"][0]["overall"]
    return "" if measure in measured else f"The analysis {analysis} does not measure {measure_of(measure).title}."


def _scores(results: StudyResults, table: Table) -> tuple[list[Grid], list[str]]:
    """A row per system, a column per measure."""
    variants = [results.variant(row) for row in table.rows]
    by_cell, legend = signs(results, table)
    if results.speeds and any(column.measure in SPEEDS for column in table.columns):
        legend.append(IN_TURN)
    columns = [_column(results, variants, column) for column in table.columns]
    signed = [
        [replace(column[row], sign=by_cell.get((row, number), "")) for number, column in enumerate(columns)]
        for row in range(len(variants))
    ]
    cells = with_best(signed, [measure_of(column.measure).higher for column in table.columns])
    cited, headings = _cited(table), _headings(table)
    if cited:
        headings.setdefault(0, "The paper's own")
    rows = [
        Row(label, of_row, headings.get(number, ""))
        for number, (label, of_row) in enumerate(zip(results.labels(variants), cells, strict=True))
    ]
    return [Grid([Head(words_at(column.title, results.scale)) for column in table.columns], [*cited, *rows])], legend


def _cited(table: Table) -> list[Row]:
    """The rows that the paper cites."""
    columns = [
        published.texts([figures[number] for figures in table.cited.values()], column.published_unit)
        for number, column in enumerate(table.columns)
    ]
    return [
        Row(name, [Cell(published=texts[number]) for texts in columns], "" if number else "Cited by the paper")
        for number, name in enumerate(table.cited)
    ]


def _column(results: StudyResults, variants: Sequence[Variant], column: Column) -> list[Cell]:
    """The cells of a column, without signs; speeds with their ratio to the first row's, as measured in turn."""
    unit, decimals = column.published_unit, published.decimals(column.published)
    texts = published.texts(column.published, unit) or [""] * len(variants)
    numbers = [published.value(figure, unit) for figure in column.published] or [None] * len(variants)
    of_run = column.measure in OF_RUNS
    cells: list[Cell] = []
    for variant, text, number in zip(variants, texts, numbers, strict=True):
        cell = Cell()
        if column.analysis is not None or of_run:
            values = results.values(variant, column.measure, column.analysis)
            analysis = None if of_run else column.analysis
            cell = figure_cell(results, variant, values, column.measure, analysis, unit, decimals)
        cell = replace(cell, published=text)
        if column.measure in SPEEDS and cells:
            of_published = f"{number / numbers[0]:.2f}×" if number is not None and numbers[0] else ""
            ratio = _in_turn(results, variant, variants[0], column.measure)
            cell = replace(cell, ratio=ratio, published_ratio=of_published)
        cells.append(cell)
    return cells


def _in_turn(results: StudyResults, variant: Variant, first: Variant, measure: str) -> str:
    """The mean over turns of a system's speed as a multiple of the first row's; empty if one was not measured."""
    of, than = (results.values(each, measure, None).values() for each in (variant, first))
    ratios = [one / other for one, other in zip(of, than, strict=False)]
    return f"{fmean(ratios):.2f}×" if ratios else ""


def _headings(table: Table) -> dict[int, str]:
    return {row: heading for heading, row in table.groups.items()}


def _by_length(results: StudyResults, table: Table) -> tuple[list[Grid], list[str]]:
    """A row per system, a column per bin and measure; lengths that do not occur in a system's training are marked."""
    variants = [results.variant(row, table.analysis) for row in table.rows]
    measured = results.measured.get(table.analysis or "")
    if table.analysis is None or measured is None:
        titles = [measure_of(measure) for measure in table.measures] if table.analysis else []
        absent = [
            [figure_cell(results, variant, {}, measure, table.analysis) for measure in table.measures if table.analysis]
            for variant in variants
        ]
        return _with_published(results, table, variants, [Head(each.title) for each in titles], absent), _unanalysed(
            table
        )
    bins, unit = measured.results["bins"], measured.results["settings"]["unit"]
    columns = [(number, measure) for number in range(len(bins)) for measure in table.measures]
    rows = []
    for variant in variants:
        cells, trained = [], _trained(results, variant)
        for number, measure in columns:
            cell = Cell(own="–", absent=True)
            if bins[number]["n"]:
                values = measured.values(variant, measure, number)
                cell = figure_cell(results, variant, values, measure, table.analysis)
            apart = few(bins[number]["n"]) and cell.mean is not None
            cells.append(replace(cell, training=mark_of(bins[number], trained), few=apart))
        rows.append(cells)
    heads = [
        Head(measure_of(measure).title, bins[number]["label"], f"n = {bins[number]['n']:,}")
        for number, measure in columns
    ]
    legend = [f"By source length in {'subwords' if unit == 'tokens' else unit}; n is how many sentences there are."]
    marked = with_best(rows, [measure_of(measure).higher for _, measure in columns])
    return _with_published(results, table, variants, heads, marked), legend


def _trained(results: StudyResults, variant: Variant) -> TrainedLengths:
    """The source lengths of a system's training, from the first run that has recorded them."""
    for run in results.runs_of(variant):
        if run["source_lengths"]:
            return TrainedLengths(*run["source_lengths"])
    return TrainedLengths()


def _significance(results: StudyResults, table: Table) -> tuple[list[Grid], list[str]]:
    """The signs of each row's system against each column's (Neishi and Yoshinaga 2019, Table 4)."""
    variants = [results.variant(row, table.analysis) for row in table.rows]
    measured = results.measured.get(table.analysis or "")
    heads = [Head(label) for label in results.labels(variants)]
    if table.analysis is None:
        empty = [[Cell() for _ in variants] for _ in variants]
        return _with_published(results, table, variants, heads, empty), _unanalysed(table)
    rows = [[_significance_cell(results, table, row, column) for column in variants] for row in variants]
    legend = [
        f"Each row against each column, by {measure_of(table.measures[0]).title}: >> better and << worse with "
        f"p < 0.01, > and < with p < 0.05, ~ neither ({table.test.replace('_', ' ')})"
        f"{uncorrected([measured] if measured else [])}."
    ]
    if measured is not None and any(len(seeds) > 1 for seeds in measured.places.values()):
        legend.append(
            "With several seeds, a sign is shown only if it holds for every pair of a seed of one and one of the other."
        )
    grids = _with_published(results, table, variants, heads, rows)
    return [replace(grid, matrix=True) for grid in grids], legend


def _significance_cell(results: StudyResults, table: Table, row: Variant, column: Variant) -> Cell:
    """One cell of the significance matrix."""
    assert table.analysis is not None
    if row == column:
        return Cell()
    measured = results.measured.get(table.analysis)
    for variant in (row, column):
        if measured is None or variant not in measured.places:
            word, why = results.absence(variant, table.analysis) or ("missing", "it was not analysed")
            return Cell(own=word, note=_sentence(why), absent=True)
    assert measured is not None
    sign = agreed(measured.results, table.measures[0], table.test, measured.outputs(row), measured.outputs(column))
    if sign is None:
        return Cell(own="–", note=f"The analysis {table.analysis} did not test this.", absent=True)
    return Cell(own=sign)


def _unanalysed(table: Table) -> list[str]:
    """The legend of a table without an analysis: it has only published figures."""
    return [] if table.analysis else ["The paper's figures alone: the recipe measures nothing of this."]


def _with_published(
    results: StudyResults, table: Table, variants: Sequence[Variant], heads: list[Head], rows: list[list[Cell]]
) -> list[Grid]:
    """`merge_published` with the labels of systems."""
    return merge_published(table, results.labels(variants), heads, rows, _headings(table))


def merge_published(
    table: Table, labels: Sequence[str], heads: list[Head], rows: list[list[Cell]], headings: dict[int, str]
) -> list[Grid]:
    """Put published figures beside ours where the headings agree; the other published figures form a second grid."""
    keys = [f"{head.group} {head.title}".strip() for head in heads]
    titles = (table.published_columns or keys) if table.published else []
    columns = {title: published.texts([row[place] for row in table.published]) for place, title in enumerate(titles)}
    grids = []
    if (keys and table.analysis is not None) or table.kind in ("parts", "corpora"):
        ours = [_with_figures(cells, keys, columns, number) for number, cells in enumerate(rows)]
        grids.append(_grid(heads, labels, ours, headings))
    rest = [title for title in titles if title not in keys or not grids]
    if rest:
        theirs = [[Cell(published=columns[title][number]) for title in rest] for number in range(len(labels))]
        grids.append(_grid([_published_head(title, table) for title in rest], labels, theirs, headings))
    if len(grids) == 2:
        grids = [replace(grid, title=title) for grid, title in zip(grids, ("Ours", "Published"), strict=True)]
    return grids


def _with_figures(
    cells: Sequence[Cell], keys: Sequence[str], columns: Mapping[str, Sequence[str]], row: int
) -> list[Cell]:
    """The cells of a row, with published figures in the columns that have some."""
    return [
        replace(cell, published=columns[key][row]) if key in columns else cell
        for key, cell in zip(keys, cells, strict=True)
    ]


def _grid(heads: list[Head], labels: Sequence[str], rows: list[list[Cell]], headings: dict[int, str]) -> Grid:
    return Grid(heads, [Row(label, cells, headings.get(number, ""))
                        for number, (label, cells) in enumerate(zip(labels, rows, strict=True))])  # fmt: skip


def _published_head(title: str, table: Table) -> Head:
    """The heading of a published column; in a table by length, the bin is the heading of a group of columns."""
    group, _, measure = title.partition(" ")
    if table.kind != "by-length" or not measure:
        return Head(title)
    count = table.published_n.get(group)
    return Head(measure, group, "" if count is None else f"n = {count:,}")


def _parts(results: StudyResults, table: Table) -> tuple[list[Grid], list[str]]:
    """The length-controlled training texts (Neishi and Yoshinaga 2019, Table 5)."""
    names = table.rows or list(results.parts)
    trainings = results.recipe.trainings
    labels = [trainings[name].label or name if name in trainings else name for name in names]
    facts = [_part(results.parts.get(name)) for name in names]
    return _counts(table, labels, PARTS, facts, "It is not known: this text was not made.", "Training")


def _part(known: dict[str, Any] | None) -> list[int | None] | None:
    if known is None:
        return None
    return [known["source"]["shortest"], known["source"]["longest"], known["pairs"], known["source"]["tokens"]]


def _corpora(results: StudyResults, table: Table) -> tuple[list[Grid], list[str]]:
    """How large every corpus is (Neishi and Yoshinaga 2019, Table 1)."""
    names = table.rows or list(results.corpora)
    keys = ("pairs", "source_tokens", "target_tokens")
    facts = [[results.corpora[name][key] for key in keys] if name in results.corpora else None for name in names]
    return _counts(table, names, CORPORA, facts, "It is not known: this corpus is not part of the study.", "Corpus")


def _counts(
    table: Table, labels: Sequence[str], titles: Sequence[str], facts: Sequence[Any], unknown: str, corner: str
) -> tuple[list[Grid], list[str]]:
    """A table of counts; cells of unknown counts have the note `unknown`."""
    if not labels:
        return [], ["Nothing of this is known."]
    rows = [list(_count_cells(each, len(titles), unknown)) for each in facts]
    grids = merge_published(table, labels, [Head(title) for title in titles], rows, _headings(table))
    return [replace(grid, corner=corner) for grid in grids], []


def _count_cells(counts: Sequence[int | None] | None, width: int, unknown: str) -> Iterator[Cell]:
    for count in counts or [None] * width:
        if count is None:
            yield Cell(own="–", note=unknown, absent=True)
        else:
            yield Cell(own=f"{count:,}", mean=count, seeds=1)


KINDS = {
    "scores": _scores,
    "by-length": _by_length,
    "significance": _significance,
    "parts": _parts,
    "corpora": _corpora,
}
