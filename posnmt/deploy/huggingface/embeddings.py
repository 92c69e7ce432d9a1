"""Word embeddings and output projection of a posnmt model, as Transformers reads, replaces and resizes them.

The embedding of the source is the input embedding. That of the target is the same module, or has as many entries.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from posnmt.model.base import TranslationModel


def table(model: TranslationModel, side: str) -> Any:
    """The word embedding of a side, `source` or `target`."""
    part = getattr(model, side)
    return getattr(part, "table", part)


def set_table(model: TranslationModel, side: str, value: nn.Module) -> None:
    """Replace the word embedding of a side."""
    part = getattr(model, side)
    if hasattr(part, "table"):
        part.table = value
    else:
        setattr(model, side, value)


def replace_input(model: TranslationModel, value: Any) -> None:
    """Replace the embedding of the source, with all that is tied to it."""
    source, target = table(model, "source"), table(model, "target")
    tied = model.output.weight is source.weight
    set_table(model, "source", value)
    if target is source:
        set_table(model, "target", value)
    if tied:
        model.output.weight = value.weight


def refuse_resizing(model: TranslationModel) -> None:
    """Check that one number can be the size of all embeddings of a model.

    Raises:
        ValueError: the sides have vocabularies of different sizes, or embeddings are computed from other parameters.
    """
    source, target = table(model, "source"), table(model, "target")
    if not isinstance(source, nn.Embedding) or not isinstance(target, nn.Embedding):
        raise ValueError(
            f"the embeddings of {model.config.architecture} are computed from features that words share, and cannot "
            "be resized"
        )
    if source.num_embeddings != target.num_embeddings:
        raise ValueError(
            f"source and target have vocabularies of their own, with {source.num_embeddings} and "
            f"{target.num_embeddings} subwords, so one size cannot serve both; train with subword.shared: true"
        )
