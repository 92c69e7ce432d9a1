"""Small models and configurations that several tests use."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from posnmt.config import Config, Model, from_tree
from posnmt.model.transformer import Transformer
from posnmt.position.registry import SCHEMES

VOCABULARY = 13

STACKS: dict[str, list[dict[str, Any]]] = {
    **{name: [{"scheme": name}] for name in SCHEMES},
    "none": [],
    "relative-key": [{"scheme": "relative", "values": False}],
    "relative-near": [{"scheme": "relative", "distance": 2}],
    "relative+absolute": [{"scheme": "sinusoidal"}, {"scheme": "relative", "distance": 3}],
}
"""Lists of schemes that the properties must hold for: every registered scheme, its options, and mixtures."""


def config(position: list[dict[str, Any]] | None = None, **model: Any) -> Config:
    """A configuration of a tiny model."""
    stack = {"layers": 2} if position is None else {"layers": 2, "position": position}
    sizes = {"d_model": 16, "feed_forward": 24, "heads": 4, "dropout": 0.0, "encoder": stack, "decoder": stack}
    return from_tree(
        {
            "data": {"train": {"source": "a", "target": "b"}},
            "model": {**sizes, **model},
            "train": {"steps": 1, "dev_bleu": False},
        }
    )


def settings(position: list[dict[str, Any]] | None = None, **model: Any) -> Model:
    """The `model` section of `config`."""
    return config(position, **model).model


def build(position: list[dict[str, Any]], seed: int = 0, **model: Any) -> Transformer:
    """A tiny model in float64, in evaluation mode."""
    torch.manual_seed(seed)
    return Transformer(settings(position, **model), VOCABULARY, VOCABULARY).double().eval()


def tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    """[rows,length] subwords, none of them special."""
    return torch.randint(4, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


def fill_by_formula(model: torch.nn.Module) -> None:
    """Weights without random numbers, so that golden values survive a new PyTorch."""
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            places = torch.arange(parameter.numel(), dtype=torch.float64).reshape(parameter.shape)
            parameter.copy_(torch.cos(places * 0.7 + index) * 0.3)
