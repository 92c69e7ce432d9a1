"""The registry of architectures by name, and the check of a `model` section before a model is built."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from posnmt.base.errors import UserError, refuse_unknown
from posnmt.config.schema import Model
from posnmt.model.base import Faults, TranslationModel

if TYPE_CHECKING:
    from posnmt.data.word_pairs import WordPairs

ARCHITECTURES = {
    "transformer": "transformer:Transformer",
    "sru": "architectures.sru:RecurrentTransformer",
    "rnn-nmt": "architectures.rnn:RecurrentTranslator",
    "rnnsearch+distortion": "architectures.rnnsearch:RecurrentSearch",
    "convs2s": "architectures.convs2s:ConvolutionalTranslator",
    "dtmt": "architectures.dtmt:DeepTransitionTranslator",
    "biarn": "architectures.biarn:DoublyEncodedTransformer",
    "shared-private": "architectures.shared_private:SharedPrivateTransformer",
}
"""Architecture name → module and class inside posnmt.model."""


def build_model(config: Model, source_size: int, target_size: int, pairs: WordPairs | None = None) -> TranslationModel:
    """A model from the `model` section of a checked configuration.

    Args:
        source_size, target_size: vocabulary entries of each side, the four special symbols included.
        pairs: of source and target subwords, for an architecture that reads them.
    """
    kind: Any = architecture(config.architecture)
    arguments = (pairs,) if kind.reads_pairs else ()
    model: TranslationModel = kind(config, source_size, target_size, *arguments)
    return model


def build_undrawn(
    config: Model, source_size: int, target_size: int, pairs: WordPairs | None = None
) -> TranslationModel:
    """`build_model` without initialisation of the weights, which are then read from a file."""
    with _Undrawn():
        return build_model(config, source_size, target_size, pairs)


class _Undrawn(TorchFunctionMode):
    """A mode that skips PyTorch's functions of random initialisation."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        drawn = function in (Tensor.uniform_, Tensor.normal_)
        if drawn or getattr(function, "__module__", None) == "torch.nn.init":
            return arguments[0] if arguments else options["tensor"]
        return function(*arguments, **options)


def count_parameters(config: Model, source_size: int, target_size: int) -> int:
    """The number of parameters of a model, shared matrices counted once; no memory is allocated for them."""
    with torch.device("meta"):
        model = build_model(config, source_size, target_size)
    return sum(parameter.numel() for parameter in model.parameters())


def architecture(name: str) -> type[TranslationModel]:
    """The class of a registered architecture.

    Raises:
        UserError: no architecture has this name.
    """
    refuse_unknown(name, ARCHITECTURES, "architecture")
    module, attribute = ARCHITECTURES[name].split(":")
    model_class: type[TranslationModel] = getattr(importlib.import_module(f"posnmt.model.{module}"), attribute)
    return model_class


def check(config: Model) -> Faults:
    """The faults of a `model` section: what its architecture or a position scheme does not support."""
    try:
        kind = architecture(config.architecture)
    except UserError as error:
        return [(("architecture",), error.line())]
    faults = kind.Settings.faults(config.architecture, config.options)
    return [(("options",), fault) for fault in faults] or kind.refuses(config, kind.Settings(**config.options))
