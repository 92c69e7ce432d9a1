"""Import a Marian model in the format of Hugging Face Transformers (MarianMTModel), such as those of OPUS-MT.

In Marian's sinusoids all sines come before all cosines. This is another order of the same features. So the features of
the residual stream are put into posnmt's order in every matrix that reads or writes it, and the model computes the
same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, Field, ValidationError
from torch import Tensor

from posnmt.base.errors import UserError, quoted
from posnmt.base.files import load_json, read_json
from posnmt.data.marks import mark_of
from posnmt.data.subword import Subwords
from posnmt.data.text import SIDES, SideText, TextPipeline
from posnmt.data.tokenise import Words
from posnmt.deploy.importing.checkpoint import Checkpoint, Names, embeddings, tensors_of, unpickled
from posnmt.deploy.importing.imported import Imported
from posnmt.deploy.importing.vocabulary import Vocabulary, with_symbols
from posnmt.model.weights import read_tensors

FORMAT = "marian-hf"

LAYER = Names(
    "self_attn", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm", ("q_proj", "k_proj", "v_proj", "out_proj"),
    "encoder_attn", "encoder_attn_layer_norm",
)  # fmt: skip

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}

LANGUAGE_CODE = re.compile(r">>[^<>]+<<")
"""A piece of the vocabulary that marks the target language at the beginning of a source."""

AGAIN = "check that the folder has all files that save_pretrained writes"


class Settings(BaseModel):
    """The values in `config.json` that the import needs."""

    model_type: Literal["marian"]
    d_model: int = Field(gt=0)
    vocab_size: int = Field(gt=0)
    decoder_vocab_size: int | None = Field(None, gt=0)
    encoder_layers: int = Field(gt=0)
    decoder_layers: int = Field(gt=0)
    encoder_attention_heads: int = Field(gt=0)
    decoder_attention_heads: int = Field(gt=0)
    encoder_ffn_dim: int = Field(gt=0)
    decoder_ffn_dim: int = Field(gt=0)
    activation_function: str
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int = Field(ge=0)
    eos_token_id: int = Field(ge=0)
    decoder_start_token_id: int = Field(ge=0)
    quantization_config: None = None

    @property
    def target_size(self) -> int:
        """Return the number of entries of the target vocabulary: that of a shared one, or its own."""
        return self.vocab_size if self.share_encoder_decoder_embeddings else self.decoder_vocab_size or self.vocab_size

    @property
    def tie(self) -> str:
        """Return the value of posnmt's setting `model.tie_embeddings`."""
        if not self.tie_word_embeddings:
            return "none"
        return "all" if self.share_encoder_decoder_embeddings else "target"


def read(folder: Path, languages: tuple[str, str] | None) -> Imported:
    """Read the model in a folder.

    Args:
        folder: the folder.
        languages: codes of source and target; None: those in the folder.

    Raises:
        UserError: a file is missing or damaged, or posnmt's model cannot compute the same.
    """
    if not folder.is_dir():
        raise UserError("the folder does not exist", folder, "name a folder that save_pretrained wrote")
    settings = _settings(folder / "config.json")
    path, tensors = _tensors(folder)
    # Before anything is allocated by the sizes that config.json declares.
    _tables(Checkpoint(tensors, path, settings.d_model), settings)
    sides = [_vocabulary(path, size, settings) for path, size in _vocabulary_sizes(folder, settings).items()]
    vocabularies = [sides[0], sides[-1]]  # the same one twice if it is shared
    text, notes = _text(folder, vocabularies, languages or _languages(folder))
    checkpoint = Checkpoint(tensors, path, settings.d_model, order(settings.d_model))
    return Imported(
        model={
            "d_model": settings.d_model,
            "feed_forward": settings.encoder_ffn_dim,
            "heads": settings.encoder_attention_heads,
            "norm": "post",
            "activation": ACTIVATIONS[settings.activation_function],
            "scale_embeddings": settings.scale_embedding,
            "tie_embeddings": settings.tie,
            "encoder": {"layers": settings.encoder_layers, "position": [{"scheme": "sinusoidal"}]},
            "decoder": {"layers": settings.decoder_layers, "position": [{"scheme": "sinusoidal"}]},
        },
        text=text,
        weights=_weights(checkpoint, settings, vocabularies),
        format=FORMAT,
        files=[path, *_files(folder, settings)],
        marks=[code for code in _codes(vocabularies[0]) if mark_of(f"{code} x") == code],
        decode=_search(folder),
        notes=notes,
    )


def order(width: int) -> Tensor:
    """For each feature of posnmt, the index [d] of Marian's. Sines are even features here, and the first half there."""
    return torch.arange(width).view(2, -1).T.flatten()


def _settings(path: Path) -> Settings:
    tree = load_json(path, dict[str, Any], "the model's config", AGAIN)
    kind = tree.get("model_type")
    if kind != "marian":
        raise UserError(f"not a Marian model: its model_type is {kind!r}", path, "name a folder of a MarianMTModel")
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        raise UserError(f"{key}: {problem['msg']}", path, AGAIN) from None
    if settings.activation_function not in ACTIVATIONS:
        what = f"posnmt has no activation {settings.activation_function!r}, only {', '.join(ACTIVATIONS)}"
        raise UserError(what, path, None)
    for key in ("attention_heads", "ffn_dim"):
        sides = [getattr(settings, f"{side}_{key}") for side in ("encoder", "decoder")]
        if sides[0] != sides[1]:
            what = f"{key} of encoder and decoder differ ({sides[0]} and {sides[1]}), but posnmt's model has one value"
            raise UserError(what, path, "translate with Transformers")
    if settings.d_model % settings.encoder_attention_heads or settings.d_model % 2:
        what = f"d_model {settings.d_model} is odd, or not a multiple of {settings.encoder_attention_heads} heads"
        raise UserError(what, path, AGAIN)
    return settings


def _vocabulary_sizes(folder: Path, settings: Settings) -> dict[Path, int]:
    """The files of the vocabularies → their numbers of entries."""
    shared = settings.share_encoder_decoder_embeddings
    sizes = {"vocab.json": settings.vocab_size} | ({} if shared else {"target_vocab.json": settings.target_size})
    return {folder / name: size for name, size in sizes.items()}


def _vocabulary(path: Path, size: int, settings: Settings) -> Vocabulary:
    ids = load_json(path, dict[str, int], "the vocabulary", AGAIN)
    pieces: dict[int, str] = {}
    for piece, number in ids.items():
        if number in pieces or not 0 <= number < size:
            why = "like another piece" if number in pieces else f"but config.json states a vocabulary size of {size}"
            raise UserError(f"{quoted(piece)} has the id {number}, {why}", path, AGAIN)
        pieces[number] = f"▁{piece}" if LANGUAGE_CODE.fullmatch(piece) else piece
    for symbol in (settings.pad_token_id, settings.eos_token_id, settings.decoder_start_token_id):
        if symbol >= size:
            what = f"config.json names the symbol {symbol}, but the vocabulary size is {size}"
            raise UserError(what, path, AGAIN)
    if "<unk>" not in ids:
        raise UserError("the vocabulary has no <unk>", path, AGAIN)
    return Vocabulary.of(
        [pieces.get(number, f"<unnamed {number}>") for number in range(size)],
        settings.pad_token_id,
        ids["<unk>"],
        settings.decoder_start_token_id,
        settings.eos_token_id,
    )


def _text(
    folder: Path, vocabularies: Sequence[Vocabulary], languages: tuple[str, str]
) -> tuple[TextPipeline, list[str]]:
    """The text pipeline, and notes for the user."""
    sides, notes = [], []
    for side, vocabulary, language in zip(SIDES, vocabularies, languages, strict=True):
        path = folder / f"{side}.spm"
        codes = [f"▁{code}" for code in _codes(vocabulary)]
        subwords = Subwords(with_symbols(Subwords.load(path).model, codes), vocabulary.pieces)
        if unknown := vocabulary.unknown(subwords):
            notes.append(f"{unknown:,} pieces of {path.name} are not in the vocabulary and are read as <unk>")
        sides.append(SideText(Words(language), subwords))
    return TextPipeline(sides[0], sides[1]), notes


def _codes(vocabulary: Vocabulary) -> list[str]:
    """The codes of target languages in a vocabulary, without the blank with which their pieces begin."""
    return [piece[1:] for piece in vocabulary.pieces if LANGUAGE_CODE.fullmatch(piece[1:])]


def _files(folder: Path, settings: Settings) -> list[Path]:
    """The files besides the weights: settings, vocabularies and SentencePiece models."""
    optional = [folder / name for name in ("tokenizer_config.json", "generation_config.json")]
    return [
        folder / "config.json",
        *_vocabulary_sizes(folder, settings),
        *(folder / f"{side}.spm" for side in SIDES),
        *(path for path in optional if path.exists()),
    ]


def _languages(folder: Path) -> tuple[str, str]:
    tree = read_json(folder / "tokenizer_config.json") or {}
    source, target = tree.get("source_lang"), tree.get("target_lang")
    if not (isinstance(source, str) and source and isinstance(target, str) and target):
        raise UserError("the folder does not name the languages", folder, "add --languages, such as --languages en-de")
    return source, target


def _tensors(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """The weights, from the file that Transformers prefers."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        path = folder / name
        if path.exists():
            saved = path.suffix == ".safetensors"
            return path, read_tensors(path, described=False)[0] if saved else tensors_of(unpickled(path), path)
    raise UserError("the folder has neither model.safetensors nor pytorch_model.bin", folder, AGAIN)


def _weights(checkpoint: Checkpoint, settings: Settings, vocabularies: Sequence[Vocabulary]) -> dict[str, Tensor]:
    """The weights under posnmt's names; embeddings have the rows of posnmt's vocabularies."""
    source, target = _tables(checkpoint, settings)
    tables = [table[each.rows] for table, each in zip((source, target), vocabularies, strict=True)]
    size = settings.target_size
    projection = target if settings.tie_word_embeddings else checkpoint.table("lm_head.weight", size)
    bias = torch.zeros(size)
    if "final_logits_bias" in checkpoint:
        bias = checkpoint.take("final_logits_bias", 1, size)[0]
    weights = embeddings(settings.tie, tables[0], tables[1], vocabularies[1].output(projection, bias))
    for side, layers in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        checkpoint.refuse_other_sinusoids(f"model.{side}.embed_positions.weight")
        names = LAYER if side == "decoder" else replace(LAYER, cross="")
        for index in range(layers):
            theirs = f"model.{side}.layers.{index}"
            weights |= checkpoint.layer(f"{side}.{index}", theirs, names, settings.encoder_ffn_dim)
    checkpoint.refuse_rest(r"model\.(shared|(en|de)coder\.embed_tokens)\.weight|lm_head\.weight")
    return weights


def _tables(checkpoint: Checkpoint, settings: Settings) -> tuple[Tensor, Tensor]:
    """The source and target embeddings [V,d]. If they share a matrix, any of its names may be in the file.

    Before version 5, Transformers shared a matrix between both sides even if the output projection was not tied.
    """
    shared, output = "model.shared.weight", "lm_head.weight"
    source, target = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
    names = {
        "all": ([shared, source, target, output], [shared, source, target, output]),
        "target": ([source], [target, output]),
        "none": ([source, shared], [target, shared]),
    }[settings.tie]
    present = [next((name for name in each if name in checkpoint), each[0]) for each in names]
    return checkpoint.table(present[0], settings.vocab_size), checkpoint.table(present[1], settings.target_size)


def _search(folder: Path) -> dict[str, Any]:
    """The search settings in the folder. Since version 4.26 Transformers writes them to generation_config.json."""
    tree = {**(read_json(folder / "config.json") or {}), **(read_json(folder / "generation_config.json") or {})}
    beam, penalty = tree.get("num_beams", 1), tree.get("length_penalty", 1.0)
    return {
        "beam": beam if isinstance(beam, int) and beam > 0 else 1,
        "length_penalty": penalty if isinstance(penalty, int | float) and penalty >= 0 else 1.0,
    }
