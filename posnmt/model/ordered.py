"""Word embeddings with position schemes, and the base class of the models that have them.

Every such model supports what a scheme does before the first layer. A scheme that acts inside Transformer layers is
refused by a model without them.

Shapes: B rows, T tokens, d model width.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from posnmt.config.schema import Model
from posnmt.model.base import Faults, TranslationModel, embeddings, foreign_settings, stacks
from posnmt.model.lookup import look_up
from posnmt.model.positions import build, check, refuse_beyond
from posnmt_position.dropout import Dropout
from posnmt_position.seam import Carry, Scheme, Span


class OrderedEmbedding(nn.Module):
    """Word embeddings times sqrt(d), then the stack's position schemes, then dropout.

    Args:
        dropout: on the input of the first layer; a scheme may replace it (`Scheme.dropout_after`).
        scaled: whether the embeddings are multiplied by sqrt(d).

    Attributes:
        origin: position of the first token, 0 but where positions are shifted (`TranslationModel.shift`).
    """

    origin = 0

    def __init__(self, table: nn.Embedding, dropout: float, scaled: bool) -> None:
        super().__init__()
        self.table = table
        self.scale = math.sqrt(table.embedding_dim) if scaled else 1.0
        self.dropout = Dropout(dropout)
        self.schemes = nn.ModuleList()

    def forward(self, tokens: Tensor, span: Span, carry: list[Carry]) -> tuple[Tensor, list[Carry]]:
        """Tokens [B,T] -> [B,T,d], and the new carry of each scheme.

        Raises:
            UserError: a token is past the last position of a scheme.
        """
        x = look_up(self.table, tokens) * self.scale
        carries: list[Carry] = []
        for scheme, memory in zip(self.position_schemes(), carry, strict=True):
            refuse_beyond(scheme, span.first + span.length)
            x, memory = scheme.embed(x, span, memory)
            carries.append(memory)
        return self.dropout(self._narrowed(x)), carries

    def _narrowed(self, x: Tensor) -> Tensor:
        """x in bf16 for training in bf16 on a CPU, and so the residual stream: memory traffic is halved."""
        if not self.training or x.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
            return x
        return x.to(torch.get_autocast_dtype("cpu"))

    @property
    def longest(self) -> int | None:
        """The longest input in tokens that every scheme supports; None: no limit."""
        limits = [scheme.longest - self.origin for scheme in self.position_schemes() if scheme.longest is not None]
        return min(limits, default=None)

    def position_schemes(self) -> list[Scheme]:
        """List the position schemes of the stack in the order of the configuration."""
        return [scheme for scheme in self.schemes if isinstance(scheme, Scheme)]

    def attach(self, schemes: list[Scheme]) -> None:
        """Add the stack's schemes. Called last, so that with one seed the other weights do not depend on the scheme."""
        self.schemes.extend(schemes)
        for scheme in schemes:
            if scheme.dropout_after is not None:
                self.dropout = Dropout(scheme.dropout_after)


class OrderedTranslator(TranslationModel):
    """Source and target word embeddings with their position schemes.

    An architecture builds its other parts, `output` among them, and calls `attach_schemes` last, so that with one seed
    the other weights do not depend on the scheme.

    Attributes:
        source, target: the word embeddings of each side, with their schemes.
        has_transformer_layers: whether schemes may act inside its layers.
        has_cross_positions: whether its attention to the source may have schemes.
    """

    has_transformer_layers: ClassVar[bool] = False
    has_cross_positions: ClassVar[bool] = False

    def __init__(self, config: Model, source_size: int, target_size: int) -> None:
        super().__init__(config)
        source, target = self.build_embeddings(config, source_size, target_size)
        self.source = OrderedEmbedding(source, config.dropout, config.scale_embeddings)
        self.target = OrderedEmbedding(target, config.dropout, config.scale_embeddings)

    def build_embeddings(self, config: Model, source_size: int, target_size: int) -> tuple[nn.Embedding, nn.Embedding]:
        """Source and target word embeddings; a module with the attributes of an `nn.Embedding` may stand for one."""
        return embeddings(config, source_size, target_size)

    def attach_schemes(self) -> None:
        """Build the position schemes of the configuration."""
        self.source.attach(self.build_schemes("encoder.position"))
        self.target.attach(self.build_schemes("decoder.position"))

    def build_schemes(self, place: str) -> list[Scheme]:
        """New schemes of a list of the configuration (`Model.schemes`)."""
        return [build(choice, stacks(self.config)[place]) for choice in self.config.schemes[place]]

    @classmethod
    def refuses(cls, config: Model, settings: Any) -> Faults:
        """Schemes that cannot serve their stack or need Transformer layers, and settings that do not apply."""
        faults: Faults = [] if cls.has_transformer_layers else foreign_settings(config)
        for place, choices in config.schemes.items():
            stack, keys = stacks(config)[place], place.split(".")
            if stack.cross and choices and not cls.has_cross_positions:
                what = f"{config.architecture} has no attention to the source that takes position schemes; leave it out"
                faults.append((tuple(keys), what))
                continue
            refused = check(choices, stack)
            faults += [((*keys, *([] if index is None else [str(index)])), fault) for index, fault in refused]
            if cls.has_transformer_layers:
                continue
            for index in set(range(len(choices))).difference(index for index, _ in refused if index is not None):
                with torch.device("meta"):  # whether a scheme has layer views may depend on its options
                    scheme = build(choices[index], stack)
                if any(scheme.view_in(layer) is not None for layer in range(stack.layers)):
                    fault = (
                        f"{choices[index].scheme} acts inside the layers of a Transformer, which {config.architecture}"
                        " lacks; choose a scheme that changes the word embeddings, such as learned or sinusoidal"
                    )
                    faults.append(((*keys, str(index)), fault))
        return faults

    def interpolate(self, factor: float) -> bool:
        """Divide every position by `factor`, on both sides, if a scheme supports it."""
        known = False
        for scheme in (*self.source.position_schemes(), *self.target.position_schemes()):
            known = scheme.interpolate(factor) or known
        return known

    def shift(self, source: int, target: int) -> bool:
        """Let positions begin at these numbers, for every scheme of each side."""
        self.source.origin, self.target.origin = source, target
        return True

    @property
    def longest_source(self) -> int | None:
        """The longest source in tokens, the end symbol included and a begin symbol not; None: no limit."""
        longest = self.source.longest
        return None if longest is None else longest - self.config.source_begin

    @property
    def longest_target(self) -> int | None:
        """The longest target in tokens, the begin-of-sentence symbol included; None: no limit."""
        return self.target.longest
