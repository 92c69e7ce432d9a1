"""What a study found, as its report asks for it: the figures of a system by seed, or why there are none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posnmt.study.recipe import Recipe, Scale

if TYPE_CHECKING:
    from posnmt.study.verdict import Verdict

Variant = tuple[str, str]
SPEEDS = ("training_speed", "decoding_speed")
# Measures that a run has by itself; every other one is of an analysis.
OF_RUNS = ("parameters", *SPEEDS)


@dataclass(frozen=True)
class Recommendation:
    """What a study advises, in a sentence, and what speaks for it."""

    sentence: str
    evidence: Sequence[str]


@dataclass(frozen=True)
class StudyResults:
    """All that the report of a study is made from.

    Attributes:
        recipe, scale: what was run.
        runs: for each training `system`, `training`, `seed`, `state` (`done`, or why not: `failed`, `blocked` ...),
            `error` (a sentence or None), `parameters`, `training_speed` and, by test, `decoding_speed` (source tokens a
            second), `seconds`, `updates`, `source_lengths` (shortest and longest of the training text).
        analyses: the folders of the finished ones, with results.json, outputs.json and report.html.
        missing: analysis -> why it is not there.
        corpora: name -> `pairs`, `source_tokens`, `target_tokens`, `lengths`: {`source`: {length: how many}}.
        parts: training -> `pairs` and `source`: {`tokens`, `shortest`, `longest`}, of length-controlled ones.
        verdicts: of the recipe's claims, in order.
        versions, machine: of the software; what it ran on.
        cost: seconds of all trainings together.
        recommendation: of a recipe that asks for one.
        texts: test -> the folder of its text, with `source` and `target`.
        translations: system, training, seed and test -> the folder of the translation, with `output`.
    """

    recipe: Recipe
    scale: Scale
    runs: list[dict[str, Any]]
    analyses: dict[str, Path]
    missing: dict[str, str] = field(default_factory=dict)
    corpora: dict[str, dict[str, Any]] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    cost: float = 0.0
    recommendation: Recommendation | None = None
    texts: dict[str, Path] = field(default_factory=dict)
    translations: dict[tuple[str, str, int, str], Path] = field(default_factory=dict)

    @cached_property
    def measured(self) -> dict[str, Measured]:
        """The finished analyses, read."""
        return {name: Measured.read(folder) for name, folder in self.analyses.items()}

    def runs_of(self, variant: Variant) -> list[dict[str, Any]]:
        """Every seed of a system with a training, finished or not."""
        return [run for run in self.runs if (run["system"], run["training"]) == variant]

    def variant(self, text: str, analysis: str | None = None) -> Variant:
        """`system/training`; a system alone has the first training, or, where that is not analysed, the analysis'."""
        if analysis is not None and "/" not in text:
            trainings = self.recipe.analyses[analysis].trainings
            if next(iter(self.recipe.trainings)) not in trainings:
                return text, trainings[0]
        return self.recipe.variant(text)

    def labels(self, variants: Sequence[Variant]) -> list[str]:
        """Names for a table or a figure: the systems' own if these tell them apart, else with their trainings."""
        if len({system for system, _ in variants}) == len(variants):
            return [self.recipe.systems[system].label or system for system, _ in variants]
        return [self.recipe.label(variant) for variant in variants]

    def values(self, variant: Variant, measure: str, analysis: str | None) -> dict[int, float]:
        """A figure of every seed that has it; empty if none has.

        Args:
            variant: whose.
            measure: of the whole test set, or one of `OF_RUNS`.
            analysis: which analysis; of `decoding_speed`, the one whose test was decoded, None for any.
        """
        if measure not in OF_RUNS:
            measured = self.measured.get(analysis or "")
            return {} if measured is None else measured.values(variant, measure)
        figures: dict[int, float | None] = {}
        for run in self.runs_of(variant):
            figure = run[measure]
            if measure == "decoding_speed":
                test = self.recipe.analyses[analysis].test if analysis else next(iter(figure), None)
                figure = figure.get(test)
            figures[run["seed"]] = figure
        return {seed: figure for seed, figure in figures.items() if figure is not None}

    def undone(self) -> list[str]:
        """Which trainings are not done, and why, a sentence a system."""
        variants = dict.fromkeys((run["system"], run["training"]) for run in self.runs)
        reasons = {variant: _undone(self.runs_of(variant)) for variant in variants}
        return [f"{self.recipe.label(variant)}: {why}." for variant, why in reasons.items() if why]

    def absence(self, variant: Variant, analysis: str | None) -> tuple[str, str] | None:
        """Why a system, or one of its seeds, has no figures: in a word, and at length; None if none lacks."""
        if variant not in self.recipe.variants(self.scale):
            return "not run", f"not run at scale {self.scale}"
        runs = self.runs_of(variant)
        if not runs:
            return "not run", "not run yet"
        if undone := _undone(runs):
            word = "failed" if any(run["state"] == "failed" for run in runs) else "not run"
            return word, undone
        if analysis is None:
            return None
        if analysis in self.missing or analysis not in self.analyses:
            because = _because(self.missing.get(analysis))
            return "missing", f"the analysis {analysis} is missing{because}"
        seeds = self.measured[analysis].places.get(variant, {})
        if lacking := [str(run["seed"]) for run in runs if run["seed"] not in seeds]:
            return "missing", f"the analysis {analysis} has no output of seed {', '.join(lacking)}"
        return None


def _undone(runs: Sequence[dict[str, Any]]) -> str:
    """Which seeds are not done, and why; nothing if all are. A reason that several share is said once."""
    seeds: dict[str, list[str]] = {}
    for run in runs:
        if run["state"] != "done":
            seeds.setdefault(f"{run['state']}{_because(run['error'])}", []).append(str(run["seed"]))
    return "; ".join(f"seed {', '.join(numbers)} {why}" for why, numbers in seeds.items())


def _because(reason: str | None) -> str:
    """A reason as it ends a sentence."""
    return f": {reason.strip().rstrip('.')}" if reason else ""


@dataclass(frozen=True)
class Measured:
    """A finished analysis.

    Attributes:
        results: its results.json; see docs/analyse.md.
        places: system and training -> seed -> the place of its output in `results["systems"]`.
    """

    results: dict[str, Any]
    places: dict[Variant, dict[int, int]]

    @classmethod
    def read(cls, folder: Path) -> Measured:
        """The analysis in a folder."""
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        numbers = {system["name"]: place for place, system in enumerate(results["systems"])}
        places: dict[Variant, dict[int, int]] = {}
        for output in json.loads((folder / "outputs.json").read_text(encoding="utf-8")):
            if not output["share"]:
                variant = output["system"], output["training"]
                places.setdefault(variant, {})[output["seed"]] = numbers[output["name"]]
        return cls(results, places)

    def values(self, variant: Variant, measure: str, bin_number: int | None = None) -> dict[int, float]:
        """A measure of every seed's output, overall or in one bin; those that have none are left out."""
        values = {}
        for seed, place in self.places.get(variant, {}).items():
            system = self.results["systems"][place]
            value = (system["overall"] if bin_number is None else system["bins"][bin_number]).get(measure)
            if value is not None:
                values[seed] = value
        return values

    def interval(self, variant: Variant, measure: str, bin_number: int | None = None) -> list[float] | None:
        """The 95 % interval over sentences of the only seed's output; None with several seeds, or without samples."""
        places = list(self.places.get(variant, {}).values())
        if len(places) != 1:
            return None
        return interval_of(self.results["systems"][places[0]], measure, bin_number)


def interval_of(system: dict[str, Any], measure: str, bin_number: int | None = None) -> list[float] | None:
    """The 95 % interval of one output, overall or in one bin; None if there is none."""
    intervals = system["intervals"]
    if intervals is None:
        return None
    of_place: dict[str, list[float] | None] = (
        intervals["overall"] if bin_number is None else intervals["bins"][bin_number]
    )
    return of_place.get(measure)
