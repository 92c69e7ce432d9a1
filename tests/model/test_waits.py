"""No training step of a model waits for its device: nothing that a GPU computes is read, and nothing is sent to it.

The model is on the device `meta`, whose tensors have shapes and no numbers. So a value that is read is an error there,
and copies between the model's device and the CPU are seen. The paths are those of a GPU, except for kernels of CUDA.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posnmt.training.optimizer import Muon
from tests.support import tiny

WAITS = {
    "rnn-nmt": "the encoder packs its words by lengths, which PyTorch wants on the CPU",
    "rnnsearch": "its encoder is that of rnn-nmt",
}
"""Models, by the beginnings of their names, that do wait, and why."""


class Crossing(TorchDispatchMode):
    """Notes the operations that have tensors on the model's device and on the CPU."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = [each for each in tree_leaves((args, kwargs, result)) if isinstance(each, torch.Tensor)]
        if len({each.device.type for each in tensors}) > 1:
            self.seen.append(str(func))
        return result


class Listed(TorchFunctionMode):
    """Notes lists of numbers that become tensors of the model's device, or indices of them."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func in (torch.tensor, torch.as_tensor) and result.is_meta:
            self.seen.append(func.__name__)
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and args[0].is_meta:
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            self.seen.extend(func.__name__ for each in index if isinstance(each, list | np.ndarray))
        return result


@contextmanager
def watched():
    """A block; the operations in it that copy to the model's device or from it."""
    seen: list[str] = []
    with Crossing(seen), Listed(seen):
        yield seen


@pytest.fixture(autouse=True)
def autocast_of_a_gpu(monkeypatch):
    """`meta` has no autocast of its own."""
    original = torch.autocast

    def autocast(kind, *arguments, **options):
        return original("cuda" if kind == "meta" else kind, *arguments, **options)

    monkeypatch.setattr(torch, "autocast", autocast)


def words(length):
    return torch.full((3, length), 5, device="meta")


def step(model):
    """A forward and backward pass; the operations that copy."""
    with watched() as copies:
        hidden = model(words(7), torch.full((3,), 7, device="meta"), words(6))
        model.project(hidden).sum().backward()
    assert all(each.grad.is_meta for each in model.parameters() if each.grad is not None)
    assert sum(each.grad is not None for each in model.parameters()) > 10
    return copies


def on_device(name):
    part = {**tiny.MODELS[name], "dropout": 0.1}
    return tiny.build(**part).train().to("meta")


@pytest.mark.parametrize("name", [name for name in tiny.MODELS if not name.startswith(tuple(WAITS))])
def test_a_training_step_does_not_wait(name):
    assert not step(on_device(name))


@pytest.mark.parametrize("name", [name for name in tiny.MODELS if name.startswith(tuple(WAITS))])
def test_models_that_are_known_to_wait_do(name):
    with pytest.raises(NotImplementedError, match="no data"):
        step(on_device(name))


@pytest.mark.parametrize("system", ["transformer", "relative", "rope", "alibi", "t5-bias", "learned", "fire", "cope"])
def test_the_main_systems_are_among_those_that_do_not_wait(system):
    assert not system.startswith(tuple(WAITS))
    assert tiny.MODELS[system]["system"] == system


KINDS = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "int": lambda x: int(x.sum()),
    "condition": lambda x: bool((x > 0).any()),
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "index of a mask": lambda x: x[x > 0],
    "selected by a mask": lambda x: x.masked_select(x > 0),
    "unique": lambda x: x.unique(),
    "repeated as often as a tensor says": lambda x: x.repeat_interleave(x.long()),
    "to the CPU": lambda x: x.cpu(),
    "from the CPU": lambda x: torch.ones(3).to(x.device),
    "a new tensor of numbers": lambda x: torch.tensor([1, 2], device=x.device),
    "a scalar from the CPU": lambda x: torch.tensor(1.0).to(x.device),
    "index of a list": lambda x: x[[0, 1]],
    "set at a list": lambda x: x.__setitem__([0, 1], 2.0),
    "copied": lambda x: x.copy_(torch.ones(3)),
}
"""Ways to wait for a device."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_way_to_wait_is_seen(kind):
    x = torch.ones(3, device="meta")
    try:
        with watched() as copies:
            KINDS[kind](x)
    except (NotImplementedError, RuntimeError):
        return
    assert copies


def test_clipping_and_muon_do_not_wait(monkeypatch):
    """AdamW is fused there, which `meta` has not."""
    matrices = [nn.Parameter(torch.ones(*shape, device="meta")) for shape in ((4, 6), (6, 4), (4, 6))]
    optimizer = Muon(matrices, [nn.Parameter(torch.ones(3, device="meta"))], 0.01, 3.0, 0.1, every=2)
    monkeypatch.setattr(optimizer.adam, "step", lambda: None)
    monkeypatch.setattr("posnmt.training.optimizer._precision", lambda matrix: torch.bfloat16)
    with watched() as copies:
        for matrix in matrices:
            matrix.grad = torch.ones_like(matrix)
        norm = torch.nn.utils.clip_grad_norm_(matrices, 1.0, error_if_nonfinite=False)
        optimizer.found_inf = 1 - norm.double().isfinite().all().float()
        optimizer.step()
    assert not copies
    assert all(optimizer.state[matrix]["momentum"].is_meta for matrix in matrices)
