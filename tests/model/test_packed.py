"""Packed layers: the float32 model within bfloat16's rounding; what search makes of narrow logits."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from posnmt.base.parallel.threads import Workers
from posnmt.config.schema import Activation, Decode
from posnmt.data.subword import BOS, EOS
from posnmt.model.packed import PackedLinear, pack
from posnmt.translate.bounds import Next
from posnmt.translate.continuations import SHARE, continuations, largest, log_normaliser
from posnmt.translate.search import _pad_to_bucket
from posnmt.translate.subwords import translate_subwords
from posnmt.translate.translator import Translator
from posnmt_position.fire import FEW
from posnmt_position.processor import multiplies_bf16
from tests.support import tiny

needs_bf16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="oneDNN neither multiplies bfloat16 on this CPU nor emulates it",
)


def texts(count):
    return [tiny.tokens(1, 1 + number % 7, seed=number)[0].tolist() for number in range(count)]


@needs_bf16
@pytest.mark.parametrize("name", tiny.each_of())
def test_a_model_packed_in_bf16_is_the_model_within_rounding(name):
    plain, packed = (tiny.build(**tiny.MODELS[name]).float() for _ in range(2))
    pack(packed, torch.bfloat16)
    source, target = tiny.tokens(5, 9), tiny.tokens(5, 7, seed=1)
    with torch.inference_mode():
        wanted = plain.project(plain(source, None, target))
        with torch.autocast("cpu", torch.bfloat16):
            narrow = plain.project(plain(source, None, target)).float()
            found = packed.project(packed(source, None, target)).float()
    assert not torch.equal(found, wanted)
    assert (found - wanted).norm() < 2 * (narrow - wanted).norm() + 1e-3 * wanted.norm()
    assert (found - wanted).norm() < 0.05 * wanted.norm()


@pytest.mark.parametrize(("system", "count"), [("transformer", 0), ("re-both", 12), ("transformer-xl", 4)])
def test_position_schemes_are_packed(system, count):
    model = tiny.build(system=system).float()
    pack(model, torch.float32)
    found = [*model.source.schemes.modules(), *model.target.schemes.modules()]
    assert sum(isinstance(part, PackedLinear) for part in found) == count
    assert not any(isinstance(part, torch.nn.Linear) for part in found)


def test_fire_packed_is_fire_beyond_few_distances():
    """With so many distances, FIRE reads the weights of its network instead of calling it."""
    plain, packed = (tiny.build(system="fire", d_model=32, heads=8).float() for _ in range(2))
    pack(packed, torch.float32)
    source, target = tiny.tokens(2, 9), tiny.tokens(2, 140, seed=1)
    assert target.shape[1] ** 2 > FEW
    with torch.inference_mode():
        torch.testing.assert_close(packed(source, None, target), plain(source, None, target), rtol=1e-4, atol=1e-4)


@needs_bf16
def test_the_network_of_fire_stays_in_float32():
    """Half precision cannot distinguish large distances."""
    plain, packed = (tiny.build(system="fire", d_model=32, heads=8).float() for _ in range(2))
    pack(packed, torch.bfloat16)
    offsets, farthest = -torch.arange(100), torch.tensor(99)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        wanted, biases = (model.encoder_views[1].biasing[0]._network(offsets, farthest) for model in (plain, packed))
    assert torch.equal(biases, wanted)


@pytest.mark.parametrize("activation", get_args(Activation))
def test_each_activation_is_fused(activation):
    model = tiny.build(system="relative", activation=activation).float()
    plain, x = model.encoder[0].feed_forward, 3 * torch.randn(1, 7, 16)
    fc1, fc2 = plain.fc1, plain.fc2
    function = getattr(torch.nn.functional, activation)
    wanted = function(x @ fc1.weight.T + fc1.bias) @ fc2.weight.T + fc2.bias
    torch.testing.assert_close(plain(x, None), wanted)
    pack(model, torch.float32)
    assert isinstance(plain.fc1, PackedLinear)
    torch.testing.assert_close(plain(x, None), wanted)


def test_only_what_a_head_may_read_is_packed():
    model = tiny.build(system="mpr-head").float()
    project, reads = model.encoder[0].attention.project, model.encoder_views[0].reads()
    assert not reads.all()
    x = torch.randn(3, 16)
    torch.testing.assert_close(PackedLinear(project, torch.float32, reads=reads)(x), wanted := project(x, reads))
    assert not torch.allclose(wanted, project(x), atol=0.05)


def test_the_precision_that_is_asked_for():
    def translator(system, precision):
        return Translator([tiny.build(system=system).float()], text=None, precision=precision)

    narrow = torch.bfloat16 if multiplies_bf16() else torch.float32
    for system in ("rope", "rnn-nmt"):
        for precision, dtype in (("fp32", torch.float32), ("bf16", narrow)):
            made = translator(system, precision)
            assert made.models[0].output.dtype == dtype
            assert len(made.notes) == (precision == "bf16" and narrow == torch.float32)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_the_normaliser_is_the_logarithm_of_the_sum(kind):
    logits = (torch.randn(150, 333) * 5).to(kind)
    wide = logits.double()
    torch.testing.assert_close(log_normaliser(logits).double(), wide.logsumexp(-1, keepdim=True), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [7, SHARE, 5 * SHARE, 40 * SHARE, 40 * SHARE + 1, 40 * SHARE + 63])
@pytest.mark.parametrize("count", [2, 5])
def test_the_largest_are_those_of_topk(size, count):
    torch.manual_seed(size)
    logits = torch.randperm(30 * size, dtype=torch.float32)[: 30 * size].view(30, size)
    found, wanted = largest(logits, count), logits.topk(count)
    assert torch.equal(found[0], wanted.values)
    assert torch.equal(found[1], wanted.indices)


def test_the_largest_among_equals_are_different_entries():
    values, places = largest(torch.zeros(3, 40 * SHARE + 5), 4)
    assert values.tolist() == [[0.0] * 4] * 3
    assert all(len(set(row)) == 4 for row in places.tolist())


@pytest.mark.parametrize("members", [1, 2])
def test_narrow_logits_are_computed_again_where_it_matters(members, monkeypatch):
    models = [tiny.build(system="relative").float() for _ in range(members)]
    source, first = tiny.tokens(40, 9), torch.full((40, 1), BOS)
    for seed, model in enumerate(models):
        torch.manual_seed(seed)
        torch.nn.init.normal_(model.output.weight, std=2.0)
    following = [Next(EOS if row == 7 else None, may_end=True) for row in range(40)]

    def found(scored=True):
        states = [model.start(model.encode(source, None), None) for model in models]
        return continuations(models, states, first, 4, following, scored)

    with torch.inference_mode():
        wanted_values, wanted_tokens = found()
        for model in models:
            monkeypatch.setattr(model, "project", lambda hidden, wide=model.project: wide(hidden).bfloat16())
        values, tokens = found()
        if members == 1:
            bare_values, bare_tokens = found(scored=False)
            assert torch.equal(bare_tokens, tokens)
            assert torch.equal(bare_values.argmax(-1), values.argmax(-1))
    assert torch.equal(
        tokens[torch.arange(40), values.argmax(-1)], wanted_tokens[torch.arange(40), wanted_values.argmax(-1)]
    )
    others = torch.arange(40) != 7  # there nothing but eos stands, and the others' change is not known
    assert (values.amax(-1) - wanted_values.amax(-1))[others].abs().mean() < 2.5e-3
    assert (tokens[7, values[7].isfinite()] == EOS).all()


def test_a_batch_shrinks_in_round_steps():
    assert _pad_to_bucket([1, 4], 5) == [1, 4]
    assert _pad_to_bucket(list(range(0, 34, 2)), 40) == [0, 1, *range(2, 34, 2)]
    assert len(_pad_to_bucket(list(range(260)), 300)) == 288
    assert len(_pad_to_bucket(list(range(299)), 300)) == 300


@pytest.mark.parametrize("beam", [1, 4])
def test_workers_give_what_one_gives(beam):
    torch.set_num_threads(2)
    model, workers, decode = tiny.build(system="relative"), Workers(), Decode(beam=beam, max_extra=4, batch=100)
    sources = [[], *texts(60)]
    one, several = (translate_subwords([model], sources, decode, torch.device("cpu"), each) for each in (None, workers))
    workers.close()
    assert [[h.tokens for h in found] for found in one] == [[h.tokens for h in found] for found in several]
    assert one[0] == []
    assert all(one[1:])
