"""A study of small steps for the tests: its folder, what it says, and what was really done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from posnmt.base.lock import holder
from posnmt.study.workflow import runner, status
from posnmt.study.workflow.executors import Where
from posnmt.study.workflow.graph import Graph, Step
from posnmt.study.workflow.kind import Resources

SIZES = {"train": 200, "dev": 10, "test": 20, "min_length": 3, "max_length": 8, "test_max_length": 12}
STUDY = {
    "recipe": "tiny",
    "title": "One system",
    "pair": {"source": "en", "target": "de"},
    "scales": {
        "smoke": {
            "seeds": 1,
            "artificial": SIZES,
            "config": {
                "subword": {"vocabulary": 150},
                "model": {"size": "tiny", "tie_embeddings": "all"},
                "train": {"steps": 2, "batch": 512, "evaluate_every": 2, "dev_bleu": False, "best_by": "perplexity"},
                "decode": {"beam": 1, "max_extra": 4},
            },
        }
    },
    "systems": {"transformer": {"system": "transformer"}},
    "trainings": {"all": {}},
    "tests": {"test": {"corpus": "test"}},
    "runs": [{"systems": ["transformer"], "trainings": ["all"], "tests": ["test"]}],
    "analyses": {"all": {"test": "test", "trainings": ["all"]}},
    "tables": [
        {
            "table": 1,
            "caption": "Scores",
            "rows": ["transformer"],
            "columns": [{"title": "chrF", "analysis": "all", "measure": "chrf"}],
        }
    ],
}
"""A recipe of five steps, which takes seconds at scale smoke."""

RUN_IT = """
import json, sys
from pathlib import Path
from posnmt.study.workflow import runner
from posnmt.study.workflow.executors import Where
from posnmt.study.workflow.graph import Graph, Step
steps = [Step(**step) for step in json.loads(sys.argv[2])]
try:
    graph, where = Graph(steps, "tests.support.study_kinds:KINDS"), json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    runner.run(graph, Path(sys.argv[1]), Where(jobs=2, **where), lambda line: print(line, flush=True))
except KeyboardInterrupt:
    sys.exit(130)
"""


class Study:
    """A folder, steps, and what was done."""

    def __init__(self, folder: Path) -> None:
        self.out, self.list, self.hold = folder / "study", folder / "list", folder / "hold"
        self.steps: list[Step] = []

    def step(self, name, kind="write", needs=None, files=None, resources=None, **settings):
        settings = {"list": str(self.list), "text": name, **settings}
        step = Step(name, kind, settings, needs or {}, files or {}, resources or Resources())
        self.steps.append(step)
        return step

    def long_step(self, pieces=10):
        """A step `long` that does not end before `release`."""
        self.hold.touch()
        return self.step("long", "pieces", pieces=pieces, hold=str(self.hold))

    def release(self):
        """Let the long step go on to its end."""
        self.hold.unlink(missing_ok=True)

    @property
    def graph(self):
        return Graph(self.steps, "tests.support.study_kinds:KINDS")

    def run(self, release_at=None, retry=True, until=None, **where):
        """Run the steps here; `release_at` is a part of the line at which the long step is released."""
        self.lines = []

        def say(line):
            self.lines.append(line)
            if release_at is not None and release_at in line:
                self.release()

        return runner.run(self.graph, self.out, Where(**where), say, retry, until)

    def folder(self, name):
        return self.graph.folder(self.out, name)

    def text(self, name):
        return (self.folder(name) / "text").read_text()

    def states(self):
        return {name: each.state for name, each in status.states(self.graph, self.out).items()}

    def written(self):
        return self.list.read_text().splitlines() if self.list.exists() else []

    def in_a_process(self, executor="local", **where):
        """A runner of its own, that can be killed."""
        steps = [{"name": s.name, "kind": s.kind, "settings": s.settings, "needs": s.needs} for s in self.steps]
        where = {"executor": executor, **where}
        return subprocess.Popen(
            [sys.executable, "-c", RUN_IT, str(self.out), json.dumps(steps), json.dumps(where)],
            stdout=subprocess.PIPE, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        )  # fmt: skip

    def process_of(self, name):
        """The process that runs a step, once it does."""
        return wait_for(lambda: holder(self.folder(name) / "running.json"))["process"]


def wait_for(true, seconds=300):
    """What `true` gives, once it gives anything; the limit only ends a test that would hang."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)
    return found
