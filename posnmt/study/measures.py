"""The measures of a study by name: those of outputs, which an analysis has, and those of runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

from posnmt.base import plugins
from posnmt.base.errors import choices
from posnmt.evaluation.analyse.measures import COMPLETENESS, LENGTHS, measure_of
from posnmt.metrics.measure import Measure
from posnmt.metrics.registry import OWN

SPEEDS = {
    "training_speed": Measure(
        "Training speed", decimals=0, higher=True, unit="source tokens a second", words="training speed"
    ),
    "decoding_speed": Measure(
        "Decoding speed", decimals=0, higher=True, unit="source tokens a second", words="decoding speed"
    ),
}
"""Measures of a run, not of sentences."""
LOSS, NEAR_LONGEST = "loss", "near_longest"
CLAIMED = {
    NEAR_LONGEST: Measure(
        "Near the longest", signed=True, unit="of the outputs",
        words="share of outputs within a tenth of the longest length in training, less that of references,",
    ),
    LOSS: Measure("Loss", decimals=3, higher=False, unit="nats a subword", words="loss"),
}  # fmt: skip
"""Measures that only claims have: of output lengths, and of references by position (docs/metrics.md)."""
OF_RUNS = {"parameters": Measure("Parameters", decimals=0), **SPEEDS}


def measure(name: str) -> Measure:
    """A measure by its name.

    Raises:
        UserError: there is none of this name; see `posnmt.metrics.registry.metric`.
    """
    return OF_RUNS.get(name) or CLAIMED.get(name) or measure_of(name)


def unit(name: str) -> str:
    """Return the unit of a difference in a measure, such as BLEU."""
    about = measure(name)
    return about.unit or about.title


def words(name: str) -> str:
    """Return the name of a measure as it stands within a sentence."""
    about = measure(name)
    return about.words or about.title


def _known(*others: str) -> Callable[[str], str]:
    """A check that a name is that of a metric, which may be a plug-in, or one of `others`."""

    def check(name: str) -> str:
        if name in OWN or name in others or plugins.is_class(name) or name in plugins.names("metric"):
            return name
        every = [*OWN, *plugins.names("metric"), *others]
        raise ValueError(f"no measure here is called {name!r}; {choices(name, every)}")

    return check


MetricName = Annotated[str, AfterValidator(_known())]
OutputMeasure = Annotated[str, AfterValidator(_known(*COMPLETENESS, *LENGTHS))]
ClaimedMeasure = Annotated[str, AfterValidator(_known(*COMPLETENESS, *LENGTHS, *CLAIMED, *SPEEDS))]
ShownMeasure = Annotated[str, AfterValidator(_known(*COMPLETENESS, *LENGTHS, *OF_RUNS))]
