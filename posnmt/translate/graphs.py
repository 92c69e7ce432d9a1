"""Steps of decoding as CUDA graphs: what a step starts on a GPU is recorded once and replayed where it comes again.

A step is some hundred small operations, and to start them one by one can take longer than the GPU takes for them. A
graph starts them at once, but on the addresses and the shapes that it was recorded with. So what the decoder remembers
stands in sets of buffers of a few sizes, with a graph for each step and set; rows and places that a batch does not
fill are computed and not read. No scheme knows of it: in its own graph, the number of tokens before a step is constant.

Shapes: S sentences, N hypotheses (N / S of a sentence), J source tokens, R tokens that a set holds, H heads, D width
of a head; a set of buffers has as many or more of each.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from posnmt.model.base import TranslationModel
from posnmt.model.state import DecoderState, LayerCache, select_rows
from posnmt.model.transformer import Transformer
from posnmt.position.seam import Carry

SOURCES = 16
"""The source tokens of a set of buffers are a multiple of so many."""

TOKENS = 32
"""Target tokens of the smallest set; the next one has twice as many."""


@dataclass
class Buffers:
    """Memory of fixed size for the decoder's state, and what was recorded in it.

    Attributes:
        tokens: [N,1] what is read next.
        memory: for each layer the projected encoder output, keys and values [S,H,J,D].
        mask: [S,1,1,J] real source tokens; a row that stands for no sentence has one.
        length: R.
        caches: self-attention keys and values, and perhaps unturned keys, [N,H,R,D] for each layer.
        carry, inner: what the schemes and the feed-forward layers remember.
        recorded: for a number of tokens before a step its graph and what that gives.
        seen: steps that were computed once: what they allocate for good is there.
    """

    tokens: Tensor
    memory: list[tuple[Tensor, Tensor]]
    mask: Tensor
    length: int
    caches: list[tuple[Tensor, ...] | None]
    carry: list[Carry] = field(default_factory=list)
    inner: list[Carry] = field(default_factory=list)
    recorded: dict[int, tuple[Any, Tensor]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def cache(self, like: Tensor) -> Tensor:
        """[N,H,R,D] zeros of the type and the heads of keys or values [..,H,..,D]."""
        return like.new_zeros(len(self.tokens), like.shape[1], self.length, like.shape[3])

    def run(self, model: Transformer, start: int) -> Tensor:
        """One step of all rows, after `start` tokens: [N,1,d]."""
        caches: list[LayerCache] = [_BufferCache(self, layer, start) for layer in range(len(self.caches))]
        carry: list[Carry] = [None] * len(model.target.schemes)
        if start and self.carry:
            carry = self.carry
            for cache, inner in zip(caches, self.inner, strict=True):
                cache.feed_forward = inner
        state = DecoderState(self.memory, self.mask, caches, carry, start)
        hidden = model.advance(self.tokens, state)
        self.keep(state.carry, [cache.feed_forward for cache in caches])
        return hidden

    def keep(self, carry: list[Carry], inner: list[Carry]) -> None:
        """Put what schemes and feed-forward layers remember of the first rows in its place."""
        self.carry, self.inner = self._put_all(self.carry, carry), self._put_all(self.inner, inner)

    def _put_all(self, buffers: list[Carry], new: list[Carry]) -> list[Carry]:
        pairs = zip(buffers or [None] * len(new), new, strict=True)
        return [_put(buffer, part, len(self.tokens)) for buffer, part in pairs]


class _BufferCache(LayerCache):
    """Keys and values of one layer, written into a buffer."""

    def __init__(self, buffers: Buffers, layer: int, start: int) -> None:
        super().__init__()
        self.buffers, self.layer, self.start = buffers, layer, start

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """See `LayerCache`; one token is new."""
        buffers = self.buffers.caches[self.layer]
        if buffers is None:
            buffers = self.buffers.caches[self.layer] = tuple(map(self.buffers.cache, new))
        for buffer, each in zip(buffers, new, strict=True):
            buffer[:, :, self.start : self.start + 1] = each
        return tuple(buffer[:, :, : self.start + 1] for buffer in buffers)


class GraphedState:
    """A decoder's `State` in a set of buffers; before the first step, as the model has it."""

    def __init__(self, owner: GraphedDecoder, begun: DecoderState) -> None:
        self.owner, self.begun = owner, begun
        self.buffers: Buffers | None = None
        self.sentences, self.sources, self.length = begun.sentences, begun.memory[0][0].shape[2], 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """See `DecoderState.select`."""
        if self.buffers is None:
            self.begun.select(rows, sentences)
            self.sentences = self.begun.sentences
        else:
            self.sentences = self.sentences if sentences is None else len(sentences)
            self._move(rows, sentences)

    def enter(self, rows: int) -> Buffers:
        """The buffers where the next token of so many rows has its place."""
        if self.buffers is None:
            self.buffers = self.owner.buffers_for(self, rows, self.begun.memory)
            _place(self.buffers, self.begun.memory, self.begun.memory_mask)
        elif self.length == self.buffers.length:
            self._move(torch.arange(rows, device=self.buffers.tokens.device), None)
        return self.buffers

    def _move(self, rows: Tensor, sentences: Tensor | None) -> None:
        """To these rows of the buffers, in the set that then fits, which may be the same."""
        old = self.buffers
        assert old is not None
        new = self.buffers = self.owner.buffers_for(self, len(rows), old.memory)
        if sentences is None and new is not old:
            sentences = torch.arange(self.sentences, device=rows.device)
        if sentences is not None:
            chosen = [
                (keys.index_select(0, sentences), values.index_select(0, sentences)) for keys, values in old.memory
            ]
            _place(new, chosen, old.mask.index_select(0, sentences))
        for layer, cached in enumerate(old.caches):
            assert cached is not None
            selected = [each[:, :, : self.length].index_select(0, rows) for each in cached]
            buffers = new.caches[layer]
            if buffers is None:
                buffers = new.caches[layer] = tuple(map(new.cache, selected))
            for buffer, each in zip(buffers, selected, strict=True):
                buffer[: len(rows), :, : self.length] = each
        new.keep([select_rows(each, rows) for each in old.carry], [select_rows(each, rows) for each in old.inner])


class GraphedDecoder(TranslationModel):
    """A Transformer for `search`, on a GPU, one batch at a time.

    Args:
        model: in evaluation mode.
        budget: bytes that buffers may take together, but that the one in use is never given up.
        records: whether graphs are recorded; without, each step is started anew, in the same buffers.

    Attributes:
        failure: why recording was given up, if it was.
    """

    def __init__(self, model: Transformer, budget: float, records: bool = True) -> None:
        super().__init__(model.config)
        self.model, self.output = model, model.output
        self.budget, self.records = budget, records
        self.failure: str | None = None
        self._sets: OrderedDict[tuple[Any, ...], Buffers] = OrderedDict()
        self._pool: Any = None
        self._longest = 0

    def encode(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """As the model."""
        return self.model.encode(source, lengths)

    def start(self, encoded: Tensor, lengths: Tensor | None) -> GraphedState:
        """As the model; a set of buffers is taken with the first token."""
        return GraphedState(self, self.model.start(encoded, lengths))

    def advance(self, tokens: Tensor, state: GraphedState, lengths: Tensor | None = None) -> Tensor:
        """Read one token [N,1] of each hypothesis: [N,1,d], which the next step overwrites."""
        buffers = state.enter(len(tokens))
        buffers.tokens[: len(tokens)] = tokens
        hidden = self._step(buffers, state.length)
        state.length += 1
        return hidden[: len(tokens)]

    @property
    def longest_source(self) -> int | None:
        """As the model."""
        return self.model.longest_source

    @property
    def longest_target(self) -> int | None:
        """As the model."""
        return self.model.longest_target

    def buffers_for(self, state: GraphedState, rows: int, memory: list[tuple[Tensor, Tensor]]) -> Buffers:
        """The buffers for so many rows of a state: an old one of the right size, or a new one.

        Args:
            memory: what says the type and the width of heads.
        """
        sentences = 1 << (state.sentences - 1).bit_length()
        hypotheses, sources = rows // state.sentences, -(-state.sources // SOURCES) * SOURCES
        length = TOKENS
        while length <= state.length:
            length *= 2
        keys = memory[0][0]
        key = sentences, hypotheses, sources, length, keys.dtype
        buffers = self._sets.get(key)
        if buffers is None:
            shape = sentences, keys.shape[1], sources, keys.shape[3]
            buffers = self._sets[key] = Buffers(
                torch.zeros(sentences * hypotheses, 1, dtype=torch.long, device=keys.device),
                [(keys.new_zeros(shape), keys.new_zeros(shape)) for _ in memory],
                torch.ones(sentences, 1, 1, sources, dtype=torch.bool, device=keys.device),
                length,
                [None] * len(memory),
            )
            if length > self._longest:
                self._lengthen(buffers)
        self._sets.move_to_end(key)
        while len(self._sets) > 1 and sum(map(_size, self._sets.values())) > self.budget:
            self._sets.popitem(last=False)
        return buffers

    def _lengthen(self, buffers: Buffers) -> None:
        """Let schemes make their tables as long as the longest set: graphs of before would read the old ones."""
        buffers.run(self.model, min(buffers.length, self.model.longest_target or buffers.length) - 1)
        buffers.carry, buffers.inner, self._longest = [], [], buffers.length
        for each in self._sets.values():
            each.recorded.clear()

    def _step(self, buffers: Buffers, start: int) -> Tensor:
        """One step, by its graph where there is one; a step that comes for the second time is recorded."""
        if start not in buffers.recorded and self.records and start in buffers.seen:
            self._record(buffers, start)
        if start not in buffers.recorded:
            buffers.seen.add(start)
            return buffers.run(self.model, start)
        graph, hidden = buffers.recorded[start]
        graph.replay()
        return hidden

    def _record(self, buffers: Buffers, start: int) -> None:
        """Record a step, or give recording up."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph, caching = torch.cuda.CUDAGraph(), torch.is_autocast_cache_enabled()
        # autocast forgets its narrow copies of the weights when it ends, and the graph would read them then
        torch.set_autocast_cache_enabled(False)
        torch.clear_autocast_cache()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                hidden = buffers.run(self.model, start)
            buffers.recorded[start] = graph, hidden
        except RuntimeError as error:
            self.records, self.failure = False, str(error).splitlines()[0]
        finally:
            torch.set_autocast_cache_enabled(caching)


def _place(buffers: Buffers, memory: list[tuple[Tensor, Tensor]], mask: Tensor | None) -> None:
    """Put the projected source [S,H,J,D] of a batch into a set of buffers."""
    sentences, _, sources, _ = memory[0][0].shape
    for targets, values in zip(buffers.memory, memory, strict=True):
        for target, value in zip(targets, values, strict=True):
            target[:sentences, :, :sources] = value
    buffers.mask.zero_()
    buffers.mask[..., 0] = True
    buffers.mask[:sentences, ..., :sources] = True if mask is None else mask


def _put(buffer: Carry, new: Carry, rows: int) -> Carry:
    """`new` in the first rows of `held`, or of memory for so many rows where there is none yet."""
    if new is None:
        return buffer
    if isinstance(new, Tensor):
        buffer = new.new_zeros(rows, *new.shape[1:]) if buffer is None else buffer
        buffer[: len(new)] = new
        return buffer
    return tuple(_put(None if buffer is None else buffer[place], part, rows) for place, part in enumerate(new))


def _size(buffers: Buffers) -> int:
    """Bytes of the largest buffers of a set."""
    tensors = [*buffers.memory, *(each for each in buffers.caches if each is not None)]
    return sum(part.nbytes for parts in tensors for part in parts)
