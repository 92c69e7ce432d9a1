"""The optimizer of training, `train.optimizer`."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from posnmt.config.schema import Train
from posnmt.model.base import TranslationModel
from posnmt.training.muon import Muon


def make_optimizer(model: TranslationModel, train: Train) -> Optimizer:
    """A new optimizer for a model's trained parameters, or for this process's slices of them; not for frozen ones."""
    adam: dict[str, Any] = {"betas": train.adam_betas, "eps": train.adam_epsilon, "fused": True}
    rate, decay = train.learning_rate, train.weight_decay
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if train.optimizer == "adam":
        return AdamW(trained, lr=rate, weight_decay=decay, **adam)
    chosen = [matrix for matrix in matrices(model) if matrix.requires_grad]
    known = set(map(id, chosen))
    others = [parameter for parameter in trained if id(parameter) not in known]
    return Muon(chosen, others, rate, train.muon_factor, decay, train.muon_every, **adam)


def matrices(model: TranslationModel) -> list[Tensor]:
    """The parameters that Muon updates: weights of linear layers, but not of the output projection.

    The output projection, like an embedding, is a table of word vectors rather than a linear map (Jordan et al. 2024).
    A weight with a single row or column is a vector.
    """
    linear = [
        module.weight for module in model.modules() if isinstance(module, nn.Linear) and module is not model.output
    ]
    return [weight for weight in linear if min(weight.shape) > 1]
