"""Looking words up in a table of embeddings, and the gradients of the words that were read.

PyTorch's gradient of a lookup is as large as the table. A batch has a thousand words and a table some ten thousand, so
on a CPU, where several lookups of several parts of a batch add up to one gradient, most of that is zeros written and
added. Inside `recording`, a lookup keeps the gradients of its words apart, for the caller to add.

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
        tokens: [..] the entries.
        found: [..,d] their embeddings, a leaf of the graph of gradients.
    """

    weight: Tensor
    tokens: Tensor
    embeddings: Tensor

    def add_gradients(self, gradients: Tensor) -> None:
        """Add the gradients [..,d] of `found` to those of the table, which must be there."""
        assert self.weight.grad is not None
        rows = gradients.reshape(-1, gradients.shape[-1]).to(self.weight.dtype)
        self.weight.grad.index_add_(0, self.tokens.reshape(-1), rows)


@contextmanager
def recording() -> Iterator[list[Words]]:
    """Inside, the lookups of this thread are listed, and no gradient passes from them to their tables."""
    outer, words = getattr(_thread, "words", None), list[Words]()
    _thread.words = words
    try:
        yield words
    finally:
        _thread.words = outer


def look_up(table: nn.Embedding, tokens: Tensor) -> Tensor:
    """Entries [..] -> embeddings [..,d]."""
    words: list[Words] | None = getattr(_thread, "words", None)
    if words is None or not table.weight.requires_grad:
        embeddings: Tensor = table(tokens)
        return embeddings
    embeddings = functional.embedding(tokens, table.weight.detach()).requires_grad_()
    words.append(Words(table.weight, tokens, embeddings))
    return embeddings
