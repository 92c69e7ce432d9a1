"""Run one step in a process of its own: `python -m posnmt.study.workflow.execute OUT KEY`.

The step's step.json holds everything that the process needs, so that it can outlive the runner and run on another
machine. Under torchrun, all processes do the work, and the one of rank 0 records the result. Exit status: 0 done; 1
internal error; 2 user error; 74 no space left; 75 another process runs the step; 130 stopped with its state saved.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType
from typing import Any

from posnmt.base import plugins
from posnmt.base.errors import UserError
from posnmt.base.files import read_json
from posnmt.base.interrupt import Interrupted
from posnmt.base.lock import Lock, now
from posnmt.base.output import replacing, sync, write_json
from posnmt.base.version import __version__, version_of
from posnmt.study.workflow.executors import visible_gpus
from posnmt.study.workflow.folder import DONE, FAILED, PROGRESS, RUNNING, SHORT, STEP, STEPS, last_lines, outputs
from posnmt.study.workflow.kind import Context, Resources

FAULT, MISTAKE, DISK_FULL, TAKEN, STOPPED = 1, 2, 74, 75, 130
VERSIONS = ("torch", "numpy", "sentencepiece", "sacrebleu")


def main(out: Path, key: str) -> int:
    """Run a step, unless it is finished or another process runs it; return the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    folder = next((out / STEPS).glob(f"*/{key[:SHORT]}"))
    step = read_json(folder / STEP) or {}
    if int(os.environ.get("RANK", "0")) > 0:
        return _attempt(folder, lambda: _work(out, folder, step, lambda line: None))
    try:
        lock = Lock(folder / RUNNING, {"cores": step["resources"]["cores"], "gpus": visible_gpus()})
    except BlockingIOError:
        return TAKEN
    except OSError as error:
        return _failed(folder, error)
    with lock:
        if (folder / DONE).exists():
            return 0
        return _attempt(folder, lambda: _run_and_record(out, folder, step))


def _stop(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM for kinds that do not handle it themselves."""
    raise KeyboardInterrupt


def _attempt(folder: Path, work: Callable[[], None]) -> int:
    """Call `work`, record a failure, and return the exit status."""
    try:
        work()
    except (Interrupted, KeyboardInterrupt):
        return STOPPED
    except Exception as error:
        return _failed(folder, error)
    return 0


def _work(out: Path, folder: Path, step: dict[str, Any], say: Callable[[str], None]) -> None:
    """Run the function of the step's kind."""
    inputs = {role: out / need["folder"] for role, need in step["needs"].items()}
    files = {role: Path(facts["path"]) for role, facts in step["files"].items()}
    context = Context(folder, step["settings"], inputs, files, Resources(**step["resources"]), say)
    resolve_name(step["kinds"])[step["kind"]].run(context)


def _run_and_record(out: Path, folder: Path, step: dict[str, Any]) -> None:
    """Run the step and write done.json.

    Raises:
        UserError: an input file has changed since the key was computed.
    """
    began = time.monotonic()
    progress = _Progress(folder)
    _work(out, folder, step, progress.say)
    progress.keep(0)
    for role, facts in step["files"].items():
        path = Path(facts["path"])
        if not path.exists() or [path.stat().st_size, path.stat().st_mtime_ns] != [facts["size"], facts["mtime_ns"]]:
            raise UserError(f"the {role} was changed while the step ran", path, "run the study again")
    files = outputs(folder)
    # Not all files: closing running.json would release its lock.
    for path in (folder / name for name in files):
        sync(path)
        for above in path.parents[: len(path.relative_to(folder).parts)]:
            sync(above)
    done = {
        "finished": now(),
        "seconds": round(time.monotonic() - began, 3),
        "host": platform.node(),
        "versions": dict(_versions()),
        "files": files,
    }
    write_json(folder / DONE, done)


def _versions() -> Iterator[tuple[str, str]]:
    """Versions of the software that results depend on."""
    yield "posnmt", __version__
    yield "python", platform.python_version()
    for name in VERSIONS:
        if find_spec(name):
            yield name, version_of(name)


class _Progress:
    """Keeps the latest progress line in progress.txt, and logs at most one line per second."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PROGRESS
        self._line, self._kept, self._logged = "", 0.0, 0.0

    def say(self, line: str) -> None:
        self._line = line.replace("\n", " ")
        self.keep(0.5)
        if time.monotonic() - self._logged >= 1:
            self._logged = time.monotonic()
            print(self._line, flush=True)

    def keep(self, pause: float) -> None:
        """Write the line, unless one was written in the last `pause` seconds."""
        if self._line and time.monotonic() - self._kept >= pause:
            self._kept = time.monotonic()
            with replacing(self._path, durable=False) as partial:
                partial.write_text(self._line + "\n", encoding="utf-8")


def _failed(folder: Path, error: Exception) -> int:
    """Write an error to the log and to failed.json; return the exit status."""
    error = plugins.fault(error) or error
    status, lines = FAULT, [f"{type(error).__name__}: {error}"]
    if is_disk_full(error):
        status, lines = DISK_FULL, [disk_full(folder)]
    elif isinstance(error, UserError):
        status, lines = MISTAKE, error.lines
    if status == FAULT:
        traceback.print_exception(error)
    else:
        print(*(f"error: {line}" for line in lines), sep="\n", file=sys.stderr, flush=True)
    if os.environ.get("RANK", "0") == "0":
        try:
            record_failure(folder, status, "; ".join(lines), isinstance(error, UserError))
        except OSError:  # the disk is full, which the exit status says
            (folder / FAILED).unlink(missing_ok=True)
    return status


def record_failure(folder: Path, status: int | None, message: str, user_error: bool = False) -> None:
    """Write failed.json.

    Args:
        folder: of the step.
        status: exit status; a negative one is the signal that ended the process; None: unknown.
        message: one line: what went wrong, and how to fix it if that is possible.
        user_error: whether it is a mistake of the user.
    """
    lines = last_lines(folder, 20)
    about = {"status": status, "message": message, "user_error": user_error, "when": now(), "lines": lines}
    write_json(folder / FAILED, about)


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, is a full disk or an exceeded quota."""
    while error is not None:
        # safetensors and PyTorch pass on the system's message, not its error number
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def disk_full(folder: Path) -> str:
    """The error message for a full disk."""
    place = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(place).free / 2**20
    return f"no space is left on the disk ({folder}, {free:,.0f} MiB free); free some space and run the study again"


if __name__ == "__main__":
    # Import the module under its own name, so that kinds that import Context get the same class.
    from posnmt.study.workflow.execute import main as run_step

    sys.exit(run_step(Path(sys.argv[1]), sys.argv[2]))
