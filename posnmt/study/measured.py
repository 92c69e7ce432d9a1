"""The results of a study for its report: the figures of a system by seed, or why they are missing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from posnmt.study.likelihood import Likelihood
from posnmt.study.measures import SPEEDS
from posnmt.study.recipe import Recipe, Scale
from posnmt.study.registration import History
from posnmt.study.verdict import Verdict

Variant = tuple[str, str]


@dataclass(frozen=True)
class Finding:
    """What the comparisons of all pairs of systems show.

    Attributes:
        sentence: how many comparisons it is about.
        items: each of them.
    """

    sentence: str
    items: Sequence[str]


@dataclass(frozen=True)
class Recommendation:
    """The recommendation of a study, in a sentence, and the evidence for it.

    Attributes:
        findings: what was found of all pairs of systems, and what was not; empty if none could be compared.
    """

    sentence: str
    evidence: Sequence[str]
    findings: Sequence[Finding] = ()


@dataclass(frozen=True)
class StudyResults:
    """All input of a study's report.

    Attributes:
        recipe, scale: of the study.
        runs: for each training `system`, `training`, `seed`, `state` (`done`, or why not: `failed`, `blocked` ...),
            `error` (a sentence or None), `parameters`, `training_speed` and, by test, `decoding_speed` (source tokens a
            second), `seconds`, `updates`, `source_lengths` (shortest and longest of the training text), `longest_pair`
            (subwords of its longest sentence on either side), `processor`.
        analyses: finished analysis -> its folder, with results.json, outputs.json and report.html.
        missing: analysis -> why it is missing.
        corpora: name -> `pairs`, `source_tokens`, `target_tokens`, `lengths`: {`source`: {length: how many}}.
        parts: training -> `pairs` and `source`: {`tokens`, `shortest`, `longest`}, for trainings on parts by length.
        verdicts: of the recipe's claims, in order.
        registration: what was registered before the first training, and changed later.
        versions: of the software.
        recommendation: None if the recipe does not ask for one.
        texts: test -> the folder of its text, with `source` and `target`.
        translations: system, training, seed and test -> the folder of the translation, with `output`.
        speeds: of each turn, for the systems that were measured in turn: see `posnmt.study.speed`.
        likelihoods: the finished ones.
        unscored: likelihood -> why it is missing.
        published: whether the page is a copy for others, without texts and without links into the study's folder.
    """

    recipe: Recipe
    scale: Scale
    runs: list[dict[str, Any]]
    analyses: dict[str, Path]
    missing: dict[str, str] = field(default_factory=dict)
    corpora: dict[str, dict[str, Any]] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    registration: History = field(default_factory=lambda: History([]))
    versions: dict[str, str] = field(default_factory=dict)
    recommendation: Recommendation | None = None
    texts: dict[str, Path] = field(default_factory=dict)
    translations: dict[tuple[str, str, int, str], Path] = field(default_factory=dict)
    speeds: Mapping[Variant, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    likelihoods: Mapping[str, Likelihood] = field(default_factory=dict)
    unscored: Mapping[str, str] = field(default_factory=dict)
    published: bool = False

    @cached_property
    def measured(self) -> dict[str, Measured]:
        """Return analysis -> its results, read from the folders of the finished ones."""
        return {name: Measured.read(folder) for name, folder in self.analyses.items()}

    @property
    def trainings(self) -> list[dict[str, Any]]:
        """The runs, without those of systems that share the training of another."""
        first: dict[str, dict[str, Any]] = {}
        for run in self.runs:
            first.setdefault(run["run"], run)
        return list(first.values())

    @property
    def cost(self) -> float:
        """The seconds of all trainings together."""
        return sum(run["seconds"] or 0.0 for run in self.trainings)

    def runs_of(self, variant: Variant) -> list[dict[str, Any]]:
        """Every seed of a system with a training, finished or not."""
        return [run for run in self.runs if (run["system"], run["training"]) == variant]

    def variant(self, text: str, analysis: str | None = None) -> Variant:
        """Parse `system/training`.

        The default is the recipe's first training, or the first of the analysis if this does not have that one.
        """
        if analysis is not None and "/" not in text:
            trainings = self.recipe.analyses[analysis].trainings
            if next(iter(self.recipe.trainings)) not in trainings:
                return text, trainings[0]
        return self.recipe.variant(text)

    def labels(self, variants: Sequence[Variant]) -> list[str]:
        """Labels for a table or a figure: of the systems, with their trainings where these are needed to be unique."""
        unique = len({system for system, _ in variants}) == len(variants)
        return [self.recipe.label(variant, [] if unique else None) for variant in variants]

    def values(self, variant: Variant, measure: str, analysis: str | None) -> dict[int, float]:
        """Seed -> figure, for the seeds that have one; for speeds, turn -> figure.

        Args:
            variant: the system and its training.
            measure: a measure of the whole test set, or one of `OF_RUNS`.
            analysis: where a measure of the test set is from.
        """
        if measure in SPEEDS:
            return dict(enumerate(self.speeds.get(variant, {}).get(measure, [])))
        if measure == "parameters":
            return {run["seed"]: run[measure] for run in self.runs_of(variant) if run[measure] is not None}
        measured = self.measured.get(analysis or "")
        return {} if measured is None else measured.values(variant, measure)

    def undone(self) -> list[str]:
        """A sentence for each system with trainings that are not done, and why."""
        variants = dict.fromkeys((run["system"], run["training"]) for run in self.runs)
        reasons = {variant: _undone(self.runs_of(variant)) for variant in variants}
        return [f"{self.recipe.label(variant)}: {why}." for variant, why in reasons.items() if why]

    def absence(self, variant: Variant, analysis: str | None) -> tuple[str, str] | None:
        """Why a system, or one of its seeds, has no figures: a word and a reason; None if nothing is missing."""
        if variant not in self.recipe.variants(self.scale):
            return "not run", f"not run at scale {self.scale}"
        runs = self.runs_of(variant)
        if not runs:
            return "not run", "not run yet"
        if undone := _undone(runs):
            return ("failed" if any(run["state"] == "failed" for run in runs) else "not run"), undone
        if analysis is None:
            return None
        if analysis in self.missing or analysis not in self.analyses:
            return "missing", f"the analysis {analysis} is missing{_because(self.missing.get(analysis))}"
        seeds = self.measured[analysis].places.get(variant, {})
        if lacking := [str(run["seed"]) for run in runs if run["seed"] not in seeds]:
            return "missing", f"the analysis {analysis} has no output of {_seeds(lacking)}"
        return None


def _undone(runs: Sequence[dict[str, Any]]) -> str:
    """The seeds that are not done, and why, grouped by reason; empty if all are done."""
    seeds: dict[str, list[str]] = {}
    for run in runs:
        if run["state"] != "done":
            seeds.setdefault(f"{run['state']}{_because(run['error'])}", []).append(str(run["seed"]))
    return "; ".join(f"{_seeds(numbers)} {why}" for why, numbers in seeds.items())


def _seeds(numbers: Sequence[str]) -> str:
    return f"seed{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _because(reason: str | None) -> str:
    """A reason as the end of a sentence; empty if there is none."""
    return f": {reason.strip().rstrip('.')}" if reason else ""


@dataclass(frozen=True)
class Measured:
    """A finished analysis.

    Attributes:
        results: its results.json; see docs/files.md.
        places: system and training -> seed -> index of its output in `results["systems"]`.
    """

    results: dict[str, Any]
    places: dict[Variant, dict[int, int]]

    @classmethod
    def read(cls, folder: Path) -> Measured:
        """Read the analysis in a folder."""
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        numbers = {system["name"]: place for place, system in enumerate(results["systems"])}
        places: dict[Variant, dict[int, int]] = {}
        for output in json.loads((folder / "outputs.json").read_text(encoding="utf-8")):
            if not output["share"]:
                places.setdefault((output["system"], output["training"]), {})[output["seed"]] = numbers[output["name"]]
        return cls(results, places)

    def values(self, variant: Variant, measure: str, bin_number: int | None = None) -> dict[int, float]:
        """Seed -> measure of its output, overall or in one bin, for the seeds that have one."""
        values = {}
        for seed, place in self.places.get(variant, {}).items():
            system = self.results["systems"][place]
            value = (system["overall"] if bin_number is None else system["bins"][bin_number]).get(measure)
            if value is not None:
                values[seed] = value
        return values

    def outputs(self, variant: Variant) -> list[int]:
        """The indices of the outputs of a system, one for each seed."""
        return list(self.places.get(variant, {}).values())

    def interval(self, variant: Variant, measure: str, bin_number: int | None = None) -> list[float] | None:
        """The 95 % interval over sentences of a single seed; None with several seeds, or without intervals."""
        outputs = self.outputs(variant)
        intervals = self.results["systems"][outputs[0]]["intervals"] if len(outputs) == 1 else None
        if intervals is None:
            return None
        of_part = intervals["overall"] if bin_number is None else intervals["bins"][bin_number]
        return of_part.get(measure)  # type: ignore[no-any-return]
