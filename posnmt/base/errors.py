"""Errors for users: what is wrong, where, and what to do.

Every mistake of a user is reported as a `UserError`; the command line prints one line for each fault, without a
traceback, and exits with status 2. Any other exception is a bug of posnmt and keeps its traceback.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

LONGEST_SHOWN = 200
"""The most characters of a value that a message shows."""


class UserError(Exception):
    """A mistake of the user, described in one line.

    Args:
        what: what is wrong, with the rule and the value.
        where: a file, `file:line`, a config key, or nothing.
        todo: what to do about it.
    """

    def __init__(self, what: str, where: str | Path | None = None, todo: str | None = None) -> None:
        self.what, self.where, self.todo = what, None if where is None else str(where), todo
        super().__init__(self.line())

    def line(self) -> str:
        """The fault as one line: `what (where); what to do`."""
        advice = f"; {self.todo}" if self.todo else ""
        return printable(f"{self.placed}{advice}".replace("\n", " "))

    @property
    def placed(self) -> str:
        """What is wrong, and where: the fault without what to do."""
        return f"{self.what} ({self.where})" if self.where else self.what

    @property
    def lines(self) -> list[str]:
        """Return the fault as a list of one line; `UserErrors` returns one line a fault."""
        return [self.line()]


class UserErrors(UserError):
    """Several mistakes, each on its own line, without duplicates."""

    def __init__(self, faults: Iterable[UserError]) -> None:
        single = [each for fault in faults for each in (fault.faults if isinstance(fault, UserErrors) else [fault])]
        self.faults: list[UserError] = list({fault.line(): fault for fault in single}.values())
        super().__init__("; ".join(self.lines))

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def lines(self) -> list[str]:
        """Return a line for each fault, in the order of the faults."""
        return [fault.line() for fault in self.faults]


def printable(text: str) -> str:
    """Text that stays on one line and cannot command a terminal: control characters and the like are escaped."""
    if text.isprintable():
        return text
    hidden = {"Cc", "Cs", "Zl", "Zp"}
    return "".join(ascii(each)[1:-1] if unicodedata.category(each) in hidden else each for each in text)


def quoted(value: Any) -> str:
    """A value as messages show it: as Python writes it, cut after `LONGEST_SHOWN` characters."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; PyTorch on a CPU has no class for this, so messages are compared."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, ImportError):  # of a library in C
        return "failed to map segment" in str(error) or "annot allocate memory" in str(error)
    signs = ["can't allocate memory", "not enough memory", "std::bad_alloc", "Cannot allocate memory"]
    if isinstance(error, RuntimeError):  # of threads; an OSError with these words is about a file that others use
        signs += ["can't start new thread", "Resource temporarily unavailable"]
        if str(error) == "could not create a primitive":  # oneDNN's, which has no memory for its code
            return True
    return isinstance(error, RuntimeError | OSError) and any(words in str(error) for words in signs)


def combined(faults: Sequence[UserError]) -> UserError:
    """One error for one or more faults."""
    return faults[0] if len(faults) == 1 else UserErrors(faults)


def raise_all(faults: Sequence[UserError]) -> None:
    """Raise all faults as one error; do nothing if there are none."""
    if faults:
        raise combined(faults)


SIMILAR = 0.65
"""The least similarity, by difflib, of a word that is suggested; 1 is the same word."""


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word most similar to `word`, for "did you mean"; None if none is similar.

    A word to which only more was added is nearer than any other: `batch` to `batch_size`.
    """
    known = list(words)
    begins = [each for each in known if word.startswith(f"{each}_")]
    return next(iter([*begins, *difflib.get_close_matches(word, known, n=1, cutoff=SIMILAR)]), None)


def choices(name: str, known: Collection[str]) -> str:
    """Advice about an unknown name: the most similar known name, and all known names."""
    near = nearest(name, known)
    hint = f"did you mean {near!r}? " if near else ""
    return f"{hint}there are: {', '.join(known)}"


def refuse_unknown(name: str, known: Iterable[str], kind: str, where: str | None = None) -> None:
    """Check that `name` is a known name.

    Raises:
        UserError: it is not; the message lists the known names and the most similar one.
    """
    names = list(known)
    if name not in names:
        raise UserError(f"no {kind} is called {name!r}", where, choices(name, names))


def existing_file(path: str | Path, role: str) -> Path:
    """`path`, checked to be an existing file.

    Raises:
        UserError: it is missing or a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{role} is a folder, not a file", path, "name a file")
    if not path.exists():
        raise UserError(f"{role} does not exist", path, "check the path")
    return path
