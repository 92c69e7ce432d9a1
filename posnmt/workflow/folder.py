"""The folder of a step: the files that the study keeps there beside the step's own, and whether those are intact.

step.json      what the step is, and where its inputs are
log.txt        standard output and error of every attempt
progress.txt   the last line that it said
running.json   who runs it now; locked as long as that process lives
job.json       the cluster's job, from its submission to its end
failed.json    how the last attempt failed
done.json      written last and whole: only with it the step is finished
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from posnmt.files import read_json, sha256_of

STEP, LOG, PROGRESS = "step.json", "log.txt", "progress.txt"
RUNNING, JOB, FAILED, DONE = "running.json", "job.json", "failed.json", "done.json"
BOOKKEEPING = {name + end for name in (STEP, LOG, PROGRESS, RUNNING, JOB, FAILED, DONE) for end in ("", ".partial")}
STEPS, SHORT = "steps", 16


def step_folder(out: Path, kind: str, key: str) -> Path:
    """Where a step of a study is."""
    return out / STEPS / kind / key[:SHORT]


def outputs(folder: Path) -> dict[str, dict[str, Any]]:
    """Of every file that a step wrote, by its path in the folder: `size` in bytes, `mtime_ns`, `sha256`."""
    files = {}
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            relative = path.relative_to(folder).as_posix()
            if relative not in BOOKKEEPING and not name.endswith(".lock"):  # lock files have no content
                facts = path.stat()
                files[relative] = {"size": facts.st_size, "mtime_ns": facts.st_mtime_ns, "sha256": sha256_of(path)}
    return files


def alteration(folder: Path, thorough: bool) -> str | None:
    """What is no longer as a finished step left it, as the beginning of a sentence; None if nothing is found.

    Args:
        folder: of a step with done.json.
        thorough: read every file; otherwise only those whose time of change is not the recorded one.
    """
    done = read_json(folder / DONE)
    if done is None or not isinstance(done.get("files"), dict):
        return f"{DONE} is not as it was written"
    for name, recorded in done["files"].items():
        path = folder / name
        if not path.is_file():
            return f"the file {name} is gone"
        facts = path.stat()
        same = facts.st_size == recorded["size"]
        if same and (thorough or facts.st_mtime_ns != recorded["mtime_ns"]):
            same = sha256_of(path) == recorded["sha256"]
        if not same:
            return f"the file {name} is not what the step wrote"
    return None


def last_lines(folder: Path, count: int) -> list[str]:
    """The end of a step's log; nothing where there is none."""
    try:
        with (folder / LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 200 * count))
            return file.read().decode("utf-8", "replace").rstrip().split("\n")[-count:]
    except OSError:
        return []


def last_progress(folder: Path) -> str:
    """The last line that a step said of its progress; empty where it said nothing."""
    try:
        return (folder / PROGRESS).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
