"""A step of search waits for its device once: it reads once, and nothing that it sends is waited for.

On PyTorch's device `meta`, whose tensors have no numbers, search meets numbers that the test makes up. Any other read
raises there, and what is sent past `sent` is seen.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Decode, Sampling
from posnmt.data.subword import EOS
from posnmt.model.kernels import shaw
from posnmt.model.registry import build_model
from posnmt.translate import constrained, continuations, sampling, search, subwords
from posnmt.translate.continuations import Step
from posnmt.translate.requests import Part, Request, Search
from posnmt.translate.subwords import Searcher
from tests.support.tiny import MODELS, VOCABULARY, settings

META = torch.device("meta")
MAIN = ("transformer", "relative", "rope", "alibi", "t5-bias", "learned", "cope", "rnn")
FOUND = Search(Decode(beam=3, max_ratio=1.0, max_extra=5))
MODES = {
    "greedy": Search(Decode(beam=1, max_ratio=1.0, max_extra=5), scored=False),
    "beam": FOUND,
    "coverage": Search(Decode(beam=3, max_ratio=1.0, max_extra=5, coverage_penalty=0.2)),
    "samples": Search(Decode(beam=2, max_ratio=1.0, max_extra=5, sampling=Sampling())),
    "terms": FOUND,
    "prefixes": FOUND,
    "breaks": FOUND,
}
"""Kind of search → what is asked of it."""


def parts(mode: str) -> list[Part]:
    changes = {
        "terms": {"terms": [[6, 7], [5]], "closed": True},
        "prefixes": {"prefix": [8, 5]},
        "breaks": {"breaks": 1},
    }
    sources = [[5, 6, 7], [8, 9], [5] * 6, [4]]
    each_other = [changes.get(mode, {}), {} if mode != "terms" else {"terms": [[9]]}]
    return [Part(source, Request("", n), **each_other[n % 2]) for n, source in enumerate(sources)]


class Counted:
    """Reads and steps, and the numbers that are read in place of those of a device without any."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = self.steps = 0
        self.random = np.random.default_rng(1)
        begin = Step.__init__

        def counted(step: Step, *given: object, **named: object) -> None:
            self.steps += 1
            begin(step, *given, **named)

        monkeypatch.setattr(Step, "__init__", counted)

    def words(self, shape: torch.Size) -> np.ndarray:
        return self.random.choice([EOS, 5, 6, 7], size=tuple(shape)).astype(float)

    def of_search(self, candidates, parents, chosen, order, gains, *covered):
        self.reads += 1
        places = np.broadcast_to(np.arange(order.shape[1]), tuple(order.shape)).astype(float)
        rest = [np.ones(tuple(each.shape)) for each in covered]
        zeros = np.zeros(tuple(gains.shape))
        return [
            zeros,
            self.random.integers(1 if self.reads == 1 else order.shape[1], size=zeros.shape),  # all from one at first
            self.words(chosen.shape),
            places,
            zeros,
            *rest,
        ]

    def of_words(self, chosen, *others):
        self.reads += 1
        return [self.words(chosen.shape), *[np.zeros(tuple(each.shape)) for each in others]]


class Sending(TorchDispatchMode):
    """Copies from the CPU to the device, of which there are to be none but those of `sent`."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = [each for each in (*args, result) if isinstance(each, torch.Tensor)]
        tensors += [each for given in args if isinstance(given, tuple | list) for each in given if each is not None]
        devices = {each.device.type for each in tensors if isinstance(each, torch.Tensor)}
        if function.overloadpacket in COPYING and len(devices) > 1:
            self.copies.append(str(function))
        return result


COPYING = {getattr(torch.ops.aten, name) for name in ("_to_copy", "copy_", "index_put", "index_put_")}
"""Operations that copy a tensor of the CPU to the device of another; the others refuse it, or read it as a number."""


def sent(values, device, dtype=None):
    like = torch.as_tensor(values, dtype=dtype)
    return torch.zeros(like.shape, dtype=like.dtype, device=device)


@pytest.fixture
def on_meta(monkeypatch):
    """Counts of a search on the device without numbers, where `torch.tensor` makes tensors of the CPU alone."""
    counted = Counted(monkeypatch)
    for module in (search, sampling, constrained):
        monkeypatch.setattr(module, "read", counted.of_search if module is search else counted.of_words)
    for module in (search, sampling, constrained, continuations, subwords):
        monkeypatch.setattr(module, "sent", sent)
    monkeypatch.setattr(shaw, "serves", lambda *_: False)
    make = torch.tensor

    def made(values, *, device=None, **others):
        assert device is None, "torch.tensor copies to its device, and waits for that"
        return make(values, **others)

    monkeypatch.setattr(torch, "tensor", made)
    return counted


def searched(model, device, mode):
    searcher = Searcher([model], device, Workers(1), lambda: [4, 5])
    return searcher.hypotheses(parts(mode), MODES[mode])


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, mode) for name in MAIN for mode in ("greedy", "beam")] + [("relative", mode) for mode in MODES],
)
def test_a_step_reads_its_device_once_and_waits_for_nothing_else(name, mode, on_meta):
    with META:
        model = build_model(settings(**MODELS[name]), VOCABULARY, VOCABULARY).eval()
    with Sending() as sending:
        searched(model, META, mode)
    assert on_meta.reads == on_meta.steps > 3
    assert sending.copies == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("mode", MODES)
def test_a_real_gpu_is_waited_for_once_a_step(mode, monkeypatch):
    monkeypatch.setenv("POSNMT_KERNELS", "never")  # which would be compiled for these sizes alone
    gpu = torch.device("cuda", 0)
    model = build_model(settings(system="relative"), VOCABULARY, VOCABULARY).to(gpu).eval()
    searched(model, gpu, mode)  # libraries are loaded
    counted = Counted(monkeypatch)
    with warnings.catch_warnings(record=True) as waits:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            searched(model, gpu, mode)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = [str(each.message) for each in waits if "called a synchronizing" in str(each.message)]
    assert 0 < len(waits) <= counted.steps
