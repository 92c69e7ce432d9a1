"""From a recipe to steps: what to make, train, translate and analyse, and what each needs of the others.

Nothing runs here. A step's settings and needs say everything that its result depends on, so that the graph can tell
what is done already. Analyses are planned apart (`analyses`): they take the translations that there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posnmt.config.formats import FORMAT, OLDEST
from posnmt.errors import UserError, raise_all
from posnmt.study.recipe import Analysis, Recipe, Scale, Setting, Text, Training, at
from posnmt.study.trainings import Config, text_config, train_config
from posnmt.workflow.graph import Step

KINDS = "posnmt.study.steps:KINDS"
"""Where the kinds of a study's steps are."""
FULL_TEXT = "prepare/whole"
"""The step that prepares the whole training text where some trainings take a part of it."""


@dataclass(frozen=True)
class PlannedRun:
    """One training, and the translations that it makes.

    Attributes:
        train: name of its step.
        translations: test -> name of the step.
    """

    system: str
    training: str
    seed: int
    train: str
    translations: dict[str, str]


@dataclass
class Plan:
    """The steps of a study at one scale, in an order that respects their needs.

    Attributes:
        format: of the trainings' configurations; see `posnmt.config.formats`.
        tests: test -> training -> the step that holds its text, which differs between trainings that reorder.
    """

    recipe: Recipe
    scale: Scale
    data: Path | None
    format: int = FORMAT
    steps: dict[str, Step] = field(default_factory=dict)
    runs: list[PlannedRun] = field(default_factory=list)
    tests: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def setting(self) -> Setting:
        """The recipe at this scale."""
        return self.recipe.scales[self.scale]

    def add(self, name: str, kind: str, settings: Mapping[str, Any], **more: Any) -> str:
        """A step, unless there is one of this name; its name."""
        if name not in self.steps:
            self.steps[name] = Step(name, kind, dict(settings), resources=self.setting.resources.of(kind), **more)
        return name


def plan(recipe: Recipe, scale: Scale, data: Path | None, format: int = FORMAT) -> Plan:
    """All steps up to the translations.

    Args:
        recipe: what to do.
        scale: one that it has.
        data: the folder that its files are under; None if it needs none.
        format: of the trainings' configurations: today's, or that with which the study was begun.

    Raises:
        UserError: no such scale, or files that are missing, all at once.
    """
    if scale not in recipe.scales:
        has = ", ".join(recipe.scales)
        raise UserError(f"the recipe {recipe.recipe} has no scale {scale!r}", "--scale", f"it has {has}")
    study_plan = Plan(recipe, scale, data, format)
    variants = recipe.variants(scale)
    corpora = [recipe.tests[test].corpus for tests in variants.values() for test in tests]
    names = ["train", "dev", *(at(corpus, scale) for corpus in corpora if isinstance(corpus, str) or scale in corpus)]
    faults: list[UserError] = []
    for name in dict.fromkeys(names):
        try:
            _corpus(study_plan, name)
        except UserError as fault:
            faults.append(fault)
    raise_all(faults)
    for (system, training), tests in variants.items():
        _runs(study_plan, system, training, tests)
    return study_plan


def _runs(study_plan: Plan, system: str, training: str, tests: Iterable[str]) -> None:
    """The steps of one system after one training: a training and its translations for each seed."""
    prepared = _prepare(study_plan, training)
    texts = _texts(study_plan, training)
    for seed in range(1, study_plan.setting.seeds + 1):
        name = f"{system}/{training}/seed-{seed}"
        config = train_config(study_plan.recipe, study_plan.scale, system, training, seed)
        if study_plan.format > OLDEST:  # a study from before there were numbers keeps the keys of its steps
            config = {"format": study_plan.format, **config}
        settings = {"config": config, **texts[1], **_processes(study_plan.setting)}
        train = study_plan.add(f"train/{name}", "train", settings, needs={**texts[0], "prepared": prepared})
        translations = {}
        for test in tests:
            text = _test(study_plan, test, training)
            if text is not None:
                needs = {"run": train, "test": text}
                translations[test] = study_plan.add(f"translate/{name}/{test}", "translate", {}, needs=needs)
        study_plan.runs.append(PlannedRun(system, training, seed, train, translations))


def _processes(setting: Setting) -> dict[str, int]:
    """How many processes train together, where it is more than one: each adds a batch to every update."""
    wanted = setting.resources.of("train")
    processes = max(1, wanted.gpus) * wanted.nodes
    return {"processes": processes} if processes > 1 else {}


def _prepare(study_plan: Plan, training: str) -> str:
    """The step that prepares a training's text.

    A part by length takes the subwords of the whole text, which count its lengths.
    """
    definition = study_plan.recipe.trainings[training]
    texts, which = _texts(study_plan, training)
    needs = dict(texts)
    if definition.part is not None:
        needs["subwords"] = _prepare_full_text(study_plan, definition)
    config = text_config(study_plan.recipe, study_plan.scale, definition)
    settings = {"config": {key: config[key] for key in ("data", "subword") if key in config}, **which}
    return study_plan.add(f"prepare/{training}", "prepare", settings, needs=needs)


def _prepare_full_text(study_plan: Plan, definition: Training) -> str:
    """The step that prepares the whole text of which a training takes a part."""
    full = definition.model_copy(update={"part": None})
    config = text_config(study_plan.recipe, study_plan.scale, full)
    settings = {"config": {key: config[key] for key in ("data", "subword") if key in config}, "part": None}
    needs = {"train": _corpus(study_plan, "train"), "dev": _corpus(study_plan, "dev")}
    return study_plan.add(FULL_TEXT, "prepare", settings, needs=needs)


def _texts(study_plan: Plan, training: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The steps that hold a training's two corpora, and which part of the first to take."""
    definition = study_plan.recipe.trainings[training]
    train, dev = _corpus(study_plan, "train"), _corpus(study_plan, "dev")
    if definition.reorder:
        train, dev = _reordered(study_plan, "train", train), _reordered(study_plan, "dev", dev)
    if definition.part is None:
        return {"train": train, "dev": dev}, {"part": None}
    limit = text_config(study_plan.recipe, study_plan.scale, definition).get("data", {}).get("max_length", 100)
    settings = {
        "parts": definition.part.of,
        "max_length": limit,
        **_counted(text_config(study_plan.recipe, study_plan.scale, definition)),
    }
    parts = study_plan.add(
        f"corpus/parts-{definition.part.of}",
        "length-split",
        settings,
        needs={"text": train, "prepared": _prepare_full_text(study_plan, definition)},
    )
    return {"train": parts, "dev": dev}, {"part": definition.part.take}


def _counted(config: Config) -> Config:
    """The setting of a step that counts subwords: that they are of tokenised text, which they once were not."""
    return {"lengths": "tokenised"} if config.get("data", {}).get("tokenise", "none") != "none" else {}


def _corpus(study_plan: Plan, name: str) -> str:
    """The step that holds a corpus: files put in one place, a public text, or the artificial language pair."""
    setting = study_plan.setting
    if name not in setting.corpora:
        artificial = study_plan.add("corpus/artificial", "artificial", setting.artificial or {})
        return study_plan.add(f"corpus/{name}", "part-of-artificial", {"name": name}, needs={"artificial": artificial})
    texts = setting.corpora[name]
    texts = texts if isinstance(texts, list) else [texts]
    needs: dict[str, str] = {}
    files: dict[str, Path] = {}
    pieces: list[dict[str, Any]] = []
    pair = study_plan.recipe.pair.model_dump()
    for number, text in enumerate(texts):
        pieces.append({"take": text.take})
        if text.public is not None:
            settings = {"corpus": text.public, "pair": pair}
            needs[str(number)] = study_plan.add(f"fetch/{name}-{number}", "fetch", settings)
        else:
            files |= {f"{number}.{part}": path for part, path in _paths(study_plan, name, text).items()}
    return study_plan.add(f"corpus/{name}", "corpus", {"texts": pieces}, needs=needs, files=files)


def _paths(study_plan: Plan, name: str, text: Text) -> dict[str, Path]:
    """The files of a text, by part.

    Raises:
        UserError: some are not there.
    """
    if study_plan.data is None:
        raise UserError(
            f"the corpus {name!r} of the recipe {study_plan.recipe.recipe} is a file of yours",
            "--data",
            "name its folder",
        )
    paths, faults = {}, []
    for part in ("source", "target", "documents"):
        written = getattr(text, part)
        if written is not None:
            path = study_plan.data / written.format(**study_plan.recipe.pair.model_dump())
            paths[part] = path
            if not path.is_file():
                faults.append(
                    UserError(f"the corpus {name!r} has no {part} text", path, "put it there, or change the recipe")
                )
    raise_all(faults)
    return paths


def _reordered(study_plan: Plan, name: str, text: str) -> str:
    """The step that holds a text with its source words in the order of the target."""
    model = study_plan.add("reorder/model", "reorder-model", {"seed": 1}, needs={"train": _corpus(study_plan, "train")})
    return study_plan.add(f"reorder/{name}", "reorder", {}, needs={"text": text, "model": model})


def _test(study_plan: Plan, name: str, training: str) -> str | None:
    """The step that holds a test text as a training's systems read it; None where the scale has no such corpus."""
    test = study_plan.recipe.tests[name]
    if not isinstance(test.corpus, str) and study_plan.scale not in test.corpus:
        return None
    step = _corpus(study_plan, at(test.corpus, study_plan.scale))
    if test.join is not None:
        settings = {"sentences": test.join, "rest": test.rest, "pair": study_plan.recipe.pair.model_dump()}
        step = study_plan.add(f"test/{name}-joined", "join", settings, needs={"text": step})
    if test.swap:
        step = study_plan.add(f"test/{name}-swapped", "swap", {"shares": test.swap, "seed": 1}, needs={"text": step})
    study_plan.tests.setdefault(name, {})[""] = step
    if study_plan.recipe.trainings[training].reorder:
        step = _reordered(study_plan, f"test-{name}", step)
    study_plan.tests[name][training] = step
    return step


def analyses(study_plan: Plan, finished: Iterable[str]) -> tuple[dict[str, Step], dict[str, str]]:
    """The steps that measure the translations that there are, and why an analysis cannot be made, by its name.

    Args:
        made: the plan.
        finished: names of the finished steps.
    """
    done = set(finished)
    steps: dict[str, Step] = {}
    missing: dict[str, str] = {}
    for name, analysis in study_plan.recipe.analyses.items():
        runs = [run for run in study_plan.runs if _is_part(run, analysis)]
        finished_runs = [run for run in runs if run.translations[analysis.test] in done]
        if not finished_runs:
            missing[name] = (
                "none of its translations was made" if runs else f"it is not part of scale {study_plan.scale}"
            )
            continue
        steps[name] = _analysis(study_plan, name, analysis, finished_runs)
    return steps, missing


def _is_part(run: PlannedRun, analysis: Analysis) -> bool:
    """Whether a run's translation is part of an analysis."""
    in_systems = analysis.systems is None or run.system in analysis.systems
    return in_systems and run.training in analysis.trainings and analysis.test in run.translations


def _analysis(study_plan: Plan, name: str, analysis: Analysis, runs: list[PlannedRun]) -> Step:
    """The step that measures the translations of some runs together."""
    recipe, scale = study_plan.recipe, study_plan.scale
    needs = {"test": study_plan.tests[analysis.test][""], "prepared": study_plan.steps[runs[0].train].needs["prepared"]}
    if analysis.bins == "parts":
        part = recipe.trainings[analysis.trainings[0]].part
        assert part is not None  # checked when the recipe was read
        needs["parts"] = f"corpus/parts-{part.of}"
    outputs = []
    for number, run in enumerate(runs):
        needs |= {f"output-{number}": run.translations[analysis.test], f"run-{number}": run.train}
        label = recipe.label((run.system, run.training)) if len(analysis.trainings) > 1 else (
            recipe.systems[run.system].label or run.system
        )  # fmt: skip
        outputs.append({"label": label, "system": run.system, "training": run.training, "seed": run.seed})
    settings = {
        "outputs": outputs,
        "seeds": study_plan.setting.seeds,
        "shares": recipe.tests[analysis.test].swap,
        "text": analysis.text,
        "bins": analysis.bins if analysis.bins in (None, "parts") else at(analysis.bins, scale),
        "metrics": analysis.metrics,
        "bleu_tokenizer": at(analysis.bleu_tokenizer, scale),
        **({"target_language": recipe.pair.target} if analysis.text == "words" else {}),
        **_counted(recipe.scales[scale].config),
    }
    return Step(f"analyse/{name}", "analyse", settings, needs, {}, study_plan.setting.resources.of("analyse"))
