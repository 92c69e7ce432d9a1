"""What the position parts of a model do, as arrays: what `TrainedModel.attention` and `.positions` return.

Shapes: L layers, H heads, T target subwords, Tq queries, Tk keys, d model width, W distances, N positions.
A distance is the position of the key minus that of the query; positions count from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from posnmt.translate.distances import ByDistance, Floats, Integers, Sums, mean


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
        counted: [L,H,Tq,Tk] how far a key is from a query for a scheme that counts tokens by what it reads of the words
            (CoPE); NaN in a layer without. None: no scheme does.
        penalties: [L,Tq,d] between 0 and 1, what reordering embeddings leave of each position feature of a word; NaN in
            a layer without. None: there are no such embeddings.
    """

    queries: list[str]
    keys: list[str]
    weights: Floats
    seen: NDArray[np.bool_]
    position: Floats | None
    counted: Floats | None = None
    penalties: Floats | None = None

    def by_distance(self) -> DistanceBias | None:
        """The mean of `position` over the queries and keys at each distance; None where `position` is None.

        Only keys that the query may see count; NaN where a head sees none at a distance.
        """
        if self.position is None:
            return None
        means = mean([Sums.of(self.position, self.seen)])
        return DistanceBias(means.distances, means.values)


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


@dataclass(frozen=True)
class DistanceBias:
    """What position schemes add to the attention logits, by distance.

    Attributes:
        distances: [W] key position minus query position, ascending.
        bias: [L,H,W].
    """

    distances: Integers
    bias: Floats


@dataclass(frozen=True)
class Similarity:
    """How similar the positions of a stack are to each other, at the input of its first layer.

    Attributes:
        cosine: [N,N] of the vectors at two positions. Where the change that the schemes make is the same for all words,
            the vectors are that change; otherwise they are what the first layer reads if all N words are the same, and
            the cosine is the mean over `words`.
        words: the subwords of which it is the mean; none: of the position vectors themselves.
    """

    cosine: Floats
    words: list[str]


@dataclass(frozen=True)
class MovedWords:
    """How far the exchange of two neighbouring words is felt at the input of the first layer.

    Attributes:
        distances: [W] position minus that of the first exchanged word, ascending; 0 and 1 are the exchanged words.
        change: [W] length of the difference of the vector at this distance by the length of the vector, the mean over
            all exchanges of different words.
        exchanges: [W] of how many it is the mean.
    """

    distances: Integers
    change: Floats
    exchanges: Integers


@dataclass(frozen=True)
class VectorNorms:
    """The lengths of trained vectors by the position or distance that each belongs to.

    Attributes:
        name: what the vectors are added to.
        kind: what they belong to. The first and the last of `distance` also serve all distances beyond.
        places: [n] positions from 0, or distances, ascending.
        norms: [L,n] of each layer, NaN where it has no vector, or [1,n] of vectors of a whole stack.
        share: [n] the share of training sentences that have a word there, between 0 and 1; NaN: unknown.
    """

    name: str
    kind: Literal["position", "distance"]
    places: Integers
    norms: Floats
    share: Floats


@dataclass(frozen=True)
class TrainedTokens:
    """The lengths of the training sentences as a stack reads them: in subwords, with its special symbols.

    Attributes:
        shortest, longest: number of tokens; positions from 0 to longest - 1 occur in training.
        lengths: of each training sentence; None: only the shortest and the longest are known.
    """

    shortest: int
    longest: int
    lengths: Integers | None

    def share(self, places: Integers) -> Floats:
        """The share of training sentences that have a token at each position, or two tokens at each distance.

        NaN where it is unknown.
        """
        least = np.abs(places) + 1
        if self.lengths is not None:
            shorter = np.searchsorted(np.sort(self.lengths), least)  # sentences with too few tokens
            return (1 - shorter / len(self.lengths)).astype(np.float32)
        return np.select([least <= self.shortest, least > self.longest], [1.0, 0.0], np.nan).astype(np.float32)


@dataclass(frozen=True)
class StackPositions:
    """What the position parts of one stack do. What a stack does not have is None.

    Attributes:
        trained: lengths in training; None: the run's record does not have them.
        attention: the mean attention weight that a query gives to each distance; sums to 1.
        bias: what schemes add to the logits whatever the words, in a sentence of `length` tokens.
        logits: the mean of what all schemes add to the logits, their biases and the change by a rotation.
        similarity: of the vectors that schemes give to positions in the embeddings.
        moved: what an exchange of words changes at other words, where a scheme reads several words, as a recurrence.
        counted: how far keys are, for a scheme that counts tokens by what it reads of the words (CoPE).
        vectors: trained vectors of positions or distances.
    """

    trained: TrainedTokens | None
    attention: ByDistance | None
    bias: DistanceBias | None
    logits: ByDistance | None
    similarity: Similarity | None
    moved: MovedWords | None
    counted: ByDistance | None
    vectors: list[VectorNorms]


@dataclass(frozen=True)
class Positions:
    """What the position parts of a model do.

    Attributes:
        encoder, decoder: of its stacks.
        cross: attention from the target to the source as `StackPositions.attention`, by source minus target position;
            None: the model is not a Transformer.
        length: N, the number of positions of `similarity`, unless a finite table ends before; distances of `bias` are
            below it.
        lines: number of lines that the means are over.
    """

    encoder: StackPositions
    decoder: StackPositions
    cross: ByDistance | None
    length: int
    lines: int
