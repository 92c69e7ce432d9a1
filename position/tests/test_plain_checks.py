"""`check_scheme` on a Transformer of plain PyTorch: every scheme passes, and those wrong in one place do not."""

from __future__ import annotations

import inspect
import re

import pytest
import torch
from torch import nn

from outside_scheme import Nearness, Outside
from posnmt_position import (
    SCHEMES,
    LayeredScheme,
    LayerPosition,
    LayerPositions,
    Options,
    Scheme,
    Span,
    Stack,
    create,
)
from posnmt_position.plain import PlainTransformer
from posnmt_position.registry import scheme_class
from posnmt_position.returns import wrong_returns
from posnmt_position.testing import CHECKS, VOCABULARY, Plain, check_scheme, in_pieces, same, tokens

STACK = Stack(d_model=8, heads=2, layers=1, causal=True, max_length=9)


class Nothing(Scheme):
    """A scheme that does nothing."""

    def __init__(self, stack, settings):
        super().__init__()


@pytest.mark.parametrize("name", SCHEMES)
def test_a_registered_scheme(name):
    check_scheme(scheme_class(name))


def test_a_scheme_from_outside_the_package():
    check_scheme(Outside)
    check_scheme(Outside, {"rate": 0.25}, d_model=24, heads=3, layers=1)


def broken(**methods):
    """`Outside` with other methods of its own, and of its view those whose names begin with `view_`."""
    of_view = {name.removeprefix("view_"): each for name, each in methods.items() if name.startswith("view_")}
    view = type("View", (Nearness,), of_view)
    return type("Broken", (Outside,), {"view": view, **{n: e for n, e in methods.items() if not n.startswith("view_")}})


def serves_both(cls, stack, settings, others=()):
    return []


def serves_encoders(cls, stack, settings, others=()):
    return ["looks right"] if stack.causal else []


def adds_nothing(self, x, span, carry):
    return x, carry


def reads_the_future(self, x, span, carry):
    return x + x.mean(1, keepdim=True), carry


def forgets(self, x, span, carry):
    return Outside.embed(self, x, span, None)


def counts_from_the_piece(self, q, k, span):
    offsets = torch.arange(k.shape[-2]) - torch.arange(q.shape[-2])[:, None]
    return (-self.slope * offsets.abs()).to(q.dtype)


def wrong_at_length_1(self, q, k, span):
    return Nearness.logits(self, q, k, span) * (0.5 if span.length == 1 else 1)


def wrong_at_pieces(self, weights, span):
    return Nearness.values(self, weights, span) * (1 if span.start == 0 or span.length == 1 else 2)


class Gated(LayerPosition):
    """The sum of a trained gate of the tokens up to the key, which `keep` has of each token."""

    reads_keys = False

    def __init__(self, heads, width):
        super().__init__()
        self.gate = nn.Linear(heads * width, heads)

    def keep(self, x, span):
        return self.gate(x).transpose(1, 2)[..., None]

    def logits(self, q, k, span):
        return span.kept[self].cumsum(2).mT


class Gate(LayeredScheme):
    """A scheme that reads the input of a layer's attention."""

    view: type[LayerPosition] = Gated

    def __init__(self, stack, settings):
        super().__init__()
        self.layers = nn.ModuleList(self.view(stack.heads, stack.d_head) for _ in range(stack.layers))


def gate(**methods):
    """`Gate` for decoders alone, whose view has other methods."""
    return type("Gate", (Gate,), {"view": type("Gated", (Gated,), methods), "refuses": vars(Outside)["refuses"]})


def means_of_the_piece(self, x, span):
    return Gated.keep(self, x - x.mean(1, keepdim=True), span)


def of_later_words(self, x, span):
    return Gated.keep(self, x.flip(1).cumsum(1).flip(1), span)


def kept_before_the_piece_is_lost(self, q, k, span):
    kept = span.kept[self].clone()
    kept[:, :, : span.start] = 0
    return kept.cumsum(2).mT


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (gate(keep=means_of_the_piece), "in the decoder: the decoder reads words to the right"),
        (gate(keep=of_later_words), "in the decoder: the decoder reads words to the right"),
        (gate(logits=kept_before_the_piece_is_lost), "in the decoder: pieces of a target that end at"),
        (
            gate(keep=lambda self, x, span: self.gate(x)),
            r"Gated.keep returned float32 of shape \[2, 3, 4\] in place of",
        ),
        (gate(keep=lambda self, x, span: None), "Gated.keep returned None in place of"),
    ],
)
def test_what_a_view_keeps(kind, sentence):
    check_scheme(Gate)
    with pytest.raises(AssertionError, match=sentence):
        check_scheme(kind)


def test_what_is_kept_is_a_tensor():
    joined = LayerPositions([gate(keep=lambda self, x, span: None).view(2, 4)])
    with pytest.raises(ValueError, match=r"^Gated\.keep returned None"):
        joined.keep(torch.zeros(1, 2, 8), Span(0, 2, torch.device("cpu")))


def keeps_of_the_first_row(self, x, span, carry):
    x, (kept,) = Outside.embed(self, x, span, carry)
    return x, (kept[:1].expand_as(kept),)


def ends_with_an_error(self, q, k, span):
    return Nearness.logits(self, q, k, span).view(q.shape[1], 9, 9)


def reads_all_keys(self, x, span, carry):
    return x + x.mean(1, keepdim=True), None


def dead_parameter(self, stack, settings):
    Outside.__init__(self, stack, settings)
    self.unused = nn.Parameter(torch.ones(3))


def unstored(self, stack, settings):
    Outside.__init__(self, stack, settings)
    self.rate = 0.2 + 0.6 * torch.rand(()).item()


def divides(self, factor):
    self.rate /= factor
    return True


def pretends(self, factor):
    return True


def squeezes(self, factor):
    self.rate = 0.5 / factor
    return False


def looks_at_keys(self, q, k, span):
    return Nearness.logits(self, q, k, span) + k.sum(-1)[..., None, :]


BROKEN = {
    "reads words to the right": broken(embed=reads_the_future),
    "pieces of a target": [
        broken(embed=forgets),
        broken(view_logits=counts_from_the_piece),
        broken(view_logits=wrong_at_length_1),
        broken(view_values=wrong_at_pieces),
    ],
    "depends on the padding": broken(refuses=classmethod(serves_both), embed=reads_all_keys),
    "selected in mid-search|pieces of a target": broken(embed=keeps_of_the_first_row),
    "in the decoder: the check 'returns' ended with RuntimeError": broken(view_logits=ends_with_an_error),
    "no gradient reaches .*unused": broken(__init__=dead_parameter),
    "not restored by its state dictionary": broken(__init__=unstored),
    r"interpolate\(1.0\) does not undo": broken(interpolate=divides),
    r"interpolate\(2.0\) returns True, and does not change the output": broken(interpolate=pretends),
    r"interpolate\(2.0\) returns False, and changes the output": broken(interpolate=squeezes),
    "has reads_keys = False": broken(view_logits=looks_at_keys),
    "serves no stack of this size": broken(
        refuses=classmethod(lambda cls, stack, settings, others=(): ["serves nobody"])
    ),
}
"""What the sentence says → a scheme, or several, that must not pass."""


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [(what, kind) for what, kinds in BROKEN.items() for kind in (kinds if isinstance(kinds, list) else [kinds])],
)
def test_a_broken_scheme_does_not_pass(sentence, kind):
    with pytest.raises(AssertionError) as raised:
        check_scheme(kind)
    assert re.search(sentence, str(raised.value)), str(raised.value)
    assert str(raised.value).startswith("Broken ")


RETURNS = {
    "reads": (lambda self: torch.ones(2, 8), "float32 of shape [2, 8]", "a mask of shape [2, 8], of bool"),
    "rotate": (lambda self, q, k, span: q, "float32 of shape [2, 2, 3, 4]", "queries and keys of shape [2, 2, 3, 4]"),
    "by_offset": (lambda self, span: torch.zeros(2, 4), "float32 of shape [2, 4]", "a table of shape [heads, 5]"),
    "logits": (
        lambda self, q, k, span: torch.zeros(5, 3, 3),
        "float32 of shape [5, 3, 3]",
        "terms that broadcast to [2, 2, 3, 3]",
    ),
    "allows": (lambda self, span: torch.ones(2, 5), "float32 of shape [2, 5]", "a table of shape [heads, 5], of bool"),
    "values": (
        lambda self, weights, span: weights.sum(-1),
        "float32 of shape [2, 2, 3]",
        "terms of shape [2, 2, 3] with the features of a head",
    ),
    "refine": (
        lambda self, before, after, span: after[:, 1:],
        "float32 of shape [2, 2, 8]",
        "a tensor of shape [2, 3, 8]",
    ),
}
"""Method of a view -> one that returns something wrong, what that is, and what it must be."""


def with_view(**methods):
    """A scheme with one view that has these methods."""
    kind = type("View", (LayerPosition,), methods)

    class Mine(Scheme):
        def __init__(self, stack, settings):
            super().__init__()
            self.view = kind()

        def layer(self, index):
            return self.view

    return Mine


@pytest.mark.parametrize("method", RETURNS)
def test_what_a_view_returns_is_looked_at(method):
    wrong, got, expected = RETURNS[method]
    [(sentence, place)] = wrong_returns(with_view(**{method: wrong})(STACK, Options()), STACK)
    assert sentence == f"View.{method} returned {got} in place of {expected}"
    assert place == f"{__file__}:{wrong.__code__.co_firstlineno}"


def test_what_a_view_returns_may_be_nothing_but_for_a_table():
    def nothing(self, *arguments):
        return None

    optional = with_view(**dict.fromkeys(("reads", "logits", "allows", "values"), nothing))
    assert list(wrong_returns(optional(STACK, Options()), STACK)) == []
    [(sentence, _)] = wrong_returns(with_view(by_offset=nothing)(STACK, Options()), STACK)
    assert "by_offset returned None" in sentence


def test_what_a_scheme_returns_for_embeddings_is_looked_at():
    class Mine(Scheme):
        def embed(self, x, span, carry):
            return x

    [(sentence, place)] = wrong_returns(Mine(), STACK)
    assert sentence == (
        "Mine.embed returned float32 of shape [2, 3, 8] in place of embeddings of shape [2, 3, 8] and a carry"
    )
    assert place == f"{__file__}:{inspect.getsourcelines(Mine.embed)[1]}"


@pytest.mark.parametrize("name", SCHEMES)
def test_looking_at_returns_changes_nothing(name):
    """Neither the random numbers that follow nor the weights of the scheme."""
    kind = scheme_class(name)
    scheme = kind(STACK, kind.Settings()).train()
    before, state = {key: each.clone() for key, each in scheme.state_dict().items()}, torch.get_rng_state()
    assert list(wrong_returns(scheme, STACK)) == []
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(each, before[key]) for key, each in scheme.state_dict().items())


def test_a_model_without_schemes_knows_no_order_in_the_encoder():
    """The plain Transformer itself: the only order in it is that of the decoder's causal mask."""
    model = Plain(Nothing, {}, STACK).build()
    source, target = torch.arange(4, 9)[None], torch.arange(4, 8)[None]
    torch.testing.assert_close(model.encode(source.flip(1), None).flip(1), model.encode(source, None))
    hidden = model(source, None, target)
    torch.testing.assert_close(model(source.flip(1), None, target), hidden)
    assert (model(source, None, target.flip(1)).flip(1) - hidden).abs().max() > 1e-4


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_model_without_schemes_passes(check):
    check(Plain(Nothing, {}, STACK))


class Everything(LayerPosition):
    """A view that uses every hook of a layer, each in a way that a loop can follow."""

    def __init__(self, stack):
        super().__init__()
        self.mask = torch.arange(stack.d_model)[None] % stack.heads == torch.arange(stack.heads)[:, None]

    def reads(self):
        return self.mask

    def rotate(self, q, k, span):
        return q * 2, k * 0.25

    def logits(self, q, k, span):
        return -span.offsets.abs().to(q.dtype) + k.sum(-1)[..., None, :]

    def values(self, weights, span):
        return weights.sum(-1, keepdim=True)

    def allows(self, span):
        return (span.diagonals != -1)[None]

    def refine(self, before, after, span):
        return after + 0.5 * before


def test_every_hook_reaches_a_layer_of_the_plain_model():
    stack = Stack(d_model=8, heads=2, layers=1, causal=False, max_length=9)
    view, layer = Everything(stack), PlainTransformer(stack, STACK, [], [], 9).double().encoder.layers[0]
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    span = Span(0, 5, x.device)
    joined = LayerPositions([view])
    got = layer(x, joined.mask(span), joined, span, None, None, LayerPositions())

    own, heads = layer.own, []
    for head in range(2):
        rows, seen = slice(4 * head, 4 * head + 4), x[0] * view.mask[head]
        q = (seen @ own.q.weight[rows].T + own.q.bias[rows]) / 2
        k = seen @ own.k.weight[rows].T
        v = seen @ own.v.weight[rows].T + own.v.bias[rows]
        out = torch.zeros(5, 4, dtype=torch.float64)
        for i in range(5):
            allowed = [j for j in range(5) if j - i != -1]
            logits = torch.stack([2 * q[i] @ (0.25 * k[j]) - abs(j - i) + k[j].sum() for j in allowed])
            out[i] = sum(w * v[j] for w, j in zip(logits.softmax(0), allowed, strict=True)) + 1.0
        heads.append(out)
    h = layer.norm(x + own.output(torch.cat(heads, -1)[None]))
    want = layer.feed_forward_norm(h + layer.feed_forward(h + 0.5 * x))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_steps_with_a_rotation_and_a_view_that_reads_keys_are_the_whole():
    """The plain model keeps keys in both forms."""
    torch.manual_seed(0)
    encoder = Stack(d_model=8, heads=2, layers=2, causal=False, max_length=9)
    decoder = Stack(d_model=8, heads=2, layers=2, causal=True, max_length=9)
    schemes = [create(name, decoder) for name in ("rope", "cope", "relative")]
    model = PlainTransformer(encoder, decoder, [], schemes, VOCABULARY).double().eval()
    for weight in model.decoder.schemes.parameters():
        weight.data.normal_()  # CoPE's vectors begin at 0
    source, target = tokens(2, 3), tokens(2, 6, seed=1)
    same(in_pieces(model, source, None, target, [1, 2, 6]), model(source, None, target), "pieces are not the whole")
