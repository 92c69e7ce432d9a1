"""A recipe: what a study compares, on what, and what its report shows; one YAML file that people copy and change.

Names are used throughout: corpora, systems, trainings (how the training text is made), tests (how a test text is made)
and analyses (which outputs are measured together, and how). `load` checks that every name that is used is there, and
that every training has a valid configuration.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, model_validator

from posnmt.config.yaml import Lines, Section, faults, merge, override, place, read_yaml
from posnmt.corpora.catalogue import entry
from posnmt.corpora.spec import Listed, spec
from posnmt.data.segment import requires, word_tokeniser
from posnmt.errors import UserError, UserErrors, nearest, raise_all
from posnmt.study.claims import Claim
from posnmt.study.layout import Figure, Table
from posnmt.study.resources import ByKind

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")
Value = TypeVar("Value")
Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]
NAME = r"^[\w.+-]+$"
Name = Annotated[str, Field(pattern=NAME)]
# What the built-in language pair gives: see posnmt.corpora.artificial.pairs.command.
ARTIFICIAL = ("train", "dev", "test", "test-long")


class Pair(Section):
    """The languages, as codes; `{source}` and `{target}` in paths stand for them."""

    source: str
    target: str


class Text(Section):
    """One corpus, or a part of one: files under --data, or a public corpus that `posnmt data` knows.

    Several of them one after the other are a corpus too.
    """

    source: str | None = Field(None, description="source text under --data: plain, .gz or .xz")
    target: str | None = Field(None, description="its translation, line by line")
    documents: str | None = Field(None, description="document ids: of each line the first field")
    public: dict[str, Any] | None = Field(None, description="instead: a corpus to be fetched, as in docs/data.md")
    take: Positive | None = Field(None, description="only so many pairs, evenly spread over the text")

    @model_validator(mode="after")
    def _one_form(self) -> Text:
        if (self.public is None) == (self.source is None or self.target is None):
            raise ValueError("a corpus has source and target (files under --data), or public (one to be fetched)")
        if self.public is not None:
            try:
                chosen = spec(self.public)
                if isinstance(chosen, Listed):
                    entry(chosen.name)
            except UserError as error:
                raise ValueError(error.line()) from None
        return self


class Setting(Section):
    """What one scale trains on, how large, and how often.

    `config` has the sections of a config as `posnmt train` reads it, without corpora and systems.
    """

    seeds: Positive = 3
    artificial: dict[str, Any] | None = Field(
        None,
        description=f"the built-in language pair (options of `posnmt condition artificial`): {', '.join(ARTIFICIAL)}",
    )
    corpora: dict[Name, Text | list[Text]] = Field({}, description="name -> corpus; train and dev must be there")
    config: dict[str, Any] = Field({})
    resources: ByKind = Field(ByKind(), description="what steps ask of a cluster, and of this machine")
    options: dict[str, dict[str, Any]] = Field(
        {}, description="scheme -> option -> value, in every system that has the scheme; a system's own options win"
    )

    @model_validator(mode="after")
    def _corpora_to_train_on(self) -> Setting:
        missing = {"train", "dev"} - self.names()
        if missing:
            raise ValueError(f"there is no corpus {' and no corpus '.join(sorted(missing))}")
        return self

    def names(self) -> set[str]:
        """The names of all corpora."""
        return {*self.corpora, *(ARTIFICIAL if self.artificial is not None else ())}


class System(Section):
    """One of the systems that are compared."""

    system: str = Field(description="a named system: see `posnmt systems`")
    label: str | None = Field(None, description="what tables and figures call it")
    without: Literal["encoder", "decoder", "both"] | None = Field(None, description="see model.without")
    model: dict[str, Any] = Field(
        {},
        description="over the model section of the scale's config; a size of its own also replaces what the scale says "
        "of the settings that the size has, such as dropout",
    )
    train: dict[str, Any] = Field({}, description="over the train section")
    options: dict[str, dict[str, Any]] = Field(
        {},
        description="scheme -> option -> value, or values by scale: {smoke: 16, paper: 256}; at other scales the "
        "scheme's default stays",
    )
    scales: list[Scale] = Field(list(SCALES), description="where it is run")


class Part(Section):
    """A length-controlled part of the training text (N19 section 5.3), counted from the shortest, from 1."""

    of: Annotated[int, Field(ge=2)] = 3
    take: Positive

    @model_validator(mode="after")
    def _is_there(self) -> Part:
        if self.take > self.of:
            raise ValueError(f"there are {self.of} parts; {self.take} is not one of them")
        return self


class Training(Section):
    """How the training text is made, and what else is special of training on it."""

    label: str | None = None
    part: Part | None = Field(None, description="only this part of it by source length, in subwords")
    max_length: Positive | dict[Scale, Positive] | None = Field(None, description="longest pair, in subwords")
    reorder: bool = Field(False, description="source words in the order of the target: training, dev and test")
    config: dict[str, Any] = Field({}, description="over the scale's config")


class Test(Section):
    """A test text, made of a corpus."""

    __test__ = False  # for pytest, which takes it for a test

    corpus: str | dict[Scale, str]
    join: Annotated[int, Field(ge=2)] | None = Field(None, description="consecutive sentences made one")
    rest: Literal["keep", "drop"] = Field("keep", description="join: what is left at a document's end")
    swap: list[Share] = Field([], description="translated once more for each share of swapped source words")


class Runs(Section):
    """Which systems are trained on what, and translate what: every combination of the names."""

    systems: list[str]
    trainings: list[str]
    tests: list[str]
    scales: list[Scale] = Field(list(SCALES))


class Analysis(Section):
    """Outputs of one test that are measured together."""

    title: str | None = None
    test: str
    trainings: list[str]
    systems: list[str] | None = Field(None, description="default: all that translate the test after these trainings")
    text: Literal["raw", "words", "subwords"] = Field(
        "raw",
        description="what outputs and reference are cut into before they are measured: words (by Moses' rules, or a "
        "segmenter of Japanese or Chinese; for tokenised BLEU), or the subwords of training; raw: nothing",
    )
    bins: list[Positive] | dict[Scale, list[Positive]] | Literal["parts"] | None = Field(
        None,
        description="first lengths of all bins but the first, in subwords of the source; parts: a bin for each part of "
        "the training text by length, as it was cut, and one above; default: bins of 10",
    )
    metrics: list[Literal["bleu", "chrf", "ter", "multi-bleu"]] = Field(["bleu", "chrf", "ter"])
    bleu_tokenizer: str | dict[Scale, str] = "13a"


class Recommend(Section):
    """What a recommendation rests on: how well systems translate these tests, and how fast."""

    analyses: list[str] = Field(min_length=1)
    measure: Literal["bleu", "chrf", "ter"] = "chrf"


class Recipe(Section):
    """A whole study."""

    recipe: Name
    title: str
    paper: str | None = Field(None, description="what it reproduces, as a citation")
    notes: list[str] = Field([], description="sentences that the report says of the study: readings, substitutions")
    pair: Pair
    scales: dict[Scale, Setting]
    systems: dict[Name, System]
    trainings: dict[Name, Training] = Field({"all": Training()})
    tests: dict[Name, Test]
    runs: list[Runs]
    analyses: dict[Name, Analysis]
    tables: list[Table] = Field([])
    figures: list[Figure] = Field([])
    claims: list[Claim] = Field([])
    recommend: Recommend | None = None

    @property
    def hash(self) -> str:
        """SHA-256 of all that it says."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    def variants(self, scale: Scale) -> dict[tuple[str, str], list[str]]:
        """(system, training) -> the tests that it translates, in the order of the recipe."""
        found: dict[tuple[str, str], list[str]] = {}
        for runs in self.runs:
            for system in runs.systems:
                for training in runs.trainings:
                    if scale in runs.scales and scale in self.systems[system].scales:
                        tests = found.setdefault((system, training), [])
                        tests += [test for test in runs.tests if test not in tests]
        return found

    def variant(self, text: str) -> tuple[str, str]:
        """`system/training`, or `system` with the first training, as a pair."""
        system, _, training = text.partition("/")
        return system, training or next(iter(self.trainings))

    def label(self, variant: tuple[str, str]) -> str:
        """What tables and figures call a system with a training; the first training goes without saying."""
        system, training = variant
        name = self.systems[system].label or system
        if training == next(iter(self.trainings)):
            return name
        return f"{name}, {self.trainings[training].label or training}"


def at(value: Value | Mapping[Scale, Value], scale: Scale) -> Value:
    """A setting at one scale; one without scales holds at all of them."""
    return value[scale] if isinstance(value, Mapping) else value


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name."""
    folder = Path(str(resources.files("posnmt.study") / "recipes"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def load(name: str, overrides: tuple[str, ...] = (), check_configs: bool = True) -> Recipe:
    """A recipe by its name, if it is one that comes with the package, or by its file, checked.

    Args:
        name: `neishi2019`, or the path of a YAML file.
        overrides: `key.key=value`, over the file.
        check_configs: whether the configuration of every training is checked too, for which PyTorch is imported.

    Raises:
        UserError: every fault at once, with its line.
    """
    known = shipped()
    path = known.get(name) or Path(name)
    if not path.exists():
        near = nearest(name, known)
        hint = f"did you mean {near!r}? " if near else ""
        raise UserError(
            f"no recipe is called {name!r}",
            None,
            f"{hint}those that come with posnmt: {', '.join(known)}; or name a file",
        )
    tree, lines = read_yaml(path, "recipe", "a recipe is a YAML mapping: recipe, title, pair, scales, systems ...")
    for setting in overrides:
        tree = override(tree, setting)
    try:
        recipe = Recipe.model_validate(tree)
    except ValidationError as error:
        raise_all(faults(error, Recipe, path, lines))
        raise AssertionError from error  # raise_all raised: a ValidationError holds at least one problem
    raise_all(list(_faults(recipe, path, lines)))
    if check_configs:
        raise_all(list(_config_faults(recipe, path, lines)))  # needs names that are known
    return recipe


def _measurable(recipe: Recipe, analysis: Analysis) -> str | None:
    """Why an analysis cannot be made as it is asked for; None if it can."""
    if analysis.text == "words":
        try:
            requires(word_tokeniser(recipe.pair.target))
        except UserError as error:
            return f"{error.what}; {error.todo}, or measure the raw text"
    if analysis.bins == "parts":
        parts = [recipe.trainings[name].part for name in analysis.trainings if name in recipe.trainings]
        if len({part.of if part else 0 for part in parts}) > 1 or None in parts:
            return "bins: parts needs trainings on parts of the text by length, all of one number of parts"
    return None


def _config_faults(recipe: Recipe, path: Path, lines: Lines) -> Iterator[UserError]:
    """Every fault of the configurations that the trainings will have: unknown keys, schemes and options of schemes.

    A fault of a scale's or a training's `config` is named once, not once for each system.
    """
    from posnmt.config.schema import from_tree
    from posnmt.study.plan import text_config, train_config

    corpora = {name: {"source": "-", "target": "-"} for name in ("train", "dev")}

    def refused(keys: tuple[str, ...], tree: Callable[[], dict[str, Any]]) -> list[UserError]:
        try:
            from_tree(merge({"data": corpora}, tree()))
        except UserError as error:
            single = error.faults if isinstance(error, UserErrors) else [error]
            return [UserError(f"{'.'.join(keys)}: {each.what}", place(keys, path, lines), each.todo) for each in single]
        return []

    for scale, setting in recipe.scales.items():
        if found := refused(("scales", scale, "config"), partial(text_config, recipe, scale, Training())):
            yield from found
            continue
        of_trainings = {
            name: refused(("trainings", name, "config"), partial(text_config, recipe, scale, how))
            for name, how in recipe.trainings.items()
        }
        yield from (fault for faults in of_trainings.values() for fault in faults)
        for system, training in recipe.variants(scale):
            if not of_trainings[training]:
                yield from refused(("systems", system), partial(train_config, recipe, scale, system, training, 1))
        used = {scheme for system, _ in recipe.variants(scale) for scheme in _schemes(recipe, scale, system)}
        for scheme in set(setting.options) - used:
            keys = ("scales", scale, "options", scheme)
            todo = f"leave it out; they have {', '.join(sorted(used)) or 'none'}"
            yield UserError(f"{'.'.join(keys)}: no system that is run has this scheme", place(keys, path, lines), todo)


def _schemes(recipe: Recipe, scale: Scale, system: str) -> set[str]:
    """The position schemes of a system."""
    from posnmt.config.schema import with_names

    chosen = recipe.systems[system]
    model = with_names(merge(recipe.scales[scale].config.get("model", {}), {"system": chosen.system, **chosen.model}))
    return {each["scheme"] for side in ("encoder", "decoder") for each in model.get(side, {}).get("position", [])}


def _faults(recipe: Recipe, path: Path, lines: Lines) -> Iterator[UserError]:
    """Every name that is used and is not there, and every system that there is not."""
    from posnmt.config.systems import named

    known: dict[str, Mapping[str, Any]] = {
        "systems": recipe.systems, "trainings": recipe.trainings, "tests": recipe.tests, "analyses": recipe.analyses,
    }  # fmt: skip

    def unknown(kind: str, names: list[str], *keys: str) -> Iterator[UserError]:
        for name in names:
            if name not in known[kind]:
                near = nearest(name, known[kind])
                todo = f"did you mean {near!r}?" if near else f"there are {', '.join(known[kind])}"
                yield UserError(f"{'.'.join(keys)}: {kind} has no {name!r}", place(keys, path, lines), todo)

    labels: dict[str, str] = {}
    for name, system in recipe.systems.items():
        label = recipe.systems[name].label or name
        if (other := labels.setdefault(label, name)) != name:
            what = f"systems.{name}: {other} is called {label!r} as well, and tables could not tell them apart"
            yield UserError(what, place(("systems", name), path, lines), "give one of them another label")
        try:
            named(system.system)
        except UserError as error:
            yield UserError(f"systems.{name}: {error.what}", place(("systems", name), path, lines), error.todo)
    for test_name, test in recipe.tests.items():
        for scale, setting in recipe.scales.items():
            corpora = setting.names()
            if isinstance(test.corpus, str) or scale in test.corpus:
                corpus = at(test.corpus, scale)
                if corpus not in corpora:
                    what = f"tests.{test_name}: there is no corpus {corpus!r} at scale {scale}"
                    yield UserError(
                        what, place(("tests", test_name), path, lines), f"there are {', '.join(sorted(corpora))}"
                    )
    for number, runs in enumerate(recipe.runs):
        for kind in ("systems", "trainings", "tests"):
            yield from unknown(kind, getattr(runs, kind), "runs", str(number), kind)
    for name, analysis in recipe.analyses.items():
        yield from unknown("tests", [analysis.test], "analyses", name, "test")
        yield from unknown("trainings", analysis.trainings, "analyses", name, "trainings")
        yield from unknown("systems", analysis.systems or [], "analyses", name, "systems")
        if fault := _measurable(recipe, analysis):
            yield UserError(f"analyses.{name}: {fault}", place(("analyses", name), path, lines))
    if recipe.recommend is not None:
        yield from unknown("analyses", recipe.recommend.analyses, "recommend", "analyses")
    for key in ("tables", "figures", "claims"):
        for number, item in enumerate(getattr(recipe, key)):
            yield from unknown("analyses", item.analyses(), key, str(number))
            for variant in item.variants():
                system_name, training = recipe.variant(variant)
                yield from unknown("systems", [system_name], key, str(number))
                yield from unknown("trainings", [training], key, str(number))
