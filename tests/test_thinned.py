"""Each test whose cases are thinned exists, and `make test` still runs some of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.thinned import SOME

ROOT = Path(__file__).resolve().parents[1]


def collected(mark: str) -> Counter[str]:
    """The number of cases of each thinned test under a mark."""
    files = sorted({f"tests/{name.partition('::')[0]}" for name in SOME})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "-m", mark, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    names = (line.removeprefix("tests/").partition("[")[0] for line in done.stdout.splitlines())
    return Counter(name for name in names if name in SOME)


@pytest.mark.slow
def test_thinned_tests_run_some_cases_each_time_and_the_others_when_asked():
    fast, slow = collected("not slow"), collected("slow")
    assert set(fast) == set(SOME)
    assert {name for name in SOME if not slow[name]} <= {"data/test_offsets.py::test_real_corpora"}
    for name, share in SOME.items():
        assert fast[name] <= (fast[name] + slow[name]) / share + 1
