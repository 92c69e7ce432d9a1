"""The Triton kernels for Shaw's vectors against the plain path, forward and gradients.

On a GPU where there is one; else by Triton's interpreter, on tensors of the CPU.
"""

from __future__ import annotations

import os
from unittest.mock import patch

import pytest
import torch

from posnmt.model.kernels import shaw
from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt_position.distance_vectors import DistanceVectors
from posnmt_position.relative import RelativeKeys, RelativeKeysAndValues
from posnmt_position.rotary import Rotation
from posnmt_position.seam import LayerPosition, LayerPositions, Span
from tests.support import tiny, triton_interpreter
from tests.support.loops import scaled

if not triton_interpreter.INSTALLED:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

from posnmt.model.kernels import shaw_triton  # imports Triton

DEVICE = "cuda" if triton_interpreter.ON_GPU else "cpu"


@pytest.fixture(autouse=True)
def _interpreted():
    """Triton asks for its interpreter again when it runs, and no other test is to have it."""
    with patch.dict(os.environ, triton_interpreter.VARIABLES):
        yield


class RelativeValues(RelativeKeysAndValues):
    """The value term alone, which no named system has."""

    def logits(self, q, k, span):
        return None

    def distance_vectors(self):
        return DistanceVectors(None, self.additions)


def heads(batch, tokens, width, count=2):
    """Queries, keys and values [B,H,T,D], as the projection lays them."""
    torch.manual_seed(1)
    mixed = torch.randn(batch, tokens, 3, count, width, device=DEVICE, requires_grad=True)
    return mixed, mixed.permute(2, 0, 3, 1, 4)


def padding(lengths, tokens):
    lengths = torch.tensor(lengths, device=DEVICE)
    return (torch.arange(tokens, device=DEVICE) < lengths[:, None])[:, None, None]


def fused(q, k, v, view, mask, causal, dropout=0.0):
    return shaw.shaw_attention(scaled(q), k, v, *view.distance_vectors(), mask, causal, dropout)


def plain(q, k, v, view, mask, causal, dropout=0.0):
    span = Span(0, q.shape[2], q.device)
    with patch.object(shaw, "serves", lambda *_: False):
        return attend(Attention(scaled(q), k, v, LayerPositions([view]), span, mask, causal, dropout))


def agree(got, want, leaves):
    """Outputs and the gradients of the leaves, in float32."""
    torch.testing.assert_close(got, want, rtol=1e-5, atol=3e-6)
    upstream = torch.randn_like(want)
    for ours, theirs in zip(
        torch.autograd.grad(got, leaves, upstream), torch.autograd.grad(want, leaves, upstream), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5)


# A block of keys or queries has 16 tokens in float32: a part of one, one, several, and some beyond the distance.
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("kind", "tokens", "distance", "width", "lengths", "count"),
    [
        (RelativeKeysAndValues, 2, 16, 16, [2], 2),
        (RelativeKeysAndValues, 7, 3, 20, [7, 4], 2),
        (RelativeKeysAndValues, 16, 40, 16, [16], 2),
        (RelativeKeysAndValues, 34, 16, 16, [34], 2),
        (RelativeKeysAndValues, 33, 5, 24, [33, 18], 1),
        (RelativeKeys, 21, 5, 24, [21, 10], 1),
        (RelativeValues, 21, 5, 24, [21, 10], 1),
    ],
)
def test_kernel_is_the_plain_path(kind, tokens, distance, width, lengths, count, causal):
    mixed, (q, k, v) = heads(len(lengths), tokens, width, count)
    view = kind(distance, width, trained=True).to(DEVICE)
    mask = padding(lengths, tokens) if len(lengths) > 1 else None
    leaves = [mixed, *(table for table in view.distance_vectors() if table is not None)]
    agree(fused(q, k, v, view, mask, causal), plain(q, k, v, view, mask, causal), leaves)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(32, 16), (16, 32)])
def test_tiles_need_not_be_square(rows, columns, causal, monkeypatch):
    monkeypatch.setitem(shaw_triton.TILES, "exact", shaw_triton.Tile(rows, columns, 4))
    tokens, lengths = 69, [69, 40]
    mixed, (q, k, v) = heads(2, tokens, 16, 1)
    view, mask = RelativeKeysAndValues(5, 16, trained=True).to(DEVICE), padding(lengths, tokens)
    leaves = [mixed, *view.distance_vectors()]
    agree(fused(q, k, v, view, mask, causal), plain(q, k, v, view, mask, causal), leaves)


ON_A_GPU = pytest.mark.skipif(not triton_interpreter.ON_GPU, reason="Triton's interpreter has no bf16")
IN_BF16 = [
    pytest.param(torch.bfloat16, 0.015, tokens, width, marks=ON_A_GPU)
    for tokens in (30, 65, 300)
    for width in (64, 128)
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dtype", "within", "tokens", "width"), [(torch.float16, 0.002, 30, 64), *IN_BF16])
def test_kernel_in_narrow_types_is_the_plain_path_in_float64(dtype, within, tokens, width, causal):
    """To a few times the rounding of the type: 2^-9 in bf16, 2^-12 in fp16."""
    mixed, _ = heads(2, tokens, width)
    view = RelativeKeysAndValues(16, width, trained=True).to(DEVICE)
    mask = padding([tokens, tokens // 2], tokens)
    narrow = mixed.detach().to(dtype).requires_grad_()
    tables = [table.detach().to(dtype).requires_grad_() for table in view.distance_vectors()]
    exact = narrow.detach().double().requires_grad_()
    exact_view = RelativeKeysAndValues(16, width, trained=True).to(DEVICE).double()
    with torch.no_grad():
        for ours, theirs in zip(exact_view.distance_vectors(), tables, strict=True):
            ours.copy_(theirs)
    q, k, v = narrow.permute(2, 0, 3, 1, 4)
    got = shaw.shaw_attention(scaled(q), k, v, *tables, mask, causal, 0.0)
    want = plain(*exact.permute(2, 0, 3, 1, 4), exact_view, mask, causal)
    upstream = torch.randn_like(want)
    pairs = [(got, want)]
    pairs += zip(
        torch.autograd.grad(got, [narrow, *tables], upstream.to(dtype)),
        torch.autograd.grad(want, [exact, *exact_view.distance_vectors()], upstream),
        strict=True,
    )
    for ours, theirs in pairs:
        assert ours.dtype == dtype
        assert (ours.double() - theirs).norm() < within * theirs.norm()


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_dropout_is_the_same_forward_and_backward(causal):
    tokens, width, dropout = 31, 32, 0.3
    mixed, (q, k, v) = heads(2, tokens, width)
    view = RelativeKeysAndValues(4, width, trained=True).to(DEVICE)
    mask = padding([31, 20], tokens)
    keys, additions = view.distance_vectors()
    identity = torch.eye(width, device=DEVICE)[:tokens].expand(2, 2, -1, -1)  # attended values are then the weights
    torch.manual_seed(7)
    weights = shaw.shaw_attention(q * width**-0.5, k, identity, keys, None, mask, causal, dropout)[..., :tokens]
    whole = shaw.shaw_attention(q * width**-0.5, k, identity, keys, None, mask, causal, 0.0)[..., :tokens]
    kept = weights > 0
    assert (kept.sum() / (whole > 0).sum()).item() == pytest.approx(1 - dropout, abs=0.03)
    assert not torch.equal(kept[0, 0, :20, :20], kept[0, 1, :20, :20])
    torch.testing.assert_close(weights, whole * kept / (1 - dropout))

    torch.manual_seed(7)
    got = fused(q, k, v, view, mask, causal, dropout)
    with patch("posnmt.model.kernels.plain.drop", lambda weights, p: weights * kept / (1 - p)):
        want = plain(q, k, v, view, mask, causal, dropout)
    agree(got, want, [mixed, keys, additions])


def test_a_query_that_sees_no_key_gets_zeros():
    mixed, (q, k, v) = heads(2, 37, 16)
    view = RelativeKeysAndValues(3, 16, trained=True).to(DEVICE)
    got = fused(q, k, v, view, padding([0, 37], 37), False)
    assert not got[0].any()
    assert got[1].any(-1).all()
    for grad in torch.autograd.grad(got.square().sum(), [mixed, *view.parameters()]):
        assert grad.isfinite().all()


@pytest.mark.parametrize(("reach", "padding_of"), [(0, 7), (3, 1), (4, 7), (16, 7)])
def test_padding_of_rows_by_distance_is_not_read_and_stays_zero(reach, padding_of):
    """Rows begin at multiples of 8 numbers. What is read is not a number in the padding; what is written is 0 there."""
    torch.manual_seed(1)
    distances = 2 * reach + 1
    assert shaw.columns(reach) == distances + padding_of
    assert shaw.columns(reach) % 8 == 0
    q, k, v, grad = (torch.randn(1, 19, 2, 16, device=DEVICE) for _ in range(4))
    term, of_sums = (torch.randn(1, 19, 2, shaw.columns(reach), device=DEVICE) for _ in range(2))

    def computed(unread):
        for each in (term, of_sums):
            each[..., distances:] = unread
        attended, sums, normaliser, seed = shaw._forward(q, k, v, term, None, reach, False, 0.0, True)
        delta = (grad * attended).sum(-1)
        gradients = shaw._backward(q, k, v, term, None, seed, normaliser, grad, of_sums, delta, reach, False, 0.0)
        return attended, sums, normaliser, *gradients

    found = computed(torch.nan)
    for one, other in zip(found, computed(0.0), strict=True):
        assert torch.equal(one, other)
    for rows in (found[1], found[-1]):
        assert rows.shape == term.shape
        assert rows[..., :distances].any()
        assert not rows[..., distances:].any()


@pytest.mark.parametrize(
    ("offset", "turned", "spacing"),
    [
        pytest.param(0, False, 3, id="of a projection"),
        pytest.param(0, True, 1, id="keys that are elsewhere"),
        pytest.param(1, False, 1, id="not at a multiple of 16 bytes"),
    ],
)
def test_keys_and_values_are_read_where_a_projection_has_them(offset, turned, spacing):
    """Only other ones are copied, and the numbers are the same."""
    torch.manual_seed(1)
    numbers = torch.randn(2 * 19 * 3 * 2 * 16 + offset, device=DEVICE, requires_grad=True)
    q, k, v = numbers[offset:].view(2, 19, 3, 2, 16).permute(2, 0, 3, 1, 4)
    k = k * 1 if turned else k
    view = RelativeKeysAndValues(3, 16, trained=True).to(DEVICE)
    *read, found = shaw._spaced(k.transpose(1, 2), v.transpose(1, 2))
    assert found == spacing
    assert [each.data_ptr() == given.data_ptr() for each, given in zip(read, (k, v), strict=True)] == [
        spacing == 3 or turned, spacing == 3,
    ]  # fmt: skip
    computed = []
    for keys, values in ((k, v), (k.contiguous(), v.contiguous())):
        with patch.object(shaw, "_spaced", wraps=shaw._spaced) as reading:
            attended = fused(q, keys, values, view, None, False)
        assert [each.data_ptr() for each in reading.call_args.args] == [keys.data_ptr(), values.data_ptr()]
        leaves = [numbers, *view.parameters()]
        computed.append((attended, *torch.autograd.grad(attended.square().sum(), leaves, retain_graph=True)))
    for one, other in zip(*computed, strict=True):
        assert torch.equal(one, other)


class Bias(LayerPosition):
    def logits(self, q, k, span):
        return q.new_ones(1)


class Hiding(LayerPosition):
    def allows(self, span):
        return (span.diagonals <= 2)[None]


def test_attention_takes_the_kernel_where_nothing_else_adds(monkeypatch):
    _, (q, k, v) = heads(1, 9, 16)
    view = RelativeKeysAndValues(3, 16, trained=True).to(DEVICE)
    calls = []
    monkeypatch.setenv("POSNMT_KERNELS", "always")
    monkeypatch.setattr(shaw, "serves", lambda *_: True)
    monkeypatch.setattr(shaw, "shaw_attention", lambda *given: calls.append(given) or given[2])

    def taken(views, q=q, start=0):
        calls.clear()
        attend(Attention(scaled(q), k, v, LayerPositions(views), Span(start, q.shape[2], q.device), None, True, 0.0))
        return len(calls) == 1

    assert taken([view])
    assert taken([view, LayerPosition()])
    assert not taken([])
    assert not taken([Bias()])
    assert not taken([view, Bias()])
    assert not taken([view, view.__class__(2, 16, True).to(DEVICE)])
    assert not taken([view, Hiding()])
    assert not taken([view], q[:, :, -2:], start=7)
    assert not taken([view], q[:, :, -1:], start=8)


@pytest.mark.parametrize("causal", [False, True])
def test_vectors_meet_queries_that_another_view_has_not_turned(causal):
    mixed, (q, k, v) = heads(2, 9, 16)
    view, mask = RelativeKeysAndValues(3, 16, trained=True).to(DEVICE), padding([9, 6], 9)
    turn, span = Rotation(16, 50.0), Span(0, 9, q.device)

    def attended(kernel):
        read = scaled(q)
        turned = turn.rotate(read, k, span)
        if kernel:
            return shaw.shaw_attention(*turned, v, *view.distance_vectors(), mask, causal, 0.0, read)
        with patch.object(shaw, "serves", lambda *_: False):
            return attend(Attention(*turned, v, LayerPositions([turn, view]), span, mask, causal, 0.0, (read,)))

    agree(attended(True), attended(False), [mixed, *view.parameters()])


def test_what_the_kernel_serves():
    cpu = torch.zeros(2, 2, 5, 8)
    assert not shaw.serves(cpu, cpu, cpu, None)
    if triton_interpreter.ON_GPU:
        q = cpu.cuda()
        assert shaw.serves(q, q, q, None)
        assert shaw.serves(q, q, q, padding([5, 3], 5))
        assert not shaw.serves(q, q, q, torch.ones(2, 1, 5, 5, dtype=torch.bool, device="cuda"))
        assert not shaw.serves(q.double(), q.double(), q.double(), None)
        assert not shaw.serves(q, q, q.bfloat16(), None)


@pytest.mark.slow
def test_a_compiled_graph_calls_the_kernel(monkeypatch):
    """The same numbers and as many launches as without torch.compile; dropout of the weights has a seed of its own."""
    torch._dynamo.reset()
    part = {"d_model": 16, "heads": 1, "encoder": {"layers": 1}, "decoder": {"layers": 1}, "attention_dropout": 0.3}
    plain_layers, compiled = (tiny.build(system="relative", **part).float().to(DEVICE).train() for _ in range(2))
    for model in (plain_layers, compiled):
        model.decoder[0].cross.dropout = 0.0  # which is drawn otherwise under torch.compile
    compiled.compile_training("aot_eager")
    launched, launch = [], shaw_triton.Launch.__call__
    monkeypatch.setenv("POSNMT_KERNELS", "always")  # a trial would launch kernels too
    monkeypatch.setattr(shaw, "serves", lambda q, k, v, mask: q.shape == k.shape)
    monkeypatch.setattr(shaw_triton.Launch, "__call__", lambda *given: launched.append(given[1]) or launch(*given))
    for rows, tokens in ((2, 5), (3, 4)):
        words, lengths = torch.arange(rows * tokens, device=DEVICE).view(rows, -1) % 9 + 4, [tokens] * (rows - 1) + [2]
        found = []
        for model in (plain_layers, compiled):
            launched.clear()
            torch.manual_seed(1)
            hidden = model(words, torch.tensor(lengths, device=DEVICE), words)
            found.append(
                (hidden, *torch.autograd.grad(hidden.square().sum(), [*model.parameters()], allow_unused=True))
            )
            assert sorted(kernel.fn.__name__ for kernel in launched) == [
                *["backward_keys"] * 2, *["backward_queries"] * 2, *["forward"] * 2,
            ]  # fmt: skip
        for got, want in zip(*found, strict=True):
            assert (got is None) == (want is None)
            if want is not None:
                torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("values", [False, True])
def test_the_operators_are_declared_as_they_are(values):
    """Schemas, shapes and strides of what they return, and gradients: PyTorch's own check."""
    q, k, v = (torch.randn(1, 3, 2, 16, device=DEVICE, requires_grad=True) for _ in range(3))
    term = torch.randn(1, 3, 2, shaw.columns(2), device=DEVICE, requires_grad=True)
    mask = torch.tensor([[1, 1, 0]], dtype=torch.uint8, device=DEVICE)
    torch.library.opcheck(shaw._operator, (q, k, v, term, mask, 2, True, 0.0, values))
