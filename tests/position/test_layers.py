"""A scheme in some of the layers of a stack: `layers: [0, 1]` beside its name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.config.schema import Positions, SchemeChoice
from posnmt.model.at_inference import change_positions
from posnmt.model.positions import SCHEMES, scheme_class
from posnmt.run.resolve import load
from posnmt.training.continued import _place
from posnmt_position import PositionError, Scheme, Span, Stack, create
from posnmt_position.plain import PlainTransformer
from posnmt_position.testing import CHECKS, VOCABULARY
from tests.support.tiny import build, tokens

STACK = Stack(d_model=16, heads=4, layers=3, causal=False, max_length=64)


class Mixed:
    """rope in layers 0 and 1 of both sides, relative in layer 2, in the plain Transformer."""

    stack = STACK

    def build(self, seed=0):
        torch.manual_seed(seed)
        stacks = [replace(STACK, causal=causal) for causal in (False, True)]
        schemes = [
            [create("rope", stack, layers=[0, 1]), create("relative", stack, layers=[2], distance=3)]
            for stack in stacks
        ]
        return PlainTransformer(*stacks, *schemes, VOCABULARY).double().eval()

    def views(self, model):
        return [*model.encoder.views, *model.decoder.views]


@pytest.mark.parametrize("check", CHECKS)
def test_a_mix_in_the_plain_transformer(check):
    """In posnmt's own, test_every_model has it."""
    CHECKS[check](Mixed())


@pytest.mark.parametrize("placed", [[0], [2], [1, 0], [0, 1, 2]])
@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_has_the_views_and_weights_of_its_layers(name, placed):
    stack = replace(STACK, causal=name == "xpos")
    if scheme_class(name).embed is not Scheme.embed:
        with pytest.raises(PositionError, match="changes the embeddings"):
            create(name, stack, layers=placed)
        return
    scheme = create(name, stack, layers=placed)
    assert [scheme.view_in(layer) is not None for layer in range(3)] == [layer in placed for layer in range(3)]
    alone = create(name, replace(stack, layers=len(placed)))
    assert [weight.shape for weight in scheme.parameters()] == [weight.shape for weight in alone.parameters()]


def test_layers_without_the_scheme_are_those_of_a_model_without():
    """Each layer of the mix is the layer of the model that has the scheme everywhere, with the same weights."""
    part = {"layers": 3, "position": [{"scheme": "rope", "layers": [1]}]}
    mixed = build(encoder=part, decoder={"layers": 1})
    everywhere, nowhere = (
        build(encoder={"layers": 3, "position": position}, decoder={"layers": 1})
        for position in ([{"scheme": "rope"}], [])
    )
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    span = Span(0, 5, x.device)
    for index, other in ((0, nowhere), (1, everywhere), (2, nowhere)):
        got, want = (model.encoder[index](x, model.encoder_views[index], span, None) for model in (mixed, other))
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_a_list_of_all_layers_is_no_list():
    part = [{"layers": 2, "position": [{"scheme": "relative", **extra}]} for extra in ({}, {"layers": [1, 0]})]
    plain, listed = (build(encoder=each, decoder={"layers": 1}) for each in part)
    source, target = tokens(2, 6), tokens(2, 4, seed=1)
    assert torch.equal(plain(source, None, target), listed(source, None, target))


CONFIG = """\
data: {train: {source: a, target: b}}
model:
  d_model: 16
  heads: 4
  feed_forward: 24
  encoder:
    layers: 3
    position:
      - SCHEMES
train: {steps: 1, dev_bleu: false}
"""


@pytest.mark.parametrize(
    ("schemes", "line", "sentence"),
    [
        (["{scheme: rope, layers: [3]}"], 9, "rope.layers: there is no layer 3; the stack has layers 0 to 2"),
        (["{scheme: rope, layers: [-1]}"], 9, "rope.layers: there is no layer -1; the stack has layers 0 to 2"),
        (["{scheme: rope, layers: [true]}"], 9, "rope.layers: there is no layer True; the stack"),
        (["{scheme: rope, layers: [1, 1]}"], 9, "rope.layers: layer 1 is listed twice"),
        (["{scheme: rope, layers: []}"], 9, "rope.layers: the list is empty"),
        (["{scheme: sinusoidal, layers: [0]}"], 9, "sinusoidal.layers: it changes the embeddings, which all"),
        (["{scheme: rope, layers: [0]}", "{scheme: rope, layers: [0, 1]}"], 8, "rope is listed twice for layer 0"),
        (["{scheme: rope}", "{scheme: rope, layers: [0]}"], 8, "rope is listed twice for layer 0"),
        (
            ["{scheme: rope, layers: [0, 1]}", "{scheme: transformer-xl, layers: [1, 2]}"], 10,
            "rope cannot stand beside transformer-xl in layer 1",
        ),
    ],
)  # fmt: skip
def test_faults_with_their_line(schemes, line, sentence, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.replace("SCHEMES", "\n      - ".join(schemes)))
    with pytest.raises(UserError) as refused:
        load(path)
    assert sentence in str(refused.value)
    assert f"{path.name}:{line}" in str(refused.value)


def test_two_rotations_in_different_layers_and_a_name_twice(tmp_path):
    path = tmp_path / "config.yaml"
    schemes = [
        "{scheme: rope, layers: [0]}",
        "{scheme: transformer-xl, layers: [1]}",
        "{scheme: rope, layers: [2], base: 99}",
    ]
    path.write_text(CONFIG.replace("SCHEMES", "\n      - ".join(schemes)))
    assert [choice.options for choice in load(path).model.encoder.position] == [
        {"layers": [0]}, {"layers": [1]}, {"layers": [2], "base": 99},
    ]  # fmt: skip


def test_layers_as_a_number_are_the_option_of_recurrent():
    assert create("recurrent", STACK, layers=2).placed is None
    with pytest.raises(PositionError, match="changes the embeddings"):
        create("recurrent", STACK, layers=[0, 1])


def test_a_training_continues_with_the_scheme_of_the_same_layers():
    made = [SchemeChoice.model_validate({"scheme": "relative", **more}) for more in (
        {"layers": [0], "distance": 4}, {"layers": [2, 1], "distance": 4}, {"layers": [0], "distance": 5}, {},
    )]  # fmt: skip
    wanted = [{"layers": [1, 2], "distance": 4}, {"layers": [0], "distance": 5}, {}, {"layers": [1], "distance": 4}]
    places = [_place(SchemeChoice.model_validate({"scheme": "relative", **each}), made) for each in wanted]
    assert places == [1, 2, 3, None]


@pytest.mark.parametrize("layers", [[0], [1]])
def test_frequencies_change_where_a_rotation_is_in_any_layer(layers, tmp_path):
    model = build(decoder={"layers": 1}, encoder={"layers": 2, "position": [{"scheme": "rope", "layers": layers}]})
    source, target = tokens(1, 9), tokens(1, 3, seed=1)
    before = model(source, None, target)
    change_positions(model, Positions(yarn=4.0), (5, 5), tmp_path)
    assert (model(source, None, target) - before).abs().max() > 1e-6
