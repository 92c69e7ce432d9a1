"""The command line: in this process, where what a command does is tested, or in one of its own, as people run it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from unittest.mock import patch

import click
from click.testing import CliRunner

from posnmt.cli.main import main


def all_commands(group=main, path=()):
    """Every command and group below a group, as they are when they run, with their paths."""
    context = click.Context(group)
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from all_commands(command, (*path, name))


def run(*arguments, status=0, stdin=None):
    """Run a command in this process; its standard output and error. A fault of ours is raised."""
    with patch.dict(os.environ):
        done = CliRunner().invoke(main, list(map(str, arguments)), input=stdin)
    gc.unfreeze()  # what a command kept from the collector for the rest of its process
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == status, done.stderr
    return done.stdout, done.stderr


def process(*arguments, status=0, stdin=None):
    """Run a command in a process of its own; its standard output and error."""
    command = [sys.executable, "-m", "posnmt", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == status, err
    assert "Traceback" not in err
    return out, err


def refused(*arguments, stdin=None, run=run):
    """The error lines of a command that refuses."""
    out, err = run(*arguments, status=2, stdin=stdin)
    assert out == ""
    return [line for line in err.split("\n") if line.startswith("error: ")]
