"""Two processes of a command that writes, in one folder at a time: one whole output, and never a mixture.

`python -m tests.promises.together 20` starts each command 20 times, twice at once, and prints how they ended.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.promises.commands import COMMANDS, Child, Whole, content, copied, drafts
from tests.support.forked import import_all


def pair(place: Path, command: str, whole: Whole) -> str:
    """Start a command twice in one folder; how the two ended.

    Raises:
        AssertionError: the output is not whole, something is left over, or a refusal is not one line.
    """
    with copied(place, "together", command) as folder:
        children = [Child(folder, command) for _ in range(2)]
        ends = Counter(child.end() for child in children)
        errors = children[0].errors.read_text()
        assert set(ends) in ({0}, {0, 2}), f"{command}: {ends}, {errors}"
        assert "Traceback" not in errors, errors
        refused = [line for line in errors.splitlines() if line.startswith("error: ")]
        assert len(refused) == ends[2], errors
        assert whole.is_whole(content(folder)), f"{command}: {sorted(content(folder))}"
        assert not drafts(folder), f"{command}: {drafts(folder)}"
    return "both write the same" if ends[0] == 2 else "one is refused"


def pairs(names: Sequence[str], times: int) -> Counter[tuple[str, str]]:
    """How often two processes of each command ended in each way."""
    counts = Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            whole = Whole(Path(place), COMMANDS[name])
            for _ in range(times):
                counts[name, pair(Path(place), COMMANDS[name], whole)] += 1
    return counts


def main() -> None:
    """Print the counts."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("times", type=int)
    options.add_argument("names", nargs="*", default=list(COMMANDS))
    given = options.parse_args()
    import_all()
    for name in given.names:
        for (_, end), count in sorted(pairs([name], given.times).items()):
            print(f"{name}: {end}: {count}", flush=True)


if __name__ == "__main__":
    main()
