"""Whole studies through the command line: the papers' recipes at scale smoke; stopped, continued, failing in part."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from posnmt.study.load import load, shipped

PAPERS = ("neishi2019", "rosendahl2019", "rosendahl2019-zhen", "chen2019a", "chen2019b")
SETTINGS = {**os.environ, "OMP_NUM_THREADS": "1"}
# One system, one seed, one test: what the runner does can be seen in a minute.
TINY = {
    "recipe": "tiny",
    "title": "One system",
    "pair": {"source": "en", "target": "de"},
    "scales": {"smoke": load("choose").scales["smoke"].model_dump(mode="json") | {"seeds": 1}},
    "systems": {
        "transformer": {"system": "transformer"},
        "learned": {"system": "learned", "model": {"max_length": 5}},
    },
    "tests": {"test": {"corpus": "test"}},
    "runs": [{"systems": ["transformer"], "trainings": ["all"], "tests": ["test"]}],
    "analyses": {"test": {"test": "test", "trainings": ["all"]}},
    "tables": [
        {
            "table": 1,
            "caption": "Scores",
            "rows": ["transformer"],
            "columns": [{"title": "chrF", "analysis": "test", "measure": "chrf"}],
        }
    ],
}  # fmt: skip


def posnmt(*arguments: object, status: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "posnmt", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=SETTINGS,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def values(out: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(out / "results.sqlite")) as database:
        return list(database.execute(query))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY, sort_keys=False), encoding="utf-8")
    return path


# Each takes minutes. This one has every kind of step but a join and a split by length: test_study_steps has them.
@pytest.mark.parametrize(
    "name",
    [name if name == "chen2019a" else pytest.param(name, marks=pytest.mark.slow) for name in PAPERS],
)
def test_a_papers_recipe_from_nothing_to_its_report(name: str, tmp_path: Path) -> None:
    out = tmp_path / "study"
    told, _ = posnmt("study", "run", name, "--scale", "smoke", "--out", out)
    assert told == f"{out / 'report.html'}\n"
    recipe = load(name)
    page = (out / "report.html").read_text(encoding="utf-8")
    for table in recipe.tables:
        assert table.caption in page.replace("&#39;", "'").replace("&amp;", "&")
    trained = values(out, "select system, training_condition, seed, state from runs")
    assert len(trained) == len(recipe.variants("smoke")) * recipe.scales["smoke"].seeds
    assert {state for *_, state in trained} == {"done"}
    analysed = {
        name for (name,) in values(out, "select distinct test_condition from results where measure = 'length_ratio'")
    }
    assert analysed == set(recipe.analyses)
    words = re.findall(r'<span class="word">([a-z ]+)</span>', page)
    assert len(words) == len(recipe.claims)
    if recipe.scales["smoke"].seeds == 1:
        assert set(words) == {"undecided"}  # one seed says nothing of others
    status, _ = posnmt("study", "status", "--out", out)
    assert {line.split()[0] for line in status.strip().split("\n")} == {"done"}


def test_a_study_that_is_killed_goes_on_without_doing_anything_twice(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    arguments = ("study", "run", recipe, "--scale", "smoke", "--out", out)
    running = subprocess.Popen(
        [sys.executable, "-m", "posnmt", *map(str, arguments)],
        env=SETTINGS,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 600
    while not list(out.glob("steps/prepare/*/done.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    before = {path: path.stat().st_mtime_ns for path in out.glob("steps/*/*/done.json")}
    assert before
    posnmt(*arguments)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    again = {path: path.stat().st_mtime_ns for path in out.glob("steps/*/*/done.json")}
    _, told = posnmt(*arguments)
    assert "started" not in told
    assert {path: path.stat().st_mtime_ns for path in out.glob("steps/*/*/done.json")} == again


def test_a_step_that_fails_is_said_and_the_others_go_on(recipe: Path, tmp_path: Path) -> None:
    tree = {**TINY, "runs": [{"systems": ["learned", "transformer"], "trainings": ["all"], "tests": ["test"]}]}
    recipe.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    out = tmp_path / "study"
    _, told = posnmt("study", "run", recipe, "--scale", "smoke", "--out", out, status=1)
    assert re.search(r"failed +train/learned/all/seed-1: .*max_length", told)
    assert re.search(r"blocked +translate/learned/all/seed-1/test", told)
    assert values(
        out, "select count(*) from results where system = 'transformer' and measure = 'chrf' and bin = 'all'"
    ) == [(1,)]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "learned" in page


def test_what_was_changed_by_hand_is_said(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    arguments = ("study", "run", recipe, "--scale", "smoke", "--out", out)
    posnmt(*arguments)
    output = next(out.glob("steps/translate/*/output"))
    output.write_text("something else\n" * len(output.read_text().split("\n")), encoding="utf-8")
    _, told = posnmt(*arguments, status=1)
    assert f"the file output is not what the step wrote; delete {output.parent} to make it again, or restore it" in told
    # the report names it too, though nothing else is left to report
    _, told_by_report = posnmt("study", "report", "--out", out, status=2)
    assert (next(line for line in told.split("\n") if "altered" in line) + "\n") in told_by_report
    assert "nothing to report" in told_by_report
    assert "restore translate/transformer/all/seed-1/test, which was altered" in told_by_report


def test_the_report_leaves_out_what_was_changed_by_hand_and_says_so(recipe: Path, tmp_path: Path) -> None:
    analyses = {name: {"test": "test", "trainings": ["all"]} for name in ("test", "again")}
    analyses["again"]["bins"] = [5]  # type: ignore[assignment]
    recipe.write_text(yaml.safe_dump({**TINY, "analyses": analyses}, sort_keys=False), encoding="utf-8")
    out = tmp_path / "study"
    posnmt("study", "run", recipe, "--scale", "smoke", "--out", out)
    untouched, _ = posnmt("study", "report", "--out", out)
    # the same size and the same time of change
    found = next(path for path in out.glob("steps/analyse/*/results.json") if '"0-4"' in path.read_text())
    before = found.stat()
    found.write_text(found.read_text().replace('"n": ', '"m": ', 1))
    os.utime(found, ns=(before.st_atime_ns, before.st_mtime_ns))
    shown, told = posnmt("study", "report", "--out", out, status=1)
    assert shown == untouched
    line = f"the file results.json is not what the step wrote; delete {found.parent} to make it again, or restore it"
    assert f"altered analyse/again: {line}" in told
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "analyse/again was altered" in page
    assert values(out, "select distinct test_condition from results") == [("test",)]


def test_folders_and_recipes_that_do_not_fit(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    _, told = posnmt("study", "run", recipe, "--scale", "smoke", "--out", out, status=2)
    assert "is not a study's" in told
    _, told = posnmt("study", "run", recipe, "--scale", "paper", "--out", tmp_path / "new", status=2)
    assert "has no scale 'paper'" in told
    _, told = posnmt("study", "status", "--out", tmp_path / "nowhere", status=2)
    assert "no study was run here" in told
    _, told = posnmt(
        "study", "run", "choose", "--scale", "small", "--data", tmp_path, "--out", tmp_path / "new", status=2
    )
    assert told.count("error: ") == 6


def test_a_plan_counts_the_steps_and_estimates_them(recipe: Path, tmp_path: Path) -> None:
    told, _ = posnmt("study", "plan", recipe, "--scale", "smoke", "--out", tmp_path / "study")
    assert re.search(r"train\W+1\W+0\W+\d", told)
    assert "Hours are for one step at a time" in told
    assert not (tmp_path / "study").exists()


def test_the_list_of_recipes() -> None:
    told, _ = posnmt("study", "list")
    assert all(name in told for name in shipped())


@pytest.mark.slow
def test_choose_gives_a_recommendation_with_its_evidence(tmp_path: Path) -> None:
    out = tmp_path / "study"
    posnmt("study", "run", "choose", "--scale", "smoke", "--out", out)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Use " in page
    assert "has the best mean chrf" in page
    assert json.loads((out / "asked.json").read_text())["scale"] == "smoke"
