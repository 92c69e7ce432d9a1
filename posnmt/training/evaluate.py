"""Evaluation on dev: perplexity, and BLEU of translations against the original references.

A stop signal ends it between two batches or two steps of search. Nothing of it is kept, and `--resume` makes it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray

from posnmt.base.cancel import Cancelled, check_cancelled
from posnmt.base.errors import printable
from posnmt.base.parallel.threads import Workers
from posnmt.base.progress import Work
from posnmt.config.schema import Config, Decode, Train
from posnmt.data.batch import BatchPlan, collate
from posnmt.data.store import Split
from posnmt.data.text import TextPipeline
from posnmt.model.base import TranslationModel
from posnmt.training.build import Training
from posnmt.training.loss import TrainingLoss
from posnmt.translate.requests import Part
from posnmt.translate.subwords import translate_subwords

BATCH = 8192
"""Padded tokens of a batch whose likelihood is computed."""


def measure(t: Training, whole: TrainingLoss) -> dict[str, Any]:
    """The figures of `evaluate`, computed by the first process and passed to all; empty without a dev corpus.

    Raises:
        Cancelled: the first process has heard a stop signal.
    """
    if not t.config.data.has_dev:
        return {}
    figures, t.evaluating = None, True
    if t.fabric.is_global_zero:
        with suppress(Cancelled):
            dev = DevPart(t.store.split("dev"), t.config.train.dev_pairs)
            figures = evaluate(whole, dev, t.store.text, t.config, t.fabric)
    figures, t.evaluating = t.fabric.broadcast(figures), False
    if figures is None:
        raise Cancelled
    return figures


class DevPart:
    """Pairs of dev that are spread evenly over it, which an evaluation uses.

    Args:
        dev: all pairs.
        count: how many; None: all.
    """

    def __init__(self, dev: Split, count: int | None) -> None:
        self.dev, self.numbers = dev, spread(len(dev), count)
        self.source_lengths, self.target_lengths = dev.source_lengths[self.numbers], dev.target_lengths[self.numbers]

    def __len__(self) -> int:
        return len(self.numbers)

    def pair(self, index: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Source and target ids of pair `index` of the part."""
        return self.dev.pair(int(self.numbers[index]))

    @property
    def lines(self) -> NDArray[np.int64]:
        """The lines of the pairs in their file."""
        return self.dev.lines[self.numbers]

    @property
    def source_texts(self) -> list[str]:
        """The original source lines of the pairs, before segmentation."""
        return [self.dev.source_texts[number] for number in self.numbers]

    @property
    def target_texts(self) -> list[str]:
        """The original target lines, the references."""
        return [self.dev.target_texts[number] for number in self.numbers]


def spread(size: int, count: int | None) -> NDArray[np.int64]:
    """`count` of the numbers below `size`, spread evenly; all of them for None."""
    kept = min(size, count or size)
    return np.arange(kept) * size // kept


def evaluate(
    loss: TrainingLoss, dev: Split | DevPart, text: TextPipeline, config: Config, fabric: Fabric
) -> dict[str, Any]:
    """Dev perplexity per target subword, and with `train.dev_bleu` the BLEU of greedy search and its signature.

    The perplexity is infinite if the likelihood is not finite. With BLEU there are also `examples`: line, texts and
    output of the pairs that `shown_pairs` names.

    Raises:
        Cancelled: see `check_cancelled`.
    """
    model = loss.model
    was_training = loss.training
    loss.eval()
    with torch.inference_mode(), fabric.autocast():
        likelihood, tokens = torch.zeros((), dtype=torch.float64, device=fabric.device), 0
        with Work("evaluating", "dev lines", len(dev)) as work:
            for numbers in BatchPlan(dev, BATCH, "tokens", seed=0).epoch(0):
                check_cancelled()
                batch = collate([dev.pair(int(number)) for number in numbers])
                batch = batch.pinned() if fabric.device.type == "cuda" else batch
                likelihood += loss(*batch.to(fabric.device, non_blocking=True).tensors)[1].double()
                tokens += batch.tokens
                work.add(len(numbers))
            mean = likelihood.item() / tokens  # the only time that a GPU is waited for
        figures: dict[str, Any] = {"perplexity": math.exp(min(mean, 700.0)) if math.isfinite(mean) else math.inf}
        if config.train.dev_bleu:
            sources = [dev.pair(number)[0].tolist() for number in range(len(dev))]
            with Work("translating", "dev lines", len(dev), sum(map(len, sources))) as work:
                written = greedy(
                    model, sources, config.decode, fabric.device,
                    lambda parts: work.add(len(parts), sum(len(part.ids) for part in parts)),
                )  # fmt: skip
            outputs, sources, references = text.target.decode(written), dev.source_texts, dev.target_texts
            figures.update(bleu(outputs, references, config.train.bleu_tokenizer))
            shown = shown_pairs(dev)
            figures["examples"] = [
                {"line": line, "source": sources[pair], "reference": references[pair], "output": outputs[pair]}
                for pair, line in zip(shown, dev.lines[shown].tolist(), strict=True)
            ]
    loss.train(was_training)
    return figures


def shown_pairs(dev: Split | DevPart) -> list[int]:
    """Three pairs of dev, the same after each evaluation: a short, a median and a long one.

    A tenth, a half and nine tenths of the sources have fewer subwords, or as many and an earlier line.
    """
    order = np.argsort(dev.source_lengths, kind="stable")
    return list(dict.fromkeys(int(order[len(order) * tenths // 10]) for tenths in (1, 5, 9)))


def examples(figures: dict[str, Any]) -> list[str]:
    """The examples in the figures of `evaluate`, as lines for people; none if dev was not translated."""
    lines = []
    for example in figures.get("examples", ()):
        texts = {
            f"  dev line {example['line']}": example["source"],
            "    reference": example["reference"],
            "    translation": example["output"],
        }
        lines += [f"{name:17} {printable(text)}" for name, text in texts.items()]
    return lines


def greedy(
    model: TranslationModel,
    sources: Sequence[Sequence[int]],
    decode: Decode,
    device: torch.device,
    searched: Callable[[Sequence[Part]], None] = lambda parts: None,
) -> list[list[int]]:
    """The subwords of translations by greedy search, in the current precision; `searched` as in `Searcher`."""
    # a coverage penalty has no effect on greedy search
    alone = decode.model_copy(update={"beam": 1, "sampling": None, "coverage_penalty": 0.0})
    workers = Workers.of(device)
    try:
        translations = translate_subwords([model], sources, alone, device, workers, False, searched)
    finally:
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
    """Write the dev figures as text, for the console."""
    return f"perplexity {figures['perplexity']:.3f}" + (f"  BLEU {figures['bleu']:.2f}" if "bleu" in figures else "")
