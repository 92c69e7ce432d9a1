"""The schema of a recipe: the YAML file that defines what a study compares, and what its report shows.

These have names: corpora, systems, trainings (how the training text is made), tests (how a test text is made), analyses
(which outputs are measured together, and how) and likelihoods (which models score the references of which test).
`posnmt.study.faults` checks that every name is defined, and that the configuration of every training is valid.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from posnmt.base.errors import UserError
from posnmt.config.yaml import Section
from posnmt.corpora.catalogue import entry
from posnmt.corpora.spec import Listed, spec
from posnmt.evaluation.analyse.measures import COMPLETENESS
from posnmt.metrics.registry import DEFAULT_METRICS
from posnmt.study.claims import Claim, Comparison, Lengths, Scale
from posnmt.study.layout import Figure, Table, Words, words_at
from posnmt.study.measures import LOSS, MetricName, measure
from posnmt.study.resources import ByKind, Positive
from posnmt.study.sweep import Seeds, Sweep

SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")
Value = TypeVar("Value")
Share = Annotated[float, Field(gt=0, le=1)]
Rest = Literal["keep", "drop"]
Measured = Literal["raw", "words", "subwords"]
NAME = r"^[\w.+-]+$"
Name = Annotated[str, Field(pattern=NAME)]
# With the values of a sweep: posnmt.study.points.
PointName = Annotated[str, Field(pattern=r"^[\w.+-]+(@[\w.,=-]+)?$")]
# The texts of the built-in language pair: see posnmt.corpora.artificial.pairs.command.
ARTIFICIAL = ("train", "dev", "test", "test-long")


class Artificial(Section):
    """The built-in language pair, by the options of `posnmt condition artificial`."""

    train: Positive | None = Field(None, description="number of training pairs")
    dev: Positive | None = Field(None, description="number of dev pairs")
    test: Positive | None = Field(None, description="number of pairs in test, and again in test-long")
    min_length: Positive | None = Field(None, description="shortest source sentence, in words")
    max_length: Positive | None = Field(None, description="longest source sentence of training and dev, in words")
    test_max_length: Positive | None = Field(None, description="longest source sentence of the tests, in words")
    seed: int | None = Field(None, description="seed of the random numbers")
    reordering: str | float | None = Field(None, description="short, long, mixed, or a number from 0 to 1")
    lexicon: Positive | None = Field(None, description="number of stems in the dictionary")


class Pair(Section):
    """The language codes, which replace `{source}` and `{target}` in paths."""

    source: str = Field(description="code of the source language, such as en")
    target: str = Field(description="code of the target language, such as de")


class Text(Section):
    """One corpus, or a part of one: files under --data, or a public corpus of `posnmt data`. A list is concatenated."""

    source: str | None = Field(None, description="source text under --data: plain, .gz or .xz")
    target: str | None = Field(None, description="its translation, line by line")
    documents: str | None = Field(None, description="file of document ids: the first field of each line")
    public: dict[str, Any] | None = Field(None, description="instead: a corpus to be fetched, as in docs/corpora.md")
    lines: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = Field(
        None, description="only the pairs from one line to another, [first, last], counted from 1"
    )
    join: Annotated[int, Field(ge=2)] | None = Field(
        None,
        description="number of consecutive pairs of a document that are joined to one line; what is left at the end of "
        "a document is dropped",
    )
    take: Positive | None = Field(
        None, description="only this number of pairs, evenly spread over the text or over `lines`"
    )

    @model_validator(mode="after")
    def _one_form(self) -> Text:
        if (self.public is None) == (self.source is None or self.target is None):
            raise ValueError("a corpus has source and target (files under --data), or public (one to be fetched)")
        if self.lines is not None and self.lines[0] > self.lines[1]:
            raise ValueError(f"lines are [first, last]; {self.lines[1]} is less than {self.lines[0]}")
        if self.public is not None:
            try:
                chosen = spec(self.public)
                if isinstance(chosen, Listed):
                    entry(chosen.name)
            except UserError as error:
                raise ValueError(error.line()) from None
        return self


class Setting(Section):
    """The settings of a scale: corpora, number of seeds, configuration and resources.

    `config` contains sections of a configuration of `posnmt train`, without corpora and systems.
    """

    seeds: Seeds = Field(3, description="trainings of each system, unless `runs` gives another number")
    pair: Pair | None = Field(None, description="the languages at this scale; default: those of the recipe")
    floor: Annotated[float, Field(ge=0)] = Field(
        10.0,
        description="BLEU that a system must reach on sentences of trained lengths; claims on weaker systems stay "
        "undecided",
    )
    artificial: Artificial | None = Field(
        None,
        description="the built-in language pair (options of `posnmt condition artificial`), as the corpora "
        f"{', '.join(ARTIFICIAL)}",
    )
    corpora: dict[Name, Text | list[Text]] = Field({}, description="name -> corpus; train and dev must be there")
    config: dict[str, Any] = Field({}, description="sections of a configuration, without corpora and systems")
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
        """Return the names of all corpora, also of those that the artificial language pair adds."""
        return {*self.corpora, *(ARTIFICIAL if self.artificial is not None else ())}

    def texts(self, corpus: str) -> list[Text]:
        """The texts of a corpus; none of one of the built-in language pair."""
        texts = self.corpora.get(corpus, [])
        return texts if isinstance(texts, list) else [texts]


class System(Section):
    """One of the systems that are compared."""

    system: str = Field(description="a named system: see `posnmt systems`")
    label: str | None = Field(None, description="what tables and figures call it")
    without: Literal["encoder", "decoder", "both"] | None = Field(None, description="see model.without")
    model: dict[str, Any] = Field(
        {},
        description="replaces settings of `model` in the scale's config; values may differ by scale: {layers: {small: "
        "2}}; a size also replaces the scale's values of all settings that the size sets, such as dropout",
    )
    train: dict[str, Any] = Field({}, description="replaces settings of `train`")
    decode: dict[str, Any] = Field(
        {}, description="replaces settings of `decode`; systems that differ only in these share their trainings"
    )
    options: dict[str, dict[str, Any]] = Field(
        {},
        description="scheme -> option -> value, or values by scale: {smoke: 16, paper: 256}; at other scales the "
        "scheme's default stays",
    )
    scales: list[Scale] = Field(list(SCALES), description="scales at which the system runs")

    def model_at(self, scale: Scale) -> dict[str, Any]:
        """Its part of the model section at a scale."""
        return _at_scale(self.model, scale)


def _at_scale(tree: Mapping[str, Any], scale: Scale) -> dict[str, Any]:
    """A section with the values of one scale; settings that have values only for other scales are left out."""
    chosen: dict[str, Any] = {}
    for key, value in tree.items():
        if not isinstance(value, Mapping) or not value:
            chosen[key] = value
        elif value.keys() <= {*SCALES}:
            chosen |= {key: value[scale]} if scale in value else {}
        elif section := _at_scale(value, scale):
            chosen[key] = section
    return chosen


class Part(Section):
    """A length-controlled part of the training text (N19 section 5.3), counted from the shortest, from 1."""

    of: Annotated[int, Field(ge=2)] = Field(3, description="number of parts with equally many source tokens")
    take: Positive = Field(description="number of the part, counted from 1, the shortest")

    @model_validator(mode="after")
    def _is_there(self) -> Part:
        if self.take > self.of:
            raise ValueError(f"there are {self.of} parts; {self.take} is not one of them")
        return self


class Training(Section):
    """How a training text is made, and settings for training on it."""

    label: str | None = Field(None, description="what tables and figures call it")
    part: Part | None = Field(None, description="only this part of it by source length, in subwords")
    max_length: Positive | dict[Scale, Positive] | None = Field(None, description="longest pair, in subwords")
    reorder: bool = Field(False, description="source words in the order of the target: training, dev and test")
    config: dict[str, Any] = Field({}, description="replaces settings of the scale's config")


class Joining(TypedDict):
    """How lines are joined: what becomes of the rest, and whether a join stays within a document."""

    rest: Rest
    documents: NotRequired[bool]


class Test(Section):
    """How a test text is made from a corpus."""

    __test__ = False  # for pytest, which takes it for a test

    corpus: str | dict[Scale, str] = Field(description="a corpus of the scale")
    join: Annotated[int, Field(ge=2)] | None = Field(None, description="consecutive sentences made one")
    rest: Rest | dict[Scale, Rest] = Field(
        "keep",
        description="with `join`: whether the sentences left over at a document's end are kept as a shorter line, or "
        "dropped",
    )
    documents: bool | dict[Scale, bool] = Field(
        True, description="with `join`: whether only sentences of one document are joined, where documents are known"
    )
    swap: list[Share] = Field([], description="translated once more for each share of swapped source words")

    def joining(self, scale: Scale) -> Joining:
        """The settings of the join at a scale; those that are not given there have their defaults."""
        settings: Joining = {"rest": at_or_default(self, "rest", scale)}
        if self.join is not None and not at_or_default(self, "documents", scale):
            settings["documents"] = False  # without it where it is True, so that keys stay
        return settings


class Runs(Section):
    """The systems, trainings and tests to run: all combinations."""

    systems: list[str] = Field([], description="systems to run; default: all of the recipe")
    trainings: list[str] = Field(description="names of `trainings`")
    tests: list[str] = Field(description="names of `tests`, which all of these systems translate")
    seeds: Seeds | dict[Scale, Seeds] | None = Field(None, description="instead of the scale's number")
    scales: list[Scale] = Field(list(SCALES), description="scales at which they run")


class Compared(Section):
    """What systems are compared in: an analysis or a likelihood."""

    title: Words | None = Field(None, description="its heading in the report; default: its name")
    test: str = Field(description="a test of the recipe")
    trainings: list[str] = Field(description="trainings whose systems are compared")
    systems: list[str] | None = None

    def includes(self, system: str, training: str) -> bool:
        """Whether a system with a training is among those that are compared."""
        return training in self.trainings and (self.systems is None or system in self.systems)


class Analysis(Compared):
    """An analysis of the outputs of several systems on one test."""

    systems: list[str] | None = Field(
        None, description="systems to compare; default: all that translate the test after these trainings"
    )
    text: Measured | dict[Scale, Measured] = Field(
        "raw",
        description="what outputs and reference are cut into before they are measured: words (by Moses' rules, or a "
        "segmenter of Japanese or Chinese; for tokenised BLEU), or the subwords of training; raw: nothing",
    )
    bins: list[Positive] | dict[Scale, list[Positive]] | Literal["parts"] | None = Field(
        None,
        description="first lengths of all bins but the first, in subwords of the source; parts: a bin for each part of "
        "the training text by length, as it was cut, and one above; default: bins of 10",
    )
    metrics: list[MetricName] = Field(
        [*DEFAULT_METRICS], min_length=1, description="any that `posnmt analyse` takes; the first is the main one"
    )
    completeness: bool = Field(
        False, description="also sentence ends, aligned source words and omitted sentences (docs/metrics.md)"
    )
    bleu_tokenizer: str | dict[Scale, str] = Field("13a", description="a tokeniser of sacreBLEU")

    @model_validator(mode="after")
    def _complete_text(self) -> Analysis:
        cut = {self.text} if isinstance(self.text, str) else set(self.text.values())
        if self.completeness and cut != {"raw"}:
            raise ValueError(f"completeness finds sentences in raw text; here it is cut into {max(cut - {'raw'})}")
        return self

    @property
    def measures(self) -> list[str]:
        """The names of its metrics, and of what is measured beside them."""
        return [*self.metrics, *(COMPLETENESS if self.completeness else ())]

    def text_at(self, scale: Scale) -> Measured:
        """What is measured at a scale; the default where nothing is said."""
        text: Measured = at_or_default(self, "text", scale)
        return text


class Likelihood(Compared):
    """Likelihood by position: how well the systems predict the references of one test (docs/metrics.md)."""

    trainings: list[str] = Field(min_length=1, description="trainings whose systems are scored")
    systems: list[str] | None = Field(None, description="systems to score; default: all of `runs` with these trainings")
    baseline: str | None = Field(
        None,
        description="what the others are compared with: system (after the first of these trainings) or "
        "system/training; default: the first system",
    )
    swap: bool = Field(False, description="also after a short and after a long sentence of the document (D2)")
    shift: Positive | None = Field(
        None, description="also with positions that begin at this number on the source, on the target, on both (D3)"
    )
    scales: list[Scale] = Field(list(SCALES), description="scales at which it is computed")

    def variant(self, text: str) -> tuple[str, str]:
        """Parse `system/training`, or `system` for the first of its trainings."""
        system, _, training = text.partition("/")
        return system, training or self.trainings[0]


class Recommend(Section):
    """The basis of a recommendation: the quality on these analyses, and the decoding speed.

    Every two systems are compared on each class of sentences of each analysis, and in D1 of each likelihood.
    """

    analyses: list[str] = Field(min_length=1, description="where the quality is compared")
    measure: MetricName = Field("chrf", description="by which metric")
    lengths: list[Lengths] = Field(
        ["all"],
        min_length=1,
        description="classes of sentences: all, seen, longer, shorter; by source length in training",
    )
    likelihoods: list[str] = Field([], description="where losses are compared, too; they recommend nothing")

    def comparisons(self, system: str, other: str) -> dict[str, Comparison]:
        """Name of a place -> the comparison whether a system is better there than another one."""
        places: dict[str, dict[str, Any]] = {}
        for analysis, lengths in itertools.product(self.analyses, self.lengths):
            name = analysis if self.lengths == ["all"] else f"{analysis}, {lengths}"
            places[name] = {"analysis": analysis, "measure": self.measure, "lengths": lengths}
        for likelihood in self.likelihoods:
            places[f"{likelihood}, D1"] = {"analysis": likelihood, "measure": LOSS, "class": "D1", "lengths": "all"}
        return {name: _better(system, other, **place) for name, place in places.items()}


def _better(system: str, other: str, lengths: Lengths, **what: Any) -> Comparison:
    """The comparison whether a system is better than another one on sentences of some lengths."""
    lower = measure(what["measure"]).higher is False
    sides = {side: {"system": name, "lengths": lengths} for side, name in (("of", system), ("than", other))}
    return Comparison.model_validate({**what, **sides, "is": "lower" if lower else "higher"})


class Recipe(Section):
    """The definition of a study: texts, systems, tests, analyses, tables, figures and claims."""

    recipe: Name = Field(description="name of the recipe")
    title: str = Field(description="the title of the report")
    paper: str | None = Field(None, description="what it reproduces, as a citation")
    notes: list[Words] = Field(
        [],
        description="sentences about the study for its report, such as readings and substitutions; by scale: only for "
        "the scales that are named",
    )
    pair: Pair = Field(description="the languages")
    scales: dict[Scale, Setting] = Field(description="texts, seeds and configuration at each scale; one is enough")
    systems: dict[PointName, System] = Field(description="name -> a system that is compared")
    trainings: dict[PointName, Training] = Field(
        {"all": Training()}, min_length=1, description="name -> how a training text is made; all: as it is"
    )
    tests: dict[Name, Test] = Field(description="name -> how a test text is made")
    runs: list[Runs] = Field([], description="what is trained and translated")
    sweep: dict[Name, Sweep] = Field({}, description="grids of settings; their points are further runs")
    analyses: dict[Name, Analysis] = Field(description="name -> outputs that are measured together")
    likelihoods: dict[Name, Likelihood] = Field({}, description="name -> models that score the references of a test")
    tables: list[Table] = Field([], description="tables of the report")
    figures: list[Figure] = Field([], description="figures of the report")
    claims: list[Claim] = Field([], description="statements that are decided")
    recommend: Recommend | None = Field(None, description="what a recommendation rests on; default: there is none")

    @property
    def hash(self) -> str:
        """Return the SHA-256 of all settings, defaults included, in hexadecimal digits."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    def variants(self, scale: Scale) -> dict[tuple[str, str], list[str]]:
        """(system, training) -> its tests, in the order of the recipe."""
        tests_of: dict[tuple[str, str], list[str]] = {}
        for runs in self.runs:
            for system in runs.systems:
                for training in runs.trainings:
                    if scale in runs.scales and scale in self.systems[system].scales:
                        tests = tests_of.setdefault((system, training), [])
                        tests += [test for test in runs.tests if test not in tests]
        return tests_of

    def seeds(self, variant: tuple[str, str], scale: Scale) -> int:
        """The number of seeds of a system and training: the largest of its `runs`; by default that of the scale."""
        own = [
            runs.seeds if isinstance(runs.seeds, int) else (runs.seeds or {}).get(scale)
            for runs in self.runs
            if scale in runs.scales and variant[0] in runs.systems and variant[1] in runs.trainings
        ]
        usual = self.scales[scale].seeds
        return max((usual if seeds is None else seeds for seeds in own), default=usual)

    def pair_at(self, scale: Scale) -> Pair:
        """Return the languages at a scale: the scale's own, or else the recipe's."""
        return self.scales[scale].pair or self.pair

    def notes_at(self, scale: Scale) -> list[str]:
        """The notes that hold at a scale."""
        return [at(note, scale) for note in self.notes if not lacks(note, scale)]

    def claims_at(self, scale: Scale) -> list[Claim]:
        """The claims that are asked at a scale."""
        return [claim for claim in self.claims if scale in claim.scales]

    def likelihoods_at(self, scale: Scale) -> dict[str, Likelihood]:
        """The likelihoods that are computed at a scale: those whose test has a corpus there."""
        return {
            name: each
            for name, each in self.likelihoods.items()
            if scale in each.scales and not lacks(self.tests[each.test].corpus, scale)
        }

    def joined(self) -> set[str]:
        """The analyses of tests whose lines are several sentences joined."""
        return {name for name, each in self.analyses.items() if self.tests[each.test].join}

    def title_of(self, name: str, scale: Scale, of: Literal["analyses", "likelihoods"] = "analyses") -> str:
        """The title of an analysis or a likelihood at a scale; its name if it has none."""
        title: Words | None = getattr(self, of)[name].title
        return name if title is None else words_at(title, scale)

    def variant(self, text: str) -> tuple[str, str]:
        """Parse `system/training`, or `system` for the first training."""
        system, _, training = text.partition("/")
        return system, training or next(iter(self.trainings))

    def label(self, variant: tuple[str, str], trainings: Collection[str] | None = None) -> str:
        """The label of a system and training in tables and figures; the first training is not mentioned.

        Args:
            variant: system and training.
            trainings: those that labels have to tell apart: of fewer than two none is mentioned; None: all.
        """
        system, training = variant
        name = self.systems[system].label or system
        told_apart = self.trainings if trainings is None else trainings
        if len(told_apart) < 2 or training == next(iter(self.trainings)):
            return name
        return f"{name}, {self.trainings[training].label or training}"


WHOLE = "whole"
"""Stands for a training in the name of the step that prepares the text of which trainings use parts."""


def lacks(value: object, scale: Scale) -> bool:
    """Whether a setting is a mapping without a value at a scale."""
    return isinstance(value, Mapping) and scale not in value


def at(value: Value | Mapping[Scale, Value], scale: Scale) -> Value:
    """The value of a setting at a scale; a setting that is not a mapping has the same value at all scales."""
    return value[scale] if isinstance(value, Mapping) else value


def at_or_default(section: Section, name: str, scale: Scale) -> Any:
    """The value of a field at a scale; a mapping without a value there stands for the default of the field."""
    value = getattr(section, name)
    return type(section).model_fields[name].default if lacks(value, scale) else at(value, scale)
