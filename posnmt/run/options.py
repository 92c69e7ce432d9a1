"""Settings of a training with a short name: an option of `posnmt train`, and an argument in Python.

Nothing heavy is imported here, so that `posnmt --help` is fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, TypedDict, get_type_hints


@dataclass(frozen=True)
class Sets:
    """The setting behind an option.

    Attributes:
        key: the dotted key in the configuration.
        help: of the option.
        metavar: the placeholder for its value in the help.
        heading: under which the help lists it.
        common: whether `--help` lists it; `--help-all` lists every option.
    """

    key: str
    help: str
    metavar: str | None = None
    heading: str = "Text"
    common: bool = True


class InFolder(Protocol):
    """An object with a folder, such as a run."""

    @property
    def folder(self) -> Path:
        """The folder that the object was read from."""
        ...


class TrainOptions(TypedDict, total=False):
    """None means that the option is left out."""

    source: Annotated[
        str | Path | None,
        Sets("data.train.source", "instead of CONFIG: source text, one sentence a line (plain, .gz, .xz)"),
    ]
    target: Annotated[
        str | Path | None, Sets("data.train.target", "its translations, line by line; needed with --source")
    ]
    dev_source: Annotated[
        str | Path | None,
        Sets("data.dev.source", "text to measure on during training; default: pairs drawn from the training text"),
    ]
    dev_target: Annotated[str | Path | None, Sets("data.dev.target", "its translations; needed with --dev-source")]
    source_language: Annotated[
        str | None,
        Sets(
            "data.source_language",
            "language of the source; default: the ending of the file name, as in train.en",
            "CODE",
            common=False,
        ),
    ]
    target_language: Annotated[
        str | None,
        Sets(
            "data.target_language",
            "language of the target; default: the ending of the file name, as in train.de",
            "CODE",
            common=False,
        ),
    ]
    minutes: Annotated[
        float | None,
        Sets(
            "train.minutes",
            "how long to train; default: the budget of CONFIG, or passes chosen by the number of pairs",
            heading="Settings",
        ),
    ]
    init: Annotated[
        str | Path | InFolder | None,
        Sets(
            "train.init",
            "start from the weights and the subwords of a trained run; default: from new weights",
            "RUN",
            heading="Settings",
        ),
    ]


HINTS: dict[str, Any] = get_type_hints(TrainOptions, include_extras=True)
"""Option -> its type, with its `Sets`."""

SETS: dict[str, Sets] = {name: hint.__metadata__[0] for name, hint in HINTS.items()}
"""Option -> the setting behind it."""
