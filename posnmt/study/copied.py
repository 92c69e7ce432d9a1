"""A published copy of a study: its files, and the facts about finished steps by which another study recognises them.

Its folders are packed as FOLDER.tar.xz: `runs`, with a folder for each training, `translations`, `tables` and
`figures`.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from posnmt.base.errors import UserError
from posnmt.base.files import load_json, parse_json, read_json
from posnmt.base.version import check_format
from posnmt.study.packed import damaged, separated, unpack
from posnmt.study.plan import PlannedRun
from posnmt.study.speed import SystemSpeeds

MARK, SPEEDS, FACTS = "published.json", "speeds.json", "steps.json"
"""The file that makes a folder a copy; the speeds measured in turn; in a training's folder, the facts of its steps."""
RUNS, TRANSLATIONS = "runs", "translations"
LOSSES = f"{TRANSLATIONS}/losses"
"""The folder of losses of references; not packed by itself, so that a copy has few files."""
FOLDERS = (RUNS, TRANSLATIONS, "tables", "figures")
OF_RUN = ("config.yaml", "record.json", "metrics.jsonl")
"""The files of a run folder that a copy has, in this order; `FACTS` follows them."""

OutputName = Annotated[str, Field(pattern=r"^output(-[0-9.e+-]+)?$")]
"""The file of a translation in its step. A copy comes from other people and must not name any other place."""


class Mark(TypedDict):
    """The content of `MARK`.

    Attributes:
        format: of what posnmt writes.
        recipe, scale: of the study.
        signatures: analysis -> metric -> its signature, for what is finished.
    """

    format: int
    recipe: str
    scale: str
    signatures: dict[str, dict[str, str]]


class Speed(TypedDict):
    """The speed of an output as speed.json has it: see `posnmt.translate.command.Work`."""

    lines: int
    source_subwords: int
    seconds: float


class StepFacts(TypedDict):
    """The facts about a finished step in a copy.

    Attributes:
        key: of its result.
        finished: time of its end.
        seconds: that it took.
        versions: of the software that results depend on.
        speed: the content of speed.json, for a translation.
    """

    key: str
    finished: str
    seconds: float
    versions: dict[str, str]
    speed: NotRequired[dict[OutputName, Speed]]


class RunFacts(TypedDict):
    """The facts about a training and, by test, about its finished translations."""

    train: StepFacts
    translations: dict[str, StepFacts]


class SpeedFacts(TypedDict):
    """The speeds that were measured in turn, and the facts about their step."""

    step: StepFacts
    systems: list[SystemSpeeds]


def name_of(run: PlannedRun) -> str:
    """The name of a training in a copy."""
    return f"{run.system}.{run.training}.{run.seed}"


def column_of(training: str, output: str) -> str:
    """The column of a translation: for `output` the name of the training, for `output-0.5` this name with `-0.5`."""
    return f"{training}{output.removeprefix('output')}"


def packed_in(copy: Path, folder: str) -> Path:
    """The file that a folder of a copy is packed in."""
    return copy / f"{folder}.tar.xz"


class Copy:
    """A copy to read from; a packed folder is read once, when it is first needed.

    Attributes:
        folder: of the copy.

    Raises:
        UserError: the folder is no copy, or one that a newer posnmt wrote; by each method, a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        mark = read_json(folder / MARK)
        if mark is None:
            raise UserError("there is no copy of a study", folder, "name a folder that `posnmt study publish` wrote")
        check_format(mark.get("format"), folder / MARK)
        self.folder = folder
        self._translations: dict[str, dict[str, bytes]] = {}

    @cached_property
    def facts(self) -> dict[str, RunFacts]:
        """Finished training -> the facts about it."""
        where, role = packed_in(self.folder, RUNS), "the list of its steps"
        return {
            path.split("/")[-2]: parse_json(content, RunFacts, role, where, "publish it again")
            for path, content in self._runs.items()
            if path.endswith(f"/{FACTS}")
        }

    @cached_property
    def trained(self) -> dict[str, dict[str, RunFacts]]:
        """Key of each finished training -> its names, one for each system that uses it -> the facts about it."""
        trained: dict[str, dict[str, RunFacts]] = {}
        for name, facts in self.facts.items():
            trained.setdefault(facts["train"]["key"], {})[name] = facts
        return trained

    def file(self, training: str, name: str) -> bytes:
        """Return the content of a training's file, one of `OF_RUN`; raise a UserError if the copy lacks it."""
        if (content := self._runs.get(f"{RUNS}/{training}/{name}")) is None:
            raise damaged(packed_in(self.folder, RUNS))
        return content

    def translations(self, test: str) -> dict[str, bytes]:
        """Column -> translation of a test text."""
        if test not in self._translations:
            where = packed_in(self.folder, TRANSLATIONS)
            if (content := self._texts.get(f"{TRANSLATIONS}/{test}.csv")) is None:
                raise damaged(where)
            self._translations[test] = separated(content, where)
        return self._translations[test]

    def translation(self, training: str, test: str, output: str) -> bytes:
        """The translation of a test text after a training."""
        translation = self.translations(test).get(column := column_of(training, output))
        if translation is None:
            where = packed_in(self.folder, TRANSLATIONS)
            raise UserError(f"the copy has no translation {column}", where, "publish the study again")
        return translation

    def losses(self, likelihood: str) -> dict[str, bytes]:
        """The files of a likelihood's losses by their names; none if the copy has not got it."""
        if not packed_in(self.folder, TRANSLATIONS).exists():
            return {}
        folder = f"{LOSSES}/{likelihood}/"
        return {path.removeprefix(folder): content for path, content in self._texts.items() if path.startswith(folder)}

    @cached_property
    def speeds(self) -> SpeedFacts | None:
        """The speeds; None if they were not measured."""
        if not (self.folder / SPEEDS).exists():
            return None
        return load_json(self.folder / SPEEDS, SpeedFacts, "the file of speeds", "publish the study again")

    @cached_property
    def _runs(self) -> dict[str, bytes]:
        return unpack(packed_in(self.folder, RUNS))

    @cached_property
    def _texts(self) -> dict[str, bytes]:
        return unpack(packed_in(self.folder, TRANSLATIONS))
