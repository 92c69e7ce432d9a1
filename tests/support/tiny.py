"""Small models and configurations that several tests use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch

from posnmt.config.schema import Config, Model, SchemeChoice
from posnmt.config.systems import SYSTEMS
from posnmt.model.base import TranslationModel, stacks
from posnmt.model.positions import SCHEMES, check, scheme_class
from posnmt.model.registry import architecture, build_model
from posnmt.run.resolve import from_tree
from posnmt.testing import VOCABULARY, Subject, tokens
from posnmt_position.registry import split
from tests.support.covering import covering

__all__ = ["VOCABULARY", "tokens"]


def both(*schemes: dict[str, Any]) -> dict[str, Any]:
    """A part of the `model` section: these schemes in encoder and decoder."""
    return {"encoder": {"position": list(schemes)}, "decoder": {"position": list(schemes)}}


def encoder(*schemes: dict[str, Any]) -> dict[str, Any]:
    """A part of the `model` section: these schemes in the encoder, none in the decoder."""
    return {"encoder": {"position": list(schemes)}, "decoder": {"position": []}}


def decoder(*schemes: dict[str, Any]) -> dict[str, Any]:
    """A part of the `model` section: these schemes in the decoder, none in the encoder."""
    return {"encoder": {"position": []}, "decoder": {"position": list(schemes)}}


NAMED: dict[str, dict[str, Any]] = {
    **{name: {"system": name} for name in SYSTEMS},
    "transformer-without-encoder": {"system": "transformer", "without": "encoder"},
    "re-both-without-decoder": {"system": "re-both", "without": "decoder"},
    "rnn-layers": both({"scheme": "recurrent", "layers": 2, "cell": "elman"}),
    "rnn-sru": both({"scheme": "recurrent", "cell": "sru"}),
    "lstm-full": encoder({"scheme": "recurrent", "cell": "lstm", "bidirectional": True, "width": "full"}),
    "lstm-wide": {
        "encoder": {"position": [{"scheme": "recurrent", "cell": "lstm", "bidirectional": True, "width": 24}]},
        "decoder": {"position": [{"scheme": "recurrent", "cell": "lstm", "layers": 3, "width": 24}]},
    },
    "rpe-head-full": both({"scheme": "recurrent-heads", "layout": "rpe", "cell": "gru", "head_projection": "full"}),
    "mpr-head-sru": both({"scheme": "recurrent-heads", "width": 12, "cell": "sru"}),
    "mpr-head-lstm": both({"scheme": "recurrent-heads", "cell": "lstm"}),
    "mpr-head-printed": both({"scheme": "recurrent-heads", "cell": "lstm", "feedback": "output"}),
    "sru-forward": {"system": "sru", "options": {"bidirectional": False}},
    "relative-sinusoidal-head": both({"scheme": "relative", "vectors": "sinusoidal", "frequencies": "head"}),
    "relative-near": both({"scheme": "relative", "distance": 2}),
    **{
        f"rnnsearch-{context}": {"system": "rnnsearch+distortion", "options": {"context": context, "jump": 2}}
        for context in ("source", "target", "none")
    },
    "convs2s-widths": {"system": "convs2s", "options": {"widths": [8, 20], "kernels": [2, 1]}},
    "dtmt-without-norm": {"system": "dtmt", "options": {"layer_norm": False}, "encoder": {"layers": 1}},
    "biarn-gate": {
        "system": "biarn",
        "options": {"join": "gate", "reach": "all", "cell": "gru", "directions": "joined", "steps": 3},
    },
    "shared-private-uneven": {"system": "shared-private", "options": {"lm": 1.0, "ur": 0.0}, "norm": "pre"},
    "relative-encoder": encoder({"scheme": "relative", "distance": 3}),
    "t5-bias-near": both({"scheme": "t5-bias", "buckets": 8, "distance": 5}),
    "kerple-power": both({"scheme": "kerple", "form": "power", "encoder": "asymmetric"}),
    "fire-shared": both({"scheme": "fire", "shared": True, "width": 4, "threshold": 5}),
    "cope-near": both({"scheme": "cope", "positions": 3}),
    "rope-relative-cope": both({"scheme": "rope"}, {"scheme": "relative", "distance": 3}, {"scheme": "cope"}),
    "by-layer": {
        side: {"layers": 3, "position": [{"scheme": "rope", "layers": [0, 1]}, {"scheme": "relative", "layers": [2]}]}
        for side in ("encoder", "decoder")
    },
    "cross-relative": {**encoder({"scheme": "rope"}), "decoder": {"cross": [{"scheme": "relative", "distance": 3}]}},
    "cross-rope-fire": {
        "norm": "pre",
        "encoder": {"position": [{"scheme": "alibi"}]},
        "decoder": {
            "position": [{"scheme": "rope"}],
            "cross": [{"scheme": "rope"}, {"scheme": "fire", "threshold": 4}],
        },
    },
    "cross-by-layer": {
        "encoder": {"position": [{"scheme": "relative"}]},
        "decoder": {"cross": [{"scheme": "t5-bias", "layers": [1]}, {"scheme": "kerple", "layers": [0, 1]}]},
    },
    "pre-norm": {
        "norm": "pre",
        "encoder": {"position": [{"scheme": "recurrent-heads"}, {"scheme": "reordering"}]},
        "decoder": {"position": [{"scheme": "sinusoidal"}, {"scheme": "relative"}, {"scheme": "reordering"}]},
    },
    "pre-norm-sru": {"system": "sru", "norm": "pre"},
    "deepnorm": {"norm": "deep", "init": "deepnorm", **both({"scheme": "rope"}, {"scheme": "additional"})},
    "xl-relative": both({"scheme": "transformer-xl"}, {"scheme": "relative", "values": False}),
}
"""Parts of the `model` section: every named system, options, mixtures."""


def config(**model: Any) -> Config:
    """A configuration of a tiny model."""
    sides = {side: {"layers": 2, **model.pop(side, {})} for side in ("encoder", "decoder")}
    sizes = {"d_model": 16, "feed_forward": 24, "heads": 4, "dropout": 0.0}
    return from_tree(
        {
            "data": {"train": {"source": "a", "target": "b"}},
            "model": {**sizes, **sides, **model},
            "train": {"steps": 1, "dev_bleu": False},
        }
    )


def settings(**model: Any) -> Model:
    """The `model` section of `config`."""
    return config(**model).model


def build(seed: int = 0, **model: Any) -> TranslationModel:
    """A tiny model in float64, in evaluation mode."""
    torch.manual_seed(seed)
    built = build_model(settings(**model), VOCABULARY, VOCABULARY).double().eval()
    built.learn_lengths(13, 10)
    return built


def fill_by_formula(model: torch.nn.Module) -> None:
    """Weights without random numbers, so that golden values survive a new PyTorch."""
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            places = torch.arange(parameter.numel(), dtype=torch.float64).reshape(parameter.shape)
            parameter.copy_(torch.cos(places * 0.7 + index) * 0.3)


def subject(part: dict[str, Any]) -> Subject:
    """A part of the `model` section, for the checks of `posnmt.testing`."""
    return Subject(settings(**part))


def _alone(name: str) -> dict[str, Any]:
    """A registered scheme with its default options, in each stack that it does not refuse."""
    choice = SchemeChoice(scheme=name)
    return {
        side: {"position": [] if check([choice], stack) else [{"scheme": name}]}
        for side, stack in ((name, stacks(settings())[f"{name}.position"]) for name in ("encoder", "decoder"))
    }


_shown = [subject(part).config.model_dump(exclude={"system"}) for part in NAMED.values()]
MODELS = NAMED | {
    f"{name}-alone": part
    for name, part in ((name, _alone(name)) for name in SCHEMES)
    if subject(part).config.model_dump(exclude={"system"}) not in _shown
}
"""Those that the properties must hold for: also each registered scheme by itself that none of them shows."""

TRANSFORMERS = [name for name, part in MODELS.items() if subject(part).is_transformer]
"""Those of them whose schemes may act inside layers."""


def _features(part: dict[str, Any]) -> set[tuple[Any, ...]]:
    """The values of the options of an architecture and of each side's schemes, and which schemes meet which norm."""
    model = subject(part).config
    own = vars(architecture(model.architecture).Settings(**model.options))
    has: set[tuple[Any, ...]] = {(model.architecture, *each) for each in [("norm", model.norm), *own.items()]}
    for side in ("encoder", "decoder"):
        position = getattr(model, side).position
        has.add((side, model.architecture, len(position) > 0))
        for choice in position:
            options, layers = split(choice.options)
            values = vars(scheme_class(choice.scheme).Settings(**options)) | {"some layers": layers is not None}
            has |= {(side, choice.scheme, *each) for each in [("norm", model.norm), *values.items()]}
    return has


DISTINCT = covering({name: _features(part) for name, part in MODELS.items()})
"""Those that have all features of the models between them: every value of every option that some model has."""


def each_of(names: Iterable[str] = MODELS) -> list[Any]:
    """The names of models as parameters of a test; those whose features others have are slow tests."""
    return [pytest.param(name, marks=[] if name in DISTINCT else pytest.mark.slow) for name in names]
