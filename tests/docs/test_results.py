"""The published studies in docs/results: others can go on from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from posnmt.files import load_json, read_json
from posnmt.study.adopt import FACTS, FORMAT, MARK, RunFacts, Translations

COPIES = sorted(path.parent for path in (Path(__file__).parents[2] / "docs" / "results").glob(f"*/{MARK}"))


def test_there_are_published_studies() -> None:
    assert len(COPIES) >= 3


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_every_translation_that_a_copy_lists_is_there_whole(copy: Path) -> None:
    assert (read_json(copy / MARK) or {})["format"] == FORMAT
    translations, trainings = Translations(copy), sorted(copy.glob(f"runs/*/{FACTS}"))
    assert trainings
    for facts in trainings:
        about: RunFacts = load_json(facts, RunFacts, "the list of its steps", "publish it again")
        for test, step in about["translations"].items():
            for output, speed in step["speed"].items():
                assert translations.of(facts.parent, test, output).count(b"\n") == speed["lines"]


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_files_that_a_copy_describes_are_there(copy: Path) -> None:
    text = (copy / "README.md").read_text(encoding="utf-8")
    for name in ("recipe.yaml", "report.html", "results.csv.xz", "runs.csv"):
        assert f"[{name}]({name})" in text
        assert (copy / name).is_file()


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.name)
def test_an_unfinished_copy_says_how_to_go_on(copy: Path) -> None:
    text = (copy / "README.md").read_text(encoding="utf-8")
    assert ("to go on with it, add `--adopt .`" in text) == ("**It is not complete**" in text)
