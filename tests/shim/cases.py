"""The commands that write, on small inputs, and what each leaves when nothing disturbs it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from posnmt.base.output import PARTIAL
from posnmt.corpora.artificial.pairs import generate
from posnmt.study import database
from tests.support import corpus, marian, neural_case
from tests.support.commands import run
from tests.support.study_case import STUDY
from tests.support.training_case import outcome
from tests.support.untrained import LEARNED

TIMES = re.compile(r"second|created|started|finished|fetched|host|hours|speed")
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


def studied(folder: Path) -> dict[str, Any]:
    """The names of a study's files, what was translated and measured, and what its database has but for speeds."""
    out = folder / "study"
    files = [path for path in out.rglob("*") if path.is_file() and "tensorboard" not in path.parts]
    found: dict[str, Any] = {path.relative_to(out).as_posix(): None for path in sorted(files) if path.name != "log.txt"}
    for pattern in ("steps/translate/*/output*", "steps/analyse/*/*.csv", "tables/table-*"):
        found |= {path.relative_to(out).as_posix(): path.read_bytes() for path in out.glob(pattern)}
    found["results"] = database.read(out, "SELECT * FROM results WHERE measure <> 'decoding_speed'")
    return found


def demonstrated(folder: Path) -> dict[str, Any]:
    """The names of a demonstration's files, its corpus and its translations."""
    out = folder / "demo"
    files = [path for path in out.rglob("*") if path.is_file() and "tensorboard" not in path.parts]
    found: dict[str, Any] = {path.relative_to(out).as_posix(): None for path in sorted(files)}
    return found | {name: (out / name).read_bytes() for name in found if name.startswith(("corpus/", "test."))}


def fetched(folder: Path) -> dict[str, Any]:
    """The texts of corpora and all beside them, but for downloads, which are not needed again, and locks."""
    found = content(folder)
    return {name: text for name, text in found.items() if "downloads/" not in name and not name.endswith(".lock")}


def installed(folder: Path) -> dict[str, Any]:
    """The record of an installed metric, and what its environment has."""
    files = (folder / "cache" / "metrics").rglob("*.json")
    return {path.name: json.loads(path.read_text()) for path in files if path.name in ("overlap.json", "complete.json")}


@dataclass(frozen=True)
class Case:
    """A command that writes into the folder `w`.

    Attributes:
        words: its arguments.
        outcome: of the folder, which must be the same in the end.
        before: puts what is there before into the folder.
        parts: whether files under their names may be parts of a whole, as those of a run while it is trained.
        slow: whether it takes seconds.
        long: whether it takes most of a minute, or what is there before does.
        failed: the exit status of what it could not do; a study goes on without the step that failed.
    """

    words: str
    outcome: Callable[[Path], dict[str, Any]] = content
    before: Callable[[Path], object] = Path.mkdir
    parts: bool = False
    slow: bool = False
    long: bool = False
    failed: tuple[int, ...] = (2,)

    @property
    def arguments(self) -> list[str]:
        """The words of the command."""
        return self.words.split()


def _file(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(b"old\n")

    return write


def _index(folder: Path) -> None:
    """Write the index of mtdata into the cache."""
    shutil.copytree(folder.parent / "index", folder / "cache" / "mtdata")


def _study(folder: Path) -> None:
    """Copy a study that is finished; it is made for the first of the cases that need it."""
    made = folder.parent / "made"
    if not made.exists():
        run("study", "run", folder.parent / "tiny.yaml", "--scale", "smoke", "--out", made / "study")
    shutil.copytree(made, folder)


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
    "export for Argos": Case(f"export {LEARNED} --format argos --languages en-xx --out w/m.argosmodel", slow=True),
    "import": Case("import marian-hf marian --out w/imported"),
    "new": Case("new scheme mine --out w"),
    "data fetch": Case(
        "data fetch mtdata:Own-text-1-deu-eng --pair de-en --cache w/cache --out w/text", fetched, _index, parts=True
    ),
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
    "study run": Case(
        "study run tiny.yaml --scale smoke --out w/study", studied, parts=True, slow=True, long=True, failed=(1, 2)
    ),
    "study report": Case("study report --out w/study", studied, _study, parts=True, slow=True, long=True),
    "study publish": Case("study publish --out w/study --to w/copy", before=_study, slow=True, long=True),
    "compare": Case(
        "compare pairs.en pairs.de --systems transformer,rope --seeds 1 --cap 12 --out w/compared --plan"
        " --set model.size=tiny --set train.steps=8 --set decode.beam=1 --set subword.vocabulary=300",
        parts=True, slow=True, long=True,
    ),
    "metrics install": Case(
        "metrics install overlap --model good --from site/from", installed, parts=True, slow=True, long=True
    ),
    "demo": Case("demo --updates 3 --out w/demo", demonstrated, parts=True, slow=True, long=True),
}  # fmt: skip

MEMORY = """<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>A dog.</seg></tuv><tuv xml:lang="de"><seg>Ein Hund.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>A cat.</seg></tuv><tuv xml:lang="de"><seg>Eine Katze.</seg></tuv></tu></body></tmx>"""
CORPUS = {"/text.de": b"Ein Hund.\nEine Katze.\n" * 2000, "/text.en": b"A dog.\nA cat.\n" * 2000}
"""Path on a server -> a side of a corpus that mtdata's index lists."""


def prepare(folder: Path, served: str) -> None:
    """The files that the commands read, in a new folder.

    Args:
        served: where a server has the files of `CORPUS`.
    """
    config = corpus.make(folder, pairs=60, train={"steps": 3, "evaluate_every": 2, "log_every": 1, "precision": "fp32"})
    text = config.read_text().replace(str(folder / "stores"), "stores")
    config.write_text(text)
    (folder / "memory.tmx").write_text(MEMORY)
    (folder / "page.html").write_text("<p>uns ganz</p>\n<p>neu</p>\n")
    marian.write(folder / "marian")
    (folder / "tiny.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    pairs = list(generate(2000, 3, 16, 1))
    for ending, side in (("en", "source"), ("de", "target")):
        (folder / f"pairs.{ending}").write_text("".join(f"{getattr(pair, side)}\n" for pair in pairs))
    neural_case.package(folder / "site")
    neural_case.model(folder / "site" / "from")
    (folder / "index").mkdir()
    listed = {"did": "Own-text-1-deu-eng", "ext": "txt", "url": [f"{served}{path}" for path in CORPUS]}
    (folder / "index" / "mtdata.index.0.5.1.jsonl").write_text(json.dumps(listed) + "\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "mtdata").write_text("#!/bin/sh\necho mtdata 0.5.1\n")  # the index is there: no more is asked
    (folder / "bin" / "mtdata").chmod(0o755)
    run("train", config, "--out", folder / "run", "--set", f"data.store={folder / 'stores'}")
    words = [each.replace("corpus/", f"{folder}/corpus/") for each in ANALYSE.split()]
    run(*words, "--out", folder / "analysis")
    shutil.rmtree(folder / "run" / "checkpoints")
