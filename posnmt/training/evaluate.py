"""Evaluation on dev: perplexity, and BLEU of translations against the original references."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from lightning_fabric import Fabric

from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Config, Decode, Train
from posnmt.data.batch import BatchPlan, collate
from posnmt.data.store import Split
from posnmt.data.text import TextPipeline
from posnmt.model.base import TranslationModel
from posnmt.training.build import Training
from posnmt.training.loss import TrainingLoss
from posnmt.translate.subwords import translate_subwords


def measure(t: Training, whole: TrainingLoss) -> dict[str, Any]:
    """The figures of `evaluate`, computed by the first process and passed to all; empty without a dev corpus."""
    if not t.config.data.has_dev:
        return {}
    figures: dict[str, Any] = {}
    if t.fabric.is_global_zero:
        figures = evaluate(whole, t.store.split("dev"), t.store.text, t.config, t.fabric)
    t.on_dev = t.fabric.broadcast(figures)
    return t.on_dev


def evaluate(loss: TrainingLoss, dev: Split, text: TextPipeline, config: Config, fabric: Fabric) -> dict[str, Any]:
    """Dev perplexity per target subword, and with `train.dev_bleu` the BLEU of greedy search and its signature.

    The perplexity is infinite if the likelihood is not finite.
    """
    model = loss.model
    was_training = loss.training
    loss.eval()
    with torch.inference_mode(), fabric.autocast():
        likelihood, tokens = 0.0, 0
        for numbers in BatchPlan(dev, 8192, "tokens", seed=0).epoch(0):
            batch = collate([dev.pair(int(number)) for number in numbers]).to(fabric.device)
            likelihood += loss(*batch.tensors)[1].item()
            tokens += batch.tokens
        mean = likelihood / tokens
        figures: dict[str, Any] = {"perplexity": math.exp(min(mean, 700.0)) if math.isfinite(mean) else math.inf}
        if config.train.dev_bleu:
            sources = [dev.pair(number)[0].tolist() for number in range(len(dev))]
            outputs = text.target.decode(greedy(model, sources, config.decode, fabric.device))
            figures.update(bleu(outputs, dev.target_texts, config.train.bleu_tokenizer))
    loss.train(was_training)
    return figures


def greedy(
    model: TranslationModel, sources: Sequence[Sequence[int]], decode: Decode, device: torch.device
) -> list[list[int]]:
    """The subwords of translations by greedy search, in the current precision."""
    # a coverage penalty has no effect on greedy search
    alone = decode.model_copy(update={"beam": 1, "sampling": None, "coverage_penalty": 0.0})
    workers = Workers.of(device)
    translations = translate_subwords([model], sources, alone, device, workers, scored=False)
    workers.close()
    return [hypotheses[0].tokens if hypotheses else [] for hypotheses in translations]


def bleu(outputs: list[str], references: list[str], tokenizer: str) -> dict[str, Any]:
    """Corpus BLEU by sacreBLEU, with its signature."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize=tokenizer, force=True)
    return {"bleu": metric.corpus_score(outputs, [references]).score, "signature": str(metric.get_signature())}


def selection_score(figures: dict[str, Any], settings: Train) -> tuple[float, float]:
    """The score by which the best checkpoint is chosen; larger is better.

    If BLEU is equal, as at 0 in the beginning, the lower perplexity is better.
    """
    perplexity = -float(figures["perplexity"])
    return (float(figures["bleu"]) if settings.best_by == "bleu" and "bleu" in figures else perplexity, perplexity)


def describe(figures: dict[str, Any]) -> str:
    """Dev figures as text."""
    return f"perplexity {figures['perplexity']:.3f}" + (f"  BLEU {figures['bleu']:.2f}" if "bleu" in figures else "")
