"""The same cleaning as a configuration of OpusFilter (Aulamo, Virpioja and Tiedemann, 2020)."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posnmt.config.yaml import written_yaml
from posnmt.corpora.cleaning.clean import Settings
from posnmt.corpora.cleaning.rules import NAMES, Rule

FOLDER = "opusfilter"
"""Where OpusFilter writes, in the folder in which it is started."""


def configuration(pairs: Sequence[tuple[Path, Path]], settings: Settings, rules: Sequence[Rule]) -> str:
    """A configuration in YAML. The comments at its head list the differences of OpusFilter.

    Args:
        pairs: source and target files.
        settings: which pairs are dropped.
        rules: the result of `Settings.rules`.
    """
    steps: list[dict[str, Any]] = []

    def add(kind: str, inputs: list[str], ends: Sequence[str], **parameters: Any) -> list[str]:
        outputs = [f"{len(steps) + 1}.{end}" for end in ends]
        steps.append({"type": kind, "parameters": {"inputs": [*inputs], "outputs": [*outputs], **parameters}})
        return outputs

    names = [f"0.{name}" for name in NAMES]
    for name, files in zip(names, zip(*pairs, strict=True), strict=True):
        joined = {"inputs": [str(file.resolve()) for file in files], "output": name}
        steps.append({"type": "concatenate", "parameters": joined})
    if filters := [each for rule in rules if (each := rule.opusfilter()) is not None]:
        names = add("filter", names, NAMES, filters=filters)
    near, ends, first = settings.duplicates == "near", [*NAMES], 0
    if near:
        without_signs = {"RegExpSub": {"patterns": [[_signs(), "", 0, []]]}}
        names = names + add("preprocess", names, [f"{name}.compared" for name in NAMES], preprocessors=[without_signs])
        ends, first = [*ends, *(f"{name}.compared" for name in NAMES)], 2
    for sides in [(0, 1)] * (settings.duplicates != "keep") + [(0,)] * settings.one_target:
        compare = [first + side for side in sides]
        names = add("remove_duplicates", names, ends, compare=compare, lowercase=near)
    tree = {"common": {"output_directory": FOLDER}, "steps": steps}
    head = [
        "The cleaning of `posnmt data clean` for OpusFilter 3: `opusfilter FILE`.",
        f"It writes {FOLDER}/{names[0]} and {FOLDER}/{names[1]}.",
        *(f"A difference of OpusFilter: {each}" for each in _differences(settings, rules)),
    ]
    return "".join(f"# {line}\n" for line in head) + written_yaml(tree)


def _differences(settings: Settings, rules: Sequence[Rule]) -> list[str]:
    """Sentences on what OpusFilter does in another way."""
    sentences = ["it removes white space at the ends of lines, with U+0085, before anything else"]
    sentences += [each for rule in rules if (each := rule.beyond_opusfilter()) is not None]
    if settings.damaged:
        sentences.append("it stops at bytes that are not UTF-8")
    if settings.duplicates == "near":
        sentences.append("near-duplicates are compared without Unicode's normal form")
    return sentences


def _signs() -> str:
    """The characters in which near-duplicates may differ, as a set for Python's `re`, which has no Unicode classes.

    Ranges also contain unassigned characters between two of them.
    """
    ranges: list[list[int]] = []
    extends = False
    for number in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(number))
        if category in ("Cn", "Cs"):
            continue
        if category[0] in "LMN":
            extends = False
        elif extends:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
            extends = True
    return "[" + "".join(f"{_escaped(low)}-{_escaped(high)}" for low, high in ranges) + "]+"


def _escaped(number: int) -> str:
    return f"\\u{number:04X}" if number < 0x10000 else f"\\U{number:08X}"
