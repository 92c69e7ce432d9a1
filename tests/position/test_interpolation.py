"""`--interpolate` divides every absolute position of a model, at its input and inside its layers."""

from __future__ import annotations

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.config.schema import SchemeChoice
from posnmt.model.ordered import OrderedTranslator
from posnmt.model.positions import SCHEMES, build, scheme_class
from posnmt_position import absolute
from posnmt_position.absolute import Sinusoidal
from posnmt_position.rotary import Rope
from posnmt_position.seam import Stack
from tests.support.tiny import MODELS, both, config, tokens
from tests.support.tiny import build as build_model


def has_sinusoids(model):
    """Whether a model adds sinusoids of positions, and nothing else that is interpolated; asked of its parts."""
    parts = list(model.modules())
    rotary = any(isinstance(part, Rope) for part in parts)  # its angles are divided too
    return isinstance(model, OrderedTranslator) and any(isinstance(part, Sinusoidal) for part in parts) and not rotary


def test_every_sinusoid_of_a_model_is_of_a_divided_position(monkeypatch):
    """As if the function of the paper were given positions divided by 2, wherever a model takes it."""
    source, target, asked = tokens(2, 9), tokens(2, 7, seed=1), set()
    sinusoids = absolute.sinusoids
    for name in MODELS:
        model = build_model(**MODELS[name])
        if not has_sinusoids(model):
            continue
        asked.add(name)
        before = model(source, None, target)
        with monkeypatch.context() as patch:
            patch.setattr(absolute, "sinusoids", lambda positions, width: sinusoids(positions / 2.0, width))
            want = build_model(**MODELS[name])(source, None, target)
        assert model.interpolate(2.0), name
        got = model(source, None, target)
        assert (got - before).abs().max() > 1e-5, name
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}")
    assert {"transformer", "additional-pe", "re-encoder", "re-both", "rpe-head", "mpr-head", "shape", "dtmt"} <= asked


STACKS = {causal: Stack(d_model=16, heads=4, layers=2, causal=causal, max_length=32) for causal in (False, True)}


def serves(name, causal):
    kind = scheme_class(name)
    return not kind.refuses(STACKS[causal], kind.Settings())


@pytest.mark.parametrize(
    ("name", "causal"), [(name, causal) for name in SCHEMES for causal in STACKS if serves(name, causal)]
)
def test_a_scheme_that_holds_sinusoids_divides_all_of_them(name, causal):
    """Over the registry, so that a scheme of tomorrow is asked as well."""
    scheme = build(SchemeChoice(scheme=name), STACKS[causal])
    holders = [part for part in scheme.modules() if isinstance(part, Sinusoidal)]
    plain = [part.factor for part in holders]
    known = scheme.interpolate(4.0)
    assert [part.factor for part in holders] == [4.0 * factor for factor in plain]
    assert known or not holders


def test_beside_distances_the_positions_are_divided_and_the_distances_stay():
    model = build_model(system="relative+absolute")
    views = [view.biasing[0].keys.clone() for view in model.encoder_views]
    assert model.interpolate(2.0)
    assert [scheme.factor for scheme in model.source.position_schemes() if isinstance(scheme, Sinusoidal)] == [2.0]
    assert all(torch.equal(view.biasing[0].keys, keys) for view, keys in zip(model.encoder_views, views, strict=True))


def test_additional_positions_alone_can_be_divided():
    model = build_model(**both({"scheme": "additional"}))
    assert model.interpolate(2.0)
    with pytest.raises(UserError, match="additional has no option 'factor'"):
        config(**both({"scheme": "additional", "factor": 2}))
