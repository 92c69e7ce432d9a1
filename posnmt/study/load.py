"""Load and check a recipe from a file or by the name of a built-in one; all faults are reported at once, with lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from posnmt.base import plugins
from posnmt.base.errors import UserError, UserErrors, combined, nearest, quoted, raise_all
from posnmt.config.segmenters import requires, word_tokeniser
from posnmt.config.yaml import Lines, faults, merge, override, place, read_yaml
from posnmt.evaluation.analyse.bins import bins_from_edges
from posnmt.evaluation.analyse.measures import LENGTHS
from posnmt.metrics.bleu import check_bleu_tokenizer
from posnmt.metrics.registry import metric
from posnmt.study.measures import CLAIMED, LOSS, SPEEDS
from posnmt.study.points import MARK, expanded, origins
from posnmt.study.recipe import WHOLE, Analysis, Likelihood, Recipe, Runs, Scale, System, Training, at, lacks
from posnmt.study.scorable import unpredicted, unscorable, unshiftable
from posnmt.study.sweep import grid_of

LIKE = "like"
"""The key of a recipe whose settings a recipe begins with."""

GIVEN = "given"
"""The name of the sweep that a command line gives."""


def shipped() -> dict[str, Path]:
    """Name -> path of the recipes that come with the package."""
    folder = Path(str(resources.files("posnmt.study") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load(
    name: str, overrides: tuple[str, ...] = (), check_configs: bool = True, sweeps: tuple[str, ...] = ()
) -> Recipe:
    """Load and check a recipe.

    Args:
        name: of a recipe that comes with posnmt, such as `neishi2019`, or with an installed package; or the path of a
            YAML file.
        overrides: `key.key=value`, which replace settings of the file.
        check_configs: whether to check the configuration of every training, too, which imports PyTorch.
        sweeps: `section.setting=value,value`, the grid of a further sweep.

    Raises:
        UserError: the recipe has faults: all at once, with their lines.
    """
    path = recipe_file(name)
    tree, lines = _read(path)
    for setting in overrides:
        tree = override(tree, setting)
    if sweeps:
        tree = merge(tree, {"sweep": {GIVEN: {"grid": grid_of(sweeps)}}})
    recipe = _validated(tree, path, lines)
    raise_all(list(_reserved(recipe, path, lines)))
    recipe = expanded(recipe)
    raise_all(list(name_faults(recipe, path, lines)))
    if check_configs:
        raise_all(list(_config_faults(recipe, path, lines)))  # needs names that are known
        raise_all(list(unshiftable(recipe, path, lines)))  # needs configurations that are sound
    return recipe


def _read(path: Path, above: tuple[Path, ...] = ()) -> tuple[dict[str, Any], Lines]:
    """The settings in a file over those of the recipe that it names with `like`, and the lines of the file's own keys.

    Args:
        path: the recipe's file.
        above: recipes that are like it.

    Raises:
        UserError: a file is missing, is no YAML mapping, or is like itself; or the recipe that it is like has faults.
    """
    tree, lines = read_yaml(path, "recipe", "a recipe is a YAML mapping: recipe, title, pair, scales, systems ...")
    if LIKE not in tree:
        return tree, lines
    name, where = tree.pop(LIKE), place((LIKE,), path, lines)
    if not isinstance(name, str):
        raise UserError(f"{LIKE}: input should be a recipe's name, or a file, got {quoted(name)}", where)
    beside = path.parent / name
    base = beside if beside.is_file() else recipe_file(name, where)
    chain = (*above, path.resolve())
    if base.resolve() in chain:
        raise UserError(f"{LIKE}: {name} is like this recipe, so that neither has settings to begin with", where)
    below, its_lines = _read(base, chain)
    _validated(below, base, its_lines)
    merged = merge(below, tree)
    scales = tree.get("scales")
    for scale, setting in scales.items() if isinstance(scales, dict) else ():
        if isinstance(setting, dict) and isinstance(setting.get("corpora"), dict):
            # A corpus is one value: the lines that the other recipe takes of its own text are none of this one's.
            merged["scales"][scale]["corpora"].update(setting["corpora"])
    return merged, lines


def _validated(tree: dict[str, Any], path: Path, lines: Lines) -> Recipe:
    """The recipe of these settings.

    Raises:
        UserError: they have faults.
    """
    try:
        return Recipe.model_validate(tree)
    except ValidationError as error:
        raise combined(faults(error, Recipe, path, lines)) from None


def recipe_file(name: str, where: str | None = None) -> Path:
    """The file of a recipe: one that comes with posnmt or with an installed package, or any other.

    Args:
        name: of a recipe, or a file.
        where: the name is written; None: on the command line.

    Raises:
        UserError: there is none.
    """
    known = shipped()
    if (path := known.get(name) or Path(name)).exists():
        return path
    offered = plugins.names("recipe")
    if name in offered:
        return plugins.load("recipe", name, _as_recipe)
    near = nearest(name, [*known, *offered])
    hint = f"did you mean {near!r}? " if near else ""
    raise UserError(
        f"no recipe is called {name!r}",
        where,
        f"{hint}those that are installed: {', '.join([*known, *offered])}; or name a file",
    )


def _as_recipe(offered: Any) -> Path:
    """The file that a package offers as a recipe.

    Raises:
        TypeError: it is none.
    """
    path = Path(str(offered))
    if not path.is_file():
        raise TypeError(f"{path} is no file")
    return path


def _reserved(recipe: Recipe, path: Path, lines: Lines) -> Iterator[UserError]:
    """The faults of names that a study or a sweep could make as well, and of two settings of one name in the sweeps."""
    for kind, names in (("systems", recipe.systems), ("trainings", recipe.trainings)):
        for name in names:
            if MARK in name:
                what = f"{kind}.{name}: {MARK} marks the points of a sweep"
                yield UserError(what, place((kind, name), path, lines), "choose another name")
    for name in recipe.trainings:
        if re.fullmatch(rf"{WHOLE}(-\d+)?", name):  # `Plan.add` numbers steps
            what = f"trainings.{name}: the step that prepares the whole text is called so"
            yield UserError(what, place(("trainings", name), path, lines), "choose another name")
    settings: dict[str, str] = {}
    for sweep_name, sweep in recipe.sweep.items():
        for name, dimension in sweep.grid.items():
            if (other := settings.setdefault(name, dimension.of)) != dimension.of:
                keys = ("sweep", sweep_name, "grid", name)
                what = f"{'.'.join(keys)}: {name} is {other} in another sweep, and {dimension.of} in this one"
                yield UserError(what, place(keys, path, lines), "choose another name")


def _measurable(recipe: Recipe, analysis: Analysis) -> str | None:
    """Why an analysis is not possible with its settings; None if it is."""
    if analysis.text == "words":
        try:
            for scale in recipe.scales:
                requires(word_tokeniser(recipe.pair_at(scale).target))
        except UserError as error:
            return f"{error.what}; {error.todo}, or measure the raw text"
    try:
        with plugins.allowing():  # the steps inherit what is allowed here
            for name in analysis.metrics:
                metric(name)
    except UserError as error:
        return f"{error.what}; {error.todo}" if error.todo else error.what
    if analysis.bins == "parts":
        parts = [recipe.trainings[name].part for name in analysis.trainings if name in recipe.trainings]
        if len({part.of if part else 0 for part in parts}) > 1 or None in parts:
            return "bins: parts needs trainings on parts of the text by length, all of one number of parts"
    try:
        for scale in recipe.scales:
            bins = None if lacks(analysis.bins, scale) else at(analysis.bins, scale)
            if isinstance(bins, list):
                bins_from_edges(bins)
            if not lacks(analysis.bleu_tokenizer, scale):
                check_bleu_tokenizer(at(analysis.bleu_tokenizer, scale))
    except UserError as error:
        return f"{error.what}; {error.todo}" if error.todo else error.what
    return None


def _unmeasured(recipe: Recipe) -> Iterator[tuple[tuple[str, ...], str]]:
    """The key and the fault of each figure that its analysis does not measure."""
    wanted: list[tuple[tuple[str, ...], str, str, list[float]]] = [] if recipe.recommend is None else [
        (("recommend", "measure"), recipe.recommend.measure, name, []) for name in recipe.recommend.analyses
    ]  # fmt: skip
    wanted += [
        (("claims", str(number), *keys), each.measure, each.analysis, [side.share for side in each.sides])
        for number, claim in enumerate(recipe.claims)
        for keys, each in claim.comparisons()
        if each.measure != LOSS
    ]
    for keys, measure, name, shares in wanted:
        if (analysis := recipe.analyses.get(name)) is None or (test := recipe.tests.get(analysis.test)) is None:
            continue  # reported as an unknown name
        if measure not in (*LENGTHS, *CLAIMED, *SPEEDS, *analysis.metrics):
            yield keys, f"the analysis {name} does not measure {measure}: its metrics are {', '.join(analysis.metrics)}"
        for share in shares:
            if share and share not in (test.swap or ()):
                yield keys, f"the test {analysis.test} has no copy with a share of {share:g} of the words swapped"


def _config_faults(recipe: Recipe, path: Path, lines: Lines) -> Iterator[UserError]:
    """The faults of the trainings' configurations: unknown keys, schemes and options of schemes.

    A fault in the `config` of a scale or a training is reported once, not for every system.
    """
    from posnmt.run.resolve import from_tree  # imports PyTorch
    from posnmt.study.trainings import text_config, train_config, with_distance

    corpora = {name: {"source": "-", "target": "-"} for name in ("train", "dev")}
    sources = origins(recipe)

    def refused(keys: tuple[str, ...], tree: Callable[[], dict[str, Any]]) -> list[UserError]:
        of_sweep = sources.get(keys[:2])
        keys = of_sweep or keys
        try:
            with plugins.allowing():  # the steps inherit what is allowed here
                config = from_tree(merge({"data": corpora}, with_distance(tree())))
            if config.train.init is not None:
                what = "train.init: the trainings of a study start anew, so that its folder needs no other run"
                raise UserError(what, None, "leave it out, and continue from a run of the study with `posnmt train`")
        except UserError as error:
            single = error.faults if isinstance(error, UserErrors) else [error]
            if of_sweep:  # a value that is wrong in the encoder is wrong in the decoder as well
                single = single[:1]
            return [UserError(f"{'.'.join(keys)}: {each.what}", place(keys, path, lines), each.todo) for each in single]
        return []

    for scale, setting in recipe.scales.items():
        if problems := refused(("scales", scale, "config"), partial(text_config, recipe, scale, Training())):
            yield from problems
            continue
        of_trainings = {
            name: refused(("trainings", name, "config"), partial(text_config, recipe, scale, definition))
            for name, definition in recipe.trainings.items()
        }
        yield from (fault for faults in of_trainings.values() for fault in faults)
        for system, training in recipe.variants(scale):
            if not of_trainings[training]:
                yield from refused(("systems", system), partial(train_config, recipe, scale, system, training, 1))
        # Of every system, run or not: options and systems of the recipe that this one is like cannot be left out.
        known = {scheme for system in recipe.systems for scheme in _schemes(recipe, scale, system)}
        for scheme in set(setting.options) - known:
            keys = ("scales", scale, "options", scheme)
            todo = f"leave it out; they have {', '.join(sorted(known)) or 'none'}"
            yield UserError(f"{'.'.join(keys)}: no system has this scheme", place(keys, path, lines), todo)


def _schemes(recipe: Recipe, scale: Scale, system: str) -> set[str]:
    """The position schemes of a system."""
    from posnmt.study.trainings import model_section  # imports PyTorch

    model = model_section(recipe, scale, system)
    return {each["scheme"] for side in ("encoder", "decoder") for each in model.get(side, {}).get("position", [])}


def _missing_scales(recipe: Recipe, path: Path, lines: Lines) -> Iterator[UserError]:
    """A fault for every setting that has no value at a scale at which it is used."""
    for scale in recipe.scales:
        runs = [each for each in recipe.runs if scale in each.scales]
        used = {
            **{("trainings", name): recipe.trainings.get(name) for each in runs for name in each.trainings},
            **{
                ("analyses", name): each
                for name, each in recipe.analyses.items()
                if _possible(recipe, each, runs, scale)
            },
        }
        missing = [
            (*keys, key)
            for keys, section in used.items()
            for key in ("max_length", "bins", "bleu_tokenizer")
            if lacks(getattr(section, key, None), scale)
        ]
        for keys in missing:
            what = f"{'.'.join(keys)} has no value at scale {scale}"
            yield UserError(what, place(keys, path, lines), "give it one, or write one value for all scales")


def _possible(recipe: Recipe, analysis: Analysis, runs: list[Runs], scale: Scale) -> bool:
    """Whether a test is translated at a scale, whose `runs` are given, so that it can be analysed."""
    test = recipe.tests.get(analysis.test)
    return test is not None and not lacks(test.corpus, scale) and any(analysis.test in each.tests for each in runs)


def name_faults(recipe: Recipe, path: Path, lines: Lines) -> Iterator[UserError]:
    """The faults of names: names that the recipe uses but does not define, and unknown systems."""
    places = _Places(recipe, path, lines)
    yield from places.labels()
    yield from places.systems()
    yield from places.tests()
    yield from places.sweeps()
    yield from _missing_scales(recipe, path, lines)
    for number, runs in enumerate(recipe.runs):
        for kind in ("systems", "trainings", "tests"):
            yield from places.unknown(kind, getattr(runs, kind), "runs", str(number), kind)
    yield from places.analyses()
    yield from places.likelihoods()
    yield from places.claims()
    if recipe.recommend is not None:
        yield from places.unknown("analyses", recipe.recommend.analyses, "recommend", "analyses")
    yield from unpredicted(recipe, path, lines)
    yield from (places.fault(keys, fault) for keys, fault in _unmeasured(recipe))
    yield from places.layout()


@dataclass(frozen=True)
class _Places:
    """The faults of names in each section of a recipe, with their lines."""

    recipe: Recipe
    path: Path
    lines: Lines

    def fault(self, keys: tuple[str, ...], what: str, todo: str | None = None) -> UserError:
        """A fault of a key."""
        return UserError(f"{'.'.join(keys)}: {what}", place(keys, self.path, self.lines), todo)

    def unknown(self, kind: str, names: Iterable[str], *keys: str) -> Iterator[UserError]:
        """Names under some keys of which the recipe has no definition."""
        known: Mapping[str, Any] = getattr(self.recipe, kind)
        for name in names:
            if name not in known:
                near = nearest(name, known)
                todo = f"did you mean {near!r}?" if near else f"there are {', '.join(known) or 'none'}"
                yield self.fault(keys, f"{kind} has no {name!r}", todo)

    def labels(self) -> Iterator[UserError]:
        """Labels that two systems or trainings have."""
        for kind in ("systems", "trainings"):
            of_kind: Mapping[str, System | Training] = getattr(self.recipe, kind)
            labels: dict[str, str] = {}
            for name, each in of_kind.items():
                label = each.label or name
                if (other := labels.setdefault(label, name)) != name:
                    what = f"{other} is called {label!r} as well, so tables could not distinguish them"
                    yield self.fault((kind, name), what, "give one of them another label")

    def systems(self) -> Iterator[UserError]:
        """Named systems that there are not."""
        from posnmt.config.systems import named

        for name, system in self.recipe.systems.items():
            try:
                named(system.system)
            except UserError as error:
                yield self.fault(("systems", name), error.placed, error.todo)

    def tests(self) -> Iterator[UserError]:
        """Corpora of tests that a scale has not, or that have joined lines although the test does not say so."""
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
        """Sweeps without systems, and what their systems have not."""
        for name, sweep in self.recipe.sweep.items():
            if not sweep.systems:
                what = "no system of `runs` has all position schemes of the grid"
                yield self.fault(("sweep", name), what, "name its `systems`, or other settings")
            if (fault := sweep.fault()) is not None:  # with the systems that were filled in
                yield self.fault(("sweep", name), fault, "or name fewer `systems` or values")
            for kind in ("systems", "trainings", "analyses"):
                yield from self.unknown(kind, getattr(sweep, kind), "sweep", name, kind)

    def analyses(self) -> Iterator[UserError]:
        """Names in analyses, and analyses that are not possible."""
        for name, analysis in self.recipe.analyses.items():
            yield from self._compared("analyses", name, analysis)
            if fault := _measurable(self.recipe, analysis):
                yield self.fault(("analyses", name), fault)

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
        """Claims of one name."""
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
