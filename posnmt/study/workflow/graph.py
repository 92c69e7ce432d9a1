"""The graph of a study's steps, and the key of each step's result.

A key is the hash of everything that determines the result: the kind and its version, the settings, the content of the
input files, and the keys of the steps that the step needs. Names, paths and resources do not affect it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from posnmt.base.errors import UserError, existing_file, raise_all
from posnmt.base.files import read_json, sha256_of
from posnmt.base.output import write_json
from posnmt.study.workflow.folder import STUDY, step_folder
from posnmt.study.workflow.kind import Kind, Resources

HASHES = "hashes.json"


@dataclass(frozen=True)
class Step:
    """One piece of work.

    Attributes:
        name: unique and readable, as `train/relative/seed-1`.
        kind: name of its `Kind`.
        settings: everything else that determines the result, as JSON.
        needs: role -> name of the step whose folder it reads.
        files: role -> input file from outside the study; the key depends on its content, not on its path.
        resources: what it needs to run.
    """

    name: str
    kind: str
    settings: dict[str, Any]
    needs: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)


class FileHashes:
    """A cache of the SHA-256 of files by path, size and modification time, so that a large file is read once.

    Attributes:
        store: the file that keeps the cache; None: it is kept in memory only.
    """

    def __init__(self) -> None:
        self.store: Path | None = None
        self._known: dict[str, list[Any]] = {}

    def remember_in(self, store: Path) -> None:
        """Load the cache from a file, and save it there from now on."""
        if store != self.store:
            self.store = store
            self._known = {**(read_json(store) or {}), **self._known}

    def facts(self, path: Path) -> dict[str, Any]:
        """`path`, `size` in bytes, `mtime_ns` and `sha256` of a file."""
        place, stat = str(path.resolve()), path.stat()
        now = [stat.st_size, stat.st_mtime_ns]
        if self._known.get(place, [])[:2] != now:
            self._known[place] = [*now, sha256_of(path)]
            # `plan` and `status` start no study: a folder with this file alone would be none, and not an empty one.
            if self.store is not None and (self.store.parent / STUDY).exists():
                with suppress(OSError):  # on a full disk, the next process hashes the file again
                    write_json(self.store, self._known)
        size, changed, digest = self._known[place]
        return {"path": place, "size": size, "mtime_ns": changed, "sha256": digest}


class Graph:
    """Steps in the preferred order, but each after the steps that it needs.

    Args:
        steps: in the preferred order.
        kinds: dotted path of the registry of their kinds, `package.module:NAME`.

    Raises:
        UserError: duplicate names, needs that are not steps or unknown kinds (all at once); a cycle.
    """

    def __init__(self, steps: Iterable[Step], kinds: str) -> None:
        self.kinds = kinds
        self._registry: Mapping[str, Kind] = resolve_name(kinds)
        self.steps: dict[str, Step] = {}
        faults = []
        for step in steps:
            if step.name in self.steps:
                faults.append(UserError(f"two steps are called {step.name!r}", None, "give one of them another name"))
            self.steps[step.name] = step
        for step in self.steps.values():
            if step.kind not in self._registry:
                known = ", ".join(self._registry)
                faults.append(UserError(f"no kind of step is called {step.kind!r}", step.name, f"there are: {known}"))
            for role, need in step.needs.items():
                if need not in self.steps:
                    faults.append(UserError(f"the step {step.name!r} needs {need!r} as {role}, which is no step"))
        raise_all(faults)
        try:
            TopologicalSorter({step.name: [*step.needs.values()] for step in self.steps.values()}).prepare()
        except CycleError as error:
            circle = " needs ".join(reversed(error.args[1]))
            raise UserError(f"steps need each other in a circle: {circle}", None, "leave one need out") from None
        self._order = _order(self.steps)
        self._hashes = FileHashes()
        self._keys: dict[str, str] = {}
        self._files: dict[str, dict[str, dict[str, Any]]] = {}

    def order(self) -> list[str]:
        """The names of the steps, each after the steps that it needs."""
        return list(self._order)

    def uses_gpu(self, name: str) -> bool:
        """Whether a step uses a GPU if there is one."""
        return self._registry[self.steps[name].kind].uses_gpu

    def files(self, name: str) -> dict[str, dict[str, Any]]:
        """Role -> `path`, `size`, `mtime_ns` and `sha256` of a step's input files, as of the first call.

        Raises:
            UserError: a file is missing.
        """
        if name not in self._files:
            self._files[name] = {
                role: self._hashes.facts(existing_file(path, f"the {role} of the step {name!r}"))
                for role, path in self.steps[name].files.items()
            }
        return self._files[name]

    def key(self, name: str) -> str:
        """The key of a step: 64 hexadecimal digits.

        Raises:
            UserError: an input file, of the step or of one that it needs, is missing.
        """
        if name not in self._keys:
            step = self.steps[name]
            determined = {
                "kind": step.kind,
                "version": self._registry[step.kind].version,
                "settings": step.settings,
                "files": {role: facts["sha256"] for role, facts in self.files(name).items()},
                "needs": {role: self.key(need) for role, need in step.needs.items()},
            }
            text = json.dumps(
                determined, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
            )  # fmt: skip
            self._keys[name] = hashlib.sha256(text.encode("utf-8")).hexdigest()
        return self._keys[name]

    def folder(self, out: Path, name: str) -> Path:
        """The folder of a step in a study's folder.

        Raises:
            UserError: an input file, of the step or of one that it needs, is missing.
        """
        self._hashes.remember_in(out / HASHES)
        return step_folder(out, self.steps[name].kind, self.key(name))


def _order(steps: Mapping[str, Step]) -> list[str]:
    """The names of steps without a circle, in their order, but each after the steps that it needs."""
    order: dict[str, None] = {}
    for name in steps:
        pending = [name]
        while pending:
            missing = [need for need in steps[pending[-1]].needs.values() if need not in order]
            if missing:
                pending.append(missing[0])
            else:
                order[pending.pop()] = None
    return list(order)


def with_needs(steps: Mapping[str, Step], names: Iterable[str]) -> set[str]:
    """The names of steps, and of all steps that these need directly or indirectly."""
    needed: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += steps[name].needs.values()
    return needed
