"""Properties that hold for every named system and every registered scheme; each is tested by being registered."""

from __future__ import annotations

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.model.positions import SCHEMES
from posnmt.testing import CHECKS
from posnmt_position.seam import LayerPosition, LayerPositions, Scheme, Span, Stack, join
from tests.support.tiny import MODELS, TRANSFORMERS, build, config, each_of, subject, tokens

by_name = pytest.mark.parametrize("name", each_of())
PLAIN = [name for name in TRANSFORMERS if subject(MODELS[name]).config.architecture == "transformer"]


@by_name
@pytest.mark.parametrize("check", CHECKS)
def test_every_model(name, check):
    CHECKS[check](subject(MODELS[name]))


@by_name
def test_float32_steps_equal_the_whole_within_rounding(name):
    model, source, target = build(**MODELS[name]).float(), tokens(3, 6), tokens(3, 8, seed=1)
    state = model.start(model.encode(source, None), None)
    steps = torch.cat([model.advance(target[:, [place]], state) for place in range(8)], dim=1)
    torch.testing.assert_close(steps, model(source, None, target), rtol=1e-5, atol=2e-5)


@by_name
def test_order_matters_exactly_where_a_system_says_so(name):
    """The last word comes first. (Reversed is no test: to a symmetric bias a sentence is its mirror image.)"""
    model, source, target = build(**MODELS[name]), tokens(1, 9), tokens(1, 3, seed=1)
    encoded, rolled = model.encode(source, None), model.encode(source.roll(1, 1), None).roll(-1, 1)
    difference = (encoded - rolled).abs().max()
    blind = name in PLAIN and model.config.encoder.position == []
    assert difference < 1e-12 if blind else difference > 1e-4
    # and a translator without positions in the encoder cannot tell the two sentences apart
    same = torch.allclose(model(source, None, target), model(source.roll(1, 1), None, target), rtol=0, atol=1e-10)
    assert same == blind


@pytest.mark.parametrize("name", each_of(TRANSFORMERS))
def test_attention_dropout_takes_the_same_path_in_evaluation(name):
    model, dropping = build(**MODELS[name]), build(**MODELS[name], attention_dropout=0.5)
    source, target = tokens(2, 6), tokens(2, 5, seed=1)
    torch.testing.assert_close(model(source, None, target), dropping(source, None, target), rtol=0, atol=1e-12)
    dropping.train()
    assert (dropping(source, None, target) - model(source, None, target)).abs().max() > 1e-4


@by_name
@torch.inference_mode()
def test_no_longest_sentence_unless_the_scheme_says_so(name):
    model = build(**MODELS[name], max_length=64).float()
    if model.longest_source is None:
        assert model.encode(tokens(1, 1100), None).isfinite().all()
    else:
        model.encode(tokens(1, model.longest_source), None)
        with pytest.raises(
            UserError, match=f"are {model.longest_source} learned positions, and position {model.longest_source + 1} "
        ):
            model.encode(tokens(1, model.longest_source + 1), None)


class Everything(LayerPosition):
    """A view that uses every hook of the seam, each in a way that a test can undo by hand."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.mask = torch.arange(d_model)[None, :] % heads == torch.arange(heads)[:, None]

    def reads(self):
        return self.mask

    def rotate(self, q, k, span):
        return q * 2, k * 0.25

    def keep(self, x, span):
        return x[:, None, :, :2]

    def logits(self, q, k, span):
        return (span.kept[self].sum(-1)[:, :, None] - span.offsets.abs()).to(q.dtype)

    def values(self, weights, span):
        return weights.sum(-1, keepdim=True).expand(-1, -1, -1, 4)

    def allows(self, span):
        return (span.diagonals != -1)[None]

    def refine(self, before, after, span):
        return after + 0.5 * before


def test_every_hook_of_the_seam_reaches_the_layer():
    model = build()
    view, d, heads = LayerPositions([Everything(16, 4)]), 16, 4
    model.encoder_views = [view, view]
    layer = model.encoder[0]
    x = torch.randn(1, 5, d, dtype=torch.float64)
    got = layer(x, view, Span(0, 5, x.device), None)

    weight, bias = layer.attention.project.weight, layer.attention.project.bias
    features = Everything(d, heads).mask
    heads_out = []
    for head in range(heads):
        rows = slice(4 * head, 4 * head + 4)
        seen = x * features[head]
        q, k, v = (seen @ weight[16 * p :][rows].T + bias[16 * p :][rows] for p in range(3))
        out = torch.zeros(1, 5, 4, dtype=torch.float64)
        for i in range(5):
            allowed = [j for j in range(5) if j - i != -1]
            logits = torch.stack(
                [(2 * q[0, i] / 2) @ (0.25 * k[0, j]) + x[0, j, :2].sum() - abs(j - i) for j in allowed]
            )
            weights = logits.softmax(0)
            out[0, i] = sum(w * v[0, j] for w, j in zip(weights, allowed, strict=True)) + 1.0
        heads_out.append(out)
    h = layer.attention_norm(x + layer.attention.output(torch.cat(heads_out, -1)))
    want = layer.feed_forward_norm(h + layer.feed_forward(h + 0.5 * x, Span(0, 5, x.device)))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_a_carry_follows_its_rows():
    """A recurrent scheme (a running sum) steps as it runs, through padding-free rows and beam selection."""

    class RunningSum(Scheme):
        def embed(self, x, span, carry):
            total = x.cumsum(1) + (0 if carry is None else carry[0][:, None])
            return total, (total[:, -1],)

    model = build()
    model.target.attach([RunningSum()])
    source, first, then = tokens(2, 4), tokens(4, 3, seed=1), tokens(4, 2, seed=2)
    state = model.start(model.encode(source, None), None)
    model.advance(first, state)
    rows = torch.tensor([1, 1, 3, 2])
    state.select(rows)
    stepped = model.advance(then, state)
    whole = model(source.repeat_interleave(2, 0), None, torch.cat([first[rows], then], 1))
    torch.testing.assert_close(stepped, whole[:, 3:], rtol=0, atol=1e-12)


def test_views_of_several_schemes_are_joined():
    class Bias(Scheme):
        def __init__(self, amount):
            super().__init__()
            self.view = LayerPosition()
            self.view.__class__ = type(
                "View", (LayerPosition,), {"logits": lambda s, q, k, span: q.new_full((1,), amount)}
            )

        def layer(self, index):
            return self.view

    q = torch.zeros(1, 1, 2, 4)
    [joined] = join([Bias(1.0), Scheme(), Bias(2.0)], layers=1)
    assert joined.logits(q, q, Span(0, 2, q.device)).item() == 3.0
    assert not joined.adds_values


class Backwards(Scheme):
    """A scheme that reads to the right, registered by the test below."""

    @classmethod
    def refuses(cls, stack, settings, others=()):
        return ["reads words to the right, so it cannot serve the decoder"] if stack.causal else []


def test_a_scheme_that_reads_to_the_right_cannot_serve_the_decoder(monkeypatch):
    monkeypatch.setitem(SCHEMES, "backwards", "absolute:Backwards")
    monkeypatch.setattr("posnmt_position.absolute.Backwards", Backwards, raising=False)
    assert config(encoder={"layers": 1, "position": [{"scheme": "backwards"}]}).model.encoder.layers == 1
    with pytest.raises(UserError, match="backwards reads words to the right, so it cannot serve the decoder"):
        config(decoder={"layers": 1, "position": [{"scheme": "backwards"}]})


def test_stack_knows_its_head_width():
    assert Stack(d_model=16, heads=4, layers=2, causal=False, max_length=8).d_head == 4
