"""The commands that write, on small inputs, and what each leaves when nothing disturbs it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posnmt.base.output import PARTIAL
from tests.support import corpus, marian
from tests.support.commands import run
from tests.support.training_case import outcome

TIMES = re.compile(r"second|created|started|finished|host|speed")
"""Keys of JSON whose values are others each time."""


def content(folder: Path, hidden: bool = True) -> dict[str, Any]:
    """Path → content of the files of a folder, that of JSON without times; an empty folder counts as a file.

    Args:
        hidden: whether to include what is under a name that begins with a dot, or that ends as incomplete files do.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if not hidden and any(part.startswith(".") or part.endswith(PARTIAL) for part in parts):
            continue
        if path.is_file():
            data = path.read_bytes()
            found["/".join(parts)] = data if path.suffix != ".json" else _timeless(json.loads(data or b"null"))
        elif not any(path.iterdir()):
            found[f"{'/'.join(parts)}/"] = None
    return found


def _timeless(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _timeless(value) for key, value in tree.items() if not TIMES.search(key)}
    return [_timeless(each) for each in tree] if isinstance(tree, list) else tree


def trained(folder: Path) -> dict[str, Any]:
    """The outcome of the training in `run`, and the names of what is beside it."""
    run = folder / "run"
    names = [path.name for path in run.iterdir() if path.name != "tensorboard"]
    return {"outcome": outcome(run), "names": sorted(names), "beside": [each.name for each in folder.iterdir()]}


@dataclass(frozen=True)
class Case:
    """A command that writes into the folder `w`.

    Attributes:
        words: its arguments.
        outcome: of the folder, which must be the same in the end.
        before: puts what is there before into the folder.
        parts: whether files under their names may be parts of a whole, as those of a run while it is trained.
        slow: whether it takes seconds.
    """

    words: str
    outcome: Callable[[Path], dict[str, Any]] = content
    before: Callable[[Path], object] = Path.mkdir
    parts: bool = False
    slow: bool = False

    @property
    def arguments(self) -> list[str]:
        """The words of the command."""
        return self.words.split()


def _file(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(b"old\n")

    return write


TEXT = "--source corpus/test.source --target corpus/test.target"
ANALYSE = "analyse --source corpus/test.source --reference corpus/test.target --output a=corpus/test.source --samples 0"
CASES = {
    "train": Case("train config.yaml --out w/run", trained, parts=True, slow=True),
    "prepare": Case("prepare config.yaml --out w"),
    "translate": Case("translate run --input corpus/test.source --output w/out"),
    "translate anew": Case("translate run --input corpus/test.source --output w/out --force", before=_file("out")),
    "translate a document": Case("translate run --input page.html --output w/page.html"),
    "score": Case(f"score run {TEXT} --by-position --out w/scores"),
    "analyse": Case(f"{ANALYSE} --out w/report", slow=True),
    "analyse anew": Case(f"{ANALYSE} --out w/report", before=_file("report/summary.csv"), slow=True),
    "figure": Case("figure analysis --kind length --out w/length", slow=True),
    "show": Case("show run --source corpus/test.source --sentences 2 --out w/shown", slow=True),
    "export": Case("export run --format ctranslate2 --out w/exported", slow=True),
    "import": Case("import marian-hf marian --out w/imported"),
    "new": Case("new scheme mine --out w"),
    "data extract": Case("data extract memory.tmx --pair en-de --out w/memory"),
    "data clean": Case(
        f"data clean {TEXT} --source-language en --target-language de --out w/clean --opusfilter w/o.yaml"
    ),
    "condition artificial": Case(
        "condition artificial --out w/c --train 20 --dev 2 --test 2 --max-length 5 --lexicon 50"
    ),
    "condition cap": Case(f"condition cap {TEXT} --max-length 5 --unit words --out w/c"),
    "condition length-split": Case(f"condition length-split {TEXT} --parts 2 --unit words --out w/c"),
    "condition join": Case(f"condition join {TEXT} --sentences 2 --out w/c"),
    "condition swap": Case("condition swap --source corpus/test.source --share 0.5 --out w/c"),
    "condition reorder": Case(
        "condition reorder --source corpus/dev.source --target corpus/dev.target --alignment corpus/dev.align"
        " --apply a=corpus/test.source --passes 1 --out w/c"
    ),
}  # fmt: skip

MEMORY = """<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>A dog.</seg></tuv><tuv xml:lang="de"><seg>Ein Hund.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>A cat.</seg></tuv><tuv xml:lang="de"><seg>Eine Katze.</seg></tuv></tu></body></tmx>"""


def prepare(folder: Path) -> None:
    """The files that the commands read, in a new folder."""
    config = corpus.make(folder, pairs=60, train={"steps": 3, "evaluate_every": 2, "log_every": 1, "precision": "fp32"})
    text = config.read_text().replace(str(folder / "stores"), "stores")
    config.write_text(text)
    (folder / "memory.tmx").write_text(MEMORY)
    (folder / "page.html").write_text("<p>uns ganz</p>\n<p>neu</p>\n")
    marian.write(folder / "marian")
    run("train", config, "--out", folder / "run", "--set", f"data.store={folder / 'stores'}")
    words = [each.replace("corpus/", f"{folder}/corpus/") for each in ANALYSE.split()]
    run(*words, "--out", folder / "analysis")
    shutil.rmtree(folder / "run" / "checkpoints")
