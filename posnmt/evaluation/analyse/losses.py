"""Losses of trained models on the subwords of references, given a correct prefix; and the files that keep them.

Legend: M models, T content subwords of all references, N sentences, V target vocabulary entries, P lengths.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posnmt.base.errors import UserError
from posnmt.base.output import replacing
from posnmt.data.unpack import refuse_bomb


@dataclass(frozen=True)
class Scored:
    """A model that was scored: one training of a system with one seed."""

    name: str
    system: str
    seed: int


@dataclass(frozen=True)
class Losses:
    """Negative log-likelihoods of reference subwords given a correct prefix, in nats.

    Attributes:
        losses: float64 [M,T].
        ends: float64 [M,N], of the end symbol after the reference; in no bin.
        early_ends: float64 [M,N], mean probability of the end symbol before the end.
        sentence: [T] index of the sentence.
        position: [T] content subwords before it in its reference.
        subword: [T] id in the target vocabulary.
        source_lengths: [N] content subwords.
        target_lengths: [N] content subwords.
        characters: [N] of the reference in NFC.
        documents: [N] numbers from 0; blocks of 20 lines where there are no ids.
        models: M of them.
        source_exposure: float64 [P] share of training pairs whose source has more than p content subwords.
        target_exposure: float64 [P'] likewise of the targets.
        unigrams: float64 [V] relative frequencies of target subwords in training.
    """

    losses: NDArray[np.float64]
    ends: NDArray[np.float64]
    early_ends: NDArray[np.float64]
    sentence: NDArray[np.integer[Any]]
    position: NDArray[np.integer[Any]]
    subword: NDArray[np.integer[Any]]
    source_lengths: NDArray[np.integer[Any]]
    target_lengths: NDArray[np.integer[Any]]
    characters: NDArray[np.integer[Any]]
    documents: NDArray[np.integer[Any]]
    models: list[Scored]
    source_exposure: NDArray[np.float64]
    target_exposure: NDArray[np.float64]
    unigrams: NDArray[np.float64]


PLAIN, AFTER_SHORT, AFTER_LONG, SHIFTED = "losses", "after-short", "after-long", "shift-"
"""Names of designs and of their files; the last is the beginning of the names of those with shifted positions."""

UNDEFINED = 255
"""In a published copy, the value where a model is undefined; what is larger than the one below is cut to that."""

UNITS = {"losses": 2.0, "ends": 2.0, "early_ends": 0.01}
"""What values are rounded to multiples of in a published copy: nats; and probabilities."""

_OF_MODELS = ("losses", "ends", "early_ends")
"""The arrays with a row for each model."""

SIDES = ("source", "target", "both")
"""The sides whose positions are shifted."""


def write_losses(path: Path, losses: Losses) -> None:
    """Write losses into an .npz file; subwords and ends in single precision, in which models compute."""
    names = [each.name for each in fields(losses) if each.name != "models"]
    arrays: dict[str, Any] = {name: _narrowed(name, getattr(losses, name)) for name in names}
    arrays["models"] = json.dumps([asdict(model) for model in losses.models], ensure_ascii=False)
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


def without_text(losses: Losses) -> Losses:
    """The same losses without the references, which the ids of subwords and a vocabulary would give away.

    Subwords are numbered anew in each sentence, so that it is still known which of a sentence are the same; their
    relative frequencies are rounded to two digits. The last entry of `unigrams` is the frequency of the rarest subword
    of all. Applied again, it changes nothing.
    """
    entries = len(losses.unigrams)
    _, first, found = np.unique(losses.sentence * entries + losses.subword, return_index=True, return_inverse=True)
    places = np.argsort(first)
    number = np.empty_like(places)
    number[places] = np.arange(len(places))
    rarest = losses.unigrams[losses.unigrams > 0].min(initial=1)
    frequencies = np.append(losses.unigrams[losses.subword[first[places]]], rarest)
    return replace(losses, subword=number[found], unigrams=_two_digits(frequencies))


def _two_digits(values: NDArray[np.float64]) -> NDArray[np.float64]:
    unit = 10.0 ** (np.floor(np.log10(np.where(values > 0, values, 1.0))) - 1)
    return np.round(values / unit) * unit


def coarse(losses: Losses) -> bytes:
    """Losses as the bytes of an .npz file for a published copy, rounded so that sums stay true.

    Each value is rounded to its unit of `UNITS`, and what rounding added is taken off the next value of the model. So
    the sum over any subwords that follow each other is true to a unit, and a mean over thousands to a few thousandths;
    the loss of a single subword is not. What is read from such a file and written again is the same. Values are written
    as differences from their median over the models, modulo 256, and not compressed: an archive finds what they have in
    common. The references cannot be read in the file.
    """
    losses = without_text(losses)
    names = [each.name for each in fields(losses) if each.name not in ("models", *UNITS)]
    arrays: dict[str, Any] = {name: _narrowed(name, getattr(losses, name)) for name in names}
    arrays["unigrams"] = arrays["unigrams"].astype(np.float32)  # of two digits
    for name, unit in UNITS.items():
        arrays |= _from_middle(name, _in_units(getattr(losses, name) / unit))
    arrays["models"] = json.dumps([asdict(model) for model in losses.models], ensure_ascii=False)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _in_units(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """[M,T] whole numbers whose sums along a row are those of the values, to within a half."""
    rounded = np.full(values.shape, UNDEFINED, dtype=np.uint8)
    left = np.zeros(len(values))
    for column in range(values.shape[1]):
        wanted = values[:, column] + left
        defined = ~np.isnan(wanted)
        whole = np.clip(np.rint(np.where(defined, wanted, 0)), 0, UNDEFINED - 1)
        rounded[defined, column] = whole[defined]
        left = np.where(defined, wanted - whole, left)
    return rounded


def _from_middle(name: str, whole: NDArray[np.uint8]) -> dict[str, NDArray[np.uint8]]:
    """The arrays of a file for whole numbers [M,T]: [T,M] differences from the median of each column, and the medians.

    Which differences there are does not matter for what is read; near 0 they take less room.
    """
    middle = np.rint(np.median(whole, axis=0)).astype(np.uint8) if len(whole) else np.zeros(0, np.uint8)
    return {name: np.ascontiguousarray((whole - middle).T), f"{name}_middle": middle}


def _from_units(name: str, file: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """[M,T] the values of a file that `coarse` made, as rounded there."""
    whole = (file[name] + file[f"{name}_middle"][:, None]).T
    return np.where(whole == UNDEFINED, np.nan, whole * UNITS[name])


def together(parts: Sequence[Losses]) -> Losses:
    """The losses of the models of several files of the same text, with the lengths of the first one's trainings.

    Raises:
        ValueError: the text or its subwords are not the same.
    """
    first, *others = parts
    of_trainings = ("source_exposure", "target_exposure", "unigrams")
    shared = [each.name for each in fields(Losses) if each.name not in (*_OF_MODELS, *of_trainings, "models")]
    for other in others:
        for name in shared:
            if not np.array_equal(getattr(first, name), getattr(other, name)):
                raise ValueError(name)
    rows = {name: np.concatenate([getattr(each, name) for each in parts]) for name in _OF_MODELS}
    return replace(first, **rows, models=[model for each in parts for model in each.models])


def of_models(losses: Losses, places: Sequence[int], models: Sequence[Scored]) -> Losses:
    """The losses of some of the models, in this order, under the names that they are given."""
    rows = {name: getattr(losses, name)[list(places)] for name in _OF_MODELS}
    return replace(losses, **rows, models=list(models))


def write_all(losses: Mapping[str, Sequence[Losses]], folder: Path) -> None:
    """Write the losses of each design, of one or several vocabularies: `losses.npz`, or `losses-1.npz` and so on."""
    for name, of_groups in losses.items():
        for number, each in enumerate(of_groups, 1):
            write_losses(folder / (f"{name}-{number}.npz" if len(of_groups) > 1 else f"{name}.npz"), each)


def of_shifts(losses: Mapping[str, Losses], shift: int | None) -> dict[str, Losses]:
    """The losses with shifted positions, by their names in the report: "source +40", "target +40", "both +40".

    Args:
        losses: name of a design -> those of one vocabulary.
        shift: where positions begin.
    """
    return {f"{side} +{shift}": losses[name] for side in SIDES if (name := f"{SHIFTED}{side}") in losses}


def read_losses(path: Path) -> Losses:
    """The losses in a file that `write_losses` wrote.

    Raises:
        UserError: the file is missing or damaged.
    """
    try:
        _refuse_declared(path)
        with np.load(path, allow_pickle=False) as file:
            models = [Scored(**each) for each in json.loads(str(file["models"]))]
            arrays = {each.name: file[each.name] for each in fields(Losses) if each.name != "models"}
            if arrays["losses"].dtype == np.uint8:
                arrays |= {name: _from_units(name, file) for name in UNITS}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        raise UserError(
            "not a file of losses, or a damaged one", path, "make it again with `posnmt score --by-position`"
        ) from None
    wide = {name: array.astype(np.float64 if array.dtype.kind == "f" else np.int64) for name, array in arrays.items()}
    return Losses(**wide, models=models)


def _refuse_declared(path: Path) -> None:
    """Check the sizes that a file declares, before anything of such a size is allocated.

    Raises:
        UserError: it unpacks to far more than losses do.
        ValueError: an array is larger than its part of the file.
    """
    with zipfile.ZipFile(path) as box:
        refuse_bomb(sum(each.file_size for each in box.infolist()), path)
        for each in box.infolist():
            with box.open(each) as file:
                np.lib.format.read_magic(file)
                shape, _, kind = np.lib.format.read_array_header_1_0(file)
                if math.prod(shape) * kind.itemsize > each.file_size:
                    raise ValueError(each.filename)


def _narrowed(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind != "f":
        return array.astype(np.int32)
    return array.astype(np.float32) if name in ("losses", "ends") else array
