"""No position scheme holds a tensor of queries x keys x width of a head, in the forward or the backward pass."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from posnmt.config.systems import SYSTEMS
from posnmt.model.registry import architecture
from posnmt.model.transformer import Transformer
from posnmt_position.seam import LayerPosition, LayerPositions
from tests.support.tiny import build, settings, tokens

LENGTH = 128
HEADS = 2
TRANSFORMERS = [
    system for system in SYSTEMS if issubclass(architecture(settings(system=system).architecture), Transformer)
]


class Allocations(TorchDispatchMode):
    """Elements in the memory of every tensor that an operation gives: a view counts as what it looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: Counter[int] = Counter()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        given = function(*arguments, **(options or {}))
        for each in given if isinstance(given, tuple | list) else (given,):
            if isinstance(each, torch.Tensor):
                self.sizes[each.untyped_storage().nbytes() // each.element_size()] += 1
        return given


class Naive(LayerPosition):
    """Shaw's key term as its equation stands there: a vector for each query and key, [Tq,Tk,D]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.zeros(33, width, dtype=torch.float64))

    def logits(self, q, k, span):
        return torch.einsum("bhid,ijd->bhij", q, self.keys[span.offsets.clamp(-16, 16) + 16])


def quadratic(model: Transformer) -> set[int]:
    """Sizes, in elements, of at least LENGTH x LENGTH in a forward and a backward pass over one long pair."""
    source, target = tokens(1, LENGTH), tokens(1, LENGTH, seed=1)
    model.train()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # what other threads allocate is not seen
    try:
        with Allocations() as seen:
            model(source, torch.tensor([LENGTH]), target).sum().backward()
    finally:
        torch.set_num_threads(threads)
    assert seen.sizes, "nothing was seen"
    return {size for size in seen.sizes if size >= LENGTH * LENGTH}


def system_of_width(width: int, **model) -> Transformer:
    """A model with one layer a side and heads that are so wide."""
    sides = {"encoder": {"layers": 1}, "decoder": {"layers": 1}}
    made = build(heads=HEADS, d_model=HEADS * width, feed_forward=2 * width, **sides, **model)
    assert isinstance(made, Transformer)
    return made


@pytest.mark.parametrize("system", TRANSFORMERS)
def test_what_grows_with_the_square_of_the_length_does_not_grow_with_the_width(system):
    assert quadratic(system_of_width(8, system=system)) == quadratic(system_of_width(16, system=system))


def test_a_tensor_of_queries_keys_and_width_is_found():
    found = []
    for width in (8, 16):
        model = system_of_width(width, system="none")
        model.encoder_views = [LayerPositions([Naive(width)])]
        found.append(quadratic(model))
    assert max(found[1]) == 2 * max(found[0])
