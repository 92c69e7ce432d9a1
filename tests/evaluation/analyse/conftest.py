"""Fixtures of the tests of analyses."""

import pytest

from tests.support.analyse_case import OUTPUT, REFERENCE, SOURCE
from tests.support.report_case import report_of, without_figures


@pytest.fixture
def files(tmp_path):
    def write(name, lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        return path

    return write


@pytest.fixture(autouse=True)
def no_figures():
    """tests/evaluation/report/test_report.py looks at figures."""
    with without_figures():
        yield


@pytest.fixture
def run(files, tmp_path):
    def run(outputs=None, source=SOURCE, reference=REFERENCE, **options):
        paths = {name: files(f"{i}.out", text) for i, (name, text) in enumerate((outputs or {"ours": OUTPUT}).items())}
        options = {"out": tmp_path / "out", "metrics": ["bleu"], **options}
        return report_of(files("source", source), files("reference", reference), paths, **options)

    return run
