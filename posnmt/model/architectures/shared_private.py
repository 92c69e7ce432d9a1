"""A Transformer whose source and target words share features of their embeddings: a reconstruction (Liu et al. 2019).

Shapes: V vocabulary entries of a side, d model width, P pairs of a class, U words without a partner.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from posnmt.config.schema import Model
from posnmt.data.word_pairs import CLASSES, WordPairs
from posnmt.model.base import Faults, embedding_deviation
from posnmt.model.transformer import Transformer
from posnmt_position.options import Options, option

Side = Literal["source", "target"]


class Settings(Options):
    """Options of the architecture `shared-private` beside the common settings."""

    lm: float = option(0.9, ge=0, le=1, help="share of the features that a word shares with its translation")
    wf: float = option(0.7, ge=0, le=1, help="share for words that are spelt alike")
    ur: float = option(0.5, ge=0, le=1, help="share for unrelated words of the same frequency rank")


class PairedWords(nn.Module):
    """The parameters of both word embeddings.

    The words of a pair of class c have `x = [shared; private]`: the first lambda_c d features are one vector for both,
    the others are a vector of each.
    """

    def __init__(self, pairs: WordPairs, sizes: dict[Side, int], d_model: int, shares: dict[str, float]) -> None:
        super().__init__()
        self.shared, self.private = nn.ParameterDict(), nn.ParameterDict()
        kinds = {name: pairs.kinds == index for index, name in enumerate(CLASSES) if (pairs.kinds == index).any()}
        self.kinds = tuple(kinds)
        self.widths = {name: round(shares[name] * d_model) for name in kinds}
        for name, chosen in kinds.items():
            if self.widths[name]:
                self.shared[name] = nn.Parameter(torch.empty(int(chosen.sum()), self.widths[name]))
        sides: tuple[tuple[Side, NDArray[np.int64]], ...] = (("source", pairs.source), ("target", pairs.target))
        for side, ids in sides:
            alone = sorted(set(range(sizes[side])).difference(ids.tolist()))
            for name, chosen in kinds.items():
                if self.widths[name] < d_model:
                    self.private[f"{side}_{name}"] = nn.Parameter(
                        torch.empty(int(chosen.sum()), d_model - self.widths[name])
                    )
            if alone:
                self.private[side] = nn.Parameter(torch.empty(len(alone), d_model))
            order = torch.tensor([*(int(word) for chosen in kinds.values() for word in ids[chosen]), *alone])
            self.register_buffer(f"{side}_rows", order.argsort(), persistent=False)

    def table(self, side: Side) -> Tensor:
        """[V,d] the embeddings of a side."""
        rows = [
            torch.cat([part[key] for part, key in self._parts(side, name) if key in part], dim=1) for name in self.kinds
        ]
        if side in self.private:
            rows.append(self.private[side])
        return torch.cat(rows).index_select(0, getattr(self, f"{side}_rows"))

    def _parts(self, side: Side, name: str) -> tuple[tuple[nn.ParameterDict, str], tuple[nn.ParameterDict, str]]:
        """Where the shared and the private features of a class may be."""
        return (self.shared, name), (self.private, f"{side}_{name}")


class PairedEmbedding(nn.Module):
    """The word embedding of one side, an `nn.Embedding` whose matrix is computed from `PairedWords`."""

    def __init__(self, words: PairedWords, side: Side, size: int, d_model: int) -> None:
        super().__init__()
        self.words, self.side = words, side
        self.num_embeddings, self.embedding_dim = size, d_model
        self._last: tuple[tuple[Any, ...], Tensor] | None = None

    @property
    def weight(self) -> Tensor:
        """[V,d]; in evaluation without gradients it is computed again only after its parameters have changed."""
        parameters = list(self.words.parameters())
        if self.training or torch.is_grad_enabled() or any(each.is_inference() for each in parameters):
            return self.words.table(self.side)
        state = tuple((each.data_ptr(), each._version, each.dtype) for each in parameters)
        if self._last is None or self._last[0] != state:
            self._last = state, self.words.table(self.side)
        return self._last[1]

    def train(self, mode: bool = True) -> PairedEmbedding:
        """Begin training or evaluation; fused optimizers change parameters without a new version."""
        self._last = None
        return super().train(mode)

    def forward(self, tokens: Tensor) -> Tensor:
        """Look entries [..] up; return their embeddings [..,d]."""
        return functional.embedding(tokens, self.weight)


class PairedProjection(nn.Module):
    """`E x + b`, E the word embedding of the target."""

    def __init__(self, table: Any) -> None:
        super().__init__()
        self.table = table
        self.bias = nn.Parameter(torch.zeros(table.num_embeddings))

    @property
    def weight(self) -> Tensor:
        """E [V,d], the target embedding with its shared and private features."""
        return self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        """Project decoder states [..,d] to logits [..,V]."""
        return functional.linear(x, self.weight, self.bias)


class SharedPrivateTransformer(Transformer):
    """The Transformer with shared-private word embeddings (Liu et al. 2019): a reconstruction.

    Each source word is paired with at most one target word, and both share the first features of their embeddings, the
    more the more related they are (`posnmt.data.word_pairs` has the classes). The target embedding is the output
    projection too. The parameters of the embeddings are d (2 - lambda_c) for each pair of class c, d for each word
    without a partner. Without known pairs, as for a parameter count, all words count as unrelated.

    Established are the shared features (the abstract) and the three kinds of pairs. The shares 0.9, 0.7 and 0.5 are
    recalled. The threshold of the aligner, and eflomal in place of fast_align, are chosen here.
    """

    Settings = Settings
    reads_pairs: ClassVar[bool] = True

    def __init__(self, config: Model, source_size: int, target_size: int, pairs: WordPairs | None = None) -> None:
        self.pairs = WordPairs.by_rank(source_size, target_size) if pairs is None else pairs
        super().__init__(config, source_size, target_size)

    @classmethod
    def refuses(cls, config: Model, settings: Any) -> Faults:
        """Report embeddings that are tied in another way than target and output."""
        faults = super().refuses(config, settings)
        if config.tie_embeddings != "target":
            what = (
                f"shared-private has the target embedding as output projection; set target, got {config.tie_embeddings}"
            )
            faults.append((("tie_embeddings",), what))
        return faults

    def build_embeddings(self, config: Model, source_size: int, target_size: int) -> Any:
        """The embeddings of both sides, computed from the same parameters."""
        shares = {"all": 1.0, **vars(Settings(**config.options))}
        words = PairedWords(self.pairs, {"source": source_size, "target": target_size}, config.d_model, shares)
        for weight in words.parameters():
            nn.init.normal_(weight, std=embedding_deviation(config))
        return (
            PairedEmbedding(words, "source", source_size, config.d_model),
            PairedEmbedding(words, "target", target_size, config.d_model),
        )

    def build_output(self, config: Model) -> Any:
        """The projection by the target embedding."""
        return PairedProjection(self.target.table)
