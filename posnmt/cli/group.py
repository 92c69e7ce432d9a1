"""How every command behaves: mistakes are one line and status 2, an interruption is 130, a reader may go away."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from posnmt.errors import UserError

COMMAND = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@contextmanager
def loading() -> Iterator[None]:
    """Heavy imports go inside: Python's cycle collector sleeps meanwhile, and leaves alone what was loaded.

    It would run again and again while a thousand modules make objects that stay, and once more over all of them when
    the process ends (docs/performance.md has what that took).
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Group(click.Group):
    """The command group: mistakes end as `error: …` with status 2, an interruption with 130."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and turn what a user can cause into an exit status."""
        try:
            super().main(*args, **{**kwargs, "standalone_mode": False})
        except UserError as error:
            for line in error.lines:
                print(f"error: {line}", file=sys.stderr)
            sys.exit(2)
        except click.ClickException as error:
            advice = (
                f"; see `{error.ctx.command_path} --help`" if isinstance(error, click.UsageError) and error.ctx else ""
            )
            print(f"error: {error.format_message().rstrip('.')}{advice}", file=sys.stderr)
            sys.exit(2)
        except OSError as error:  # a folder that may not be written, a full disk
            if error.errno is None or error.strerror is None:
                raise
            place = f" ({error.filename})" if error.filename else ""
            print(
                f"error: {error.strerror}{place}; check the path, its permissions and the free space", file=sys.stderr
            )
            sys.exit(2)
        except (KeyboardInterrupt, click.Abort):
            print("interrupted", file=sys.stderr)
            sys.exit(130)
        sys.exit(0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader of our output that goes away, as `head` does, ends it quietly."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a user meets them."""
        return list(self.commands)
