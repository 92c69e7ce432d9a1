"""The coverage penalty of search: translations that leave out words of the source rank lower.

    cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1))    (Wu et al. 2016, equation 14)

`p_ij` is the attention of step j to source subword i in the last decoder layer: the mean over its heads, and over the
models of an ensemble. The steps include that of eos; the end symbol of the source is not a subword. The penalty is
added to the scores of finished hypotheses, as by Wu et al. and by OpenNMT-py without `stepwise_penalty`. Open
hypotheses are ordered by their probabilities.

Shapes: S sentences, N hypotheses (N / S of a sentence), J source tokens, k hypotheses of a sentence, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posnmt.translate.watched import SourceAttention


class Coverage:
    """How far the hypotheses of a batch cover their sources; a `State` of search.

    Args:
        weight: beta.
        watched: of the models; see `watching`.
        source: [S,J] subwords with eos, right-padded.
        lengths: [S] real source tokens.
    """

    def __init__(self, weight: float, watched: Sequence[SourceAttention], source: Tensor, lengths: Tensor) -> None:
        self.weight, self.watched = weight, watched
        places = torch.arange(source.shape[1], device=source.device)
        self._words = places < lengths[:, None] - 1  # [S,J]
        self._attended = torch.zeros(source.shape, device=source.device)  # [N,J]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep hypotheses `rows` [N'] in this order, and `sentences` [S'] if some have left the batch."""
        self._attended = self._attended.index_select(0, rows)
        if sentences is not None:
            self._words = self._words.index_select(0, sentences)

    def add(self) -> None:
        """Add the attention of the step that the models have computed."""
        width = self._attended.shape[1]
        each = [attention.weights[:, 0, -width:] for attention in self.watched]
        self._attended = self._attended + torch.stack(each).mean(0)

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """What `take` takes, on the device: attention [N,J], and which source tokens are subwords [S,J]."""
        return self._attended, self._words

    def take(self, attended: NDArray[np.float64], words: NDArray[np.float64]) -> None:
        """Keep what was read of `tensors`, for the penalties of this step."""
        self._read = torch.from_numpy(attended).float(), torch.from_numpy(words).bool()

    def penalty(self, row: int) -> float:
        """cp of a hypothesis, 0 or less, from what was taken last."""
        all_attended, all_words = self._read
        words = all_words[row // (len(all_attended) // len(all_words))]
        attended = all_attended[row][words].clamp(torch.finfo(torch.float32).tiny, 1.0)
        return self.weight * attended.log().sum().item()
