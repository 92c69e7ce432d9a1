"""The tables of `train_speed.py`, from its raw figures."""

from __future__ import annotations

import statistics
from typing import Any

ACCOUNTING = """Target tokens are subwords, and an end for each sentence; padding does not count. "an update" is their
mean for a batch of at most {batch} padded tokens on either side. Ratios are taken within a turn: median (range)."""


def table(content: dict[str, Any], system: str, ours: tuple[str, ...]) -> list[str]:
    """The lines of one system's table: speed of each trainer, and how many times as fast posnmt is.

    Args:
        content: what `train_speed.py` writes.
        system: whose trainings.
        ours: names of posnmt's trainers, a column of ratios each.
    """
    settings = content["settings"]
    turns = [{each["trainer"]: each for each in turn if each["system"] == system} for turn in content["turns"]]
    trainers = list(dict.fromkeys(name for turn in turns for name in turn))
    updates = f"updates {int(settings['left_out']) + 1}-{settings['updates']}"
    lines = [f"training, {settings['size']}, {system}: medians of {len(turns)} turns, {updates}"]
    lines += [f"{'':24}{'target tokens/s':>16}{'an update':>11}" + "".join(f"   {name + ' / it':24}" for name in ours)]
    for name in trainers:
        found = [turn[name] for turn in turns if name in turn]
        rate, tokens = (
            statistics.median(each[figure] for each in found) for figure in ("tokens_per_second", "tokens_an_update")
        )
        ratios = "".join(f"   {ratio(turns, our, name):24}" for our in ours)
        lines.append(f"{name:24}{rate:16,.0f}{tokens:11,.0f}{ratios}".rstrip())
    return lines


def ratio(turns: list[dict[str, Any]], ours: str, peer: str) -> str:
    """How many times as fast one trainer is as another within a turn: `median (lowest-highest)`."""
    both = [(turn[ours], turn[peer]) for turn in turns if ours in turn and peer in turn]
    ratios = [our["tokens_per_second"] / its["tokens_per_second"] for our, its in both]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})" if ratios else "-"
