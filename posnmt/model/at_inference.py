"""What `decode.positions` changes in a trained model: positions, frequencies, distances and attention for long texts.

Each change is the same function of the tokens in one forward pass and step by step, so scores are those of search.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.config.schema import Positions
from posnmt.model.base import TranslationModel
from posnmt.model.ordered import OrderedTranslator
from posnmt.model.transformer import Transformer
from posnmt_position.seam import rotated

_SERVED = {
    "ntk": "rotations: rope and xpos",
    "yarn": "the rotation of rope",
    "clip": "distances that are not clipped in training: those of rope, xpos, transformer-xl and biases by distance",
    "group": "the distances of rotations: rope and xpos",
    "temperature": "the self-attention of Transformers",
}
"""Change -> what it changes."""


def change_positions(
    model: TranslationModel, positions: Positions, trained: tuple[int, int] | None, folder: Path
) -> None:
    """Change the positions of a model from now on.

    Args:
        trained: tokens of the longest source and target of training, their special symbol included; None: not known.
        folder: of the run, for messages.

    Raises:
        UserError: a change that means nothing for the model's schemes, or needs a trained length that is not known.
    """
    if not positions.changed:
        return
    if positions.interpolate is not None and not model.interpolate(positions.interpolate):
        raise UserError(
            "no position scheme of self-attention can be interpolated",
            folder,
            "leave it out; sinusoids, rope, xpos, shape, cape and randomised support it",
        )
    measured = [name for name in ("yarn", "temperature") if getattr(positions, name) is not None]
    if measured and trained is None:
        what = f"decode.positions.{measured[0]} needs the lengths of the training sentences, which the run's record"
        raise UserError(f"{what} does not have", folder, "train again, or choose another change")
    lengths = trained or (0, 0)
    for name, has_effect in _change_schemes(model, positions, lengths):
        _check(name, has_effect, model, folder)
    if isinstance(model, Transformer):
        model.join_positions(lengths if positions.temperature is not None else None)
    elif positions.temperature is not None:
        _check("temperature", False, model, folder)


def _change_schemes(
    model: TranslationModel, positions: Positions, lengths: tuple[int, int]
) -> Iterator[tuple[str, bool]]:
    """Change the schemes, one change after the other: the name of each, and whether it had an effect."""
    stacks = [model.source, model.target] if isinstance(model, OrderedTranslator) else []
    layers = model.config.encoder.layers, model.config.decoder.layers
    schemes = [
        (scheme, length, count)
        for stack, length, count in zip(stacks, lengths, layers, strict=False)
        for scheme in stack.position_schemes()
    ]
    if positions.ntk is not None:
        done = [scheme.ntk(positions.ntk) for scheme, *_ in schemes]
        yield "ntk", any(done)
    if positions.yarn is not None:
        done = [scheme.yarn(positions.yarn, length) for scheme, length, count in schemes if rotated(scheme, count)]
        yield "yarn", bool(done) and all(done)  # not one side of two
    if positions.clip is not None:
        done = [scheme.clip(positions.clip, positions.group) for scheme, *_ in schemes]
        yield "clip" if positions.group is None else "group", any(done)


def _check(name: str, has_effect: bool, model: TranslationModel, folder: Path) -> None:
    """Check that a change had an effect.

    Raises:
        UserError: no scheme supports it.
    """
    if has_effect:
        return
    config = model.config
    schemes = dict.fromkeys(choice.scheme for side in (config.encoder, config.decoder) for choice in side.position)
    has = ", ".join(schemes) if schemes else "no position scheme in self-attention"
    if name == "temperature":
        has = f"the architecture {config.architecture}"
    what = f"decode.positions.{name} changes {_SERVED[name]}; this model has {has}"
    raise UserError(what, folder, "leave it out, or choose a change that the scheme supports")
