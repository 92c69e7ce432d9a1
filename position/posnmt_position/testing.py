"""Checks for position schemes: `check_scheme(MyScheme)` tests one of any package, without pytest.

They run on a small Transformer of plain PyTorch. A scheme that passes can be trained and stored, and can generate step
by step and with beams. Its equation is not tested.

Shapes: B rows, J source tokens, T target tokens, H heads, D width of a head, d model width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from posnmt_position.plain import PlainTransformer
from posnmt_position.registry import not_cross
from posnmt_position.returns import wrong_returns
from posnmt_position.seam import CrossSpan, LayerPositions, Scheme, Span, Stack

VOCABULARY = 13
"""The size of the vocabulary of each side, special symbols included."""

RATIO = 1.3
"""Source tokens for each target token, for attention to the source."""

PLACES = ("encoder", "decoder", "attention to the source")
"""Where a scheme can be."""


class Subject(Protocol):
    """What is checked: a scheme in a model.

    Attributes:
        stack: of the side that has the scheme.
    """

    stack: Stack

    def build(self, seed: int = 0) -> Any:
        """The model, with the methods of `PlainTransformer`, in float64 and in evaluation mode."""
        ...

    def views(self, model: Any) -> Sequence[LayerPositions]:
        """The joined views of its layers; none if schemes do not act inside layers."""
        ...


@dataclass(frozen=True)
class Plain:
    """A scheme in one place of a plain Transformer.

    Attributes:
        kind, options: the scheme.
        stack: of the encoder, of the decoder, or of its attention to the source, which has the scheme alone.
    """

    kind: type[Scheme]
    options: Mapping[str, Any]
    stack: Stack

    def scheme(self) -> Scheme:
        """Build the scheme for the stack, with the options."""
        built: Scheme = self.kind(self.stack, self.kind.Settings(**self.options))  # type: ignore[call-arg]
        return built

    def build(self, seed: int = 0) -> PlainTransformer:
        """The model in float64, in evaluation mode."""
        torch.manual_seed(seed)
        encoder, decoder = (replace(self.stack, causal=causal, cross=False) for causal in (False, True))
        place = "cross" if self.stack.cross else "target" if self.stack.causal else "source"
        schemes = {each: [self.scheme()] if each == place else [] for each in ("source", "target", "cross")}
        model = PlainTransformer(encoder, decoder, vocabulary=VOCABULARY, ratio=RATIO, **schemes)
        return model.double().eval()

    def views(self, model: PlainTransformer) -> list[LayerPositions]:
        """The joined views of its layers."""
        return [*model.encoder.views, *model.decoder.views, *model.decoder.cross_views]


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
    refusals = []
    for place in PLACES:
        stack = Stack(d_model, heads, layers, causal=place == "decoder", max_length=1024, cross=place == PLACES[2])
        if refused := refusal(kind, options or {}, stack):
            refusals.append(refused)
            continue
        subject, where = Plain(kind, options or {}, stack), f"{kind.__name__} in the {place}"
        with located(where, "returns"):
            returns(subject)
        check(CHECKS | CROSS_CHECKS if stack.cross else CHECKS, subject, where)
    if len(refusals) == len(PLACES):
        raise AssertionError(f"{kind.__name__} serves no stack of this size: {' / '.join(refusals)}")


def refusal(kind: type[Scheme], options: Mapping[str, Any], stack: Stack) -> str:
    """Why a scheme cannot serve a stack; nothing if it can."""
    faults = kind.Settings.faults(kind.__name__, options) or [
        f"{kind.__name__} {each}" for each in kind.refuses(stack, kind.Settings(**options))
    ]
    if stack.cross and (reason := not_cross(kind)):
        faults.append(f"{kind.__name__} {reason}")
    return "; ".join(faults)


def check(checks: Mapping[str, Callable[[Any], None]], subject: Any, where: str) -> None:
    """Run checks.

    Args:
        where: whose they are, for messages.

    Raises:
        AssertionError: the first that does not hold.
    """
    for name, holds in checks.items():
        with located(where, name):
            holds(subject)


@contextmanager
def located(where: str, name: str) -> Iterator[None]:
    """A context in which an AssertionError says where it arose, and any other exception becomes one."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from None
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise AssertionError(f"{where}: the check {name!r} ended with {what}") from error


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    """[rows,length] random subwords, without special symbols."""
    return torch.randint(4, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def returns(subject: Plain) -> None:
    """The methods return what they must, by shape and type."""
    faults = [f"{what} ({where})" for what, where in wrong_returns(subject.scheme(), subject.stack)]
    if faults:
        raise AssertionError("; ".join(faults))


def steps(subject: Subject) -> None:
    """The output of a decoder is the same for a target in pieces of any size, with and without gradients."""
    model = subject.build()
    for rows, length, ends in ((1, 5, range(1, 6)), (32, 4, range(1, 5)), (2, 40, (1, 4, 33, 34, 40))):
        source, target, lengths = tokens(rows, 7), tokens(rows, length, seed=1), torch.arange(rows) % 7 + 1
        for without in (False, True):
            with torch.inference_mode(without):
                whole, pieces = model(source, lengths, target), in_pieces(model, source, lengths, target, ends)
            mode = "without gradients" if without else "with gradients"
            same(pieces, whole, f"pieces of a target that end at {list(ends)} are not the whole target, {mode}")


def padding(subject: Subject) -> None:
    """Padding of sources and of targets does not change the output."""
    model, source, target = subject.build(), tokens(1, 5), tokens(1, 4, seed=1)
    alone = model(source, None, target)
    padded = torch.cat([source, torch.zeros(1, 6, dtype=torch.long)], dim=1)
    batch = torch.cat([padded, tokens(1, 11, seed=3)])
    longer = torch.cat([target, torch.zeros(1, 3, dtype=torch.long)], dim=1).repeat(2, 1)
    same(model(batch, torch.tensor([5, 11]), target.repeat(2, 1))[:1], alone, "a row depends on the padding behind it")
    same(model(batch, torch.tensor([5, 11]), longer)[:1, :4], alone, "a target depends on the padding behind it")


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
        same(after, whole, "rows that were selected in mid-search do not continue their own histories")


def causality(subject: Subject) -> None:
    """The decoder does not depend on words to the right, and depends on the words that it has read."""
    model, source, target = subject.build(), tokens(1, 5), tokens(1, 8, seed=1)
    changed = target.clone()
    changed[:, 5:] = (changed[:, 5:] - 3) % 9 + 4
    before, after = model(source, None, target), model(source, None, changed)
    same(after[:, :5], before[:, :5], "the decoder reads words to the right")
    if not (before[:, 5:] - after[:, 5:]).abs().max() > 1e-6:
        raise AssertionError("the decoder does not depend on the words that it reads")


def gradients(subject: Subject) -> None:
    """Check that a gradient reaches every parameter; an AssertionError names those that none reaches."""
    model = subject.build().train()
    hidden = model(tokens(3, 20), torch.tensor([20, 18, 5]), tokens(3, 21, seed=1))
    model.project(hidden).square().sum().backward()
    dead = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.abs().sum() > 0]
    if dead:
        raise AssertionError(f"no gradient reaches {', '.join(dead)}")


def weights(subject: Subject) -> None:
    """The state dictionary is complete: it turns a model with other weights into the first one."""
    first, second = subject.build(seed=1), subject.build(seed=2)
    second.load_state_dict(first.state_dict())
    source, target = tokens(2, 7), tokens(2, 5, seed=1)
    same(
        second(source, None, target),
        first(source, None, target),
        "a model is not restored by its state dictionary",
        0.0,
    )


def interpolation(subject: Subject) -> None:
    """`interpolate` returns whether it has an effect; steps still match the whole, and a factor of 1 undoes it."""
    model, source, target = subject.build(), tokens(2, 6), tokens(2, 9, seed=1)
    before, known = model(source, None, target), model.interpolate(2.0)
    whole = model(source, None, target)
    same(
        in_pieces(model, source, None, target, range(1, 10)),
        whole,
        "steps with interpolated positions are not the whole",
    )
    if known != bool((whole - before).abs().max() > 1e-9):
        does = "does not change the output" if known else "changes the output"
        raise AssertionError(f"interpolate(2.0) returns {known}, and {does}")
    model.interpolate(1.0)
    same(model(source, None, target), before, "interpolate(1.0) does not undo interpolate(2.0)", 0.0)


def shift(subject: Subject) -> None:
    """Steps match the whole where positions begin at other numbers, and beginning at 0 undoes it."""
    model, source, target = subject.build(), tokens(2, 6), tokens(2, 9, seed=1)
    before = model(source, None, target)
    model.shift(3, 5)
    whole = model(source, None, target)
    same(in_pieces(model, source, None, target, range(1, 10)), whole, "steps with shifted positions are not the whole")
    model.shift(0, 0)
    same(model(source, None, target), before, "shift(0, 0) does not undo shift(3, 5)", 0.0)


def keys_read(subject: Subject) -> None:
    """Logit terms of a view with `reads_keys = False` do not depend on the keys."""
    model = subject.build()
    for joined in subject.views(model):
        for view in (view for view in joined.biasing if not view.reads_keys):
            q, k, others = torch.randn(3, 2, subject.stack.heads, 6, subject.stack.d_head).double()
            span = Span(0, 6, q.device)
            span.kept.update(joined.keep(torch.randn(2, 6, subject.stack.d_model).double(), span))
            first, second = (view.logits(q, each, span) for each in (k, others))
            if first is not None and second is not None:
                what = f"{type(view).__name__} has reads_keys = False, but its logits depend on the keys"
                same(second, first, what, 0.0)


CHECKS: dict[str, Callable[[Any], None]] = {
    each.__name__.replace("_", "-"): each
    for each in (causality, steps, padding, selection, gradients, weights, interpolation, shift, keys_read)
}
"""The checks by name."""


def source_order(subject: Plain) -> None:
    """The order of the source changes the output, though neither side has positions of its own."""
    model, source, target = subject.build(), tokens(1, 7), tokens(1, 5, seed=1)
    if not (model(source.roll(1, 1), None, target) - model(source, None, target)).abs().max() > 1e-6:
        raise AssertionError("the order of the source does not change the output")


def ratio(subject: Plain) -> None:
    """At twice the ratio, a target token has the terms of the one twice as far from the first."""
    model = subject.build()
    heads, width = subject.stack.heads, subject.stack.d_head
    q, k, weights = (torch.randn(1, heads, *each).double() for each in ((1, width), (6, width), (1, 6)))
    far, near = (CrossSpan(at, 1, q.device, None, 6, ratio=each) for at, each in ((4, 0.6), (2, 1.2)))
    for joined in model.decoder.cross_views:
        for what, of in (
            ("logits", lambda span, view=joined: view.logits(q, k, span)),
            ("values", lambda span, view=joined: view.values(weights, span)),
            ("rotate", lambda span, view=joined: view.rotate(q, q, span)[0]),
        ):
            got, want = of(near), of(far)
            if got is not None and want is not None:
                same(got, want, f"{what} depends on more than the position of a target token in the source")


CROSS_CHECKS: dict[str, Callable[[Any], None]] = {
    each.__name__.replace("_", "-"): each for each in (source_order, ratio)
}
"""The checks of attention to the source beside those of any place, by name."""


def in_pieces(model: Any, source: Tensor, lengths: Tensor | None, target: Tensor, ends: Sequence[int]) -> Tensor:
    """[B,T,d] the output of a decoder that reads the target in pieces."""
    state = model.start(model.encode(source, lengths), lengths)
    return torch.cat([model.advance(target[:, a:b], state) for a, b in zip([0, *ends], ends, strict=False)], dim=1)


def same(got: Tensor, want: Tensor, sentence: str, tolerance: float = 1e-12) -> None:
    """Raise an AssertionError with `sentence` if two tensors differ."""
    if got.shape != want.shape:
        raise AssertionError(f"{sentence}: shapes {list(got.shape)} and {list(want.shape)}")
    off = (got - want).abs().max().item() if got.numel() else 0.0
    if not off <= tolerance:
        raise AssertionError(f"{sentence}: off by up to {off:.2g}")
