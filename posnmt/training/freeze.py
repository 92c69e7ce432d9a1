"""`train.freeze`: parts of a model whose weights stay as they are, by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from posnmt.base.errors import UserError, nearest, raise_all
from posnmt.model.base import TranslationModel

_PUBLIC = (
    (
        r"(source|target|cross)\.schemes\.",
        {"source": "position.encoder.", "target": "position.decoder.", "cross": "position.cross."},
    ),
    (r"(source|target)\.(?:table\.|(?=weight$))", {"source": "embeddings.source.", "target": "embeddings.target."}),
    (r"(encoder|decoder)\.(?=\d)", {"encoder": "encoder.layers.", "decoder": "decoder.layers."}),
    (r"(encoder|decoder)_(?=norm\.)", {"encoder": "encoder.", "decoder": "decoder."}),
    (r"(source|target)_(?=(?:rise|fall)\.)", {"source": "encoder.", "target": "decoder."}),  # convs2s
    (r"()(?=recurrence\.)", {"": "encoder."}),  # biarn
    (  # the recurrent architectures
        r"()(?=(?:bridge|bridge_hidden|bridge_cell|word_cell|context_cell|query_transition|decoder_transition|query|key"
        r"|score|context|jumps|combine|readout)\.)",
        {"": "decoder."},
    ),
)
"""Regular expression for the beginning of a parameter's name -> its public name, by side."""


def freeze(model: TranslationModel, patterns: Sequence[str]) -> None:
    """Exclude parameters from training.

    A pattern matches the names of parts and of parameters, as `posnmt` writes them into checkpoints or as
    `public_name` gives them; `*` stands for anything. A matrix with several names, such as a tied embedding, is frozen
    if one of them matches.

    Raises:
        UserError: a pattern matches nothing, or nothing is left to train.
    """
    named = [
        (names, parameter)
        for name, parameter in model.named_parameters(remove_duplicate=False)
        for names in [(name, public_name(name))]
    ]
    faults = []
    for pattern in patterns:
        chosen = [parameter for names, parameter in named if any(matches(pattern, name) for name in names)]
        for parameter in chosen:
            parameter.requires_grad_(False)
        if not chosen:
            faults.append(_nothing(pattern, [public for (_, public), _ in named]))
    raise_all(faults)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise UserError("every part of the model is frozen, so there is nothing to train", "train.freeze")


def public_name(name: str) -> str:
    """The public name of a parameter, below `embeddings`, `position`, `encoder` or `decoder`; else its own name."""
    for beginning, names in _PUBLIC:
        if part := re.match(beginning, name):
            return names[part[1]] + name[part.end() :]
    return name


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name, or the beginning of it up to a dot."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def _nothing(pattern: str, names: Sequence[str]) -> UserError:
    parts = dict.fromkeys(".".join(name.split(".")[:end]) for name in names for end in range(1, name.count(".") + 2))
    near = nearest(pattern, parts)
    hint = f"did you mean {near!r}? " if near else ""
    first = sorted(dict.fromkeys(name.split(".")[0] for name in names))
    return UserError(f"no part of the model is called {pattern!r}", "train.freeze", f"{hint}parts: {', '.join(first)}")
