"""`posnmt systems`: describe a system, or all schemes and architectures."""

from __future__ import annotations

import inspect
from dataclasses import asdict, fields
from typing import Any

from posnmt.base.plugins import usable
from posnmt.base.progress import warn
from posnmt.config.systems import named
from posnmt.model.positions import SCHEMES, scheme_class
from posnmt.model.registry import ARCHITECTURES, architecture, count_parameters
from posnmt.run.resolve import from_tree


def describe(name: str, vocabulary: int, size: str) -> dict[str, Any]:
    """A system's parts, source and parameter count.

    Args:
        name: the system.
        vocabulary: entries of each side's vocabulary.
        size: a named size of models.
    """
    system = named(name)
    corpus = {"source": "-", "target": "-"}
    tree = {"data": {"train": corpus}, "model": {"system": name, "size": size}}
    model = from_tree({**tree, "train": {"steps": 1, "dev_bleu": False}}).model
    parts = {
        side: f"{stack.layers} layer{'' if stack.layers == 1 else 's'}, "
        + (", ".join(_shown(choice.scheme, choice.options) for choice in stack.position) or "no position scheme")
        for side, stack in (("encoder", model.encoder), ("decoder", model.decoder))
    }
    reconstruction = {} if system.reconstruction is None else asdict(system.reconstruction)
    return {
        "system": name,
        "summary": system.summary,
        "source": system.source,
        **reconstruction,
        "architecture": _shown(model.architecture, model.options),
        **parts,
        "vocabulary": vocabulary,
        "parameters": count_parameters(model, vocabulary, vocabulary),
    }


def parts() -> list[dict[str, Any]]:
    """Description, origin and options of every position scheme and architecture; warns about schemes that fail."""
    kinds: list[tuple[str, str, str, Any]] = [("scheme", name, "posnmt", scheme_class(name)) for name in SCHEMES]
    kinds += [("scheme", each.name, each.shown, part) for each, part in usable("scheme", SCHEMES, scheme_class, warn)]
    kinds += [("architecture", name, "posnmt", architecture(name)) for name in ARCHITECTURES]
    return [
        {
            "kind": kind,
            "name": name,
            "origin": origin,
            "about": " ".join(str(inspect.getdoc(part)).split("\n\n")[0].split()),
            "options": {
                option.name: {"default": option.default, "about": option.metadata.get("help", "")}
                for option in fields(part.Settings)
            },
        }
        for kind, name, origin, part in kinds
    ]


def _shown(name: str, options: dict[str, Any]) -> str:
    """A scheme or an architecture with its options, as text."""
    settings = ", ".join(f"{key} {str(value).lower()}" for key, value in options.items())
    return f"{name} ({settings})" if settings else name
