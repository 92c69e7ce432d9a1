"""Progress: what is done and the time that is left, from time to time; on a terminal one line that is drawn again."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from posnmt.base import progress
from posnmt.base.progress import Display, Work, waited_for


class Clock:
    """Stands in for the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize(
    ("total", "size", "added", "shown"),
    [
        (400, None, (100, 0), ["reading  25%  100 of 400 lines  1 min 00 s left"]),
        (400, 1000, (300, 100), ["reading  10%  300 of 400 lines  3 min 00 s left"]),
        (None, 1000, (300, 500), ["reading  50%  300 lines  20 s left"]),
        (None, None, (300, 0), ["reading  300 lines"]),
        (400, None, (400, 0), []),
    ],
)
def test_the_time_left_follows_from_the_part_that_is_done(clock, capsys, total, size, added, shown) -> None:
    with Display(), Work("reading", "lines", total, size) as work:
        clock.now += 20
        work.add(*added)
    assert capsys.readouterr().err.splitlines() == shown


def test_a_line_comes_from_time_to_time(clock, capsys) -> None:
    """The first after `EVERY` seconds: short work shows nothing."""
    with Display(), Work("reading", "lines", 100) as work:
        for _ in range(99):
            clock.now += progress.EVERY / 10
            work.add(1)
    shown = [int(re.search(r"(\d+) of", line)[1]) for line in capsys.readouterr().err.splitlines()]
    assert shown == [10, 20, 30, 40, 50, 60, 70, 80, 90]


@pytest.mark.parametrize("display", [None, Display(quiet=True)], ids=["none", "quiet"])
def test_without_an_open_display_nothing_is_shown(clock, capsys, display) -> None:
    """A display that is closed again is none."""
    with Display():
        pass
    if display is not None:
        display.__enter__()
    with Work("reading", "lines", 100) as work:
        clock.now += 60
        work.add(50)
    if display is not None:
        display.__exit__(None, None, None)
    assert capsys.readouterr().err == ""


def on_a_terminal(width: int = 60) -> tuple[Display, io.StringIO]:
    display, file = Display(), io.StringIO()
    display.console = Console(file=file, force_terminal=True, width=width, soft_wrap=True, highlight=False)
    return display, file


def test_a_terminal_has_one_line_that_goes_when_the_work_is_done(clock) -> None:
    display, _ = on_a_terminal()
    with display:
        with Work("reading", "lines", 100) as work:
            work.add(10)
            assert display._bar.tasks == [], "it would flicker"
            clock.now += 2 * progress.SOON
            work.add(40)
            [task] = display._bar.tasks
            assert (task.description, task.completed) == ("reading", 0.5)
            assert task.fields["state"] == "50 of 100 lines  2 s left"
        assert display._bar.tasks == []
        display.show("writing", None, "2 s")
        [task] = display._bar.tasks
        assert (task.description, task.total) == ("writing", None)


def test_a_library_that_counts_nothing_shows_the_time_that_has_passed(monkeypatch, capsys) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with Display():
        waited_for("learning", lambda: progress.time.sleep(0.3))
    assert set(capsys.readouterr().err.splitlines()) == {"learning  0 s"}


@pytest.mark.parametrize("text", ["a " * 100, "日本語 " * 50])
def test_brief_lines_have_the_width_of_the_terminal(text) -> None:
    display, file = on_a_terminal(40)
    display.brief(text)
    [line] = file.getvalue().splitlines()
    assert line.endswith("…")
    assert text.startswith(line[:-1])
    from rich.cells import cell_len

    assert 38 <= cell_len(line) <= 40


@pytest.mark.parametrize("say", [lambda line: Display().say(line), progress.warn])
def test_text_of_a_file_commands_no_terminal(capsys, say) -> None:
    say("name \x1b[31mred\x1b[0m\r\x00\x9b2J end")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(r"name \x1b[31mred\x1b[0m\r\x00\x9b2J end")
