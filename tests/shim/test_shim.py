"""Commands whose disk is full, fails or loses power at any operation: one line, nothing half done, and they work again.

The commands are those of `cases.py`. `make test` tries operations drawn with a seed; the slow test tries more.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from posnmt.base.output import is_draft
from tests.shim.cases import CASES, CORPUS, Case, content, prepare
from tests.shim.machine import COMPILER, Ended, Machine
from tests.shim.power import Before, lose
from tests.support.fetch_server import serving

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD and /proc are Linux's"),
    pytest.mark.skipif(COMPILER is None, reason="the shim is built by a C compiler, and there is none"),
]
FAULTS = ("EIO", "ENOSPC", "killed", "data lost", "names lost")
SEED = 52
FEW, MANY = 3, 24
"""Operations that are tried of each command in `make test` and in `make test-slow`, each with another fault."""


NOT_DRAFTS = {
    r"(.*/)?\.(\w+\.)?lock|cache/.*\.lock": "a lock file, which has nothing that counts",
    r"cache/downloads/.*\.partial": "what has arrived up to now, which the next attempt completes",
    r"out\.partial/output": "the translations up to now; a record says how many of them are on the disk",
    r"run/metrics\.jsonl": "lines are added; a training that goes on removes those after its checkpoint",
    r"run/tensorboard/.*": "TensorBoard's, which posnmt does not read",
}
"""Files that are opened for writing and are no drafts of `posnmt.base.output`, and why."""

NOT_DRAFTS_OF_LONG = {
    r"study/steps/.*": "a step's, which counts when its `done.json` is there, after all that it lists is on the disk",
    r"(study|compared)/(\w+\.json|\w+\.json\.lock)": "lock files, which name the process that holds them",
    r"cache/metrics/.*": "those of Python and pip; the environment counts when `complete.json` is there",
    r"demo/\w+/(metrics\.jsonl|tensorboard/.*|\.lock)": "as those of `train`",
    r"demo/.*\.partial/(output|\.lock)": "as those of `translate`",
}
"""The same of long commands."""


@dataclass(frozen=True)
class Undisturbed:
    """What a command leaves that nothing disturbs, its operations as a line `name path` each, and whether it prints."""

    outcome: dict[str, Any]
    operations: list[str]
    prints: bool


class Place:
    """The folder in which commands run."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.folder, self.watched, self.machine = folder, folder / "w", machine
        self._known: dict[Case, Undisturbed] = {}

    def reset(self, case: Case) -> Before:
        """Make the folder `w` as it is before a command."""
        shutil.rmtree(self.watched, ignore_errors=True)
        case.before(self.watched)
        return Before.of(self.watched)

    def run(self, case: Case, at: int = 0, fault: str = "EIO", more: tuple[str, ...] = ()) -> Ended:
        """Run a command."""
        return self.machine.run(self.watched, [*case.arguments, *more], at, fault)

    def undisturbed(self, case: Case) -> Undisturbed:
        """What a command leaves that nothing disturbs."""
        if case not in self._known:
            self.reset(case)
            ended = self.run(case)
            assert ended.status == 0, ended.err
            self._known[case] = Undisturbed(case.outcome(self.watched), ended.operations, ended.out != "")
        return self._known[case]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("shim").resolve()
    for name in ("machine", "site"):  # a folder of packages that is not there yet would be forgotten
        (folder / name).mkdir()
    with serving() as server, Machine(folder / "machine", folder / "bin", folder / "site") as machine:
        for path, side in CORPUS.items():
            server.serve(path, side)
        prepare(folder, server.url(""))
        yield Place(folder, machine)


def check(place: Place, case: Case, at: int, fault: str) -> None:
    """Disturb a command at an operation, look at what is there, and repeat it."""
    whole = place.undisturbed(case).outcome
    before = place.reset(case)
    old = content(place.watched, hidden=False)
    ended = place.run(case, at, fault if fault.isupper() else "KILL")
    reached = ended.status != 0 or at <= len(ended.operations)  # a download has fewer where more arrives at a time
    if reached and not fault.isupper():
        assert ended.status == -9, ended.err
        if "lost" in fault:
            lose(place.watched, place.machine.journal, before, names="names" in fault)
    elif ended.status != 0:
        assert ended.status in case.failed, ended.err
        lines = sum(line.startswith("error: ") for line in ended.err.splitlines())
        assert lines == (ended.status == 2), ended.err
    assert "Traceback" not in ended.err, ended.err
    new = content(place.watched, hidden=False) if not case.parts else {}
    if not fault.isupper():  # it was killed before it moved files there
        new = {name: text for name, text in new.items() if text is not None or not _is_filled(name, whole)}
    assert [name for name, text in new.items() if name not in whole or text not in (old.get(name), whole[name])] == []
    assert case.parts or old.keys() <= new.keys(), "what was there is gone"
    again = place.run(case)
    if again.status == 2 and "--resume" in again.err:
        again = place.run(case, more=("--resume",))
    assert again.status == 0 or (again.status == 2 and "is not overwritten" in again.err), again.err
    assert case.outcome(place.watched) == whole, "all is in its place, and nothing is beside it"


def _is_filled(folder: str, whole: dict[str, Any]) -> bool:
    """Whether an empty folder has files in the end."""
    return folder not in whole and any(name.startswith(folder) for name in whole)


def drawn(place: Place, case: Case, number: int) -> list[tuple[int, str]]:
    """Operations of a command, evenly spread with a random start, each with a fault; neighbours have different ones."""
    operations = len(place.undisturbed(case).operations)
    number, draw = min(number, operations * len(FAULTS)), random.Random(SEED)
    step, start, shift = operations * len(FAULTS) / number, draw.random(), draw.randrange(len(FAULTS))
    places = [int((start + index) * step) for index in range(number)]
    return [
        (1 + each // len(FAULTS), FAULTS[(each + index + shift) % len(FAULTS)]) for index, each in enumerate(places)
    ]


def check_all(place: Place, case: Case, number: int) -> None:
    """Check a command at that many operations; report all that fail together."""
    failed = []
    for at, fault in drawn(place, case, number):
        try:
            check(place, case, at, fault)
        except (AssertionError, ValueError, OSError) as error:
            failed.append(f"operation {at}, {fault}: {error!r}"[:1500])
    assert failed == []


def opened(place: Place, cases: Iterable[Case]) -> set[str]:
    """The paths of all that some commands open for writing, without drafts and what is in them."""
    lines = {line for case in cases for line in place.undisturbed(case).operations if line.startswith("open ")}
    paths = {Path(line.removeprefix("open ")).relative_to(place.watched) for line in lines}
    return {path.as_posix() for path in paths if not any(map(is_draft, path.parts))}


@pytest.mark.parametrize(
    ("long", "known"),
    [
        (False, NOT_DRAFTS),
        pytest.param(True, NOT_DRAFTS_OF_LONG, marks=pytest.mark.slow),
    ],
)
def test_outputs_are_opened_as_drafts_alone(long: bool, known: dict[str, str], place: Place) -> None:
    """Of every command, also by libraries in C: one place in the package writes (`posnmt.base.output`)."""
    paths = opened(place, (case for name, case in CASES.items() if case.long == long and "anew" not in name))
    matching = {path: [each for each in known if re.fullmatch(each, path)] for path in paths}
    assert [path for path, patterns in matching.items() if not patterns] == []
    assert {each for patterns in matching.values() for each in patterns} == set(known)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.slow])
def test_a_disturbed_command_can_be_repeated(name: str, place: Place) -> None:
    check_all(place, CASES[name], FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_command_that_is_disturbed_anywhere_can_be_repeated(name: str, place: Place) -> None:
    case = CASES[name]
    check_all(place, case, MANY // 6 if case.long else MANY // 4 if case.slow else MANY)


@pytest.mark.parametrize("closed", [1, *(pytest.param(number, marks=pytest.mark.slow) for number in (0, 2))])
def test_the_work_is_done_whatever_stream_is_closed(closed: int, place: Place) -> None:
    """Only what would be printed is lost, which the status says."""
    for name, case in CASES.items():
        if not case.slow:
            whole = place.undisturbed(case)
            place.reset(case)
            ended = place.machine.run(place.watched, case.arguments, closed=closed)
            fails = closed == 1 and whole.prints
            assert (ended.status, ended.err.count("error: ")) == (2 * fails, fails), (name, ended.err)
            assert case.outcome(place.watched) == whole.outcome
