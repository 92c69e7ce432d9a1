"""Decoding steps as CUDA graphs: the operations of a step are recorded once and then replayed.

A step has some hundred small operations, and launching them one by one can take longer than running them. A graph
launches all at once, but with the addresses and shapes of its recording. So the state of the decoder is in sets of
buffers of a few sizes, with a graph for each step and set; rows and columns that a batch does not fill are computed and
not read. Schemes need no support for it: in a graph, the number of tokens before the step is constant.

Autocast would cast the weights at each replay. So a step is recorded with narrow copies of them, made once.

Shapes: S sentences, N hypotheses (N / S of a sentence), J source tokens, R capacity in target tokens, H heads, D width
of a head; the dimensions of a set of buffers are as large or larger.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from posnmt.model.base import TranslationModel
from posnmt.model.layers import DecoderLayer, FeedForward
from posnmt.model.state import DecoderState, LayerCache, select_rows
from posnmt.model.transformer import Transformer
from posnmt_position.seam import Carry

SOURCES = 16
"""The number of source tokens of a set of buffers is a multiple of this."""

TOKENS = 32
"""Target tokens of the smallest set; each larger one has twice as many."""

GRAPHS = 1024
"""The most graphs at a time: each takes memory for its operations and their results, which `budget` does not count."""


@dataclass
class Buffers:
    """Buffers of fixed size for the decoder's state, and the graphs recorded with them.

    Attributes:
        tokens: [N,1] the tokens of the next step.
        memory: for each layer the projected encoder output, keys and values [S,H,J,D].
        mask: [S,1,1,J] real source tokens; an unused row has one, so that its softmax is defined.
        length: R.
        caches: for each layer what `LayerCache` has, [N,H,R,..].
        carry, inner: the carries of the schemes and of the feed-forward layers.
        recorded: number of tokens before a step -> its graph, the graph's output, and tables that it reads.
        seen: steps that have run once without a graph, and so have made their permanent allocations.
    """

    tokens: Tensor
    memory: list[tuple[Tensor, Tensor]]
    mask: Tensor
    length: int
    caches: list[tuple[Tensor, ...] | None]
    carry: list[Carry] = field(default_factory=list)
    inner: list[Carry] = field(default_factory=list)
    recorded: dict[int, tuple[Any, Tensor, list[Tensor]]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def cache(self, like: Tensor) -> Tensor:
        """[N,H,R,m] zeros with the type, heads and width of what is cached [..,H,..,m]."""
        return like.new_zeros(len(self.tokens), like.shape[1], self.length, like.shape[3])

    def run(self, model: Transformer, start: int) -> Tensor:
        """[N,1,d] the output of one step of all rows, after `start` tokens."""
        caches = [_BufferCache(self, layer, start) for layer in range(len(self.caches))]
        carry: list[Carry] = [None] * len(model.target.schemes)
        if start and self.carry:
            carry = self.carry
            for cache, inner in zip(caches, self.inner, strict=True):
                cache.feed_forward = inner
        state = DecoderState(self.memory, self.mask, list[LayerCache | None](caches), carry, start)
        hidden = model.advance(self.tokens, state)
        self.keep(state.carry, [cache.feed_forward for cache in caches])
        return hidden

    def keep(self, carry: list[Carry], inner: list[Carry]) -> None:
        """Store the carries of schemes and feed-forward layers of the first rows."""
        self.carry, self.inner = self._put_all(self.carry, carry), self._put_all(self.inner, inner)

    def _put_all(self, buffers: list[Carry], new: list[Carry]) -> list[Carry]:
        pairs = zip(buffers or [None] * len(new), new, strict=True)
        return [_put(buffer, part, len(self.tokens)) for buffer, part in pairs]


class _BufferCache(LayerCache):
    """A cache of one layer that writes keys and values into buffers."""

    def __init__(self, buffers: Buffers, layer: int, start: int) -> None:
        super().__init__()
        self.buffers, self.layer, self.start = buffers, layer, start

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """See `LayerCache`; for one new token."""
        buffers = self.buffers.caches[self.layer]
        if buffers is None:
            buffers = self.buffers.caches[self.layer] = tuple(map(self.buffers.cache, new))
        for buffer, each in zip(buffers, new, strict=True):
            buffer[:, :, self.start : self.start + 1] = each
        return tuple(buffer[:, :, : self.start + 1] for buffer in buffers)


class GraphedState:
    """A decoder's `State` in a set of buffers; before the first step, the model's own state."""

    def __init__(self, owner: GraphedDecoder, begun: DecoderState) -> None:
        self.owner, self.begun = owner, begun
        self.buffers: Buffers | None = None
        self.sentences, self.sources, self.length = begun.sentences, begun.memory[0][0].shape[2], 0

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Keep these hypotheses in this order, as `DecoderState.select` does."""
        if self.buffers is None:
            self.begun.select(rows, sentences)
            self.sentences = self.begun.sentences
        else:
            self.sentences = self.sentences if sentences is None else len(sentences)
            self._move(rows, sentences)

    def enter(self, rows: int) -> Buffers:
        """The buffers for the next token of this number of rows."""
        if self.buffers is None:
            self.buffers = self.owner.buffers_for(self, rows, self.begun.memory)
            _place(self.buffers, self.begun.memory, self.begun.memory_mask)
        elif self.length == self.buffers.length:
            self._move(torch.arange(rows, device=self.buffers.tokens.device), None)
        return self.buffers

    def _move(self, rows: Tensor, sentences: Tensor | None) -> None:
        """Select rows of the buffers, and move them to a set of fitting size, which may be the same."""
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


class NarrowWeights:
    """The matrices of decoder layers in the type of autocast, so that a graph does not cast them at each replay.

    The products are those of autocast, to the bit. Weights of schemes and of other layers are cast as ever.
    """

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self._copies: dict[tuple[nn.Module, str, torch.dtype], nn.Parameter] = {}

    @contextmanager
    def in_place(self, device: torch.device) -> Iterator[None]:
        """A block in which the layers have these weights, if autocast is on; the copies are made before it."""
        wide = []
        if torch.is_autocast_enabled(device.type):
            dtype = torch.get_autocast_dtype(device.type)
            wide = [(each, name, own) for each in self._matrices() for name, own in each.named_parameters()]
            for each, name, own in wide:
                key = each, name, dtype
                if key not in self._copies:
                    self._copies[key] = nn.Parameter(own.detach().to(dtype), requires_grad=False)
                setattr(each, name, self._copies[key])
        try:
            yield
        finally:
            for each, name, own in wide:
                setattr(each, name, own)

    def _matrices(self) -> Iterator[nn.Module]:
        """The matrices of every step, which only products read."""
        for layer in self.model.decoder:
            if isinstance(layer, DecoderLayer):
                yield from (layer.attention.project, layer.attention.output, layer.cross.query, layer.cross.output)
                if isinstance(layer.feed_forward, FeedForward):
                    yield from (layer.feed_forward.fc1, layer.feed_forward.fc2)


class GraphedDecoder(TranslationModel):
    """A Transformer for `search`, on a GPU, one batch at a time.

    Args:
        model: in evaluation mode.
        budget: most bytes of all buffers together; the set in use is never freed.
        records: whether to record graphs; otherwise steps run without them in the same buffers.

    Attributes:
        failure: why a recording failed; None: no failure.
    """

    def __init__(self, model: Transformer, budget: float, records: bool = True) -> None:
        super().__init__(model.config)
        self.model, self.output = model, model.output
        self.budget, self.records = budget, records
        self.failure: str | None = None
        self._sets: OrderedDict[tuple[Any, ...], Buffers] = OrderedDict()
        self._pool: Any = None
        self._narrow = NarrowWeights(model)
        self._longest = 0

    def encode(self, source: Tensor, lengths: Tensor | None) -> Tensor:
        """Encode the source with the model itself; encoding has no graphs."""
        return self.model.encode(source, lengths)

    def start(self, encoded: Tensor, lengths: Tensor | None) -> GraphedState:
        """As the model; buffers are allocated for the first token."""
        return GraphedState(self, self.model.start(encoded, lengths))

    def advance(self, tokens: Tensor, state: GraphedState, lengths: Tensor | None = None) -> Tensor:
        """Read one token [N,1] of each hypothesis; returns [N,1,d], which the next step overwrites."""
        buffers = state.enter(len(tokens))
        buffers.tokens[: len(tokens)] = tokens
        hidden = self._step(buffers, state.length)
        state.length += 1
        return hidden[: len(tokens)]

    @property
    def longest_source(self) -> int | None:
        """The longest source that the model supports, as the model states it."""
        return self.model.longest_source

    @property
    def longest_target(self) -> int | None:
        """The longest target that the model supports, as the model states it."""
        return self.model.longest_target

    def buffers_for(self, state: GraphedState, rows: int, memory: list[tuple[Tensor, Tensor]]) -> Buffers:
        """The buffers for this number of rows of a state: an existing set of the right size, or a new one.

        Args:
            memory: keys and values, for their type and the width of heads.
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
        """Let schemes extend their tables to the longest set, and discard graphs, which would read the old tables."""
        buffers.run(self.model, min(buffers.length, self.model.longest_target or buffers.length) - 1)
        buffers.carry, buffers.inner, self._longest = [], [], buffers.length
        for each in self._sets.values():
            each.recorded.clear()

    def _step(self, buffers: Buffers, start: int) -> Tensor:
        """One step, by its graph if there is one; a step is recorded when it occurs for the second time."""
        if start not in buffers.recorded and self.records and start in buffers.seen:
            self._record(buffers, start)
        if start not in buffers.recorded:
            buffers.seen.add(start)
            return buffers.run(self.model, start)
        graph, hidden, _ = buffers.recorded[start]
        graph.replay()
        return hidden

    def _record(self, buffers: Buffers, start: int) -> None:
        """Record a step; after a failure, stop recording."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        while sum(len(each.recorded) for each in self._sets.values()) >= GRAPHS:
            next(each for each in self._sets.values() if each.recorded).recorded.clear()
        graph, caching = torch.cuda.CUDAGraph(), torch.is_autocast_cache_enabled()
        stream = torch.cuda.current_stream()
        # autocast frees its narrow copies of the weights when it ends, but the graph would still read them
        torch.set_autocast_cache_enabled(False)
        torch.clear_autocast_cache()
        try:
            with self._narrow.in_place(buffers.tokens.device), torch.cuda.graph(graph, pool=self._pool):
                hidden = buffers.run(self.model, start)
            buffers.recorded[start] = graph, hidden, _tables(self.model)
        except RuntimeError as error:
            torch.cuda.set_stream(stream)  # where recording fails, PyTorch leaves the stream of the recording current
            self.records, self.failure, self._pool = False, str(error).splitlines()[0], None
            for each in self._sets.values():
                each.recorded.clear()
        finally:
            torch.set_autocast_cache_enabled(caching)


def _tables(model: Transformer) -> list[Tensor]:
    """The tensors that the decoder's parts keep beside their weights, such as sinusoids.

    A part may replace them by longer ones at any time. A graph reads them by their addresses, so they must not be
    freed.
    """
    return [
        value
        for part in model.target.modules()
        for value in (*vars(part).values(), *part.buffers(recurse=False))
        if isinstance(value, Tensor)
    ]


def _place(buffers: Buffers, memory: list[tuple[Tensor, Tensor]], mask: Tensor | None) -> None:
    """Copy the projected source [S,H,J,D] of a batch into a set of buffers."""
    sentences, _, sources, _ = memory[0][0].shape
    for targets, values in zip(buffers.memory, memory, strict=True):
        for target, value in zip(targets, values, strict=True):
            target[:sentences, :, :sources] = value
    buffers.mask.zero_()
    buffers.mask[..., 0] = True
    buffers.mask[:sentences, ..., :sources] = True if mask is None else mask


def _put(buffer: Carry, new: Carry, rows: int) -> Carry:
    """Copy `new` into the first rows of a buffer, which is allocated for `rows` rows if it is None."""
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
