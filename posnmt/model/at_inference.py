"""What `decode.positions` changes in a trained model: positions, frequencies, distances and attention for long texts.

Each change is the same function of the tokens in one forward pass and step by step, so scores are those of search.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.config.schema import Positions
from posnmt.model.base import TranslationModel
from posnmt.model.ordered import OrderedTranslator
from posnmt.model.transformer import Transformer
from posnmt_position.seam import Scheme, rotates

_SERVED = {
    "ntk": "rotations: rope and xpos",
    "yarn": "the rotation of rope",
    "clip": "distances that are not clipped in training: those of rope, xpos, transformer-xl and biases by distance",
    "group": "the distances of rotations: rope and xpos",
    "temperature": "the self-attention of Transformers",
}
"""Change -> what it is of."""


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
    factor = positions.interpolate
    if factor is not None and not model.interpolate(factor):
        raise UserError(
            "no position scheme of this run can be interpolated",
            folder,
            "leave it out; sinusoids, rope, xpos, shape, cape and randomised support it",
        )
    if trained is None and (positions.yarn is not None or positions.temperature is not None):
        name = "yarn" if positions.yarn is not None else "temperature"
        what = (
            f"decode.positions.{name} needs the lengths of the training sentences, which the run's record does not have"
        )
        raise UserError(what, folder, "train again, or choose another change")
    lengths = trained or (0, 0)
    stacks = list(_stacks(model))
    if positions.ntk is not None:
        _check("ntk", [scheme.ntk(positions.ntk) for schemes in stacks for scheme in schemes], model, folder)
    if positions.yarn is not None:
        done = []
        for schemes, length in zip(stacks, lengths, strict=False):
            rotating = [scheme for scheme in schemes if rotates(scheme, 1)]
            done += [scheme.yarn(positions.yarn, length) for scheme in rotating]
        _check("yarn", [bool(done) and all(done)], model, folder)  # not one side of two
    if positions.clip is not None:
        done = [scheme.clip(positions.clip, positions.group) for schemes in stacks for scheme in schemes]
        _check("clip" if positions.group is None else "group", done, model, folder)
    if isinstance(model, Transformer):
        model.join_positions(lengths if positions.temperature is not None else None)
    elif positions.temperature is not None:
        _check("temperature", [], model, folder)


def _stacks(model: TranslationModel) -> Iterable[list[Scheme]]:
    """The schemes of the encoder, and those of the decoder."""
    if isinstance(model, OrderedTranslator):
        yield model.source.position_schemes()
        yield model.target.position_schemes()


def _check(name: str, done: list[bool], model: TranslationModel, folder: Path) -> None:
    """Check that a change had an effect.

    Raises:
        UserError: no scheme supports it.
    """
    if any(done):
        return
    config = model.config
    schemes = dict.fromkeys(choice.scheme for side in (config.encoder, config.decoder) for choice in side.position)
    has = ", ".join(schemes) if schemes else "no position scheme"
    if name == "temperature":
        has = f"the architecture {config.architecture}"
    what = f"decode.positions.{name} changes {_SERVED[name]}; this model has {has}"
    raise UserError(what, folder, "leave it out, or choose a change that the scheme supports")
