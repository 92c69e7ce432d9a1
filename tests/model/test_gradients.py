"""A batch in parts is the batch as a whole, for every system; one core computes what several do, dropout included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Train
from posnmt.data.batch import collate
from posnmt.training.device import make_fabric
from posnmt.training.gradients import PART, InParts, part_ends
from posnmt.training.loss import TrainingLoss
from tests.support import tiny


def pairs(count, longest=11):
    generator = np.random.default_rng(1)
    lengths = generator.integers(1, longest, size=(count, 2))
    return [
        tuple(generator.integers(4, tiny.VOCABULARY, size=size).astype(np.int32) for size in each) for each in lengths
    ]


def gradients(model, batch, precision="fp64"):
    """Sums and gradients of a batch, added up twice."""
    fabric, loss_of = make_fabric(Train(steps=1, precision=precision)), TrainingLoss(model, 0.1)
    adds = InParts(fabric, loss_of)
    sums = adds.add(batch, 0.5, (1, 2), last=False) + adds.add(batch[:50], 0.5, (1, 3), last=True)
    adds.close()
    return [sums, *(p.grad for p in model.parameters() if p.grad is not None)]


def test_parts_add_up_to_the_whole():
    batch, model = pairs(60), tiny.build(system="relative").train()
    in_parts = gradients(model, batch)
    model.zero_grad()
    loss_of, sums = TrainingLoss(model, 0.1), torch.zeros(2, dtype=torch.float64)
    for rows in (batch, batch[:50]):
        assert len(part_ends([1 + len(source) for source, _ in rows], 1 + max(len(target) for _, target in rows))) > 1
        loss, likelihood = loss_of(*collate(rows).tensors)
        (loss * 0.5).backward()
        sums += torch.stack([loss.detach(), likelihood])
    whole = [sums, *(p.grad for p in model.parameters() if p.grad is not None)]
    torch.testing.assert_close(in_parts, whole)


@pytest.mark.parametrize("name", tiny.each_of())
def test_bf16_differs_by_rounding_alone(name):
    """bf16 has 8 bits: sums over rows and layers were off by up to 0.03 of the gradient's norm."""
    wide, narrow = (
        gradients(tiny.build(**tiny.MODELS[name]).float().train(), pairs(10), width) for width in ("fp32", "bf16")
    )
    torch.testing.assert_close(narrow[0], wide[0], rtol=2e-3, atol=0)
    off, size = 0.0, 0.0
    for one, other in zip(narrow[1:], wide[1:], strict=True):
        assert one.dtype == torch.float32
        off, size = off + (one - other).square().sum().item(), size + other.square().sum().item()
    assert off < 0.06**2 * size


def test_the_residual_stream_is_narrow_in_training_in_bf16_alone():
    model, tokens = tiny.build(system="relative").float().train(), torch.tensor([[4, 5, 6]])
    seen = []
    model.encoder[0].register_forward_pre_hook(lambda _, given: seen.append(given[0].dtype))
    for narrow, training in ((True, True), (True, False), (False, True)):
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            model.train(training)(tokens, torch.tensor([3]), tokens)
    assert seen == [torch.bfloat16, torch.float32, torch.float32]


@pytest.mark.parametrize("system", ["transformer", "shape", "cape", "randomised"])
def test_what_is_drawn_depends_on_the_seed_alone(system):
    batch, found = pairs(60), []
    for _ in range(3):
        model = tiny.build(system=system, dropout=0.3, attention_dropout=0.2).train()
        torch.manual_seed(len(found))  # the default generator has no part in it
        found.append(gradients(model, batch))
    for other in found[1:]:
        assert all(torch.equal(one, same) for one, same in zip(found[0], other, strict=True))


@pytest.mark.parametrize("count", [60, 18, 9])
def test_one_core_computes_what_two_do(count):
    """Also where a batch is so small that it has one part."""
    found = []
    for cores in (1, 2):
        torch.set_num_threads(cores)
        found.append(gradients(tiny.build(system="relative", dropout=0.3).float().train(), pairs(count), "fp32"))
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))


def test_each_parameter_has_a_gradient_of_its_own():
    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))

        def forward(self, *_):
            total = (self.one + self.two).sum()  # autograd gives both the same tensor
            return total, total.detach()

    for count in (1, 2):
        loss_of = Sum()
        adds = InParts(make_fabric(Train(steps=1, precision="fp32")), loss_of)
        batch = pairs(3) if count == 1 else pairs(300)
        adds.add(batch, 0.5, (1,), last=True)
        adds.close()
        loss_of.one.grad.mul_(0)
        assert loss_of.two.grad.unique().item() > 0


@pytest.mark.parametrize(
    ("rows", "target", "count"),
    [(10, 10, 1), (1, 300, 1), (50, 6, 2), (2 * PART // 16, 16, 2), (50, 116, 2), (50, 130, 4), (50, 4100, 50)],
)
def test_how_many_parts(rows, target, count):
    assert len(part_ends([7] * rows, target)) == count


def test_the_costliest_part_is_as_cheap_as_can_be():
    sources = sorted(np.random.default_rng(2).integers(1, 40, size=200).tolist(), reverse=True)

    def cost(first, last):
        return (last - first) * (sources[first] + 2 * 15)

    first, last = part_ends(sources, 15)
    assert last == len(sources)
    cheapest = min(max(cost(0, cut), cost(cut, last)) for cut in range(1, last))
    assert max(cost(0, first), cost(first, last)) == cheapest < max(cost(0, 100), cost(100, 200))


def test_workers_keep_the_order_and_compute_as_the_caller_would():
    torch.set_num_threads(2)
    workers = Workers()

    def work(number):
        return number, torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled(), torch.get_num_threads()

    with torch.autocast("cpu"), torch.inference_mode():
        assert workers.map(work, range(20)) == [(number, True, True, 1) for number in range(20)]
    assert workers.map(work, [7]) == [(7, False, False, 2)]  # alone, it has both cores
    assert workers.map(work, []) == []
    assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError):
        workers.map(lambda number: 1 // number, [1, 0])
    workers.close()
