"""Checks before the first update, so that a training does not fail after hours: BLEU, the store, lengths, memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from posnmt.base.errors import UserError, is_out_of_memory
from posnmt.base.progress import Display
from posnmt.base.words import counted
from posnmt.config.schema import Config
from posnmt.data.batch import BatchPlan
from posnmt.data.store import Store
from posnmt.model.positions import limiting_setting
from posnmt.training.build import Training, build
from posnmt.training.device import make_fabric
from posnmt.training.evaluate import bleu
from posnmt_position.seam import Scheme

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def check_before(config: Config, store: Store) -> None:
    """Check the store of a training, and that dev BLEU can be computed.

    Raises:
        UserError: files of the store are damaged; the tokeniser of dev BLEU is not installed.
    """
    store.verify()
    if config.data.has_dev and config.train.dev_bleu:
        check_bleu(config.train.bleu_tokenizer)


def check_bleu(tokenizer: str) -> None:
    """Measure BLEU once.

    Raises:
        UserError: sacreBLEU's tokeniser is not installed.
    """
    try:
        bleu(["one"], ["one"], tokenizer)
    except (ImportError, RuntimeError, OSError, ValueError) as error:  # as sacreBLEU or the segmenter reports it
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise UserError(
            f"BLEU on dev cannot be computed with the tokeniser {tokenizer}: {reason}", "train.bleu_tokenizer",
            "for ja-mecab: pip install 'posnmt[ja]'; or choose char, or train.dev_bleu: false",
        ) from None  # fmt: skip


@dataclass(frozen=True)
class LargestBatch:
    """The result of trying the largest batch.

    Attributes:
        pairs: of sentences.
        padded_tokens: of both sides, end symbols included.
        bytes: the largest memory use of an update with it: as measured, plus the optimizer's moments if there are none
            yet; None if the system does not report memory.
    """

    pairs: int
    padded_tokens: int
    bytes: int | None

    def __str__(self) -> str:
        memory = "" if self.bytes is None else f", {self.bytes / 2**30:.2f} GiB of memory with the whole process"
        return f"{counted(self.pairs, 'pair')}, {self.padded_tokens:,} padded tokens{memory}"


def refuse_too_long(t: Training) -> None:
    """Check that the model has positions for every training and dev sentence with its end symbol.

    Raises:
        UserError: a sentence is longer than a scheme supports; for dev, than it supports at inference.
    """
    model, store = t.model, t.store
    was_training = model.training
    for name, corpus in {**{name: store.split(name) for name in store.splits}, "train": t.corpus}.items():
        model.train(name == "train")
        todo = "lower data.max_length" if name == "train" else "shorten the sentence or remove the pair"
        for side, longest, lengths in (
            ("source", model.longest_source, corpus.source_lengths),
            ("target", model.longest_target, corpus.target_lengths),
        ):
            over = int(np.argmax(lengths))
            if longest is not None and lengths[over] + 1 > longest:
                schemes = [each for each in model.modules() if isinstance(each, Scheme) and each.longest == longest]
                limits = dict.fromkeys(filter(None, map(limiting_setting, schemes)))
                raising = "".join(f"raise {setting}, " for setting in limits)
                raise UserError(
                    f"a {name} {side} sentence has {lengths[over]} subwords and an end symbol, and this model has"
                    f" positions for {longest} tokens",
                    corpus.where(over),
                    f"{raising}{todo}, or use a system without a limit of length",
                )
    model.train(was_training)


def try_largest_batch(t: Training) -> LargestBatch:
    """Compute the gradient of the largest batch, and discard it.

    Returns:
        The size of the batch and its memory.

    Raises:
        UserError: it does not fit into memory.
    """
    train = t.config.train
    numbers, tokens = largest_batch(t.plan, t.progress.cursor.epoch)
    try:
        peak = peak_memory(t.fabric.device, lambda: t.rehearse(numbers))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(
            f"the memory is too small for the largest batch of {LargestBatch(len(numbers), tokens, None)}",
            "train.batch",
            f"lower train.batch (now {train.batch:,} {train.batch_unit}) and raise train.accumulate, lower"
            " data.max_length, or choose a smaller model",
        ) from None
    return LargestBatch(len(numbers), tokens, None if peak is None else peak + moments_to_come(t))


def moments_to_come(t: Training) -> int:
    """Bytes that the first update will allocate: two moments for each weight, unless the optimizer has them already."""
    if t.optimizer.state:
        return 0
    return 2 * sum(weight.numel() * weight.element_size() for weight in t.model.parameters())


def peak_memory(device: torch.device, work: Callable[[], object]) -> int | None:
    """Do some work, and return the largest number of bytes in use meanwhile, earlier allocations included.

    On a GPU these are the bytes allocated by PyTorch, otherwise those of the process in memory (Linux only, else None).
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        work()
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError):  # if the peak may not be reset, it is that since the start of the process
        _RESET.write_text("5")
    work()
    with suppress(OSError):
        if line := re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE):
            return int(line[1]) * 1024
    return None


def largest_batch(plan: BatchPlan, epoch: int = 0) -> tuple[NDArray[np.int64], int]:
    """The pairs of the batch with the most padded tokens, and the number of these tokens, end symbols included.

    Where pairs are drawn with replacement, any may meet: it is a batch with the longest source and the longest target.

    Args:
        epoch: the pass whose batches are compared; with several segmentations, the first of as many passes.
    """
    sources, targets = plan.pairs.source_lengths, plan.pairs.target_lengths

    def padded(numbers: NDArray[np.int64]) -> int:
        return len(numbers) * (int(sources[numbers].max()) + int(targets[numbers].max()) + 2)

    if plan.with_replacement:
        apart = [sources.argmax(), targets.argmax()] if plan.size > 1 else [(sources + targets).argmax()]
        numbers = np.resize(apart, plan.size)
        return numbers, padded(numbers)
    numbers = max((max(batches, key=padded) for batches in plan.fullest(epoch)), key=padded)
    return numbers, padded(numbers)


def check_all(config: Config, store: Store, display: Display) -> None:
    """The checks at the start of a training, without training: `posnmt prepare --check`.

    Raises:
        UserError: the first fault.
    """
    check_before(config, store)
    t = build(config, store, make_fabric(config.train))
    try:
        refuse_too_long(t)
        tried = try_largest_batch(t)
    finally:
        t.close()
    display.say(f"the largest batch fits: {tried}")
