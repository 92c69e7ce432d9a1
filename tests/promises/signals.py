"""Signals at random moments of commands that write: the output is as before or complete, and a repeat completes it.

`python -m tests.promises.signals 20` sends 20 signals to each command, and prints the counts; names of commands after
the number choose some.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.promises.commands import COMMANDS, Child, Whole, content, copied, drafts
from tests.support.forked import import_all

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)

RESUMED = {"train", "translate", "compare", "study run", "data fetch", "figure"}
"""Commands of which a part may be there: a repeat goes on with it, or is refused and says that `--resume` does."""


def disturb(place: Path, name: str, whole: Whole, number: signal.Signals, moment: float) -> str:
    """Send a signal after a share of a command's time, and repeat the command; what there was after the signal.

    Raises:
        AssertionError: the output is damaged, something is left over, or the repeat does not complete it.
    """
    about = f"{name}, {number.name} at {moment:.3f}"
    with copied(place, "disturbed", COMMANDS[name]) as folder:
        child = Child(folder, COMMANDS[name])
        time.sleep(moment * whole.seconds)
        os.kill(child.id, number)
        status = child.end()
        assert status in (0, 130, -number), f"{about}: {status}, {child.errors.read_text()}"
        assert "Traceback" not in child.errors.read_text(), f"{about}: {child.errors.read_text()}"
        found = content(folder)
        state = "complete" if whole.is_whole(found) else "as before" if not found else "unfinished"
        if number != signal.SIGKILL and status == 130:
            assert not drafts(folder), f"{about}: {drafts(folder)}"
        assert state != "unfinished" or name in RESUMED or number == signal.SIGKILL, f"{about}: {sorted(found)}"
        _repeat(folder, name, whole, state, about)
    return state


def _repeat(folder: Path, name: str, whole: Whole, state: str, about: str) -> None:
    """Repeat a command, and check that its output is complete."""
    child = Child(folder, COMMANDS[name])
    status = child.end()
    if status == 2 and name in RESUMED and "--resume" in child.errors.read_text():
        child = Child(folder, f"{COMMANDS[name]} --resume")
        status = child.end()
    errors = child.errors.read_text()
    assert status == 0 or (status == 2 and state == "complete" and "exists" in errors), f"{about}, again: {errors}"
    assert whole.is_whole(content(folder)), f"{about}, again: {sorted(content(folder))}"
    assert not drafts(folder), f"{about}, again: {drafts(folder)}"


def disturbances(names: Sequence[str], times: int, seed: int) -> Counter[tuple[str, str, str]]:
    """Signals at random moments: how often each command was found in each state after each signal."""
    drawn, counts = random.Random(seed), Counter[tuple[str, str, str]]()
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            whole = Whole(Path(place), COMMANDS[name])
            for _ in range(times):
                number = drawn.choice(SIGNALS)
                state = disturb(Path(place), name, whole, number, drawn.uniform(0, 1.1))
                counts[name, number.name, state] += 1
    return counts


def main() -> None:
    """Print the counts."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("times", type=int)
    options.add_argument("names", nargs="*", default=list(COMMANDS))
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    import_all()
    for name in given.names:
        for (_, number, state), count in sorted(disturbances([name], given.times, given.seed).items()):
            print(f"{name}: {number}, {state}: {count}", flush=True)


if __name__ == "__main__":
    main()
