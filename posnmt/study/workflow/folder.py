"""The folder of a step: bookkeeping files, and the verification of the step's outputs.

Besides the outputs of the step, the folder has these files:

step.json      the step, and the folders and files of its inputs
log.txt        standard output and error of every attempt
progress.txt   the latest progress line
running.json   the process that runs the step, locked as long as it lives
job.json       the cluster's job, from its submission to its end
failed.json    why the last attempt failed
done.json      written last, atomically: a step is finished if and only if it exists
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from posnmt.base.files import is_file, read_json, sha256_of
from posnmt.base.output import is_draft

STEP, LOG, PROGRESS = "step.json", "log.txt", "progress.txt"
RUNNING, JOB, FAILED, DONE = "running.json", "job.json", "failed.json", "done.json"
BOOKKEEPING = {STEP, LOG, PROGRESS, RUNNING, JOB, FAILED, DONE}
STUDY, STEPS, SHORT = "study.json", "steps", 16


def step_folder(out: Path, kind: str, key: str) -> Path:
    """Return the folder of a step: OUT/steps/KIND/ and the first `SHORT` digits of its key."""
    return out / STEPS / kind / key[:SHORT]


def outputs(folder: Path) -> dict[str, dict[str, Any]]:
    """The files that a step wrote: path in the folder -> `size` in bytes, `mtime_ns` and `sha256`."""
    files = {}
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            relative = path.relative_to(folder).as_posix()
            # Lock files have no content.
            if relative not in BOOKKEEPING and not name.endswith(".lock") and not is_draft(name):
                facts = path.stat()
                files[relative] = {"size": facts.st_size, "mtime_ns": facts.st_mtime_ns, "sha256": sha256_of(path)}
    return files


def alteration(folder: Path, thorough: bool) -> str | None:
    """The first change in the files of a finished step, as a phrase for a message; None if there is none.

    Args:
        folder: of a step with done.json.
        thorough: compare the hash of every file, not only of files whose modification time has changed.
    """
    done = read_json(folder / DONE)
    if done is None or not isinstance(done.get("files"), dict):
        return f"{DONE} is not as it was written"
    for name, recorded in done["files"].items():
        path = folder / name
        if not is_file(path):
            return f"the file {name} is missing"
        facts = path.stat()
        same = facts.st_size == recorded["size"]
        if same and (thorough or facts.st_mtime_ns != recorded["mtime_ns"]):
            same = sha256_of(path) == recorded["sha256"]
        if not same:
            return f"the file {name} is not what the step wrote"
    return None


def last_lines(folder: Path, count: int) -> list[str]:
    """The last lines of a step's log; empty without a log."""
    try:
        with (folder / LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 200 * count))
            return file.read().decode("utf-8", "replace").rstrip().split("\n")[-count:]
    except OSError:
        return []


def last_progress(folder: Path) -> str:
    """The latest progress line of a step; empty if there is none."""
    try:
        return (folder / PROGRESS).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
