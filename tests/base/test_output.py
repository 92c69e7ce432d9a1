"""Files are whole or as before, whoever else writes them and whenever a process dies."""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from posnmt.base.errors import UserError
from posnmt.base.output import changing, creating, existing, is_draft, replacing, write_bytes

REPORT = ("a.csv", "b.csv", "tables/c.tex")


def report(folder: Path, content: str, new: bool = False) -> None:
    with changing(folder, new) as changes:
        for name in REPORT:
            changes.path(name).write_text(content)
        changes.remove("old.csv")


def content(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def dying(work: Callable[[], None], count: int) -> bool:
    """Whether a process ends that dies at its n-th operation on the file system, as if it was killed there."""
    child = os.fork()
    if not child:
        left = [count]

        def counted(call: Callable[..., object], *arguments: object, **more: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)
            return call(*arguments, **more)

        for name in ("open", "replace", "fsync", "unlink", "rmdir", "mkdir", "chmod"):
            setattr(os, name, partial(counted, getattr(os, name)))
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 0


def test_a_file_of_two_writers_is_that_of_one(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(40):
            write_bytes(tmp_path / "document", f"{number}".encode() * 3000)

    in_threads(4, write)
    assert set(Counter((tmp_path / "document").read_text()).values()) == {3000}
    assert os.listdir(tmp_path) == ["document"]


def test_a_report_of_two_writers_is_that_of_one(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(20):
            report(tmp_path / "report", str(number))

    in_threads(4, write)
    found = content(tmp_path / "report")
    assert set(found) == set(REPORT)
    assert len(set(found.values())) == 1


def test_only_one_of_two_writers_makes_new_files(tmp_path: Path) -> None:
    refused = []

    def write(number: int) -> None:
        try:
            report(tmp_path / "report", str(number), new=True)
        except UserError:
            refused.append(number)

    in_threads(4, write)
    assert len(refused) == 3
    assert len(set(content(tmp_path / "report").values())) == 1


def deaths(tmp_path: Path, new: bool) -> Iterator[tuple[Path, bool]]:
    """A folder for each operation at which the program can die, after that, and whether it ended."""
    for count in range(1000):
        folder = tmp_path / str(count) / "report"
        folder.mkdir(parents=True)
        if not new:
            for name in (*REPORT[:2], "old.csv"):
                (folder / name).write_text("old")
        ended = dying(partial(report, folder, "new", new), count)
        yield folder, ended
        if ended:
            return


def test_a_writer_that_dies_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    counts = Counter()
    for folder, ended in deaths(tmp_path, new=False):
        found = {name: text for name, text in content(folder).items() if not any(map(is_draft, Path(name).parts))}
        counts["old" if set(found.values()) == {"old"} else "new" if set(found.values()) == {"new"} else "both"] += 1
        assert not ended or found == dict.fromkeys(REPORT, "new")
        report(folder, "newer")
        assert content(folder) == dict.fromkeys(REPORT, "newer")
    assert counts["old"] > 5
    assert counts["both"] > 0  # died while files were moved: the next writer finished it


def write_another(folder: Path) -> None:
    """As a command that overwrites nothing, in a folder in which another one replaced files."""
    with changing(folder, new=True) as changes:
        changes.path("another").write_text("another")
    (folder / "another").unlink()


def write_nothing(folder: Path) -> None:
    with changing(folder):
        pass


def ask(folder: Path) -> None:
    assert existing(folder, ["another"]) == []
    write_nothing(folder)  # which removes drafts


@pytest.mark.parametrize("next_writer", [write_nothing, write_another, ask])
def test_what_a_dying_writer_began_to_move_is_moved_by_the_next(
    next_writer: Callable[[Path], None], tmp_path: Path
) -> None:
    for folder, _ in deaths(tmp_path, new=False):
        begun = "new" in content(folder).values() and not any(name.endswith(".partial") for name in os.listdir(folder))
        next_writer(folder)
        found = content(folder)
        assert found == (dict.fromkeys(REPORT, "new") if begun else dict.fromkeys((*REPORT[:2], "old.csv"), "old"))


def test_new_files_can_be_made_after_a_death(tmp_path: Path) -> None:
    for folder, ended in deaths(tmp_path, new=True):
        if all((folder / name).exists() for name in REPORT) and not list(folder.rglob(".journal.json")):
            continue  # all was done
        assert not ended
        assert existing(folder, REPORT) == []
        report(folder, "newer", new=True)
        assert len(existing(folder, REPORT)) == 3
        assert content(folder) == dict.fromkeys(REPORT, "newer")


def test_a_file_that_somebody_put_in_place_is_not_undone(tmp_path: Path) -> None:
    for folder, ended in deaths(tmp_path, new=True):
        if not ended and (folder / "a.csv").exists():
            (folder / "a.csv").unlink()
            (folder / "a.csv").write_text("mine")
            with pytest.raises(UserError, match="is not overwritten"):
                report(folder, "newer", new=True)
            assert content(folder) == {"a.csv": "mine"}
            return
    pytest.fail("no death between two files")


def test_an_error_leaves_the_old(tmp_path: Path) -> None:
    write_bytes(tmp_path / "file", b"old")
    with suppress(ZeroDivisionError), replacing(tmp_path / "file") as draft:
        draft.write_text("new")
        raise ZeroDivisionError
    with suppress(ZeroDivisionError), changing(tmp_path / "folder") as changes:
        changes.path("x").write_text("new")
        raise ZeroDivisionError
    assert content(tmp_path) == {"file": "old"}
    assert os.listdir(tmp_path) == ["file"]


def test_an_error_leaves_no_new_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()

    def write() -> None:
        with changing(tmp_path) as changes:
            for name in ("figures/a", "taken/b"):
                changes.path(name).touch()

    with pytest.raises(FileExistsError):
        write()
    assert os.listdir(tmp_path) == ["taken"]


def test_a_draft_that_is_being_written_is_not_swept(tmp_path: Path) -> None:
    with replacing(tmp_path / "file") as draft:
        draft.write_text("first")
        write_bytes(tmp_path / "file", b"second")
        assert draft.read_text() == "first"
    assert content(tmp_path) == {"file": "first"}


def test_a_new_folder_appears_whole_and_a_report_may_be_in_it(tmp_path: Path) -> None:
    with creating(tmp_path / "new") as building:
        report(building, "1")
        assert all(map(is_draft, os.listdir(tmp_path)))
    assert content(tmp_path / "new") == dict.fromkeys(REPORT, "1")
    with suppress(ZeroDivisionError), creating(tmp_path / "other"):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["new"]


def test_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_bytes(tmp_path / "file", b"1")
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
        (tmp_path / "file").chmod(0o600)
        write_bytes(tmp_path / "file", b"2")
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
        with replacing(tmp_path / "other") as draft:
            draft.unlink()
            draft.touch(0o600)  # as libraries do that write through a file of their own
        assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o640
    finally:
        os.umask(mask)


def test_names_may_be_as_long_as_the_file_system_has_them(tmp_path: Path) -> None:
    for name in ("x" * 255, "\u00e9" * 127, "a\nb", "[*]"):
        write_bytes(tmp_path / name, b"1")
    assert len(os.listdir(tmp_path)) == 4
