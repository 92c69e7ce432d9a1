"""Commands that write, each as a copy of this process, which begins where its imports have ended."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import yaml

from posnmt.base.output import PARTIAL, is_draft
from posnmt.corpora.artificial.pairs import generate
from tests.fuzz.parsers import CONFIG, FROZEN
from tests.support.commands import run
from tests.support.forked import become, fork
from tests.support.study_case import STUDY

COMMANDS = {
    "condition swap": "condition swap --source s --share 0.1 --share 0.5 --out out",
    "condition cap": "condition cap --source s --target t --max-length 5 --out out",
    "condition join": "condition join --source s --target t --sentences 2 --out out",
    "condition length-split": "condition length-split --source s --target t --parts 2 --out out",
    "condition artificial": "condition artificial --train 200 --dev 20 --test 20 --out out",
    "new scheme": "new scheme own --out out",
    "prepare": "prepare config.yaml --out out",
    "translate": "translate run --input s --output out",
    "analyse": "analyse --source s --reference t --output one=s --samples 40 --processes 1 --metrics bleu --out out",
    "export": "export run --format ctranslate2 --out out",
    "train": "train config.yaml --out out",
    "score": "score trained --source s --target t --by-position --out out",
    "data clean": "data clean --source s --target t --source-language en --target-language de --keep copies --out out",
    "data fetch": "data fetch aspec-dev-ja-en --from aspec --cache out",
    "figure": "figure analysis --out out",
    "import": "import marian-hf marian --out out",
    "show": "show run --source s --sentences 2 --out out",
    "compare": "compare pairs.en pairs.de --systems transformer,rope --seeds 1 --cap 12 --plan --out out"
    " --set model.size=tiny --set train.steps=8 --set subword.vocabulary=300",
    "study run": "study run tiny.yaml --scale smoke --out out",
}
"""Name -> a command that writes `out`, or files whose names begin so, in its folder, by files that `written` writes."""

LIGHT = ("condition swap", "condition length-split", "condition artificial", "new scheme")
"""Commands that need no PyTorch."""


@cache
def _analysed() -> Path:
    """A folder with an analysis, made once in this process."""
    place = Path(tempfile.mkdtemp(prefix="posnmt-"))
    atexit.register(shutil.rmtree, place)
    for name in "st":
        (place / name).write_text("a dog\na cat sees a dog\n" * 20)
    texts = ["--source", place / "s", "--reference", place / "t", "--output", f"one={place / 's'}"]
    run("analyse", *texts, "--samples", 40, "--metrics", "bleu", "--out", place / "analysis")
    return place / "analysis"


@cache
def _trained() -> Path:
    """A run, made once: that of `written` has no lengths of its training sentences."""
    place = Path(tempfile.mkdtemp(prefix="posnmt-"))
    atexit.register(shutil.rmtree, place)
    written(place / "made")
    command = [sys.executable, "-m", "posnmt", "train", "config.yaml", "--out", "trained"]
    subprocess.run(command, cwd=place / "made", env={**os.environ, "POSNMT_CACHE": str(place)}, check=True)
    return place / "made" / "trained"


def _licensed(folder: Path) -> None:
    """A folder like that of ASPEC."""
    place = folder / "ASPEC-JE" / "dev"
    place.mkdir(parents=True)
    (place / "dev.txt").write_text(
        "".join(f"J-1 {number} ||| 1 ||| 文{number} ||| Line {number}\n" for number in range(900))
    )


def _marian(folder: Path) -> None:
    """A model of Marian; imported here, since most commands need no PyTorch."""
    from tests.support import marian

    marian.write(folder)


def _pairs(path: Path) -> None:
    """The two sides of a corpus, of which the first is named."""
    pairs = list(generate(2000, 3, 16, 1))
    for place, side in ((path, "source"), (path.with_suffix(".de"), "target")):
        place.write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs))


MORE: dict[str, Callable[[Path], object]] = {
    "analysis": lambda path: shutil.copytree(_analysed(), path),
    "aspec": _licensed,
    "marian": _marian,
    "pairs.en": _pairs,
    "trained": lambda path: shutil.copytree(_trained(), path),
    "tiny.yaml": lambda path: path.write_text(yaml.safe_dump(STUDY, sort_keys=False)),
}
"""What few commands read -> what writes it."""


def written(folder: Path, command: str = "") -> None:
    """The files that a command reads."""
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
    for name in set(command.split()) & set(MORE):
        MORE[name](folder / name)


LEFT_OUT = ("tensorboard", "progress.txt")
"""Names with the time and the process, and a file that a short step of a study may have or not."""


class Child:
    """A command in a folder, in a process of its own, in which `before` is called first."""

    def __init__(self, folder: Path, command: str, before: Callable[[], object] = int) -> None:
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
            become(command.split(), before)

    def end(self) -> int:
        """Wait for it; the exit status, or the negative number of a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.id, 0)[1])


def content(folder: Path) -> dict[str, str]:
    """The files that a command has written, with their digests, but for drafts, locks and those of `LEFT_OUT`."""
    found = {}
    for path in sorted(each for place in folder.glob("out*") for each in (place, *place.rglob("*"))):
        name = path.relative_to(folder).as_posix()
        parts = name.split("/")
        left_out = any(part.startswith(".") or part.endswith((PARTIAL, ".lock")) or part in LEFT_OUT for part in parts)
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
            with copied(place, f"whole-{number}", command) as folder:
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
def copied(place: Path, name: str, command: str = "") -> Iterator[Path]:
    """A fresh folder with the files that a command reads."""
    folder = place / name
    written(folder, command)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        (place / f"{name}.errors").unlink(missing_ok=True)
