"""A sentence to cite: the verdict with what it depends on, so that others can compute it again."""

from __future__ import annotations

from math import comb
from pathlib import PurePath
from typing import Any


def citation(results: dict[str, Any]) -> str:
    """What the verdict says of lengths, or else of groups of sentences, with its conditions in brackets.

    Args:
        results: of `posnmt.evaluation.analyse.analyse.analyse`.
    """
    verdict, settings = results["verdict"], results["settings"]
    by_length = verdict["by_length"] if verdict["by_length"] and verdict["by_length"]["cuts"] else None
    said = by_length["sentence"] if by_length else verdict["of_groups"]
    source = next(each for each in results["inputs"] if each["role"] == "source")
    count, doubts = sum(each["n"] for each in results["bins"]), len(results["misfits"])
    conditions = [
        f"{count:,} sentence{'' if count == 1 else 's'} of {PurePath(source['path']).name}",
        f"{verdict['title']} {results['signatures'][verdict['metric']]}",
        *([f"{doubts} warning{'' if doubts == 1 else 's'} that files may not fit each other"] if doubts else []),
        *(_of_lengths(by_length, settings) if by_length else _of_groups(verdict["groups"], settings)),
        f"posnmt {results['versions']['posnmt']}",
    ]
    return f"{said.removesuffix('.')} ({'; '.join(conditions)})."


def _of_lengths(by_length: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """By what the verdict on length was decided."""
    pairs = by_length["pairs_corrected_for"]
    return [
        f"95 % intervals that hold together for {len(by_length['cuts'])} cuts of the source lengths in"
        f" {settings['unit']}" + (f" and {pairs} pairs of systems" if pairs > 1 else ""),
        f"{by_length['samples']:,} bootstrap samples of {settings['drawn']}, seed {settings['seed']}",
    ]


def _of_groups(groups: list[dict[str, Any]], settings: dict[str, Any]) -> list[str]:
    """By what the verdicts on groups of sentences were decided; empty if nothing was tested."""
    if not any(group["p"] for group in groups):
        return []
    pairs, correction = comb(len(groups[0]["scores"]), 2), settings["correction"]
    test = f"approximate randomisation, {settings['samples']:,} samples of {settings['drawn']}, seed {settings['seed']}"
    is_corrected = pairs > 1 and correction != "none"
    return [test, *([f"p corrected for {pairs} pairs of systems ({correction.title()})"] if is_corrected else [])]
