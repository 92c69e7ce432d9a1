"""Attention in blocks of queries, as long inputs have it; that it is the whole for every model, test_seam.py shows."""

from __future__ import annotations

import pytest
import torch

import posnmt.model.kernels.block_weights as blocks
import posnmt.model.kernels.choose as kernels
from posnmt.model.kernels.operands import Attention
from posnmt_position.seam import LayerPositions, Span
from tests.support.tiny import build, tokens

LENGTH = 21  # the last of the blocks has one query


@pytest.fixture
def in_blocks(monkeypatch):
    """Calls of attention in blocks are counted; `in_blocks(True)` makes small inputs long ones, with five queries a
    block, and `in_blocks(False)` leaves none long.
    """
    calls = []

    def choose(long: bool) -> list[int]:
        monkeypatch.setattr(kernels, "SMALL", 1 if long else 10**9)
        monkeypatch.setattr(kernels, "BLOCK", 5)
        monkeypatch.setattr(blocks, "BLOCK", 5)
        monkeypatch.setattr(blocks, "FEW", 5)
        calls.clear()
        return calls

    whole = kernels.attend_in_blocks
    monkeypatch.setattr(kernels, "attend_in_blocks", lambda a: calls.append(a.q.shape[-2]) or whole(a))
    return choose


@pytest.mark.parametrize("name", ["transformer", "relative", "alibi", "transformer-xl", "t5-bias"])
def test_under_autocast_blocks_differ_by_rounding_alone(name, in_blocks):
    model = build(system=name).float()
    source, target, lengths = tokens(2, LENGTH), tokens(2, LENGTH, seed=1), torch.tensor([LENGTH, LENGTH - 6])
    threads = torch.get_num_threads()

    def gradients(long, narrow):
        calls = in_blocks(long)
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            hidden = model(source, lengths, target)
        assert bool(calls) == long
        given = torch.autograd.grad(hidden.float().cos().sum(), list(model.parameters()), allow_unused=True)
        return torch.cat([each.flatten() for each in given if each is not None])

    torch.set_num_threads(1)  # plain attention is in blocks on one core alone
    try:
        exact = gradients(False, False)
        whole, parts = (gradients(long, True) - exact for long in (False, True))
    finally:
        torch.set_num_threads(threads)
    assert 0 < parts.norm() < 1.5 * whole.norm() + 0.01 * exact.norm()
    assert parts.norm() < 0.05 * exact.norm()


@pytest.mark.parametrize("name", ["relative", "t5-bias", "transformer-xl"])
def test_one_core_computes_what_two_do(name, in_blocks):
    model, threads, found = build(system=name), torch.get_num_threads(), []
    in_blocks(True)
    try:
        for cores in (1, 2):
            torch.set_num_threads(cores)
            hidden = model(tokens(2, LENGTH), None, tokens(2, LENGTH, seed=1))
            gradients = torch.autograd.grad(hidden.cos().sum(), list(model.parameters()), allow_unused=True)
            found.append(torch.cat([each.flatten() for each in (hidden, *gradients) if each is not None]))
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["relative", "alibi", "fire", "transformer-xl"])
def test_long_inputs_are_read_in_blocks_without_gradients_too(name, in_blocks):
    model, found = build(system=name).eval(), []
    for long in (False, True):
        calls = in_blocks(long)
        with torch.inference_mode():
            found.append(model(tokens(2, LENGTH), torch.tensor([LENGTH, 9]), tokens(2, LENGTH, seed=1)))
        assert bool(calls) == long
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("first", "causal"), [(0, False), (0, True), (4, True)])
def test_of_all_keys_a_causal_block_sees_those_up_to_its_last_query(first, causal, in_blocks, monkeypatch):
    in_blocks(True)
    q, k, v = torch.randn(3, 2, 3, 12, 8, dtype=torch.float64)
    q = q[..., first:, :].requires_grad_()
    span, seen = Span(first, 12 - first, q.device), []
    monkeypatch.setattr(
        blocks.Blocks,
        "weights",
        lambda self, block, terms, plain=blocks.Blocks.weights: (
            seen.append(block.span.end) or plain(self, block, terms)
        ),
    )
    found = kernels.attend_in_blocks(Attention(q, k, v, LayerPositions(), span, None, causal, 0.0))
    ends = [min(12, first + last) for last in range(5, 12 - first + 5, 5)]
    assert sorted(seen) == (ends if causal else [12, 12, 12])  # sorted: cores take blocks as they come
    mask = span.offsets <= 0 if causal else None
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=1.0)
    torch.testing.assert_close(found, want, rtol=0, atol=1e-12)


def test_a_block_has_fewer_queries_where_there_are_many_keys():
    def queries(rows, keys):
        q = torch.zeros(rows, 4, keys, 1)
        problem = blocks.Problem(LayerPositions(), Span(0, keys, q.device), None, False, [], [])
        return {block.span.length for block in blocks.Blocks(problem, q, q, q, [], [], [])}

    assert queries(1, 2048) == {256}
    assert queries(1, 8192) == {64}
    assert queries(8, 8192) == {16}
    assert queries(1, 300) == {256, 44}
