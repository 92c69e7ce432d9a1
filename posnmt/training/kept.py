"""A training that the machine stops, by a full disk, a missing permission or too little memory: what is kept of it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from posnmt.base.errors import UserError, is_out_of_memory
from posnmt.run.run import checkpoints_in

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def saying_what_is_kept(out: Path) -> Iterator[None]:
    """Report what the machine refuses in the block as one line, with what is kept of the run and how to go on.

    Args:
        out: the run folder.

    Raises:
        UserError: the disk is full, something may not be read or written, or the memory is too small.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None or error.strerror is None:
            raise
        todo = "free disk space" if error.errno in _FULL else "correct it"
        raise _stopped(error.strerror, out, error.filename, todo) from error
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        todo = "free memory; a new run needs less with a lower train.batch and a higher train.accumulate"
        raise _stopped("the memory is too small", out, None, todo) from error


def _stopped(what: str, out: Path, place: str | None, todo: str) -> UserError:
    """The line for a training that stopped."""
    kept = [each.name for each in checkpoints_in(out / "checkpoints")[-1:]]
    state = f"{kept[0]} is kept" if kept else "no checkpoint was written yet"
    again = f"`posnmt train --out {out} --resume`" if (out / "config.yaml").exists() else "the same command"
    return UserError(f"training stopped: {what}; {state}", place or out, f"{todo}, and go on with {again}")
