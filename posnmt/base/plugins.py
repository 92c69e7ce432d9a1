"""Parts from outside posnmt: entry points of installed packages, and classes by `module:Class`.

An entry point is imported when its name is used: whoever installs a package trusts it. A class by `module:Class` is
imported only if the user named it in a configuration of their own, or allowed the classes of a run: the config.yaml of
a run from somebody else imports no code by itself.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from posnmt.base.errors import UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = {kind: f"posnmt.{kind}s" for kind in ("scheme", "system", "recipe", "metric")}
"""Kind of a part -> the group of its entry points."""

BY_CLASS = ("scheme", "metric")
"""The kinds that can be named by `module:Class`; for a metric the name is that of an object."""

VARIABLE = "POSNMT_ALLOW_PLUGINS"
"""The environment variable that lists the allowed classes, separated by blanks; the steps of a study inherit it."""

_allowing: ContextVar[bool] = ContextVar("allowing", default=False)

Value = TypeVar("Value")


@dataclass(frozen=True)
class Origin:
    """Where a part comes from, as the record of a run stores it.

    Attributes:
        kind: a key of `GROUPS`.
        name: in configurations.
        target: module and object, `module:Class`.
        distribution, version: of the installed package that has it; None if no such package is known.
        sha256: of the source file; None if there is no file.
    """

    kind: str
    name: str
    target: str
    distribution: str | None = None
    version: str | None = None
    sha256: str | None = None

    @property
    def package(self) -> str:
        """Return the top-level module of the target: `mine` for `mine.schemes:Gaussian`."""
        return self.target.partition(":")[0].partition(".")[0]

    @property
    def shown(self) -> str:
        """The distribution with its version, or the module and object."""
        return self.target if self.distribution is None else f"{self.distribution} {self.version}"


_loaded: dict[tuple[str, str], tuple[Origin, Any]] = {}
"""Kind and name -> the origin of a part that was loaded, and the part."""


# Who may import what


@contextlib.contextmanager
def allowing(allowed: bool = True) -> Iterator[None]:
    """A context that allows the classes that configurations name; with False, nothing changes."""
    token = _allowing.set(allowed or _allowing.get())
    try:
        yield
    finally:
        _allowing.reset(token)


def is_class(name: str) -> bool:
    """Whether a name is a class by `module:Class`."""
    return ":" in name


def admit(names: Iterable[str], where: str | Path | None = None) -> None:
    """Check that the classes among the names are allowed; nothing is imported.

    Where the context allows classes, they are then allowed in this process and in those that it starts.

    Raises:
        UserError: some are not allowed, or do not have the form `module:Class`.
    """
    classes = {name for name in names if is_class(name)}
    for name in classes:
        module, _, attribute = name.partition(":")
        if not all(word.isidentifier() for word in (*module.split("."), *attribute.split("."))):
            raise UserError(f"{name!r} does not name a class", where, "write module:Class, such as my_package:Mine")
    allowed = {*os.environ.get(VARIABLE, "").split()}
    if classes and _allowing.get():
        allowed |= classes
        os.environ[VARIABLE] = " ".join(sorted(allowed))
    if strange := sorted(classes - allowed):
        raise UserError(
            f"{', '.join(strange)} would run code from outside posnmt, and no installed package offers it by a name",
            where,
            "if you trust it, add --allow-plugins (in Python allow_plugins=True)",
        )


# Finding and loading


def installed(kind: str) -> list[Origin]:
    """The parts that installed packages offer, sorted by name."""
    offered = (
        Origin(
            kind, each.name, f"{each.module}:{each.attr}", *((each.dist.name, each.dist.version) if each.dist else ())
        )
        for each in _entry_points(kind)
    )
    return sorted(offered, key=lambda origin: (origin.name, origin.shown))


def names(kind: str) -> list[str]:
    """The names of the parts that installed packages offer."""
    return sorted({each.name for each in _entry_points(kind)})


def clashes(kind: str, own: Iterable[str]) -> list[str]:
    """A sentence for each installed part that has the name of one of posnmt's own; the name then means posnmt's own."""
    taken = {*own}
    advice = "; name it by module:Class" if kind in BY_CLASS else ""
    return [
        f"the {kind} {each.name!r} of {each.shown} is not used: posnmt has one of that name{advice}"
        for each in installed(kind)
        if each.name in taken
    ]


def usable(
    kind: str, own: Iterable[str], part_of: Callable[[str], Value], warn: Callable[[str], None]
) -> Iterator[tuple[Origin, Value]]:
    """The installed parts that can be used, each with its origin; a warning for each of the others.

    Args:
        own: the names of posnmt's own parts.
        part_of: loads a part by its name.
    """
    taken = {*own}
    for sentence in clashes(kind, taken):
        warn(sentence)
    for name in names(kind):
        if name not in taken:
            try:
                part = part_of(name)
                yield _loaded[kind, name][0], part
            except UserError as error:
                warn(error.line())


def load(kind: str, name: str, checked: Callable[[Any], Value]) -> Value:
    """A part by its name, imported at the first call.

    Args:
        checked: makes the part from the object of the entry point; raises TypeError for an unsuitable object.

    Raises:
        UserError: a class that is not allowed; no such part; two packages have it; it cannot be imported, or it is
            not of this kind.
    """
    if (kind, name) not in _loaded:
        origin = _find(kind, name)
        try:
            part = checked(_imported(origin))
        except TypeError as error:
            raise UserError(
                f"{name} is no {kind}: {error}", origin.target, f"see docs/plugins.md for a {kind}"
            ) from None
        _loaded[kind, name] = origin, part
    value: Value = _loaded[kind, name][1]
    return value


def remember(kind: str, name: str, part: type) -> None:
    """Record a class that the running program has registered under a name."""
    _loaded[kind, name] = Origin(kind, name, f"{part.__module__}:{part.__qualname__}"), part


def is_outside(kind: str, name: str) -> bool:
    """Whether a part that was loaded is not posnmt's own."""
    return (kind, name) in _loaded


def origin(kind: str, name: str) -> Origin | None:
    """The origin of a part that was loaded, with the digest of its source; None for posnmt's own."""
    if (kind, name) not in _loaded:
        return None
    noted, part = _loaded[kind, name]
    if noted.distribution is None:
        noted = _with_distribution(noted)
    module = part.__module__ if isinstance(part, type) else noted.target.partition(":")[0]
    file = getattr(sys.modules.get(module), "__file__", None)
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest() if file and Path(file).is_file() else None
    return Origin(kind, name, noted.target, noted.distribution, noted.version, digest)


def _entry_points(kind: str) -> tuple[EntryPoint, ...]:
    """The entry points of a kind; installed packages are read again when a folder of `sys.path` has changed."""
    return _read_entry_points(GROUPS[kind], tuple((path, _changed(path)) for path in sys.path))


@functools.lru_cache(maxsize=2 * len(GROUPS))
def _read_entry_points(group: str, path: tuple[tuple[str, int | None], ...]) -> tuple[EntryPoint, ...]:
    """The entry points of a group. `path`, folders with the times of their last changes, only serves as a cache key."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _changed(path: str) -> int | None:
    """When an entry of `sys.path` was last changed, in nanoseconds; None: it is not there."""
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return None


def _with_distribution(part: Origin) -> Origin:
    """The same origin with the installed distribution that has its top-level module, if there is one."""
    from importlib.metadata import packages_distributions, version

    for name in packages_distributions().get(part.package, [])[:1]:
        return Origin(part.kind, part.name, part.target, name, version(name))
    return part


def _find(kind: str, name: str) -> Origin:
    """The origin of a part by its name."""
    if is_class(name):
        admit([name])
        return Origin(kind, name, name)
    offered = [each for each in installed(kind) if each.name == name]
    if not offered:
        raise UserError(f"no installed package has a {kind} called {name!r}", None, "install the package that has it")
    if len(offered) > 1:
        packages = ", ".join(f"{each.shown} ({each.target})" for each in offered)
        advice = ", or name it by module:Class" if kind in BY_CLASS else ""
        raise UserError(
            f"{len(offered)} packages have a {kind} called {name!r}: {packages}", None, f"uninstall one{advice}"
        )
    return offered[0]


def _imported(part: Origin) -> Any:
    """The object that an origin names; `module:Class` may also name a module of the current folder.

    Raises:
        UserError: no such module or object, or the module raises an exception.
    """
    module, _, attribute = part.target.partition(":")
    if is_class(part.name) and not {"", os.getcwd()} & {*sys.path}:
        sys.path.append(os.getcwd())  # last, so that its files hide no installed module
    try:
        value: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            todo = "install the package that has it, or start posnmt in the folder that has the file"
            raise UserError(f"the {part.kind} {part.name} needs the module {error.name}", None, todo) from None
        raise _blamed(error, part) from error
    for word in attribute.split(".") if attribute else []:
        if not hasattr(value, word):
            what = f"the {part.kind} {part.name} is not there: {module} has no {attribute}"
            raise UserError(what, getattr(value, "__file__", module), "correct the name")
        value = getattr(value, word)
    return value


# Whose fault an exception is

_TODO = "correct it; posnmt.testing.check_scheme shows where it fails"


@contextlib.contextmanager
def blaming(kind: str, name: str) -> Iterator[None]:
    """A context that turns an exception of a part's own code into a UserError with its line.

    Args:
        kind, name: of the part that is called. Exceptions of posnmt's own parts are not changed.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or (kind, name) not in _loaded:
            raise
        raise _blamed(error, _loaded[kind, name][0]) from error


def wrong_returns(name: str, found: Iterable[tuple[str, str | None]]) -> list[UserError]:
    """Faults of a scheme whose methods return something wrong.

    Args:
        name: of the scheme.
        found: what a method returned and must return, and `file:line` of the method.
    """
    part = _loaded["scheme", name][0]
    return [UserError(f"the scheme {name}{_by(part)}: {what}", where or part.target, _TODO) for what, where in found]


def fault(error: BaseException) -> UserError | None:
    """An exception as one line that names the part and the line of code that raised it; None if no part did."""
    if isinstance(error, UserError):
        return None
    parts = {part.package: part for part, _ in _loaded.values() if part.package != "posnmt"}
    for package in reversed([package for package, _ in _places(error)]):
        if package in parts:
            return _blamed(error, parts[package])
    return None


def _blamed(error: BaseException, part: Origin) -> UserError:
    places = [place for package, place in _places(error) if package == part.package]
    where = places[-1] if places else part.target
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{error.filename}:{error.lineno}"
    what = str(error).partition("\n")[0]
    raised = f"{type(error).__name__}: {what}" if what else type(error).__name__
    todo = _TODO if part.kind == "scheme" else "correct it"
    return UserError(f"the {part.kind} {part.name}{_by(part)} raised {raised}", where, todo)


def _by(part: Origin) -> str:
    """The package that has a part, as it follows the name of the part; empty if no package is known."""
    return "" if part.distribution is None else f" of {part.shown}"


def _places(error: BaseException) -> list[tuple[str, str]]:
    """The top-level module and `file:line` of each call on the way to an exception, the innermost last."""
    return [
        (str(frame.f_globals.get("__name__", "")).partition(".")[0], f"{frame.f_code.co_filename}:{line}")
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
