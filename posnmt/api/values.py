"""What the methods of a `TrainedModel` return.

Shapes: L layers, H heads, J source subwords with `</s>`, T target subwords, Tq queries, Tk keys, d model width,
W distances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a line.

    Attributes:
        text: the translation.
        log_probability: its natural logarithm, `</s>` included, as `TrainedModel.score` computes it.
        score: log_probability / (number of subwords + 1)^length_penalty, by which hypotheses are ranked.
        ended: False where the limit of the length ended it, not the model.
        repetitive: whether it repeats itself, as the source does not (docs/translate.md).
        subwords: of the translation, `▁` for a blank.
        parts: in which the line was translated, one after the other; see `TrainedModel.translate`.
    """

    text: str
    log_probability: float
    score: float
    ended: bool
    repetitive: bool
    subwords: list[str]
    parts: int


@dataclass(frozen=True)
class Encoding:
    """The encoder's output for one line.

    Attributes:
        subwords: [J] of the line; the last is `</s>`. An empty line has none.
        states: [J,d] a vector for each subword.
    """

    subwords: list[str]
    states: Floats


@dataclass(frozen=True)
class AttentionMap:
    """One kind of attention in all layers and heads.

    Attributes:
        queries: [Tq] subwords from which the model attends.
        keys: [Tk] subwords to which it attends.
        weights: [L,H,Tq,Tk] they sum to 1 over the keys.
        seen: [L,H,Tq,Tk] whether a query may see a key: not hidden by a causal mask or by a scheme.
        position: [L,H,Tq,Tk] what the position schemes add to the logits: their bias, and for a rotation the change of
            the product of query and key. None: no scheme acts on these logits.
    """

    queries: list[str]
    keys: list[str]
    weights: Floats
    seen: NDArray[np.bool_]
    position: Floats | None

    def by_distance(self) -> DistanceBias | None:
        """The mean of `position` over the queries and keys at each distance; None where `position` is None.

        Only keys that the query may see count; NaN where a head sees none at a distance.
        """
        if self.position is None:
            return None
        offsets = np.arange(len(self.keys))[None, :] - np.arange(len(self.queries))[:, None]  # [Tq,Tk]
        distances = np.unique(offsets[self.seen.any(axis=(0, 1))])
        bias = np.full((*self.position.shape[:2], len(distances)), np.nan, np.float32)
        for place, distance in enumerate(distances):
            at = self.seen & (offsets == distance)
            counts = at.sum(axis=(2, 3))
            sums = np.where(at, self.position, 0.0).sum(axis=(2, 3))
            np.divide(sums, counts, out=bias[:, :, place], where=counts > 0)
        return DistanceBias(distances, bias)


@dataclass(frozen=True)
class DistanceBias:
    """What position schemes add to the attention logits, by distance.

    Attributes:
        distances: [W] key position minus query position, ascending.
        bias: [L,H,W].
    """

    distances: NDArray[np.int64]
    bias: Floats


@dataclass(frozen=True)
class Attentions:
    """The attention of a model on one pair of lines.

    Attributes:
        encoder: of the source to itself; queries and keys are its subwords and `</s>`.
        decoder: of the target to itself; queries and keys are `<s>` and its subwords.
        cross: of the target to the source.
        predicted: [T] the subword that the model predicts at each query of the decoder: the target's, then `</s>`.
    """

    encoder: AttentionMap
    decoder: AttentionMap
    cross: AttentionMap
    predicted: list[str]
