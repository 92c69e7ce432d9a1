"""Recurrent schemes against loops over the words of each sentence, written from the papers, in float64."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt_position.recurrent.cells import Recurrence
from posnmt_position.recurrent.heads import RecurrentHeads, recurrent_width
from posnmt_position.recurrent.scheme import Recurrent
from posnmt_position.recurrent.sru import SimpleRecurrentUnit
from posnmt_position.seam import Span, Stack
from tests.support.loops import elman, gru, lstm, same_with_gradients, weights_of
from tests.support.tiny import build, config, decoder, encoder, tokens

ENCODER = Stack(d_model=12, heads=3, layers=1, causal=False, max_length=32)
DECODER = Stack(d_model=12, heads=3, layers=1, causal=True, max_length=32)
LENGTHS = torch.tensor([5, 2, 4])


def sru(network, x, state):
    """Lei et al. 2018, eq. 1-4, one word at a time."""
    (c,) = state
    new, forget, reset, *highway = (network.project.weight @ x).chunk(len(network.project.weight) // len(c))
    v_f, v_r = network.peephole
    b_f, b_r = network.bias
    f = torch.sigmoid(forget + v_f * c + b_f)
    r = torch.sigmoid(reset + v_r * c + b_r)
    c = f * c + (1 - f) * new
    return r * c + (1 - r) * (highway[0] if highway else x), (c,)


def of_pytorch(cell):
    """A step of a cell whose output is the first part of its state."""

    def step(network, x, state):
        new = cell(weights_of(network, "_l0"), x, *state)
        return (new[0], new) if isinstance(new, tuple) else (new, (new,))

    return step


STEPS = {"gru": of_pytorch(gru), "lstm": of_pytorch(lstm), "elman": of_pytorch(elman), "sru": sru}


def run(cell, network, words, width):
    """States after each of the words [n,i], from zero."""
    state = (torch.zeros(width, dtype=torch.float64),) * (2 if cell == "lstm" else 1)
    states = []
    for word in words:
        h, state = STEPS[cell](network, word, state)
        states.append(h)
    return torch.stack(states)


def layer_by_loops(cell, layer, row, width):
    """One row without padding [n,i] -> [n,d]."""
    if layer.backward_network is None:
        return run(cell, layer.forward_network, row, width)
    backward = run(cell, layer.backward_network, row.flip(0), width // 2).flip(0)
    return torch.cat([run(cell, layer.forward_network, row, width // 2), backward], dim=-1)


def projected(states, linear):
    """`W s + b` for each state [n,w], one feature at a time."""
    return torch.stack(
        [torch.stack([w @ s + b for w, b in zip(linear.weight, linear.bias, strict=True)]) for s in states]
    )


def real(batch):
    """The real tokens of padded rows [B,T,d], one after the other."""
    return torch.cat([row[:length] for row, length in zip(batch, LENGTHS.tolist(), strict=True)])


@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", STEPS)
def test_states_in_place_of_positions(cell, bidirectional, layers):
    """N19 eq. 8-9, R19 section 3.3: the word embeddings become the states; right-padding changes nothing."""
    torch.manual_seed(2)
    settings = Recurrent.Settings(cell=cell, bidirectional=bidirectional, layers=layers)
    scheme = Recurrent(ENCODER, settings).double()
    x = torch.randn(3, 5, 12, dtype=torch.float64, requires_grad=True)
    got, _ = scheme.embed(x, Span(0, 5, x.device, LENGTHS), None)
    rows = []
    for row, length in zip(x, LENGTHS.tolist(), strict=True):
        states = row[:length]
        for index, layer in enumerate(scheme.networks):
            above = layer_by_loops(cell, layer, states, 12)
            states = states + above if index >= 2 else above  # Chen M. et al. 2018
        rows.append(states)
    same_with_gradients(real(got), torch.cat(rows), [x, *scheme.parameters()])


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize(
    ("bidirectional", "width", "states"), [(True, "full", 24), (True, 5, 10), (False, 20, 20)], ids=str
)
@pytest.mark.parametrize("cell", STEPS)
def test_states_of_another_width_are_mapped_to_the_width_of_the_stack(cell, bidirectional, width, states, layers):
    """N19's published code: a GRU of d cells in each direction, then a linear map 2d -> d."""
    torch.manual_seed(2)
    settings = Recurrent.Settings(cell=cell, bidirectional=bidirectional, width=width, layers=layers)
    scheme = Recurrent(ENCODER, settings).double()
    for linear in scheme.projections:
        torch.nn.init.normal_(linear.bias)
    x = torch.randn(3, 5, 12, dtype=torch.float64, requires_grad=True)
    got, _ = scheme.embed(x, Span(0, 5, x.device, LENGTHS), None)
    rows = []
    for row, length in zip(x, LENGTHS.tolist(), strict=True):
        below = row[:length]
        for index, (layer, linear) in enumerate(zip(scheme.networks, scheme.projections, strict=True)):
            above = projected(layer_by_loops(cell, layer, below, states), linear)
            below = below + above if index >= 2 else above
        rows.append(below)
    same_with_gradients(real(got), torch.cat(rows), [x, *scheme.parameters()])


def test_no_map_follows_states_that_are_as_wide_as_the_stack():
    for options in ({"width": "full"}, {"width": 12}, {"bidirectional": True, "width": 6}):
        plain = Recurrent(ENCODER, Recurrent.Settings(bidirectional=options.get("bidirectional", False)))
        same = Recurrent(ENCODER, Recurrent.Settings(**options))
        assert {name: weight.shape for name, weight in same.named_parameters()} == {
            name: weight.shape for name, weight in plain.named_parameters()
        }


@pytest.mark.parametrize("width", [None, 7])
@pytest.mark.parametrize("cell", STEPS)
def test_a_recurrence_goes_on_where_it_stopped(cell, width):
    torch.manual_seed(2)
    scheme = Recurrent(DECODER, Recurrent.Settings(cell=cell, layers=2, width=width)).double()
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    whole, _ = scheme.embed(x, Span(0, 6, x.device), None)
    first, carry = scheme.embed(x[:, :2], Span(0, 2, x.device), None)
    then, _ = scheme.embed(x[:, 2:], Span(2, 4, x.device), carry)
    torch.testing.assert_close(torch.cat([first, then], dim=1), whole, rtol=0, atol=1e-12)


def test_sru_of_another_width_has_a_projected_highway():
    torch.manual_seed(4)
    network = SimpleRecurrentUnit(5, 3).double()
    x = torch.randn(1, 4, 5, dtype=torch.float64, requires_grad=True)
    got, _ = network(x, None)
    same_with_gradients(got[0], run("sru", network, x[0], 3), [x, *network.parameters()])


@pytest.mark.parametrize("stack", [ENCODER, DECODER], ids=["encoder", "decoder"])
@pytest.mark.parametrize("cell", STEPS)
@pytest.mark.parametrize(("layout", "width"), [("rpe", 8), ("mpr", 6)])
def test_recurrent_heads_are_c19b(layout, width, cell, stack):
    """C19b eq. 1-2, 6, 9-10, word by word."""
    torch.manual_seed(5)
    scheme = RecurrentHeads(stack, RecurrentHeads.Settings(layout=layout, width=width, cell=cell)).double()
    x = torch.randn(3, 5, 12, dtype=torch.float64, requires_grad=True)
    got, _ = scheme.embed(x, Span(0, 5, x.device, LENGTHS), None)
    rows, placed = [], 12 - width
    for row, length in zip(x, LENGTHS.tolist(), strict=True):
        states = layer_by_loops(cell, scheme.network, row[:length, placed:], width)
        for j in range(length):
            pe = [(math.sin if i % 2 == 0 else math.cos)(j / 10000 ** (2 * (i // 2) / placed)) for i in range(placed)]
            p = row[j, :placed] + torch.tensor(pe, dtype=torch.float64)
            r = torch.tanh(scheme.project.weight @ states[j] + scheme.project.bias)
            if layout == "rpe":
                rows.append(torch.cat([p, r]))
            else:
                pieces = [
                    (p[h * placed // 3 : (h + 1) * placed // 3], r[h * width // 3 : (h + 1) * width // 3])
                    for h in range(3)
                ]
                rows.append(torch.cat([part for pair in pieces for part in pair]))
    same_with_gradients(real(got), torch.stack(rows), [x, *scheme.parameters()])


def printed(scheme, cell, row, direction):
    """C19b eq. 6 as printed, in one direction: r_j = tanh(f(x_j, r_{j-1}) W_r + b_r), r_0 = 0."""
    network, linear = scheme.network.cells[direction], scheme.network.projections[direction]
    names = {f"{kind}_l0": getattr(network, kind) for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    weights = SimpleNamespace(**names)  # as a layer calls them
    r = memory = torch.zeros(len(linear.weight), dtype=torch.float64)
    outputs = []
    for word in row:
        h, state = STEPS[cell](weights, word, (r, memory) if cell == "lstm" else (r,))
        memory = state[-1]
        r = torch.stack([torch.tanh(w @ h + b) for w, b in zip(linear.weight, linear.bias, strict=True)])
        outputs.append(r)
    return torch.stack(outputs)


@pytest.mark.parametrize("stack", [ENCODER, DECODER], ids=["encoder", "decoder"])
@pytest.mark.parametrize("cell", ["elman", "gru", "lstm"])
def test_equation_6_as_printed(cell, stack):
    torch.manual_seed(5)
    scheme = RecurrentHeads(
        stack, RecurrentHeads.Settings(layout="rpe", width=8, cell=cell, feedback="output")
    ).double()
    for linear in scheme.network.projections:
        torch.nn.init.normal_(linear.bias)
    x = torch.randn(3, 5, 12, dtype=torch.float64, requires_grad=True)
    got, _ = scheme.embed(x, Span(0, 5, x.device, LENGTHS), None)
    rows = []
    for row, length in zip(x[..., 4:], LENGTHS.tolist(), strict=True):
        directions = [printed(scheme, cell, row[:length], 0)]
        if not stack.causal:
            directions.append(printed(scheme, cell, row[:length].flip(0), 1).flip(0))
        rows.append(torch.cat(directions, dim=-1))
    same_with_gradients(real(got[..., 4:]), torch.cat(rows), [x, *scheme.parameters()])


def test_what_equation_6_as_printed_adds_to_a_base_model():
    """+MPRHead and +RPEHead (C19b Table 1: + 0.37 M, + 0.49 M): the encoder has two W_r of half the width."""
    stacks = [Stack(512, 8, 6, causal, 1024) for causal in (False, True)]
    for layout, state, output in (("mpr", 361_984, 329_216), ("rpe", 565_120, 513_920)):
        for feedback, count in (("state", state), ("output", output)):
            options = RecurrentHeads.Settings(layout=layout, feedback=feedback)
            schemes = [RecurrentHeads(stack, options) for stack in stacks]
            assert sum(weight.numel() for scheme in schemes for weight in scheme.parameters()) == count


@pytest.mark.parametrize("system", ["rpe-head", "mpr-head"])
def test_a_head_of_the_first_layer_sees_its_own_slice(system):
    """Features of head h reach only head h of the first layer's attention, and every head of the second's."""
    model = build(system=system)
    span = Span(0, 4, torch.device("cpu"))
    for index, alone in ((0, True), (1, False)):
        attention, view = model.encoder[index].attention, model.encoder_views[index]
        attention.output = torch.nn.Identity()
        x = torch.randn(1, 4, 16, dtype=torch.float64)
        changed = x.clone()
        changed[..., 4:8] += 1.0  # head 1
        difference = (attention(changed, view, span, None) - attention(x, view, span, None)).abs().amax((0, 1))
        reached = [difference[4 * head : 4 * head + 4].max() > 1e-9 for head in range(4)]
        assert reached == ([False, True, False, False] if alone else [True] * 4)


def test_under_dense_projections_the_two_layouts_are_one_model():
    """C19b does not say so: a permutation of the stack's features, in all that reads or writes them, undoes it."""
    options = {"scheme": "recurrent-heads", "width": 8, "head_projection": "full"}
    rpe, mpr = (build(**encoder({**options, "layout": layout})) for layout in ("rpe", "mpr"))
    mpr.load_state_dict(rpe.state_dict())
    source = tokens(2, 6)
    assert (mpr.encode(source, None) - rpe.encode(source, None)).abs().max() > 1e-3
    # feature f of [P1 R1 ... P4 R4] stands at order[f] of [P ; R]
    order = torch.cat([torch.cat([torch.arange(2) + 2 * h, 8 + torch.arange(2) + 2 * h]) for h in range(4)])
    first, second = mpr.encoder
    with torch.no_grad():
        # heads and hidden units stay as they are
        for layer in (first, second):
            layer.attention.project.weight.copy_(layer.attention.project.weight[:, order])
            layer.attention.output.weight.copy_(layer.attention.output.weight[order])
            layer.attention.output.bias.copy_(layer.attention.output.bias[order])
            layer.feed_forward.fc1.weight.copy_(layer.feed_forward.fc1.weight[:, order])
            layer.feed_forward.fc2.weight.copy_(layer.feed_forward.fc2.weight[order])
            layer.feed_forward.fc2.bias.copy_(layer.feed_forward.fc2.bias[order])
            for norm in (layer.attention_norm, layer.feed_forward_norm):
                norm.weight.copy_(norm.weight[order])
                norm.bias.copy_(norm.bias[order])
    torch.testing.assert_close(mpr.encode(source, None), rpe.encode(source, None)[..., order], rtol=0, atol=1e-12)


def test_the_widths_of_the_paper():
    base = Stack(d_model=512, heads=8, layers=6, causal=False, max_length=1024)
    assert recurrent_width(base, RecurrentHeads.Settings(layout="rpe")) == 320
    assert recurrent_width(base, RecurrentHeads.Settings(layout="mpr")) == 256


@pytest.mark.parametrize("cell", STEPS)
@pytest.mark.parametrize("width", [None, 10])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_under_autocast_outputs_keep_the_type_of_the_embeddings(cell, bidirectional, width):
    torch.manual_seed(6)
    scheme = Recurrent(ENCODER, Recurrent.Settings(cell=cell, bidirectional=bidirectional, width=width))
    x = torch.randn(2, 4, 12, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow, _ = scheme.embed(x, Span(0, 4, x.device, torch.tensor([4, 3])), None)
    wide, _ = scheme.embed(x, Span(0, 4, x.device, torch.tensor([4, 3])), None)
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow, wide, rtol=0, atol=0.05)
    narrow.sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("stack", [ENCODER, DECODER], ids=["encoder", "decoder"])
@pytest.mark.parametrize(
    ("cell", "feedback"),
    [*((cell, "state") for cell in STEPS), ("elman", "output"), ("gru", "output"), ("lstm", "output")],
)
def test_recurrent_heads_train_and_go_on_under_autocast(cell, feedback, stack):
    torch.manual_seed(6)
    scheme = RecurrentHeads(stack, RecurrentHeads.Settings(cell=cell, feedback=feedback))
    x = torch.randn(2, 6, 12, requires_grad=True)
    wide, _ = scheme.embed(x, Span(0, 6, x.device), None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow, carry = scheme.embed(x[:, :4] if stack.causal else x, Span(0, 4 if stack.causal else 6, x.device), None)
        if stack.causal:
            then, _ = scheme.embed(x[:, 4:], Span(4, 2, x.device), carry)
            narrow = torch.cat([narrow, then], dim=1)
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow, wide, rtol=0, atol=0.05)
    narrow.square().sum().backward()
    for weight in scheme.parameters():
        assert weight.grad.dtype == torch.float32
        assert weight.grad.isfinite().all()


def test_the_backward_direction_of_a_layer_stands_in_its_second_half():
    layer = Recurrence("elman", 4, 6, bidirectional=True).double()
    x = torch.randn(1, 5, 4, dtype=torch.float64)
    changed = x.clone()
    changed[0, 4] += 1.0
    difference = (layer(changed, Span(0, 5, x.device), None)[0] - layer(x, Span(0, 5, x.device), None)[0])[0].abs()
    assert difference[:4, :3].max() == 0
    assert difference[:4, 3:].min() > 0


HEADS = {"scheme": "recurrent-heads"}


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (
            decoder({"scheme": "recurrent", "bidirectional": True}),
            "recurrent with bidirectional: true reads words to the right, so it cannot serve the decoder",
        ),
        (
            {**encoder({"scheme": "recurrent", "bidirectional": True}), "d_model": 15, "heads": 3},
            "recurrent with bidirectional: true needs an even d_model, half for each; 15 is odd",
        ),
        (
            encoder({"scheme": "recurrent", "width": "wide"}),
            "recurrent.width: Input should be 'full' or a valid integer, got 'wide'",
        ),
        (
            encoder({**HEADS, "layout": "rpe", "width": 6}),
            "recurrent-heads in layout rpe needs a width that is a multiple of 4, the width of a head; got 6",
        ),
        (
            encoder({**HEADS, "cell": "sru", "feedback": "output"}),
            "recurrent-heads cannot feed the output of sru back: it reads no hidden state; leave feedback: output out",
        ),
        (
            encoder({**HEADS, "width": 6}),
            "recurrent-heads in layout mpr needs a width that 4 heads share evenly; got 6",
        ),
        (
            encoder({**HEADS, "width": 16}),
            "needs a width between 0 and d_model = 16, exclusive; got 16",
        ),
        (
            {**encoder({**HEADS, "width": 5}), "d_model": 15, "heads": 5},
            "recurrent-heads needs an even width in the encoder, half for each direction; 5 is odd",
        ),
        (
            {**decoder({**HEADS, "width": 10}), "d_model": 15, "heads": 5},
            r"needs an even d_model - width for the sinusoids; 15 - 10 = 5 is odd",
        ),
        (
            encoder({"scheme": "sinusoidal"}, HEADS),
            "recurrent-heads cannot stand beside sinusoidal in one stack; choose one of them",
        ),
        (
            decoder({"scheme": "cape"}, HEADS),
            "recurrent-heads cannot stand beside cape in one stack; choose one of them",
        ),
        (
            decoder({"scheme": "recurrent"}, HEADS),
            "recurrent cannot stand beside recurrent-heads in one stack; choose one of them",
        ),
    ],
)  # fmt: skip
def test_refusals(part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(**part)
