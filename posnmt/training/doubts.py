"""Signs that a finished run has learned too little, and what to change."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from posnmt.base.progress import duration
from posnmt.base.words import counted
from posnmt.config.schema import Config, Train
from posnmt.data.store import Split, Store
from posnmt.data.subword import EOS
from posnmt.training.evaluate import DevPart, bleu
from posnmt.training.progress import Progress
from posnmt.training.schedule import warmup_and_cooldown


def doubts(
    config: Config, progress: Progress, on_dev: Mapping[str, Any], store: Store, in_pass: int,
    chosen: Collection[str] = (),
) -> list[str]:  # fmt: skip
    """A sentence for each sign that a run learned too little.

    Args:
        progress: at the end of the run.
        on_dev: figures of `evaluate`; empty without dev.
        in_pass: batches of a pass.
        chosen: dotted keys of the settings that the configuration left out.
    """
    sentences = []
    warmup, _ = warmup_and_cooldown(config.train, progress.step)
    if warmup >= 1 and progress.step < warmup:
        sentences.append(
            f"the run ended after {counted(progress.step, 'update')}, inside the warm-up of {warmup:,.0f}: its learning"
            " rate never reached its peak; train for longer, or lower train.schedule.warmup"
        )
    if progress.cursor.epoch == 0:
        share = progress.epochs(in_pass)
        pace = f": at the pace of this run, a pass takes {duration(progress.seconds / share)}" if share else ""
        sentences.append(
            "the run ended before it had seen the whole corpus once, after"
            f" {counted(progress.step, 'update')}, {share:.0%} of a pass; train for longer{pace}"
        )
    if (perplexity := on_dev.get("perplexity")) is not None:
        unigram = unigram_perplexity(store.split("train"), store.split("dev"), store.text.target.size)
        if perplexity > 0.9 * unigram:
            sentences.append(
                f"dev perplexity is {perplexity:,.0f}, and words drawn by their frequency would have {unigram:,.0f}:"
                f" the model has learned next to nothing; {_remedy(config.train, chosen)}"
            )
    if "bleu" in on_dev:
        dev, text = DevPart(store.split("dev"), config.train.dev_pairs), store.text
        sources = text.source.decode([dev.pair(number)[0].tolist() for number in range(len(dev))])
        copied = bleu(sources, dev.target_texts, config.train.bleu_tokenizer)["bleu"]
        if on_dev["bleu"] <= copied:
            sentences.append(
                f"dev BLEU is {on_dev['bleu']:.1f}, and the source lines as they are would have {copied:.1f}: this is"
                f" no translator yet, after {counted(progress.cursor.epoch, 'pass')} over the corpus; train for longer,"
                " or on more text"
            )
    return sentences


def _remedy(train: Train, chosen: Collection[str]) -> str:
    """What to do about a model that learned next to nothing. Never to leave out what was left out."""
    if train.schedule.type == "noam":  # whose factor is too small by default in a complete configuration
        small = train.learning_rate < 0.1
        return "train for longer" + (", or with train.learning_rate: 1.0, which is noam's factor" if small else "")
    written = {"train.learning_rate": train.learning_rate, "train.schedule.warmup": train.schedule.warmup}
    keys = [key for key, value in written.items() if value is not None and key not in chosen]
    return "train for longer" + (f", or with {' and '.join(keys)} left out" if keys else "")


def unigram_perplexity(train: Split, dev: Split, size: int) -> float:
    """Perplexity of dev's target subwords, end symbols included, by their frequency in the training targets.

    Args:
        size: entries of the vocabulary; each is counted once more than it occurs.
    """
    seen, expected = train.target_counts(size) + 1, dev.target_counts(size)
    seen[EOS] += len(train)
    expected[EOS] += len(dev)
    return float(math.exp(-(expected * np.log(seen / seen.sum())).sum() / expected.sum()))
