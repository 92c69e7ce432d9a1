"""RNN-NMT against plain loops written from Luong et al. 2015, one sentence and one token at a time, in float64."""

from __future__ import annotations

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.data.subword import BOS, EOS
from posnmt.training.loss import TrainingLoss
from posnmt.translate.subwords import translate_subwords
from posnmt_position.dropout import Dropout
from tests.support.loops import attended, learns_in_bf16, lstm, padded, same_last_token, same_model, weights_of
from tests.support.tiny import VOCABULARY, build, config, tokens

SYSTEM = {"system": "rnn-nmt", "encoder": {"layers": 3}, "decoder": {"layers": 2}}
LENGTHS = [5, 2, 4]


def encode_by_hand(model, sentence):
    """Source states, and the last hidden states and cells of all layers and directions, end to end."""
    d, states, hiddens, cells = model.config.d_model, [*model.source.weight[sentence]], [], []
    for layer in model.encoder.layers:
        sides = []
        for suffix, order in (("_l0", range(len(states))), ("_l0_reverse", reversed(range(len(states))))):
            h = c = torch.zeros(d, dtype=torch.float64)
            written = {}
            for j in order:
                h, c = lstm(weights_of(layer, suffix), states[j], h, c)
                written[j] = h
            sides.append(written)
            hiddens.append(h)
            cells.append(c)
        states = [torch.cat([sides[0][j], sides[1][j]]) for j in range(len(states))]
    return states, torch.cat(hiddens), torch.cat(cells)


def translate_by_hand(model, sentence, target):
    """`h~_t` of every target token."""
    d, layers = model.config.d_model, len(model.decoder)
    states, hiddens, cells = encode_by_hand(model, sentence)
    h = list(torch.tanh(model.bridge_hidden.weight @ hiddens + model.bridge_hidden.bias).split(d))
    c = list(torch.tanh(model.bridge_cell.weight @ cells + model.bridge_cell.bias).split(d))
    attentional, out = torch.zeros(d, dtype=torch.float64), []
    for token in target:
        x = torch.cat([model.target.weight[token], attentional])  # input feeding, section 3.3
        for layer, cell in enumerate(model.decoder):
            h[layer], c[layer] = lstm(weights_of(cell), x, h[layer], c[layer])
            x = h[layer]
        query = torch.cat(h)
        assert len(query) == layers * d
        context = attended([query @ (model.score.weight @ state) for state in states], states)  # eq. 7 and 8
        attentional = torch.tanh(model.combine.weight @ torch.cat([query, context]))  # eq. 5
        out.append(attentional)
    return torch.stack(out)


def parts():
    """A model and a padded batch of sentences of different lengths."""
    model = build(**SYSTEM)
    with torch.no_grad():  # scores that differ, so that the weights of attention matter
        model.score.weight.mul_(4)
        model.source.weight.mul_(4)
    return model, padded(LENGTHS), tokens(3, 6, seed=1)


def by_hand(model, source, target):
    return torch.stack([translate_by_hand(model, source[b, :n], target[b]) for b, n in enumerate(LENGTHS)])


def test_the_model_is_luong_et_al():
    model, source, target = parts()
    got = model(source, torch.tensor(LENGTHS), target)
    want = by_hand(model, source, target)
    same_model(model, got, want)


def test_the_last_token_alone_is_luong_et_al():
    model, source, target = parts()
    same_last_token(model, source, LENGTHS, target, by_hand(model, source, target))


def test_the_source_is_not_copied_for_each_hypothesis():
    model, source, target = parts()
    state = model.start(model.encode(source, None), None)
    kept = state.keys, state.values
    state.select(torch.arange(3).repeat_interleave(4))
    model.advance(target.repeat_interleave(4, 0), state)
    assert state.hidden.shape == (12, 2, 16)
    assert state.keys is kept[0]
    assert state.values is kept[1]
    state.select(torch.arange(8), torch.tensor([0, 2]))
    assert torch.equal(state.keys, kept[0][[0, 2]])


def test_dropout_falls_on_words_and_between_layers():
    model, (source, target) = build(**SYSTEM, dropout=0.5), (tokens(3, 5), tokens(3, 6, seed=1))
    seen = []
    for dropout in (module for module in model.modules() if isinstance(module, Dropout)):
        dropout.register_forward_hook(lambda module, given, out: seen.append(tuple(given[0].shape)))
    plain = model(source, torch.tensor(LENGTHS), target)
    # source words; what encoder layers 2 and 3 read, without padding; target words; what decoder layer 2 reads, 6 times
    assert seen == [(3, 5, 16), (11, 32), (11, 32), (3, 6, 16), *[(3, 16)] * 6]
    without = build(**SYSTEM)(source, torch.tensor(LENGTHS), target)
    torch.testing.assert_close(plain, without, rtol=0, atol=0)
    model.train()
    torch.manual_seed(7)
    once = model(source, torch.tensor(LENGTHS), target)
    again = model(source, torch.tensor(LENGTHS), target)
    assert (once - again).abs().max() > 1e-4
    torch.manual_seed(7)
    torch.testing.assert_close(once, model(source, torch.tensor(LENGTHS), target), rtol=0, atol=0)


def test_it_trains_under_bf16():
    torch.manual_seed(0)
    learns_in_bf16(build(**SYSTEM).float())


@pytest.mark.slow
def test_it_learns_to_copy_under_bf16_and_translates_with_a_beam():
    torch.manual_seed(0)
    model = build(**SYSTEM, d_model=32).float().train()
    loss_of, optimizer = TrainingLoss(model, 0.0), torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(200):
        words = tokens(24, 3, seed=step)
        source = torch.cat([words, torch.full((24, 1), EOS)], dim=1)
        given = torch.cat([torch.full((24, 1), BOS), words], dim=1)
        with torch.autocast("cpu", torch.bfloat16):
            loss, likelihood = loss_of(source, torch.full((24,), 4), given, source)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert likelihood / source.numel() < 0.2
    texts = tokens(6, 3, seed=1000).tolist()
    found = translate_subwords([model.eval()], texts, Decode(beam=4), torch.device("cpu"))
    assert sum(row[0].tokens == text for row, text in zip(found, texts, strict=True)) >= 5


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (
            {"encoder": {"position": [{"scheme": "sinusoidal"}]}},
            "model.encoder.position: rnn-nmt has order information by its recurrence and takes no position schemes",
        ),
        (
            {"decoder": {"position": [{"scheme": "relative"}]}},
            "model.decoder.position: rnn-nmt has order information by its recurrence and takes no position schemes",
        ),
        ({"attention_dropout": 0.1}, "model.attention_dropout: rnn-nmt has no such dropout; set 0, got 0.1"),
        ({"feed_forward_dropout": 0.2}, "model.feed_forward_dropout: rnn-nmt has no such dropout"),
        ({"options": {"cell": "gru"}}, "model.options: rnn-nmt has no option 'cell'"),
    ],
)
def test_what_it_has_not_got_is_refused(part, sentence):
    with pytest.raises(UserError, match=sentence.replace("[", r"\[")):
        config(system="rnn-nmt", **part)


def test_matrices_can_be_shared():
    model = build(**SYSTEM, tie_embeddings="target")
    assert model.output.weight is model.target.weight
    assert model.project(torch.zeros(1, 16, dtype=torch.float64)).shape == (1, VOCABULARY)
