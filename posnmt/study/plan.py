"""Plan a study: from a recipe to the steps that prepare, train, translate and analyse.

Nothing runs here. A step's settings and needs hold everything that its result depends on, so that finished steps are
recognised by their keys. Two kinds of steps are planned later, from what is finished: analyses from translations
(`analyses`), and likelihoods from trainings (`likelihoods`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, raise_all
from posnmt.base.files import is_file
from posnmt.base.version import FORMAT
from posnmt.study.measures import SPEEDS
from posnmt.study.parts import in_key, metrics_of, names_of
from posnmt.study.recipe import WHOLE, Analysis, Likelihood, Pair, Recipe, Scale, Setting, Text, Training, at, lacks
from posnmt.study.scorable import has_documents
from posnmt.study.speed import Turns
from posnmt.study.trainings import text_config, train_config
from posnmt.study.workflow.graph import Step

KINDS = "posnmt.study.steps:KINDS"
"""The dotted path of the kinds of a study's steps."""
FULL_TEXT = f"prepare/{WHOLE}"
"""The step that prepares the full training text where trainings use parts of it; no training may have its name."""
SPEED = "speed/in-turn"
"""The step that measures the speeds that claims compare."""


@dataclass(frozen=True)
class PlannedRun:
    """One training and its translations.

    Attributes:
        train: name of the training step; systems that differ only in search share it.
        translations: test -> name of the translation step.
    """

    system: str
    training: str
    seed: int
    train: str
    translations: dict[str, str]


@dataclass
class Plan:
    """The steps of a study at one scale, each after those that it needs.

    Attributes:
        data: folder of the user's corpora; None: the recipe needs none.
        parts: the plug-ins that it uses, as JSON has them.
        tests: test -> training -> the step that holds the text, which trainings that reorder read in another order.
    """

    recipe: Recipe
    scale: Scale
    data: Path | None
    parts: Sequence[Mapping[str, Any]] = ()
    steps: dict[str, Step] = field(default_factory=dict)
    runs: list[PlannedRun] = field(default_factory=list)
    tests: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def setting(self) -> Setting:
        """The recipe's setting at this scale."""
        return self.recipe.scales[self.scale]

    @property
    def pair(self) -> Pair:
        """Return the source and the target language at the plan's scale."""
        return self.recipe.pair_at(self.scale)

    @property
    def trainings(self) -> list[str]:
        """The names of the training steps."""
        return list(dict.fromkeys(run.train for run in self.runs))

    def add(self, name: str, kind: str, settings: Mapping[str, Any], **more: Any) -> str:
        """Add a step unless it exists already; return its name, with a number if another step has this name."""
        step, number = Step(name, kind, dict(settings), resources=self.setting.resources.of(kind), **more), 1
        while self.steps.setdefault(step.name, step) != step:
            number += 1
            step = replace(step, name=f"{name}-{number}")
        return step.name

    def train(self, name: str, settings: Mapping[str, Any], needs: Mapping[str, str]) -> str:
        """The name of the training with these settings and texts; it is added under `name` if there is none."""
        trainings = (each for each in self.steps.values() if each.kind == "train")
        same = next((each.name for each in trainings if (each.settings, each.needs) == (settings, needs)), None)
        return same or self.add(name, "train", settings, needs=needs)


def plan(recipe: Recipe, scale: Scale, data: Path | None, parts: Sequence[Mapping[str, Any]] = ()) -> Plan:
    """Plan all steps up to the translations, and the measurement of speeds.

    Args:
        recipe: of the study.
        scale: one of the recipe's.
        data: folder of the recipe's corpora; None if it needs none.
        parts: the plug-ins that it uses, as JSON has them.

    Raises:
        UserError: the recipe lacks the scale; files are missing, all at once.
    """
    if scale not in recipe.scales:
        has = ", ".join(recipe.scales)
        raise UserError(f"the recipe {recipe.recipe} has no scale {scale!r}", "--scale", f"it has {has}")
    study_plan = Plan(recipe, scale, data, parts)
    variants = recipe.variants(scale)
    translated = [test for tests in variants.values() for test in tests]
    likelihoods = recipe.likelihoods_at(scale).values()
    corpora = [recipe.tests[test].corpus for test in [*translated, *(each.test for each in likelihoods)]]
    names = ["train", "dev", *(at(corpus, scale) for corpus in corpora if not lacks(corpus, scale))]
    faults: list[UserError] = []
    for name in dict.fromkeys(names):
        try:
            _corpus(study_plan, name)
        except UserError as fault:
            faults.append(fault)
    raise_all(faults)
    for (system, training), tests in variants.items():
        _runs(study_plan, system, training, tests)
    for each in likelihoods:
        for training in dict.fromkeys(run.training for run in _scored(study_plan, each)):
            _test(study_plan, each.test, training)  # whether or not it is translated
    _speed(study_plan)
    return study_plan


def _runs(study_plan: Plan, system: str, training: str, tests: Iterable[str]) -> None:
    """Add the steps of one system and training: for each seed, the training and its translations."""
    prepared = _prepare(study_plan, system, training)
    texts = _texts(study_plan, training)
    for seed in range(1, study_plan.recipe.seeds((system, training), study_plan.scale) + 1):
        name = f"{system}/{training}/seed-{seed}"
        config = {"format": FORMAT, **train_config(study_plan.recipe, study_plan.scale, system, training, seed)}
        # of a translation's key and not of its training's, so that another beam trains nothing again
        search = {"search": config.pop("decode")} if "decode" in config else {}
        used = in_key(names_of(config["model"]), study_plan.parts)
        settings = {"config": config, **texts[1], **_processes(study_plan.setting), **used}
        train = study_plan.train(f"train/{name}", settings, {**texts[0], "prepared": prepared})
        translations = {}
        for test in tests:
            text = _test(study_plan, test, training)
            if text is not None:
                needs = {"run": train, "test": text}
                translations[test] = study_plan.add(f"translate/{name}/{test}", "translate", search, needs=needs)
        study_plan.runs.append(PlannedRun(system, training, seed, train, translations))


def _of_speeds(recipe: Recipe, variants: Iterable[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[str]]:
    """The systems whose speeds are compared by claims or a recommendation, and the analyses that these are about.

    Args:
        variants: system and training of each run.
    """
    compared = [each for claim in recipe.claims for _, each in claim.comparisons() if each.measure in SPEEDS]
    asked = [recipe.variant(name) for each in compared for side in each.sides for name in side.variants]
    analyses_of = [each.analysis for each in compared]
    if recipe.recommend is not None:
        analyses_of += recipe.recommend.analyses
        asked += [variant for variant in variants if variant[1] == next(iter(recipe.trainings))]
    return asked, analyses_of


def _speed(study_plan: Plan) -> None:
    """Add the step that measures the speeds that claims or a recommendation compare, if there are any.

    It measures the first seed of each system, on the text of the first of their analyses.
    """
    recipe = study_plan.recipe
    runs = {(run.system, run.training): run for run in study_plan.runs if run.seed == 1}
    compared, analyses_of = _of_speeds(recipe, list(runs))
    variants = [variant for variant in dict.fromkeys(compared) if variant in runs]
    tests = [study_plan.tests.get(recipe.analyses[name].test) for name in analyses_of]
    texts = [of_trainings[""] for of_trainings in tests if of_trainings is not None]
    if not (variants and texts):
        return
    needs = {"test": texts[0]}
    systems = []
    for number, variant in enumerate(variants):
        run = runs[variant]
        search = next((study_plan.steps[step].settings for step in run.translations.values()), {})
        needs |= {f"run-{number}": run.train, f"prepared-{number}": study_plan.steps[run.train].needs["prepared"]}
        systems.append({"system": run.system, "training": run.training, **search})
    trained = [study_plan.steps[runs[variant].train].settings["config"]["train"].get("steps") for variant in variants]
    turns = Turns.beside(None if None in trained else min(trained))
    less = {name: count for name, count in asdict(turns).items() if count != getattr(Turns, name)}
    study_plan.add(SPEED, "speed", {"systems": systems, "turns": Turns.turns, **less}, needs=needs)


def _processes(setting: Setting) -> dict[str, int]:
    """The number of training processes if there are several; it counts, since each adds a batch to every update."""
    resources = setting.resources.of("train")
    processes = max(1, resources.gpus) * resources.nodes
    return {"processes": processes} if processes > 1 else {}


def _prepare(study_plan: Plan, system: str, training: str) -> str:
    """The step that prepares a training's text for a system; most systems share it.

    The lengths of a part by length are counted in the subwords of the full text, so the part uses these, too.
    """
    definition = study_plan.recipe.trainings[training]
    texts, which = _texts(study_plan, training)
    needs = dict(texts)
    if definition.part is not None:
        needs["subwords"] = _prepare_full_text(study_plan, definition, system)
    config = text_config(study_plan.recipe, study_plan.scale, definition, system)
    settings = {"config": {key: config[key] for key in ("data", "subword") if key in config}, **which}
    return study_plan.add(f"prepare/{training}", "prepare", settings, needs=needs)


def _prepare_full_text(study_plan: Plan, definition: Training, system: str | None = None) -> str:
    """The step that prepares the full text of which a training uses a part."""
    full = definition.model_copy(update={"part": None})
    config = text_config(study_plan.recipe, study_plan.scale, full, system)
    settings = {"config": {key: config[key] for key in ("data", "subword") if key in config}, "part": None}
    needs = {"train": _corpus(study_plan, "train"), "dev": _corpus(study_plan, "dev")}
    return study_plan.add(FULL_TEXT, "prepare", settings, needs=needs)


def _texts(study_plan: Plan, training: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The steps that hold a training's training and dev texts, and the part of the training text to use."""
    definition = study_plan.recipe.trainings[training]
    train, dev = _corpus(study_plan, "train"), _corpus(study_plan, "dev")
    if definition.reorder:
        train, dev = _reordered(study_plan, "train", train), _reordered(study_plan, "dev", dev)
    if definition.part is None:
        return {"train": train, "dev": dev}, {"part": None}
    limit = text_config(study_plan.recipe, study_plan.scale, definition).get("data", {}).get("max_length", 100)
    settings = {"parts": definition.part.of, "max_length": limit}
    parts = study_plan.add(
        f"corpus/parts-{definition.part.of}",
        "length-split",
        settings,
        needs={"text": train, "prepared": _prepare_full_text(study_plan, definition)},
    )
    return {"train": parts, "dev": dev}, {"part": definition.part.take}


def _corpus(study_plan: Plan, name: str) -> str:
    """The step that holds a corpus: the user's files, a public corpus, or the artificial language pair."""
    setting = study_plan.setting
    if name not in setting.corpora:
        options = {} if setting.artificial is None else setting.artificial.model_dump(exclude_none=True)
        artificial = study_plan.add("corpus/artificial", "artificial", options)
        return study_plan.add(f"corpus/{name}", "part-of-artificial", {"name": name}, needs={"artificial": artificial})
    needs: dict[str, str] = {}
    files: dict[str, Path] = {}
    pieces: list[dict[str, Any]] = []
    pair = study_plan.pair.model_dump()
    for number, text in enumerate(setting.texts(name)):
        chosen = {name: value for name, value in (("lines", text.lines), ("join", text.join)) if value}
        pieces.append({"take": text.take, **chosen})  # without what is not asked for, so that keys stay
        if text.public is not None:
            settings = {"corpus": text.public, "pair": pair}
            needs[str(number)] = study_plan.add(f"fetch/{name}-{number}", "fetch", settings)
        else:
            files |= {f"{number}.{part}": path for part, path in _paths(study_plan, name, text).items()}
    return study_plan.add(f"corpus/{name}", "corpus", {"texts": pieces}, needs=needs, files=files)


def _paths(study_plan: Plan, name: str, text: Text) -> dict[str, Path]:
    """Part (`source`, `target`, `documents`) -> the file of a text.

    Raises:
        UserError: files are missing.
    """
    if study_plan.data is None:
        raise UserError(
            f"the corpus {name!r} of the recipe {study_plan.recipe.recipe} is a file of your own",
            "--data",
            "name its folder",
        )
    paths, faults = {}, []
    for part in ("source", "target", "documents"):
        written = getattr(text, part)
        if written is not None:
            pair = study_plan.pair
            path = study_plan.data / written.replace("{source}", pair.source).replace("{target}", pair.target)
            paths[part] = path
            if not is_file(path):
                faults.append(
                    UserError(f"the corpus {name!r} has no {part} text", path, "put it there, or change the recipe")
                )
    raise_all(faults)
    return paths


def _reordered(study_plan: Plan, name: str, text: str) -> str:
    """The step that holds a text with its source words reordered into target order."""
    model = study_plan.add("reorder/model", "reorder-model", {"seed": 1}, needs={"train": _corpus(study_plan, "train")})
    return study_plan.add(f"reorder/{name}", "reorder", {}, needs={"text": text, "model": model})


def _test(study_plan: Plan, name: str, training: str) -> str | None:
    """The step that holds a test text as a training's systems read it; None if the scale lacks its corpus."""
    test = study_plan.recipe.tests[name]
    if lacks(test.corpus, study_plan.scale):
        return None
    step = _corpus(study_plan, at(test.corpus, study_plan.scale))
    if test.join is not None:
        settings = {"sentences": test.join, **test.joining(study_plan.scale), "pair": study_plan.pair.model_dump()}
        step = study_plan.add(f"test/{name}-joined", "join", settings, needs={"text": step})
    if test.swap:
        step = study_plan.add(f"test/{name}-swapped", "swap", {"shares": test.swap, "seed": 1}, needs={"text": step})
    study_plan.tests.setdefault(name, {})[""] = step
    if study_plan.recipe.trainings[training].reorder:
        step = _reordered(study_plan, f"test-{name}", step)
    study_plan.tests[name][training] = step
    return step


def analyses(study_plan: Plan, finished: Iterable[str]) -> tuple[dict[str, Step], dict[str, str]]:
    """The steps that analyse the finished translations.

    Args:
        study_plan: the plan.
        finished: names of the finished steps.

    Returns:
        Name -> step, and analysis -> why it is not possible.
    """
    done = set(finished)
    steps: dict[str, Step] = {}
    missing: dict[str, str] = {}
    for name, analysis in study_plan.recipe.analyses.items():
        runs = [
            run
            for run in study_plan.runs
            if analysis.test in run.translations and analysis.includes(run.system, run.training)
        ]
        finished_runs = [run for run in runs if run.translations[analysis.test] in done]
        if not finished_runs:
            missing[name] = (
                "none of its translations was made" if runs else f"it is not part of scale {study_plan.scale}"
            )
            continue
        prepared = study_plan.steps[runs[0].train].needs["prepared"]
        steps[name] = _analysis(study_plan, name, analysis, finished_runs, prepared)
    return steps, missing


def _analysis(study_plan: Plan, name: str, analysis: Analysis, runs: list[PlannedRun], prepared: str) -> Step:
    """The step that analyses the translations of several runs together, by the subwords of the step `prepared`."""
    recipe, scale = study_plan.recipe, study_plan.scale
    needs = {"test": study_plan.tests[analysis.test][""], "prepared": prepared}
    if analysis.bins == "parts":
        needs["parts"] = study_plan.steps[prepared].needs["train"]
    subword = _subword(study_plan, prepared)
    outputs: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        needs |= {f"output-{number}": run.translations[analysis.test], f"run-{number}": run.train}
        label = recipe.label((run.system, run.training), analysis.trainings)
        own = _subword(study_plan, study_plan.steps[run.train].needs["prepared"])
        other = {} if own == subword else {"other_subwords": True}
        outputs.append({"label": label, "system": run.system, "training": run.training, "seed": run.seed, **other})
    settings = {
        "outputs": outputs,
        "seeds": max(recipe.seeds((run.system, run.training), scale) for run in runs),
        "shares": recipe.tests[analysis.test].swap,
        "text": analysis.text_at(scale),
        "bins": analysis.bins if analysis.bins in (None, "parts") else at(analysis.bins, scale),
        "metrics": analysis.metrics,
        "bleu_tokenizer": at(analysis.bleu_tokenizer, scale),
        **({"target_language": study_plan.pair.target} if analysis.text_at(scale) == "words" else {}),
        **({"completeness": study_plan.pair.model_dump()} if analysis.completeness else {}),
        **({"documents": True} if has_documents(recipe, recipe.tests[analysis.test], scale) else {}),
        **in_key(metrics_of(analysis), study_plan.parts),
    }
    return Step(f"analyse/{name}", "analyse", settings, needs, {}, study_plan.setting.resources.of("analyse"))


@dataclass(frozen=True)
class AdoptedLosses:
    """The losses of a likelihood that were taken over from a published copy.

    Attributes:
        rows: the key of the training of each model, and the positions that were changed for it, if they were.
        keys: training step of this study -> its key.
        files: design -> the file of losses, with a row for each model.
    """

    rows: Sequence[tuple[str, Mapping[str, Any] | None]]
    keys: Mapping[str, str]
    files: Mapping[str, Path]

    def row(self, train: str, positions: Mapping[str, Any] | None) -> int | None:
        """The row of a training step with these positions; None if there is none."""
        return next((row for row, each in enumerate(self.rows) if each == (self.keys[train], positions)), None)


def likelihoods(
    study_plan: Plan, finished: Iterable[str], adopted: Mapping[str, AdoptedLosses] | None = None
) -> tuple[dict[str, Step], dict[str, str]]:
    """The steps that score references with the finished trainings.

    Args:
        study_plan: the plan.
        finished: names of the finished steps, without trainings whose weights are not in this study's folder.
        adopted: likelihood -> losses of trainings without weights.

    Returns:
        Name -> step, and likelihood -> why it is not possible.
    """
    done = set(finished)
    steps: dict[str, Step] = {}
    missing: dict[str, str] = {}
    here = study_plan.recipe.likelihoods_at(study_plan.scale)
    for name, likelihood in study_plan.recipe.likelihoods.items():
        runs = _scored(study_plan, likelihood) if name in here else []
        taken = (adopted or {}).get(name)
        models: list[tuple[PlannedRun, int | None]] = []
        for run in runs:
            row = None if taken is None else taken.row(run.train, _positions(study_plan, run))
            if run.train in done or row is not None:
                models.append((run, None if run.train in done else row))
        if not runs:
            missing[name] = f"it is not part of scale {study_plan.scale}"
            continue
        first = (runs[0].system, runs[0].training)
        baseline = first if likelihood.baseline is None else likelihood.variant(likelihood.baseline)
        if all((run.system, run.training) != baseline for run, _ in models):
            label = study_plan.recipe.label(baseline, likelihood.trainings)
            missing[name] = f"no training of {label} is finished with its weights here"
        else:
            steps[name] = _likelihood(study_plan, name, likelihood, models, baseline, taken)
    return steps, missing


def labels(study_plan: Plan, likelihood: Likelihood) -> dict[tuple[str, str], str]:
    """System and training -> its name in a likelihood."""
    variants = [(run.system, run.training) for run in _scored(study_plan, likelihood)]
    return {variant: study_plan.recipe.label(variant, likelihood.trainings) for variant in variants}


def _scored(study_plan: Plan, likelihood: Likelihood) -> list[PlannedRun]:
    """The runs whose models a likelihood scores."""
    return [run for run in study_plan.runs if likelihood.includes(run.system, run.training)]


def _positions(study_plan: Plan, run: PlannedRun) -> dict[str, Any] | None:
    """The positions that a run's system changes for the search; None if it changes none."""
    config = train_config(study_plan.recipe, study_plan.scale, run.system, run.training, run.seed)
    positions: dict[str, Any] | None = config.get("decode", {}).get("positions")
    return positions


def _likelihood(
    study_plan: Plan,
    name: str,
    likelihood: Likelihood,
    runs: Sequence[tuple[PlannedRun, int | None]],
    baseline: tuple[str, str],
    adopted: AdoptedLosses | None,
) -> Step:
    """The step that scores the references of a test with several runs.

    Args:
        runs: the runs, each with its row in the losses that were taken over; None: it is scored here.
        adopted: the losses that were taken over.
    """
    recipe = study_plan.recipe
    needs = {"test": study_plan.tests[likelihood.test][runs[0][0].training]}
    files: dict[str, Path] = {}
    models: list[dict[str, Any]] = []
    for number, (run, row) in enumerate(runs):
        positions = _positions(study_plan, run)
        changed = {} if positions is None else {"positions": positions}
        label = recipe.label((run.system, run.training), likelihood.trainings)
        models.append({"system": label, "seed": run.seed, **changed})
        if row is None or adopted is None:
            needs[f"run-{number}"] = run.train
        else:
            models[-1] |= {"row": row, "train": adopted.keys[run.train]}
            files |= adopted.files
    settings = {"models": models, "baseline": recipe.label(baseline, likelihood.trainings), "swap": likelihood.swap}
    settings |= {} if likelihood.shift is None else {"shift": likelihood.shift}  # so that keys without it stay
    resources = study_plan.setting.resources.of("likelihood")
    return Step(f"likelihood/{name}", "likelihood", settings, needs, files, resources)


def _subword(study_plan: Plan, prepared: str) -> Any:
    """The subword settings of a `prepare` step, without `pairs`, which does not change the subwords."""
    settings = study_plan.steps[prepared].settings["config"].get("subword", {})
    return {name: value for name, value in settings.items() if name != "pairs"}
