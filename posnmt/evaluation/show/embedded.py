"""The effect of schemes on the embeddings: similarity of positions, and the effect of a moved word elsewhere.

Shapes: B rows, T tokens, N positions, M words, d model width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from posnmt.model.lookup import look_up
from posnmt.model.ordered import OrderedEmbedding
from posnmt.translate.values import MovedWords, Similarity
from posnmt_position.seam import Scheme, Span, changes_embeddings

WORDS = 8
"""Number of frequent subwords over which the similarity is averaged if it depends on the word."""

ROUNDING = 1e-4
"""Changes below this share of the largest one are rounding errors."""


@torch.inference_mode()
def added(schemes: Sequence[Scheme], words: Tensor, length: int) -> Tensor | None:
    """[N,d] the vectors that schemes add to every word at each of N positions; None if they depend on the word.

    Args:
        words: [M,d] embeddings of different words.
        length: N.
    """
    rows = torch.cat([torch.zeros_like(words[:1]), words])[:, None].expand(-1, length, -1)
    change = _embed(schemes, rows) - rows
    if (change - change[:1]).abs().max() > ROUNDING * (1 + rows.abs().max()):
        return None
    return change[0]


@torch.inference_mode()
def similarity(
    embedding: OrderedEmbedding, lines: Sequence[Sequence[int]], pieces: Sequence[str], length: int
) -> Similarity | None:
    """The cosine of positions in one stack; None if no scheme changes the embeddings.

    Args:
        embedding: of the stack.
        lines: the tokens that it reads; the mean is over their most frequent words, without special symbols.
        pieces: the vocabulary.
        length: N, a number of positions that the schemes support.
    """
    schemes = embedding.position_schemes()
    if not any(changes_embeddings(type(each)) for each in schemes):
        return None
    tokens = frequent(lines)
    words = embedded(embedding, tokens)
    change = added(schemes, words, length)
    if change is not None:
        return Similarity(_cosine(change[None])[0], [])
    same = _embed(schemes, words[:, None].expand(-1, length, -1))
    return Similarity(_cosine(same).mean(axis=0), [pieces[token] for token in tokens])


@torch.inference_mode()
def moved_words(embedding: OrderedEmbedding, lines: Sequence[Sequence[int]]) -> MovedWords | None:
    """The mean change over all exchanges of neighbours in some lines; None if nothing changes at other words.

    Args:
        embedding: of the stack.
        lines: the tokens that it reads, with a special symbol at one end, which is never exchanged.
    """
    schemes = embedding.position_schemes()
    tokens = frequent(lines)
    if (
        not any(changes_embeddings(type(each)) for each in schemes)
        or added(schemes, embedded(embedding, tokens), 2) is not None
    ):
        return None
    longest = max(map(len, lines))
    totals, counts = np.zeros(2 * longest - 1), np.zeros(2 * longest - 1, np.int64)  # from distance 1 - longest on
    for line in lines:
        ordinary = [place for place in range(len(line) - 1) if line[place] > 3 and line[place + 1] > 3]
        places = [place for place in ordinary if line[place] != line[place + 1]]
        if not places:
            continue
        rows = [[*line[:place], line[place + 1], line[place], *line[place + 2 :]] for place in places]
        whole, *exchanged = _embed(schemes, embedded(embedding, [list(line), *rows]))
        lengths = whole.norm(dim=-1).clamp(min=1e-9)
        for place, row in zip(places, exchanged, strict=True):
            change = ((row - whole).norm(dim=-1) / lengths).cpu().numpy()
            window = slice(longest - 1 - place, longest - 1 - place + len(line))
            totals[window] += change
            counts[window] += 1
    distances = np.arange(1 - longest, longest)
    change = (totals / np.maximum(counts, 1)).astype(np.float32)
    others = (distances != 0) & (distances != 1)
    if not (change[others] > ROUNDING).any():
        return None
    return MovedWords(distances[counts > 0], change[counts > 0], counts[counts > 0])


def frequent(lines: Sequence[Sequence[int]]) -> list[int]:
    """The most frequent ordinary subwords of some lines; without any, the first one of the vocabulary."""
    counts = Counter(token for line in lines for token in line if token > 3)
    return sorted(counts, key=lambda token: (-counts[token], token))[:WORDS] or [4]


@torch.inference_mode()
def embedded(embedding: OrderedEmbedding, tokens: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
    """[..,d] the embeddings that schemes read."""
    ids = torch.tensor(tokens, device=embedding.table.weight.device)
    return look_up(embedding.table, ids) * embedding.scale


def _embed(schemes: Sequence[Scheme], x: Tensor) -> Tensor:
    """[B,T,d] after all schemes, one after the other."""
    span = Span(0, x.shape[1], x.device)
    for scheme in schemes:
        x, _ = scheme.embed(x, span, None)
    return x


def _cosine(vectors: Tensor) -> np.ndarray:
    """Return the cosine of each pair of vectors [B,N,d] as [B,N,N] float32."""
    unit = vectors.double() / vectors.double().norm(dim=-1, keepdim=True).clamp(min=1e-12)
    return (unit @ unit.mT).float().cpu().numpy()
