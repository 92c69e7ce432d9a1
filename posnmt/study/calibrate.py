"""Estimates of the time and disk space of a study, from a few updates and translations of every system on this machine.

Times are for one core, or for one GPU if there is one. They are measured on random sentences of average length, so
expect them to be off by up to a factor of two. If a speed is stated, nothing is timed, and all systems have this speed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posnmt.config.yaml import merge
from posnmt.study.plan import Plan
from posnmt.study.speed import synchronise
from posnmt.study.trainings import resolved
from posnmt.study.workflow.graph import Step

if TYPE_CHECKING:
    from torch.nn import Module

# Subwords per sentence, and tokens per timed batch: large enough for a representative speed of matrix products.
LENGTH, TOKENS = 25, 1024
BYTES_OF_A_TOKEN = 5


@dataclass(frozen=True)
class Speed:
    """The speed of one configuration of a model on this machine, in training or in translation.

    Attributes:
        seconds: of training per target token, or of translation per source subword.
        parameters: number of parameters.
    """

    seconds: float
    parameters: int


@dataclass(frozen=True)
class Cost:
    """The seconds that a step takes (None: unknown), the target tokens that it trains on, and its disk space in GiB."""

    seconds: float | None = 5.0
    tokens: float = 0.0
    disk: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """The hours that some steps take (None: unknown), and their disk space in GiB."""

    hours: float | None
    disk: float


def measure(tree: Mapping[str, Any], trains: bool) -> Speed:
    """Time three updates of a configuration, or one batch of translations, with one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measure(tree, trains)
    finally:
        torch.set_num_threads(threads)


def stated(tree: Mapping[str, Any], trains: bool, tokens_per_second: float) -> Speed:
    """The speed of a configuration that trains at a stated speed.

    Translation is assumed to take as long for a source token of one hypothesis as training takes for a target token.
    """
    import torch

    from posnmt.data.subword import SPECIALS
    from posnmt.model.registry import build_model

    config = resolved(merge({"train": {"steps": 1}}, dict(tree)))  # a configuration must have a limit of training
    vocabulary = config.subword.vocabulary + SPECIALS
    with torch.device("meta"):
        model = build_model(config.model, vocabulary, vocabulary)
    seconds = 1 / tokens_per_second
    return Speed(seconds if trains else config.decode.beam * seconds, _size(model))


def _size(model: Module) -> int:
    """The number of parameters of a model."""
    return sum(weights.numel() for weights in model.parameters())


def _measure(tree: Mapping[str, Any], trains: bool) -> Speed:
    """`measure`, with the current number of threads."""
    import torch

    from posnmt.config.schema import Decode
    from posnmt.data.subword import SPECIALS
    from posnmt.model.registry import build_model
    from posnmt.training.device import make_fabric
    from posnmt.training.loss import TrainingLoss
    from posnmt.training.optimizer import make_optimizer
    from posnmt.translate.subwords import translate_subwords

    config = resolved(merge({"train": {"steps": 1}}, dict(tree)))  # a configuration must have a limit of training
    vocabulary = config.subword.vocabulary + SPECIALS
    torch.manual_seed(0)
    fabric = make_fabric(config.train)
    model = build_model(config.model, vocabulary, vocabulary)
    rows = TOKENS // LENGTH
    words = torch.randint(SPECIALS, vocabulary, (rows, LENGTH), device=fabric.device)
    if not trains:
        sources = [row.tolist() for row in words]
        decode = Decode(beam=config.decode.beam, max_ratio=1.0, max_extra=0)
        model = model.to(fabric.device).eval()
        translated = _seconds(lambda: translate_subwords([model], sources, decode, fabric.device), 1, fabric.device)
        return Speed(translated / (rows * LENGTH), _size(model))
    loss_of, optimizer = fabric.setup(
        TrainingLoss(model, config.train.label_smoothing), make_optimizer(model, config.train)
    )
    lengths = torch.full((rows,), LENGTH, device=fabric.device)

    def update() -> None:
        loss, _ = loss_of(words, lengths, words, words)
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()

    return Speed(_seconds(update, 3, fabric.device) / (rows * LENGTH), _size(model))


def _seconds(work: Callable[[], object], times: int, device: Any) -> float:
    """Mean seconds per call of `work`, after one call to warm up."""
    work()
    began = time.perf_counter()
    for _ in range(times):
        work()
    synchronise(device)
    return (time.perf_counter() - began) / times


def costs(study_plan: Plan, say: Callable[[str], None], tokens_per_second: float | None = None) -> dict[str, Cost]:
    """Step -> its cost. Analyses count as two minutes each.

    Args:
        study_plan: the plan.
        say: called with the name of the system that is being timed.
        tokens_per_second: target tokens that one core trains on in a second; None: the systems are timed.
    """
    speeds: dict[str, Speed] = {}
    lines = _corpus_lines(study_plan)
    step_costs: dict[str, Cost] = {}
    for step in study_plan.steps.values():
        config = _config_of(study_plan, step)
        if config is None:
            step_costs[step.name] = Cost()
            continue
        trains = step.kind == "train"
        sections = ("model", "subword", *(() if trains else ("decode",)))
        key = step.kind + json.dumps({name: config[name] for name in sections if name in config}, sort_keys=True)
        if key not in speeds:
            if tokens_per_second is None:
                say(f"timing {step.name.split('/')[1]}, {'updates' if trains else 'translations'}")
            speeds[key] = (
                measure(config, trains) if tokens_per_second is None else stated(config, trains, tokens_per_second)
            )
        speed = speeds[key]
        if trains:
            step_costs[step.name] = _training(config, speed, lines.get(step.needs["train"]))
        else:
            sentences = lines.get(step.needs["test"])
            seconds = None if sentences is None else sentences * LENGTH * speed.seconds
            step_costs[step.name] = Cost(seconds, disk=(sentences or 0) * LENGTH * BYTES_OF_A_TOKEN / 2**30)
    return step_costs | {f"analyse/{name}": Cost(120.0, disk=0.02) for name in study_plan.recipe.analyses}


def total(step_costs: Sequence[Cost]) -> Estimate:
    """The sum of some costs; the hours are unknown if any are."""
    seconds = [cost.seconds for cost in step_costs]
    hours = None if None in seconds else sum(each or 0.0 for each in seconds) / 3600
    return Estimate(hours, sum(cost.disk for cost in step_costs))


def _config_of(study_plan: Plan, step: Step) -> dict[str, Any] | None:
    """The configuration of the model that a step trains or translates with; None for other steps."""
    if step.kind == "train":
        return dict(step.settings["config"])
    if step.kind != "translate":
        return None
    config = dict(study_plan.steps[step.needs["run"]].settings["config"])
    return {**config, "decode": step.settings["search"]} if "search" in step.settings else config


def _training(config: Mapping[str, Any], speed: Speed, pairs: int | None) -> Cost:
    """The cost of a training; its time is unknown if it is limited by epochs of a text whose size is unknown."""
    settings = {"batch": 4096, **config["train"]}
    disk = 4.0 * speed.parameters * 3 / 2**30
    if settings.get("minutes"):
        seconds = 60.0 * float(settings["minutes"])
        return Cost(seconds, seconds / speed.seconds, disk)
    of_update = (
        settings["batch"] * (LENGTH if settings.get("batch_unit") == "sentences" else 1) * settings.get("accumulate", 1)
    )
    if settings.get("steps"):
        tokens = float(settings["steps"] * of_update)
    elif pairs is not None:
        tokens = float(settings["epochs"] * pairs * LENGTH)
    else:
        return Cost(None, disk=disk)
    return Cost(tokens * speed.seconds, tokens, disk)


def _corpus_lines(study_plan: Plan) -> dict[str, int]:
    """Step -> number of lines of its text, where they can be counted before the step has run."""
    from posnmt.data.corpus import TextFile, open_text

    lines: dict[str, int] = {}
    for step in study_plan.steps.values():
        if step.kind == "part-of-artificial":
            counted = getattr(study_plan.setting.artificial, step.settings["name"].removesuffix("-long"), None)
            lines[step.name] = counted or 1000
        elif step.kind == "corpus" and not step.needs:
            total = 0
            for number, piece in enumerate(step.settings["texts"]):
                with open_text(TextFile("corpus", Path(step.files[f"{number}.source"]))) as stream:
                    count = sum(1 for _ in stream)
                first, last = piece.get("lines") or (1, count)
                count = min(last, count) - first + 1
                total += min(count, piece["take"] or count)
            lines[step.name] = total
    for step in study_plan.steps.values():
        for role in ("text", "test"):
            if step.name not in lines and step.needs.get(role) in lines:
                copies = 1 + len(step.settings.get("shares", []))
                lines[step.name] = lines[step.needs[role]] * copies // step.settings.get("sentences", 1)
    return lines
