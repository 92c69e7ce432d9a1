"""Run the program of a neural metric in its environment, and read what it reports: a JSON object a line."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.metrics.neural.environment import Environment, folder, variables
from posnmt.metrics.neural.metric import PROGRAMS, NeuralMetric

RUNNER = PROGRAMS / "runner.py"
LAST_LINES = 3
"""The last lines of a crashed program that its error names."""
SMALLER = "score fewer sentences at once: --metric-batch 1; or use a machine or a model that fits"

Event = dict[str, Any]


def run(name: str, metric: NeuralMetric, do: str, request: Mapping[str, Any], online: bool = False) -> Iterator[Event]:
    """Run a program and yield what it reports, as it comes.

    Args:
        name: of the metric.
        metric: whose program and environment are used.
        do: `find` or `score`, a function of `programs/runner.py`.
        request: its argument.
        online: whether it may use the network.

    Raises:
        UserError: it reports a fault, crashes, runs out of memory, or prints something else than reports.
    """
    log = folder() / "logs" / f"{file_name(name)}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    offline = {} if online else {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    settings = {**variables(), "TOKENIZERS_PARALLELISM": "false", **offline}
    with tempfile.TemporaryDirectory(prefix="posnmt-") as work, log.open("w", encoding="utf-8") as errors:
        asked = Path(work, "request.json")
        asked.write_text(json.dumps(request), encoding="utf-8")
        # -I: neither the current folder nor the user's packages; of PYTHON variables it ignores all
        call = [str(Environment(metric.packages).python), "-I", "-X", "utf8", str(RUNNER), str(metric.program), do]
        try:
            process = subprocess.Popen(
                [*call, str(asked)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                encoding="utf-8", env=settings,
            )  # fmt: skip
        except OSError as error:
            raise UserError(
                f"the environment of {name} does not start: {error.strerror}", call[0], advice(name)
            ) from None
        with closing(_Process(process)) as running:
            yield from running.events(name, log)


def file_name(name: str) -> str:
    """A metric's name as that of a file; `module:object` has a colon."""
    return name.replace(":", "+")


def advice(name: str, options: str = "") -> str:
    """What to do for a metric that is not installed as it should be."""
    return f"run `posnmt metrics install {name}{options}`"


class _Process:
    """A program that runs; closing it ends it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def events(self, name: str, log: Path) -> Iterator[Event]:
        """What it reports.

        Raises:
            UserError: see `run`.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                what = f"the program of {name} printed what is no report: {line.strip()[:80]!r}"
                raise UserError(what, log, "correct it") from None
            if "error" in event:
                raise _fault(name, event, log)
            yield event
        status = self._process.wait()
        if status in (-9, 137):  # how Linux ends a process when memory runs out
            raise UserError(f"{name} was killed, as a rule because memory ran out", log, SMALLER)
        if status:
            last = " | ".join(_last_lines(log)) or "it printed nothing"
            raise UserError(f"{name} crashed with status {status}: {last}", log, "the file has all that it printed")


def _fault(name: str, event: Event, log: Path) -> UserError:
    """The fault that a program reports."""
    if event["error"] == "memory":
        return UserError(f"{name} ran out of memory: {event['what']}", log, SMALLER)
    if event["error"] == "missing":
        return missing(event["model"], event["what"])
    if event["error"] == "unsuitable":
        return UserError(event["what"], None, f"name a model of {name}: --model ID or PATH")
    return UserError(f"{name} failed: {event['error']}: {event['what']}", log, "the file has all that it printed")


def missing(model: str, reason: str) -> UserError:
    """The fault of a model that is not here, and what to copy where."""
    if not reason:
        return UserError("there is no such model", model, "give the path of a model, or its id on the hub")
    if any(word in reason.lower() for word in ("gated", "401", "unauthorized")):
        todo = "accept its licence on its page on the hub, and log in there: `hf auth login`"
    else:
        copy = f"`hf download {model} --local-dir FOLDER/{model.split('/')[-1]}`"
        todo = f"without a network: run {copy} where there is one, copy FOLDER here, and add --from FOLDER"
    return UserError(f"the model {model} is not here: {reason}", None, todo)


def _last_lines(log: Path) -> Sequence[str]:
    """The last lines of a file that are not empty."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    return [line for line in lines if line][-LAST_LINES:]
