"""The console sessions of the pages: their form, and (slow) that the commands still print what the pages show."""

from __future__ import annotations

import os
import re
import shutil

import pytest
from filelock import FileLock

from docs.scripts import console, workspace
from tests.support.documents import ROOT, name, pages, prose, read

NAVIGATION = read(ROOT / "mkdocs.yml").split("  - How to:\n")[1].split("\n  - Reference:")[0]
HOW_TO = [ROOT / "docs" / page for page in re.findall(r"[\w./-]+\.md", NAVIGATION)]
SESSIONS = [page for page in pages() if console.blocks(read(page))]


@pytest.mark.parametrize("page", HOW_TO, ids=name)
def test_a_how_to_shows_a_session(page):
    assert any(command.output for block in console.blocks(read(page)) for command in block.commands)


@pytest.mark.parametrize("page", HOW_TO, ids=name)
def test_a_how_to_begins_with_what_the_reader_wants(page):
    first = re.sub(r"^#.*\n+", "", prose(read(page)))
    assert first.startswith("To "), first[:80]


@pytest.mark.parametrize("page", SESSIONS, ids=name)
def test_sessions_have_commands_and_little_output(page):
    assert [f"{name(page)}:{line}: {wrong}" for line, wrong in console.faults(read(page))] == []


def session(*lines):
    """A page with a session."""
    return "\n".join(["# A page", "", "```console", *lines, "```", ""])


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (["posnmt systems"], "begins with a command"),
        (["$ posnmt systems"], "no output"),
        (["$ seq 11", *map(str, range(11))], "11 lines of output"),
        (["$ cat a )", "a"], "cannot read this command"),
    ],
)
def test_a_fault_of_form_is_seen(lines, wrong):
    [(line, what)] = console.faults(session(*lines))
    assert line == 4
    assert wrong in what


def test_a_command_goes_on_until_a_shell_has_all_of_it():
    lines = ["$ cat a \\", "    b", "one", "$ cat > c <<'E'", "$ two", "E", "$ echo 'a", "b' | cat", "a", "$ wc c"]
    page = session(*lines)
    [block] = console.blocks(page)
    assert [(each.line, each.text, each.output) for each in block.commands] == [
        (4, ["cat a \\", "    b"], ["one"]),
        (7, ["cat > c <<'E'", "$ two", "E"], []),
        (10, ["echo 'a", "b' | cat"], ["a"]),
        (13, ["wc c"], []),
    ]
    assert page == page[: block.start] + block.text() + page[block.end :]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["BLEU 12.5  (3 min 20 s)"], ["BLEU 7.25 (48 s)"], True),
        (["store /a/0123456789abcdef"], ["store /a/fedcba9876543210"], True),
        (["  a    1"], ["a 20"], True),
        (["a", "…"], ["a"], True),
        (["…", "b 1", "…", "c"], ["a", "b 2", "c"], True),
        (["a … e"], ["a b c d e"], True),
        (["a … e"], ["a b c d"], False),
        (["a"], ["a", "b"], False),
        (["a", "…", "b"], ["b", "a"], False),
        (["BLEU 12.5"], ["chrF 12.5"], False),
        ([], ["a"], False),
        (["a"], [], False),
    ],
)
def test_what_may_differ(shown, printed, same):
    assert console.agree(shown, printed) is same


@pytest.fixture
def place(tmp_path):
    """A workspace with a text."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    return tmp_path


def test_a_session_is_filled_and_agrees_then(place):
    lines = ["$ cd /tmp; cd -", "$ seq 12", "$ cat a.txt", "one", "…", "$ x=3; sleep 60 &", "$ echo $x; rm a.txt"]
    filled, wrong = console.replay(session(*lines), place)
    assert [line for line, _ in wrong] == [4, 5, 10]
    shown = ["1", "2", "3", "4", "5", "6", "…", "10", "11", "12"]
    assert filled == session("$ cd /tmp; cd -", "~/work", "$ seq 12", *shown, *lines[2:], "3")
    assert console.replay(filled, place) == (filled, [])


def test_progress_is_left_out(place):
    progress = [
        "translating 100%  300 of 300 lines",
        "learning shared subwords  11 s",
        "training   7%  step 2  1 s left",
    ]
    lines = ["step 560  dev BLEU 95.33", "note: 5 of 5 sentences", "99%  of it", "a 2 s"]
    (place / "log").write_text("\n".join([*progress[:2], *lines, progress[2], ""]))
    filled, _ = console.replay(session("$ cat log"), place)
    assert filled == session("$ cat log", *lines)


def test_a_command_that_fails_is_seen(place):
    _, [(line, wrong)] = console.replay(session("$ echo a; false", "a", "$ cat b", "cat: b: No such file …"), place)
    assert (line, wrong) == (4, "echo a; false: exit status 1, and the page shows no error")


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The common workspace, built once for all processes; a session runs in a copy of it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "workspace"
    done = folder.with_suffix(".done")
    with FileLock(folder.with_suffix(".lock")):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            workspace.main(folder)
            done.touch()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", SESSIONS, ids=name)
def test_commands_print_what_the_page_shows(built, page):
    _, wrong = console.replay(read(page), built)
    assert not wrong, "\n".join(f"{name(page)}:{line}: {what}" for line, what in wrong)
