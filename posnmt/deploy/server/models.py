"""The models of a server. Each has languages, a queue and a thread."""

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
    """A model to load and serve.

    Attributes:
        name: the name by which requests choose it.
        folder: a run, or a folder that `posnmt export` wrote for CTranslate2.
        languages: codes of source and target; None: those of the run.
    """

    name: str
    folder: Path
    languages: tuple[str, str] | None = None


def choices(models: Sequence[str], languages: Sequence[str]) -> list[Choice]:
    """The models that the command line names.

    Args:
        models: `FOLDER` or `NAME=FOLDER`; the default name is the folder's.
        languages: `SOURCE-TARGET` for a single model, `NAME=SOURCE-TARGET` for one of several; with a colon in place of
            the hyphen, codes may have hyphens.

    Raises:
        UserError: two models have the same name, or languages are malformed or name no model.
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
            todo = "for example en-de or pt-BR:en; for a multilingual model, the language of a tag: fr for >>fr<<"
            raise UserError("languages must have the form SOURCE-TARGET", f"--languages {each}", todo)
        pairs[name] = (codes[0], codes[1])
    return [Choice(name, folder, pairs.get(name)) for name, folder in named.items()]


@dataclass(frozen=True)
class Model:
    """A model that is served.

    Attributes:
        name: the name by which requests choose it.
        source, target: codes of its languages.
        system: the named system; None if the run names none.
        trained: the shortest and longest training sentences of each side, in subwords, if recorded.
        sentences_per_line: for each side, the shares of training lines with at least 1, 2, … sentences, if recorded.
        engine: the program that computes.
        decode: search settings.
        queue, worker: accepted lines, and the thread that translates them.
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
    """Load a model, without starting its thread.

    Args:
        choice: the model.
        engine: `torch`, `ctranslate2` or `auto`; None: the engine of the folder.
        checkpoint: see `Run.weights`.
        search: settings of `decode` that override the run's, and `precision`.
        settings: limits of the server.
        metrics: counters of the server.

    Raises:
        UserError: the folder does not exist, the engine cannot translate with it or does not serve its search settings,
            the run samples translations, or a multilingual model has no mark for the target language.
    """
    folder = choice.folder
    engine = choose_engine(engine, [folder], search.get("precision"))
    search = {**search, "join": 1}  # lines of a batch may belong to different requests
    if is_exported(folder):
        about = open_folder(folder)[0].model_dump()
    else:
        about = describe(Run.open(folder), checkpoint)
    who = "a server: samples depend on a line's number, which depends on other requests there"
    todo = f"leave it out of {folder}/config.yaml"
    refuse_unserved(who, EVERYTHING - {"sampling"}, Decode.model_validate(about["decode"]), todo=todo)
    chosen = choose(engine, [folder], checkpoint, search)
    loaded, marks, decode = chosen.load(), list(chosen.marks()), chosen.decode
    queue = Queue(settings.queue_characters, settings.timeout / 2, settings.batch_characters)
    source, target = choice.languages or (about["languages"]["source"], about["languages"]["target"])
    if marks:
        loaded.text = loaded.text.marked(mark_for(target, marks, "--languages"))
    worker = Worker(choice.name, loaded, queue, metrics.observe(choice.name, queue))
    lengths, several = about["training_lengths"], about["sentences_per_line"]
    return Model(choice.name, source, target, about["system"], lengths, several, loaded, decode, queue, worker)


class Models:
    """The models of a server, found by name or by languages. If two have the same languages, the first is found."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.all = list(models)
        self.by_name = {model.name: model for model in models}

    @property
    def sources(self) -> list[str]:
        """Return the source languages without duplicates, in the order of the models."""
        return list(dict.fromkeys(model.source for model in self.all))

    @property
    def targets(self) -> list[str]:
        """Return the target languages without duplicates, in the order of the models."""
        return list(dict.fromkeys(model.target for model in self.all))

    def sources_of(self, target: str) -> list[str]:
        """The source languages of the models for a target language."""
        return list(dict.fromkeys(model.source for model in self.all if model.target == target))

    def targets_of(self, source: str) -> list[str]:
        """The target languages of the models for a source language."""
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
        """Start the thread of each model, which translates what waits in its queue."""
        for model in self.all:
            model.worker.start()

    def close(self) -> None:
        """Let the threads that were started finish what somebody waits for, and end."""
        for model in self.all:
            model.queue.close()
        for model in self.all:
            if model.worker.ident is not None:
                model.worker.join()
