"""Other programs, which are run as separate processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from posnmt.base.errors import UserError


def found(name: str) -> str | None:
    """The path of a program beside this Python or on PATH; None if there is none."""
    return shutil.which(name, path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))


def output_of(
    call: Sequence[str], name: str, todo: str, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Run a program and return its output.

    Args:
        call: the program and its arguments.
        name: of the program, for messages.
        todo: what to do if it fails.
        folder: in which it runs; default: the current one.
        environment: of the process; default: that of this process.

    Raises:
        UserError: it fails; the message has the last line of its errors.
    """
    done = subprocess.run(call, env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        reason = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        raise UserError(f"{name} failed: {reason}", call[0], todo)
    return done.stdout
