"""Muon against its definition and PyTorch's own; which parameters it has; the same on one core and two."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from posnmt.config.schema import Train
from posnmt.data.prepare import prepare
from posnmt.run.resolve import load
from posnmt.training import optimizer
from posnmt.training.build import build
from posnmt.training.device import make_fabric
from posnmt.training.optimizer import COEFFICIENTS, Muon, make_optimizer, matrices, orthogonal
from posnmt.training.train import update
from tests.support import corpus, tiny


@pytest.mark.parametrize("shape", [(6, 6), (4, 12), (12, 4)])
def test_the_update_is_nearly_orthogonal(shape):
    torch.manual_seed(0)
    matrix = torch.randn(*shape, dtype=torch.float64)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    expected = values / values.norm()
    for _ in range(optimizer.ITERATIONS):
        expected = sum(factor * expected**power for factor, power in zip(COEFFICIENTS, (1, 3, 5), strict=True))
    torch.testing.assert_close(orthogonal(matrix), left @ expected.diag() @ right)
    assert ((values / values.norm() < 0.05) | ((expected > 0.65) & (expected < 1.25))).all()


def steps(model, optimizer, count=4):
    """Updates on fixed data; the weights after them."""
    torch.manual_seed(1)
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.randn(8, 6)).square().sum().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_it_is_pytorchs_muon_beside_adam(decay, monkeypatch):
    """In bfloat16 both; PyTorch emulates it where the processor has none, and then so does this test."""
    monkeypatch.setattr(optimizer, "_precision", lambda matrix: torch.bfloat16)
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    theirs = copy.deepcopy(ours)
    start = [parameter.detach().clone() for parameter in ours.parameters()]
    split = [[parameter for parameter in model.parameters() if parameter.ndim == 2] for model in (ours, theirs)]
    others = [[parameter for parameter in model.parameters() if parameter.ndim == 1] for model in (ours, theirs)]
    found = steps(ours, Muon(split[0], others[0], lr=0.01, factor=3.0, weight_decay=decay))

    class Both:
        parts = (
            torch.optim.AdamW(others[1], lr=0.01, weight_decay=decay),
            torch.optim.Muon(
                split[1], lr=0.03, weight_decay=decay, adjust_lr_fn="match_rms_adamw", ns_steps=optimizer.ITERATIONS
            ),
        )

        def zero_grad(self):
            theirs.zero_grad()

        def step(self):
            for part in self.parts:
                part.step()

    for one, other, before in zip(found, steps(theirs, Both()), start, strict=True):
        assert (one - other).norm() < 0.05 * (other - before).norm()


def test_matrices_take_turns():
    """With `every`, a matrix changes in each so many updates by so many times the rate, and not all in the same."""
    torch.manual_seed(0)
    matrices = [nn.Parameter(torch.randn(3, 4)) for _ in range(4)]
    optimizer = Muon(matrices, [nn.Parameter(torch.zeros(2))], lr=0.01, factor=3.0, weight_decay=0.0, every=2)
    momenta = [torch.zeros(3, 4) for _ in matrices]
    changed = []
    for turn in range(1, 5):
        optimizer.param_groups[-1]["turn"] = turn
        before = [matrix.detach().clone() for matrix in matrices]
        wanted = []
        for place, matrix in enumerate(matrices):
            matrix.grad = torch.randn(3, 4)
            momenta[place] = 0.95 * momenta[place] + 0.05 * matrix.grad
            wanted.append(orthogonal(0.05 * matrix.grad + 0.95 * momenta[place]) * 0.2 * 2.0 * 0.01 * 3.0 * 2)
        optimizer.step()
        steps = [one - other.detach() for one, other in zip(before, matrices, strict=True)]
        changed.append([bool(step.any()) for step in steps])
        for step, each in zip(steps, wanted, strict=True):
            assert not step.any() or torch.allclose(step, each, rtol=0.02, atol=1e-4)
    assert changed == [[False, True, False, True], [True, False, True, False]] * 2


def test_training_gives_each_matrix_its_turn(tmp_path):
    settings = {"optimizer": "muon", "muon_every": 2, "weight_decay": 0.0}
    config = load(corpus.make(tmp_path, pairs=60, train=settings))
    t = build(config, prepare(config), make_fabric(config.train))
    changed = []
    for step in (1, 2, 3):
        t.progress.step, before = step, [matrix.detach().clone() for matrix in matrices(t.model)]
        update(t, 1e-3, t.plan.take(t.progress.cursor, 1)[0])
        changed.append([not torch.equal(*pair) for pair in zip(before, matrices(t.model), strict=True)])
    t.close()
    assert True in changed[0]
    assert [not each for each in changed[0]] == changed[1]
    assert changed[2] == changed[0]


def with_gradients(dtype, every=1, decay=0.1):
    """A Muon with matrices of three shapes and a vector, all with gradients and momentum."""
    torch.manual_seed(5)
    shapes = [(6, 4), (4, 6), (6, 4), (5, 5), (4, 6), (6, 4)]
    matrices = [nn.Parameter(torch.randn(*shape, dtype=dtype)) for shape in shapes]
    optimizer = Muon(matrices, [nn.Parameter(torch.randn(3, dtype=dtype))], 0.01, 3.0, decay, every, fused=True)
    for _ in range(2):
        optimizer.param_groups[-1]["turn"] += 1
        for each in parameters(optimizer):
            each.grad = torch.randn_like(each)
        optimizer.step()
    for each in parameters(optimizer):
        each.grad = torch.randn_like(each)
    return optimizer


def parameters(optimizer):
    return [each for group in optimizer.param_groups for each in group["params"]]


def held(optimizer):
    """All numbers that an update may change."""
    moments = [moment for each in parameters(optimizer) for moment in optimizer.state[each].values()]
    return [tensor.detach().clone() for tensor in (*parameters(optimizer), *moments)]


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_matrices_of_a_shape_together_are_updated_as_one_by_one(every, decay, monkeypatch):
    apart, together = (with_gradients(torch.float64, every, decay) for _ in range(2))
    before = held(apart)
    apart.step()
    together.found_inf = torch.zeros((), dtype=torch.float64)  # for a rate with all its digits
    monkeypatch.setattr(together.adam, "step", lambda: None)
    together.step()
    changed = [not torch.equal(one, other) for one, other in zip(held(apart), before, strict=True)]
    assert sum(changed[1:7]) == 6 / every
    for one, other in zip(held(apart)[1:7], held(together)[1:7], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    for one, other in zip(*(of.param_groups[-1]["params"] for of in (apart, together)), strict=True):
        torch.testing.assert_close(apart.state[one], together.state[other], rtol=0, atol=1e-12)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_an_update_that_the_device_leaves_out_changes_no_number(value):
    optimizer = with_gradients(torch.float32)
    for each in parameters(optimizer):
        each.grad.view(-1)[1] = value
    before = held(optimizer)
    optimizer.found_inf = torch.ones(())
    optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(held(optimizer), before, strict=True))


@pytest.mark.parametrize("name", tiny.MODELS)
def test_every_parameter_is_updated_by_one_of_them(name):
    model = tiny.build(**tiny.MODELS[name])
    optimizer = make_optimizer(model, Train(steps=1, optimizer="muon"))
    adams, muons = ({id(each) for each in group["params"]} for group in optimizer.param_groups)
    assert not adams & muons
    assert adams | muons == {id(parameter) for parameter in model.parameters()}
    tables = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
    assert not {id(table) for table in (model.output.weight, *tables)} & muons
    assert all(parameter.ndim == 2 and min(parameter.shape) > 1 for parameter in matrices(model))


def test_one_core_computes_what_two_do():
    found = []
    for cores in (1, 2):
        torch.set_num_threads(cores)
        model = tiny.build(system="transformer").float()
        optimizer = make_optimizer(model, Train(steps=1, optimizer="muon"))
        torch.manual_seed(3)
        for _ in range(3):
            for parameter in model.parameters():
                parameter.grad = torch.randn_like(parameter)
            optimizer.step()
        found.append([parameter.detach() for parameter in model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
