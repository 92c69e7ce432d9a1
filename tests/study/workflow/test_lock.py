"""Lock files and studies with real processes, also where Python has no `fcntl` and other things that Windows lacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.support import corpus
from tests.support.sources import SOURCES
from tests.support.study_case import Study, wait_for

HOLD = """
import os, sys, time
from pathlib import Path
from posnmt.base.lock import Lock
lock = Lock(Path(sys.argv[1]), {"cores": 3})
if "fork" in sys.argv and os.fork() == 0:
    time.sleep(3600)
print("held", flush=True)
sys.stdin.readline()
lock.release()
"""
ASK = """
import sys
from pathlib import Path
from posnmt.base.lock import holder
print(holder(Path(sys.argv[1])))
"""
TAKE = """
import sys
from pathlib import Path
from posnmt.base.errors import UserError
from posnmt.study.workflow import runner
try:
    runner.only_runner(Path(sys.argv[1]).parent).release()
    print("taken and released")
except UserError as error:
    print(error)
"""


WITHOUT = """
import os, signal, sys
import portalocker  # which sacreBLEU imports; it has a form for Windows, and this one needs fcntl
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
del os.killpg, os.sched_getaffinity, signal.pthread_sigmask, signal.SIGUSR2
"""
IMPORT_ALL = """
import importlib, pkgutil, sys
import posnmt
names = [each.name for each in pkgutil.walk_packages(posnmt.__path__, "posnmt.") if each.name != "posnmt.__main__"]
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        optional = ("triton", "submitit", "transformers", "ctranslate2")
        if error.name not in optional and not name.startswith("posnmt.deploy.huggingface"):  # Transformers needs fcntl
            raise
print(len(names), sys.modules["fcntl"])
"""


@pytest.fixture
def poor(tmp_path):
    """Variables for processes that lack what Windows lacks: Python runs `sitecustomize` when it starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WITHOUT)
    search = os.pathsep.join([str(folder), SOURCES])
    return {**os.environ, "PYTHONPATH": search, "PYTHONWARNINGS": "ignore"}


@pytest.fixture(params=["fcntl", "no fcntl"])
def environment(request, poor):
    """Variables for processes with `fcntl`, and for processes without."""
    search = os.pathsep.join(poor["PYTHONPATH"].split(os.pathsep)[1:])
    return poor if request.param == "no fcntl" else {**poor, "PYTHONPATH": search}


@pytest.fixture
def file(tmp_path):
    (tmp_path / "study").mkdir()
    return tmp_path / "study" / "runner.json"


@pytest.fixture
def holding(file, environment):
    """Start a process that holds the lock; what is left of it and its children is killed at the end."""
    started = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(file), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True, env=environment,
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def said(code, file, environment):
    return subprocess.check_output([sys.executable, "-c", code, str(file)], env=environment, text=True).strip()


def test_a_second_process_is_refused_and_told_who_holds_it(file, environment, holding):
    process = holding()
    assert f"'process': {process.pid}, " in (owner := said(ASK, file, environment))
    assert "'cores': 3" in owner
    assert f"process {process.pid} on {os.uname().nodename} has been running this study" in said(
        TAKE, file, environment
    )
    process.stdin.write(b"\n")
    process.stdin.flush()
    process.wait()
    assert not file.exists()
    assert said(ASK, file, environment) == "None"
    assert said(TAKE, file, environment) == "taken and released"
    holding()  # again, after a holder that released it


@pytest.mark.parametrize("words", [[], ["fork"]], ids=["alone", "with a child that has the file open"])
def test_a_lock_whose_holder_was_killed_is_free(file, environment, holding, words):
    process = holding(*words)
    process.kill()
    process.wait()
    assert file.exists()
    wait_for(lambda: said(ASK, file, environment) == "None", seconds=20)
    assert said(TAKE, file, environment) == "taken and released"


def test_a_process_id_decides_nothing(file, environment, holding):
    """Ids are used again: of a free lock the file may name a living process, and of one that is held a dead one."""

    def named(process):
        file.write_text(json.dumps({"host": os.uname().nodename, "process": process, "started": "2026-01-01"}))

    named(os.getpid())
    assert said(ASK, file, environment) == "None"
    assert said(TAKE, file, environment) == "taken and released"
    holding()
    named(2**30)
    assert f"'process': {2**30}" in said(ASK, file, environment)
    assert "has been running this study" in said(TAKE, file, environment)


def test_asking_creates_nothing(file, environment):
    before = file.parent.stat().st_mtime_ns
    assert said(ASK, file, environment) == "None"
    assert file.parent.stat().st_mtime_ns == before  # also not for a moment


@pytest.mark.slow
def test_every_module_is_imported_without_fcntl(tmp_path, poor):
    count, fcntl = said(IMPORT_ALL, tmp_path, poor).split()
    assert int(count) > 200
    assert fcntl == "None"


@pytest.mark.slow
def test_a_study_runs_without_fcntl(tmp_path, poor, monkeypatch):
    for name in ("PYTHONPATH", "PYTHONWARNINGS"):
        monkeypatch.setenv(name, poor[name])
    study = Study(tmp_path)
    study.long_step()
    study.step("one")
    study.step("after", needs={"it": "one"})
    first = study.in_a_process()
    wait_for(lambda: "piece long" in study.written())
    refused = said(TAKE, study.out / "runner.json", poor)
    assert f"process {first.pid} on {os.uname().nodename} has been running this study" in refused
    assert "'process': " in said(ASK, study.folder("long") / "running.json", poor)
    study.release()
    log = first.communicate(timeout=300)[0].decode()
    assert first.returncode == 0, log
    assert study.states() == {"long": "done", "one": "done", "after": "done"}
    assert not (study.folder("long") / "running.json").exists()


@pytest.mark.slow
def test_a_model_trains_and_translates_without_fcntl(tmp_path, poor):
    config, run, text = corpus.make(tmp_path, pairs=60), tmp_path / "run", tmp_path / "corpus" / "test.source"

    def posnmt(*words):
        return subprocess.check_output([sys.executable, "-m", "posnmt", *map(str, words)], env=poor, text=True)

    posnmt("train", config, "--out", run)
    posnmt("train", "--out", run, "--resume", "--set", "train.steps=14")
    translations = posnmt("translate", run, "--input", text).splitlines()
    assert len(translations) == len(text.read_text().splitlines())
