"""Measure a trained model on lines: the attention on a pair, and the effect of position parts over many pairs.

Shapes: L layers, H heads, Tq queries, Tk keys, d model width, W distances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from posnmt.base.errors import UserError
from posnmt.data.subword import BOS, EOS
from posnmt.evaluation.analyse.seen import training_store
from posnmt.evaluation.show.embedded import moved_words, similarity
from posnmt.evaluation.show.vectors import embedded_norms, layer_norms
from posnmt.model.base import TranslationModel
from posnmt.model.ordered import OrderedEmbedding, OrderedTranslator
from posnmt.model.transformer import Transformer
from posnmt.run.run import Run
from posnmt.translate.attention import Recorded, offset_bias
from posnmt.translate.distances import ByDistance, Floats, Sums, mass, mean
from posnmt.translate.translator import Translator
from posnmt.translate.values import (
    AttentionMap,
    Attentions,
    DistanceBias,
    Positions,
    StackPositions,
    TrainedTokens,
    VectorNorms,
)

LEAST, MOST = 32, 256
"""Bounds of the default number of positions."""


def attentions(translator: Translator, source: str, target: str) -> Attentions:
    """The attention of the first model on a pair of lines.

    Raises:
        UserError: the model is not a Transformer, or a line is too long for a finite position table.
    """
    source_ids, target_ids, attended = translator.attend(source, target)
    tokens = translator.models[0].source_tokens(source_ids)
    read = [translator.text.source.subwords.pieces[token] for token in tokens]
    pieces = translator.text.target.subwords.pieces
    written = [pieces[token] for token in (BOS, *target_ids)]
    return Attentions(
        encoder=_map(read, read, attended.encoder),
        decoder=_map(written, written, attended.decoder),
        cross=_map(written, read, attended.cross),
        predicted=[pieces[token] for token in (*target_ids, EOS)],
    )


def has_attention(model: TranslationModel) -> bool:
    """Whether a model has attention by layer and head."""
    return isinstance(model, Transformer)


def has_schemes(model: TranslationModel) -> bool:
    """Whether a model has position schemes on either side, and whether they can be read."""
    return isinstance(model, OrderedTranslator) and bool(
        model.source.position_schemes() or model.target.position_schemes()
    )


def default_length(run: Run) -> int:
    """The default number of positions: twice that of the longest training sentence, within bounds."""
    longest = max((spread["longest"] + 1 for spread in run.training_lengths.values()), default=0)
    return min(max(2 * longest, LEAST), MOST)


def refuse_unpaired(sources: Sequence[str], targets: Sequence[str], name: str | Path, target_name: str | Path) -> None:
    """Refuse lines that are not translations of each other, or are all empty.

    Raises:
        UserError: different numbers of lines, or no line with text on both sides.
    """
    if len(sources) != len(targets):
        what = f"{len(sources):,} lines of {name} have {len(targets):,} translations"
        raise UserError(what, target_name, "line n of one must belong to line n of the other")
    if not any(source.strip() for source in sources):
        raise UserError("there is no line with text to look at", name, "name a text with at least one sentence")


def collect(
    translator: Translator, run: Run, sources: Sequence[str], targets: Sequence[str], length: int | None = None
) -> Positions:
    """The effect of the position parts of the first model, measured on pairs of lines whose source is not empty.

    Args:
        translator: of the run.
        run: knows the lengths of training.
        sources, targets: lines, equally many.
        length: see `Positions`; None: `default_length`.

    Raises:
        UserError: a length below 2, or a line too long for a finite position table.
    """
    length = default_length(run) if length is None else length
    if length < 2:
        raise UserError(f"at least 2 positions are needed; got {length}", "length")
    model, text = translator.models[0], translator.text
    pairs = [pair for pair in zip(sources, targets, strict=True) if pair[0].strip()]
    trained = trained_tokens(run)
    measured = _Measured.over(attentions(translator, *pair) for pair in pairs) if has_attention(model) else _Measured()
    stacks = {}
    for side, text_of, lines in (("encoder", text.source, [each[0] for each in pairs]),
                                 ("decoder", text.target, [each[1] for each in pairs])):  # fmt: skip
        ids = text_of.encode(lines)
        tokens = [model.source_tokens(row) if side == "encoder" else [BOS, *row] for row in ids]
        stacks[side] = _stack(model, side, measured, tokens, text_of.subwords.pieces, trained.get(side), length)
    return Positions(stacks["encoder"], stacks["decoder"], measured.cross, length, len(pairs))


class _Measured:
    """The means over the attention maps of several pairs; None where there are none."""

    def __init__(self) -> None:
        self.attention: dict[str, ByDistance] = {}
        self.logits: dict[str, ByDistance] = {}
        self.counted: dict[str, ByDistance] = {}
        self.cross: ByDistance | None = None

    @classmethod
    def over(cls, maps: Iterator[Attentions]) -> _Measured:
        """The means over these maps, which are read one after the other."""
        sums: dict[tuple[str, str], list[Sums]] = {}
        for pair in maps:
            for kind in ("encoder", "decoder", "cross"):
                each: AttentionMap = getattr(pair, kind)
                for name, values in (("attention", each.weights), ("logits", each.position), ("counted", each.counted)):
                    if values is not None:
                        sums.setdefault((name, kind), []).append(Sums.of(values, each.seen))
        measured = cls()
        for (name, kind), parts in sums.items():
            if kind == "cross":
                measured.cross = mass(parts)
            else:
                getattr(measured, name)[kind] = (mass if name == "attention" else mean)(parts)
        return measured


def _stack(
    model: TranslationModel,
    side: str,
    measured: _Measured,
    lines: list[list[int]],
    pieces: list[str],
    trained: TrainedTokens | None,
    length: int,
) -> StackPositions:
    """One stack; `lines` are the tokens that it reads, `pieces` its vocabulary."""
    bias = offset_bias(model, side, length) if has_attention(model) else None
    vectors: list[VectorNorms] = []
    alike = moved = None
    if isinstance(model, OrderedTranslator):
        embedding: OrderedEmbedding = model.source if side == "encoder" else model.target
        fitting = length if embedding.longest is None else min(length, embedding.longest)
        alike = similarity(embedding, lines, pieces, fitting)
        moved = moved_words(embedding, lines)
        vectors += embedded_norms(embedding, trained)
    if isinstance(model, Transformer):
        views = model.encoder_views if side == "encoder" else model.decoder_views
        vectors += layer_norms(views, trained, causal=side == "decoder")
    return StackPositions(
        trained,
        measured.attention.get(side),
        None if bias is None else DistanceBias(np.arange(1 - length, length), array(bias)),
        measured.logits.get(side),
        alike,
        moved,
        measured.counted.get(side),
        vectors,
    )


def _map(queries: list[str], keys: list[str], recorded: Recorded) -> AttentionMap:
    """Recorded attention as arrays with all layers; None for what no layer has."""
    return AttentionMap(
        queries,
        keys,
        array(torch.stack(recorded.weights)),
        torch.stack(recorded.seen).cpu().numpy(),
        _stacked(recorded.position, 0.0),
        _stacked(recorded.counted, math.nan),
        _stacked(recorded.penalties, math.nan),
    )


def _stacked(layers: Sequence[Tensor | None], otherwise: float) -> Floats | None:
    """The values of all layers as one array, with `otherwise` for layers that have none; None if no layer has any."""
    some = next((each for each in layers if each is not None), None)
    if some is None:
        return None
    return array(torch.stack([torch.full_like(some, otherwise) if each is None else each for each in layers]))


def array(tensor: Tensor) -> Floats:
    """A tensor as float32 on the CPU."""
    return cast(Floats, tensor.detach().float().cpu().numpy())


SIDES = {"encoder": "source", "decoder": "target"}
"""Stack -> side of the text."""


def trained_tokens(run: Run) -> dict[str, TrainedTokens]:
    """The lengths of training by stack, in tokens: a source ends with `</s>`, and a decoder begins with `<s>`.

    With `model.source_begin` a source begins with `<s>` as well.
    """
    spreads, lengths, begins = run.training_lengths, _lengths(run), run.config.model.source_begin
    return {
        stack: TrainedTokens(spreads[side]["shortest"] + more, spreads[side]["longest"] + more, lengths.get(side))
        for (stack, side), more in zip(SIDES.items(), (1 + begins, 1), strict=True)
        if side in spreads
    }


def _lengths(run: Run) -> dict[str, np.ndarray]:
    """The number of tokens of each training sentence by side; empty if the store is not here or cannot be read."""
    try:
        from posnmt.data.store import Store

        folder = training_store(run)
    except ModuleNotFoundError:  # the extra `train`, which translating does not need
        return {}
    if folder is None:
        return {}
    try:
        splits = Store.open(folder).trained()
    except UserError:
        return {}
    return {
        side: np.concatenate([getattr(split, f"{side}_lengths") for split in splits]).astype(np.int64) + more
        for side, more in zip(SIDES.values(), (1 + run.config.model.source_begin, 1), strict=True)
    }
