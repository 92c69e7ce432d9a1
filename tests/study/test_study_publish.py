"""What a published copy says of the machine that it was made on."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from posnmt.base.output import as_json
from posnmt.study.copied import FOLDERS, MARK, packed_in
from posnmt.study.load import load
from posnmt.study.packed import unpack
from posnmt.study.plan import plan
from posnmt.study.publish import KNOWN, _check, _readme, _without_places, _write


def test_folders_are_named_where_a_text_names_them_and_nowhere_else() -> None:
    text = (
        "in /home/me. /home/me/a.de, /home/me-2/a, /home/men, /home/me.old and </p>, made in /home/me - once /home/me"
    )
    files = {"runs.csv": text.encode(), "translations/test.csv": text.encode(), "figures/1.pdf": b"/home/me\xff"}
    named = _without_places(files, {"/home/me": "STUDY", "/": "."})
    assert named.pop("runs.csv").decode() == (
        "in STUDY. STUDY/a.de, /home/me-2/a, /home/men, /home/me.old and </p>, made in STUDY - once STUDY"
    )
    assert named == {name: content for name, content in files.items() if name in named}


def test_a_copy_has_few_files_and_a_renewed_one_nothing_that_the_study_has_not(tmp_path: Path) -> None:
    texts = {name: b"1" for name in KNOWN if name != "results.csv.xz" and not name.endswith(".tar.xz")}
    inside = {f"{folder}/{number}/a": b"2" for folder in FOLDERS for number in range(9)}
    _write({**texts, **inside, "results.csv.xz": b"3"}, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == KNOWN
    assert len(KNOWN) <= 12
    assert unpack(packed_in(tmp_path, "figures")).keys() == {name for name in inside if name.startswith("figures/")}
    (tmp_path / "notes.txt").touch()
    _write({"README.md": b"new", "runs/a.all.1/steps.json": b"{}"}, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "runs.tar.xz", "notes.txt"}
    assert (tmp_path / "README.md").read_bytes() == b"new"


def test_a_copy_that_a_killed_process_left_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its files were complete, and while they were moved to their places."""
    study_plan, to = plan(load("choose"), "smoke", None), tmp_path / "copy"
    (to / ".files.0123abcd.partial").mkdir(parents=True)
    _check(study_plan, tmp_path / "study", to, None)
    mark = as_json({"recipe": study_plan.recipe.recipe, "scale": "smoke"})
    for moment in (1, 2):
        place, moved = tmp_path / str(moment), []

        def replace(old: Path, new: Path) -> None:
            if len(moved) == moment:  # noqa: B023
                raise KeyboardInterrupt
            moved.append(new)  # noqa: B023
            os.rename(old, new)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace)
            with pytest.raises(KeyboardInterrupt):
                _write({"README.md": b"1", MARK: mark}, place)
        _check(study_plan, tmp_path / "study", place, None)
        assert {path.name for path in place.iterdir()} == {"README.md", MARK}


def test_a_copy_names_the_parts_from_outside() -> None:
    """Who repeats the study has to have them."""
    own = {"kind": "scheme", "name": "mine:Mine", "target": "mine:Mine"}
    packed = {"kind": "system", "name": "near", "target": "pos_near:near", "distribution": "pos-near", "version": "1.0"}
    lines = list(_readme(plan(load("choose"), "smoke", None, parts=[own, packed]), {}, {}, None))
    assert "The scheme `mine:Mine` is not part of posnmt and must be importable." in lines
    assert "The system `near` of pos-near 1.0 is not part of posnmt and must be importable." in lines


@pytest.mark.parametrize("folders", [["tables"], ["tables", "figures"]])
def test_a_copy_describes_the_packed_folders_that_it_has(folders: list[str]) -> None:
    """A study whose recipe draws nothing has no figures."""
    files = {"report.html": b"", **{f"{folder}/1.csv": b"" for folder in folders}}
    [row] = [line for line in _readme(plan(load("choose"), "smoke", None), {}, files, None) if "tables.tar" in line]
    assert re.findall(r"\[(\w+)\.tar\.xz\]\(\1\.tar\.xz\)", row) == folders
