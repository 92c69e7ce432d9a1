"""The loss with Triton's kernels is the loss by operations of PyTorch in float64, and so are its gradients.

On a GPU where there is one; else by Triton's interpreter, on tensors of the CPU.
"""

from __future__ import annotations

import os
from functools import partial
from unittest.mock import patch

import pytest
import torch

from posnmt.model.kernels import trial
from posnmt.training import loss, loss_fused
from tests.support import triton_interpreter

if not triton_interpreter.INSTALLED:
    pytest.skip("Triton is not installed (pip install triton)", allow_module_level=True)

from posnmt.training import loss_triton

DEVICE = "cuda" if triton_interpreter.ON_GPU else "cpu"
WITHIN = {torch.float32: 1e-5, torch.bfloat16: 2**-8}
"""The norm of a difference over the norm of what is right. Triton's interpreter truncates bfloat16, a GPU rounds."""


@pytest.fixture(autouse=True)
def _interpreted():
    """Triton asks for its interpreter again when it runs, and no other test is to have it."""
    with patch.dict(os.environ, triton_interpreter.VARIABLES):
        yield


def inputs(count, entries, dtype):
    """Hidden states, weights and bias that the type of the products holds exactly, and targets."""
    torch.manual_seed(entries)
    tensors = torch.randn(count, 16), torch.randn(entries, 16) / 4, torch.randn(entries) / 4
    tensors = [each.to(DEVICE, dtype).float() for each in tensors]
    return *tensors, torch.randint(0, entries, (count,), device=DEVICE)


def computed(function, given, smoothing, dtype, needs_gradients=True):
    """The loss, the likelihood, and the gradients of hidden states, weights and bias."""
    with torch.no_grad():
        summed, likelihood, gradients = function(*given, smoothing, dtype, needs_gradients)
    return [summed, likelihood, *(gradients or ())]


def agree(ours, given, smoothing, dtype):
    """With the form by operations of PyTorch, in float64."""
    *tensors, targets = given
    wide = [each.double() for each in tensors]
    exact = computed(loss.projected_cross_entropy, (*wide, targets), smoothing, torch.float64)
    for name, one, other in zip(("loss", "likelihood", "hidden", "weight", "bias"), ours, exact, strict=True):
        assert one.shape == other.shape, name
        assert one.dtype == torch.float32, name
        assert (one - other).norm() <= WITHIN[dtype] * other.norm(), name


@pytest.mark.parametrize("dtype", WITHIN)
@pytest.mark.parametrize(
    ("entries", "count", "smoothing"), [(37, 1, 0.0), (256, 31, 0.1), (1000, 70, 0.0), (1000, 33, 0.1), (8004, 5, 0.1)]
)
def test_loss_and_gradients(entries, count, smoothing, dtype):
    given = inputs(count, entries, dtype)
    ours = computed(loss_fused.projected_cross_entropy, given, smoothing, dtype)
    agree(ours, given, smoothing, dtype)
    alone = computed(loss_fused.projected_cross_entropy, given, smoothing, dtype, needs_gradients=False)
    assert torch.equal(torch.stack(alone), torch.stack(ours[:2]))


@pytest.mark.parametrize("dtype", WITHIN)
def test_the_gradients_of_chunks_add_up(dtype, monkeypatch):
    monkeypatch.setattr(loss_fused, "LOGITS", 256 * 100)  # 37 entries are padded to 256
    given = inputs(300, 37, dtype)
    with patch.object(loss_triton, "normalise", wraps=loss_triton.normalise) as normalise:
        ours = computed(loss_fused.projected_cross_entropy, given, 0.1, dtype)
    assert [len(each.args[0]) for each in normalise.call_args_list] == [128, 128, 44]
    agree(ours, given, 0.1, dtype)


def test_without_tokens_all_is_zero():
    given = inputs(0, 37, torch.bfloat16)
    ours = computed(loss_fused.projected_cross_entropy, given, 0.1, torch.bfloat16)
    assert [each.shape for each in ours] == [(), (), (0, 16), (37, 16), (37,)]
    assert not any(each.any() for each in ours)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_takes_the_kernels_where_they_serve(dtype, monkeypatch):
    """The hidden states may be narrow; their gradients then are."""
    *tensors, targets = inputs(40, 100, torch.bfloat16)
    wanted = computed(loss_fused.projected_cross_entropy, (*tensors, targets), 0.1, torch.bfloat16)
    tensors[0] = tensors[0].to(dtype)
    leaves = [each.requires_grad_() for each in tensors]
    monkeypatch.setattr(loss_fused, "serves", lambda *_: True)
    with torch.autocast(DEVICE, torch.bfloat16):
        summed, likelihood = loss.cross_entropy(*leaves, targets, 0.1)
    assert not likelihood.requires_grad
    assert [summed, likelihood] == wanted[:2]
    for leaf, gradient, other in zip(leaves, torch.autograd.grad(summed * 0.5, leaves), wanted[2:], strict=True):
        assert gradient.dtype == leaf.dtype
        assert torch.equal(gradient, other.to(leaf.dtype) * 0.5)


def test_what_the_kernels_serve():
    *_, weight, _, _ = inputs(1, 5, torch.float32)
    cpu = weight.cpu()
    assert not loss_fused.serves(cpu, cpu, torch.bfloat16)
    if triton_interpreter.ON_GPU:
        assert loss_fused.serves(weight, weight, torch.bfloat16)
        assert loss_fused.serves(weight, weight, torch.float32)
        assert not loss_fused.serves(weight, weight, torch.float64)
        assert not loss_fused.serves(weight, weight.double(), torch.float32)


@pytest.mark.parametrize("dtype", WITHIN)
def test_great_logits(dtype):
    """Rows of 10,000, 0 and -10,000; float32 holds the sums of logits and bias exactly."""
    rows, entries = 40, 300
    generator = torch.Generator().manual_seed(1)
    logits = 1e4 * torch.randint(-1, 2, (rows, entries), generator=generator)
    logits[0], logits[1], logits[2] = 1e4, -1e4, torch.where(torch.arange(entries) == 299, 1e4, -1e4)
    logits = logits.to(DEVICE, dtype)
    bias = (torch.randint(-64, 65, (entries,), generator=generator) / 64).to(DEVICE)
    targets = torch.randint(0, entries, (rows,), generator=generator).to(DEVICE)
    padded = torch.zeros(rows, 512, dtype=dtype, device=DEVICE)
    padded[:, :entries] = logits
    padded_bias = torch.full((512,), float("-inf"), device=DEVICE)
    padded_bias[:entries] = bias
    figures, sums = torch.empty(3, rows, device=DEVICE), torch.empty(2, 512, device=DEVICE)

    loss_triton.normalise(padded, padded_bias, targets, figures)
    scores = logits.double() + bias
    highest = scores.amax(-1)
    logarithms = (scores - highest[:, None]).exp().sum(-1).log()
    likelihood = torch.nn.functional.cross_entropy(scores, targets, reduction="none")
    torch.testing.assert_close(figures.double(), torch.stack([highest, logarithms, likelihood]), rtol=1e-5, atol=1e-5)

    loss_triton.slopes(padded, padded_bias, targets, figures, 0.9, sums)
    slopes = scores.softmax(-1) - 0.9 * torch.nn.functional.one_hot(targets, entries)
    torch.testing.assert_close(padded[:, :entries].double(), slopes, rtol=2 * WITHIN[dtype], atol=1e-5)  # truncated
    torch.testing.assert_close(sums[:, :entries].double(), torch.stack([slopes[:32].sum(0), slopes[32:].sum(0)]))
    assert not padded[:, entries:].any()
    assert not sums[:, entries:].any()


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # of Triton's interpreter
def test_a_logit_that_is_not_finite_is_in_the_loss():
    *tensors, targets = inputs(3, 37, torch.float32)
    tensors[0][1, 0] = float("nan")
    summed, likelihood = computed(loss_fused.projected_cross_entropy, (*tensors, targets), 0.1, torch.float32)[:2]
    assert summed.isnan()
    assert likelihood.isnan()


def test_the_host_waits_for_nothing():
    """Tensors without values: an operation that the host would wait for fails."""
    calls = []
    with (
        patch.object(loss_triton, "normalise", lambda *given: calls.append(given)),
        patch.object(loss_triton, "slopes", lambda *given: calls.append(given)),
    ):
        tensors = [each.to("meta") for each in inputs(40, 37, torch.bfloat16)]
        ours = computed(loss_fused.projected_cross_entropy, tensors, 0.1, torch.bfloat16)
    assert len(calls) == 2
    assert {each.device.type for each in ours} == {"meta"}


@pytest.fixture
def _untried(monkeypatch):
    monkeypatch.setattr(trial, "_verdicts", {})


@pytest.mark.parametrize("dtype", WITHIN)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.usefixtures("_untried")
def test_kernels_that_work_are_trusted(dtype, mode, capsys):
    with mode(), torch.autocast(DEVICE, torch.bfloat16):
        assert loss_fused.trusts(torch.device(DEVICE), dtype)
    assert capsys.readouterr().err == ""


def fails(kernel, *given):
    raise RuntimeError("no compiler")


def doubles(kernel, *given):
    kernel(*given)
    given[-1].mul_(2)  # figures or sums


@pytest.mark.usefixtures("_untried")
@pytest.mark.parametrize("kernel", ["normalise", "slopes"])
@pytest.mark.parametrize(("fault", "reason"), [(fails, "RuntimeError: no compiler"), (doubles, "differs by")])
def test_kernels_that_do_not_work_are_not_taken(kernel, fault, reason, monkeypatch, capsys):
    monkeypatch.setattr(loss_triton, kernel, partial(fault, getattr(loss_triton, kernel)))
    for _ in range(2):
        assert not loss_fused.trusts(torch.device(DEVICE), torch.bfloat16)
    [line] = capsys.readouterr().err.splitlines()
    assert reason in line


@pytest.mark.skipif(not triton_interpreter.ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("dtype", WITHIN)
def test_a_batch_of_real_size_without_a_wait(dtype):
    given = inputs(10_000, 32_000, dtype)
    computed(loss_fused.projected_cross_entropy, given, 0.1, dtype)
    torch.cuda.set_sync_debug_mode("error")
    try:
        ours = computed(loss_fused.projected_cross_entropy, given, 0.1, dtype)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    agree(ours, given, 0.1, dtype)
