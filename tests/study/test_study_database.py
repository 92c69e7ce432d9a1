"""All results in one SQLite file: every figure of the analyses is there, under its run and condition."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from posnmt.base.errors import UserError
from posnmt.evaluation.analyse.measure import Resampling
from posnmt.study import database
from tests.support.report_case import report_of, without_figures

SOURCES = ["ein Hund", "der Hund sieht eine Katze", "wir gehen heute nicht in das alte Haus am See", "ja"]
REFERENCES = ["a dog", "the dog sees a cat", "today we do not go into the old house by the lake", "yes"]
OUTPUTS = {
    ("relative", 1, 0): ["a dog", "the dog sees a cat", "we go today into the old house", "yes"],
    ("relative", 2, 0): ["a dog", "the cat sees a dog", "today we do not go into the house by the lake", "yes yes"],
    ("relative", 1, 0.5): ["dog a", "sees the dog a cat", "house old", "yes"],
}
RUNS = [
    {"run": "k1", "system": "relative", "training": "all", "seed": 1, "state": "done", "error": None,
     "parameters": 10**10, "seconds": 12.5, "training_speed": 99.0, "updates": 7, "source_lengths": [1, 5],
     "decoding_speed": {"newstest": 50.0}},
    {"run": "k2", "system": "relative", "training": "all", "seed": 2, "state": "failed", "error": "no; do",
     "source_lengths": None, "decoding_speed": {}},
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("analysis")


@pytest.fixture(scope="module")
def results(folder):
    def file(name, lines):
        path = folder / name
        path.write_text("".join(line + "\n" for line in lines))
        return path

    files = {key: file(f"output-{number}", lines) for number, (key, lines) in enumerate(OUTPUTS.items())}
    plain = {f"R:{seed}": path for (_, seed, share), path in files.items() if not share}
    swapped = {(f"R:{seed}", share): path for (_, seed, share), path in files.items() if share}
    source, reference, resampling = file("source", SOURCES), file("reference", REFERENCES), Resampling(samples=100)
    with without_figures():
        report_of(source, reference, plain, folder, swapped=swapped, bin_edges=[3, 6], resampling=resampling)
    outputs = [
        {"name": f"R:{seed}", "system": system, "training": "all", "seed": seed, "share": share}
        for system, seed, share in OUTPUTS
    ]
    (folder / "outputs.json").write_text(json.dumps(outputs))
    database.write(folder, "mine", "smoke", RUNS, {"by-length": folder})
    return json.loads((folder / "results.json").read_text())


def one(folder, query, *values):
    (row,) = database.read(folder, query, values)
    return row


def test_every_bin_is_a_row(folder, results):
    rows = database.read(
        folder, "SELECT * FROM results WHERE measure = 'bleu' AND seed = 2 AND swapped = 0 ORDER BY rowid"
    )
    assert [row["bin"] for row in rows] == ["all", *(each["label"] for each in results["bins"])]
    system = results["systems"][1]
    assert [row["value"] for row in rows] == [system["overall"]["bleu"], *(each["bleu"] for each in system["bins"])]
    assert [[row["low"], row["high"]] for row in rows[1:]] == [each["bleu"] for each in system["intervals"]["bins"]]
    assert [(row["first"], row["last"], row["n"]) for row in rows] == [
        (None, None, 4), *((each["first"], each["last"], each["n"]) for each in results["bins"])
    ]  # fmt: skip
    same = {"recipe": "mine", "scale": "smoke", "run": "k2", "system": "relative", "training_condition": "all"}
    assert all(row.items() >= {**same, "test_condition": "by-length", "unit": "words"}.items() for row in rows)


def test_swapped_sources_are_conditions(folder, results):
    row = one(folder, "SELECT * FROM results WHERE measure = 'chrf' AND swapped = 0.5")
    curve = results["swap"][0]
    assert (row["run"], row["bin"], row["value"]) == ("k1", "all", curve["chrf"][1])
    assert [row["low"], row["high"]] == curve["intervals"]["chrf"][1]


def test_places_in_the_sentence(folder, results):
    rows = database.read(folder, "SELECT * FROM results WHERE unit = 'words' AND measure = 'recall' AND seed = 1")
    curve = results["positions"]["systems"][0]["absolute"]
    assert [(row["n"], row["value"]) for row in rows] == list(zip(curve["n"]["recall"], curve["recall"], strict=True))


def test_runs_and_their_speed(folder, results):
    row = one(folder, "SELECT * FROM results WHERE measure = 'decoding_speed'")
    assert (row["run"], row["test_condition"], row["value"]) == ("k1", "newstest", 50.0)
    done, failed = database.read(folder, "SELECT * FROM runs ORDER BY seed")
    assert (done["parameters"], done["shortest"], done["longest"], done["seconds"]) == (10**10, 1, 5, 12.5)
    assert (failed["state"], failed["error"], failed["longest"]) == ("failed", "no; do", None)


def test_the_file_is_plain_sqlite_with_the_documented_columns(folder, results):
    with closing(sqlite3.connect(folder / "results.sqlite")) as plain:
        for table, columns in database.TABLES.items():
            found = plain.execute(f"SELECT name, type FROM pragma_table_info('{table}')").fetchall()
            assert found == [(column, kind) for column, (kind, _) in columns.items()]
        best = plain.execute("SELECT max(value) FROM results WHERE measure = 'bleu' AND bin = 'all'").fetchone()
    assert best == (max(system["overall"]["bleu"] for system in results["systems"]),)


def test_writing_again_replaces_the_file(tmp_path):
    for _ in range(2):
        database.write(tmp_path, "mine", "smoke", RUNS, {})
        assert one(tmp_path, "SELECT count(*) AS n FROM runs") == {"n": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["results.sqlite"]


def test_a_study_without_results_and_a_wrong_query(tmp_path):
    with pytest.raises(UserError, match="the study's results does not exist"):
        database.read(tmp_path)
    database.write(tmp_path, "mine", "smoke", [], {})
    with pytest.raises(UserError, match="no such column: bleu"):
        database.read(tmp_path, "SELECT bleu FROM results")
