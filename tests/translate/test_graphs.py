"""Decoding in buffers of fixed size, as CUDA graphs want it, finds what decoding finds; on a GPU by graphs too."""

from __future__ import annotations

import pytest
import torch

import posnmt.translate.graphs as graphs
from posnmt.config.schema import Decode
from posnmt.data.subword import EOS
from posnmt.errors import UserError
from posnmt.translate.graphs import GraphedDecoder
from posnmt.translate.subwords import translate_subwords
from posnmt.translate.translator import Translator
from tiny import MODELS, TRANSFORMERS, build, tokens

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


@pytest.mark.parametrize("name", TRANSFORMERS)
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


@pytest.mark.skipif(ON_GPU, reason="there is a GPU")
def test_without_a_gpu_graphs_are_refused():
    with pytest.raises(UserError, match="CUDA graphs need a GPU"):
        Translator([build(system="transformer")], None, cuda_graphs=True)
