"""SRU in place of the feed-forward layers, against loops over words, in float64; and the sizes in its paper."""

from __future__ import annotations

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.architectures.sru import RecurrentFeedForward
from posnmt.model.registry import count_parameters
from posnmt.model.state import LayerCache
from posnmt.run.resolve import from_tree
from posnmt_position.seam import Span
from tests.support.loops import same_with_gradients
from tests.support.tiny import build, config

LENGTHS = [5, 3]


def run(unit, words):
    """Lei et al. 2018, eq. 1-3, and h_t = r_t c_t: there is no highway term between different widths."""
    c = torch.zeros(unit.bias.shape[1], dtype=torch.float64)
    states = []
    for x in words:
        new, forget, reset = (unit.project.weight @ x).chunk(3)
        f = torch.sigmoid(forget + unit.peephole[0] * c + unit.bias[0])
        r = torch.sigmoid(reset + unit.peephole[1] * c + unit.bias[1])
        c = f * c + (1 - f) * new
        states.append(r * c)
    return torch.stack(states)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_layer_is_that_of_the_paper(bidirectional):
    torch.manual_seed(1)
    layer = RecurrentFeedForward(6, 8, 0.0, bidirectional).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    got = layer(x, Span(0, 5, x.device, torch.tensor(LENGTHS)))
    ours, theirs = [], []
    for row, output, length in zip(x, got, LENGTHS, strict=True):
        states = run(layer.recurrence.forward_network, row[:length])
        if bidirectional:
            backward = run(layer.recurrence.backward_network, row[:length].flip(0)).flip(0)
            states = torch.cat([states, backward], dim=-1)
        ours.append(output[:length])
        theirs.append(states @ layer.fc2.weight.T + layer.fc2.bias)
    one, other = torch.cat(ours), torch.cat(theirs)
    same_with_gradients(one, other, [x, *layer.parameters()])


def test_the_state_lives_in_the_cache_of_the_layer():
    torch.manual_seed(1)
    layer, x, cache = RecurrentFeedForward(6, 8, 0.0, False).double(), torch.randn(2, 4, 6).double(), LayerCache()
    whole = layer(x, Span(0, 4, x.device))
    steps = [layer(x[:, [place]], Span(place, 1, x.device), cache) for place in range(4)]
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, rtol=0, atol=1e-12)
    cache.select(torch.tensor([1]))
    assert cache.feed_forward.shape == (1, 8)


def test_every_layer_of_the_system_is_recurrent_and_forward_in_the_decoder():
    model = build(system="sru")
    assert all(layer.feed_forward.recurrence.backward_network is not None for layer in model.encoder)
    assert all(layer.feed_forward.recurrence.backward_network is None for layer in model.decoder)


def test_sizes_of_the_published_table():
    """76 M parameters for the plain 6 layers, 79 M for 4 and 90 M for 5 recurrent ones: differences to the rounding."""

    def millions(system, layers):
        sides = {side: {"layers": layers} for side in ("encoder", "decoder")}
        tree = {"data": {"train": {"source": "a", "target": "b"}}, "model": {"system": system, **sides}}
        model = from_tree({**tree, "train": {"steps": 1, "dev_bleu": False}}).model
        return count_parameters(model, 20_000, 20_000) / 1e6

    plain = millions("transformer", 6)
    assert millions("sru", 4) - plain == pytest.approx(79 - 76, abs=1)
    assert millions("sru", 5) - plain == pytest.approx(90 - 76, abs=1)


def test_refusals():
    with pytest.raises(
        UserError, match=r"model.feed_forward: sru needs an even feed_forward, half for each direction; 25"
    ):
        config(system="sru", feed_forward=25)
    with pytest.raises(
        UserError, match=r"model.options: sru has no option 'bidirectionl'; did you mean 'bidirectional'"
    ):
        config(system="sru", options={"bidirectionl": True})
