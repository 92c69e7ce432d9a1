"""A Transformer with recurrent feed-forward layers: SRU in place of the inner ReLU layer (Lei et al. 2018)."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from posnmt.config.schema import Model
from posnmt.model.start import XAVIER, Start, start_of
from posnmt.model.state import LayerCache
from posnmt.model.transformer import Transformer
from posnmt_position.dropout import Dropout
from posnmt_position.linear import Linear
from posnmt_position.options import Options, option
from posnmt_position.recurrent.cells import Recurrence
from posnmt_position.seam import Span


class RecurrentFeedForward(nn.Module):
    """`W SRU(x) + b` in place of the feed-forward layer `W ReLU(V x + c) + b`."""

    def __init__(self, d_model: int, inner: int, dropout: float, bidirectional: bool, start: Start = XAVIER) -> None:
        super().__init__()
        self.recurrence = Recurrence("sru", d_model, inner, bidirectional, highway=False)
        self.fc2 = Linear(inner, d_model)
        self.dropout = Dropout(dropout)
        start(self.fc2, "feed-forward-output")

    def forward(self, x: Tensor, span: Span, cache: LayerCache | None = None) -> Tensor:
        """[B,T,d] -> [B,T,d]; the carry of the recurrence is in the decoder layer's cache."""
        states, carry = self.recurrence(x, span, None if cache is None else cache.feed_forward)
        if cache is not None:
            cache.feed_forward = carry
        output: Tensor = self.fc2(self.dropout(states))
        return output


class RecurrentTransformer(Transformer):
    """The Transformer whose feed-forward layers are `W SRU-layer(x) + b` (Lei et al. 2018, section on translation).

    The recurrence is as wide as the feed-forward layer that it replaces (d_ff). The input is narrower, so there is no
    highway term: three matrices in each recurrence reproduce the sizes in the paper's table (76 M for 6 plain layers,
    79 M for 4 and 90 M for 5 recurrent ones), and four do not. As in the paper, positions are added at the input. The
    full text was not available, so it is unverified whether the paper's encoder is bidirectional; here it is by
    default.
    """

    class Settings(Options):
        """Options of the architecture `sru` beside the common settings of a model."""

        bidirectional: bool = option(True, help="bidirectional recurrences in the encoder, of half the width each")

    @classmethod
    def refuses(cls, config: Model, settings: Any) -> list[tuple[tuple[str, ...], str]]:
        """An odd width, which two directions cannot share, and an activation, since a recurrence has none."""
        faults = super().refuses(config, settings)
        if config.activation != "relu":
            what = f"sru has recurrences in place of activations; leave it out, got {config.activation}"
            faults.append((("activation",), what))
        if settings.bidirectional and config.feed_forward % 2:
            what = f"sru needs an even feed_forward, half for each direction; {config.feed_forward} is odd"
            faults.append((("feed_forward",), what))
        return faults

    def compile_training(self, backend: str = "inductor") -> bool:
        """False: torch.compile unrolls the steps of a recurrence, so each length would be a graph of its own."""
        return False

    def build_feed_forward(self, config: Model, causal: bool) -> nn.Module:
        """A recurrent layer, forward in the decoder."""
        both_ways = self.Settings(**config.options).bidirectional and not causal
        return RecurrentFeedForward(
            config.d_model, config.feed_forward, config.feed_forward_dropout, both_ways, start_of(config, causal)
        )
