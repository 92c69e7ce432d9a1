"""What a published copy says of the machine that it was made on."""

from __future__ import annotations

from pathlib import Path

from posnmt.study.publish import _name_places


def test_folders_are_named_where_a_text_names_them_and_nowhere_else(tmp_path: Path) -> None:
    text = (
        "in /home/me. /home/me/a.de, /home/me-2/a, /home/men, /home/me.old and </p>, made in /home/me - once /home/me"
    )
    (tmp_path / "runs.csv").write_text(text, encoding="utf-8")
    _name_places(tmp_path, {"/home/me": "STUDY", "/": "."})
    assert (tmp_path / "runs.csv").read_text(encoding="utf-8") == (
        "in STUDY. STUDY/a.de, /home/me-2/a, /home/men, /home/me.old and </p>, made in STUDY - once STUDY"
    )
