"""The programs that translate, by name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posnmt.translate.command import Chosen

ENGINES = {
    "torch": "posnmt.translate.command:choose_runs",
    "ctranslate2": "posnmt.deploy.command:choose_exported",
    "auto": "posnmt.deploy.command:choose_either",
}
"""Engine → what opens models for it."""


def choose(
    engine: str, folders: Sequence[Path], checkpoint: str, search: dict[str, Any], asked: Collection[str] = ()
) -> Chosen:
    """What is to translate.

    Args:
        engine: a name in `ENGINES`.
        folders: one run, or the runs of an ensemble; for CTranslate2 also a folder that `posnmt export` made.
        checkpoint: see `Run.weights`.
        search: settings of `decode` that override the run's; `positions` as a whole.
        asked: what is asked for beside the settings; see `refuse_unserved`.

    Raises:
        UserError: no run folder, or what the engine does not serve.
    """
    chosen: Chosen = resolve_name(ENGINES[engine])(folders, checkpoint, search, asked)
    return chosen
