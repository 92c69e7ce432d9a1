"""RNNsearch with the distortion model against plain loops written from Bahdanau et al. 2015 and Zhang et al. 2017."""

from __future__ import annotations

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.registry import count_parameters
from tests.support.loops import gru, learns_in_bf16, padded, same_last_token, same_model, softmax, weights_of
from tests.support.tiny import build, config, settings, tokens

LENGTHS = [6, 1, 4]
CONTEXTS = ["hidden", "source", "target", "none"]


def system(context="hidden", **options):
    options = {"context": context, "jump": 2, "share": 0.3, **options}
    return {"system": "rnnsearch+distortion", "options": options}


def encode_by_hand(model, sentence):
    states = [*model.source.weight[sentence]]
    for layer in model.encoder.layers:
        sides = []
        for suffix, order in (("_l0", range(len(states))), ("_l0_reverse", reversed(range(len(states))))):
            h, written = torch.zeros(model.config.d_model, dtype=torch.float64), {}
            for j in order:
                written[j] = h = gru(weights_of(layer, suffix), states[j], h)
            sides.append(written)
        states = [torch.cat([sides[0][j], sides[1][j]]) for j in range(len(states))]
    return states


def shifted(weights, k):
    """`weights` k places to the right; what leaves is lost, what enters is 0."""
    return [weights[j - k] if 0 <= j - k < len(weights) else torch.zeros(()).double() for j in range(len(weights))]


def translate_by_hand(model, sentence, target):
    """`t_t` of every target token, and the attention weights."""
    d, options, states = model.config.d_model, model.settings, encode_by_hand(model, sentence)
    s = list(torch.tanh(model.bridge.weight @ states[0][d:] + model.bridge.bias).split(d))
    alpha = [torch.zeros((), dtype=torch.float64) for _ in states]
    context, out, alphas = torch.zeros(2 * d, dtype=torch.float64), [], []
    for token in target:
        y = model.target.weight[token]
        reading = gru(weights_of(model.word_cell), y, s[0])
        energies = [
            model.score.weight[0] @ torch.tanh(model.query.weight @ reading + model.key.weight @ state)
            for state in states
        ]
        content = softmax(energies)
        if options.context == "none":
            alpha = content
        else:
            psi = {"hidden": reading, "source": context, "target": y}[options.context]
            jumps = softmax(model.jumps.weight @ psi + model.jumps.bias)
            expected = [torch.zeros((), dtype=torch.float64) for _ in states]
            for k, probability in zip(range(-options.jump, options.jump + 1), jumps, strict=True):
                expected = [old + probability * new for old, new in zip(expected, shifted(alpha, k), strict=True)]
            alpha = [
                options.share * moved + (1 - options.share) * own for moved, own in zip(expected, content, strict=True)
            ]
        context = sum(weight * state for weight, state in zip(alpha, states, strict=True))
        s[0] = gru(weights_of(model.context_cell), context, reading)
        for layer, cell in enumerate(model.upper_cells, start=1):
            s[layer] = gru(weights_of(cell), s[layer - 1], s[layer])
        pairs = model.readout.weight @ torch.cat([s[-1], y, context]) + model.readout.bias
        out.append(torch.stack([torch.max(pairs[2 * i], pairs[2 * i + 1]) for i in range(d)]))
        alphas.append(torch.stack(alpha))
    return torch.stack(out), torch.stack(alphas)


def parts(context, **options):
    """A model and a padded batch of sentences, one of them a single word."""
    model = build(**system(context, **options))
    with torch.no_grad():  # weights large enough for attention and jumps to be far from even
        for weight in (model.score.weight, model.key.weight, model.source.weight, model.target.weight):
            weight.mul_(3)
        if context != "none":
            model.jumps.weight.mul_(4)
    return model, padded(LENGTHS), tokens(3, 5, seed=1)


def by_hand(model, source, target):
    return torch.stack([translate_by_hand(model, source[b, :n], target[b])[0] for b, n in enumerate(LENGTHS)])


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_model_is_zhang_et_al(context):
    model, source, target = parts(context)
    got, want = model(source, torch.tensor(LENGTHS), target), by_hand(model, source, target)
    same_model(model, got, want)


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_last_token_alone_is_zhang_et_al(context):
    model, source, target = parts(context)
    state = same_last_token(model, source, LENGTHS, target, by_hand(model, source, target))
    for row, length in enumerate(LENGTHS):
        _, weights = translate_by_hand(model, source[row, :length], target[row])
        torch.testing.assert_close(state.alignment[row, :length], weights[-1], rtol=0, atol=1e-12)
        assert state.alignment[row, length:].abs().sum() == 0


def test_a_jump_of_two_moves_attention_two_words():
    """With all belief in the jump +2, the distortion's part is the last weights two places on."""
    model, source, target = parts("target", share=0.999999)
    with torch.no_grad():
        model.jumps.weight.zero_()
        model.jumps.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 0.0, 60.0]))
    state = model.start(model.encode(source[:1], None), None)
    state.alignment = torch.tensor([[0.7, 0.1, 0.1, 0.05, 0.03, 0.02]], dtype=torch.float64)
    model.advance(target[:1, :1], state)
    want = torch.tensor([[0.0, 0.0, 0.7, 0.1, 0.1, 0.05]], dtype=torch.float64)
    torch.testing.assert_close(state.alignment, want, rtol=0, atol=2e-6)


def test_the_source_is_not_copied_for_each_hypothesis():
    model, source, target = parts("source")
    state = model.start(model.encode(source, None), None)
    kept = state.source, state.keys, state.values
    state.select(torch.arange(3).repeat_interleave(4))
    model.advance(target.repeat_interleave(4, 0), state)
    assert state.hidden.shape == (12, 2, 16)
    assert all(now is then for now, then in zip((state.source, state.keys, state.values), kept, strict=True))


def test_it_trains_under_bf16():
    torch.manual_seed(0)
    model, source = build(**system("source")).float(), tokens(8, 5)
    learns_in_bf16(model)
    state = model.start(model.encode(source, None), None)
    assert state.hidden.dtype == state.alignment.dtype == torch.float32


def test_the_distortion_model_is_a_few_parameters():
    """Of d = 16 and 2l + 1 = 5 jumps."""
    plain = count_parameters(settings(**system("none")), 20, 20)
    assert count_parameters(settings(**system("hidden")), 20, 20) == plain + 16 * 5 + 5
    assert count_parameters(settings(**system("source")), 20, 20) == plain + 32 * 5 + 5


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (
            {"decoder": {"position": [{"scheme": "relative"}]}},
            r"model.decoder.position: rnnsearch\+distortion has order information by its recurrence",
        ),
        ({"attention_dropout": 0.1}, r"rnnsearch\+distortion has no such dropout; set 0, got 0.1"),
        ({"options": {"jump": 0}}, r"rnnsearch\+distortion.jump: Input should be greater than or equal to 1, got 0"),
        ({"options": {"share": 1.0}}, r"rnnsearch\+distortion.share: Input should be less than 1, got 1.0"),
        ({"options": {"window": 3}}, r"rnnsearch\+distortion has no option 'window'"),
    ],
)
def test_what_it_has_not_got_is_refused(part, sentence):
    with pytest.raises(UserError, match=sentence):
        config(system="rnnsearch+distortion", **part)
