"""Plan a comparison of systems on a corpus: from two files and some hours to a recipe that is like `choose`.

All that is chosen is written to the recipe, so that everything after this is a study like any other.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from typing_extensions import TypedDict

from posnmt.base.errors import UserError, raise_all
from posnmt.base.files import load_json, sha256_of
from posnmt.base.output import write_json, write_text
from posnmt.config.schema import Config
from posnmt.config.systems import named
from posnmt.config.yaml import merge, override, written_yaml
from posnmt.data.survey import language_of
from posnmt.evaluation.analyse.zones import effective_number
from posnmt.run import defaults
from posnmt.study import foreseen, hours, study
from posnmt.study.compared_texts import Corpora, Texts, make
from posnmt.study.held_out import BLOCK, read
from posnmt.study.load import load, shipped
from posnmt.study.measured import Finding
from posnmt.study.recipe import Recipe, Scale
from posnmt.study.trainings import train_config
from posnmt.study.workflow import runner
from posnmt.training import expectations
from posnmt.training.choose import Written
from posnmt.training.expectations import Expectation

Say = Callable[[str], None]
SCALE: Scale = "small"
LIKE, NAME = "choose", "compare"
RECIPE, TEXT, PLAN = "recipe.yaml", "text", "compare.json"
"""In the study's folder: the recipe, the folder of its corpora, and the plan."""
FEWEST_UPDATES = 400
"""Of a training whose updates follow from the hours: the first 300 of them warm up."""
ELSEWHERE = {
    "data.max_length": "--cap", "data.train": "SOURCE and TARGET", "data.dev": "--dev", "data.held_out": "--dev",
    "data.source_language": "--source-language", "data.target_language": "--target-language",
    "train.minutes": "--hours", "train.epochs": "train.steps", "train.seed": "--seeds", "model.system": "--systems",
}  # fmt: skip
"""Setting -> what sets it here."""


@dataclass(frozen=True)
class Request:
    """What is to be compared.

    Attributes:
        source, target: the corpus.
        systems: names of systems; None: those of the recipe `choose`.
        seeds: trainings of each.
        hours: that all of it may take; None: as many passes as `posnmt train` makes by itself.
        cap: longest training sentence, in subwords; None: chosen.
        dev, test: pairs of files in place of held-out pairs.
        documents: a file with the document of each line of the corpus.
        languages: codes of source and target; None: by the names of the files, or by their text.
        settings: `key.key=value` of a configuration.
    """

    source: Path
    target: Path
    systems: Sequence[str] | None = None
    seeds: int = 3
    hours: float | None = None
    cap: int | None = None
    dev: tuple[Path, Path] | None = None
    test: tuple[Path, Path] | None = None
    documents: Path | None = None
    languages: tuple[str | None, str | None] = (None, None)
    settings: Sequence[str] = ()

    @property
    def compared(self) -> list[str]:
        """Return the systems to compare: those of the request, or else those of the preset."""
        return [*(_preset()["systems"] if self.systems is None else self.systems)]

    def facts(self) -> dict[str, Any]:
        """The request as JSON, with the digests of files in place of their names.

        Raises:
            UserError: files are missing.
        """
        files = {"SOURCE": self.source, "TARGET": self.target}
        files |= {} if self.documents is None else {"--documents": self.documents}
        for option, pair in (("--dev", self.dev), ("--test", self.test)):
            files |= (
                {}
                if pair is None
                else {f"{option}, {side}": path for side, path in zip(("source", "target"), pair, strict=True)}
            )
        missing = [name for name, path in files.items() if not path.is_file()]
        raise_all([UserError(f"there is no file {files[name]}", name, "check its name") for name in missing])
        options = {"--seeds": self.seeds, "--hours": self.hours, "--cap": self.cap, "--set": [*self.settings]}
        languages = dict(zip(("--source-language", "--target-language"), self.languages, strict=True))
        return {
            **{name: sha256_of(path) for name, path in files.items()},
            "--systems": self.compared,
            **options,
            **languages,
        }


class Plan(TypedDict):
    """The facts of a plan.

    Attributes:
        pairs: of the corpus.
        trained, kept: pairs of the training text, and those of at most the cap.
        cap, is_chosen: longest training sentence on either side, in subwords; whether it was chosen.
        developed: dev pairs.
        seen, longer: test sentences with a source of trained length, and with a longer one.
        longest, longest_tested: sources of training and test, in subwords.
        documents, blocks: of the test; whether they are blocks of lines.
        blank, repeated, several: held-out pairs that the test leaves out (`posnmt.study.held_out.Usable`).
        vocabulary, width, dropout, batch: of the models and their training.
        systems, seeds: that are trained.
        updates, passes: of each training.
        expects: what trainings of ours on such a corpus have reached, in words (`posnmt.training.expectations`).
        floor: BLEU that every system must reach, so that its outputs are compared.
        finds, found_by: place of a comparison -> the smallest difference that could be found there, as estimated by
            `posnmt.study.foreseen`, and the number of seeds that this holds for: those of the plan, or those of a
            request that names none if the plan has one seed, which says nothing of others.
        hours, limit: estimated (`posnmt.study.hours.Hours`) and asked for.
    """

    pairs: int
    trained: int
    kept: int
    cap: int
    is_chosen: bool
    developed: int
    seen: int
    longer: int
    longest: int
    longest_tested: int
    documents: int
    blocks: bool
    blank: int
    repeated: int
    several: int
    vocabulary: int
    width: int
    dropout: float
    batch: int
    systems: list[str]
    seeds: int
    updates: int
    passes: float
    expects: str
    floor: float
    finds: dict[str, float | None]
    found_by: int
    hours: hours.Hours
    limit: float | None


class Kept(TypedDict):
    """The content of `compare.json`: the request, the SHA-256 of the recipe as it was written, and the plan."""

    request: dict[str, Any]
    recipe: str
    plan: Plan


def planned(request: Request, out: Path, say: Say) -> Kept:
    """The plan in a folder: that of an earlier run of this request, or a new one, with its recipe and texts.

    Args:
        request: what is asked for.
        out: the study's folder.
        say: called with progress lines.

    Raises:
        UserError: every fault of files and settings; the corpus has too few longer sentences, the hours are too few, or
            the folder has something else.
    """
    settings = _settings(request)
    facts = request.facts()
    if (out / PLAN).exists():
        kept = load_json(out / PLAN, Kept, "the plan of a comparison", "restore it, or choose another --out")
        names = dict.fromkeys([*facts, *kept["request"]])
        changed = [name for name in names if facts.get(name) != kept["request"].get(name)]
        if not changed:
            say("this was planned before, and goes on where it was")
            return kept
        if (out / "steps").exists():
            what = f"the comparison in this folder has begun with other values of {', '.join(changed)}"
            todo = f"choose another --out; or change {out / RECIPE}, and go on with `posnmt study run`"
            raise UserError(what, out, todo)
    runner.check_study(out, NAME)
    plan, tree, texts = _planned(request, settings, say)
    out.mkdir(parents=True, exist_ok=True)
    runner.open_study(out, NAME, "")
    texts.write(out / TEXT)
    write_text(out / RECIPE, written_yaml(tree))
    kept = Kept(request=facts, recipe=sha256_of(out / RECIPE), plan=plan)
    write_json(out / PLAN, kept)
    return kept


def was_changed(kept: Kept, out: Path) -> bool:
    """Whether the recipe was changed after it was planned, so that the plan is not that of the trainings."""
    return sha256_of(out / RECIPE) != kept["recipe"]


def run(kept: Kept, out: Path, say: Say) -> runner.Summary:
    """Run the unfinished steps of the comparison in a folder, by its recipe as it stands now.

    Raises:
        UserError: see `posnmt.study.study.run`.
        KeyboardInterrupt: a signal stopped the run; all state is saved.
    """
    if was_changed(kept, out):
        say(f"{out / RECIPE} was changed after the plan, and is followed as it stands")
    return study.run(load(str(out / RECIPE)), SCALE, out / TEXT, out, say=say)


def outcome(out: Path) -> Iterator[str]:
    """What was found, what was not, when it was registered, and the files of report, first figure and first table.

    Raises:
        UserError: no analysis is finished.
    """
    results = study.results_of(study.load_plan(out), out)
    if (recommendation := results.recommendation) is not None:
        for finding in recommendation.findings or [Finding(recommendation.sentence, recommendation.evidence)]:
            yield finding.sentence
            yield from (f"- {item}" for item in finding.items)
        yield f"Registered: {results.registration.sentence}."
    for pattern in ("report.html", "figures/figure-1*.pdf", "tables/table-1.csv"):
        yield from map(str, sorted(out.glob(pattern))[:1])


def _settings(request: Request) -> dict[str, Any]:
    """The settings of a request, whose systems and settings are checked.

    Raises:
        UserError: a system is unknown or named twice, or there is only one; a setting has an option of its own.
    """
    names = request.compared
    faults = [UserError(f"{name} is named twice", "--systems") for name, count in Counter(names).items() if count > 1]
    if len(names) < 2:
        faults.append(
            UserError("one system is compared with nothing", "--systems", "name two or more: transformer,rope")
        )
    for name in names:
        try:
            named(name)
        except UserError as fault:
            faults.append(UserError(fault.what, "--systems", fault.todo))
    tree: dict[str, Any] = reduce(override, request.settings, {})
    for key, option in ELSEWHERE.items():
        if defaults.is_set(tree, key):
            faults.append(UserError(f"{key} is not a setting of a comparison", "--set", f"use {option}"))
    raise_all(faults)
    return tree


def _planned(request: Request, settings: dict[str, Any], say: Say) -> tuple[Plan, dict[str, Any], Texts]:
    """The plan, its recipe and its texts."""
    say("reading the corpus")
    codes = (
        language_of([path.name]) if code is None else code
        for code, path in zip(request.languages, (request.source, request.target), strict=True)
    )
    pairs = read(request.source, request.target, request.documents)
    dev, test = (None if files is None else read(*files) for files in (request.dev, request.test))
    texts = make(Corpora(pairs, dev, test, (next(codes), next(codes)), request.cap, settings), say)
    config, chosen = _chosen(request, settings, texts)
    recipe = _loaded(_recipe(request, settings, texts, {**chosen, "train.steps": 1}))
    tested = texts.test_lengths.sum(axis=0)
    amounts = hours.Amounts(config.train.batch, texts.dev_tokens, int(tested[0]), int(tested[1]), len(texts.test))
    paces = []
    for system in request.compared:
        say(f"timing {system}")
        paces.append(hours.Pace.measured(train_config(recipe, SCALE, system, "all", 1), amounts))
    of_pass = len(texts.lengths) * texts.tokens / config.train.batch
    most = max(1, round(defaults.passes(len(texts.lengths)) * of_pass))
    updates, needed = _updates(request, config.train.steps, paces, most)
    schedule = defaults.for_budget(settings, config.train, updates, defaults.evaluations(None))
    decided = {**chosen, "train.steps": updates, **schedule}
    tree = _recipe(request, settings, texts, decided)
    found_by = request.seeds if request.seeds > 1 else Request.seeds
    of_seeds = _recipe(replace(request, seeds=found_by), settings, texts, decided)
    finds = foreseen.differences(_loaded(of_seeds), SCALE, _samples(texts))
    measured = expectations.is_measured(config)
    median = float(np.median(texts.lengths[:, 0]))
    expected = expectations.expectation(len(texts.lengths), median, updates) if measured else Expectation()
    left = texts.left_out
    plan = Plan(
        pairs=len(pairs), trained=len(texts.training), kept=len(texts.lengths), cap=texts.cap,
        is_chosen=request.cap is None, developed=len(texts.dev), seen=len(texts.test) - texts.longer,
        longer=texts.longer, longest=texts.longest, longest_tested=int(texts.test_lengths[:, 0].max()),
        documents=len({pair.document for pair in texts.test}),
        blocks=request.documents is None or request.test is not None,
        blank=left.blank, repeated=left.seen, several=left.several, vocabulary=config.subword.vocabulary,
        width=config.model.d_model, dropout=config.model.dropout, batch=config.train.batch, systems=request.compared,
        seeds=request.seeds, updates=updates, passes=round(updates / of_pass, 2), expects=str(expected),
        floor=recipe.scales[SCALE].floor, finds=finds, found_by=found_by, hours=needed, limit=request.hours,
    )  # fmt: skip
    return plan, tree, texts


def _samples(texts: Texts) -> dict[str, foreseen.Sample]:
    """The test sentences of trained lengths, and the longer ones."""
    longer = texts.test_lengths[:, 0] > texts.longest
    _, documents = np.unique([pair.document for pair in texts.test], return_inverse=True)
    return {
        name: foreseen.Sample(
            int(chosen.sum()), effective_number(np.bincount(documents[chosen], texts.test_lengths[chosen, 1]))
        )
        for name, chosen in (("seen", ~longer), ("longer", longer))
    }


def _chosen(request: Request, settings: dict[str, Any], texts: Texts) -> tuple[Config, defaults.Settings]:
    """The settings that follow from the text, by the rules of `posnmt train`, and the configuration with them.

    They are those for a system that is no Transformer if there is one: all systems train alike.
    """
    kinds = {system: named(system).model.get("architecture", "transformer") for system in request.compared}
    system = next((name for name, kind in kinds.items() if kind != "transformer"), request.compared[0])
    corpora = {name: {"source": "-", "target": "-"} for name in ("train", "dev")}
    written = Written.from_settings(merge({"data": corpora, "model": {"system": system}}, settings))
    chosen, pairs = dict(texts.chosen), len(texts.lengths)

    def config() -> Config:
        return written.config(chosen if defaults.is_set(settings, "train.steps") else {**chosen, "train.epochs": 1})

    shared = config().subword.shared and kinds[system] == "transformer"
    chosen |= defaults.for_model(written.tree, config().model, shared, pairs)
    chosen |= defaults.for_embeddings(written.tree, config().model)
    chosen |= defaults.for_updates(written.tree, config(), pairs, texts.tokens)
    return config(), chosen


def _updates(request: Request, steps: int | None, paces: Sequence[hours.Pace], most: int) -> tuple[int, hours.Hours]:
    """The updates of each training, and the hours that all of it takes.

    Args:
        request: the comparison.
        steps: that it asks for; None: as many as fit into its hours.
        paces: of each system.
        most: updates that `posnmt train` would make by itself.

    Raises:
        UserError: the hours are too few.
    """
    at_once, limit, count = hours.workers(), request.hours, len(paces) * request.seeds

    def spent(updates: int) -> hours.Hours:
        return hours.estimate(paces, request.seeds, updates, at_once)

    def needed(updates: int) -> float:
        return hours.total(spent(updates)) / hours.SHARE

    updates = steps or (most if limit is None else hours.fitting(needed, most, limit))
    fewest = steps or min(FEWEST_UPDATES, most)
    if limit is not None and (updates < fewest or needed(updates) > limit):
        what = f"{limit:g} hours are too few for {fewest:,} updates of each of {count} trainings"
        enough = math.ceil(20 * needed(fewest)) / 20
        raise UserError(what, "--hours", f"give it {enough:g} hours, or compare fewer systems or seeds")
    return updates, spent(updates)


def _recipe(request: Request, settings: Mapping[str, Any], texts: Texts, chosen: defaults.Settings) -> dict[str, Any]:
    """The recipe as a tree: what differs from `choose`."""
    elsewhere = {*ELSEWHERE, "data.max_length"}
    config = defaults.with_settings({}, {key: value for key, value in chosen.items() if key not in elsewhere})
    ours = {
        "data": {"max_length": texts.cap, "accept": ["empty", "crlf"]},
        "train": {"dev_bleu": False, "best_by": "perplexity"},
    }
    source, target = texts.languages
    corpora: dict[str, dict[str, str]] = {
        name: {"source": f"{name}.{{source}}", "target": f"{name}.{{target}}"} for name in ("train", "dev", "test")
    }
    corpora["test"]["documents"] = "test.documents"
    measured = {"bleu_tokenizer": texts.config.train.bleu_tokenizer}
    systems = {name: _system(name) for name in request.compared}
    is_preset = systems == _preset()["systems"]
    return {
        "like": LIKE,
        "except": ["scales.smoke", *([] if is_preset else ["systems"])],
        "recipe": NAME,
        "title": f"{len(systems)} systems on sentences of trained lengths and longer ones",
        "notes": _notes(request, texts),
        "pair": {"source": source, "target": target},
        "scales": {
            SCALE: {
                "seeds": request.seeds, "corpora": corpora, "config": merge(merge(config, ours), dict(settings)),
            }
        },
        **({} if is_preset else {"systems": systems}),
        "analyses": {
            "test": {"bins": [texts.longest + 1], **measured},
            "curve": {"bins": texts.bins, **measured},
        },
        "likelihoods": {"test": {"swap": True}},
    }  # fmt: skip


def _system(name: str) -> dict[str, Any]:
    """A system of the recipe: that of `choose`, or a named one whose clipping distances are chosen."""
    if (known := _preset()["systems"].get(name)) is not None:
        return dict(known)
    sides = named(name).model
    schemes = [each["scheme"] for side in ("encoder", "decoder") for each in sides.get(side, {}).get("position", [])]
    return {"system": name, **({"options": {"relative": {"distance": "auto"}}} if "relative" in schemes else {})}


def _notes(request: Request, texts: Texts) -> list[str]:
    """What the report says of the comparison."""
    left, kept, tested = texts.left_out, len(texts.lengths), len(texts.test)
    unit = f"blocks of {BLOCK} consecutive lines" if request.documents is None else "whole documents"
    test = "The test is a text of its own" if request.test is not None else f"The test was held out by {unit}"
    return [
        "All systems have the same training text and the same number of updates. A system that learns slowly may catch "
        "up in a longer training.",
        f"Training has the {kept:,} of {len(texts.training):,} pairs that have at most {texts.cap} subwords on either "
        f"side; its longest source has {texts.longest}. Of {tested:,} test sentences {texts.longer:,} are longer.",
        f"{test}. It has no line that is in training ({left.seen:,} were left out), and no line of several sentences "
        f"({left.several:,}).",
    ]


def _loaded(tree: dict[str, Any]) -> Recipe:
    """The recipe of a tree, checked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / RECIPE
        write_text(path, written_yaml(tree))
        return load(str(path))


def _preset() -> dict[str, Any]:
    """The recipe `choose` as a tree."""
    tree: dict[str, Any] = yaml.safe_load(shipped()[LIKE].read_text(encoding="utf-8"))
    return tree
