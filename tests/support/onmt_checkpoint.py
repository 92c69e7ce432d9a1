"""Random checkpoints as OpenNMT-py 3.5.1 writes them: options, vocabularies and weights by its names."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import save_file
from torch import Tensor

from posnmt_position.absolute import sinusoids
from tests.support import marian

SPECIAL = ["<unk>", "<blank>", "<s>", "</s>"]


def options(**changes: Any) -> Namespace:
    """The options of a model in a checkpoint, those of OpenNMT-py's training left out."""
    sizes = {"layers": 2, "enc_layers": 2, "dec_layers": 2, "hidden_size": 32, "enc_hid_size": 32, "dec_hid_size": 32}
    defaults = {
        **sizes, "model_task": "seq2seq", "model_type": "text", "encoder_type": "transformer",
        "decoder_type": "transformer", "word_vec_size": 32, "src_word_vec_size": 32, "tgt_word_vec_size": 32,
        "heads": 4, "transformer_ff": 48, "position_encoding": True,
        "position_encoding_type": "SinusoidalInterleaved", "max_relative_positions": 0,
        "relative_positions_buckets": 0, "pos_ffn_activation_fn": "relu", "share_embeddings": False,
        "share_decoder_embeddings": False, "norm_eps": 1e-6, "layer_norm": "standard", "self_attn_type": "scaled-dot",
        "generator_function": "softmax", "copy_attn": False, "num_kv": 0, "n_src_feats": 0,
        "parallel_residual": False, "add_qkvbias": False, "add_ffnbias": True, "dropout": [0.1],
        "attention_dropout": [0.1], "aan_useffn": False, "full_context_alignment": False, "alignment_layer": -2,
        "alignment_heads": 0, "use_ckpting": [], "world_size": 1, "parallel_mode": "data_parallel",
        "shared_layer_norm": False, "rotary_interleave": True, "rotary_theta": 10000, "rotary_dim": 0,
        "sliding_window": 0, "num_experts": 0, "num_experts_per_tok": 2, "feat_merge": "concat",
        "feat_vec_exponent": 0.7, "feat_vec_size": -1, "optim": "adam", "freeze_word_vecs_enc": False,
        "freeze_word_vecs_dec": False,
    }  # fmt: skip
    return Namespace(**{**defaults, **changes})


def vocabulary(side: str, missing: int, words: bool) -> list[str]:
    """The tokens of a side's text: pieces of its SentencePiece model, or words."""
    lines = [getattr(pair, side) for pair in marian.PAIRS]
    if words:
        return [*SPECIAL, *sorted({word for line in lines for word in line.split()})]
    processor = sentencepiece.SentencePieceProcessor(model_proto=marian.spm(side))
    counted = sorted({piece for row in processor.encode(lines, out_type=str) for piece in row}, reverse=True)
    return [*SPECIAL, *counted[: -missing or None]]


def weights(opt: Namespace, sizes: tuple[int, int]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The model's weights and those of its generator; `</s>` is likely, so that outputs end."""
    draw = torch.Generator().manual_seed(0)
    d, inner = opt.hidden_size, opt.transformer_ff

    def normal(*shape: int, scale: float) -> Tensor:
        return torch.randn(shape, generator=draw) * scale

    def linear(name: str, outputs: int, inputs: int, bias: bool) -> dict[str, Tensor]:
        made = {f"{name}.weight": normal(outputs, inputs, scale=2 * inputs**-0.5)}
        return made | ({f"{name}.bias": normal(outputs, scale=0.2)} if bias else {})

    def norm(name: str) -> dict[str, Tensor]:
        return {f"{name}.weight": 1 + normal(d, scale=0.2), f"{name}.bias": normal(d, scale=0.2)}

    made: dict[str, Tensor] = {}
    layers = {
        "encoder": ("encoder.transformer", opt.enc_layers),
        "decoder": ("decoder.transformer_layers", opt.dec_layers),
    }
    for (side, (place, count)), size in zip(layers.items(), sizes, strict=True):
        table = f"{side}.embeddings.make_embedding.emb_luts.0.weight"
        shared = opt.share_embeddings and side == "decoder"
        made[table] = made[table.replace("decoder", "encoder")] if shared else normal(size, d, scale=0.3)
        if opt.position_encoding:
            made[f"{side}.embeddings.make_embedding.pe.pe"] = sinusoids(torch.arange(5000), d).float()[:, None]
        for index in range(count):
            layer = f"{place}.{index}"
            for attention in ("self_attn", "context_attn")[: 1 + (side == "decoder")]:
                for part in ("linear_keys", "linear_values", "linear_query", "final_linear"):
                    made |= linear(f"{layer}.{attention}.{part}", d, d, opt.add_qkvbias)
            if opt.max_relative_positions:
                shape = 2 * opt.max_relative_positions + 1, d // opt.heads
                made[f"{layer}.self_attn.relative_positions_embeddings.weight"] = normal(*shape, scale=0.5)
            made |= linear(f"{layer}.feed_forward.w_1", inner, d, opt.add_ffnbias)
            made |= linear(f"{layer}.feed_forward.w_2", d, inner, opt.add_ffnbias)
            made |= norm(f"{layer}.feed_forward.layer_norm")
            for name in ("layer_norm_1", "layer_norm_2") if side == "decoder" else ("layer_norm",):
                made |= norm(f"{layer}.{name}")
        made |= norm(f"{side}.layer_norm")
    weight = made["decoder.embeddings.make_embedding.emb_luts.0.weight"]
    generator = {"weight": weight if opt.share_decoder_embeddings else normal(sizes[1], d, scale=0.5)}
    generator["bias"] = normal(sizes[1], scale=0.5)
    generator["bias"][3] += 5.0
    return made, generator


def write(path: Path, missing: int = 0, words: bool = False, apart: bool = False, **changes: Any) -> Path:
    """A checkpoint.

    Args:
        missing: pieces of each SentencePiece model that the vocabulary does not have.
        words: whether the text is words, without SentencePiece.
        apart: whether the weights are in a file of their own.
        changes: of the options.
    """
    opt = options(**changes)
    source, target = vocabulary("source", missing, words), vocabulary("target", missing, words)
    if opt.share_embeddings:
        source = target = list(dict.fromkeys([*source, *target]))
    model, generator = weights(opt, (len(source), len(target)))
    vocab = {"src": source, "tgt": target, "data_task": "seq2seq", "decoder_start_token": "<s>"}
    tree: dict[str, Any] = {"vocab": vocab, "opt": opt, "optim": {"training_step": 7, "decay_step": 7}}
    if apart:
        joined = model | {f"generator.{name}": tensor.clone() for name, tensor in generator.items()}
        save_file({name: tensor.clone() for name, tensor in joined.items()}, path.with_suffix(".safetensors"))
    else:
        tree |= {"model": model, "generator": generator}
    torch.save(tree, path)
    return path
