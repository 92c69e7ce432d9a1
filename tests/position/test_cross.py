"""`decoder.cross`: positions in attention to the source."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import softplus

from posnmt.base.errors import UserError
from posnmt.model.attention import CrossAttention
from posnmt.model.kernels.operands import Attention
from posnmt.model.positions import SCHEMES, scheme_class
from posnmt.run.resolve import load
from posnmt.translate.attention import attend_pair
from posnmt_position import LayerPosition, Options, PositionError, Scheme, Stack, create
from posnmt_position.registry import crossing
from posnmt_position.seam import CrossSpan, LayerPositions, Span, nearest
from posnmt_position.testing import check_scheme
from tests.support.loops import same_with_gradients
from tests.support.tiny import build, decoder, settings, tokens

STACK = Stack(d_model=12, heads=3, layers=2, causal=False, max_length=64, cross=True)
RATIO = 1.3


def whole(offset):
    """The nearest whole number, halves up."""
    return math.floor(offset + 0.5)


def alibi(view, h, o, length):
    return -abs(o) * [1 / 16, 1 / 256, 1 / 4][h]


def kerple(view, h, o, length):
    r1, r2 = softplus(view.r1_trained[h]), view.r2_trained[h]
    return -r1 * (1 + softplus(r2) * abs(o)).log() if view.form == "log" else -r1 * abs(o) ** (2 * r2.sigmoid())


def sandwich(view, h, o, length):
    return (sum(math.cos(o / 10000 ** (2 * n / 10)) for n in range(5)) - 5) / ((h + 1) * 8 / 3)


def t5(view, h, o, length):
    """8 buckets up to distance 10: see tests/position/test_equations_bias.py."""
    r = whole(o)
    far = abs(r) if abs(r) < 2 else 2 + (abs(r) >= 4.47)
    return view.table[4 * (r > 0) + far, h]


def fire(view, h, o, length):
    def psi(x):
        return (view.c * x).abs().log1p()

    x = -math.copysign(1, o) * psi(o) / (psi(torch.clamp(view.threshold * 3, min=length - 1)) + 1e-6)
    return view.fall.weight[h] @ (view.rise.weight[:, 0] * x + view.rise.bias).relu()


def no_bias(view, h, o, length):
    return 0.0


def turned(x, place):
    """RoPE: the pairs of features of x [D] turned by the angles of a position, a real number."""
    pairs = []
    for n in range(len(x) // 2):
        angle = place / 50.0 ** (2 * n / len(x))
        even, odd = x[2 * n], x[2 * n + 1]
        pairs += [even * math.cos(angle) - odd * math.sin(angle), even * math.sin(angle) + odd * math.cos(angle)]
    return torch.stack(pairs)


EQUATIONS = {
    "alibi": ("alibi", {}, alibi),
    "kerple-log": ("kerple", {}, kerple),
    "kerple-power": ("kerple", {"form": "power"}, kerple),
    "sandwich": ("sandwich", {"width": 10}, sandwich),
    "t5-bias": ("t5-bias", {"buckets": 8, "distance": 10}, t5),
    "fire": ("fire", {"width": 4, "threshold": 3.0}, fire),
    "relative": ("relative", {"distance": 2}, no_bias),
    "relative-keys": ("relative", {"distance": 9, "values": False}, no_bias),
    "rope": ("rope", {"base": 50.0}, no_bias),
}


def test_every_scheme_that_serves_has_its_equation():
    assert sorted({name for name, *_ in EQUATIONS.values()}) == crossing()


def row(t, name, view, bias, q, k, v, length, h):
    """One head of one target token, a key at a time: q [D], k and v [J,D]."""
    place, logits, additions = t * RATIO, [], []
    for j in range(length):
        key = k[j]
        if name == "relative":
            r = max(-len(view.keys) // 2 + 1, min(len(view.keys) // 2, whole(j - place))) + len(view.keys) // 2
            key = key + view.keys[r]
            additions.append(getattr(view, "additions", torch.zeros_like(view.keys))[r])
        product = turned(q, place) @ turned(key, j) if name == "rope" else q @ key
        logits.append(product / math.sqrt(len(q)) + bias(view, h, j - place, length))
    weights = torch.stack(logits).softmax(0)
    return sum(
        a * (v[j] + (additions[j] if additions else 0)) for j, a in enumerate(weights)
    )  # over the real keys alone


@pytest.mark.parametrize(("start", "length"), [(0, 4), (3, 1), (2, 3)])
@pytest.mark.parametrize("scheme", EQUATIONS)
def test_a_scheme_is_its_equation(scheme, start, length):
    """Two sources, one of them padded, with two hypotheses each."""
    torch.manual_seed(1)
    name, options, bias = EQUATIONS[scheme]
    made = create(name, STACK, **options).double()
    view, attention = made.layer(1), CrossAttention(12, 3, 0.0).double()
    encoded = torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    x = torch.randn(4, length, 12, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([5, 3])
    mask = (torch.arange(5) < lengths[:, None])[:, None, None]
    span = CrossSpan(start, length, x.device, lengths, 5, ratio=torch.tensor(RATIO, dtype=torch.float64), hypotheses=2)
    got = attention(x, attention.remember(encoded), mask, LayerPositions([view]), span)

    q = attention.query(x).unflatten(-1, (3, 4))
    k, v = attention.memory(encoded).unflatten(-1, (2, 3, 4)).unbind(2)
    want = []
    for n in range(4):
        s = n // 2
        for t in range(length):
            heads = [
                row(start + t, name, view, bias, q[n, t, h], k[s, :, h], v[s, :, h], int(lengths[s]), h)
                for h in range(3)
            ]
            want.append(attention.output(torch.cat(heads)))
    inputs = [x, encoded, *attention.parameters(), *made.parameters()]
    same_with_gradients(got, torch.stack(want).view(4, length, 12), inputs)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5, 2.5, 1.3])
def test_neighbouring_keys_have_neighbouring_whole_offsets(ratio):
    span = CrossSpan(0, 9, torch.device("cpu"), None, 12, ratio=ratio)
    offsets = nearest(span.offsets)
    assert (offsets.diff(dim=1) == 1).all()
    assert offsets[:, 0].tolist() == [-math.ceil(i * ratio - 0.5) for i in range(9)]


def test_a_step_has_the_offsets_of_the_whole_target_and_hypotheses_share_them():
    whole = CrossSpan(0, 6, torch.device("cpu"), None, 4, ratio=RATIO)
    piece = CrossSpan(4, 2, torch.device("cpu"), None, 4, ratio=RATIO, hypotheses=3)
    assert torch.equal(piece.offsets, whole.offsets[4:].repeat(3, 1))
    assert torch.equal(piece.matrix(piece.diagonals), piece.offsets)


def test_real_offsets_tell_target_tokens_apart_that_whole_ones_do_not():
    """Two target tokens for each source token: the nearest whole offsets of two neighbours are equal."""
    span = CrossSpan(0, 2, torch.device("cpu"), None, 5, ratio=0.5)
    q = torch.zeros(1, 3, 2, 4, dtype=torch.float64)
    for name, are_equal in (("t5-bias", True), ("relative", True), ("alibi", False), ("kerple", False)):
        terms = create(name, STACK).double().layer(0).logits(q.add(1.0), q.new_zeros(1, 3, 5, 4), span)
        terms = terms.expand(1, 3, 2, 5)
        assert torch.equal(terms[:, :, 0], terms[:, :, 1]) == are_equal, name


def test_no_kernel_for_diagonals_computes_it():
    """Vectors for clipped distances are a kernel's where offsets are constant along diagonals."""
    view, q = LayerPositions([create("relative", STACK).layer(0)]), torch.zeros(1, 3, 4, 4)
    spans = [Span(0, 4, q.device), CrossSpan(0, 4, q.device, None, 4)]
    vectors = [Attention(q, q, q, view, span, None, False, 0.0).distance_vectors for span in spans]
    assert vectors[0] is not None
    assert vectors[1] is None


def test_attention_that_is_recorded_has_the_positions():
    """With queries of zeros, the weights are the softmax of the biases: ALiBi's peak moves by the ratio."""
    model = build(encoder={"layers": 1}, decoder={"layers": 1, "cross": [{"scheme": "alibi"}]})
    model.learn_lengths(30, 20)
    for each in (model.decoder[0].cross.query.weight, model.decoder[0].cross.query.bias):
        torch.nn.init.zeros_(each)
    recorded = attend_pair(model, list(range(4, 12)), [4, 5, 6, 7])
    for t in range(5):
        want = torch.tensor([-abs(j - 1.5 * t) / 4 for j in range(9)]).double().softmax(0)  # of the first of 4 heads
        torch.testing.assert_close(recorded.cross.weights[0][0, t], want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_serves_or_says_why_not(name):
    if name in crossing():
        assert create(name, STACK).layer(0) is not None
        return
    with pytest.raises(PositionError, match=f"^{name} cannot serve attention to the source: it .*; choose one of"):
        create(name, STACK)


def test_one_sided_heads_are_refused():
    for name in ("alibi", "kerple", "sandwich"):
        with pytest.raises(PositionError, match="leave encoder: asymmetric out"):
            create(name, replace(STACK, d_model=16, heads=4), encoder="asymmetric")


CONFIG = """\
data: {train: {source: a, target: b}}
model:
  d_model: 16
  heads: 4
  feed_forward: 24
  ARCHITECTURE
  decoder:
    layers: 2
    cross:
      - SCHEMES
train: {steps: 1, dev_bleu: false}
"""


@pytest.mark.parametrize(
    ("architecture", "schemes", "line", "sentence"),
    [
        ("transformer", ["{scheme: learned}"], 10, "model.decoder.cross: learned cannot serve attention to the source"),
        ("transformer", ["{scheme: alibi}", "{scheme: fox}"], 11, "fox cannot serve attention to the source: it forge"),
        ("transformer", ["{scheme: alibi, layers: [2]}"], 10, "alibi.layers: there is no layer 2"),
        ("transformer", ["{scheme: alibi}", "{scheme: alibi}"], 9, "alibi is listed twice"),
        ("transformer", ["{scheme: relative, distance: 0}"], 10, "relative.distance"),
        ("biarn", ["{scheme: alibi}"], 9, "biarn has no attention to the source that takes position schemes"),
        ("convs2s", ["{scheme: alibi}"], 9, "convs2s has no attention to the source that takes position schemes"),
        ("rnn-nmt", ["{scheme: alibi}"], 9, "rnn-nmt has order information by its recurrence and takes no position"),
    ],
)
def test_faults_with_their_line(architecture, schemes, line, sentence, tmp_path):
    path = tmp_path / "config.yaml"
    text = CONFIG.replace("ARCHITECTURE", f"architecture: {architecture}").replace(
        "SCHEMES", "\n      - ".join(schemes)
    )
    path.write_text(text)
    with pytest.raises(UserError) as refused:
        load(path)
    found = [each for each in str(refused.value).splitlines() if sentence in each]
    assert len(found) == 1, str(refused.value)
    assert f"{path.name}:{line}" in found[0]


def test_the_encoder_has_no_such_list(tmp_path):
    with pytest.raises(UserError, match="cross"):
        settings(encoder={"cross": [{"scheme": "alibi"}]})


def test_an_empty_list_is_the_model_without():
    plain, empty = build(**decoder({"scheme": "rope"})), build(decoder={"position": [{"scheme": "rope"}], "cross": []})
    assert list(plain.state_dict()) == list(empty.state_dict())
    source, target = tokens(2, 6), tokens(2, 4, seed=1)
    assert torch.equal(plain(source, None, target), empty(source, None, target))


class Curve(LayerPosition):
    """A bias that falls with the square of the distance."""

    reads_keys = False

    def by_offset(self, span):
        return -span.diagonals.square()[None] / 8


class Stranger(Scheme):
    """A scheme that knows nothing of posnmt, with one line for attention to the source."""

    not_cross = None
    view: type[LayerPosition] = Curve

    def __init__(self, stack, settings):
        super().__init__()
        self.only = self.view()

    def layer(self, index):
        return self.only


def stranger(**methods):
    """`Stranger`, whose view has other methods."""
    return type("Stranger", (Stranger,), {"view": type("Curve", (Curve,), methods)})


def from_the_piece(self, span):
    offsets = span.diagonals if not isinstance(span, CrossSpan) else span.diagonals + span.start
    return -offsets.square()[None] / 8


def by_this_target(self, span):
    return Curve.by_offset(self, span) / (span.length if isinstance(span, CrossSpan) else 1)


def without_ratio(self, span):
    if not isinstance(span, CrossSpan):
        return Curve.by_offset(self, span)
    places = torch.arange(span.start, span.start + span.length)
    return -(span.keys - places[:, None]).flatten().square()[None] / 8


def by_padding(self, span):
    return Curve.by_offset(self, span) / (span.end if isinstance(span, CrossSpan) else 1)


def in_one_row(self, span):
    table = Curve.by_offset(self, span)
    return table[..., : span.end] if isinstance(span, CrossSpan) else table


@pytest.mark.parametrize(
    ("methods", "sentence"),
    [
        ({"by_offset": from_the_piece}, "pieces of a target"),
        ({"by_offset": by_this_target}, "pieces of a target|depends on the padding"),
        ({"by_offset": without_ratio}, "logits depends on more than the position of a target token in the source"),
        ({"by_offset": by_padding}, "depends on the padding"),
        ({"by_offset": in_one_row}, "Curve.by_offset returned"),
        ({"refine": lambda self, before, after, span: after}, "Curve.refine has no effect in attention to the source"),
        (
            {"by_offset": lambda self, span: 0 * Curve.by_offset(self, span)},
            "the order of the source does not change the output",
        ),
    ],
)
def test_a_strangers_scheme_in_attention_to_the_source(methods, sentence):
    check_scheme(Stranger)
    with pytest.raises(AssertionError, match=f"^Stranger in the attention to the source: .*({sentence})"):
        check_scheme(stranger(**methods))


def test_a_stranger_that_says_nothing_is_refused_there(monkeypatch):
    silent = type("Silent", (Stranger,), {"not_cross": Scheme.not_cross, "Settings": Options})
    monkeypatch.setitem(SCHEMES, "silent", silent)
    assert scheme_class("silent") is silent
    with pytest.raises(PositionError, match="silent cannot serve attention to the source: it was made for the words"):
        create("silent", STACK)
