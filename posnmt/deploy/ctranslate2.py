"""Write a Transformer as a CTranslate2 model: weights, positions, vocabularies and special symbols."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from posnmt.base.errors import UserError
from posnmt.config.schema import Activation, Model
from posnmt.data.subword import BOS, EOS, UNK
from posnmt.data.text import TextPipeline
from posnmt.deploy.positions import ELSEWHERE, Positions, express
from posnmt.model.base import TranslationModel
from posnmt.model.ordered import OrderedEmbedding
from posnmt.model.transformer import Transformer

ACTIVATIONS: dict[Activation, str] = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}
"""Activation -> its name in CTranslate2."""


def write(
    model: TranslationModel, text: TextPipeline, folder: Path, size: int, precision: str = "fp32"
) -> tuple[int | None, int | None]:
    """Write a model in CTranslate2's format into a folder, which is created if it does not exist.

    Args:
        model: the model.
        text: its text pipeline.
        folder: the folder.
        size: entries of tables of sinusoids, and of biases that grow with the distance.
        precision: precision of the weights on the disk, `fp32` or `int8`. fp32 weights can be loaded as int8.

    Returns:
        The longest source with its end symbol and the longest target with its begin symbol, in tokens; None: no limit.

    Raises:
        UserError: CTranslate2 is not installed, or cannot express the model.
    """
    specs = package().specs
    if type(model) is not Transformer:
        what = f"CTranslate2 has no architecture {model.config.architecture}"
        raise UserError(what, "model.architecture", ELSEWHERE)
    if model.config.norm == "deep":
        what = "CTranslate2 cannot express DeepNorm, which multiplies residual connections by a constant"
        raise UserError(what, "model.norm", ELSEWHERE)
    if crossing := model.config.decoder.cross:
        names = ", ".join(choice.scheme for choice in crossing)
        what = f"CTranslate2 cannot express {names} in attention to the source, which has no positions there"
        raise UserError(what, "model.decoder.cross", ELSEWHERE)
    model = model.float()
    stacks = {"encoder": model.source, "decoder": model.target}
    positions = {side: _positions(model, side, embedding, size) for side, embedding in stacks.items()}
    layers = {
        "pre_norm": model.config.norm == "pre",
        "activation": getattr(specs.common_spec.Activation, ACTIVATIONS[model.config.activation]),
    }
    heads = model.config.heads
    encoder = specs.TransformerEncoderSpec(len(model.encoder), heads, **layers, **_options(positions["encoder"]))
    decoder = specs.TransformerDecoderSpec(len(model.decoder), heads, **layers, **_options(positions["decoder"]))
    _fill(encoder, decoder, model)
    for side, stack in (("encoder", encoder), ("decoder", decoder)):
        _fill_positions(stack, positions[side])
        stack.scale_embeddings = stacks[side].scale != 1.0
    spec = specs.TransformerSpec(encoder, decoder)
    _name_symbols(spec, text, model.config)
    spec.validate()
    spec.optimize("int8" if precision == "int8" else None)  # tied matrices are stored once
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    limit = positions["encoder"].limit
    return None if limit is None else limit - model.config.source_begin, positions["decoder"].limit


def package() -> Any:
    """Import the module `ctranslate2`.

    Raises:
        UserError: CTranslate2 is not installed.
    """
    try:
        import ctranslate2
    except ImportError:
        what = "CTranslate2 is not installed here"
        raise UserError(what, None, 'install it: pip install "posnmt[ctranslate2]"') from None
    return ctranslate2


def _positions(model: Transformer, side: str, embedding: OrderedEmbedding, size: int) -> Positions:
    stack = getattr(model.config, side)
    names = [choice.scheme for choice in stack.position]
    return express(names, embedding.position_schemes(), stack.layers, model.config.heads, side, size)


def _options(positions: Positions) -> dict[str, Any]:
    """The arguments of a stack's specification that state which position information it has."""
    options: dict[str, Any] = {
        "relative_position": positions.vectors is not None,
        "relative_attention_bias": positions.bias is not None,
    }
    rotation = positions.rotation
    if rotation is not None:
        options |= {"rotary_dim": 0, "rotary_interleave": True, "rotary_base": rotation.base}  # 0: the whole head
        if rotation.factor != 1:
            from ctranslate2.specs.attention_spec import RotaryScalingType

            options |= {"rotary_scaling_type": RotaryScalingType.Linear, "rotary_scaling_factor": rotation.factor}
    return options


def _fill(encoder: Any, decoder: Any, model: Transformer) -> None:
    """Fill in everything but positions. Both programs have queries, keys and values in this order in one matrix."""
    encoder.embeddings[0].weight, decoder.embeddings.weight = model.source.table.weight, model.target.table.weight
    layers: list[Any] = [*model.encoder, *model.decoder]
    for part, layer in zip([*encoder.layer, *decoder.layer], layers, strict=True):
        _fill_linears(part.self_attention.linear, [layer.attention.project, layer.attention.output])
        _fill_norm(part.self_attention.layer_norm, layer.attention_norm)
        _fill_linears([part.ffn.linear_0, part.ffn.linear_1], [layer.feed_forward.fc1, layer.feed_forward.fc2])
        _fill_norm(part.ffn.layer_norm, layer.feed_forward_norm)
    for part, layer in zip(decoder.layer, layers[len(encoder.layer) :], strict=True):
        _fill_linears(part.attention.linear, [layer.cross.query, layer.cross.memory, layer.cross.output])
        _fill_norm(part.attention.layer_norm, layer.cross_norm)
    for stack, norm in ((encoder, model.encoder_norm), (decoder, model.decoder_norm)):
        if isinstance(norm, nn.LayerNorm):
            _fill_norm(stack.layer_norm, norm)
    _fill_linears([decoder.projection], [model.output])


def _fill_positions(stack: Any, positions: Positions) -> None:
    import numpy as np
    from ctranslate2.specs.model_spec import OPTIONAL

    if positions.table is not None:
        stack.position_encodings.encodings = positions.table
    for index, layer in enumerate(stack.layer):
        attention = layer.self_attention
        if positions.vectors is not None:
            keys, values = positions.vectors[index]
            attention.relative_position_keys = OPTIONAL if keys is None else keys
            attention.relative_position_values = OPTIONAL if values is None else values
        if positions.bias is not None:
            attention.relative_attention_bias = positions.bias
            # greater than the number of distances with their own bucket; else the logarithm for the rest is undefined
            attention.relative_attention_max_distance = np.int32(len(positions.bias))


def _fill_linears(part: Sequence[Any], linears: Sequence[nn.Linear]) -> None:
    for one, linear in zip(part, linears, strict=True):
        one.weight, one.bias = linear.weight, linear.bias


def _fill_norm(part: Any, norm: nn.LayerNorm) -> None:
    part.gamma, part.beta = norm.weight, norm.bias


def _name_symbols(spec: Any, text: TextPipeline, model: Model) -> None:
    """Set the vocabularies, and the symbols that CTranslate2 adds before and after a source and before a target."""
    source, target = text.source.subwords.pieces, text.target.subwords.pieces
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = target[UNK], target[BOS], target[EOS]
    config.decoder_start_token = target[BOS]
    config.add_source_bos, config.add_source_eos = model.source_begin, model.source_end
    config.layer_norm_epsilon = model.norm_epsilon
