"""Decoding in buffers of fixed size, as CUDA graphs want it, finds what decoding finds; on a GPU by graphs too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import posnmt.translate.graphs as graphs
from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.data.subword import EOS
from posnmt.translate.graphs import Buffers, GraphedDecoder, NarrowWeights
from posnmt.translate.subwords import translate_subwords
from posnmt.translate.translator import Translator
from posnmt_position.seam import Span
from tests.support.tiny import MODELS, TRANSFORMERS, build, each_of, tokens

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch):
    """Rooms that short outputs outgrow."""
    monkeypatch.setattr(graphs, "TOKENS", 4)
    monkeypatch.setattr(graphs, "SOURCES", 4)


def sources(count: int, seed: int) -> list[list[int]]:
    lengths = torch.randint(1, 12, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
    return [tokens(1, length, seed=seed + place)[0].tolist() for place, length in enumerate(lengths)]


def translations(model, texts, beam):
    decode = Decode(beam=beam, max_ratio=1.0, max_extra=6, batch=40 * beam)
    return [
        [(each.tokens, each.log_probability) for each in found]
        for found in translate_subwords([model], texts, decode, DEVICE)
    ]


def same(found, wanted):
    assert [[words for words, _ in row] for row in found] == [[words for words, _ in row] for row in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        assert [p for _, p in ours] == pytest.approx([p for _, p in theirs], abs=1e-9)


@pytest.mark.parametrize("name", each_of(TRANSFORMERS))
@pytest.mark.parametrize("beam", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_buffers_change_nothing(name, beam):
    model = build(**{"init": "xavier", **MODELS[name]}).to(DEVICE)  # under which each system has long outputs
    texts = sources(8, seed=3)
    wanted = translations(model, texts, beam)
    assert any(len(words) > 8 for row in wanted for words, _ in row), "no output fills three sets of buffers"
    graphed = GraphedDecoder(model, budget=1e9, records=ON_GPU).eval()
    for _ in range(3 if ON_GPU else 2):  # buffers are used again; on a GPU, recorded and then replayed
        same(translations(graphed, texts, beam), wanted)
    same(translations(graphed, texts[3:], beam), wanted[3:])
    assert graphed.failure is None
    if ON_GPU:
        assert any(buffers.recorded for buffers in graphed._sets.values())


def test_buffers_that_take_too_much_are_given_up():
    model = build(system="transformer").to(DEVICE)
    texts = sources(14, seed=3)
    graphed = GraphedDecoder(model, budget=0, records=ON_GPU).eval()
    same(translations(graphed, texts, 3), translations(model, texts, 3))
    assert len(graphed._sets) == 1


@torch.inference_mode()
def test_a_batch_that_leaves_buffers_half_empty_is_not_disturbed_by_what_was_there():
    model = build(system="relative").to(DEVICE)
    graphed = GraphedDecoder(model, budget=1e9, records=ON_GPU).eval()
    row = tokens(1, 7)[0].tolist()
    for count in (4, 3):  # one set of buffers; the fourth sentence of the first batch stays in it
        batch = torch.tensor([[*row, EOS]] * count, device=DEVICE)
        encoded = graphed.encode(batch, torch.full((count,), 8, device=DEVICE))
        states = [each.start(encoded, torch.full((count,), 8, device=DEVICE)) for each in (graphed, model)]
        for token in (5, 6, 7):
            given = torch.full((count, 1), token, device=DEVICE)
            hidden, wanted = (each.advance(given, state) for each, state in zip((graphed, model), states, strict=True))
            torch.testing.assert_close(hidden, wanted, rtol=0, atol=1e-12)
    assert len(graphed._sets) == 1


class Emulated:
    """`torch.cuda`'s graphs for a CPU: what is recorded runs once and leaves no trace, and a replay runs it again.

    Args:
        failing: the number of the recording that fails, as PyTorch does: another stream stays current.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: int | None = None) -> None:
        self.recordings, self.replays, self.stream = 0, 0, "usual"
        run, called = Buffers.run, []

        def remembered(buffers: Buffers, *given: object) -> torch.Tensor:
            before = deepcopy((buffers.carry, buffers.inner))
            hidden = run(buffers, *given)
            if self.stream == "recording":
                buffers.carry, buffers.inner = before
                called[:] = [(buffers, *given), hidden]
            return hidden

        class Graph:
            def replay(graph) -> None:
                self.replays += 1
                graph.hidden.copy_(run(*graph.given))

        @contextmanager
        def recording(graph: Graph, pool: object) -> Iterator[None]:
            self.recordings += 1
            self.stream = "recording"
            yield
            if self.recordings == failing:
                raise RuntimeError("operation failed\nCUDA kernel errors might be reported later")
            self.stream = "usual"
            graph.given, graph.hidden = called

        monkeypatch.setattr(Buffers, "run", remembered)
        for name, value in {
            "graph": recording, "CUDAGraph": Graph, "graph_pool_handle": object, "current_stream": lambda: self.stream,
            "set_stream": lambda stream: setattr(self, "stream", stream),
        }.items():  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, value)


without_gpu = pytest.mark.skipif(ON_GPU, reason="the real graphs are tested")


@without_gpu
@pytest.mark.parametrize("name", ["transformer", "rnn", "rope"])
def test_replayed_steps_change_nothing(name, monkeypatch):
    emulated = Emulated(monkeypatch)
    model = build(**{"init": "xavier", **MODELS[name]})
    texts = sources(8, seed=3)
    wanted = translations(model, texts, 3)
    graphed = GraphedDecoder(model, budget=1e9).eval()
    for _ in range(3):
        same(translations(graphed, texts, 3), wanted)
    assert emulated.replays > emulated.recordings > 0


@without_gpu
def test_after_a_recording_that_fails_decoding_goes_on_without_graphs(monkeypatch):
    emulated = Emulated(monkeypatch, failing=3)
    model = build(system="transformer")
    texts = sources(8, seed=3)
    wanted = translations(model, texts, 3)
    graphed = GraphedDecoder(model, budget=1e9).eval()
    for _ in range(3):
        same(translations(graphed, texts, 3), wanted)
    assert (emulated.recordings, emulated.stream) == (3, "usual")
    assert (graphed.failure, graphed._pool) == ("operation failed", None)
    assert not any(buffers.recorded for buffers in graphed._sets.values())


@pytest.mark.skipif(not ON_GPU, reason="there is no GPU")
def test_after_a_real_recording_that_fails_decoding_goes_on_without_graphs(monkeypatch):
    run = Buffers.run

    def waiting(buffers, model, start):
        torch.cuda.synchronize()  # which no recording may do
        return run(buffers, model, start)

    model = build(system="transformer").to(DEVICE)
    texts = sources(8, seed=3)
    wanted = translations(model, texts, 3)
    monkeypatch.setattr(Buffers, "run", waiting)
    graphed, stream = GraphedDecoder(model, budget=1e9).eval(), torch.cuda.current_stream()
    for _ in range(3):
        same(translations(graphed, texts, 3), wanted)
    assert graphed.failure is not None
    assert torch.cuda.current_stream() == stream


@pytest.mark.parametrize("most", [1, 3])
def test_the_number_of_graphs_is_limited(most, monkeypatch):
    if not ON_GPU:
        Emulated(monkeypatch)
    monkeypatch.setattr(graphs, "GRAPHS", most)
    model = build(system="transformer").to(DEVICE)
    texts = sources(8, seed=3)
    wanted = translations(model, texts, 3)
    graphed = GraphedDecoder(model, budget=1e9).eval()
    for _ in range(3):
        same(translations(graphed, texts, 3), wanted)
        assert 0 <= sum(len(buffers.recorded) for buffers in graphed._sets.values()) <= most
    assert any(buffers.recorded for buffers in graphed._sets.values())


def test_a_graph_keeps_the_tables_that_it_reads(monkeypatch):
    """Anything that reads a longer target replaces the sinusoids, and the graph still reads the old ones."""
    if not ON_GPU:
        Emulated(monkeypatch)
    model = build(system="transformer").to(DEVICE)
    graphed = GraphedDecoder(model, budget=1e9).eval()
    for _ in range(2):
        translations(graphed, sources(2, seed=3), 3)
    [scheme] = model.target.schemes
    old = scheme._table
    scheme.embed(torch.zeros(1, len(old) + 1, model.config.d_model, device=DEVICE), Span(0, len(old) + 1, DEVICE), None)
    assert scheme._table is not old
    kept = [tables for buffers in graphed._sets.values() for _, _, tables in buffers.recorded.values()]
    assert kept
    assert all(any(table is old for table in tables) for tables in kept)


class Casts(TorchDispatchMode):
    """The shapes of the tensors that are cast to bf16."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: set[tuple[int, ...]] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten._to_copy.default and (kwargs or {}).get("dtype") == torch.bfloat16:
            self.shapes.add(tuple(args[0].shape))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", each_of(TRANSFORMERS))
def test_narrow_weights_change_nothing_under_autocast_and_are_taken_back(name, monkeypatch):
    monkeypatch.setenv("POSNMT_KERNELS", "never")  # which would be compiled for these sizes alone
    model = build(**MODELS[name]).float().to(DEVICE)
    source, target = tokens(3, 7).to(DEVICE), tokens(3, 5, seed=1).to(DEVICE)
    before = {name: (id(each), each.dtype) for name, each in model.named_parameters()}
    narrow = NarrowWeights(model)
    with torch.inference_mode(), torch.autocast(DEVICE.type, torch.bfloat16):
        wanted = model(source, None, target)
        with narrow.in_place(DEVICE):
            assert torch.equal(model(source, None, target), wanted)
            assert {each.dtype for each in model.parameters()} == {torch.float32, torch.bfloat16}
    assert {name: (id(each), each.dtype) for name, each in model.named_parameters()} == before
    with narrow.in_place(DEVICE):  # without autocast they are not used
        assert {each.dtype for each in model.parameters()} == {torch.float32}


@torch.no_grad()
def test_a_step_with_narrow_weights_casts_no_matrix():
    model = build(system="transformer").float().to(DEVICE)
    width, inner = model.config.d_model, model.config.feed_forward
    matrices = {(3 * width, width), (width, width), (inner, width), (width, inner)}
    narrow = NarrowWeights(model)
    with torch.autocast(DEVICE.type, torch.bfloat16, cache_enabled=False):
        state = model.start(model.encode(tokens(3, 7).to(DEVICE), None), None)
        for copies, found in ((False, matrices), (True, set())):
            with narrow.in_place(DEVICE) if copies else nullcontext(), Casts() as casts:
                model.advance(tokens(3, 1, seed=1).to(DEVICE), state)
            assert casts.shapes & matrices == found


@pytest.mark.skipif(ON_GPU, reason="there is a GPU")
def test_without_a_gpu_graphs_are_refused():
    with pytest.raises(UserError, match="CUDA graphs need a GPU"):
        Translator([build(system="transformer")], None, cuda_graphs=True)
