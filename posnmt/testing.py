"""Checks for position schemes: `check_scheme(MyScheme)` tests a scheme of any package, without pytest.

A scheme that passes can be used in a configuration: it trains, translates step by step and with beams, supports long
inputs in blocks, and is stored and packed like those of posnmt. Its equation is not tested.

`posnmt_position.testing` has the checks that apply to any Transformer; here are those of what posnmt adds.

Shapes: B rows, J source tokens, T target tokens, d model width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

import posnmt_position.testing as position
from posnmt.config.schema import Model, SchemeChoice
from posnmt.model.base import stacks
from posnmt.model.kernels.operands import Attention
from posnmt.model.positions import SCHEMES, check
from posnmt.model.registry import architecture, build_model
from posnmt.model.transformer import Transformer
from posnmt_position.seam import LayerPositions, Scheme, Stack
from posnmt_position.testing import VOCABULARY, in_pieces, same, tokens

__all__ = ["CHECKS", "VOCABULARY", "Subject", "blocks_of", "check_scheme", "in_pieces", "tokens"]

_NAME = "checked-scheme"


def check_scheme(
    kind: type[Scheme], options: Mapping[str, Any] | None = None, d_model: int = 16, heads: int = 4, layers: int = 2
) -> None:
    """Check a position scheme in an encoder, in a decoder and in attention to the source, unless it refuses them.

    Args:
        kind: the scheme; it need not be registered.
        options: options other than the defaults.
        d_model, heads, layers: of the small test models.

    Raises:
        AssertionError: the property that does not hold, and the stack.
    """
    position.check_scheme(kind, options, d_model, heads, layers)
    with _registered(kind):
        choice = SchemeChoice.model_validate({"scheme": _NAME, **(options or {})})
        for setting, where in zip(stacks(Model()), position.PLACES, strict=True):
            side, name = setting.split(".")
            sides: dict[str, dict[str, Any]] = {each: {"layers": layers} for each in ("encoder", "decoder")}
            sides[side] |= {name: [choice]}
            sizes = {"d_model": d_model, "heads": heads, "feed_forward": 24, "dropout": 0.0}
            subject = Subject(Model.model_validate({**sizes, **sides}))
            if not check([choice], stacks(subject.config)[setting]):
                position.check(CHECKS, subject, f"{kind.__name__} in the {where}")


@dataclass(frozen=True)
class Subject:
    """The `model` section of a test model."""

    config: Model

    def build(self, seed: int = 0) -> Any:
        """The model in float64, in evaluation mode."""
        torch.manual_seed(seed)
        model = build_model(self.config, VOCABULARY, VOCABULARY).double().eval()
        model.learn_lengths(round(10 * position.RATIO), 10)
        return model

    @property
    def stack(self) -> Stack:
        """The properties of the encoder's position schemes taken together."""
        return stacks(self.config)["encoder.position"]

    @property
    def is_transformer(self) -> bool:
        """Whether schemes may act inside the layers."""
        return issubclass(architecture(self.config.architecture), Transformer)

    def views(self, model: Any) -> Sequence[LayerPositions]:
        """The joined views of a Transformer's layers."""
        return [*model.encoder_views, *model.decoder_views, *model.cross_views] if self.is_transformer else []


def parts(subject: Subject) -> None:
    """A batch in parts, as in training on a CPU, has the same loss and gradients as the whole batch."""
    from posnmt.config.schema import Train
    from posnmt.training.device import make_fabric
    from posnmt.training.gradients import Gradients, InParts, Whole
    from posnmt.training.loss import TrainingLoss

    generator, fabric = np.random.default_rng(1), make_fabric(Train(steps=1, precision="fp64"))
    batch = [
        (
            generator.integers(4, VOCABULARY, size=source_length, dtype=np.int32),
            generator.integers(4, VOCABULARY, size=target_length, dtype=np.int32),
        )
        for source_length, target_length in generator.integers(1, 11, size=(32, 2))
    ]

    def added(kind: type[Whole] | type[InParts]) -> list[Tensor]:
        model = subject.build()
        loss_of = TrainingLoss(model, 0.1)
        adds: Gradients = InParts(fabric, loss_of) if kind is InParts else Whole(fabric, fabric.setup_module(loss_of))
        first, second = (adds.prepared(pairs) for pairs in (batch, batch[:28]))
        sums = adds.add(first, 0.5, (1, 2), last=False) + adds.add(second, 0.5, (1, 3), last=True)
        adds.close()
        none = torch.zeros(1)
        return [sums / sums.abs().max(), *(none if each.grad is None else each.grad for each in model.parameters())]

    whole, dealt = added(Whole), added(InParts)
    same(dealt[0], whole[0], "the loss of a batch in parts is not that of the whole", 1e-6)  # Fabric returns float32
    for split, full in zip(dealt[1:], whole[1:], strict=True):
        same(split, full, "the gradients of a batch in parts are not those of the whole", 1e-9)


def in_blocks(subject: Subject) -> None:
    """Attention in blocks of queries, for long inputs on a CPU, has the same outputs and gradients."""
    if not subject.is_transformer:
        return
    model, length = subject.build(), 21  # the last block has one query
    source, target, lengths = tokens(2, length), tokens(2, length, seed=1), torch.tensor([length, length - 6])

    def computed(long: bool) -> list[Tensor]:
        with blocks_of(5, long) as calls:
            hidden = model(source, lengths, target)
            gradients = torch.autograd.grad(hidden.cos().sum(), list(model.parameters()), materialize_grads=True)
            with torch.inference_mode():
                again = model(source, lengths, target)
        assert bool(calls) == long
        return [hidden, again, *gradients]

    for whole, blocks in zip(computed(False), computed(True), strict=True):
        same(blocks, whole, "a long input in blocks of queries is not the whole", 1e-10)


def packing(subject: Subject) -> None:
    """Weights packed for translation on a CPU give the same output, in float32."""
    from posnmt.model.packed import pack

    if not torch.backends.mkldnn.is_available():
        return
    plain, packed = (subject.build().float() for _ in range(2))
    pack(packed, torch.float32)
    source, target = tokens(5, 9), tokens(5, 7, seed=1)
    with torch.inference_mode():
        actual, expected = (model.project(model(source, None, target)) for model in (packed, plain))
    same(actual, expected, "packed weights change the output", 1e-4)


def seed(subject: Subject) -> None:
    """With one seed, the other weights of a Transformer do not depend on the scheme."""
    if not subject.is_transformer:
        return
    config = subject.config
    bare = {side: {"layers": getattr(config, side).layers} for side in ("encoder", "decoder")}
    plain = Subject(Model.model_validate({**config.model_dump(), **bare})).build(5)
    chosen = subject.build(5)
    parameters = dict(chosen.named_parameters())
    for name, weight in plain.named_parameters():
        same(parameters[name], weight, f"with one seed, the scheme changes the initial {name}", 0.0)


CHECKS: dict[str, Callable[[Subject], None]] = {
    **position.CHECKS,
    **{each.__name__.replace("_", "-"): each for each in (parts, in_blocks, packing, seed)},
}
"""The checks by name. Each applies to models of any architecture."""


@contextmanager
def blocks_of(queries: int, long: bool = True) -> Iterator[list[int]]:
    """A context with attention on a CPU in blocks of this size, or never in blocks; lists the queries of each call."""
    import posnmt.model.kernels.block_weights as blocks
    import posnmt.model.kernels.choose as choose

    calls: list[int] = []
    original = choose.attend_in_blocks

    def counted(attention: Attention) -> Tensor:
        calls.append(attention.q.shape[-2])
        return original(attention)

    with (
        patch.object(choose, "_is_long", lambda q, *_: long and q.shape[-2] > 1),
        patch.object(choose, "attend_in_blocks", counted),
        patch.object(blocks, "BLOCK", queries),
        patch.object(blocks, "FEW", queries),
    ):
        yield calls


@contextmanager
def _registered(kind: type[Scheme]) -> Iterator[None]:
    """A context in which the scheme is registered."""
    with patch.dict(SCHEMES, {_NAME: kind}):
        yield
