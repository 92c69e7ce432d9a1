"""What the published code of a paper sets and its text does not: normalisation, first values, places of dropout."""

from __future__ import annotations

import math

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.data.subword import BOS
from posnmt.model.registry import build_model
from posnmt.translate.subwords import translate_subwords
from posnmt_position.relative import Relative
from posnmt_position.seam import Span, Stack
from tests.support.loops import normalised
from tests.support.tiny import VOCABULARY, both, build, config, encoder, settings, tokens

N19 = {"norm_epsilon": 1e-6, "embedding_init": "normal", "scale_embeddings": False}


@pytest.mark.parametrize("system", ["transformer", "re-both", "additional-pe", "sru"])
def test_epsilon_reaches_every_layer_normalisation(system):
    for epsilon in (1e-5, 1e-2):
        model = build(system=system, norm_epsilon=epsilon)
        norms = [part for part in model.modules() if isinstance(part, torch.nn.LayerNorm)]
        assert len(norms) >= 2 * 2 + 2 * 3
        assert {norm.eps for norm in norms} == {epsilon}


def test_epsilon_is_what_is_added_to_the_variance():
    norm = build(norm_epsilon=0.25).encoder[0].attention_norm
    x = torch.randn(3, 16, dtype=torch.float64)
    variance = ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True)
    want = (x - x.mean(-1, keepdim=True)) / (variance + 0.25).sqrt()
    torch.testing.assert_close(norm(x), want, rtol=0, atol=1e-12)
    torch.testing.assert_close(normalised(x, norm), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("init", "factor"), [("normal", 4), ("small-normal", 0.5)])
def test_embeddings_start_from_the_normal_distribution_that_is_named(init, factor):
    """One seed draws the same numbers; only their deviation differs, and nothing else of the model."""
    torch.manual_seed(3)
    scaled = build_model(settings(), 4000, 4000)
    torch.manual_seed(3)
    normal = build_model(settings(embedding_init=init), 4000, 4000)
    for side in ("source", "target"):
        plain, other = (getattr(model, side).table.weight for model in (scaled, normal))
        assert plain.std().item() == pytest.approx(0.25, rel=0.02)  # 16 ** -0.5
        torch.testing.assert_close(other, plain * factor)
    others = [name for name, _ in scaled.named_parameters() if not name.endswith("table.weight")]
    same = dict(normal.named_parameters())
    assert all(torch.equal(same[name], dict(scaled.named_parameters())[name]) for name in others)


@pytest.mark.parametrize("system", ["none", "transformer", "learned", "dtmt"])
def test_embeddings_are_multiplied_by_the_root_of_d_or_not(system):
    model, plain = build(system=system), build(system=system, scale_embeddings=False)
    plain.load_state_dict(model.state_dict())
    words, span = tokens(2, 5), Span(0, 5, torch.device("cpu"))
    got, _ = plain.source(words, span, [None] * len(plain.source.schemes))
    scaled, _ = model.source(words, span, [None] * len(model.source.schemes))
    table = model.source.table.weight[words]
    torch.testing.assert_close(scaled - got, table * (math.sqrt(16) - 1), rtol=0, atol=1e-12)
    if system == "none":
        torch.testing.assert_close(got, table, rtol=0, atol=0)


@pytest.mark.parametrize("values", [True, False])
def test_relative_vectors_start_as_asked(values):
    stack = Stack(d_model=256, heads=2, layers=1, causal=False, max_length=8)
    options = {"distance": 400, "values": values}
    for name, deviation in (("xavier", math.sqrt(2 / (801 + 128))), ("normal", 1.0)):
        torch.manual_seed(1)
        scheme = Relative(stack, Relative.Settings(**options, init=name))
        for weight in scheme.parameters():
            assert weight.std().item() == pytest.approx(deviation, rel=0.02)
    assert scheme.layer(0).keys.abs().max() > 3  # the uniform start ends at root 3 deviations


def dropped(model, words, side="source"):
    """Which features of an embedding, times what, are left in training."""
    embedding = getattr(model.train(), side)
    x, _ = embedding(words, Span(0, words.shape[1], words.device), [None] * len(embedding.schemes))
    return x


@pytest.mark.parametrize("side", ["source", "target"])
def test_dropout_before_the_recurrence_and_none_after(side):
    """N19's published code: `x = rnn(dropout(embedding))`, and no dropout on x."""
    scheme = {"scheme": "recurrent", "dropout_before": 0.5, "dropout_after": 0.0}
    model, words = build(**both(scheme), dropout=0.3, scale_embeddings=False), tokens(6, 40)
    seen = []
    [recurrent] = getattr(model, side).position_schemes()
    recurrent.networks[0].register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    states = dropped(model, words, side)
    assert (states != 0).all()  # nothing is dropped from the states
    [read] = seen
    kept = read != 0
    assert kept.double().mean().item() == pytest.approx(0.5, abs=0.05)
    table = getattr(model, side).table.weight[words]
    torch.testing.assert_close(read[kept], 2 * table[kept], rtol=0, atol=1e-12)


def test_without_the_options_dropout_stays_behind_the_recurrence():
    model, words = build(system="rnn", dropout=0.5), tokens(6, 40)
    seen = []
    [recurrent] = model.source.position_schemes()
    recurrent.networks[0].register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    states = dropped(model, words)
    assert (seen[0] != 0).all()
    assert (states == 0).double().mean().item() == pytest.approx(0.5, abs=0.05)


def test_dropout_after_alone_takes_the_place_of_the_models():
    model = build(**encoder({"scheme": "recurrent", "dropout_after": 0.25}), dropout=0.5)
    words = tokens(6, 40)
    assert (dropped(model, words) == 0).double().mean().item() == pytest.approx(0.25, abs=0.05)
    assert (dropped(model, words, "target") == 0).double().mean().item() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned"])
def test_dropout_before_positions_are_added(scheme):
    """N19's published code: `dropout(dropout(embedding) + pe)`; here the second is left out to see the first."""
    model, words = build(**both({"scheme": scheme, "dropout_before": 0.5}), scale_embeddings=False), tokens(6, 30)
    with torch.no_grad():
        places = model.eval().source(words, Span(0, 30, words.device), [None])[0] - model.source.table.weight[words]
    left = dropped(model, words) - places
    table = model.source.table.weight[words]
    gone = left.abs() < 1e-9
    assert gone.double().mean().item() == pytest.approx(0.5, abs=0.05)
    torch.testing.assert_close(left[~gone], 2 * table[~gone], rtol=0, atol=1e-12)


@pytest.mark.parametrize("scheme", ["sinusoidal", "learned", "recurrent"])
def test_no_dropout_is_left_at_inference(scheme):
    options = {"dropout_before": 0.4, **({"dropout_after": 0.4} if scheme == "recurrent" else {})}
    plain, dropping = build(**both({"scheme": scheme})), build(**both({"scheme": scheme, **options}))
    source, target = tokens(2, 5), tokens(2, 4, seed=1)
    torch.testing.assert_close(dropping(source, None, target), plain(source, None, target), rtol=0, atol=0)


@pytest.mark.parametrize("system", ["transformer", "relative", "rnn", "rr", "learned"])
def test_the_settings_of_n19_build_every_transformer_of_the_paper(system):
    model = build(system=system, **N19)
    assert model(tokens(2, 5), None, tokens(2, 4, seed=1)).shape == (2, 4, 16)
    assert sum(weight.numel() for weight in model.parameters()) == sum(
        weight.numel() for weight in build(system=system).parameters()
    )


READING = ["transformer", "learned", "relative", "rnn", "rr", "rnn-nmt", "biarn", "sru", "disan"]


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("system", READING)
def test_a_source_that_begins_is_that_of_a_model_that_is_given_the_symbol(system, ends):
    """N19's published code: `sentence2indexes` puts SEQUENCE_START before a source as before a target."""
    if not ends and system == "rnn-nmt":
        pytest.skip("it reads the end of the source")
    plain, begun = build(system=system, source_end=ends), build(system=system, source_end=ends, source_begin=True)
    source, target = tokens(3, 6), tokens(3, 5, seed=1)
    given = torch.cat([torch.full((3, 1), BOS), source], dim=1)
    for lengths in (None, torch.tensor([6, 2, 4])):
        want = plain(given, None if lengths is None else lengths + 1, target)
        torch.testing.assert_close(begun(source, lengths, target), want, rtol=0, atol=0)
        assert (plain(source, lengths, target) - want).abs().max() > 1e-3


@pytest.mark.parametrize("system", READING)
def test_search_reads_a_source_that_begins(system):
    plain, begun = build(system=system), build(system=system, source_begin=True)
    sources, decode = [[5, 6, 7], [8], [9, 5]], Decode(beam=3, max_ratio=1e-9, max_extra=6, min_length=4)
    found = translate_subwords([begun], sources, decode, torch.device("cpu"))
    given = translate_subwords([plain], [[BOS, *source] for source in sources], decode, torch.device("cpu"))
    assert [[each.tokens for each in line] for line in found] == [[each.tokens for each in line] for line in given]
    assert [line[0].score for line in found] == pytest.approx([line[0].score for line in given])


def test_a_finite_table_has_a_place_for_the_symbol():
    model = build(system="learned", max_length=8, source_begin=True)
    assert (model.longest_source, model.longest_target) == (7, 8)
    assert model.encode(tokens(1, 7), None).shape == (1, 8, 16)
    with pytest.raises(UserError, match="position"):
        model.encode(tokens(1, 8), None)


@pytest.mark.parametrize("system", ["rnn-nmt", "rnnsearch+distortion", "convs2s", "dtmt"])
def test_an_epsilon_without_a_place_is_refused(system):
    with pytest.raises(UserError, match=r"model.norm_epsilon: .* has no Transformer layers to normalise; leave it"):
        config(system=system, norm_epsilon=1e-6)


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"norm_epsilon": 0}, "model.norm_epsilon: a number above 0 is needed, got 0"),
        (
            {"embedding_init": "uniform"},
            "model.embedding_init: input should be 'scaled-normal', 'small-normal' or 'normal'",
        ),
        (
            {"system": "convs2s", "embedding_init": "normal"},
            "convs2s initialises word embeddings with a deviation of 0.1",
        ),
        (
            encoder({"scheme": "relative", "vectors": "sinusoidal", "init": "normal"}),
            "relative initialises no vectors if they are sinusoidal; leave init: normal out",
        ),
        (
            encoder({"scheme": "recurrent", "dropout_before": 1}),
            "recurrent.dropout_before: Input should be less than 1",
        ),
    ],
)
def test_refusals(part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(**part)


def test_the_start_of_rnn_nmt_can_be_asked_for():
    model = build_model(settings(system="rnn-nmt", embedding_init="normal"), VOCABULARY, VOCABULARY)
    assert model.source.weight.std().item() == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize(
    ("system", "part", "sentence"),
    [
        ("rnn-nmt", {"activation": "silu"}, "model.activation: rnn-nmt has no Transformer layers to activate"),
        ("sru", {"activation": "gelu"}, "model.activation: sru has recurrences in place of activations"),
        (
            "dtmt",
            {"source_begin": True},
            "model.source_begin: dtmt reads no symbol before the source; leave source_begin",
        ),
        ("rnnsearch+distortion", {"source_begin": True}, "model.source_begin: rnnsearch"),
        ("dtmt", {"source_end": False}, "model.source_end: dtmt reads the end of the source"),
    ],
)
def test_settings_of_other_toolkits_models_are_refused_where_they_mean_nothing(system, part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(system=system, **part)
