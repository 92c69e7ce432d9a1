"""The faults of a recipe that its schema cannot find: in names, tests, measures and configurations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from posnmt.base import plugins
from posnmt.base.errors import UserError, UserErrors, nearest
from posnmt.config.segmenters import requires, word_tokeniser
from posnmt.config.systems import named
from posnmt.config.yaml import Lines, place
from posnmt.evaluation.analyse.bins import bins_from_edges
from posnmt.evaluation.analyse.measures import LENGTHS
from posnmt.evaluation.analyse.neural import neural
from posnmt.metrics.bleu import check_bleu_tokenizer
from posnmt.study.measures import CLAIMED, LOSS, SPEEDS
from posnmt.study.points import MARK, origins
from posnmt.study.recipe import WHOLE, Analysis, Likelihood, Recipe, System, Training, at, lacks
from posnmt.study.scorable import unpredicted, unscorable, unshiftable


@dataclass(frozen=True)
class Faults:
    """The faults of a recipe, section by section, with their lines.

    Attributes:
        recipe: with the points of its sweeps; for `reserved` without them.
        path: its file.
        lines: of the keys in the file.
    """

    recipe: Recipe
    path: Path
    lines: Lines

    def names(self) -> Iterator[UserError]:
        """Names that the recipe uses but does not define, and what is not possible with those that it defines."""
        yield from self.labels()
        yield from self.systems()
        yield from self.tests()
        yield from self.sweeps()
        yield from self.missing_scales()
        for number, runs in enumerate(self.recipe.runs):
            for kind in ("systems", "trainings", "tests"):
                yield from self.unknown(kind, getattr(runs, kind), "runs", str(number), kind)
        yield from self.analyses()
        yield from self.likelihoods()
        yield from self.claims()
        if self.recipe.recommend is not None:
            for kind in ("analyses", "likelihoods"):
                yield from self.unknown(kind, getattr(self.recipe.recommend, kind), "recommend", kind)
        yield from (self.fault(*each) for each in unpredicted(self.recipe))
        yield from (self.fault(keys, what) for keys, what in _unmeasured(self.recipe))
        yield from self.layout()

    def fault(self, keys: tuple[str, ...], what: str, todo: str | None = None) -> UserError:
        """Return a fault of a key, with the file and the line at which the recipe has it."""
        return UserError(f"{'.'.join(keys)}: {what}", place(keys, self.path, self.lines), todo)

    def unknown(self, kind: str, names: Iterable[str], *keys: str) -> Iterator[UserError]:
        """Names under some keys that the recipe does not define."""
        known: Mapping[str, Any] = getattr(self.recipe, kind)
        for name in names:
            if name not in known:
                near = nearest(name, known)
                todo = f"did you mean {near!r}?" if near else f"there are {', '.join(known) or 'none'}"
                yield self.fault(keys, f"{kind} has no {name!r}", todo)

    def reserved(self) -> Iterator[UserError]:
        """Names that a study or a sweep could make, too, and different settings of the same name in two sweeps."""
        rename = "choose another name"
        for kind, names in (("systems", self.recipe.systems), ("trainings", self.recipe.trainings)):
            for name in names:
                if MARK in name:
                    yield self.fault((kind, name), f"{MARK} marks the points of a sweep", rename)
        for name in self.recipe.trainings:
            if re.fullmatch(rf"{WHOLE}(-\d+)?", name):  # `Plan.add` numbers steps
                yield self.fault(("trainings", name), "the step that prepares the whole text is called so", rename)
        settings: dict[str, str] = {}
        for sweep_name, sweep in self.recipe.sweep.items():
            for name, dimension in sweep.grid.items():
                if (other := settings.setdefault(name, dimension.of)) != dimension.of:
                    what = f"{name} is {other} in another sweep, and {dimension.of} in this one"
                    yield self.fault(("sweep", sweep_name, "grid", name), what, rename)

    def labels(self) -> Iterator[UserError]:
        """Labels that two systems or two trainings share."""
        for kind in ("systems", "trainings"):
            of_kind: Mapping[str, System | Training] = getattr(self.recipe, kind)
            labels: dict[str, str] = {}
            for name, each in of_kind.items():
                label = each.label or name
                if (other := labels.setdefault(label, name)) != name:
                    what = f"{other} is called {label!r} as well, so tables could not distinguish them"
                    yield self.fault((kind, name), what, "give one of them another label")

    def systems(self) -> Iterator[UserError]:
        """Yield a fault for each system of the recipe whose named system does not exist."""
        for name, system in self.recipe.systems.items():
            try:
                named(system.system)
            except UserError as error:
                yield self.fault(("systems", name), error.placed, error.todo)

    def tests(self) -> Iterator[UserError]:
        """Corpora of tests that a scale does not have, or whose lines are joined although the test does not say so."""
        for name, test in self.recipe.tests.items():
            for scale, setting in self.recipe.scales.items():
                if lacks(test.corpus, scale):
                    continue
                corpora, corpus = setting.names(), at(test.corpus, scale)
                if corpus not in corpora:
                    what = f"there is no corpus {corpus!r} at scale {scale}"
                    yield self.fault(("tests", name), what, f"there are {', '.join(sorted(corpora))}")
                elif any(text.join for text in setting.texts(corpus)):
                    what = f"the corpus {corpus} has joined lines at scale {scale}"
                    yield self.fault(("tests", name), what, "give the test `join`, and leave it out of the corpus")

    def sweeps(self) -> Iterator[UserError]:
        """Sweeps without systems, sweeps with too many points, and undefined names in sweeps."""
        for name, sweep in self.recipe.sweep.items():
            if not sweep.systems:
                what = "no system of `runs` has all position schemes of the grid"
                yield self.fault(("sweep", name), what, "name its `systems`, or other settings")
            if (fault := sweep.fault()) is not None:  # with the systems that were filled in
                yield self.fault(("sweep", name), fault, "or name fewer `systems` or values")
            for kind in ("systems", "trainings", "analyses"):
                yield from self.unknown(kind, getattr(sweep, kind), "sweep", name, kind)

    def missing_scales(self) -> Iterator[UserError]:
        """Settings that have no value at a scale at which they are used."""
        recipe = self.recipe
        for scale in recipe.scales:
            runs = [each for each in recipe.runs if scale in each.scales]
            translated = {
                name
                for name, test in recipe.tests.items()
                if not lacks(test.corpus, scale) and any(name in each.tests for each in runs)
            }
            used = {
                **{("trainings", name): recipe.trainings.get(name) for each in runs for name in each.trainings},
                **{("analyses", name): each for name, each in recipe.analyses.items() if each.test in translated},
            }
            for keys, section in used.items():
                for key in ("max_length", "bins", "bleu_tokenizer"):
                    if lacks(getattr(section, key, None), scale):
                        todo = "give it one, or write one value for all scales"
                        yield UserError(
                            f"{'.'.join((*keys, key))} has no value at scale {scale}",
                            place((*keys, key), self.path, self.lines), todo,
                        )  # fmt: skip

    def analyses(self) -> Iterator[UserError]:
        """Names in analyses, and analyses that are not possible."""
        for name, analysis in self.recipe.analyses.items():
            yield from self._compared("analyses", name, analysis)
            try:
                _check_measurable(self.recipe, analysis)
            except UserError as error:
                yield self.fault(("analyses", name), "; ".join(filter(None, (error.what, error.todo))))

    def likelihoods(self) -> Iterator[UserError]:
        """Names in likelihoods, and likelihoods that are not possible."""
        for name, each in self.recipe.likelihoods.items():
            yield from self._compared("likelihoods", name, each)
            for key, fault, todo in unscorable(self.recipe, each):
                yield self.fault(("likelihoods", name, key), fault, todo)

    def _compared(self, section: str, name: str, each: Analysis | Likelihood) -> Iterator[UserError]:
        yield from self.unknown("tests", [each.test], section, name, "test")
        yield from self.unknown("trainings", each.trainings, section, name, "trainings")
        yield from self.unknown("systems", each.systems or [], section, name, "systems")

    def claims(self) -> Iterator[UserError]:
        """Yield a fault for each claim whose name an earlier one has."""
        asked: dict[int | str, int] = {}
        for number, claim in enumerate(self.recipe.claims):
            if (first := asked.setdefault(claim.claim, number)) != number:
                what = f"claims.{first} is called {claim.claim!r} as well"
                yield self.fault(("claims", str(number), "claim"), what, "give one of them another name, such as '1b'")

    def layout(self) -> Iterator[UserError]:
        """Names in tables, figures and claims."""
        for number, figure in enumerate(self.recipe.figures):
            if figure.sweep is not None:
                yield from self.unknown("sweep", [figure.sweep], "figures", str(number), "sweep")
        for key in ("tables", "figures", "claims"):
            for number, item in enumerate(getattr(self.recipe, key)):
                yield from self.unknown("analyses", item.analyses(), key, str(number))
                for variant in item.variants():
                    system_name, training = self.recipe.variant(variant)
                    yield from self.unknown("systems", [system_name], key, str(number))
                    yield from self.unknown("trainings", [training], key, str(number))

    def configs(self) -> Iterator[UserError]:
        """Faults of the trainings' configurations: unknown keys, schemes and options of schemes.

        A fault in the `config` of a scale or a training is reported once, not for every system.
        """
        from posnmt.study.trainings import schemes_of, text_config, train_config

        recipe = self.recipe
        for scale, setting in recipe.scales.items():
            keys = ("scales", scale, "config")
            if problems := self._refused(keys, partial(text_config, recipe, scale, Training())):
                yield from problems
                continue
            of_trainings = {
                name: self._refused(("trainings", name, "config"), partial(text_config, recipe, scale, definition))
                for name, definition in recipe.trainings.items()
            }
            yield from (fault for faults in of_trainings.values() for fault in faults)
            for system, training in recipe.variants(scale):
                if not of_trainings[training]:
                    tree = partial(train_config, recipe, scale, system, training, 1)
                    yield from self._refused(("systems", system), tree)
            # Of every system, run or not: options and systems of the recipe that this one is like cannot be left out.
            known = {scheme for system in recipe.systems for scheme in schemes_of(recipe, scale, system)}
            for scheme in set(setting.options) - known:
                todo = f"leave it out; they have {', '.join(sorted(known)) or 'none'}"
                yield self.fault(("scales", scale, "options", scheme), "no system has this scheme", todo)

    @cached_property
    def _origins(self) -> dict[tuple[str, ...], tuple[str, ...]]:
        return origins(self.recipe)

    def _refused(self, keys: tuple[str, ...], tree: Callable[[], dict[str, Any]]) -> list[UserError]:
        """The faults of the configuration that `tree` makes from the section with these keys."""
        from posnmt.study.trainings import resolved

        of_sweep = self._origins.get(keys[:2])
        try:
            with plugins.allowing():  # the steps inherit what is allowed here
                config = resolved(tree())
            if config.train.init is not None:
                what = "train.init: the trainings of a study start anew, so that its folder needs no other run"
                raise UserError(what, None, "leave it out, and continue from a run of the study with `posnmt train`")
        except UserError as error:
            single = error.faults if isinstance(error, UserErrors) else [error]
            # A value of a sweep that is wrong in the encoder is wrong in the decoder as well.
            return [self.fault(of_sweep or keys, each.what, each.todo) for each in (single[:1] if of_sweep else single)]
        return []

    def shifts(self) -> Iterator[UserError]:
        """Likelihoods with shifted positions of systems that have none."""
        yield from (self.fault(*each) for each in unshiftable(self.recipe))


def _check_measurable(recipe: Recipe, analysis: Analysis) -> None:
    """Raise a `UserError` if an analysis is not possible with its settings."""
    for scale in recipe.scales:
        if analysis.text_at(scale) == "words":
            try:
                requires(word_tokeniser(recipe.pair_at(scale).target))
            except UserError as error:
                raise UserError(error.what, None, f"{error.todo}, or measure the raw text") from None
    with plugins.allowing():  # the steps inherit what is allowed here
        scored = neural(analysis.metrics)
    test = recipe.tests.get(analysis.test)
    if scored and (
        (test is not None and test.swap) or any(analysis.text_at(scale) != "raw" for scale in recipe.scales)
    ):
        what = "scores raw text, by the source of each output: neither text in words or subwords, nor swapped sources"
        raise UserError(f"{', '.join(scored)} {what}")
    if analysis.bins == "parts":
        parts = [recipe.trainings[name].part for name in analysis.trainings if name in recipe.trainings]
        if len({part.of if part else 0 for part in parts}) > 1 or None in parts:
            raise UserError("bins: parts needs trainings on parts of the text by length, all of one number of parts")
    for scale in recipe.scales:
        bins = None if lacks(analysis.bins, scale) else at(analysis.bins, scale)
        if isinstance(bins, list):
            bins_from_edges(bins)
        if not lacks(analysis.bleu_tokenizer, scale):
            check_bleu_tokenizer(at(analysis.bleu_tokenizer, scale))


def _unmeasured(recipe: Recipe) -> Iterator[tuple[tuple[str, ...], str]]:
    """The key and the fault of each figure that an analysis does not measure."""
    figures: list[tuple[tuple[str, ...], str, str, list[float]]] = [] if recipe.recommend is None else [
        (("recommend", "measure"), recipe.recommend.measure, name, []) for name in recipe.recommend.analyses
    ]  # fmt: skip
    figures += [
        (("claims", str(number), *keys), each.measure, each.analysis, [side.share for side in each.sides])
        for number, claim in enumerate(recipe.claims)
        for keys, each in claim.comparisons()
        if each.measure != LOSS
    ]
    for keys, measure, name, shares in figures:
        if (analysis := recipe.analyses.get(name)) is None or (test := recipe.tests.get(analysis.test)) is None:
            continue  # reported as an unknown name
        if measure not in (*LENGTHS, *CLAIMED, *SPEEDS, *analysis.measures):
            measures = ", ".join(analysis.measures)
            yield keys, f"the analysis {name} does not measure {measure}: its metrics are {measures}"
        for share in shares:
            if share and share not in (test.swap or ()):
                yield keys, f"the test {analysis.test} has no copy with a share of {share:g} of the words swapped"
