"""The output of `posnmt condition` and of `posnmt data clean`: plain aligned text files and a manifest."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from posnmt.base.errors import UserError
from posnmt.base.version import __version__

MANIFEST = "manifest.json"


class PlainFiles:
    """A folder of plain text files that is written completely or not at all, and never overwrites a file.

    A context manager: `write` any number of groups of aligned files, then `finish`. Until then the files are in a
    temporary folder, which is removed after an error or without `finish`. The output is reproducible bit by bit.

    Args:
        out: the folder to create; it may exist, and may have files with other names.
    """

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out)
        if self.out.exists() and not self.out.is_dir():
            raise UserError("the output folder is a file", self.out, "name a folder")
        self._files: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> PlainFiles:
        self._refuse([MANIFEST])
        try:
            self.out.parent.mkdir(parents=True, exist_ok=True)
            self._temporary = Path(tempfile.mkdtemp(prefix=f".{self.out.name}.", dir=self.out.parent))
        except OSError as error:
            raise self._unwritable(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)

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
        self._refuse(names)
        hashes = [hashlib.sha256() for _ in names]
        count = 0
        with ExitStack() as stack:
            files = [stack.enter_context((self._temporary / name).open("wb")) for name in names]
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
        """Write the manifest and move all files to the folder.

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
        (self._temporary / MANIFEST).write_text(text, encoding="utf-8", newline="\n")
        try:
            self.out.mkdir(exist_ok=True)
            # The manifest last: if it exists, so do all its files.
            for name in (*self._files, MANIFEST):
                (self._temporary / name).rename(self.out / name)
        except OSError as error:
            raise self._unwritable(error) from None
        return manifest

    def _unwritable(self, error: OSError) -> UserError:
        return UserError(f"cannot write here: {error.strerror}", self.out, "name another folder")

    def _refuse(self, names: Iterable[str]) -> None:
        for name in names:
            if (self.out / name).exists():
                raise UserError("this file exists and is not overwritten", self.out / name, "name another folder")
