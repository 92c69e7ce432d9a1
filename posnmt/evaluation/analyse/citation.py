"""A sentence to cite: the verdict with what it depends on, so that others can compute it again."""

from __future__ import annotations

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
    count = sum(each["n"] for each in results["bins"])
    conditions = [
        f"{count:,} sentences of {PurePath(source['path']).name}",
        f"{verdict['title']} {results['signatures'][verdict['metric']]}",
    ]
    if by_length:
        pairs = by_length["pairs_corrected_for"]
        conditions.append(
            f"95 % intervals that hold together for {len(by_length['cuts'])} cuts of the source lengths in"
            f" {settings['unit']}" + (f" and {pairs} pairs of systems" if pairs > 1 else "")
        )
    if settings["samples"]:
        samples = by_length["samples"] if by_length else settings["samples"]
        conditions.append(f"{samples:,} bootstrap samples of {settings['drawn']}, seed {settings['seed']}")
    conditions.append(f"posnmt {results['versions']['posnmt']}")
    return f"{said.removesuffix('.')} ({'; '.join(conditions)})."
