"""SRU with copied weights against the package of its authors, which compiles a part of itself when it is imported."""

from __future__ import annotations

import pytest
import torch

from posnmt_position.recurrent.cells import Recurrence
from posnmt_position.recurrent.sru import SimpleRecurrentUnit
from posnmt_position.seam import Span

peer = pytest.importorskip("sru", reason="sru is not installed: pip install sru==2.6.0, beside a C++ compiler")
pytestmark = pytest.mark.filterwarnings("ignore:Running SRU on CPU with grad_enabled")

LENGTHS = torch.tensor([7, 3, 5])


def alike(theirs, *directions):
    """Give the authors' cell our weights: theirs stand as [i, directions, d, matrices] and [2, directions, d]."""
    with torch.no_grad():
        blocks = [unit.project.weight.unflatten(0, (-1, unit.bias.shape[1])).permute(2, 1, 0) for unit in directions]
        theirs.weight.copy_(torch.stack(blocks, dim=1).flatten(1))
        theirs.weight_c.copy_(torch.stack([unit.peephole for unit in directions], dim=1).flatten())
        theirs.bias.copy_(torch.stack([unit.bias for unit in directions], dim=1).flatten())
    return theirs.double()


def with_random_biases(module):
    """Biases begin at 0, where one that is read twice or never is not seen."""
    for name, weight in module.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    return module.double()


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize(("width_in", "highway"), [(6, True), (5, True), (6, False), (5, False)])
def test_one_direction(width_in, highway, start):
    torch.manual_seed(0)
    ours = with_random_biases(SimpleRecurrentUnit(width_in, 6, highway))
    theirs = alike(peer.SRUCell(width_in, 6, rescale=False, has_skip_term=highway).double(), ours)
    x = torch.randn(3, 7, width_in, dtype=torch.float64, requires_grad=True)
    before = torch.randn(1, 3, 6, dtype=torch.float64) if start else None
    got, last = ours(x, before)
    want, c = theirs(x.transpose(0, 1), before[0] if start else None)
    torch.testing.assert_close(got, want.transpose(0, 1), rtol=0, atol=1e-12)
    torch.testing.assert_close(last[0], c, rtol=0, atol=1e-12)
    upstream = torch.randn_like(got)
    [one] = torch.autograd.grad(got, [x], upstream)
    [other] = torch.autograd.grad(want, [x], upstream.transpose(0, 1))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-11)


@pytest.mark.parametrize("highway", [True, False])
def test_both_directions_over_padded_rows(highway):
    """Of another width than the input: where the two are equal, the authors' highway takes halves of the input."""
    torch.manual_seed(0)
    ours = with_random_biases(Recurrence("sru", 5, 6, bidirectional=True, highway=highway))
    theirs = peer.SRUCell(5, 3, bidirectional=True, rescale=False, has_skip_term=highway).double()
    alike(theirs, ours.forward_network, ours.backward_network)
    x = torch.randn(3, 7, 5, dtype=torch.float64)
    got, _ = ours(x, Span(0, 7, x.device, LENGTHS), None)
    padding = torch.arange(7)[:, None] >= LENGTHS  # [T,B]
    want, _ = theirs(x.transpose(0, 1), None, padding)
    real = ~padding.T
    torch.testing.assert_close(got[real], want.transpose(0, 1)[real], rtol=0, atol=1e-12)
