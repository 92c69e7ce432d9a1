"""ALiBi, T5, KERPLE and Sandwich biases against plain loops from their papers and published code, in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import softplus

from posnmt.base.errors import UserError
from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt_position.bias import Alibi, Kerple, Sandwich, T5Bias, slopes
from posnmt_position.diagonal import staggered, summed, toeplitz
from posnmt_position.seam import LayerPositions, Span, Stack
from tests.support.loops import attended, same_with_gradients, scaled
from tests.support.tiny import both, build, config, decoder, encoder, tokens

HEADS = 6


def stack(causal, heads=HEADS):
    return Stack(d_model=4 * heads, heads=heads, layers=2, causal=causal, max_length=32)


def published_slopes(n):
    """get_slopes of Press et al., for the loops: the same numbers written as powers of two."""
    power = 1
    while 2 * power <= n:
        power *= 2
    found = [2.0 ** (-8 * (h + 1) / power) for h in range(power)]
    return found + [2.0 ** (-4 * (2 * h + 1) / power) for h in range(n - power)]


def alibi_by_loops(view, h, r, causal, heads):
    return torch.tensor(-published_slopes(heads)[h % heads] * abs(r), dtype=torch.float64)


def kerple_by_loops(view, h, r, causal, heads):
    inner = view if hasattr(view, "r1_trained") else view.bias  # the view of one-sided heads holds it
    r1 = softplus(inner.r1_trained[h])
    if inner.form == "log":
        return -r1 * torch.log(1 + softplus(inner.r2_trained[h]) * abs(r))
    return -r1 * abs(r) ** (2 / (1 + torch.exp(-inner.r2_trained[h]))) if r else 0 * r1


def sandwich_by_loops(view, h, r, causal, heads):
    width = 10
    product = sum(
        math.sin(7 / 10000 ** (2 * n / width)) * math.sin((7 - r) / 10000 ** (2 * n / width))
        + math.cos(7 / 10000 ** (2 * n / width)) * math.cos((7 - r) / 10000 ** (2 * n / width))
        for n in range(width // 2)
    )
    return torch.tensor((product - width / 2) / ((h % heads + 1) * 8 / heads), dtype=torch.float64)


def bucket_by_hand(r, causal):
    """8 buckets up to distance 10, worked out on paper: bounds are 10^(share) of the logarithmic half."""
    if causal:  # 4 exact, then 4, 4 (10/4)^(1/4) = 5.03, (10/4)^(2/4) = 6.32, (10/4)^(3/4) = 7.95
        length = max(-r, 0)
        return length if length < 4 else 4 + sum(length >= bound for bound in (5.03, 6.32, 7.95))
    length = abs(r)  # 2 exact, then 2 and 2 (10/2)^(1/2) = 4.47
    return 4 * (r > 0) + (length if length < 2 else 2 + (length >= 4.47))


def t5_by_loops(view, h, r, causal, heads):
    return view.table[bucket_by_hand(r, causal), h]


SCHEMES = {
    "alibi": (Alibi, {}, alibi_by_loops),
    "alibi-asymmetric": (Alibi, {"encoder": "asymmetric"}, alibi_by_loops),
    "kerple-log": (Kerple, {}, kerple_by_loops),
    "kerple-power": (Kerple, {"form": "power"}, kerple_by_loops),
    "kerple-asymmetric": (Kerple, {"encoder": "asymmetric"}, kerple_by_loops),
    "sandwich": (Sandwich, {"width": 10}, sandwich_by_loops),
    "sandwich-asymmetric": (Sandwich, {"width": 10, "encoder": "asymmetric"}, sandwich_by_loops),
    "t5-bias": (T5Bias, {"buckets": 8, "distance": 10}, t5_by_loops),
}


def attention_by_loops(q, k, v, bias, sees, start):
    """One head, one query and one key at a time: q [Tq,D], k and v [Tk,D]."""
    rows = []
    for i in range(len(q)):
        visible = [j for j in range(len(k)) if sees(j - (start + i))]
        e = [q[i] @ k[j] / math.sqrt(q.shape[1]) + bias(j - (start + i)) for j in visible]
        rows.append(attended(e, [v[j] for j in visible]))
    return torch.stack(rows)


@pytest.mark.parametrize(("causal", "start", "queries"), [(False, 0, 9), (True, 0, 9), (True, 11, 1), (True, 5, 4)])
@pytest.mark.parametrize("name", SCHEMES)
def test_a_bias_is_its_equation(name, causal, start, queries):
    torch.manual_seed(1)
    kind, options, by_loops = SCHEMES[name]
    scheme = kind(stack(causal), kind.Settings(**options)).double()
    view = scheme.layer(1)
    one_sided = options.get("encoder") == "asymmetric" and not causal
    per_side = HEADS // 2 if one_sided else HEADS
    q = torch.randn(2, HEADS, queries, 4, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, HEADS, start + queries, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    got = attend(Attention(scaled(q), k, v, LayerPositions([view]), Span(start, queries, q.device), None, causal, 0.0))

    def head(b, h):
        def sees(r):
            if one_sided:
                return r <= 0 if h < per_side else r >= 0
            return not causal or r <= 0

        return attention_by_loops(
            q[b, h], k[b, h], v[b, h], lambda r: by_loops(view, h, r, causal, per_side), sees, start
        )

    want = torch.stack([torch.stack([head(b, h) for h in range(HEADS)]) for b in range(2)])
    same_with_gradients(got, want, [q, k, v, *scheme.parameters()])


def test_slopes_are_those_of_the_paper():
    assert slopes(8) == [2.0**-h for h in range(1, 9)]
    assert slopes(16) == pytest.approx([2 ** (-0.5 * h) for h in range(1, 17)], rel=1e-14)
    assert slopes(1) == [2.0**-8]
    # 12 heads: those of 8, then every other one of 16
    assert slopes(12) == pytest.approx([2.0**-h for h in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
    for heads in range(1, 40):
        assert slopes(heads) == pytest.approx(published_slopes(heads), rel=1e-13)


BUCKETS = [
    (causal, T5Bias.Settings(buckets=buckets, distance=distance))
    for causal in (False, True)
    for distance in (9, 100, 128)
    for buckets in (4, 8, 32)
]


@pytest.mark.parametrize(
    ("causal", "settings"), [each for each in BUCKETS if not T5Bias.refuses(stack(each[0]), each[1])]
)
def test_buckets_are_ordered_and_reach_the_ends(causal, settings):
    buckets, distance = settings.buckets, settings.distance
    found = T5Bias(stack(causal), settings).view.buckets.tolist()
    left = found[: distance + 1][::-1]
    assert left == sorted(left)
    assert left[0] == 0
    count = buckets if causal else buckets // 2
    assert left[-1] == count - 1
    assert left[: count // 2] == list(range(count // 2))
    right = found[distance + 1 :]
    assert right == ([0] * distance if causal else [bucket + count for bucket in left[1:]])


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize(("start", "queries"), [(0, 1), (0, 5), (4, 1), (3, 4)])
def test_values_are_laid_along_the_diagonals(shape, start, queries, monkeypatch):
    span = Span(start, queries, torch.device("cpu"))
    offsets = span.diagonals
    assert sorted(set(span.offsets.flatten().tolist())) == offsets.tolist()
    laid = toeplitz(offsets.expand(*shape, -1), queries)
    assert torch.equal(laid, span.offsets.expand(*shape, -1, -1))
    monkeypatch.setattr("torch.compiler.is_compiling", lambda: True)  # the form that the compiler is given
    assert torch.equal(toeplitz(offsets.expand(*shape, -1), queries), laid)


@pytest.mark.parametrize(("first", "queries", "keys"), [(0, 4, 11), (3, 4, 11), (10, 1, 11), (7, 4, 11), (2, 4, 3)])
def test_a_window_of_staggered_rows_is_what_is_laid(first, queries, keys):
    """Of 11 queries and as many keys, some queries that stand together, and the first keys."""
    by_offset = torch.randn(2, 21, dtype=torch.float64)
    whole = toeplitz(by_offset, 11)[..., first : first + queries, :keys]
    windows = staggered(by_offset, 4)
    assert torch.equal(windows[..., :queries, 10 - first : 10 - first + keys], whole)


@pytest.mark.parametrize(("queries", "keys"), [(1, 5), (4, 4), (4, 5), (4, 11), (5, 3)])
def test_sums_along_diagonals_are_the_transpose_of_laying(queries, keys):
    by_offset = torch.randn(2, queries + keys - 1, dtype=torch.float64, requires_grad=True)
    slopes = torch.randn(3, 2, queries, keys, dtype=torch.float64)
    [wanted] = torch.autograd.grad(toeplitz(by_offset, queries), by_offset, slopes.sum(0))
    torch.testing.assert_close(summed(slopes).sum(0), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["alibi", "alibi-asymmetric", "t5-bias", "kerple", "sandwich"])
def test_all_layers_share_one_bias_that_is_computed_once(name, monkeypatch):
    model = build(system=name)
    scheme = model.target.position_schemes()[0]
    view, calls = scheme.layer(0), []
    assert scheme.layer(1) is view
    monkeypatch.setattr(type(view), "of_offsets", counting(type(view).of_offsets, calls))
    model(tokens(1, 5), None, tokens(1, 4))
    assert calls.count(view) == 1  # the encoder's view, where its class is the same, is another
    model(tokens(1, 5), None, tokens(1, 4))
    assert calls.count(view) == 2


def counting(method, calls):
    def counted(self, offsets):
        calls.append(self)
        return method(self, offsets)

    return counted


@pytest.mark.parametrize("name", ["t5-bias", "kerple"])
def test_the_gradient_of_a_shared_bias_is_the_sum_over_layers(name, monkeypatch):
    """The bias that is computed once for all layers has the gradient of one that each layer computes anew."""
    model = build(system=name).train()
    source, target, lengths = tokens(2, 6), tokens(2, 5), torch.tensor([6, 3])

    def gradients():
        model.zero_grad()
        model(source, lengths, target).square().sum().backward()
        return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    once = gradients()
    monkeypatch.setattr(Span, "shared", property(lambda span: {}))
    monkeypatch.setattr(Span, "tables", property(lambda span: {}))
    for one, other in zip(once, gradients(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scheme", ["alibi", "kerple", "sandwich"])
def test_a_symmetric_encoder_cannot_tell_a_sentence_from_its_mirror_image(scheme):
    source, target = tokens(1, 9), tokens(1, 3, seed=1)
    for form, blind in (("symmetric", True), ("asymmetric", False)):
        model = build(**both({"scheme": scheme, "encoder": form}))
        there, back = model(source, None, target), model(source.flip(1), None, target)
        assert torch.allclose(there, back, rtol=0, atol=1e-10) == blind
        # but it does tell it from any other order
        shuffled = model(source.roll(1, dims=1), None, target)
        assert (there - shuffled).abs().max() > 1e-4


def test_kerple_begins_as_published():
    """r1 uniform below 2 and r2 below 1 for the logarithm, the other way round for the power."""
    many = Stack(d_model=4000, heads=4000, layers=1, causal=True, max_length=8)
    torch.manual_seed(0)
    log = Kerple(many, Kerple.Settings()).view
    power = Kerple(many, Kerple.Settings(form="power")).view
    for numbers, top in (
        (softplus(log.r1_trained), 2),
        (softplus(log.r2_trained), 1),
        (softplus(power.r1_trained), 1),
        (2 * power.r2_trained.sigmoid(), 2),
    ):
        assert 0 < numbers.min() < 0.03 * top
        assert 0.97 * top < numbers.max() < top
        assert numbers.mean().item() == pytest.approx(top / 2, abs=0.04)


@pytest.mark.parametrize(
    ("sizes", "part", "sentence"),
    [
        *(
            (
                {"d_model": 15, "heads": 3},
                encoder({"scheme": scheme, "encoder": "asymmetric"}),
                f"{scheme} needs an even number of heads for an asymmetric encoder, half for each side; 3 is odd",
            )
            for scheme in ("alibi", "kerple", "sandwich")
        ),
        (
            {},
            encoder({"scheme": "t5-bias", "buckets": 31}),
            "t5-bias needs an even number of buckets in the encoder, at least 4; got 31",
        ),
        (
            {},
            encoder({"scheme": "t5-bias", "buckets": 2}),
            "t5-bias needs an even number of buckets in the encoder, at least 4; got 2",
        ),
        (
            {},
            encoder({"scheme": "t5-bias", "distance": 8}),
            "t5-bias needs a distance above 8, the number of offsets with a bucket of their own; got 8",
        ),
        (
            {},
            decoder({"scheme": "t5-bias", "distance": 16}),
            "t5-bias needs a distance above 16, the number of offsets with a bucket of their own; got 16",
        ),
        ({}, decoder({"scheme": "sandwich", "width": 7}), "sandwich.width: Input should be a multiple of 2, got 7"),
        ({}, encoder({"scheme": "kerple", "form": "cubic"}), "kerple.form: Input should be 'log' or 'power'"),
    ],
)
def test_refusals(sizes, part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(**sizes, **part)


def test_what_a_decoder_cannot_get_wrong_is_not_refused():
    """The forms of an encoder, and an even number of buckets, mean nothing in a causal stack."""
    config(d_model=15, heads=3, **decoder({"scheme": "alibi", "encoder": "asymmetric"}))
    config(**decoder({"scheme": "t5-bias", "buckets": 31}))
