"""Import a checkpoint of OpenNMT-py 3: a Transformer with sinusoids or with the vectors of Shaw et al. 2018.

It has pre-norm, its encoder does not read an end symbol, and keys and values share one table of vectors.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator
from torch import Tensor

from posnmt.base.errors import UserError
from posnmt.data.subword import Subwords
from posnmt.data.text import SideText, TextPipeline
from posnmt.data.tokenise import Words
from posnmt.deploy.importing.checkpoint import OTHER, Checkpoint, Names, embeddings, named, tensors_of, unpickled
from posnmt.deploy.importing.imported import Imported
from posnmt.deploy.importing.vocabulary import SPECIAL, Vocabulary, blanks_alone
from posnmt.model.weights import read_tensors

FORMAT = "opennmt-py"

ENCODER = Names(
    "self_attn", "layer_norm", "feed_forward.w_1", "feed_forward.w_2", "feed_forward.layer_norm",
    ("linear_query", "linear_keys", "linear_values", "final_linear"),
)  # fmt: skip

DECODER = Names(
    "self_attn", "layer_norm_1", *(ENCODER.fc1, ENCODER.fc2, ENCODER.feed_forward_norm), ENCODER.matrices,
    "context_attn", "layer_norm_2",
)  # fmt: skip

LAYERS = {"encoder": ("encoder.transformer", ENCODER), "decoder": ("decoder.transformer_layers", DECODER)}
"""Side -> the toolkit's names for its layers and for their parts."""

SYMBOLS = ("<blank>", *SPECIAL[1:])
"""The toolkit's names for our special symbols."""

ELSEWHERE = "translate with OpenNMT-py"


class Options(BaseModel):
    """The checkpoint's options that determine what the model computes. Values that a type here lacks are refused."""

    model_task: Literal["seq2seq"] = "seq2seq"
    model_type: Literal["text"] = "text"
    encoder_type: Literal["transformer"]
    decoder_type: Literal["transformer"]
    enc_layers: int = Field(gt=0)
    dec_layers: int = Field(gt=0)
    enc_hid_size: int = Field(gt=0)
    dec_hid_size: int = Field(gt=0)
    heads: int = Field(gt=0)
    transformer_ff: int = Field(gt=0)
    position_encoding: bool = False
    position_encoding_type: str = "SinusoidalInterleaved"
    max_relative_positions: int = Field(0, ge=0)
    relative_positions_buckets: Literal[0] = 0
    pos_ffn_activation_fn: Literal["relu", "gelu"] = "relu"
    share_embeddings: bool = False
    share_decoder_embeddings: bool = False
    norm_eps: float = Field(1e-6, gt=0)
    layer_norm: Literal["standard"] = "standard"
    self_attn_type: Literal["scaled-dot", "scaled-dot-flash"] = "scaled-dot"
    generator_function: Literal["softmax"] = "softmax"
    copy_attn: Literal[False] = False
    multiquery: Literal[False] = False
    num_kv: Literal[0] = 0
    n_src_feats: Literal[0] = 0
    parallel_residual: Literal[False] = False
    sliding_window: Literal[0] = 0
    num_experts: Literal[0] = 0

    @model_validator(mode="before")
    @classmethod
    def _both_sides(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Let `layers` and `hidden_size` set both sides, as in OpenNMT-py, where -1 means that they are not set."""
        filled = dict(options)
        for both, sides in (
            ("layers", ("enc_layers", "dec_layers")),
            ("hidden_size", ("enc_hid_size", "dec_hid_size")),
        ):
            if isinstance(value := options.get(both), int) and value > 0:
                filled |= dict.fromkeys(sides, value)
        return filled

    @property
    def tie(self) -> str:
        """Return the value of posnmt's setting `model.tie_embeddings`."""
        if not self.share_decoder_embeddings:
            return "none"
        return "all" if self.share_embeddings else "target"

    @property
    def position(self) -> list[dict[str, Any]]:
        """The position schemes, which are the same on both sides."""
        if self.max_relative_positions:
            return [{"scheme": "relative", "distance": self.max_relative_positions}]
        return [{"scheme": "sinusoidal"}] if self.position_encoding else []


def read(path: Path, languages: tuple[str, str], subwords: Sequence[Path] | None) -> Imported:
    """Read the model in a checkpoint.

    Args:
        path: the checkpoint.
        languages: codes of source and target.
        subwords: SentencePiece models of source and target; None: text is already split, with blanks between tokens.

    Raises:
        UserError: the file is not a checkpoint of OpenNMT-py 3, or posnmt's model cannot compute the same.
    """
    tree = unpickled(path, [Namespace])
    if not isinstance(tree, dict) or not {"opt", "vocab"} <= tree.keys() or not isinstance(tree["opt"], Namespace):
        raise UserError("not a checkpoint of OpenNMT-py 3: it has no opt and vocab", path, OTHER)
    options = _options(vars(tree["opt"]), path)
    vocabularies = [_vocabulary(tree["vocab"], side, path) for side in ("src", "tgt")]
    text, notes = _text(vocabularies, languages, subwords, path)
    file, tensors = _tensors(tree, path)
    return Imported(
        model={
            "d_model": options.enc_hid_size,
            "feed_forward": options.transformer_ff,
            "heads": options.heads,
            "norm": "pre",
            "norm_epsilon": options.norm_eps,
            "activation": options.pos_ffn_activation_fn,
            "source_end": False,
            "scale_embeddings": options.position_encoding,
            "tie_embeddings": options.tie,
            "encoder": {"layers": options.enc_layers, "position": options.position},
            "decoder": {"layers": options.dec_layers, "position": options.position},
        },
        text=text,
        weights=_weights(Checkpoint(tensors, file, options.enc_hid_size), options, vocabularies),
        format=FORMAT,
        files=[path, file, *(subwords or [])],
        notes=notes,
    )


def _options(tree: dict[str, Any], path: Path) -> Options:
    if tree.get("lora_layers") or tree.get("lora_embedding") or tree.get("quant_layers"):
        raise UserError("the checkpoint has LoRA or quantised layers", path, "merge them with OpenNMT-py first")
    try:
        options = Options.model_validate(tree)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        what = f"posnmt has no such model: {key} is {problem['input']!r}, {problem['msg']}"
        raise UserError(
            what if problem["type"] != "missing" else f"the checkpoint has no {key}", path, ELSEWHERE
        ) from None
    if options.position_encoding and options.position_encoding_type != "SinusoidalInterleaved":
        what = f"posnmt has no positions {options.position_encoding_type!r}, which have other frequencies"
        raise UserError(what, path, ELSEWHERE)
    if options.enc_hid_size != options.dec_hid_size or options.enc_hid_size % options.heads:
        what = f"hidden sizes {options.enc_hid_size} and {options.dec_hid_size} differ, or {options.heads} heads do not"
        raise UserError(f"{what} divide them", path, OTHER)
    return options


def _vocabulary(tree: Any, side: str, path: Path) -> Vocabulary:
    tokens = tree.get(side) if isinstance(tree, dict) else None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise UserError(f"not a checkpoint of OpenNMT-py 3: its vocabulary {side} is not a list of tokens", path, OTHER)
    ids = {token: number for number, token in enumerate(tokens)}
    begin = tree.get("decoder_start_token", SYMBOLS[2])
    symbols = [SYMBOLS[0], SYMBOLS[1], begin, SYMBOLS[3]]
    missing = [symbol for symbol in symbols if symbol not in ids]
    if missing and (side == "tgt" or SYMBOLS[1] in missing):
        raise UserError(f"the vocabulary {side} has no {missing[0]}", path, OTHER)
    return Vocabulary.of(tokens, *[ids.get(symbol, ids[SYMBOLS[1]]) for symbol in symbols])


def _text(
    vocabularies: Sequence[Vocabulary], languages: tuple[str, str], files: Sequence[Path] | None, path: Path
) -> tuple[TextPipeline, list[str]]:
    """The text pipeline, and what there is to say about it."""
    sides, notes = [], []
    for index, (vocabulary, language) in enumerate(zip(vocabularies, languages, strict=True)):
        if files is None:
            if any("▁" in piece for piece in vocabulary.pieces):
                what = "the vocabulary has pieces of SentencePiece, but no SentencePiece model is named"
                raise UserError(what, path, "add --source-subwords and --target-subwords")
            pieces = [*SPECIAL, *(f"▁{piece}" for piece in vocabulary.pieces[len(SPECIAL) :])]
            sides.append(SideText(Words(language), Subwords(blanks_alone(pieces[len(SPECIAL) :]), pieces)))
            continue
        subwords = Subwords(Subwords.load(files[index]).model, vocabulary.pieces)
        if unknown := vocabulary.unknown(subwords):
            name = files[index].name
            notes.append(f"{unknown:,} pieces of {name} are not in the vocabulary and are read as <unk>")
        sides.append(SideText(Words(language), subwords))
    return TextPipeline(sides[0], sides[1]), notes


def _tensors(tree: dict[str, Any], path: Path) -> tuple[Path, dict[str, Tensor]]:
    """The weights, which may be in a separate .safetensors file."""
    if "model" not in tree:
        separate = path.with_suffix(".safetensors")
        return separate, read_tensors(separate, described=False)[0]
    generator = tensors_of(tree.get("generator"), path)
    names = {name: f"generator.{name.removeprefix('0.')}" for name in generator}
    return path, tensors_of(tree["model"], path) | {names[name]: tensor for name, tensor in generator.items()}


def _weights(checkpoint: Checkpoint, options: Options, vocabularies: Sequence[Vocabulary]) -> dict[str, Tensor]:
    """The weights under posnmt's names; embeddings have the rows of posnmt's vocabularies."""
    sizes = [len(vocabulary.rows) for vocabulary in vocabularies]
    table = "{}.embeddings.make_embedding.emb_luts.0.weight"
    tables = [
        checkpoint.table(table.format(side), size)[vocabulary.rows]
        for side, size, vocabulary in zip(LAYERS, sizes, vocabularies, strict=True)
    ]
    projection = checkpoint.reads("generator", sizes[1])
    weights = embeddings(options.tie, tables[0], tables[1], vocabularies[1].output(*projection))
    for (side, (theirs, names)), layers in zip(LAYERS.items(), (options.enc_layers, options.dec_layers), strict=True):
        checkpoint.refuse_other_sinusoids(f"{side}.embeddings.make_embedding.pe.pe")
        for index in range(layers):
            weights |= checkpoint.layer(f"{side}.{index}", f"{theirs}.{index}", names, options.transformer_ff)
        weights |= {f"{side}_norm.{kind}": tensor for kind, tensor in named(checkpoint.norm(f"{side}.layer_norm"))}
    if options.max_relative_positions:
        shape = 2 * options.max_relative_positions + 1, options.enc_hid_size // options.heads
        for embedding, (theirs, _), layers in zip(
            ("source", "target"), LAYERS.values(), (options.enc_layers, options.dec_layers), strict=True
        ):
            for index in range(layers):
                name = f"{theirs}.{index}.self_attn.relative_positions_embeddings.weight"
                ours = f"{embedding}.schemes.0.layers.{index}"
                weights |= dict.fromkeys([f"{ours}.keys", f"{ours}.additions"], checkpoint.take(name, *shape))
    checkpoint.refuse_rest("")
    return weights
