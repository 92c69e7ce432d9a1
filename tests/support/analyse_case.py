"""Three sentences, and the command that analyses their translations."""

from __future__ import annotations

import pytest
from report_case import report_of, without_figures

SOURCE = [
    "ein Haus", "der Hund sieht die Katze", "das ist ein kleines Haus am See", "ja", "eins zwei drei vier fünf sechs",
    "a\u2028b c", "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
]  # fmt: skip


REFERENCE = [
    "a house", "the dog sees the cat", "this is a small house by the lake", "yes", "one two three four five six",
    "a\u2028b c", "one two three four five six seven eight nine ten eleven twelve",
]  # fmt: skip


OUTPUT = [
    "a house", "the dog sees a cat", "that is a small house at the lake", "", "one two three four five six",
    "a\u2028b d", "one two three four five six",
]  # fmt: skip


HTML_NAME = '<script>alert("1")</script> & $x_1$'


@pytest.fixture
def files(tmp_path):
    def write(name, lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        return path

    return write


@pytest.fixture(autouse=True)
def no_figures():
    """tests/report/test_report.py looks at figures."""
    with without_figures():
        yield


@pytest.fixture
def run(files, tmp_path):
    def run(outputs=None, source=SOURCE, reference=REFERENCE, **options):
        paths = {name: files(f"{i}.out", text) for i, (name, text) in enumerate((outputs or {"ours": OUTPUT}).items())}
        options = {"out": tmp_path / "out", "metrics": ["bleu"], **options}
        return report_of(files("source", source), files("reference", reference), paths, **options)

    return run
