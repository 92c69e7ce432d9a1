"""Whole studies through the command line: killed, continued, failing in part; the papers' recipes at scale smoke."""

from __future__ import annotations

import csv
import json
import lzma
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml

from posnmt.data.store import Store
from posnmt.study.copied import Copy, packed_in
from posnmt.study.layout import words_at
from posnmt.study.load import load, shipped
from posnmt.study.packed import unpack
from posnmt.study.workflow import runner
from tests.support.commands import process, run
from tests.support.copies import pack

# Every kind of step but those of texts from elsewhere, a corpus and its download.
SMOKE = {
    "seeds": 1,
    "artificial": {"train": 300, "dev": 20, "test": 30, "min_length": 3, "max_length": 8, "test_max_length": 12},
    "config": {
        "subword": {"vocabulary": 150},
        "model": {"size": "tiny", "tie_embeddings": "all"},
        "train": {
            "steps": 4, "batch": 512, "evaluate_every": 4, "log_every": 1, "dev_bleu": False, "best_by": "perplexity",
            "average": 1,
        },
        "decode": {"beam": 1, "max_extra": 4},
    },
}  # fmt: skip
TABLE = {
    "table": 1,
    "caption": "Scores",
    "rows": ["transformer"],
    "columns": [{"title": "chrF", "analysis": "all", "measure": "chrf"}],
}
# One system was once found to be 111 % faster than itself, in another hour.
FASTER = {
    "analysis": "all", "measure": "decoding_speed", "is": "higher", "of": {"system": "transformer"},
    "than": {"system": "transformer"},
}  # fmt: skip
RECIPE: dict[str, Any] = {
    "recipe": "tiny",
    "title": "One system",
    "pair": {"source": "en", "target": "de"},
    "scales": {"smoke": SMOKE},
    "systems": {"transformer": {"system": "transformer"}},
    "trainings": {"reordered": {"reorder": True, "part": {"of": 2, "take": 2}}},
    "tests": {"swapped": {"corpus": "test", "join": 2, "swap": [0.5]}},
    "runs": [{"systems": ["transformer"], "trainings": ["reordered"], "tests": ["swapped"]}],
    "analyses": {
        "all": {"test": "swapped", "trainings": ["reordered"]},
        "by-length": {"test": "swapped", "trainings": ["reordered"], "bins": [5]},
    },
    "likelihoods": {"references": {"test": "swapped", "trainings": ["reordered"]}},
    "tables": [TABLE],
    "claims": [{"claim": 1, "says": "It is faster than itself", "test": FASTER}],
}
OTHER_NAMES: dict[str, Any] = {
    "systems": {"sinusoids": RECIPE["systems"]["transformer"]},
    "trainings": {"half": RECIPE["trainings"]["reordered"]},
    "tests": {"mixed": RECIPE["tests"]["swapped"]},
    "runs": [{"systems": ["sinusoids"], "trainings": ["half"], "tests": ["mixed"]}],
    "analyses": {"all": {"test": "mixed", "trainings": ["half"]}},
    "likelihoods": {},
    "tables": [{**TABLE, "rows": ["sinusoids"]}],
}
"""The same trainings and texts by other names."""
KINDS = {
    "artificial", "part-of-artificial", "length-split", "join", "swap", "reorder-model", "reorder", "prepare", "train",
    "translate", "speed", "analyse", "likelihood",
}  # fmt: skip


def values(out: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(out / "results.sqlite")) as database:
        return list(database.execute(query))


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump({**RECIPE, **changes}, sort_keys=False), encoding="utf-8")
    return path


def done(out: Path) -> dict[Path, int]:
    """When each finished step ended, by its place in the study's folder."""
    return {path.relative_to(out): path.stat().st_mtime_ns for path in out.glob("steps/*/*/done.json")}


@dataclass(frozen=True)
class Study:
    """A study that was killed, and then went on to its end: its folder, and what was done when it was killed."""

    out: Path
    words: tuple[object, ...]
    before: dict[Path, int]

    def copied(self, folder: Path, *without: str) -> Path:
        """A copy of its folder to spoil, without the steps of some kinds."""
        return shutil.copytree(self.out, folder / "study", ignore=lambda _, names: [n for n in names if n in without])


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("killed")
    out = folder / "study"
    words = ("study", "run", written(folder), "--scale", "smoke", "--out")
    running = subprocess.Popen(
        [sys.executable, "-m", "posnmt", *map(str, words), out], stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 600
    while not list(out.glob("steps/prepare/*/done.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    before = done(out)
    told, _ = run(*words, out)
    assert told == f"{out / 'report.html'}\n"
    return Study(out, words, before)


@pytest.mark.slow
def test_a_study_has_every_kind_of_step_and_its_report(killed: Study) -> None:
    assert {path.parts[1] for path in done(killed.out)} == KINDS
    assert values(killed.out, "select training_condition, state from runs") == [("reordered", "done")]
    found = values(killed.out, "select distinct test_condition from results where measure = 'length_ratio' order by 1")
    assert found == [("all",), ("by-length",)]
    page = (killed.out / "report.html").read_text(encoding="utf-8")
    assert "Scores" in page
    [scored] = killed.out.glob("steps/likelihood/*")
    assert {"losses.npz", "likelihood.csv", "likelihood.html"} <= {path.name for path in scored.iterdir()}
    table = killed.out / "tables" / "likelihood-references.csv"
    assert table.read_bytes() == (scored / "likelihood.csv").read_bytes()
    assert '<section id="likelihood-references"' in page
    [speeds] = [json.loads(path.read_text()) for path in killed.out.glob("steps/speed/*/speeds.json")]
    assert [(each["system"], each["training"]) for each in speeds] == [("transformer", "reordered")]
    for name in ("training_speed", "decoding_speed"):
        assert len(speeds[0][name]) == 2  # in proportion to so short a training
        assert min(speeds[0][name]) > 0
    assert "Below the floor: transformer has" in page
    status, _ = process("study", "status", "--out", killed.out)
    assert {line.split()[0] for line in status.strip().split("\n")} == {"done"}
    told, _ = run("study", "plan", *killed.words[2:], killed.out, "--speed", 2048 / 3600)
    assert re.search(r"train\W+1\W+1\W+1\.00\W+0\.00", told), "the hours of all, and those that are left"


@pytest.mark.slow
def test_a_study_that_is_killed_goes_on_without_doing_anything_twice(killed: Study) -> None:
    again = done(killed.out)
    assert killed.before
    assert killed.before.items() < again.items()
    _, told = run(*killed.words, killed.out)
    assert "started" not in told
    assert done(killed.out) == again


@pytest.mark.slow
def test_a_step_that_fails_is_said_and_the_others_go_on(killed: Study, tmp_path: Path) -> None:
    out = killed.copied(tmp_path, "translate", "analyse", "results.sqlite", "report.html")
    systems = {**RECIPE["systems"], "learned": {"system": "learned", "model": {"max_length": 5}}}
    runs = [{"systems": ["learned", "transformer"], "trainings": ["reordered"], "tests": ["swapped"]}]
    recipe = written(tmp_path, systems=systems, runs=runs, analyses={"all": RECIPE["analyses"]["all"]})
    _, told = run("study", "run", recipe, "--scale", "smoke", "--out", out, status=1)
    assert re.search(r"failed +train/learned/reordered/seed-1: .*max_length", told)
    assert re.search(r"blocked +translate/learned/reordered/seed-1/swapped", told)
    assert values(
        out, "select count(*) from results where system = 'transformer' and measure = 'chrf' and bin = 'all'"
    ) == [(2,)]  # of the test, and of its copy with swapped words
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "learned" in page


@pytest.mark.slow
def test_what_was_changed_by_hand_is_said(killed: Study, tmp_path: Path) -> None:
    out = killed.copied(tmp_path)
    output = next(out.glob("steps/translate/*/output"))
    output.write_text("something else\n" * len(output.read_text().split("\n")), encoding="utf-8")
    _, told = run(*killed.words, out, status=1)
    assert f"the file output is not what the step wrote; delete {output.parent} to make it again, or restore it" in told
    # the report names it too, though nothing else is left to report
    _, told_by_report = run("study", "report", "--out", out, status=2)
    assert (next(line for line in told.split("\n") if "altered" in line) + "\n") in told_by_report
    assert "nothing to report" in told_by_report
    assert "restore translate/transformer/reordered/seed-1/swapped, which was altered" in told_by_report


@pytest.mark.slow
def test_the_report_leaves_out_what_was_changed_by_hand_and_says_so(killed: Study, tmp_path: Path) -> None:
    out = killed.copied(tmp_path)
    untouched, _ = run("study", "report", "--out", out)
    # the same size and the same time of change
    found = next(path for path in out.glob("steps/analyse/*/results.json") if '"0-4"' in path.read_text())
    before = found.stat()
    found.write_text(found.read_text().replace('"n": ', '"m": ', 1))
    os.utime(found, ns=(before.st_atime_ns, before.st_mtime_ns))
    shown, told = run("study", "report", "--out", out, status=1)
    assert shown == untouched
    line = f"the file results.json is not what the step wrote; delete {found.parent} to make it again, or restore it"
    assert f"altered analyse/by-length: {line}" in told
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "analyse/by-length was altered" in page
    assert values(out, "select distinct test_condition from results where measure = 'chrf'") == [("all",)]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_published_study_has_results_and_outputs_but_no_texts_weights_or_places(
    killed: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to, run_in = tmp_path / "copy", Path.cwd()
    monkeypatch.chdir(tmp_path)
    assert run("study", "publish", "--out", killed.out, "--to", to)[0] == f"{to / 'README.md'}\n"
    copy = contents(to)
    assert b"1 of 1 trainings are finished" in copy["README.md"]
    assert b"--adopt" not in copy["README.md"]
    monkeypatch.chdir("/")  # a place that is in every text
    run("study", "publish", "--out", killed.out, "--to", tmp_path / "another")
    assert contents(tmp_path / "another") == copy
    monkeypatch.chdir(tmp_path)
    assert b"[speeds.json](speeds.json)" in copy["README.md"]
    assert len(copy) <= 12
    inside = {name: content for each in to.glob("*.tar.xz") for name, content in unpack(each).items()}
    packed = Copy(to).translations("swapped")
    for column, name in (("transformer.reordered.1", "output"), ("transformer.reordered.1-0.5", "output-0.5")):
        [output] = killed.out.glob(f"steps/translate/*/{name}")
        assert packed[column] == output.read_bytes()
    [record] = killed.out.glob("steps/train/*/run/record.json")
    published = json.loads(inside["runs/transformer.reordered.1/record.json"])
    assert published["seconds"] == json.loads(record.read_text())["seconds"]
    table = "tables/likelihood-references.csv"
    assert inside[table] == (killed.out / table).read_bytes()
    [[rows]] = values(killed.out, "select count(*) from results")
    assert lzma.decompress(copy["results.csv.xz"]).count(b"\n") == rows + 1
    every = {**copy, **inside}
    texts = b"\n".join(content for name, content in every.items() if not name.endswith((".xz", ".pdf")))
    assert b"Scores" in texts
    for place in (killed.out, run_in, tmp_path):
        assert str(place).encode() not in texts
    [source] = killed.out.glob("steps/join/*/source")
    for line in source.read_bytes().splitlines():
        assert line not in texts
    assert not [name for name in every if name.endswith((".safetensors", ".model", ".sqlite"))]
    [scored] = [name for name in every if name.endswith(".npz")]  # without what the references say
    assert scored == "translations/losses/references/losses.npz"
    again = load(str(to / "recipe.yaml"))
    assert again.hash == load(str(killed.words[2])).hash
    run("study", "publish", "--out", killed.out, "--to", to)
    assert contents(to) == copy


@pytest.mark.slow
def test_a_study_and_its_copy_give_the_same_figures(killed: Study, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    run("study", "publish", "--out", killed.out, "--to", copy)
    captions = set()
    for place in (killed.out, copy):
        shown, _ = run("figure", place, "--analysis", "by-length", "--format", "csv", "--out", tmp_path / place.name)
        captions.add(shown.splitlines()[-1])
        _, told = run("figure", place, "--kind", "position", "--out", tmp_path / "f", status=2)
        assert "several bins" in told, "its test is too short for a curve"
    of_study, of_copy = ((tmp_path / f"{place.name}.csv").read_text() for place in (killed.out, copy))
    assert of_study == of_copy
    assert of_study.count("\n") > 2
    [caption] = captions
    assert "nrefs:1|" in caption
    run("figure", killed.out, "--kind", "place", "--format", "csv", "--out", tmp_path / "place")
    assert (tmp_path / "place.csv").exists()
    _, told = run("figure", killed.out, "--kind", "difference", "--out", tmp_path / "f", status=2)
    assert "steps/analyse" in told


@pytest.mark.slow
def test_an_unfinished_study_is_published_as_such(killed: Study, tmp_path: Path) -> None:
    out, to = killed.copied(tmp_path, "analyse", "translate"), tmp_path / "copy"
    run("study", "publish", "--out", out, "--to", to)
    assert "report" not in (to / "README.md").read_text()
    folder = "runs/transformer.reordered.1"
    named = {name.removeprefix(f"{folder}/") for name in unpack(to / "runs.tar.xz") if name.startswith(folder)}
    assert named == {"config.yaml", "record.json", "metrics.jsonl", "steps.json"}
    _, told = run("study", "publish", "--out", out, "--to", out / "copy", status=2)
    assert "cannot be inside the study" in told
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    _, told = run("study", "publish", "--out", out, "--to", tmp_path / "mine", status=2)
    assert "holds no copy of this study" in told
    shutil.rmtree(out / "steps" / "train")
    _, told = run("study", "publish", "--out", out, "--to", tmp_path / "new", status=2)
    assert "nothing to publish" in told


@pytest.mark.slow
def test_a_copy_may_have_the_translations_of_some_seeds_alone(tmp_path: Path) -> None:
    """A study that goes on from it makes the trainings of the other seeds again, and has the same figures."""
    out, copy = tmp_path / "study", tmp_path / "copy"
    scored = RECIPE["likelihoods"]["references"]
    likelihoods = {"references": scored, "again": scored}
    recipe = written(tmp_path, claims=[], runs=[{**RECIPE["runs"][0], "seeds": 2}], likelihoods=likelihoods)
    words = ("study", "run", recipe, "--scale", "smoke", "--out")
    run(*words, out)
    first = {"transformer.reordered.1", "transformer.reordered.1-0.5"}
    for options, wanted in ((), first | {name.replace("1", "2", 1) for name in first}), (("--translations", 1), first):
        run("study", "publish", "--out", out, "--to", copy, *options)
        assert Copy(copy).translations("swapped").keys() == wanted
    run("study", "publish", "--out", out, "--to", tmp_path / "some", "--losses", "again")
    assert [bool(Copy(tmp_path / "some").losses(name)) for name in ("references", "again")] == [False, True]
    _, told = run("study", "publish", "--out", out, "--to", tmp_path / "some", "--losses", "no", status=2)
    assert "likelihood" in told
    assert "a column for each training with a seed of at most 1" in (copy / "README.md").read_text(encoding="utf-8")
    _, log = run(*words, tmp_path / "elsewhere", "--adopt", copy)
    assert re.findall("started (train/.*)", log) == ["train/transformer/reordered/seed-2"]
    figures = "select * from results where measure not like '%speed' order by seed, test_condition, bin, measure"
    assert values(tmp_path / "elsewhere", figures) == values(out, figures)


@pytest.mark.slow
def test_a_study_goes_on_elsewhere_from_a_published_copy(killed: Study, tmp_path: Path) -> None:
    """What the copy has is not made again, nor changed; a training whose weights are needed is."""
    copy, out = tmp_path / "copy", tmp_path / "elsewhere"
    run("study", "publish", "--out", killed.out, "--to", copy)
    recipe = written(tmp_path)
    _, log = run("study", "run", recipe, "--scale", "smoke", "--out", out, "--adopt", copy)
    assert "the speeds measured in turn are taken from" in log
    for kind in ("train", "translate", "speed"):
        assert f"started {kind}/" not in log
    assert not list(out.rglob("*.safetensors"))
    assert "likelihood/references: the losses of 1 models are taken from" in log
    assert "done    likelihood/references" in log  # without weights
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "The losses of 1 of 1 models are those of a published copy." in page
    theirs, own = (likelihoods(each) for each in (killed.out, out))
    assert theirs.keys() == own.keys()
    assert own == {place: pytest.approx(value, abs=0.02) for place, value in theirs.items()}
    [[measured], [adopted]] = [list(each.glob("steps/speed/*/speeds.json")) for each in (killed.out, out)]
    assert json.loads(adopted.read_text()) == json.loads(measured.read_text())
    figures = "select test_condition, bin, measure, value from results order by 1, 2, 3, 4"
    assert values(out, figures) == values(killed.out, figures)
    run("study", "publish", "--out", out, "--to", tmp_path / "again")
    same = ("runs.tar.xz", "translations.tar.xz", "speeds.json")
    first, second = (
        {name: content for name, content in contents(each).items() if name.startswith(same)}
        for each in (copy, tmp_path / "again")
    )
    assert first == second
    only = ("--out", tmp_path / "part", "--adopt", copy, "--only", "corpus/train")
    _, log = run("study", "run", recipe, "--scale", "smoke", *only)
    assert "started analyse/" in log  # of all that was adopted, with the texts that it needs
    other = written(tmp_path, recipe="another", claims=[], **OTHER_NAMES)
    _, log = run("study", "run", other, "--scale", "smoke", "--out", tmp_path / "another", "--adopt", copy)
    assert "train/sinusoids/half/seed-1 is taken from" in log
    assert "started translate/" not in log
    written(tmp_path)
    words = (*killed.words[2:5], "--set", "scales.smoke.config.train.steps=5", "--only", "corpus/*")
    _, log = run("study", "run", *words, "--out", tmp_path / "third", "--adopt", copy)
    assert "is made again: the copy has no training with these settings and texts" in log
    assert "speeds" not in log
    runs, texts = (packed_in(copy, folder) for folder in ("runs", "translations"))
    sound = unpack(runs)
    pack({name: each.replace(b'"output-0.5"', b'"../../output-0.5"') for name, each in sound.items()}, runs)
    _, log = run("study", "run", recipe, "--scale", "smoke", "--out", tmp_path / "new", "--adopt", copy, status=2)
    assert "the list of its steps is damaged: translations.swapped.speed" in log
    pack(sound, runs)
    speeds = (copy / "speeds.json").read_text(encoding="utf-8")
    (copy / "speeds.json").write_text(speeds.replace('"training_speed"', '"speed"'), encoding="utf-8")
    _, log = run("study", "run", recipe, "--scale", "smoke", "--out", tmp_path / "new", "--adopt", copy, status=2)
    assert "the file of speeds is damaged: systems.0.training_speed: Field required" in log
    (copy / "speeds.json").write_text(speeds, encoding="utf-8")
    sound_texts = unpack(texts)
    pack({"translations/swapped.csv": b"another.all.1\n1\n"}, texts)
    _, log = run("study", "run", recipe, "--scale", "smoke", "--out", tmp_path / "new", "--adopt", copy, status=2)
    assert "the copy has no translation transformer.reordered.1" in log
    pack(sound_texts, texts)
    texts.write_bytes(texts.read_bytes()[:-9])
    _, log = run("study", "run", recipe, "--scale", "smoke", "--out", tmp_path / "new", "--adopt", copy, status=2)
    assert f"a file of the copy is missing or damaged ({texts})" in log
    mark = (copy / "published.json").read_text(encoding="utf-8")
    (copy / "published.json").write_text(mark.replace('"format": 1', '"format": 2'), encoding="utf-8")
    _, log = run("study", "run", recipe, "--scale", "smoke", "--out", tmp_path / "new", "--adopt", copy, status=2)
    assert "written by a newer posnmt, in format 2" in log
    _, log = run("study", "run", recipe, "--scale", "smoke", "--out", tmp_path / "new", "--adopt", out, status=2)
    assert "there is no copy of a study" in log


@pytest.mark.slow
def test_what_is_asked_is_registered_before_the_first_training(killed: Study, tmp_path: Path) -> None:
    """It has the time of the first run, which was killed; the copy carries it, and who adopts it goes on with it.

    A bound that is changed later is shown, and another wording is not.
    """
    (entry,) = json.loads((killed.out / "study.json").read_text(encoding="utf-8"))["registered"]
    [record] = killed.out.glob("steps/train/*/run/record.json")
    assert entry["trainings"] == 0
    assert entry["time"] <= json.loads(record.read_text(encoding="utf-8"))["started"]
    assert "before the first training" in (killed.out / "report.html").read_text(encoding="utf-8")
    copy, out = tmp_path / "copy", tmp_path / "elsewhere"
    run("study", "publish", "--out", killed.out, "--to", copy)
    assert json.loads((copy / "registered.json").read_text(encoding="utf-8")) == [entry]
    reworded = {"claim": 1, "says": "It is faster", "test": FASTER}
    words = ("--scale", "smoke", "--out", out, "--adopt", copy)
    run("study", "run", written(tmp_path, claims=[reworded]), *words)
    assert "changed after" not in (out / "report.html").read_text(encoding="utf-8").lower()
    _, log = run("study", "run", written(tmp_path, claims=[{**reworded, "test": {**FASTER, "by": 9}}]), *words)
    assert "claim 1, changed after 1 training: by 0.0 → 9.0" in log
    assert "Changed after 1 training: by 0.0 → 9.0." in (out / "report.html").read_text(encoding="utf-8")
    registered = json.loads((out / "study.json").read_text(encoding="utf-8"))["registered"]
    assert [each["trainings"] for each in registered] == [0, 1]
    assert registered[0] == entry


@pytest.mark.slow
def test_a_second_run_that_is_refused_changes_nothing(killed: Study, tmp_path: Path) -> None:
    """Not the recipe and the scale that a running study was asked for either."""
    out = killed.copied(tmp_path)
    asked = [(out / name).read_bytes() for name in ("asked.json", "study.json")]
    with runner.only_runner(out):
        words = ("study", "run", killed.words[2], "--scale", "smoke", "--set", "title=Another")
        _, log = process(*words, "--out", out, status=2)
    assert "has been running this study" in log
    assert [(out / name).read_bytes() for name in ("asked.json", "study.json")] == asked


def likelihoods(out: Path) -> dict[tuple[str, ...], float]:
    """The losses of a study's table, by axis, bin, system and baseline."""
    with (out / "tables" / "likelihood-references.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    keys = ("axis", "bin", "system", "baseline")
    return {tuple(row[key] for key in keys): float(row["L"]) for row in rows if row["L"]}


def forget_translations(copy: Path) -> None:
    """Take what a copy says of the translations of its training."""
    runs = packed_in(copy, "runs")
    files = unpack(runs)
    [facts] = [name for name in files if name.endswith("/steps.json")]
    pack({**files, facts: json.dumps({**json.loads(files[facts]), "translations": {}}).encode()}, runs)


@pytest.mark.slow
def test_a_renewed_copy_is_adopted_again(killed: Study, tmp_path: Path) -> None:
    """Translations that it has now are taken, and no training is made again, nor by `--only` for an analysis."""
    whole, partial, out = tmp_path / "whole", tmp_path / "partial", tmp_path / "elsewhere"
    run("study", "publish", "--out", killed.out, "--to", whole)
    shutil.copytree(whole, partial)
    forget_translations(partial)
    words = ("study", "run", killed.words[2], "--scale", "smoke", "--out", out, "--only", "corpus/*")
    run(*words, "--adopt", partial)
    assert not list(out.glob("steps/translate/*/output"))
    _, log = run(*words, "--adopt", whole)
    assert "made again" not in log
    assert "started analyse/" in log
    assert "started train/" not in log
    shutil.rmtree(out / "steps" / "train")
    shutil.rmtree(out / "steps" / "analyse")
    _, log = run(*words)
    assert "started" not in log


@pytest.mark.slow
@pytest.mark.parametrize("lost", [True, False])
def test_weights_that_a_copy_has_not_are_made_again_where_a_step_needs_them(
    killed: Study, tmp_path: Path, lost: bool
) -> None:
    """A claim about speed needs them, and a translation that the copy has not; those that it has stay as they are."""
    copy, out = tmp_path / "copy", tmp_path / "elsewhere"
    run("study", "publish", "--out", killed.out, "--to", copy)
    (copy / "speeds.json").unlink()
    if lost:
        forget_translations(copy)
    words = ("study", "run", killed.words[2], "--scale", "smoke", "--out", out)
    _, log = run(*words, "--adopt", copy, "--only", "corpus/*")
    assert "is taken from" in log
    assert "made again" not in log
    before = contents(out / "steps" / "translate") if not lost else {}
    assert lost or before
    _, log = run(*words)
    needed = "translate/transformer/reordered/seed-1/swapped, speed/in-turn" if lost else "speed/in-turn"
    assert f"is made again: {needed} needs its weights, which the copy does not contain" in log
    assert log.count("started train/") == 1
    assert log.count("started translate/") == lost
    after = contents(out / "steps" / "translate")
    assert {name: after[name] for name in before} == before


@pytest.mark.slow
def test_systems_that_differ_in_search_alone_share_a_training_also_in_copies(tmp_path: Path) -> None:
    systems = {
        "transformer": RECIPE["systems"]["transformer"],
        "wide": {"system": "transformer", "decode": {"beam": 2}},
    }
    runs = [{**RECIPE["runs"][0], "systems": [*systems]}]
    recipe, out, copy = written(tmp_path, systems=systems, runs=runs, claims=[]), tmp_path / "study", tmp_path / "copy"
    _, log = run("study", "run", recipe, "--scale", "smoke", "--out", out)
    assert (log.count("started train/"), log.count("started translate/")) == (1, 2)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "1 done" in page
    assert "2 done" not in page
    run("study", "publish", "--out", out, "--to", copy)
    assert "1 of 1 trainings are finished" in (copy / "README.md").read_text(encoding="utf-8")
    _, log = run("study", "run", recipe, "--scale", "smoke", "--out", tmp_path / "elsewhere", "--adopt", copy)
    assert "started train/" not in log
    assert "started translate/" not in log
    assert contents(tmp_path / "elsewhere" / "steps" / "analyse").keys() == contents(out / "steps" / "analyse").keys()


def test_folders_and_recipes_that_do_not_fit(tmp_path: Path) -> None:
    recipe, out = written(tmp_path), tmp_path / "study"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    _, told = process("study", "run", recipe, "--scale", "smoke", "--out", out, status=2)
    assert "is not a study's" in told
    _, told = run("study", "run", recipe, "--scale", "paper", "--out", tmp_path / "new", status=2)
    assert "has no scale 'paper'" in told
    _, told = run("study", "status", "--out", tmp_path / "nowhere", status=2)
    assert "no study was run here" in told
    words = ("study", "run", "rosendahl2019-zhen", "--scale", "small", "--data", tmp_path, "--out", tmp_path / "new")
    _, told = run(*words, status=2)
    assert told.count("error: ") == 6


def test_a_plan_counts_the_steps_and_estimates_them(tmp_path: Path) -> None:
    told, _ = run("study", "plan", written(tmp_path), "--scale", "smoke", "--out", tmp_path / "study")
    assert re.search(r"train\W+1\W+0\W+\d", told)
    assert "Hours are for one step at a time" in told
    assert not (tmp_path / "study").exists()


def test_a_plan_at_a_stated_speed_times_nothing(tmp_path: Path) -> None:
    """4 updates of 512 tokens take an hour at 2,048 tokens in 3,600 seconds."""
    words = ("study", "plan", written(tmp_path), "--scale", "smoke", "--out", tmp_path / "study")
    told, noted = run(*words, "--speed", 2048 / 3600)
    assert re.search(r"train\W+1\W+0\W+1\.00\W+1\.00", told)
    assert re.search(r"transformer\W+reordered\W+1\W+0\.00\W+1\.00", told)
    assert "timing" not in noted
    told, _ = run("study", "plan", "neishi2019", "--scale", "smoke", "--out", tmp_path / "other", "--no-calibrate")
    assert "Power: the share of simulated studies" in told
    assert "hours" not in told


def test_the_list_of_recipes() -> None:
    told, _ = process("study", "list")
    assert all(name in told for name in shipped())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["neishi2019", "rosendahl2019", "rosendahl2019-zhen", "chen2019a", "chen2019b"])
def test_a_papers_recipe_from_nothing_to_its_report(name: str, tmp_path: Path) -> None:
    out = tmp_path / "study"
    told, _ = process("study", "run", name, "--scale", "smoke", "--out", out)
    assert told == f"{out / 'report.html'}\n"
    recipe = load(name)
    page = (out / "report.html").read_text(encoding="utf-8")
    for table in recipe.tables:
        assert words_at(table.caption, "smoke") in page.replace("&#39;", "'").replace("&amp;", "&")
    trained = values(out, "select system, training_condition, seed, state from runs")
    assert len(trained) == sum(recipe.seeds(variant, "smoke") for variant in recipe.variants("smoke"))
    assert {state for *_, state in trained} == {"done"}
    analysed = {
        name for (name,) in values(out, "select distinct test_condition from results where measure = 'length_ratio'")
    }
    assert analysed == set(recipe.analyses)
    words = re.findall(r'<span class="word">([a-z ]+)</span>', page)
    assert len(words) == len(recipe.claims_at("smoke"))
    likelihoods = recipe.likelihoods_at("smoke")
    assert set(re.findall(r'<section id="likelihood-([\w.+-]+)" class="plate"', page)) == set(likelihoods)
    assert all((out / "tables" / f"likelihood-{each}.csv").exists() for each in likelihoods)
    assert set(words) == {"undecided"}  # nothing was learned: all are below the floor
    status, _ = process("study", "status", "--out", out)
    assert {line.split()[0] for line in status.strip().split("\n")} == {"done"}


@pytest.mark.slow
def test_choose_gives_a_recommendation_with_its_evidence(tmp_path: Path) -> None:
    out = tmp_path / "study"
    process("study", "run", "choose", "--scale", "smoke", "--out", out)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Use " in page or "Undecided: the best system beats no other by more than chance." in page
    assert "has the best mean chrF" in page
    distances = set()
    for path in out.glob("steps/train/*/run/config.yaml"):
        model = yaml.safe_load(path.read_text(encoding="utf-8"))["model"]
        distances |= {each.get("distance") for side in ("encoder", "decoder") for each in model[side]["position"]}
    store = Store.open(next(out.glob("steps/prepare/*/*/manifest.json")).parent)
    assert distances == {None, round(median(store.split("train").source_lengths.tolist()) / 4)}  # of `relative` alone
    assert json.loads((out / "asked.json").read_text())["scale"] == "smoke"
