"""The output of `posnmt condition` and of `posnmt data clean`: plain aligned text files and a manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from posnmt.base.errors import UserError
from posnmt.base.output import changing
from posnmt.base.version import __version__

MANIFEST = "manifest.json"


class PlainFiles:
    """A folder of plain text files that is written completely or not at all, and never overwrites a file.

    A context manager: `write` any number of groups of aligned files, then `finish`. All files appear with `finish`;
    without it nothing is left. The output is reproducible bit by bit.

    Args:
        out: the folder to create; it may exist, and may have files with other names.
    """

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out)
        if self.out.exists() and not self.out.is_dir():
            raise UserError("the output folder is a file", self.out, "name a folder")
        self._files: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> PlainFiles:
        with self._told(), ExitStack() as stack:
            self._changes = stack.enter_context(changing(self.out, new=True))
            self._manifest = self._changes.path(MANIFEST)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        error = error or _Unfinished()
        self._stack.__exit__(type(error), error, trace)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"cannot write here: {error.strerror}", self.out, "name another folder") from None

    def write(self, names: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
        """Write aligned files, one line of each row to each file.

        Args:
            names: the files of this group.
            rows: read once, in order; each as long as `names`.

        Returns:
            The number of rows.

        Raises:
            UserError: one of the files is already in the folder.
            ValueError: a line contains a line feed, which would shift all following lines.
        """
        places = [self._changes.path(name) for name in names]
        hashes = [hashlib.sha256() for _ in names]
        count = 0
        with ExitStack() as stack:
            files = [stack.enter_context(place.open("wb")) for place in places]
            for row in rows:
                for line, file, digest in zip(row, files, hashes, strict=True):
                    if "\n" in line:
                        raise ValueError(f"row {count} contains a line feed: {line!r}")
                    data = f"{line}\n".encode()
                    file.write(data)
                    digest.update(data)
                count += 1
        for name, digest in zip(names, hashes, strict=True):
            self._files[name] = {"lines": count, "sha256": digest.hexdigest()}
        return count

    def finish(self, condition: str, parameters: dict[str, Any], statistics: dict[str, Any]) -> dict[str, Any]:
        """Write the manifest; all files appear.

        Args:
            condition: name of the command.
            parameters: the parameters that reproduce the files.
            statistics: counts and measurements.

        Returns:
            The manifest, as written to manifest.json.
        """
        manifest = {
            "posnmt": __version__,
            "condition": condition,
            "parameters": parameters,
            "files": self._files,
            "statistics": statistics,
        }
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        self._manifest.write_text(text, encoding="utf-8", newline="\n")
        with self._told():
            self._stack.close()
        return manifest


class _Unfinished(Exception):
    """The caller left the block without an exception and without calling `finish`."""
