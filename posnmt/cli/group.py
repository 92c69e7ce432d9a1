"""What all commands have in common: exit statuses, error messages and closed pipes."""

from __future__ import annotations

import errno
import gc
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any

import click

from posnmt.base import plugins
from posnmt.base.errors import UserError, is_out_of_memory
from posnmt.base.interrupt import as_interruption
from posnmt.base.parallel.native import still_running
from posnmt.cli import help as help_
from posnmt.cli import streams
from posnmt.cli.faults import in_words, sentence
from posnmt.cli.help import Command, option

COMMAND = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True}
"""Settings of the context of every command."""


@contextmanager
def loading() -> Iterator[None]:
    """Disable Python's cyclic garbage collector during heavy imports, and freeze the imported objects.

    Otherwise it would run many times while modules create permanent objects, and once more over all of them at exit
    (docs/performance.md has measurements).
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _faults_of_plugins() -> Iterator[None]:
    """Turn an exception in the code of a plug-in into a UserError that names the line."""
    try:
        yield
    except Exception as error:
        fault = None if is_out_of_memory(error) else plugins.fault(error)
        if fault is None:
            raise
        raise fault from error


def _allow(context: click.Context, option: click.Parameter, allowed: bool) -> None:
    context.with_resource(plugins.allowing(allowed))


allow_plugins = option(
    "--allow-plugins",
    is_flag=True,
    expose_value=False,
    callback=_allow,
    help="import classes named by module:Class, such as those in a run's config (only if you trust them)",
    heading="Model",
    common=False,
)
"""The option of commands that open a run."""

choose_checkpoint = option(
    "--checkpoint",
    type=click.Choice(["model", "best", "average", "last"]),
    default="model",
    help="weights of the run; model: the better of best and average on dev",
    heading="Model",
    common=False,
)
"""The option of commands that read a run's weights."""


class NumberRange(click.FloatRange):
    """A range of numbers that refuses NaN. click accepts NaN, because it is neither below nor above a limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number.

        Raises:
            click.BadParameter: the value is not a number, or is outside the range.
        """
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def language_pair(pair: str, option: str) -> tuple[str, str]:
    """Split a pair such as `en-de` into its two languages.

    Raises:
        UserError: `pair` is not two languages with a hyphen between them.
    """
    source, sign, target = pair.partition("-")
    if not (sign and source and target) or "-" in target:
        raise UserError(
            f"a pair is two languages, such as en-de; got {pair!r}", option, "a region has an underscore: en-pt_BR"
        )
    return source, target


LESS_MEMORY = {
    "translate": "lower --batch or --beam, or split the longest lines",
    "score": "split the longest lines",
    "analyse": "lower --processes, --examples or --samples",
    "prepare": "lower subword.sample, or OMP_NUM_THREADS",
    "show": "lower --length, or show fewer runs at a time",
    "study": "lower --jobs",
}
"""Command → advice on how it can use less memory."""


def _of_system(error: OSError) -> tuple[int, list[str]]:
    """The exit status and the line of an error of the system; the error is raised where it is none."""
    if error.errno is None or error.strerror is None:
        raise error
    if isinstance(error, BrokenPipeError) and streams.reader_is_gone():
        return streams.CLOSED_PIPE, []
    what, todo = error.strerror, "check the path, its permissions and the free space, and repeat the command"
    if error.errno == errno.EBADF and error.filename is None:
        what, todo = "standard input or output is needed, and it is closed", "leave it open, or name files instead"
    place = f" ({error.filename})" if error.filename else ""
    return 2, [f"error: {what}{place}; {todo}"]


class Group(Command, click.Group):
    """A group of commands. User errors are printed as `error: …` with exit status 2; an interruption exits with 130.

    Args:
        lazy: commands that are imported when they are first used: name → `module:object`, in the order of the help.
    """

    command_class = Command

    def __init__(self, *args: Any, lazy: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy or {}
        # click reads the names here to suggest one for a misspelt command
        self.commands.update(dict.fromkeys(self.lazy))  # type: ignore[arg-type]

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command, and convert errors that users can mend into exit statuses."""
        streams.prepare()
        status, lines = self._outcome(*args, **kwargs)
        for line in lines:
            streams.tell(line)
        streams.finish()
        if still_running():
            os._exit(status)
        sys.exit(status)

    def _outcome(self, *args: Any, **kwargs: Any) -> tuple[int, list[str]]:
        """The exit status of a command, and the lines with which it ends."""
        try:
            with as_interruption(), _faults_of_plugins():
                super().main(*args, **{**kwargs, "standalone_mode": False})
            sys.stdout.flush()
        except UserError as error:
            return 2, [f"error: {line}" for line in error.lines]
        except click.ClickException as error:
            return 2, [f"error: {sentence(error)}"]
        except (KeyboardInterrupt, click.Abort):  # Abort is a RuntimeError
            return 130, ["interrupted"]
        except (MemoryError, RuntimeError, ImportError) as error:
            if not is_out_of_memory(error):
                raise
            return 2, [f"error: out of memory; {self._memory_advice()}"]
        except SystemExit as end:  # click and rich end with 1 where a pipe is broken
            if end.code != 1 or not streams.reader_is_gone():
                raise
            return streams.CLOSED_PIPE, []
        except OSError as error:  # a folder that may not be written, a full disk
            return _of_system(error)
        return 0, []

    @staticmethod
    def _memory_advice() -> str:
        advice = next((LESS_MEMORY[each] for each in sys.argv[1:] if each in LESS_MEMORY), "close other programs")
        return f"{advice}, or use a machine with more memory; what was complete before is kept"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, which must be UTF-8 like everything that posnmt reads.

        Raises:
            UserError: an argument is not UTF-8. A file name like that could not be written into our files.
        """
        for argument in args:
            if not argument.isascii() and any("\ud800" <= each <= "\udfff" for each in argument):
                raise UserError("an argument is not UTF-8", ascii(argument)[1:-1], "rename the file")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of their definition."""
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under their headings, and the options."""
        found = help_.commands(self, ctx)
        width = formatter.width - 6 - max(len(name) for rows in found.values() for name, _ in rows)
        summaries = {
            heading: [(name, each.get_short_help_str(width)) for name, each in rows] for heading, rows in found.items()
        }
        help_.write_rows(formatter, summaries)
        super().format_options(ctx, formatter)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, and import its module the first time; None if there is none."""
        if cmd_name in self.lazy and self.commands[cmd_name] is None:
            self.commands[cmd_name] = resolve_name(self.lazy[cmd_name])
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command to run, which refuses values in our words, and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and in_words(command), rest
