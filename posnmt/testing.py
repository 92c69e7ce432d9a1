"""Checks for position schemes: `check_scheme(MyScheme)` tests a scheme of any package, without pytest.

A scheme that passes can be used in a configuration: it trains, translates step by step and with beams, supports long
inputs in blocks, and is stored and packed like those of posnmt. The test of its equation is not included.

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

from posnmt.config.schema import Model, SchemeChoice, Side
from posnmt.model.base import TranslationModel, stacks
from posnmt.model.kernels.operands import Attention
from posnmt.model.positions import SCHEMES, check
from posnmt.model.registry import architecture, build_model
from posnmt.model.transformer import Transformer
from posnmt_position.seam import LayerPosition, Scheme, Span

VOCABULARY = 13
"""The size of the vocabulary of each side, special symbols included."""

_NAME = "checked-scheme"


def check_scheme(
    kind: type[Scheme], options: Mapping[str, Any] | None = None, d_model: int = 16, heads: int = 4, layers: int = 2
) -> None:
    """Check a position scheme in an encoder and in a decoder, unless it refuses one of them.

    Args:
        kind: the scheme; it need not be registered.
        options: options other than the defaults.
        d_model, heads, layers: of the small test models.

    Raises:
        AssertionError: the property that does not hold, and the stack.
    """
    refusals = {}
    with _registered(kind):
        choice = SchemeChoice.model_validate({"scheme": _NAME, **(options or {})})
        for side in ("encoder", "decoder"):
            sides = {each: Side(layers=layers, position=[choice] * (each == side)) for each in ("encoder", "decoder")}
            subject = Subject(Model(d_model=d_model, heads=heads, feed_forward=24, dropout=0.0, **sides))
            faults = [fault for _, fault in check([choice], stacks(subject.config)[side])]
            if faults:
                refusals[side] = "; ".join(faults).replace(_NAME, kind.__name__)
                continue
            for name, holds in CHECKS.items():
                try:
                    holds(subject)
                except AssertionError as error:
                    raise AssertionError(f"{kind.__name__} in the {side}: {error}") from None
                except Exception as error:
                    what = f"{type(error).__name__}: {error}"
                    raise AssertionError(
                        f"{kind.__name__} in the {side}: the check {name!r} ended with {what}"
                    ) from error
    if len(refusals) == 2:
        raise AssertionError(f"{kind.__name__} serves no stack of this size: {' / '.join(refusals.values())}")


@dataclass(frozen=True)
class Subject:
    """The `model` section of a test model."""

    config: Model

    def build(self, seed: int = 0) -> Any:
        """The model in float64, in evaluation mode."""
        torch.manual_seed(seed)
        return build_model(self.config, VOCABULARY, VOCABULARY).double().eval()

    @property
    def is_transformer(self) -> bool:
        """Whether schemes may act inside the layers."""
        return issubclass(architecture(self.config.architecture), Transformer)


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    """[rows,length] random subwords, without special symbols."""
    return torch.randint(4, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def steps(subject: Subject) -> None:
    """The output of a decoder is the same for a target in pieces of any size, with and without gradients."""
    model = subject.build()
    for rows, length, ends in ((1, 5, range(1, 6)), (32, 4, range(1, 5)), (2, 40, (1, 4, 33, 34, 40))):
        source, target, lengths = tokens(rows, 7), tokens(rows, length, seed=1), torch.arange(rows) % 7 + 1
        for without in (False, True):
            with torch.inference_mode(without):
                whole, pieces = model(source, lengths, target), _in_pieces(model, source, lengths, target, ends)
            mode = "without gradients" if without else "with gradients"
            _same(pieces, whole, f"pieces of a target that end at {list(ends)} are not the whole target, {mode}")


def padding(subject: Subject) -> None:
    """Padding of sources and of targets does not change the output."""
    model, source, target = subject.build(), tokens(1, 5), tokens(1, 4, seed=1)
    alone = model(source, None, target)
    padded = torch.cat([source, torch.zeros(1, 6, dtype=torch.long)], dim=1)
    batch = torch.cat([padded, tokens(1, 11, seed=3)])
    longer = torch.cat([target, torch.zeros(1, 3, dtype=torch.long)], dim=1).repeat(2, 1)
    _same(model(batch, torch.tensor([5, 11]), target.repeat(2, 1))[:1], alone, "a row depends on the padding behind it")
    _same(model(batch, torch.tensor([5, 11]), longer)[:1, :4], alone, "a target depends on the padding behind it")


def selection(subject: Subject) -> None:
    """After beams are reordered and sentences have left the batch, each row continues its own history."""
    model, source, lengths = subject.build(), tokens(3, 6), torch.tensor([6, 2, 4])
    first, then = tokens(6, 4, seed=1), tokens(6, 3, seed=2)  # 2 hypotheses of each of 3 sentences
    for rows, kept in (([1, 0, 3, 3, 4, 4], [0, 1, 2]), ([0, 1, 5, 5], [0, 2])):
        state = model.start(model.encode(source, lengths), lengths)
        for place in range(4):
            model.advance(first[:, [place]], state)
        state.select(torch.tensor(rows), None if len(kept) == 3 else torch.tensor(kept))
        after = torch.cat([model.advance(then[rows][:, [place]], state) for place in range(3)], dim=1)
        sentences = torch.tensor(kept).repeat_interleave(2)
        histories = torch.cat([first[rows], then[rows]], dim=1)
        whole = model(source[sentences], lengths[sentences], histories)[:, 4:]
        _same(after, whole, "rows that were selected in mid-search do not continue their own histories")


def causality(subject: Subject) -> None:
    """The decoder does not depend on words to the right, and depends on the words that it has read."""
    model, source, target = subject.build(), tokens(1, 5), tokens(1, 8, seed=1)
    changed = target.clone()
    changed[:, 5:] = (changed[:, 5:] - 3) % 9 + 4
    before, after = model(source, None, target), model(source, None, changed)
    _same(after[:, :5], before[:, :5], "the decoder reads words to the right")
    if not (before[:, 5:] - after[:, 5:]).abs().max() > 1e-6:
        raise AssertionError("the decoder does not depend on the words that it reads")


def gradients(subject: Subject) -> None:
    """Gradients reach every parameter."""
    model = subject.build().train()
    hidden = model(tokens(3, 20), torch.tensor([20, 18, 5]), tokens(3, 21, seed=1))
    model.project(hidden).square().sum().backward()
    dead = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.abs().sum() > 0]
    if dead:
        raise AssertionError(f"no gradient reaches {', '.join(dead)}")


def parts(subject: Subject) -> None:
    """A batch in parts, as in training on a CPU, has the same loss and gradients as the whole batch."""
    from posnmt.config.schema import Train
    from posnmt.training.device import make_fabric
    from posnmt.training.gradients import InParts, Whole
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
        adds = InParts(fabric, loss_of) if kind is InParts else Whole(fabric, fabric.setup_module(loss_of))
        sums = adds.add(batch, 0.5, (1, 2), last=False) + adds.add(batch[:28], 0.5, (1, 3), last=True)
        adds.close()
        none = torch.zeros(1)
        return [sums / sums.abs().max(), *(none if each.grad is None else each.grad for each in model.parameters())]

    whole, dealt = added(Whole), added(InParts)
    _same(dealt[0], whole[0], "the loss of a batch in parts is not that of the whole", 1e-6)  # Fabric returns float32
    for split, full in zip(dealt[1:], whole[1:], strict=True):
        _same(split, full, "the gradients of a batch in parts are not those of the whole", 1e-9)


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
        _same(blocks, whole, "a long input in blocks of queries is not the whole", 1e-10)


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
    _same(actual, expected, "packed weights change the output", 1e-4)


def weights(subject: Subject) -> None:
    """The state dictionary is complete: it turns a model with other weights into the first one."""
    first, second = subject.build(seed=1), subject.build(seed=2)
    second.load_state_dict(first.state_dict())
    source, target = tokens(2, 7), tokens(2, 5, seed=1)
    _same(
        second(source, None, target),
        first(source, None, target),
        "a model is not restored by its state dictionary",
        0.0,
    )


def seed(subject: Subject) -> None:
    """With one seed, the other weights of a Transformer do not depend on the scheme."""
    if not subject.is_transformer:
        return
    config = subject.config
    bare = {side: getattr(config, side).model_copy(update={"position": []}) for side in ("encoder", "decoder")}
    plain, chosen = Subject(config.model_copy(update=bare)).build(5), subject.build(5)
    parameters = dict(chosen.named_parameters())
    for name, weight in plain.named_parameters():
        _same(parameters[name], weight, f"with one seed, the scheme changes the initial {name}", 0.0)


def interpolation(subject: Subject) -> None:
    """`interpolate` returns whether it has an effect; steps still match the whole, and a factor of 1 undoes it."""
    model, source, target = subject.build(), tokens(2, 6), tokens(2, 9, seed=1)
    before, known = model(source, None, target), model.interpolate(2.0)
    whole = model(source, None, target)
    _same(
        _in_pieces(model, source, None, target, range(1, 10)),
        whole,
        "steps with interpolated positions are not the whole",
    )
    if known != bool((whole - before).abs().max() > 1e-9):
        does = "does not change the output" if known else "changes the output"
        raise AssertionError(f"interpolate(2.0) returns {known}, and {does}")
    model.interpolate(1.0)
    _same(model(source, None, target), before, "interpolate(1.0) does not undo interpolate(2.0)", 0.0)


def shift(subject: Subject) -> None:
    """Steps match the whole where positions begin at other numbers, and beginning at 0 undoes it."""
    model, source, target = subject.build(), tokens(2, 6), tokens(2, 9, seed=1)
    before = model(source, None, target)
    model.shift(3, 5)
    whole = model(source, None, target)
    _same(
        _in_pieces(model, source, None, target, range(1, 10)), whole, "steps with shifted positions are not the whole"
    )
    model.shift(0, 0)
    _same(model(source, None, target), before, "shift(0, 0) does not undo shift(3, 5)", 0.0)


def keys_read(subject: Subject) -> None:
    """Logit terms of a view with `reads_keys = False` do not depend on the keys."""
    if not subject.is_transformer:
        return
    model = subject.build()
    for joined in (*model.encoder_views, *model.decoder_views):
        views: Sequence[LayerPosition] = joined.biasing
        for view in (view for view in views if not view.reads_keys):
            q, k, others = torch.randn(
                3, 2, subject.config.heads, 6, model.config.d_model // model.config.heads
            ).double()
            first, second = (view.logits(q, each, Span(0, 6, q.device)) for each in (k, others))
            if first is not None and second is not None:
                _same(
                    second,
                    first,
                    f"{type(view).__name__} has reads_keys = False, but its logits depend on the keys",
                    0.0,
                )


CHECKS: dict[str, Callable[[Subject], None]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        causality, steps, padding, selection, gradients, parts, in_blocks, packing, weights, seed, interpolation,
        shift, keys_read,
    )
}  # fmt: skip
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


def _in_pieces(
    model: TranslationModel, source: Tensor, lengths: Tensor | None, target: Tensor, ends: Sequence[int]
) -> Tensor:
    """[B,T,d] the output of a decoder that reads the target in pieces."""
    state = model.start(model.encode(source, lengths), lengths)
    return torch.cat([model.advance(target[:, a:b], state) for a, b in zip([0, *ends], ends, strict=False)], dim=1)


def _same(got: Tensor, want: Tensor, sentence: str, tolerance: float = 1e-12) -> None:
    """Raise an AssertionError with `sentence` if two tensors differ."""
    if got.shape != want.shape:
        raise AssertionError(f"{sentence}: shapes {list(got.shape)} and {list(want.shape)}")
    off = (got - want).abs().max().item() if got.numel() else 0.0
    if not off <= tolerance:
        raise AssertionError(f"{sentence}: off by up to {off:.2g}")
