"""Another toolkit's vocabulary in posnmt's order: `<pad>`, `<unk>`, `<s>`, `</s>`, then the others in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sentencepiece import sentencepiece_model_pb2
from torch import Tensor

from posnmt.data.subword import Subwords

PROTO: Any = sentencepiece_model_pb2
"""The classes of SentencePiece's files, which are made when it is imported."""

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""The names of the special symbols, in the order of their ids."""

NEVER = -1e4
"""Bias of an entry that is never predicted: its probability is 0 in single and half precision, its logit is finite."""


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary in posnmt's order.

    Attributes:
        pieces: the pieces by posnmt's id, all different.
        rows: [V] the toolkit's id of each piece.
        doubles: posnmt's ids of special symbols that share an entry of the toolkit with a later one. They are never
            predicted; the later one is.
    """

    pieces: list[str]
    rows: Tensor
    doubles: list[int]

    @classmethod
    def of(cls, pieces: Sequence[str], pad: int, unk: int, begin: int, end: int) -> Vocabulary:
        """Reorder a toolkit's vocabulary.

        Args:
            pieces: its pieces by its ids.
            pad, unk, begin, end: its ids of padding, of the unknown symbol, and of the begin and end of an output.
        """
        special = [pad, unk, begin, end]
        others = [number for number in range(len(pieces)) if number not in special]
        doubles = [ours for ours, theirs in enumerate(special) if theirs in special[ours + 1 :]]
        return cls(_distinct([*SPECIAL, *(pieces[row] for row in others)]), torch.tensor(special + others), doubles)

    def output(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """The output projection, weight [V,d] and bias [V], in posnmt's order."""
        bias = bias[self.rows].clone()
        bias[self.doubles] = NEVER
        return weight[self.rows], bias

    def unknown(self, subwords: Subwords) -> int:
        """The number of pieces that a SentencePiece model can produce and the vocabulary does not have."""
        model = _proto(subwords.model)
        kinds = model.SentencePiece
        splits = (kinds.NORMAL, kinds.USER_DEFINED, kinds.BYTE)
        return len({piece.piece for piece in model.pieces if piece.type in splits} - {*self.pieces})


def with_symbols(model: bytes, symbols: Iterable[str]) -> bytes:
    """Change a SentencePiece model so that it never splits some symbols at the beginning of a word."""
    tree = _proto(model)
    own = {piece.piece for piece in tree.pieces}
    for symbol in symbols:
        if symbol not in own:
            tree.pieces.add(piece=symbol, score=0.0, type=tree.SentencePiece.USER_DEFINED)
    return bytes(tree.SerializeToString())


def blanks_alone(pieces: Sequence[str]) -> bytes:
    """A SentencePiece model that splits text at blanks and changes nothing. Its pieces are `▁` and a word."""
    tree = PROTO.ModelProto()
    kinds = PROTO.ModelProto.SentencePiece
    tree.pieces.add(piece=SPECIAL[1], score=0.0, type=kinds.UNKNOWN)
    for piece in dict.fromkeys(pieces):
        tree.pieces.add(piece=piece, score=0.0, type=kinds.NORMAL)
    tree.trainer_spec.model_type = PROTO.TrainerSpec.WORD
    tree.trainer_spec.vocab_size = len(tree.pieces)
    tree.normalizer_spec.name = "identity"
    return bytes(tree.SerializeToString())


def settings(subwords: Subwords) -> dict[str, Any]:
    """The part of a configuration's `subword` section that a SentencePiece model determines."""
    tree = _proto(subwords.model)
    bpe = tree.trainer_spec.model_type == type(tree.trainer_spec).BPE
    rule = tree.normalizer_spec.name
    return {
        "type": "bpe" if bpe else "unigram",
        "vocabulary": max(1, len(subwords) - len(SPECIAL)),
        **({"normalisation": rule} if rule in ("nmt_nfkc", "nfkc", "identity") else {}),
    }


def _proto(model: bytes) -> Any:
    return PROTO.ModelProto.FromString(model)


def _distinct(pieces: Iterable[str]) -> list[str]:
    """Make pieces distinct by adding `'` to those that occurred before: a `<s>` that is not ours becomes `<s>'`."""
    seen: dict[str, None] = {}
    for piece in pieces:
        while piece in seen:
            piece += "'"
        seen[piece] = None
    return list(seen)
