"""A clock that jumps: budgets of minutes, timeouts and locks follow another, which does not."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import corpus
from tests.support.serving import serving
from tests.support.untrained import LEARNED

ROOT = Path(__file__).parents[2]
DAY = 86_400

COMPILER = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform != "linux", reason="a compiler makes the library that sets the clock"
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables of a process whose clock jumps when the file `shift` has a number of seconds."""
    library = tmp_path / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return {**os.environ, "LD_PRELOAD": str(library), "CLOCK_SHIFT": str(tmp_path / "shift")}


def test_no_duration_is_measured_by_the_time_of_day() -> None:
    """One place asks for it: whether a file was written in the last seconds. If it is wrong, a file is read again."""
    asking = set()
    for path in sorted(ROOT.glob("posnmt/**/*.py")) + sorted(ROOT.glob("position/posnmt_position/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("time.time", "time.time_ns"):
                asking.add(path.relative_to(ROOT).as_posix())
    assert asking == {"posnmt/base/files.py"}


def after(is_so: Callable[[], bool], act: Callable[[], object]) -> None:
    """Do something in a thread as soon as something is so."""

    def wait() -> None:
        while not is_so():
            time.sleep(0.02)
        act()

    threading.Thread(target=wait, daemon=True).start()


@COMPILER
@pytest.mark.slow
@pytest.mark.parametrize("shift", [DAY, -DAY])
def test_a_training_of_minutes_takes_them(tmp_path: Path, environment: dict[str, str], shift: int) -> None:
    config, run = corpus.make(tmp_path, pairs=60), tmp_path / "run"
    trained = run / "metrics.jsonl"
    after(lambda: trained.exists() and trained.stat().st_size > 0, lambda: (tmp_path / "shift").write_text(str(shift)))
    command = [sys.executable, "-m", "posnmt", "train", config, "--out", run, "--set", "train.steps=null"]
    began = time.monotonic()
    subprocess.run([*command, "--set", "train.minutes=0.1"], env=environment, check=True, timeout=600)
    seconds = time.monotonic() - began
    asked = [sys.executable, "-c", "import time; print(time.time())"]
    shown = float(subprocess.check_output(asked, env=environment, text=True))
    assert shown - time.time() == pytest.approx(shift, abs=60), "the clock was set"
    trained_for = json.loads((run / "record.json").read_text())["seconds"]
    assert 3 < trained_for < seconds


@COMPILER
@pytest.mark.slow
def test_a_server_answers_as_before(tmp_path: Path, environment: dict[str, str]) -> None:
    with serving(LEARNED, "--timeout", 60, "--rate", 1000, environment=environment) as server:
        for shift in (0, DAY, -DAY):
            (tmp_path / "shift").write_text(str(shift))
            began = time.monotonic()
            status, answer, _ = server.post("/translate", {"q": "lo dumo", "source": "en", "target": "de"})
            assert (status, type(answer["translatedText"])) == (200, str)
            assert time.monotonic() - began < 60
        assert server.end() == 0
