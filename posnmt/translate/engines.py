"""The programs that translate, by name, and the choice of a model for one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posnmt.config.schema import Decode
    from posnmt.translate.engine import Engine

ENGINES = {
    "torch": "posnmt.translate.translator:choose_runs",
    "ctranslate2": "posnmt.deploy.command:choose_exported",
    "auto": "posnmt.deploy.command:choose_either",
}
"""Engine → what opens models for it."""


@dataclass(frozen=True)
class ModelChoice:
    """A model that was chosen for an engine, and is not loaded yet.

    Attributes:
        decode: the settings of search.
        load: loads the engine with the model.
        identity: identifies the model, as JSON has it.
        marks: the marks of target languages in its training text.
        corpora: the marks of corpora in its training text.
        target: the target language that was chosen of several; None: the model has one.
    """

    decode: Decode
    load: Callable[[], Engine]
    identity: Callable[[], dict[str, Any]]
    marks: Callable[[], Iterable[str]]
    corpora: Callable[[], Iterable[str]] = tuple
    target: str | None = None

    def to(self, language: str | None) -> ModelChoice:
        """The same for one of several target languages, or for text like that of a corpus; None: as it is.

        The mark of the language or of the corpus is put before each line.

        Raises:
            UserError: the model has no mark for it.
        """
        if language is None:
            return self
        from posnmt.data.marks import mark_for

        languages = [*self.marks()]
        mark = mark_for(language, [*languages, *self.corpora()])

        def load() -> Engine:
            engine = self.load()
            engine.text = engine.text.marked(mark)
            return engine

        return replace(self, load=load, target=language if mark in languages else None)


def choose(
    engine: str, folders: Sequence[Path], checkpoint: str, search: dict[str, Any], asked: Collection[str] = ()
) -> ModelChoice:
    """A model for an engine.

    Args:
        engine: a name in `ENGINES`.
        folders: one run, or the runs of an ensemble; for CTranslate2 also a folder that `posnmt export` made.
        checkpoint: see `Run.weights`.
        search: settings of `decode` that override the run's; `positions` as a whole.
        asked: what is asked for beside the settings; see `refuse_unserved`.

    Raises:
        UserError: a folder without a run, or something that the engine does not serve.
    """
    chosen: ModelChoice = resolve_name(ENGINES[engine])(folders, checkpoint, search, asked)
    return chosen
