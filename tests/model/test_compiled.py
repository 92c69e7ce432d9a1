"""Layers compiled for training: the same training as without, with a graph for each kind of layer."""

from __future__ import annotations

import importlib.util
from functools import cache

import pytest
import torch
from torch._dynamo.utils import counters

from posnmt.model.kernels import trial
from posnmt.training.build import COMPILES
from posnmt.training.loss import TrainingLoss
from tests.support import tiny

pytestmark = pytest.mark.skipif(torch.__version__ < COMPILES, reason=f"layers are compiled from PyTorch {COMPILES} on")

SHAPES = [(5, 7, 9), (3, 6, 8), (6, 11, 5), (7, 9, 12), (2, 13, 14), (9, 5, 10)]
"""Rows, source tokens, target tokens: no two of a batch are equal, and none is the number of heads."""

COMPILED = [name for name in tiny.TRANSFORMERS if tiny.settings(**tiny.MODELS[name]).architecture != "sru"]
WITHOUT_BREAKS = ["transformer", "rope", "relative", "alibi", "t5-bias"]


def losses(name, backend, **options):
    """Two losses of equal models in training: the second one's layers are compiled."""
    torch._dynamo.reset()
    counters.clear()
    plain, compiled = (
        TrainingLoss(tiny.build(**{**tiny.MODELS[name], **options}).train(), 0.1) for _ in ("plain", "compiled")
    )
    assert compiled.model.compile_training(backend)
    compiled(*batch(2, 3, 4))  # the first call is not compiled
    assert counters["stats"]["unique_graphs"] == 0
    return plain, compiled


def batch(rows, sources, targets):
    draws = torch.Generator().manual_seed(rows)
    source, target = (torch.randint(4, tiny.VOCABULARY, (rows, width), generator=draws) for width in (sources, targets))
    lengths = torch.randint(1, sources + 1, (rows,), generator=draws)
    lengths[0] = sources
    return source, lengths, target, target.roll(-1, 1)


def results(loss, given):
    """The loss, the likelihood and all gradients."""
    torch.manual_seed(1)
    found = loss(*given)
    return *found, *torch.autograd.grad(found[0], [*loss.parameters()], allow_unused=True)


def agree(plain, compiled, shapes=SHAPES):
    """Loss and gradients of batches of these shapes; returns how many graphs there were after each."""
    graphs = []
    for shape in shapes:
        given = batch(*shape)
        for got, want in zip(results(compiled, given), results(plain, given), strict=True):
            assert (got is None) == (want is None)
            if want is not None:
                torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)
        graphs.append(counters["stats"]["unique_graphs"])
    return graphs


@pytest.mark.parametrize("name", WITHOUT_BREAKS)
def test_a_graph_serves_all_layers_of_a_stack_and_all_lengths(name):
    sides = {side: {**tiny.MODELS[name].get(side, {}), "layers": 3} for side in ("encoder", "decoder")}
    assert agree(*losses(name, "eager", **sides)) == [2] * len(SHAPES)
    assert not counters["graph_break"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in COMPILED if each not in WITHOUT_BREAKS])
def test_every_system_trains_as_without(name):
    agree(*losses(name, "eager"), SHAPES[:2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relative", "rope", "fox-alone", "cope", "mpr-head", "cross-rope-fire", "deepnorm"])
def test_gradients_are_traced_too(name):
    agree(*losses(name, "aot_eager"), SHAPES[:3])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relative", "rope"])
def test_generated_code_computes_the_same(name):
    agree(*losses(name, "inductor"), SHAPES[:3])


@pytest.mark.slow
def test_generated_code_draws_the_same_dropout_for_a_seed():
    _, compiled = losses("transformer", "inductor", dropout=0.3, attention_dropout=0.3)
    given = batch(*SHAPES[0])
    first, again = results(compiled, given), results(compiled, given)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    compiled.eval()
    assert results(compiled, given)[0] != first[0]


def test_inference_is_not_compiled():
    _, compiled = losses("relative", "eager")
    with torch.no_grad():
        compiled.eval()(*batch(*SHAPES[0]))
    assert counters["stats"]["unique_graphs"] == 0


def test_what_a_device_can_do_is_asked_once_and_not_traced(monkeypatch):
    """`shaw.serves` asks in every layer. The answer comes from code that torch.compile cannot trace."""
    losses("transformer", "eager")
    asked = []
    monkeypatch.setattr(
        trial, "_compiles", cache(lambda device: asked.append(importlib.util.find_spec("torch")) or True)
    )
    answer = torch.compile(lambda x: x + 1 if trial.compiles(x.device) else x, backend="eager", fullgraph=True)
    assert [answer(torch.zeros(2)).sum(), answer(torch.zeros(3)).sum()] == [2, 3]
    assert len(asked) == 1


def test_a_model_without_such_layers_says_so():
    for name in ("sru", "dtmt", "convs2s"):
        assert not tiny.build(**tiny.MODELS[name]).compile_training()
