"""The models of a server: each with its languages, its queue and its thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.base.files import named_folders
from posnmt.config.schema import Decode
from posnmt.config.writing import is_code
from posnmt.data.marks import mark_for
from posnmt.deploy.folder import choose_engine, describe, is_exported, open_folder
from posnmt.deploy.server.languages import match
from posnmt.deploy.server.metrics import Metrics
from posnmt.deploy.server.queue import Queue
from posnmt.deploy.server.settings import Settings
from posnmt.deploy.server.worker import Worker
from posnmt.run.run import Run
from posnmt.translate.engine import Engine
from posnmt.translate.engines import choose
from posnmt.translate.options import EVERYTHING, refuse_unserved


@dataclass(frozen=True)
class Choice:
    """A model that is to be served.

    Attributes:
        name: by which requests choose it.
        folder: a run, or what `posnmt export` wrote for CTranslate2.
        languages: codes of source and target; None: those of the run.
    """

    name: str
    folder: Path
    languages: tuple[str, str] | None = None


def choices(models: Sequence[str], languages: Sequence[str]) -> list[Choice]:
    """What the command line asks for.

    Args:
        models: `FOLDER` or `NAME=FOLDER`; without a name, the folder's.
        languages: `SOURCE-TARGET` for a single model, `NAME=SOURCE-TARGET` for one of several; with a colon in place of
            the hyphen, codes may have hyphens.

    Raises:
        UserError: two models of one name, or languages that belong to none.
    """
    named = named_folders(models, "models")
    pairs: dict[str, tuple[str, str]] = {}
    for each in languages:
        name, _, pair = each.rpartition("=")
        name = name or (next(iter(named)) if len(named) == 1 else "")
        if name not in named:
            which = f"no model is called {name!r}" if name else "there are several models"
            raise UserError(which, f"--languages {each}", f"write NAME={pair}, with one of {', '.join(named)}")
        codes = pair.split(":") if ":" in pair else pair.split("-")
        if len(codes) != 2 or not all(map(is_code, codes)):
            todo = "for example en-de, or pt-BR:en; of a model for several, name the language of a mark: fr for >>fr<<"
            raise UserError("languages are SOURCE-TARGET", f"--languages {each}", todo)
        pairs[name] = (codes[0], codes[1])
    return [Choice(name, folder, pairs.get(name)) for name, folder in named.items()]


@dataclass(frozen=True)
class Model:
    """A model that is served.

    Attributes:
        trained: shortest and longest training sentences of each side, in subwords, if recorded.
        sentences_per_line: the shares of training lines with at least 1, 2, … sentences by side, if recorded.
    """

    name: str
    source: str
    target: str
    system: str | None
    trained: dict[str, dict[str, int]] | None
    sentences_per_line: dict[str, list[float]] | None
    engine: Engine
    decode: Decode
    queue: Queue
    worker: Worker


def load(
    choice: Choice, engine: str | None, checkpoint: str, search: dict[str, Any], settings: Settings, metrics: Metrics
) -> Model:
    """Load a model; its thread waits to be started.

    Args:
        engine: `torch`, `ctranslate2` or `auto`; None: what the folder is made for.
        checkpoint: see `Run.weights`.
        search: settings of `decode` that override the run's, and `precision`.

    Raises:
        UserError: no such folder, an engine that cannot translate with it or has not its settings of search, a run that
            draws translations, or a model for several languages that is to translate into none of them.
    """
    folder = choice.folder
    engine = choose_engine(engine, [folder], search.get("precision"))
    alone = {**search, "join": 1}  # a batch has lines of several requests
    if is_exported(folder):
        about = open_folder(folder, "ctranslate2")[0].model_dump()
    else:
        about = describe(Run.open(folder), checkpoint)
    who = "a server, where a line's number, which decides what is drawn for it, depends on other requests"
    todo = f"leave it out of {folder}/config.yaml"
    refuse_unserved(who, EVERYTHING - {"sampling"}, Decode.model_validate(about["decode"]), todo=todo)
    chosen = choose(engine, [folder], checkpoint, alone)
    loaded, marks, decode = chosen.load(), list(chosen.marks()), chosen.decode
    queue = Queue(settings.queue_characters, settings.timeout / 2, settings.batch_characters)
    source, target = choice.languages or (about["languages"]["source"], about["languages"]["target"])
    if marks:
        loaded.text = loaded.text.marked(mark_for(target, marks, "--languages"))
    worker = Worker(choice.name, loaded, queue, metrics.observe(choice.name, queue))
    lengths, several = about["training_lengths"], about["sentences_per_line"]
    return Model(choice.name, source, target, about["system"], lengths, several, loaded, decode, queue, worker)


class Models:
    """The models of a server, by name and by languages; of two for the same languages, the first counts."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.all = list(models)
        self.by_name = {model.name: model for model in models}

    @property
    def sources(self) -> list[str]:
        """The source languages, each once."""
        return list(dict.fromkeys(model.source for model in self.all))

    @property
    def targets(self) -> list[str]:
        """The target languages, each once."""
        return list(dict.fromkeys(model.target for model in self.all))

    def sources_of(self, target: str) -> list[str]:
        """The languages that are translated into one."""
        return list(dict.fromkeys(model.source for model in self.all if model.target == target))

    def targets_of(self, source: str) -> list[str]:
        """The languages that one is translated into."""
        return list(dict.fromkeys(model.target for model in self.all if model.source == source))

    def between(self, source: str, target: str) -> Model | None:
        """The first model for a pair of codes; `en-US` finds `en`."""
        pairs: dict[str, list[Model]] = defaultdict(list)
        for model in self.all:
            pairs[model.target].append(model)
        into = match(target, pairs)
        of = {model.source: model for model in reversed(pairs[into])} if into else {}
        code = match(source, of)
        return of[code] if code else None

    def start(self) -> None:
        """Start the threads."""
        for model in self.all:
            model.worker.start()

    def close(self, seconds: float) -> None:
        """Let the threads finish what they have, for so many seconds each, and end."""
        for model in self.all:
            model.queue.close()
        for model in self.all:
            model.worker.join(seconds)
