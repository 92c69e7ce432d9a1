"""Embedding lookups whose gradients can be collected for the words that were read only.

PyTorch's gradient of a lookup is as large as the table. A batch has about a thousand words and a table ten thousand or
more, so on a CPU, where the lookups of all parts of a batch add up to one gradient, most of the work would be on zeros.
Inside `recording`, the gradients of the words are kept separate, for the caller to add.

Shapes: V entries, d model width.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

_thread = threading.local()


@dataclass(frozen=True)
class Words:
    """One lookup.

    Attributes:
        weight: [V,d], the table that was read.
        tokens: [..] the entries that were read.
        embeddings: [..,d] their embeddings, a leaf of the graph of gradients.
    """

    weight: Tensor
    tokens: Tensor
    embeddings: Tensor

    def add_gradients(self, gradients: Tensor) -> None:
        """Add the gradients [..,d] of `embeddings` to those of the table, which must exist."""
        assert self.weight.grad is not None
        rows = gradients.reshape(-1, gradients.shape[-1]).to(self.weight.dtype)
        self.weight.grad.index_add_(0, self.tokens.reshape(-1), rows)


@contextmanager
def recording() -> Iterator[list[Words]]:
    """A context in which the lookups of this thread are recorded and pass no gradient to their tables."""
    outer, words = getattr(_thread, "words", None), list[Words]()
    _thread.words = words
    try:
        yield words
    finally:
        _thread.words = outer


def look_up(table: nn.Embedding, tokens: Tensor) -> Tensor:
    """Entries [..] -> embeddings [..,d]; a computed table, which is no `nn.Embedding`, has gradients of its own."""
    words: list[Words] | None = getattr(_thread, "words", None)
    if words is None or not isinstance(table, nn.Embedding) or not table.weight.requires_grad:
        embeddings: Tensor = table(tokens)
        return embeddings
    embeddings = functional.embedding(tokens, table.weight.detach()).requires_grad_()
    words.append(Words(table.weight, tokens, embeddings))
    return embeddings
