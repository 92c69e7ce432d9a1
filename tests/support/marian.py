"""Random Marian models in the format of Transformers, with SentencePiece models of the artificial corpus."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from safetensors.torch import save_file
from torch import Tensor

from posnmt.corpora.artificial.pairs import generate

PAIRS = list(generate(400, 3, 10, seed=1))
CODE = ">>fra<<"


@cache
def spm(side: str, kind: str = "unigram", size: int = 120) -> bytes:
    """A SentencePiece model with the ids that spm_train gives, which are not posnmt's."""
    model = io.BytesIO()
    lines = [getattr(pair, side) for pair in PAIRS]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type=kind, vocab_size=size, minloglevel=2
    )
    return model.getvalue()


def pieces(model: bytes) -> list[str]:
    """What a SentencePiece model splits text into."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(3, len(processor))]


def config(**changes: Any) -> dict[str, Any]:
    """A `config.json` as save_pretrained writes it, without its vocabulary."""
    sizes = {"layers": 2, "attention_heads": 4, "ffn_dim": 48}
    return {
        "model_type": "marian", "architectures": ["MarianMTModel"], "d_model": 32, "max_position_embeddings": 512,
        **{f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sizes.items()},
        "activation_function": "swish", "scale_embedding": True, "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True, "eos_token_id": 0, **changes,
    }  # fmt: skip


def weights(about: Mapping[str, Any], ends: float) -> dict[str, Tensor]:
    """Random weights by Transformers' names, biases and normalisations included; `ends` is added to `</s>`'s bias."""
    draw = torch.Generator().manual_seed(0)
    d, inner = about["d_model"], about["encoder_ffn_dim"]

    def normal(*shape: int, scale: float) -> Tensor:
        return torch.randn(shape, generator=draw) * scale

    def linear(name: str, outputs: int, inputs: int) -> dict[str, Tensor]:
        grown = 4.0 if name.endswith(("out_proj", "fc2")) else 1.5  # or the next word would mostly be the last one
        scale = grown * inputs**-0.5
        return {f"{name}.weight": normal(outputs, inputs, scale=scale), f"{name}.bias": normal(outputs, scale=0.2)}

    def norm(name: str) -> dict[str, Tensor]:
        return {f"{name}.weight": 1 + normal(d, scale=0.2), f"{name}.bias": normal(d, scale=0.2)}

    made = {}
    for side in ("encoder", "decoder"):
        for index in range(about[f"{side}_layers"]):
            layer = f"model.{side}.layers.{index}"
            for attention in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    made |= linear(f"{layer}.{attention}.{part}", d, d)
                made |= norm(f"{layer}.{attention}_layer_norm")
            made |= linear(f"{layer}.fc1", inner, d) | linear(f"{layer}.fc2", d, inner)
            made |= norm(f"{layer}.final_layer_norm")
    made[f"{layer}.final_layer_norm.weight"] *= (
        3  # the last of the decoder: some subwords are far more likely than others
    )
    size, target = about["vocab_size"], about.get("decoder_vocab_size") or about["vocab_size"]
    if about["share_encoder_decoder_embeddings"]:  # without tied matrices, nothing reads it
        made["model.shared.weight"] = normal(size, d, scale=0.15)
    if not (about["share_encoder_decoder_embeddings"] and about["tie_word_embeddings"]):
        made["model.encoder.embed_tokens.weight"] = normal(size, d, scale=0.15)
        made["model.decoder.embed_tokens.weight"] = normal(target, d, scale=0.15)
    if not about["tie_word_embeddings"]:
        made["lm_head.weight"] = normal(target, d, scale=0.15)
    made["final_logits_bias"] = normal(1, target, scale=0.5)
    made["final_logits_bias"][0, 0] += ends
    return made


def write(
    folder: Path,
    file: str = "model.safetensors",
    missing: int = 0,
    kind: str = "unigram",
    ends: float = 4.0,
    **changes: Any,
) -> Path:
    """A folder as save_pretrained writes it.

    Args:
        file: of the weights.
        missing: pieces of each SentencePiece model that the vocabulary does not have.
        kind: of SentencePiece model.
        ends: how likely an output ends.
        changes: of `config.json`.
    """
    folder.mkdir()
    about = config(**changes)
    models = {side: spm(side, kind) for side in ("source", "target")}
    own = {side: pieces(model)[: -missing or None] for side, model in models.items()}
    shared = about["share_encoder_decoder_embeddings"]
    names = {"vocab.json": [*own["source"], *(own["target"] if shared else []), CODE]}
    if not shared:
        names["target_vocab.json"] = own["target"]
    sizes = []
    for name, listed in names.items():
        vocabulary = list(dict.fromkeys(["</s>", "<unk>", *reversed(listed)]))
        last = about.get("pad_token_id", len(vocabulary) if shared else 2)
        vocabulary.insert(last, "<pad>")
        (folder / name).write_text(json.dumps({piece: number for number, piece in enumerate(vocabulary)}))
        about.setdefault("pad_token_id", last)
        sizes.append(len(vocabulary))
    about |= {"decoder_start_token_id": about["pad_token_id"], "vocab_size": sizes[0], "decoder_vocab_size": sizes[-1]}
    (folder / "config.json").write_text(json.dumps(about))
    symbols = {name: about[name] for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    search = {
        "num_beams": 3,
        "length_penalty": 0.8,
        "forced_eos_token_id": 0,
        "bad_words_ids": [[about["pad_token_id"]]],
    }
    (folder / "generation_config.json").write_text(json.dumps({**symbols, **search}))
    settings = {"source_lang": "en", "target_lang": "fr", "separate_vocabs": not shared}
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "tokenizer_class": "MarianTokenizer"}))
    for side, model in models.items():
        (folder / f"{side}.spm").write_bytes(model)
    made = weights(about, ends)
    if file.endswith(".safetensors"):
        save_file(made, folder / file, metadata={"format": "pt"})
    else:
        torch.save(made, folder / file)
    return folder
