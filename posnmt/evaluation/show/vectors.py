"""Trained vectors of positions or distances: their lengths, and the share of training sentences that train them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from posnmt.evaluation.show.embedded import added, embedded, frequent
from posnmt.model.ordered import OrderedEmbedding
from posnmt.translate.distances import Integers
from posnmt.translate.values import TrainedTokens, VectorNorms
from posnmt_position.distance_vectors import ByDistanceVectors
from posnmt_position.seam import LayerPositions, changes_embeddings


def embedded_norms(embedding: OrderedEmbedding, trained: TrainedTokens | None) -> list[VectorNorms]:
    """The vectors that schemes with parameters add to every word at each position of a finite table."""
    norms = []
    for scheme in embedding.position_schemes():
        if not changes_embeddings(type(scheme)) or scheme.longest is None or not any(True for _ in scheme.parameters()):
            continue
        vectors = added([scheme], embedded(embedding, frequent([])), scheme.longest)
        if vectors is not None:
            places = np.arange(scheme.longest)
            norms.append(_norms("words", "position", places, [vectors], trained))
    return norms


def layer_norms(views: Sequence[LayerPositions], trained: TrainedTokens | None, causal: bool) -> list[VectorNorms]:
    """The trained vectors of clipped distances, on keys and on values.

    Args:
        views: of each layer.
        trained: lengths of training.
        causal: whether keys to the right are hidden, so that no training sentence has positive distances.
    """
    norms = []
    for name in ("keys", "values"):
        tables = [_table(view, name) for view in views]
        reach = max((len(table) // 2 for table in tables if table is not None), default=None)
        if reach is not None:
            padded = [_up_to(reach, table) for table in tables]
            norms.append(_norms(name, "distance", np.arange(-reach, reach + 1), padded, trained, causal))
    return norms


def _table(view: LayerPositions, name: str) -> Tensor | None:
    """[2k+1,D] the trained vectors of a layer on `keys` or `values`; None if it has none."""
    for each in [*view.biasing, *view.adding]:
        if isinstance(each, ByDistanceVectors):
            table = getattr(each.distance_vectors(), name)
            if isinstance(table, nn.Parameter):
                return table
    return None


def _up_to(reach: int, table: Tensor | None) -> Tensor:
    """Vectors for the distances up to `reach` [2 reach + 1,D], NaN where there are none, on the CPU."""
    table = torch.full((1, 1), math.nan) if table is None else table.float().cpu()
    missing = reach - len(table) // 2
    return functional.pad(table, (0, 0, missing, missing), value=math.nan)


def _norms(
    name: str,
    kind: str,
    places: Integers,
    tables: Sequence[Tensor],
    trained: TrainedTokens | None,
    causal: bool = False,
) -> VectorNorms:
    with torch.inference_mode():
        norms = torch.stack([table.float().norm(dim=-1) for table in tables]).cpu().numpy()
    share = np.full(len(places), np.nan, np.float32) if trained is None else trained.share(places)
    if causal:
        share = np.where(places > 0, np.float32(0), share)
    assert kind in ("position", "distance")
    return VectorNorms(name, kind, places, norms, share)  # type: ignore[arg-type]
