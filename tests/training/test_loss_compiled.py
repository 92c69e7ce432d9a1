"""The loss under torch.compile: it computes as without, and what comes before it is one graph for all batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn import functional

from posnmt.data.batch import collate
from posnmt.training.loss import TrainingLoss, cross_entropy

BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_loss_is_left_as_it_is(backend):
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(cross_entropy, backend=counter)
    for count in (7, 5):
        inputs = [torch.randn(*shape, requires_grad=True) for shape in ((count, 8), (11, 8), (11,))]
        computed = []
        for function in (compiled, cross_entropy):
            loss, likelihood = function(*inputs, torch.arange(count), 0.1)
            computed.append([loss, likelihood, *torch.autograd.grad(loss * 0.37, inputs)])
        assert all(torch.equal(*each) for each in zip(*computed, strict=True))
    assert counter.frame_count == 0


class Bigrams(nn.Module):
    """The simplest model: each target token is predicted from the one before it."""

    def __init__(self):
        super().__init__()
        self.words, self.output = nn.Parameter(torch.randn(12, 8)), nn.Linear(8, 12)

    def forward(self, source, source_lengths, target_in):
        return functional.embedding(target_in, self.words)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_and_the_choice_of_real_tokens_are_one_graph_for_all_batches(backend):
    counter = CompileCounterWithBackend(backend)
    loss_of = TrainingLoss(Bigrams(), 0.1)
    for rows in ([(3, 4), (5, 2), (2, 6)], [(6, 7), (4, 3)]):
        batch = collate([tuple(np.arange(4, 4 + length) for length in pair) for pair in rows])
        computed = []
        for function in (loss_of, torch.compile(loss_of, backend=counter, dynamic=True)):
            loss, likelihood = function(*batch.tensors)
            computed.append([loss, likelihood, *torch.autograd.grad(loss, list(loss_of.parameters()))])
        assert all(torch.equal(*each) for each in zip(*computed, strict=True))
    computing = [each for each in counter.graphs if any(node.op.startswith("call") for node in each.graph.nodes)]
    assert len(computing) == 1
