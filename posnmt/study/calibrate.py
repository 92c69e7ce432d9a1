"""Estimates of the time and disk space of a study on this machine, from a few updates and translations of every system.

Times are for one core, or for one GPU if there is one. They are measured on random sentences of average length, so
expect them to be off by up to a factor of two.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posnmt.study.plan import Plan
from posnmt.workflow.graph import Step

# Subwords per sentence, and tokens per timed batch: large enough for a representative speed of matrix products.
LENGTH, TOKENS = 25, 1024
BYTES_OF_A_TOKEN = 5


@dataclass(frozen=True)
class Speed:
    """The speed of one configuration of a model on this machine.

    Attributes:
        update: seconds of training per target token.
        translation: seconds of translation per source subword.
        parameters: number of parameters.
    """

    update: float
    translation: float
    parameters: int


@dataclass(frozen=True)
class Estimate:
    """The number of steps of one kind, their hours of work (None: unknown), and their disk space in GiB."""

    steps: int
    hours: float | None
    disk: float


def measure(tree: Mapping[str, Any]) -> Speed:
    """Time three updates and one batch of translations of a configuration, with one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _measure(tree)
    finally:
        torch.set_num_threads(threads)


def _measure(tree: Mapping[str, Any]) -> Speed:
    """The same with the current number of threads."""
    import torch

    from posnmt.config.schema import Decode
    from posnmt.config.yaml import merge
    from posnmt.data.subword import SPECIALS
    from posnmt.model.registry import build_model
    from posnmt.resolve import from_tree
    from posnmt.train.device import make_fabric
    from posnmt.train.loss import TrainingLoss
    from posnmt.train.optimizer import make_optimizer
    from posnmt.translate.translator import translate_subwords

    corpora = {"train": {"source": "-", "target": "-"}, "dev": {"source": "-", "target": "-"}}
    config = from_tree(merge({"train": {"steps": 1}, "data": corpora}, dict(tree)))
    vocabulary = config.subword.vocabulary + SPECIALS
    torch.manual_seed(0)
    fabric = make_fabric(config.train)
    model = build_model(config.model, vocabulary, vocabulary)
    loss_of, optimizer = fabric.setup(
        TrainingLoss(model, config.train.label_smoothing), make_optimizer(model, config.train)
    )
    rows = TOKENS // LENGTH
    words = torch.randint(SPECIALS, vocabulary, (rows, LENGTH), device=fabric.device)
    lengths = torch.full((rows,), LENGTH, device=fabric.device)

    def update() -> None:
        loss, _ = loss_of(words, lengths, words, words)
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()

    trained = _seconds(update, 3, fabric.device) / (rows * LENGTH)
    sources = [row.tolist() for row in words]
    decode = Decode(beam=config.decode.beam, max_ratio=1.0, max_extra=0)
    translated = _seconds(lambda: translate_subwords([model.eval()], sources, decode, fabric.device), 1, fabric.device)
    return Speed(trained, translated / (rows * LENGTH), sum(weights.numel() for weights in model.parameters()))


def _seconds(work: Callable[[], object], times: int, device: Any) -> float:
    """Mean seconds per call of `work`, after one call to warm up."""
    import torch

    work()
    began = time.perf_counter()
    for _ in range(times):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - began) / times


def estimate(study_plan: Plan, say: Callable[[str], None]) -> dict[str, Estimate]:
    """Kind of step -> its estimate. Analyses count as two minutes each.

    Args:
        study_plan: the plan.
        say: called with the name of the system that is being timed.
    """
    speeds: dict[str, Speed] = {}
    lines = _corpus_lines(study_plan)
    hours: dict[str, float | None] = {}
    disk: dict[str, float] = {}
    counts: dict[str, int] = {}
    for step in study_plan.steps.values():
        config = _config_of(study_plan, step)
        seconds: float | None = 5.0
        size = 0.0
        if config is not None:
            key = json.dumps(
                {name: config[name] for name in ("model", "subword", "decode") if name in config}, sort_keys=True
            )
            if key not in speeds:
                say(f"timing {step.name.split('/')[1]}")
                speeds[key] = measure(config)
            speed = speeds[key]
            if step.kind == "train":
                seconds = _training(config, speed, lines.get(study_plan.steps[step.needs["train"]].name))
                size = 4.0 * speed.parameters * 3
            else:
                sentences = lines.get(step.needs["test"])
                seconds = None if sentences is None else sentences * LENGTH * speed.translation
                size = (sentences or 0) * LENGTH * BYTES_OF_A_TOKEN
        counts[step.kind] = counts.get(step.kind, 0) + 1
        before = hours.get(step.kind, 0.0)
        hours[step.kind] = None if seconds is None or before is None else before + seconds / 3600
        disk[step.kind] = disk.get(step.kind, 0.0) + size / 2**30
    counts["analyse"] = len(study_plan.recipe.analyses)
    hours["analyse"], disk["analyse"] = counts["analyse"] / 30, counts["analyse"] * 0.02
    return {kind: Estimate(counts[kind], hours[kind], disk[kind]) for kind in counts}


def _config_of(study_plan: Plan, step: Step) -> dict[str, Any] | None:
    """The configuration of the model that a step trains or translates with; None for other steps."""
    if step.kind == "train":
        return dict(step.settings["config"])
    return dict(study_plan.steps[step.needs["run"]].settings["config"]) if step.kind == "translate" else None


def _training(config: Mapping[str, Any], speed: Speed, pairs: int | None) -> float | None:
    """Seconds of a training; None if its length is in epochs, and the size of its text is unknown."""
    settings = {"batch": 4096, **config["train"]}
    if settings.get("minutes"):
        return 60.0 * float(settings["minutes"])
    tokens = (
        settings["batch"] * (LENGTH if settings.get("batch_unit") == "sentences" else 1) * settings.get("accumulate", 1)
    )
    if settings.get("steps"):
        return float(settings["steps"] * tokens * speed.update)
    return None if pairs is None else float(settings["epochs"] * pairs * LENGTH * speed.update)


def _corpus_lines(study_plan: Plan) -> dict[str, int]:
    """Step -> lines of its text, if they can be counted before it has run."""
    from posnmt.data.corpus import TextFile, open_text

    lines: dict[str, int] = {}
    for step in study_plan.steps.values():
        if step.kind == "part-of-artificial":
            options = study_plan.setting.artificial or {}
            lines[step.name] = options.get(step.settings["name"].removesuffix("-long"), 1000)
        elif step.kind == "corpus" and not step.needs:
            total = 0
            for number, piece in enumerate(step.settings["texts"]):
                with open_text(TextFile("corpus", Path(step.files[f"{number}.source"]))) as stream:
                    count = sum(1 for _ in stream)
                total += min(count, piece["take"] or count)
            lines[step.name] = total
    for step in study_plan.steps.values():
        for role in ("text", "test"):
            if step.name not in lines and step.needs.get(role) in lines:
                copies = 1 + len(step.settings.get("shares", []))
                lines[step.name] = lines[step.needs[role]] * copies // step.settings.get("sentences", 1)
    return lines
