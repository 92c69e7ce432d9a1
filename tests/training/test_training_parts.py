"""Loss, dropout, schedules, precision: the parts of the training loop, each against its definition."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from posnmt.config.schema import Schedule, Train
from posnmt.data.batch import Cursor
from posnmt.training.clock import Clock
from posnmt.training.device import precision
from posnmt.training.loss import CHUNK, cross_entropy
from posnmt.training.progress import Progress
from posnmt.training.schedule import Plateau, learning_rate, warmup_and_cooldown
from posnmt_position.dropout import Dropout, dropout
from posnmt_position.processor import multiplies_bf16


def plain_cross_entropy(hidden, weight, bias, targets, smoothing):
    """PyTorch's, with all logits at once."""
    logits = functional.linear(hidden, weight, bias)
    loss = functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    return loss, functional.cross_entropy(logits, targets, reduction="sum").detach()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("count", [1, 7, CHUNK // 2 * 5 + 3])
def test_the_loss_in_chunks_is_the_plain_loss(smoothing, count):
    torch.manual_seed(0)
    hidden, weight, bias = (torch.randn(*shape, dtype=torch.float64) for shape in ((count, 6), (11, 6), (11,)))
    targets = torch.randint(0, 11, (count,))
    results = []
    for function in (cross_entropy, plain_cross_entropy):
        inputs = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
        loss, likelihood = function(*inputs, targets, smoothing)
        (loss * 0.37).backward()
        results.append([loss.detach(), likelihood, *(tensor.grad for tensor in inputs)])
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-10)
    assert not results[0][1].requires_grad


def test_the_loss_in_bf16_is_the_plain_loss_within_rounding():
    torch.manual_seed(0)
    hidden, weight, bias = torch.randn(500, 64), torch.randn(300, 64) / 8, torch.randn(300) / 8
    targets = torch.randint(0, 300, (500,))
    inputs = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = cross_entropy(*inputs, targets, 0.1)
    loss.backward()
    exact = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
    wanted, _ = plain_cross_entropy(*exact, targets, 0.1)
    wanted.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(wanted.item(), rel=2e-3)
    for ours, theirs in zip(inputs, exact, strict=True):
        assert (ours.grad - theirs.grad).norm() / theirs.grad.norm() < 0.01


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_nothing_is_kept(mode):
    inputs = [torch.randn(*shape, requires_grad=True) for shape in ((5, 4), (9999, 4), (9999,))]
    with mode():
        loss, _ = cross_entropy(*inputs, torch.arange(5), 0.1)
    assert not loss.requires_grad
    again, _ = cross_entropy(*inputs, torch.arange(5), 0.1)  # the same memory serves an evaluation and training
    again.backward()
    assert again.item() == loss.item()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5])
def test_dropout_drops_its_share_and_keeps_the_mean(kind, probability):
    torch.manual_seed(0)
    out = dropout(torch.ones(333, 1001, dtype=kind), probability)
    assert set(out.unique().tolist()) == {
        0.0,
        torch.tensor(1 / (1 - round(probability * 65536) / 65536), dtype=torch.float64).to(kind).item(),
    }
    # 5 standard deviations of a binomial share
    assert (out == 0).double().mean().item() == pytest.approx(probability, abs=5 * math.sqrt(0.25 / out.numel()))


def test_the_largest_dropout_keeps_the_smallest_share():
    """65,535 of 65,536: what rounds to all of them would leave nothing to scale."""
    torch.manual_seed(1)
    x = torch.ones(1 << 18)
    for probability in (0.99999, math.nextafter(1.0, 0.0)):
        kept = dropout(x, probability)
        assert set(kept.tolist()) == {0.0, float(1 << 16)}


def test_dropout_is_independent_between_neighbours_and_follows_the_seed():
    torch.manual_seed(1)
    one, two = dropout(torch.ones(100_000), 0.5), dropout(torch.ones(100_000), 0.5)
    torch.manual_seed(1)
    again = dropout(torch.ones(100_000), 0.5)
    assert torch.equal(one, again)
    assert not torch.equal(one, two)
    for step in (1, 2, 3, 4):
        both = ((one[step:] > 0) & (one[:-step] > 0)).double().mean()
        assert both.item() == pytest.approx(0.25, abs=0.01)


def test_dropout_outside_training_and_its_gradient():
    x = torch.randn(64, requires_grad=True)
    assert Dropout(0.5).eval()(x) is x
    assert dropout(x, 0.0) is x
    out = dropout(x, 0.25)
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(out == 0, 0.0, out / x).detach())


def rates(steps, **settings):
    """The rates of some steps of a training of 1,000."""
    train = Train(steps=1000, learning_rate=settings.pop("peak"), schedule=Schedule(**settings))
    shares = [Progress(step=step - 1).share(train, batches_in_epoch=1) for step in steps]
    return [learning_rate(step, train, d_model=512, share=share) for step, share in zip(steps, shares, strict=True)]


def test_schedules_that_end_with_the_budget():
    cooled = {"peak": 1e-3, "warmup": 100, "cooldown": 0.2}
    assert rates([50, 100, 801, 901, 1000], type="constant", **cooled) == pytest.approx([5e-4, 1e-3, 1e-3, 5e-4, 5e-6])
    assert rates([400, 901], type="inverse-square-root", **cooled) == pytest.approx([5e-4, 0.5e-3 * (100 / 901) ** 0.5])
    cosine = [0.5 * 1e-3 * (1 + math.cos(math.pi * share)) for share in (0.1, 0.5, 0.999)]
    assert rates([101, 501, 1000], peak=1e-3, type="cosine", warmup=100) == pytest.approx(cosine)


def test_a_warm_up_can_be_a_share_of_the_budget():
    shares = {"peak": 1e-3, "warmup": 0.1}
    assert rates([51, 101, 401], type="inverse-square-root", **shares) == pytest.approx([5e-4, 1e-3, 5e-4])
    assert rates([51, 101, 1000], type="constant", **shares) == pytest.approx([5e-4, 1e-3, 1e-3])
    assert rates([51, 1000], type="plateau", **shares) == pytest.approx([5e-4, 1e-3])
    with pytest.raises(ValueError, match=r"noam's warmup is a number of updates, not a share of the budget; got 0.1"):
        Schedule(type="noam", warmup=0.1)


def test_the_budget_that_ends_first_counts():
    progress = Progress(step=10, cursor=Cursor(epoch=1, batch=5), seconds=30, clock=Clock(updates=[2.0, 3.0, 90.0]))
    assert progress.share(Train(steps=40), batches_in_epoch=10) == 0.25
    assert progress.share(Train(steps=40, epochs=3), batches_in_epoch=10) == 0.5
    assert progress.share(Train(steps=40, epochs=3, minutes=0.625), batches_in_epoch=10) == 0.8  # 7.5 s for 2.5 updates
    assert progress.share(Train(steps=5), batches_in_epoch=10) == 1.0


def test_minutes_have_the_warm_up_and_the_cool_down_of_the_updates_that_fit():
    cases = [
        ({}, 500, (100, 0.3)), ({}, 5000, (300, 0.6)), ({}, math.inf, (4000, 0.6)), ({"init": "a"}, 500, (25, 0.3)),
        ({"schedule": Schedule(warmup=7, cooldown=0.1)}, 500, (7, 0.1)),
        ({"schedule": Schedule(type="cosine")}, 500, (100, 0)), ({"schedule": Schedule(type="noam")}, 500, (4000, 0)),
    ]  # fmt: skip
    for settings, updates, expected in cases:
        assert warmup_and_cooldown(Train(minutes=5, **settings), updates) == expected
    assert warmup_and_cooldown(Train(steps=500), 500) == (4000, 0)


def test_schedules_of_the_papers():
    assert rates([1, 2000, 4000, 300_000], peak=1e-4, type="constant", warmup=4000) == pytest.approx(
        [1e-4 / 4000, 5e-5, 1e-4, 1e-4]
    )
    # Vaswani et al. 2017 eq. 3, with C19's warm-up of 8,000
    noam = [512**-0.5 * min(step**-0.5, step * 8000**-1.5) for step in (1, 100, 8000, 200_000)]
    assert rates([1, 100, 8000, 200_000], peak=1.0, type="noam", warmup=8000) == pytest.approx(noam)
    assert rates([50, 100, 400], peak=1e-3, type="inverse-square-root", warmup=100) == pytest.approx([5e-4, 1e-3, 5e-4])
    assert rates([1, 10], peak=3e-4, type="plateau", warmup=0) == pytest.approx([3e-4, 3e-4])


def test_plateau_decays_after_six_evaluations_without_a_better_perplexity():
    schedule = Schedule(type="plateau", warmup=0)
    plateau, decays = Plateau(), []
    for perplexity in [9, 8, *[8] * 5, 8.1, *[9] * 6, 7, 9]:
        plateau.observe(perplexity, schedule)
        decays.append(plateau.decays)
    assert decays == [0] * 7 + [1] * 6 + [2] * 3
    train = Train(steps=1, learning_rate=3e-4, schedule=schedule)
    assert learning_rate(99, train, 512, decays=2) == pytest.approx(3e-4 * 0.81)
    floor = Train(steps=1, learning_rate=3e-4, schedule=Schedule(type="plateau", warmup=0, minimum=2e-4))
    assert learning_rate(99, floor, 512, decays=50) == pytest.approx(2e-4)


def test_precision_follows_the_config_and_the_chip():
    assert precision(Train(steps=1, precision="fp32"), "cpu") == "32-true"
    assert precision(Train(steps=1, precision="fp64"), "cpu") == "64-true"
    assert precision(Train(steps=1, precision="bf16"), "cpu") == "bf16-mixed"
    assert precision(Train(steps=1), "cpu") == ("bf16-mixed" if multiplies_bf16() else "32-true")
