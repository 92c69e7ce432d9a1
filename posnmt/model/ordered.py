"""What translators share that are no Transformers and whose word embeddings position schemes may change all the same.

A scheme may do everything here that it does before the first layer; one that acts inside Transformer layers is refused.
"""

from __future__ import annotations

from typing import Any

import torch

from posnmt.config import Model
from posnmt.model.base import Faults, TranslationModel, embeddings, stacks
from posnmt.model.rnn import foreign_parts
from posnmt.model.transformer import OrderedEmbedding, Transformer
from posnmt.position.registry import build


class OrderedTranslator(TranslationModel):
    """Source and target word embeddings with their position schemes.

    An architecture builds its other parts, `output` among them, and calls `attach_schemes` last, so that one seed draws
    the same other weights under every scheme.

    Attributes:
        source, target: the word embeddings of each side, with order.
    """

    def __init__(self, config: Model, source_size: int, target_size: int) -> None:
        super().__init__(config)
        source, target = embeddings(config, source_size, target_size)
        self.source = OrderedEmbedding(source, config.dropout)
        self.target = OrderedEmbedding(target, config.dropout)

    def attach_schemes(self) -> None:
        """Build the position schemes of the configuration."""
        for side, embedding in (("encoder", self.source), ("decoder", self.target)):
            stack = stacks(self.config)[side]
            embedding.attach([build(choice, stack) for choice in getattr(self.config, side).position])

    @classmethod
    def refuses(cls, config: Model, settings: Any) -> Faults:
        """Schemes that cannot serve their stack or act inside layers, and dropouts of parts that it has not got."""
        faults = Transformer.refuses(config, settings)
        faults += [fault for fault in foreign_parts(config) if fault[0][-1] != "position"]
        refused = {place for place, _ in faults}
        for side, stack in stacks(config).items():
            for index, choice in enumerate(getattr(config, side).position):
                place = (side, "position", str(index))
                if place in refused:
                    continue
                with torch.device("meta"):  # what a scheme does in layers may hang on its options: ask it
                    scheme = build(choice, stack)
                if any(scheme.layer(layer) is not None for layer in range(stack.layers)):
                    name = config.architecture
                    faults.append(
                        (
                            place,
                            f"{choice.scheme} acts inside the layers of a Transformer, which {name} has not got; choose"
                            " a scheme that changes the word embeddings, such as learned or sinusoidal",
                        )
                    )
        return faults

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor`, on both sides, where a scheme has such a thing."""
        known = False
        for scheme in (*self.source.position_schemes(), *self.target.position_schemes()):
            known = scheme.interpolate(factor) or known
        return known

    @property
    def longest_source(self) -> int | None:
        """Most source tokens the encoder can place, the end-of-sentence symbol included; None: no limit."""
        return self.source.longest

    @property
    def longest_target(self) -> int | None:
        """Most target tokens the decoder can place, the begin-of-sentence symbol included; None: no limit."""
        return self.target.longest
