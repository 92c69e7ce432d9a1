"""What a published copy says of the machine that it was made on."""

from __future__ import annotations

from pathlib import Path

from posnmt.study.load import load
from posnmt.study.plan import plan
from posnmt.study.publish import _name_places, _readme, _remove_others


def test_folders_are_named_where_a_text_names_them_and_nowhere_else(tmp_path: Path) -> None:
    text = (
        "in /home/me. /home/me/a.de, /home/me-2/a, /home/men, /home/me.old and </p>, made in /home/me - once /home/me"
    )
    (tmp_path / "runs.csv").write_text(text, encoding="utf-8")
    _name_places(tmp_path, {"/home/me": "STUDY", "/": "."})
    assert (tmp_path / "runs.csv").read_text(encoding="utf-8") == (
        "in STUDY. STUDY/a.de, /home/me-2/a, /home/men, /home/me.old and </p>, made in STUDY - once STUDY"
    )


def test_a_renewed_copy_has_nothing_that_the_study_has_not(tmp_path: Path) -> None:
    """Such as the trainings of a renamed system, whose translations are in no table any more."""
    run, renamed = tmp_path / "runs" / "rope.all.1", tmp_path / "runs" / "rotary.all.1"
    test, other = tmp_path / "translations" / "test.csv.xz", tmp_path / "translations" / "other.csv.xz"
    for folder in (run, renamed, test.parent):
        folder.mkdir(parents=True)
    for file in (run / "steps.json", renamed / "steps.json", test, other, tmp_path / "README.md"):
        file.touch()
    _remove_others({run, test}, tmp_path)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"steps.json", "test.csv.xz", "README.md"}
    assert run.is_dir()
    assert not renamed.exists()


def test_a_copy_names_the_parts_from_outside(tmp_path: Path) -> None:
    """Who repeats the study has to have them."""
    own = {"kind": "scheme", "name": "mine:Mine", "target": "mine:Mine"}
    packed = {"kind": "system", "name": "near", "target": "pos_near:near", "distribution": "pos-near", "version": "1.0"}
    lines = list(_readme(plan(load("choose"), "smoke", None, parts=[own, packed]), {}, tmp_path, None))
    assert "The scheme `mine:Mine` is not part of posnmt and must be importable." in lines
    assert "The system `near` of pos-near 1.0 is not part of posnmt and must be importable." in lines
