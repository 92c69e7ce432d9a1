"""All figures of a study in one SQLite file, for pandas, DuckDB or Python's sqlite3.

The table `results` has a row for each run, condition, bin and measure; `runs` has a row for each training, finished or
not.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, existing_file
from posnmt.base.output import write_bytes

FILE = "results.sqlite"
PUBLISHED = "results.csv.xz"  # the table `results` in copies for others
# Column -> its type and what it holds.
RESULTS = {
    "recipe": ("TEXT", "name of the recipe"),
    "scale": ("TEXT", "smoke, small or paper"),
    "run": ("TEXT", "key of the training's step; the same in `runs`"),
    "system": ("TEXT", "as the recipe calls it"),
    "seed": ("INTEGER", "of the training"),
    "training_condition": ("TEXT", "how the training text was made, as the recipe calls it"),
    "test_condition": ("TEXT", "the analysis, or for decoding_speed the test, as the recipe calls it"),
    "swapped": ("REAL", "share of the words of the source that were swapped: 0 to 1"),
    "unit": (
        "TEXT",
        "what the bin counts: the unit of source lengths, or `tenths` or `words` for places in a sentence",
    ),
    "bin": ("TEXT", "label of a bin of source lengths, or of a place in a sentence; `all`: the whole test"),
    "first": ("INTEGER", "least source length of the bin; null for the whole test and for places"),
    "last": ("INTEGER", "greatest source length of the bin; null as for `first`, or if the bin has no upper limit"),
    "n": ("INTEGER", "sentences in the bin; for places the words there"),
    "measure": (
        "TEXT",
        "bleu, chrf, ter, length_ratio, precision, recall, decoding_speed (source tokens a second) ...",
    ),
    "value": ("REAL", "null where there is nothing to measure"),
    "low": ("REAL", "lower end of the 95 % interval over sentences; null without one"),
    "high": ("REAL", "its upper end"),
}
RUNS = {
    "run": ("TEXT", "key of the training's step"),
    "recipe": ("TEXT", "name of the recipe"),
    "scale": ("TEXT", "smoke, small or paper"),
    "system": ("TEXT", "as the recipe calls it"),
    "seed": ("INTEGER", "of the training"),
    "training_condition": ("TEXT", "how the training text was made"),
    "state": ("TEXT", "done, or why it is not: failed, blocked, altered, waiting, running"),
    "error": ("TEXT", "what went wrong, and what to do about it"),
    "parameters": ("INTEGER", "of the model"),
    "seconds": ("REAL", "of training"),
    "training_speed": ("REAL", "source tokens a second"),
    "updates": ("INTEGER", "of the weights"),
    "shortest": ("INTEGER", "source length in training"),
    "longest": ("INTEGER", "source length in training"),
    "config": ("TEXT", "SHA-256 of the run's config.yaml"),
    "posnmt": ("TEXT", "version that trained it"),
}
TABLES = {"results": RESULTS, "runs": RUNS}
PLAIN = re.compile(r"CREATE TABLE \w+ \(\w+ [A-Z]+(, \w+ [A-Z]+)*\)")
"""How tables are declared. A view or a computed column could have rows and texts without end in a small file."""

LONGEST = 1 << 20
"""The most bytes of a text in a table."""
Row = Mapping[str, Any]


def write(out: Path, recipe: str, scale: str, runs: Iterable[Mapping[str, Any]], analyses: Mapping[str, Path]) -> Path:
    """Write or replace the file of a study; return its path.
    Args:
        out: the study's folder.
        recipe, scale: what was run.
        runs: for each training `run` (the key of its step), `system`, `training`, `seed`, `state`, `error`,
            `parameters`, `seconds`, `training_speed`, `updates`, `source_lengths` ([shortest, longest] or None),
            `decoding_speed` (test -> source tokens a second), and `config` and `posnmt` where they are known.
        analyses: name -> folder with results.json (docs/files.md) and outputs.json.
    """
    trainings = list(runs)
    keys = {(run["system"], run["training"], run["seed"]): run["run"] for run in trainings}
    study = {"recipe": recipe, "scale": scale}
    results = [{**study, **_of(run), **row} for run in trainings for row in _speeds(run)]
    for name, folder in analyses.items():
        results += [{**study, **row} for row in _analysis(name, folder, keys)]
    return write_tables(out / FILE, {"results": results, "runs": [{**study, **_training(run)} for run in trainings]})


def write_tables(path: Path, tables: Mapping[str, Iterable[Row]]) -> Path:
    """Write tables to a file, replacing it atomically; return its path.
    Args:
        path: the file.
        tables: `results` and `runs` -> rows; a column that a row does not have is null.
    """
    with closing(sqlite3.connect(":memory:")) as database:  # in a file, SQLite would have a journal beside it
        for name, columns in TABLES.items():
            declared = ", ".join(f"{column} {kind}" for column, (kind, _) in columns.items())
            database.execute(f"CREATE TABLE {name} ({declared})")
            rows = [[row.get(column) for column in columns] for row in tables.get(name, ())]
            database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)  # noqa: S608
        database.commit()
        write_bytes(path, database.serialize())
    return path


def read(out: Path, query: str = "SELECT * FROM results", values: Sequence[Any] = ()) -> list[dict[str, Any]]:
    """The rows of an SQL query as dictionaries, column -> value.

    Args:
        out: the study's folder.
        query: in SQL, with `?` for each of `values`.

    Raises:
        UserError: the study has no results yet, they are not as `write_tables` writes them, or the query is invalid.
    """
    path = existing_file(out / FILE, "the study's results")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
            declared = [sql for (sql,) in database.execute("SELECT sql FROM sqlite_master")]
            if not all(PLAIN.fullmatch(str(sql)) for sql in declared):
                what = "the results have more than the tables of a study"
                raise UserError(what, path, "run `posnmt study report` again")
            cursor = database.execute(query, values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]
    except sqlite3.Error as error:
        todo = "correct the query, or run `posnmt study report` again"
        raise UserError(f"the results cannot be read: {error}", path, todo) from None


def _of(run: Row) -> dict[str, Any]:
    """The columns that identify the training of a row."""
    return {
        "run": run["run"], "system": run["system"], "seed": run["seed"], "training_condition": run["training"],
    }  # fmt: skip


def _training(run: Row) -> dict[str, Any]:
    shortest, longest = run.get("source_lengths") or (None, None)
    return {**{name: run.get(name) for name in RUNS}, **_of(run), "shortest": shortest, "longest": longest}


def _speeds(run: Row) -> Iterator[dict[str, Any]]:
    """A row with the decoding speed on each test."""
    for test, speed in (run.get("decoding_speed") or {}).items():
        yield {"test_condition": test, "swapped": 0.0, "bin": "all", "measure": "decoding_speed", "value": speed}


def _analysis(name: str, folder: Path, keys: Mapping[tuple[str, str, int], str]) -> Iterator[dict[str, Any]]:
    """The rows of an analysis: each output overall, by bin of source length and by place, and of swapped sources."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    outputs = json.loads((folder / "outputs.json").read_text(encoding="utf-8"))
    unit = results["settings"]["unit"]
    overall = {"unit": unit, "bin": "all"}
    bins = [
        {"unit": unit, "bin": each["label"], "first": each["first"], "last": each["last"]} for each in results["bins"]
    ]
    places = {system["name"]: place for place, system in enumerate(results["systems"])}
    curves = {curve["name"]: curve for curve in results["swap"] or []}
    for output in outputs:
        run = {**output, "run": keys.get((output["system"], output["training"], output["seed"]))}
        about = {**_of(run), "test_condition": name, "swapped": float(output["share"])}
        if output["share"]:
            curve = curves[output["name"]]
            rows = _swapped(curve, curve["shares"].index(output["share"]), overall)
        else:
            system = results["systems"][places[output["name"]]]
            spread = system["intervals"] or {"overall": {}, "bins": [{}] * len(bins)}
            rows = _measures(system["overall"], spread["overall"], overall)
            for place, scores, ends in zip(bins, system["bins"], spread["bins"], strict=True):
                rows += _measures(scores, ends, place)
            rows += _places(results["positions"], places[output["name"]])
        yield from ({**about, **row} for row in rows)


def _measures(scores: Row, ends: Row, place: Row) -> list[dict[str, Any]]:
    """A row for each measure of an output in one bin."""
    return [
        {**place, "n": scores["n"], "measure": measure, "value": value, **_interval(ends.get(measure))}
        for measure, value in scores.items()
        if measure != "n"
    ]


def _swapped(curve: Row, number: int, place: Row) -> list[dict[str, Any]]:
    """A row for each measure of a swap curve at one share."""
    ends = curve["intervals"] or {}
    return [
        {
            **place,
            "measure": measure,
            "value": values[number],
            **_interval(ends[measure][number] if ends.get(measure) else None),
        }
        for measure, values in curve.items()
        if measure not in ("name", "shares", "intervals")
    ]


def _places(positions: Row, number: int) -> Iterator[dict[str, Any]]:
    """Rows with precision and recall at each position in the sentence."""
    for way, unit in (("relative", "tenths"), ("absolute", "words")):
        curves = positions["systems"][number][way]
        for side, words in curves["n"].items():
            for label, count, value in zip(positions["places"][way], words, curves[side], strict=True):
                yield {"unit": unit, "bin": label, "n": count, "measure": side, "value": value}


def _interval(ends: Sequence[float] | None) -> dict[str, float | None]:
    low, high = ends or (None, None)
    return {"low": low, "high": high}
