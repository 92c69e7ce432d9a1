"""Losses by character, for models with different target vocabularies: characters are the unit that they share.

A subword's loss is spread evenly over its characters, which keeps the sum over a reference. Bits per character are then
`sum of losses / (ln 2 x characters)` in any bin of characters (Mielke 2019). Only one segmentation of the reference is
scored, so its loss is an upper bound of the loss of the text (Cao & Rimell 2021). The end symbol is in no bin.

Legend: M models, C characters of all references in NFC, N sentences, t subwords of a reference.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posnmt.data.subword import BYTE
from posnmt.evaluation.analyse.losses import Losses, Scored

WIDTH = 20
"""Of a bin, in characters."""

COLUMNS = ("bin", "system", "seed", "sentences", "documents", "characters", "bits")
"""Of the table; `bits` is a mean over characters."""


@dataclass(frozen=True)
class CharacterLosses:
    """Losses by character, in bits.

    Attributes:
        bits: float64 [M,C].
        sentence: [C] index of the sentence.
        position: [C] characters before it in its reference.
        documents: [N] numbers from 0.
        models: M of them.
    """

    bits: NDArray[np.float64]
    sentence: NDArray[np.integer[Any]]
    position: NDArray[np.integer[Any]]
    documents: NDArray[np.integer[Any]]
    models: list[Scored]

    @classmethod
    def of(cls, groups: Sequence[tuple[Losses, Sequence[str]]]) -> CharacterLosses:
        """The losses of groups of models that scored the same sentences, each with the pieces of its vocabulary by id.

        Sentences for which some model is undefined are left out.
        """
        first, _ = groups[0]
        read = np.bincount(first.sentence, minlength=len(first.characters)) > 0  # others have no subwords
        characters = np.where(read, first.characters, 0)
        bits = np.concatenate([_by_character(losses, pieces, characters) / np.log(2) for losses, pieces in groups])
        defined = np.isfinite(bits).all(axis=0)
        return cls(
            bits[:, defined],
            np.repeat(np.arange(len(characters)), characters)[defined],
            np.concatenate([np.zeros(0, np.int64), *map(np.arange, characters)])[defined],
            first.documents,
            [model for losses, _ in groups for model in losses.models],
        )


def character_csv(losses: CharacterLosses) -> str:
    """Bits per character by the number of characters before, as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *_rows(losses)])
    return text.getvalue()


def _rows(losses: CharacterLosses) -> Iterator[list[Any]]:
    """A row for each bin that has characters, and each model."""
    for number in np.unique(losses.position // WIDTH).tolist():
        chosen = losses.position // WIDTH == number
        sentences = np.unique(losses.sentence[chosen])
        documents = len(np.unique(losses.documents[sentences]))
        name = f"{number * WIDTH}-{(number + 1) * WIDTH - 1}"
        for model, row in zip(losses.models, losses.bits, strict=True):
            mean = f"{row[chosen].mean():.6f}"
            yield [name, model.system, model.seed, len(sentences), documents, int(chosen.sum()), mean]


def _by_character(losses: Losses, pieces: Sequence[str], characters: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Losses [M,C] in nats of all characters, sentence after sentence."""
    ends = np.cumsum(np.bincount(losses.sentence, minlength=len(characters)))
    rows = [np.zeros((len(losses.models), 0))]
    for begin, end, count in zip([0, *ends[:-1]], ends, characters, strict=True):
        widths = character_widths([pieces[each] for each in losses.subword[begin:end]])
        rows.append(spread(losses.losses[:, begin:end], widths, int(count)))
    return np.concatenate(rows, axis=1)


def spread(losses: NDArray[np.float64], widths: NDArray[np.float64], characters: int) -> NDArray[np.float64]:
    """[M,characters] the losses [M,t] of subwords, spread over characters in proportion to the subwords' widths [t]."""
    if not characters:
        return np.zeros((len(losses), 0))
    edges = np.concatenate([[0.0], np.cumsum(widths)]) / widths.sum() * characters
    edges[-1] = characters
    totals = np.concatenate([np.zeros((len(losses), 1)), np.cumsum(losses, axis=1)], axis=1)
    places = np.arange(characters + 1)
    return np.diff(np.array([np.interp(places, edges, row) for row in totals]), axis=1)


def character_widths(pieces: Sequence[str]) -> NDArray[np.float64]:
    """[t] widths of subwords in characters; the bytes of a character share 1, and an unknown subword has 1."""
    widths, share = [], 1.0
    for piece in pieces:
        byte = BYTE.fullmatch(piece)
        if byte is None:
            widths.append(1.0 if piece == "<unk>" else float(len(piece)))
            continue
        value = int(byte[1], 16)
        if value < 0x80 or value >= 0xC0:  # the first byte of a character tells how many there are
            share = 1 / (1 + (value >= 0xC0) + (value >= 0xE0) + (value >= 0xF0))
        widths.append(share)
    return np.array(widths)
