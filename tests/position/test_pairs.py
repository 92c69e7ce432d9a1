"""Schemes in one stack: the logits are the sum of what each contributes alone, whatever the order of the list.

Lists of four schemes stand for the pairs in them: each pair that is accepted is in some list.
"""

from __future__ import annotations

import itertools

import pytest
import torch

import posnmt.model.kernels.block_weights as blocks
import posnmt.model.kernels.choose as choose
from posnmt.base.errors import UserError
from posnmt.config.schema import SchemeChoice
from posnmt.model.attention import SelfAttention
from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt.model.positions import SCHEMES, build, check
from posnmt.model.state import LayerCache
from posnmt_position.diagonal import toeplitz
from posnmt_position.seam import LayerPosition, LayerPositions, Span, Stack
from tests.support.covering import groups
from tests.support.tiny import config, encoder

HEADS, WIDTH, LENGTH = 4, 8, 8
STACKS = {
    side: Stack(HEADS * WIDTH, HEADS, layers=1, causal=side == "decoder", max_length=LENGTH)
    for side in ("encoder", "decoder")
}


def accepted(side: str, *names: str) -> bool:
    return not check([SchemeChoice(scheme=name) for name in names], STACKS[side])


ALONE = [(side, name) for side in STACKS for name in SCHEMES if accepted(side, name)]
PAIRS = [
    (side, one, other)
    for side in STACKS
    for one, other in itertools.combinations([name for where, name in ALONE if where == side], 2)
    if accepted(side, one, other)
]
LISTS = [
    (side, names) for side in STACKS for names in groups([pair for where, *pair in PAIRS if where == side], most=4)
]
every_list = pytest.mark.parametrize(
    ("side", "names"), LISTS, ids=lambda each: each if each in STACKS else "+".join(each)
)


def schemes(side: str, *names: str):
    """Schemes in float64 whose parameters are all random, those that begin at 0 too."""
    torch.manual_seed(0)
    found = [build(SchemeChoice(scheme=name), STACKS[side]).double().eval() for name in names]
    for scheme in found:
        for parameter in scheme.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
    return found


def views(found) -> list[LayerPosition]:
    return [view for view in (scheme.layer(0) for scheme in found) if view is not None]


def contribution(view: LayerPosition, q, k, span):
    """What a view adds to `q k^T` where it is alone."""
    turned_q, turned_k = view.rotate(q, k, span)
    terms = view.logits(q, k, span)
    added = turned_q @ turned_k.mT - q @ k.mT
    return added if terms is None else added + terms


def by_sums(found: list[LayerPosition], q, k, v, span, causal):
    """Attention as its definition says it, each view asked alone."""
    logits = q @ k.mT + sum(contribution(view, q, k, span) for view in found)
    allowed = span.offsets <= 0 if causal else torch.ones_like(span.offsets, dtype=torch.bool)
    for view in found:
        only = view.allows(span)
        allowed = allowed if only is None else allowed & toeplitz(only, LENGTH)
    weights = logits.masked_fill(~allowed, -torch.inf).softmax(-1)
    return weights @ v + sum(view.values(weights, span) for view in found if view.values(weights, span) is not None)


@every_list
def test_the_joined_logits_are_the_sum_of_each_alone(side, names):
    found, causal = views(schemes(side, *names)), side == "decoder"
    torch.manual_seed(1)
    q, k, v = torch.randn(3, 2, HEADS, LENGTH, WIDTH, dtype=torch.float64)
    q, span = q * WIDTH**-0.5, Span(0, LENGTH, q.device)
    span.kept.update(LayerPositions(found).keep(torch.randn(2, LENGTH, HEADS * WIDTH, dtype=torch.float64), span))
    want = by_sums(found, q, k, v, span, causal)
    for order in (found, found[::-1]):
        joined = LayerPositions(order)
        unrotated = (q, k)[: joined.reads_unrotated + joined.reads_unrotated_keys]
        got = attend(Attention(*joined.rotate(q, k, span), v, joined, span, None, causal, 0.0, unrotated))
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


@every_list
def test_steps_blocks_and_the_order_of_the_list_change_nothing_in_a_layer(side, names, monkeypatch):
    found, causal = views(schemes(side, *names)), side == "decoder"
    torch.manual_seed(1)
    layer = SelfAttention(HEADS * WIDTH, HEADS, 0.0, causal).double()
    x = torch.randn(2, LENGTH, HEADS * WIDTH, dtype=torch.float64, requires_grad=True)
    parameters = [*layer.parameters(), *LayerPositions(found).trained()]

    def whole(order):
        attended = layer(x, LayerPositions(order), Span(0, LENGTH, x.device), None)
        return attended, *torch.autograd.grad(attended.cos().sum(), [x, *parameters])

    def agree(got):
        for ours, theirs in zip(got, want, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)

    want = whole(found)
    agree(whole(found[::-1]))
    if causal:
        cache = LayerCache()
        pieces = [
            layer(x[:, a:b], LayerPositions(found), Span(a, b - a, x.device), None, cache)
            for a, b in ((0, 3), (3, 4), (4, 7), (7, 8))
        ]
        torch.testing.assert_close(torch.cat(pieces, 1), want[0], rtol=0, atol=1e-12)
    monkeypatch.setattr(choose, "_is_long", lambda *_: True)
    monkeypatch.setattr(blocks, "BLOCK", 3)
    monkeypatch.setattr(blocks, "FEW", 3)
    agree(whole(found))


def adds_to_words(scheme, span) -> bool:
    """Whether what a scheme adds to the embeddings does not depend on them."""
    x, y = torch.randn(2, 2, LENGTH, HEADS * WIDTH, dtype=torch.float64)
    added = [scheme.embed(each, span, None)[0] - each for each in (x, y)]
    return torch.allclose(*added, rtol=0, atol=1e-12)


@every_list
def test_embeddings_are_changed_in_the_order_of_the_list_which_counts_for_recurrences_alone(side, names):
    found, span = schemes(side, *names), Span(0, LENGTH, torch.device("cpu"))
    x = torch.randn(2, LENGTH, HEADS * WIDTH, dtype=torch.float64)
    adding = [name for name, scheme in zip(names, found, strict=True) if adds_to_words(scheme, span)]
    assert {*names} - {*adding} <= {"recurrent", "recurrent-heads"}
    given = []
    for order in (adding, adding[::-1]):
        y = x
        for name in order:
            y, _ = found[names.index(name)].embed(y, span, None)
        given.append(y)
    torch.testing.assert_close(given[1], given[0], rtol=0, atol=1e-12)
    assert sum(bool(LayerPositions([view]).refining) for view in views(found)) < 2  # nor is there an order of those


def test_every_pair_is_in_a_list_that_is_accepted():
    """A scheme refuses others one by one, so that a list of pairs that are accepted is accepted."""
    assert all(accepted(side, *names) for side, names in LISTS)
    assert {(side, *pair) for side, names in LISTS for pair in itertools.permutations(names, 2)} >= {*PAIRS}


def test_pairs_that_are_refused():
    """Whatever else serves a stack stands beside whatever else."""
    moved = {"shape", "cape", "randomised"}
    apart = [{"rope", "xpos", "transformer-xl"}, {"recurrent", "recurrent-heads"}, {"additional", "reordering"}]
    apart += [{"recurrent-heads", place} for place in ("sinusoidal", "learned", *moved)]
    apart += [moved, *({each, place} for each in moved for place in ("sinusoidal", "learned"))]
    for side in STACKS:
        for pair in itertools.combinations([name for where, name in ALONE if where == side], 2):
            assert ((side, *pair) in PAIRS) == (not any(set(pair) <= group for group in apart)), pair


def test_two_turns_of_one_product_are_refused_with_the_reason():
    what = "transformer-xl cannot stand beside rope in one stack; choose one of them: both change the queries or keys"
    with pytest.raises(UserError, match=what):
        config(**encoder({"scheme": "transformer-xl"}, {"scheme": "rope"}))

    class Turning(LayerPosition):
        def rotate(self, q, k, span):
            return q, k

    with pytest.raises(ValueError, match="only one view of a layer may rotate"):
        LayerPositions([Turning(), Turning()])
