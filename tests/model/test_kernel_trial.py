"""A kernel is used where it agrees with the plain form in a trial; one that is broken is not, and a warning says so.

The kernel for relative positions runs on a GPU where there is one; else by Triton's interpreter, on the CPU.
"""

from __future__ import annotations

import os
from unittest.mock import patch

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.kernels import shaw, trial
from posnmt.model.kernels.choose import attend
from posnmt.model.kernels.operands import Attention
from posnmt.model.kernels.shaw_trial import NAME, Case, in_graph, tried, trusts
from posnmt_position.relative import RelativeKeysAndValues
from posnmt_position.seam import LayerPositions, Span
from tests.support import triton_interpreter
from tests.support.loops import scaled

DEVICE = torch.device("cuda", 0) if triton_interpreter.ON_GPU else torch.device("cpu")
CPU = torch.device("cpu")
interpreted = pytest.mark.skipif(not triton_interpreter.INSTALLED, reason="Triton is not installed")


@pytest.fixture(autouse=True)
def _nothing_tried(monkeypatch):
    monkeypatch.setattr(trial, "_verdicts", {})
    with patch.dict(os.environ, triton_interpreter.VARIABLES):
        yield


WANTED = {"output": torch.tensor([1.0, -200.0]), "gradient": torch.tensor([3.0])}


class Kernel:
    """A kernel that computes this, and counts how often."""

    def __init__(self, **changed):
        self.results, self.calls = {**WANTED, **changed}, 0

    def __call__(self):
        self.calls += 1
        for each in self.results.values():
            if isinstance(each, Exception):
                raise each
        return self.results

    def trusted(self, case="case"):
        return trial.trusted("this kernel", case, CPU, self, lambda: WANTED, 0.01)


def test_a_kernel_that_agrees_is_tried_once_for_each_case(capsys):
    kernel = Kernel(output=torch.tensor([2.9, -200.0]))  # 1.9 of 200
    assert [kernel.trusted(case) for case in ("one", "one", "two", "one")] == [True] * 4
    assert kernel.calls == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"output": torch.tensor([1.0, -197.0])},
        {"gradient": torch.tensor([3.1])},
        {"gradient": torch.tensor([torch.nan])},
        {"gradient": torch.tensor([torch.inf])},
        {"output": torch.tensor([1.0])},
        {"output": RuntimeError("out of resource: shared memory\nReduce the block")},
    ],
)
def test_a_kernel_that_differs_or_fails_is_not_trusted_and_one_warning_says_so(changed, capsys):
    kernel = Kernel(**changed)
    assert [kernel.trusted() for _ in range(3)] == [False] * 3
    assert kernel.calls == 1
    [warning] = capsys.readouterr().err.splitlines()
    [(name, value)] = changed.items()
    assert ("out of resource: shared memory" if isinstance(value, Exception) else name) in warning


def test_zeros_agree_with_zeros_alone():
    zero = torch.zeros(2)
    assert trial._difference(zero, zero) == 0
    assert trial._difference(zero + 1e-30, zero) == torch.inf
    assert trial._difference(torch.zeros(0), torch.zeros(0)) == 0


def test_a_device_without_memory_says_nothing_about_a_kernel():
    with pytest.raises(torch.OutOfMemoryError):
        Kernel(output=torch.OutOfMemoryError("no memory")).trusted()
    assert Kernel().trusted()


def test_nothing_is_tried_while_a_graph_is_recorded_or_compiled(monkeypatch):
    for module, name in ((trial, "_is_recording"), (torch.compiler, "is_compiling")):
        kernel = Kernel()
        with monkeypatch.context() as during:
            during.setattr(module, name, lambda *_: True)
            assert not kernel.trusted(name)
            assert kernel.calls == 0
        assert kernel.trusted(name)
        with monkeypatch.context() as during:
            during.setattr(module, name, lambda *_: True)
            assert kernel.trusted(name)


@pytest.mark.parametrize(("asked", "answer"), [("always", True), ("never", False)])
def test_the_user_decides_without_a_trial(asked, answer, monkeypatch):
    monkeypatch.setenv(trial.VARIABLE, asked)
    kernel = Kernel(output=torch.zeros(2))
    assert kernel.trusted() is answer
    assert kernel.calls == 0
    monkeypatch.setenv(trial.VARIABLE, "sometimes")
    with pytest.raises(UserError) as refused:
        kernel.trusted()
    assert refused.value.where == trial.VARIABLE


def case(**changed):
    usual = Case(torch.float32, 16, 2, 31, 5, False, 0.0, True, True, True, True, False)
    return usual._replace(**changed)


@interpreted
@pytest.mark.parametrize(
    "chosen",
    [
        case(),
        case(dtype=torch.float16, causal=True, masked=False, tokens=32),
        case(on_keys=False, width=20, trains=False),
        case(on_values=False, dropout=0.3),
        pytest.param(case(dropout=0.3, causal=True), marks=pytest.mark.slow),
        pytest.param(case(tokens=159, reach=16, width=64, dtype=torch.float16), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_kernel_for_relative_positions_agrees_and_draws_no_numbers_of_others(chosen):
    generator = torch.cuda.default_generators[0] if triton_interpreter.ON_GPU else torch.default_generator
    before = generator.get_state()
    with torch.inference_mode(), torch.autocast(DEVICE.type, torch.bfloat16):
        assert tried(chosen, DEVICE)
    assert torch.equal(generator.get_state(), before)


OUTPUTS = [
    *(("forward", name) for name in ("Attended", "ByDistance", "Normaliser")),
    *(("backward_queries", name) for name in ("GradQ", "GradKeyTerm")),
    *(("backward_keys", name) for name in ("GradK", "GradV")),
]


@interpreted
@pytest.mark.parametrize(("kernel", "output"), OUTPUTS)
def test_a_broken_kernel_is_refused_and_the_plain_form_computes(kernel, output, monkeypatch, capsys):
    from posnmt.model.kernels import shaw_triton

    right, broken = shaw_triton.Launch.__call__, getattr(shaw_triton, kernel)

    def launch(self, function, *tensors):
        right(self, function, *tensors)
        if function is broken:
            tensors[broken.arg_names.index(output)][:, -1] *= 1.5

    monkeypatch.setattr(shaw_triton.Launch, "__call__", launch)
    torch.manual_seed(1)
    mixed = torch.randn(2, 9, 3, 2, 16, device=DEVICE, requires_grad=True)
    view, span = RelativeKeysAndValues(3, 16, trained=True).to(DEVICE), Span(0, 9, DEVICE)

    def computed(serves):
        monkeypatch.setattr(shaw, "serves", lambda *_: serves)
        q, k, v = mixed.permute(2, 0, 3, 1, 4)
        attended = attend(Attention(scaled(q), k, v, LayerPositions([view]), span, None, False, 0.0))
        return attended, *torch.autograd.grad(attended.square().sum(), [mixed, *view.parameters()])

    for found, wanted in zip(computed(True), computed(False), strict=True):
        assert torch.equal(found, wanted)
    [warning] = capsys.readouterr().err.splitlines()
    assert "plain form" in warning


@interpreted
def test_dropout_that_keeps_too_much_or_too_little_is_refused(monkeypatch, capsys):
    right = shaw.shaw_attention
    for dropout in (0.0, 0.9):
        monkeypatch.setattr(shaw, "shaw_attention", lambda *given, other=dropout: right(*given[:7], other))
        assert not tried(case(dropout=0.3, tokens=15 + int(dropout > 0)), DEVICE)
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_compiled_graph_takes_the_kernel_where_training_was_tried_and_never_refused(monkeypatch):
    view = LayerPositions([RelativeKeysAndValues(3, 16, trained=True)])
    q, mask = torch.randn(2, 8, 70, 16, requires_grad=True), torch.ones(1, 1, 1, 70, dtype=torch.bool)
    attention = Attention(q, q, q, view, Span(0, 70, CPU), mask, False, 0.1)
    assert not in_graph(torch.float32, CPU)
    answers = iter([True, False])
    monkeypatch.setattr(trial, "_fault", lambda *_: "" if next(answers) else "it differs")
    assert trusts(attention)
    [(found, trust)] = trial.verdicts(NAME, CPU).items()
    assert found == case(width=16, tokens=143, reach=3, dropout=0.1)
    assert trust
    with monkeypatch.context() as during:
        during.setattr(torch.compiler, "is_compiling", lambda: True)
        assert trusts(attention)
        assert not trusts(attention._replace(view=LayerPositions()))
    assert in_graph(torch.float32, CPU)
    assert not in_graph(torch.bfloat16, CPU)
    assert not trusts(attention._replace(causal=True, mask=None))
    assert not in_graph(torch.float32, CPU)
    monkeypatch.setenv(trial.VARIABLE, "always")
    assert in_graph(torch.float32, CPU)
