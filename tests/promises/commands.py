"""Commands that write, each as a copy of this process, which begins where its imports have ended."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from posnmt.base.output import is_draft
from tests.fuzz.parsers import CONFIG, FROZEN
from tests.support.forked import become, fork

COMMANDS = {
    "condition swap": "condition swap --source s --share 0.1 --share 0.5 --out out",
    "condition cap": "condition cap --source s --target t --max-length 5 --out out",
    "condition join": "condition join --source s --target t --sentences 2 --out out",
    "condition length-split": "condition length-split --source s --target t --parts 2 --out out",
    "condition artificial": "condition artificial --train 200 --dev 20 --test 20 --out out",
    "new scheme": "new scheme own --out out",
    "prepare": "prepare config.yaml --out out",
    "translate": "translate run --input s --output out",
    "analyse": "analyse --source s --reference t --output one=s --samples 20 --processes 1 --metrics bleu --out out",
    "export": "export run --format ctranslate2 --out out",
    "train": "train config.yaml --out out",
}
"""Name -> a command that writes `out` in its folder, by files that `written` writes."""

LIGHT = ("condition swap", "condition length-split", "condition artificial", "new scheme")
"""Commands that need no PyTorch."""


def written(folder: Path) -> None:
    """The files that commands read."""
    folder.mkdir(parents=True)
    lines = [" ".join(f"w{(number * step) % 97}" for step in range(1, 4 + number % 7)) for number in range(400)]
    for name in "st":
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    corpus = {"train": {"source": "s", "target": "t"}, "dev": {"source": "s", "target": "t"}}
    config = {
        **CONFIG, "data": {**corpus, "source_language": "en", "target_language": "de"}, "subword": {"vocabulary": 100},
        "train": {"steps": 4, "batch": 300, "dev_bleu": False, "precision": "fp32", "average": 1, "evaluate_every": 2},
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    shutil.copytree(FROZEN / "learned", folder / "run")


class Child:
    """A command in a folder, in a process of its own."""

    def __init__(self, folder: Path, command: str) -> None:
        self.folder, self.errors = folder, folder.parent / f"{folder.name}.errors"
        self.began = time.monotonic()
        self.errors.touch()
        self.id = fork()
        if not self.id:
            os.chdir(folder)
            os.environ["POSNMT_CACHE"] = str(folder / "cache")
            for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY)):
                os.dup2(os.open(os.devnull, mode), number)
            os.dup2(os.open(self.errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
            become(command.split())

    def end(self) -> int:
        """Wait for it; the exit status, or the negative number of a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.id, 0)[1])


def content(folder: Path) -> dict[str, str]:
    """The files that a command has written, with their digests, but for drafts and those of TensorBoard.

    The names of the latter have the time and the process.
    """
    found = {}
    for path in sorted((folder / "out").rglob("*") if (folder / "out").is_dir() else [folder / "out"]):
        name = path.relative_to(folder).as_posix()
        left_out = any(is_draft(part) or part.startswith(".") or part == "tensorboard" for part in path.parts)
        if path.is_file() and not left_out:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def drafts(folder: Path) -> list[str]:
    """The drafts in a folder."""
    return [path.name for path in folder.rglob("*") if is_draft(path.name)]


class Whole:
    """What a command writes if nothing disturbs it.

    Attributes:
        names: of its files.
        same: those whose content is the same each time, with their digests.
        seconds: that it takes.
    """

    def __init__(self, place: Path, command: str) -> None:
        found = []
        for number in range(2):
            with copied(place, f"whole-{number}") as folder:
                child = Child(folder, command)
                status = child.end()
                self.seconds = time.monotonic() - child.began
                assert status == 0, child.errors.read_text()
                found.append(content(folder))
        self.names = set(found[0])
        self.same = dict(found[0].items() & found[1].items())
        assert self.names == set(found[1])
        assert self.same

    def is_whole(self, found: Mapping[str, str]) -> bool:
        """Whether files are all of it, and the same."""
        return set(found) == self.names and self.same.items() <= found.items()


@contextmanager
def copied(place: Path, name: str) -> Iterator[Path]:
    """A fresh folder with the files that commands read."""
    folder = place / name
    written(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        (place / f"{name}.errors").unlink(missing_ok=True)
