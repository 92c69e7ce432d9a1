"""The format number of a configuration, and the conversion of earlier formats.

A change that alters the results of an existing configuration increments `FORMAT` and adds a function to `_EARLIER` that
expresses the earlier meaning in current options. So run folders keep their meaning, and no other part of the program
depends on the number. See docs/decisions/0009-config-format.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMAT = 3
"""The current format."""

OLDEST = 1
"""The format of run folders and studies without a format number."""

Tree = dict[str, Any]


def as_meant(tree: Tree, number: object) -> Tree:
    """A configuration of an earlier format, converted to current options.

    Args:
        tree: the configuration as nested dictionaries, with named systems filled in.
        number: its format; the check of the configuration reports other types than integers.
    """
    for changed, earlier in _EARLIER.items():
        if isinstance(number, int) and number < changed:
            tree = earlier(tree)
    return tree


def _frequencies_of_the_head(tree: Tree) -> Tree:
    """Format 1: sinusoidal relative vectors had the frequencies of an encoding of the width of a head."""

    def meant(choice: Any) -> Any:
        if not isinstance(choice, dict) or (choice.get("scheme"), choice.get("vectors")) != ("relative", "sinusoidal"):
            return choice
        return {"frequencies": "head", **choice}

    model = tree.get("model")
    if not isinstance(model, dict):
        return tree
    sides = {}
    for side in ("encoder", "decoder"):
        stack = model.get(side)
        if isinstance(stack, dict) and isinstance(stack.get("position"), list):
            sides[side] = {**stack, "position": [meant(choice) for choice in stack["position"]]}
    return {**tree, "model": {**model, **sides}}


def _other_defaults(tree: Tree) -> Tree:
    """Formats 1 and 2: other defaults of initialisation, sorting and schedules."""
    tree = _with(tree, "model", init="xavier")
    tree = _with(tree, "train", sort_by="target")
    if isinstance(tree.get("train"), dict):
        tree = {**tree, "train": _with({"schedule": {}, **tree["train"]}, "schedule", warmup=4000, cooldown=0)}
    return tree


def _with(tree: Tree, section: str, **defaults: Any) -> Tree:
    """The tree with defaults for the missing settings of a section."""
    settings = tree.get(section)
    return {**tree, section: {**defaults, **settings}} if isinstance(settings, dict) else tree


def unreadable(positions: dict[str, set[str]], number: int) -> list[tuple[str, str]]:
    """The faults of a configuration of an earlier format whose meaning is no longer supported.

    In format 1 the logit terms of some schemes read the queries as another scheme had changed them.

    Args:
        positions: the names of the position schemes of encoder and decoder.
        number: the configuration's format.

    Returns:
        For each fault the stack, `encoder` or `decoder`, and a sentence.
    """
    if number > 1:
        return []
    reading, changing = {"relative", "transformer-xl", "cope"}, {"rope", "xpos", "transformer-xl"}
    return [
        (
            side,
            f"in format 1, {reader} read the queries that {changer} had changed; since format 2 schemes add up, and"
            " weights trained before compute something else; train again, or use the version in the run's record.json",
        )
        for side, names in positions.items()
        for reader in sorted(names & reading)
        for changer in sorted(names & changing - {reader})
    ]


_EARLIER: dict[int, Callable[[Tree], Tree]] = {2: _frequencies_of_the_head, 3: _other_defaults}
"""Format that changed a meaning -> conversion of earlier configurations, in the order of the formats."""
