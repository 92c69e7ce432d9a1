"""The picture "What happens to long sentences": from the tables of a published study, whatever it has."""

from __future__ import annotations

import csv
import io
import json
import lzma
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from docs.scripts.long_sentences import Figures, picture, read
from posnmt.study.copied import MARK
from posnmt.study.database import RESULTS
from tests.support.copies import pack
from tests.support.documents import ROOT

MEASURED = ROOT / "docs" / "results" / "likelihood" / "all.csv"
"""Losses of two systems, two seeds each, on the Kyoto corpus, as a study's table has them."""
LABELS = {"transformer": "Sinusoids", "relative": "Relative"}
HISTOGRAM = dict.fromkeys(range(1, 10), 100) | {15: 99, 40: 2}
"""Sentences of training by length: 1 in 10 have more than 9 subwords, 1 in 500 more than 15, none more than 40."""
OMITTED = {("transformer", 1): (4.0, 20.0), ("transformer", 2): (6.0, 30.0), ("relative", 1): (5.0, 8.0)}
"""System and seed -> percent of omitted sentences in two bins."""


def table() -> str:
    """The measured table with the labels of systems."""
    rows = list(csv.DictReader(io.StringIO(MEASURED.read_text(encoding="utf-8"), newline="")))
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(row | {name: LABELS.get(row[name], "") for name in ("system", "baseline")} for row in rows)
    return out.getvalue()


def results() -> Iterator[dict[str, object]]:
    """The rows of results that are read, and others that must not be."""
    for (system, seed), values in OMITTED.items():
        for label, first, value in (("1-40", 1, values[0]), ("41-", 41, values[1]), ("all", None, 99.0)):
            about = {"system": system, "seed": seed, "training_condition": "all", "swapped": 0.0, "n": 50}
            about |= {"bin": label, "first": first, "measure": "omitted_sentences", "value": value}
            yield about | {"test_condition": "complete"}
            yield about | {"test_condition": "complete", "measure": "chrf", "value": 77.0}
            yield about | {"test_condition": "other", "value": 88.0}
            yield about | {"test_condition": "complete", "training_condition": "more", "value": 66.0}


def published(folder: Path, completeness: bool) -> Path:
    """What the picture reads of a published study."""
    analyses = {name: {"test": "test", "trainings": ["all"]} for name in ("other", "complete")}
    recipe = {
        "recipe": "drawn",
        "title": "Drawn",
        "pair": {"source": "en", "target": "ja"},
        "scales": {"small": {"corpora": {each: {"source": "s", "target": "t"} for each in ("train", "dev", "test")}}},
        "systems": {name: {"system": name, "label": label} for name, label in LABELS.items()},
        "trainings": {"all": {}, "more": {}},
        "tests": {"test": {"corpus": "test"}},
        "runs": [{"systems": [*LABELS], "trainings": ["all", "more"], "tests": ["test"]}],
        "analyses": {
            **analyses,
            "complete": analyses["complete"] | {"completeness": completeness, "title": "Two in a line"},
        },
        "likelihoods": {"natural": {"test": "test", "trainings": ["all"]}},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    (folder / MARK).write_text(json.dumps({"scale": "small"}), encoding="utf-8")
    pack({"tables/likelihood-natural.csv": table().encode("utf-8")}, folder / "tables.tar.xz")
    histogram = " ".join(f"{length}:{count}" for length, count in HISTOGRAM.items())
    record = {"training_histograms": {"source": "1:1", "target": histogram}}
    runs = {"more": {"training_histograms": {"source": "1:1", "target": "99:1"}}, "all": record}
    packed = {f"runs/relative.{name}.1/record.json": json.dumps(each).encode() for name, each in runs.items()}
    pack(packed, folder / "runs.tar.xz")
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(RESULTS))
    writer.writeheader()
    writer.writerows(results() if completeness else ())
    (folder / "results.csv.xz").write_bytes(lzma.compress(out.getvalue().encode("utf-8")))
    return folder


@pytest.fixture(params=[True, False], ids=["completeness", "likelihood alone"])
def study(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return published(tmp_path, request.param)


def decided() -> list[dict[str, str]]:
    """The measured differences by position that rest on enough sentences."""
    with MEASURED.open(encoding="utf-8", newline="") as file:
        return [
            row
            for row in csv.DictReader(file)
            if row["axis"] == "target position" and row["status"] == "decided" and row["Delta"]
        ]


def test_the_losses_are_those_of_the_table_that_suffice_to_decide(study: Path) -> None:
    figures = read(study)
    assert figures.baseline == "Sinusoids"
    [panel] = figures.panels
    assert (panel.name, panel.seeds) == ("Relative", 2)
    found = [(point.value, point.low, point.high) for point in panel.losses]
    assert found == [tuple(float(row[name]) for name in ("Delta", "low", "high")) for row in decided()]
    assert [point.x for point in panel.losses][:3] == [5, 15, 25]
    assert panel.design is not None
    assert panel.design.value == pytest.approx(-0.496, abs=0.001)


def test_grey_begins_where_training_thins_out(study: Path) -> None:
    """Position p is reached by the sentences with more than p subwords."""
    total = sum(HISTOGRAM.values())
    reached = [sum(count for length, count in HISTOGRAM.items() if length > p) / total for p in range(99)]
    figures = read(study)
    assert figures.sparse == next(p for p, share in enumerate(reached) if share < 0.1)
    assert figures.beyond == next(p for p, share in enumerate(reached) if share < 0.001)


def test_omitted_sentences_are_means_over_seeds_of_the_analysis_that_looked_for_them(tmp_path: Path) -> None:
    figures = read(published(tmp_path, True))
    assert (figures.complete, figures.bins) == ("Two in a line", ["1-40", "41-"])
    assert "(Two in a line)" in picture(figures)
    assert [(p.x, p.value, p.low, p.high) for p in figures.omitted] == [(0, 5, 4, 6), (1, 25, 20, 30)]
    assert [(p.x, p.value, p.low, p.high) for p in figures.panels[0].omitted] == [(0, 5, 5, 5), (1, 8, 8, 8)]


def test_no_omitted_sentences_are_drawn_where_nobody_looked_for_them(tmp_path: Path) -> None:
    figures = read(published(tmp_path, False))
    assert (figures.complete, figures.bins, figures.omitted) == (None, [], [])
    assert "circle" not in picture(figures)


def drawn(figures: Figures) -> tuple[list[tuple[float, float]], list[float]]:
    """The points of the curve of losses, and the heights of the dots of the system below."""
    tree = ET.fromstring(picture(figures))
    space = "{http://www.w3.org/2000/svg}"
    curve = next(each.get("d", "") for each in tree.iter(f"{space}path") if each.get("stroke") == "#0072b2")
    points = [tuple(map(float, each.split())) for each in curve[1:].split("L")]
    dots = [float(each.get("cy", "")) for each in tree.iter(f"{space}circle") if each.get("fill") == "#d55e00"]
    return [(x, y) for x, y in points], dots


def test_a_lower_loss_is_drawn_lower_and_more_omissions_higher(tmp_path: Path) -> None:
    figures = read(published(tmp_path, True))
    points, dots = drawn(figures)
    values = [point.value for point in figures.panels[0].losses]
    assert len(points) == len(values)
    by_height = sorted(range(len(values)), key=lambda place: -points[place][1])
    assert [round(values[place], 2) for place in by_height] == sorted(round(value, 2) for value in values)
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert dots[1] < dots[0]


def test_a_picture_of_one_seed_says_so(tmp_path: Path) -> None:
    figures = read(published(tmp_path, True))
    [panel] = figures.panels
    assert "(one seed)" not in picture(figures)
    assert "Relative (one seed)" in picture(replace(figures, panels=[replace(panel, seeds=1)]))


@pytest.mark.parametrize(
    ("words", "tables", "fault"),
    [
        (["--likelihood", "other"], {}, "no likelihood 'other'"),
        ([], {"tables/other.csv": b""}, "compares no systems yet"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_a_line(
    tmp_path: Path, words: list[str], tables: dict[str, bytes], fault: str
) -> None:
    folder, out = published(tmp_path, False), tmp_path / "long.svg"
    if tables:
        pack(tables, folder / "tables.tar.xz")
    command = [sys.executable, "-m", "docs.scripts.long_sentences", str(folder), "--out", str(out), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n"), out.exists()) == (2, 1, False)
    assert fault in done.stderr


def test_one_command_writes_the_picture(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "long.svg"
    command = [sys.executable, "-m", "docs.scripts.long_sentences", str(study), "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True)
    assert out.read_text(encoding="utf-8") == picture(read(study))
