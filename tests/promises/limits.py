"""Too little memory: a command is complete, or ends in one line that says so, and a repeat with enough completes it.

`python -m tests.promises.limits` runs each command with limits of its address space, from a MiB above what it has
when its modules are imported to what it needs, and prints how it ended; names of commands choose some.
"""

from __future__ import annotations

import argparse
import resource
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.promises.commands import COMMANDS, Child, Whole, content, copied, drafts
from tests.support.forked import import_all

MIB = 1 << 20
SECONDS = 300
NAMES = ("prepare", "translate", "analyse", "train")
LIMITS = (1, 4, 12, 24, 48, 96, 160, 256, 512, 1024, 2048)
"""MiB of address space that a command may take more than its modules do."""


def limited(place: Path, name: str, whole: Whole, more: int) -> bool:
    """Run a command with so many bytes of additional address space, and repeat it without a limit.

    Returns:
        Whether it was complete under the limit.

    Raises:
        AssertionError: it ended otherwise than complete or with one line about memory, or the repeat does not complete
            it.
    """
    about = f"{name}, {more // MIB} MiB"
    with copied(place, "limited", COMMANDS[name]) as folder:
        child = Child(folder, COMMANDS[name], lambda: _limit(more))
        status, errors = child.end(), child.errors.read_text()
        lines = [line for line in errors.splitlines() if line.startswith("error: ")]
        assert "Traceback" not in errors, f"{about}: {errors}"
        assert status == 0 or (status == 2 and len(lines) == 1 and "memory" in lines[0]), f"{about}: {status}, {errors}"
        assert not drafts(folder), f"{about}: {drafts(folder)}"
        again = Child(folder, COMMANDS[name])
        ended = again.end()
        if ended == 2 and "--resume" in again.errors.read_text():
            ended = Child(folder, f"{COMMANDS[name]} --resume").end()
        assert ended == 0 or (ended == 2 and status == 0), f"{about}, again: {ended}, {errors}"
        assert whole.is_whole(content(folder)), f"{about}, again: {sorted(content(folder))}"
    return status == 0


def _limit(more: int) -> None:
    """Limit the address space of this process, and its time: it must not wait for what never comes."""
    signal.alarm(SECONDS)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + more, resource.getrlimit(resource.RLIMIT_AS)[1]))


def limits(name: str, mebibytes: Sequence[int] = LIMITS) -> list[int]:
    """The limits under which a command was complete; see `limited`."""
    with tempfile.TemporaryDirectory() as place:
        whole = Whole(Path(place), COMMANDS[name])
        return [more for more in mebibytes if limited(Path(place), name, whole, more * MIB)]


def main() -> None:
    """Print the counts."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", default=NAMES)
    given = options.parse_args()
    import_all()
    for name in given.names:
        complete = limits(name)
        print(f"{name}: {len(LIMITS)} limits, complete with {complete} MiB more than its modules", flush=True)


if __name__ == "__main__":
    main()
