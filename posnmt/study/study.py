"""Run a study from its recipe to its report: plan, run, analyse, decide the claims, and write the report."""

from __future__ import annotations

import fnmatch
import json
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from posnmt.base.errors import UserError, raise_all
from posnmt.base.files import load_json, read_json, sha256_of
from posnmt.base.output import write_json
from posnmt.base.version import FORMAT, __version__, check_format, version_of
from posnmt.run.run import Part, changed_parts, read_record
from posnmt.study import database, evidence, likelihood, speed
from posnmt.study.adopt import adopt, discard_weightless, weightless
from posnmt.study.blocks import recorded
from posnmt.study.copied import Copy
from posnmt.study.copied_losses import adopt_losses, adopted_losses
from posnmt.study.faults import Faults
from posnmt.study.loss import ScoredText
from posnmt.study.measured import StudyResults
from posnmt.study.page import render
from posnmt.study.parts import parts_of
from posnmt.study.plan import KINDS, SPEED, AdoptedLosses, Plan, PlannedRun, analyses, labels, likelihoods, plan
from posnmt.study.recipe import Recipe, Scale
from posnmt.study.recommend import recommend
from posnmt.study.registration import history, register
from posnmt.study.steps import SIDES, store_of, training_speed
from posnmt.study.verdict import Rules, corrected, decide
from posnmt.study.workflow import runner, status
from posnmt.study.workflow.executors import LOCAL, Where
from posnmt.study.workflow.folder import alteration
from posnmt.study.workflow.graph import Graph, Step, with_needs

Say = Callable[[str], None]


class _Request(TypedDict):
    """What `posnmt study run` was given."""

    recipe: Recipe
    scale: Scale
    data: str | None
    format: int
    plugins: list[Part]


REQUEST = "asked.json"
LAST = ("analyse", "likelihood")
"""The kinds of the last steps, whose files the report is made from."""


def run(
    recipe: Recipe,
    scale: Scale,
    data: Path | None,
    out: Path,
    where: Where = LOCAL,
    say: Say = lambda message: None,
    only: Sequence[str] = (),
    minutes: float | None = None,
    adopted: Path | None = None,
) -> runner.Summary:
    """Run all unfinished steps, then write the report of the finished ones.

    Test texts are made first; if one of them fails, nothing else is run.

    Args:
        recipe, scale, data: see `plan`.
        out: the study's folder.
        where: the executor, and how many steps it runs at a time.
        say: called with progress lines.
        only: patterns of step names. Steps that match one are run, with those that they need; all others are left for
            later. Empty: all steps.
        minutes: to stop after, as on a signal; None: no limit.
        adopted: the folder of a published copy; its finished trainings are taken over instead of being run.

    Raises:
        UserError: the folder is that of another study, files are missing, or a pattern matches no step.
        KeyboardInterrupt: a signal or the end of the minutes stopped the run; all state is saved.
    """
    until = None if minutes is None else time.monotonic() + 60 * minutes
    study_plan = plan_in(out, recipe, scale, data, say)
    selected = chosen(study_plan.steps, only)
    copy = None if adopted is None else Copy(adopted)
    runner.check_study(out, recipe.recipe)  # before the lock puts a file into the folder
    with runner.only_runner(out):
        runner.open_study(out, recipe.recipe, recipe.hash)
        save_request(study_plan, out)
        for line in register(study_plan, out, copy):
            say(line)
        for line in (*adopt(study_plan, out, copy), *adopt_losses(study_plan, out, copy)) if copy is not None else ():
            say(line)
        for line in discard_weightless(study_plan, out, [step.name for step in selected]):
            say(line)
    # Test texts are made first, so that no hours of training are spent on a study whose tests cannot be translated.
    named = {steps[""] for steps in study_plan.tests.values()}
    needed = with_needs(study_plan.steps, [step.name for step in selected if step.name in named])
    texts = [step for step in selected if step.name in needed]
    if texts and (of_texts := runner.run(Graph(texts, KINDS), out, where, say, until=until)).failed:
        say("nothing is trained before the test texts are made")
        return of_texts
    first = runner.run(Graph(seed_by_seed(study_plan, selected), KINDS), out, where, say, until=until)
    graph, _ = with_analyses(study_plan, out)
    last = runner.run(_ready_analyses(graph, out) if only else graph, out, where, say, retry=False, until=until)
    summary = runner.Summary({**first.states, **last.states}, [*first.finished, *last.finished])
    try:
        report(study_plan, out, say)
    except UserError as error:
        if not summary.failed and not only:
            raise
        say(error.line())  # its cause, a failed step, has been reported; or no analysis was asked for
    return summary


def seed_by_seed(study_plan: Plan, steps: Iterable[Step]) -> list[Step]:
    """Steps in the order in which they should run: all systems with the first seed, then all with the second.

    So an unfinished study compares all systems, with fewer seeds. Steps without a seed, such as texts, come first.
    Speeds are measured at the end.
    """
    seeds = {step: run.seed for run in study_plan.runs for step in (run.train, *run.translations.values())}
    last = 1 + max(seeds.values(), default=0)
    return sorted(steps, key=lambda step: last if step.kind == "speed" else seeds.get(step.name, 0))


def chosen(steps: Mapping[str, Step], only: Sequence[str]) -> list[Step]:
    """The steps whose names match one of the patterns, and the steps that these need; without patterns, all steps.

    Raises:
        UserError: a pattern matches no step.
    """
    for pattern in only:
        if not fnmatch.filter(steps, pattern):
            todo = "`posnmt study status` shows all names; analyses are made of all that is translated"
            raise UserError(f"no step is called like {pattern!r}", "--only", todo)
    matching = (name for name in steps if any(fnmatch.fnmatchcase(name, pattern) for pattern in only))
    needed = with_needs(steps, matching if only else steps)
    return [step for name, step in steps.items() if name in needed]


def _ready_analyses(graph: Graph, out: Path) -> Graph:
    """The analyses and likelihoods whose translations and trainings are finished, and the texts that they need."""
    done = set(finished(graph, out))

    def is_ready(step: Step) -> bool:
        outputs = (name for name in step.needs.values() if graph.steps[name].kind in ("train", "translate"))
        return step.kind in LAST and done.issuperset(outputs)

    needed = with_needs(graph.steps, [name for name, step in graph.steps.items() if is_ready(step)])
    return Graph([step for name, step in graph.steps.items() if name in needed], KINDS)


def save_request(study_plan: Plan, out: Path) -> None:
    """Save recipe, scale and data in the study's folder, so that `load_plan` needs nothing else."""
    request = {
        "format": FORMAT,
        "recipe": study_plan.recipe.model_dump(mode="json", by_alias=True),
        "scale": study_plan.scale,
        "data": None if study_plan.data is None else str(study_plan.data.resolve()),
        "plugins": [*study_plan.parts],
    }
    write_json(out / REQUEST, request)


def plan_in(out: Path, recipe: Recipe, scale: Scale, data: Path | None, say: Say) -> Plan:
    """The plan of a recipe in a study's folder.

    Args:
        say: called with a line for each plug-in that has changed since the last run.

    Raises:
        UserError: see `plan`; a plug-in cannot be imported.
    """
    parts = parts_of(recipe, scale)
    before = _request(out)["plugins"] if parts and (out / REQUEST).exists() else []
    for part in parts:
        steps = "analyses" if part.kind == "metric" else "trainings"
        for change in changed_parts(before, [part]):
            say(f"{change}: {steps} with it are run again")
    return plan(recipe, scale, data, [asdict(part) for part in parts])


def load_plan(out: Path) -> Plan:
    """The plan of the study in a folder, as of its last run.

    Raises:
        UserError: the folder has no study.
    """
    if not (out / REQUEST).exists():
        raise UserError("no study was run here", out, "name the folder that `posnmt study run` was given as --out")
    request = _request(out)
    raise_all(list(Faults(request["recipe"], out / REQUEST, {}).names()))
    data = None if request["data"] is None else Path(request["data"])
    return plan(request["recipe"], request["scale"], data, request["plugins"])


def _request(out: Path) -> _Request:
    """What `save_request` saved.

    Raises:
        UserError: it is damaged.
    """
    check_format((read_json(out / REQUEST) or {}).get("format", FORMAT), out / REQUEST)
    todo = "restore it, or remove it and run `posnmt study run` again"
    return load_json(out / REQUEST, _Request, "the study's request", todo)


def with_analyses(study_plan: Plan, out: Path) -> tuple[Graph, dict[str, str]]:
    """The graph with the analyses and likelihoods of what is finished; and for each that is not possible, why.

    Returns:
        The graph, and step -> the reason.
    """
    graph = Graph(study_plan.steps.values(), KINDS)
    done = finished(graph, out)
    here = [name for name in done if not weightless(graph.folder(out, name))]
    return _with_last(study_plan, done, here, adopted_losses(study_plan, out))


def complete_graph(study_plan: Plan) -> Graph:
    """The graph with the analyses and likelihoods of all translations and trainings, finished or not."""
    return _with_last(study_plan, study_plan.steps, study_plan.steps, {})[0]


def _with_last(
    study_plan: Plan, done: Iterable[str], with_weights: Iterable[str], losses: Mapping[str, AdoptedLosses]
) -> tuple[Graph, dict[str, str]]:
    """The same of some translations, and of some trainings that have their weights, or losses taken over."""
    analysed, unanalysed = analyses(study_plan, done)
    scored, unscored = likelihoods(study_plan, with_weights, losses)
    missing = {f"analyse/{name}": why for name, why in unanalysed.items()}
    missing |= {f"likelihood/{name}": why for name, why in unscored.items()}
    return Graph([*study_plan.steps.values(), *analysed.values(), *scored.values()], KINDS), missing


def finished(graph: Graph, out: Path) -> list[str]:
    """The steps that are done and unaltered."""
    return [name for name in graph.order() if status.finished(graph, out, name)]


def altered(study_plan: Plan, out: Path) -> dict[str, status.State]:
    """Step -> state, for the finished steps whose files have changed.

    Files of analyses and likelihoods, which the report is made from, are always hashed. Files of other steps are
    hashed only if their size or modification time differs.
    """
    states: dict[str, status.State] = {}
    for graph in (complete_graph(study_plan), with_analyses(study_plan, out)[0]):
        for name, state in status.states(graph, out).items():
            if state.state == "altered":
                states[name] = state
            elif state.state == "done" and graph.steps[name].kind in LAST:
                folder = graph.folder(out, name)
                if (what := alteration(folder, thorough=True)) is not None:
                    states[name] = status.altered(name, folder, what)
    return states


def report(study_plan: Plan, out: Path, say: Say = lambda message: None) -> Path:
    """Write results.sqlite and the report of all finished and unaltered steps; return the report's path.

    Raises:
        UserError: no analysis is finished.
    """
    results = results_of(study_plan, out, say)
    database.write(out, study_plan.recipe.recipe, study_plan.scale, results.runs, results.analyses)
    say("drawing")
    render(results, out)
    return out / "report.html"


def results_of(study_plan: Plan, out: Path, say: Say = lambda message: None) -> StudyResults:
    """All that the report shows, from the finished and unaltered steps of a study.

    Raises:
        UserError: no analysis is finished.
    """
    graph, impossible = with_analyses(study_plan, out)
    folders = {name: graph.folder(out, name) for name in finished(graph, out)}
    altered_steps = altered(study_plan, out)
    unaltered = {step: folder for step, folder in folders.items() if step not in altered_steps}
    because = impossible | _altered_needs(study_plan, altered_steps)
    ready, missing = _by_name("analyse", study_plan.recipe.analyses, unaltered, because)
    asked = study_plan.recipe.likelihoods_at(study_plan.scale)
    scored, unscored = _by_name("likelihood", asked, unaltered, because)
    if not ready:
        again = "run it first, without --only"
        todo = f"restore {', '.join(altered_steps)}, which was altered" if altered_steps else again
        raise UserError("no analysis of this study is finished, so there is nothing to report", out, todo)
    say("deciding the claims")
    of_analyses = {name: evidence.load(folder) for name, folder in ready.items()}
    speeds = speed.load(folders[SPEED]) if SPEED in folders and SPEED not in altered_steps else None
    read = {name: likelihood.read(folder) for name, folder in scored.items()}
    rules = rules_of(study_plan, speeds, folders, _scored_texts(study_plan, read))
    claims, section = study_plan.recipe.claims_at(study_plan.scale), study_plan.recipe.recommend
    states = status.states(graph, out)
    return StudyResults(
        recipe=study_plan.recipe,
        scale=study_plan.scale,
        runs=[_run(each, graph.key(each.train), states[each.train], folders) for each in study_plan.runs],
        analyses=ready,
        missing=missing,
        corpora=_corpora(study_plan, folders),
        parts=_parts(study_plan, folders),
        verdicts=corrected([decide(claim, of_analyses, rules) for claim in claims]),
        registration=history(study_plan, out),
        versions={"posnmt": __version__, "PyTorch": version_of("torch"), "Python": platform.python_version()},
        recommendation=None if section is None else recommend(study_plan.recipe, section, of_analyses, rules),
        speeds=speeds or {},
        texts={test: folders[steps[""]] for test, steps in study_plan.tests.items() if steps[""] in folders},
        translations={
            (each.system, each.training, each.seed, test): folders[step]
            for each in study_plan.runs
            for test, step in each.translations.items()
            if step in folders
        },
        likelihoods=read,
        unscored=unscored,
    )


def _by_name(
    kind: str, names: Iterable[str], folders: Mapping[str, Path], because: Mapping[str, str]
) -> tuple[dict[str, Path], dict[str, str]]:
    """Name -> folder of the analyses or likelihoods that are there, and name -> the reason for those that are missing.

    Args:
        kind: `analyse` or `likelihood`.
        names: of the analyses or likelihoods of the recipe.
        folders: of finished and unaltered steps.
        because: step -> why it is missing, where that is known.
    """
    steps = {name: f"{kind}/{name}" for name in names}
    present = {name: folders[step] for name, step in steps.items() if step in folders}
    missing = {
        name: because.get(step, "it failed, or was not made yet") for name, step in steps.items() if name not in present
    }
    return present, missing


def _scored_texts(study_plan: Plan, likelihoods: Mapping[str, likelihood.Likelihood]) -> dict[str, ScoredText]:
    """Likelihood -> the data that decide claims on it, for the finished ones."""
    return {
        name: ScoredText(
            None if each.report is None else each.report.effects,
            labels(study_plan, study_plan.recipe.likelihoods[name]),
        )
        for name, each in likelihoods.items()
    }


def rules_of(
    study_plan: Plan,
    speeds: Mapping[speed.Variant, speed.Speeds] | None,
    folders: Mapping[str, Path],
    scored: Mapping[str, ScoredText] | None = None,
) -> Rules:
    """How the claims of a study are decided.

    Args:
        speeds: those that were measured in turn.
        folders: of the finished steps.
        scored: likelihood -> its losses, for the finished ones.
    """
    recipe = study_plan.recipe
    return Rules(
        recipe.variant,
        study_plan.scale,
        label=lambda text: recipe.label(recipe.variant(text)),
        seeds=lambda variant: recipe.seeds(variant, study_plan.scale),
        floor=study_plan.setting.floor,
        exempt={name for name, system in recipe.systems.items() if system.without},
        speeds=speeds,
        joined=recipe.joined(),
        trainings=recorded([run for run in study_plan.runs if run.train in folders], folders),
        scored=scored or {},
    )


def _altered_needs(study_plan: Plan, altered_steps: Mapping[str, status.State]) -> dict[str, str]:
    """Why analyses and likelihoods are missing that were altered or need an altered step: step -> reason."""
    every = complete_graph(study_plan).steps

    def first(name: str) -> str | None:
        return name if name in altered_steps else next(filter(None, map(first, every[name].needs.values())), None)

    last = [name for name, step in every.items() if step.kind in LAST]
    return {name: f"{need} was altered" for name in last if (need := first(name))}


def _run(planned: PlannedRun, key: str, state: status.State, folders: dict[str, Path]) -> dict[str, Any]:
    """The facts about one training for the report and the database.

    Args:
        key, state: of its step.
        folders: of the finished steps.
    """
    unknown = ("parameters", "training_speed", "seconds", "updates", "source_lengths", "longest_pair", "processor")
    facts: dict[str, Any] = {
        "system": planned.system,
        "training": planned.training,
        "seed": planned.seed,
        "state": state.state,
        "error": state.line if state.state in status.UNSUCCESSFUL else None,
        **dict.fromkeys(unknown),
        "run": key,
        "decoding_speed": {},
    }
    if (folder := folders.get(planned.train)) is None:
        return facts
    record = read_record(folder / "run")
    lengths = record["training_lengths"]
    facts |= {
        "config": sha256_of(folder / "run" / "config.yaml"),
        "posnmt": record["posnmt"],
        "parameters": record["parameters"],
        "training_speed": training_speed(folder / "run"),
        "seconds": record.get("seconds"),
        "updates": record.get("steps"),
        "source_lengths": [lengths["source"]["shortest"], lengths["source"]["longest"]],
        "longest_pair": max(side["longest"] for side in lengths.values()),
        "processor": record["machine"]["processor"],
    }
    for test, name in planned.translations.items():
        if name in folders:
            speed = json.loads((folders[name] / "speed.json").read_text())["output"]
            facts["decoding_speed"][test] = speed["source_subwords"] / speed["seconds"]
    return facts


def _corpora(study_plan: Plan, folders: dict[str, Path]) -> dict[str, dict[str, Any]]:
    """Pairs and lengths, in subwords, of every training text, of dev and of every test text."""
    from posnmt.data.store import Store

    corpora: dict[str, dict[str, Any]] = {}
    for training in study_plan.recipe.trainings:
        if (step := f"prepare/{training}") not in folders:
            continue
        store = Store.open(store_of(folders[step]))
        for name, split in ((f"training, {training}", "train"), ("dev", "dev")):
            lengths = store.split(split)
            corpora.setdefault(name, _lengths(lengths.source_lengths.tolist(), lengths.target_lengths.tolist()))
        for test, steps in study_plan.tests.items():
            if test not in corpora and steps[""] in folders:
                sides = [(folders[steps[""]] / side).read_text(encoding="utf-8") for side in SIDES]
                of_sides = zip((store.text.source, store.text.target), sides, strict=True)
                corpora[test] = _lengths(
                    *([len(row) for row in side.encode(text.removesuffix("\n").split("\n"))] for side, text in of_sides)
                )
    return corpora


def _lengths(source: list[int], target: list[int]) -> dict[str, Any]:
    """The facts about a corpus for the report, from the lengths of its lines."""
    return {
        "pairs": len(source),
        "source_tokens": sum(source),
        "target_tokens": sum(target),
        "lengths": {"source": dict(sorted(Counter(source).items()))},
    }


def _parts(study_plan: Plan, folders: dict[str, Path]) -> dict[str, dict[str, Any]]:
    """Training -> the statistics of the part of the training text that it uses."""
    parts = {}
    for name, definition in study_plan.recipe.trainings.items():
        prepared = study_plan.steps.get(f"prepare/{name}")
        if definition.part and prepared is not None and (step := prepared.needs["train"]) in folders:
            manifest = json.loads((folders[step] / "manifest.json").read_text(encoding="utf-8"))
            parts[name] = list(manifest["statistics"]["parts"].values())[definition.part.take - 1]
    return parts
