"""How the matrices of a Transformer's sub-layers start: `model.init`."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from posnmt.base.errors import UserError
from posnmt.model.attention import SelfAttention
from posnmt.model.registry import build_model
from tests.support.tiny import VOCABULARY, both, config, settings, tokens

WIDE = {"d_model": 64, "feed_forward": 256, "encoder": {"layers": 2}, "decoder": {"layers": 3}}
WAYS = ("xavier", "pytorch", "fairseq", "small-output", "depth-scaled", "deepnorm")


def drawn(init, seed=0, **model):
    torch.manual_seed(seed)
    return build_model(settings(init=init, **{**WIDE, **model}), VOCABULARY, VOCABULARY)


def matrices(model):
    """(stack, kind, weight, bias) of each matrix of the sub-layers; input is queries or keys."""
    for stack in ("encoder", "decoder"):
        for layer in getattr(model, stack):
            fused = [(layer.attention.project, 3)]
            outputs = [layer.attention.output]
            if stack == "decoder":
                fused += [(layer.cross.query, 1), (layer.cross.memory, 2)]
                outputs.append(layer.cross.output)
            for linear, count in fused:
                kinds = {1: ["input"], 2: ["input", "value"], 3: ["input", "input", "value"]}[count]
                for kind, weight, bias in zip(kinds, linear.weight.chunk(count), linear.bias.chunk(count), strict=True):
                    yield stack, kind, weight, bias
            for linear in outputs:
                yield stack, "output", linear.weight, linear.bias
            yield stack, "inner", layer.feed_forward.fc1.weight, layer.feed_forward.fc1.bias
            yield stack, "fall", layer.feed_forward.fc2.weight, layer.feed_forward.fc2.bias


def xavier(gain, d_in, d_out):
    return gain * math.sqrt(2 / (d_in + d_out))


def uniform(d_in):
    """The deviation of a uniform distribution that ends at 1/sqrt(d_in)."""
    return 1 / math.sqrt(3 * d_in)


D, F = 64, 256
HALF = math.sqrt(0.5)
EXPECTED = {  # the deviation of each matrix, and which biases are not 0
    "xavier": (
        {"input": xavier(1, D, D), "output": xavier(1, D, D), "inner": xavier(1, D, F), "fall": xavier(1, F, D)},
        (),
    ),
    "pytorch": (
        {"input": uniform(D), "output": uniform(D), "inner": uniform(D), "fall": uniform(F)},
        ("input", "output", "inner", "fall"),
    ),
    "fairseq": (
        {"input": xavier(HALF, D, D), "output": xavier(1, D, D), "inner": uniform(D), "fall": uniform(F)},
        ("input", "inner", "fall"),
    ),
    "small-output": (
        {
            "input": xavier(HALF, D, D),
            "output": xavier(0.5, D, D),
            "inner": xavier(1, D, F),
            "fall": xavier(0.5, F, D),
        },
        (),
    ),
    "deepnorm": (
        {
            "input": xavier(1, D, D),
            **{
                f"{stack} {kind}": xavier(beta, *shape)
                for stack, beta in (("encoder", 0.87 * (2**4 * 3) ** (-1 / 16)), ("decoder", (12 * 3) ** -0.25))
                for kind, shape in {"value": (D, D), "output": (D, D), "inner": (D, F), "fall": (F, D)}.items()
            },
        },
        (),
    ),
    "depth-scaled": (
        {
            "input": xavier(HALF, D, D),
            "encoder output": xavier(1 / math.sqrt(2 * 2), D, D),
            "decoder output": xavier(1 / math.sqrt(3 * 3), D, D),
            "inner": xavier(1, D, F),
            "encoder fall": xavier(1 / math.sqrt(2 * 2), F, D),
            "decoder fall": xavier(1 / math.sqrt(3 * 3), F, D),
        },
        (),
    ),
}


@pytest.mark.parametrize("init", WAYS)
def test_deviations_of_every_matrix(init):
    deviations, with_bias = EXPECTED[init]
    for stack, kind, weight, bias in matrices(drawn(init)):
        fallback = deviations.get("input" if kind == "value" else kind)
        want = deviations.get(f"{stack} {kind}", fallback)
        assert weight.std().item() == pytest.approx(want, rel=0.03)
        assert weight.abs().max().item() == pytest.approx(math.sqrt(3) * want, rel=0.01)  # uniform
        if kind in with_bias or (kind == "value" and "input" in with_bias):
            assert bias.abs().max().item() == pytest.approx(1 / math.sqrt(weight.shape[1]), rel=0.2)
            assert bias.abs().max() <= 1 / math.sqrt(weight.shape[1])
        else:
            assert not bias.any()


@pytest.mark.parametrize("init", WAYS)
@pytest.mark.parametrize("scheme", ["reordering", "relative", "recurrent"])
def test_one_seed_draws_the_same_other_weights_under_every_scheme(init, scheme):
    bare = dict(drawn(init, **both()).named_parameters())
    chosen = dict(drawn(init, **both({"scheme": scheme})).named_parameters())
    assert set(bare) < set(chosen)
    assert all(torch.equal(chosen[name], weight) for name, weight in bare.items())


@pytest.mark.parametrize("scheme", ["relative", "t5-bias", "fire"])
def test_one_seed_draws_the_same_other_weights_with_schemes_in_attention_to_the_source(scheme):
    sides = both({"scheme": "relative"})
    crossing = {**sides, "decoder": {**sides["decoder"], "cross": [{"scheme": scheme}]}}
    without, chosen = (dict(drawn("xavier", **each).named_parameters()) for each in (sides, crossing))
    assert set(without) < set(chosen)
    assert all(torch.equal(chosen[name], weight) for name, weight in without.items())


@pytest.mark.parametrize("init", WAYS[1:])
def test_one_seed_draws_the_same_numbers_with_other_bounds(init):
    """So two ways differ in nothing but the scale of the matrices (and biases where they have them)."""
    default, other = drawn("xavier"), drawn(init)
    ratios = set()
    for (*_, weight, _), (*_, changed, _) in zip(matrices(default), matrices(other), strict=True):
        ratio = (changed.norm() / weight.norm()).item()
        torch.testing.assert_close(changed, weight * ratio, rtol=1e-5, atol=1e-7)
        ratios.add(round(ratio, 3))
    assert ratios != {1.0}
    for name in ("source.table", "target.table", "output"):
        assert torch.equal(default.get_submodule(name).weight, other.get_submodule(name).weight)


def test_xavier_draws_what_it_always_drew():
    torch.manual_seed(4)
    project, output = nn.Linear(16, 48), nn.Linear(16, 16)
    for matrix in (*project.weight.data.chunk(3), output.weight.data):
        nn.init.xavier_uniform_(matrix)
    torch.manual_seed(4)
    attention = SelfAttention(16, 4, 0.0, causal=False)
    assert torch.equal(attention.project.weight, project.weight)
    assert torch.equal(attention.output.weight, output.weight)
    assert not attention.project.bias.any()


def test_the_recurrent_feed_forward_layer_has_a_scaled_output():
    default, small = (
        drawn(init, system="sru", options={"bidirectional": False}) for init in ("xavier", "small-output")
    )
    for one, other in zip(default.encoder, small.encoder, strict=True):
        torch.testing.assert_close(other.feed_forward.fc2.weight, one.feed_forward.fc2.weight / 2)
        for weight, same in zip(
            one.feed_forward.recurrence.parameters(), other.feed_forward.recurrence.parameters(), strict=True
        ):
            assert torch.equal(weight, same)


def test_a_start_changes_weights_and_nothing_else():
    """With the same weights, models of all ways are one function."""
    model = drawn("xavier").double().eval()
    source, target = tokens(2, 6), tokens(2, 5, seed=1)
    for init in WAYS[1:]:
        other = drawn(init).double().eval()
        assert not torch.allclose(other(source, None, target), model(source, None, target), atol=0.01)
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(source, None, target), model(source, None, target))


@pytest.mark.parametrize("system", ["rnn-nmt", "rnnsearch+distortion", "convs2s", "dtmt"])
def test_a_start_without_a_place_is_refused(system):
    with pytest.raises(
        UserError, match=r"model.init: .* has no Transformer layers to initialise; leave it out, got fair"
    ):
        config(system=system, init="fairseq")


def test_an_unknown_start_is_refused():
    with pytest.raises(UserError, match=r"model.init: input should be 'xavier', 'pytorch', 'fairseq', 'small-output'"):
        config(init="glorot")
