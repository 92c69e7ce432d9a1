"""`decode.positions`: each change as loops, in one pass as step by step, and refused where it means nothing."""

from __future__ import annotations

import contextlib
import copy
import math
from functools import cache
from pathlib import Path

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.config.schema import Positions, SchemeChoice
from posnmt.model.at_inference import change_positions
from posnmt.model.positions import SCHEMES, build
from posnmt.testing import in_pieces
from posnmt_position.seam import LayerPositions, Span, Stack, Temperature, join, table_of
from tests.support.tiny import MODELS, each_of, subject, tokens
from tests.support.tiny import build as build_model

CHANGES = {
    "interpolate": {"interpolate": 2.0},
    "ntk": {"ntk": 2.0},
    "yarn": {"yarn": 2.0},
    "clip": {"clip": 3},
    "group": {"clip": 4, "group": 2},
    "temperature": {"temperature": "log"},
}
TRAINED = 5, 4
WIDTH = 8


@cache
def plain(name):
    """A tiny model without a change."""
    return build_model(**MODELS[name])


def changed(name, change, trained=TRAINED):
    """A tiny model with a change."""
    model = copy.deepcopy(plain(name))
    change_positions(model, Positions(**change), trained, Path("run"))
    return model


@cache
def served(name):
    """Change → the model with it, of those that mean something to a model."""
    models = {}
    for change, settings in CHANGES.items():
        with contextlib.suppress(UserError):
            models[change] = changed(name, settings)
    return models


def assert_same(change, got, want):
    torch.testing.assert_close(got, want, rtol=0, atol=1e-9, msg=lambda text: f"{change}: {text}")


by_name = pytest.mark.parametrize("name", each_of())


def scheme(name, causal, d_head=WIDTH, **options):
    stack = Stack(d_model=2 * d_head, heads=2, layers=1, causal=causal, max_length=64)
    return build(SchemeChoice(scheme=name, **options), stack)


def logits(position, q, k, causal):
    """[H,T,T] of a layer, with the product of queries and keys."""
    [views] = join([position], 1)
    span = Span(0, q.shape[2], q.device)
    rotated_q, rotated_k = views.rotate(q, k, span)
    bias = views.logits(q, k, span)
    total = rotated_q @ rotated_k.mT
    return (total if bias is None else total + bias)[0]


def queries_and_keys(length=11, width=WIDTH):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, 1, 2, length, width, generator=generator, dtype=torch.float64)


def rotated_product(q, k, distance, rates, size=1.0):
    """`Re sum_n q_n conj(k_n) e^(i distance theta_n)` with a loop over pairs of features; distance is i - j."""
    total = 0.0
    for n, rate in enumerate(rates):
        query = complex(q[2 * n], q[2 * n + 1])
        key = complex(k[2 * n], k[2 * n + 1])
        total += (query * key.conjugate() * complex(math.cos(distance * rate), math.sin(distance * rate))).real
    return total * size


def assert_products(position, distance_of, rates, size=1.0, causal=False, width=WIDTH):
    q, k = queries_and_keys(width=width)
    got = logits(position, q, k, causal)
    for h in range(2):
        for i in range(q.shape[2]):
            for j in range(q.shape[2] if not causal else i + 1):
                want = rotated_product(q[0, h, i].tolist(), k[0, h, j].tolist(), distance_of(i, j), rates, size)
                assert got[h, i, j].item() == pytest.approx(want, abs=1e-9)


def rope_rates(base=10_000.0, width=WIDTH):
    return [base ** (-2 * n / width) for n in range(width // 2)]


def test_ntk_enlarges_the_base():
    position = scheme("rope", causal=False)
    assert position.ntk(4.0)
    rates = rope_rates(10_000.0 * 4.0 ** (WIDTH / (WIDTH - 2)))
    assert_products(position, lambda i, j: i - j, rates)
    assert rates[0] == 1
    assert rates[-1] == pytest.approx(rope_rates()[-1] / 4)


def test_ntk_of_a_head_with_one_frequency_divides_it():
    position = scheme("rope", causal=False, d_head=2)
    assert position.ntk(4.0)
    assert_products(position, lambda i, j: i - j, [0.25], width=2)


@pytest.mark.parametrize("trained", [5, 60, 1000])
def test_yarn_divides_what_turns_seldom(trained):
    position = scheme("rope", causal=False, base=50.0)
    assert position.yarn(4.0, trained)
    rates = []
    for rate in rope_rates(50.0):
        turns = trained * rate / (2 * math.pi)
        kept = min(1.0, max(0.0, (turns - 1) / (32 - 1)))
        rates.append((1 - kept) * rate / 4 + kept * rate)
    assert_products(position, lambda i, j: i - j, rates, (0.1 * math.log(4) + 1) ** 2)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("reach", [1, 3, 10])
def test_a_clipped_rotation(reach, causal):
    position = scheme("rope", causal)
    assert position.clip(reach)
    assert_products(position, lambda i, j: max(-reach, min(reach, i - j)), rope_rates(), causal=causal)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("reach", "group"), [(2, 2), (3, 2), (4, 3), (1, 1)])
def test_a_grouped_rotation(reach, group, causal):
    position = scheme("rope", causal)
    assert position.clip(reach, group)

    def distance(i, j):
        if abs(i - j) <= reach:
            return i - j
        far = reach - reach // group + abs(i // group - j // group)
        return far if i > j else -far

    assert_products(position, distance, rope_rates(), causal=causal)


@pytest.mark.parametrize("name", ["alibi", "t5-bias", "kerple", "sandwich", "transformer-xl"])
@pytest.mark.parametrize("causal", [True, False])
def test_a_clipped_table_repeats_its_ends(name, causal):
    torch.manual_seed(2)
    position = scheme(name, causal).double()
    [view] = join([position], 1)[0].biasing
    for span in (Span(0, 9, torch.device("cpu")), Span(7, 2, torch.device("cpu"))):
        view.reach = None
        plain = view.by_offset(span)
        assert position.clip(3)
        got = table_of(view, span)
        for column, offset in enumerate(span.diagonals.tolist()):
            nearest = max(-3, min(3, offset))
            if nearest in span.diagonals.tolist():
                want = plain[..., span.diagonals.tolist().index(nearest)]
                torch.testing.assert_close(got[..., column], want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["alibi", "relative", "cope", "rope", "none"])
@pytest.mark.parametrize("causal", [True, False])
def test_temperature_multiplies_every_logit(name, causal):
    torch.manual_seed(3)
    schemes = [] if name == "none" else [scheme(name, causal).double()]
    q, k = queries_and_keys()
    lengths = None if causal else torch.tensor([8])
    span = Span(0, 11, q.device, lengths)
    [plain], [hot] = join(schemes, 1), join(schemes, 1, Temperature(4, causal))

    def total(views):
        rotated_q, rotated_k = views.rotate(q, k, span)
        bias = views.logits(q, k, span)
        product = rotated_q @ rotated_k.mT
        return product if bias is None else product + bias

    before, after = total(plain), total(hot)
    for i in range(11):
        seen = i + 1 if causal else 8
        factor = max(1.0, math.log(seen) / math.log(4))
        torch.testing.assert_close(after[:, :, i], before[:, :, i] * factor, rtol=0, atol=1e-9)
    assert plain.tables(span).keys() >= hot.tables(span).keys() == set()


@by_name
def test_steps_are_the_whole(name):
    source, target = tokens(2, 11), tokens(2, 13, seed=1)
    before = plain(name)(source, None, target)
    for change, model in served(name).items():
        whole = model(source, None, target)
        assert_same(change, in_pieces(model, source, None, target, range(1, 14)), whole)
        assert (whole - before).abs().max() > 1e-7, change


@by_name
def test_padding_changes_nothing(name):
    source, target = tokens(1, 9), tokens(1, 7, seed=1)
    padded = torch.cat([source, torch.zeros(1, 4, dtype=source.dtype)], 1)
    for change, model in served(name).items():
        assert_same(change, model(padded, torch.tensor([9]), target), model(source, None, target))


@by_name
def test_what_has_no_effect_changes_nothing(name):
    """A factor of one, a reach that no distance passes, and a temperature within the trained lengths."""
    source, target = tokens(2, 11), tokens(2, 13, seed=1)
    before = plain(name)(source, None, target)
    for change in served(name):
        if change in ("interpolate", "ntk", "yarn"):
            assert torch.equal(changed(name, {change: 1.0})(source, None, target), before), change
        elif change in ("clip", "group"):
            model = changed(name, {**CHANGES[change], "clip": 20})
            assert_same(change, model(source, None, target), before)
        else:
            assert_same(change, changed(name, CHANGES[change], (11, 13))(source, None, target), before)


@pytest.mark.parametrize("name", ["alibi", "t5-bias", "transformer-xl"])
def test_groups_of_one_stack_leave_the_biases_of_the_other_as_they_are(name):
    """What has no groups is not clipped in their place."""
    part = {"encoder": {"position": [{"scheme": name}]}, "decoder": {"position": [{"scheme": "rope"}]}}
    before, model = build_model(**part), build_model(**part)
    change_positions(model, Positions(clip=3, group=2), TRAINED, Path("run"))
    source, target = tokens(2, 11), tokens(2, 13, seed=1)
    assert torch.equal(model.encode(source, None), before.encode(source, None))
    assert not torch.equal(model(source, None, target), before(source, None, target))


def test_which_schemes_have_which_change():
    """Over the registry, so that a scheme of tomorrow is asked as well."""
    answers = {change: set() for change in ("ntk", "yarn", "clip", "group")}
    for name in SCHEMES:
        for causal in (False, True):
            try:
                asked = [scheme(name, causal) for _ in range(4)]
            except Exception:  # it cannot serve this stack
                continue
            done = asked[0].ntk(2.0), asked[1].yarn(2.0, 9), asked[2].clip(2), asked[3].clip(2, 2)
            for change, answer in zip(answers, done, strict=True):
                answers[change] |= {name} if answer else set()
    biases = {"alibi", "t5-bias", "kerple", "sandwich", "transformer-xl"}
    assert answers["ntk"] == answers["group"] == {"rope", "xpos"}
    assert answers["yarn"] == {"rope"}
    assert answers["clip"] == {"rope", "xpos"} | biases


@pytest.mark.parametrize(
    ("name", "change", "shown"),
    [
        ("relative", {"ntk": 2}, "ntk changes rotations: rope and xpos; this model has relative"),
        ("xpos", {"yarn": 2}, "yarn changes the rotation of rope; this model has rope, xpos"),
        ("relative", {"clip": 2}, "this model has relative"),
        (
            "alibi",
            {"clip": 2, "group": 2},
            "group changes the distances of rotations: rope and xpos; this model has alibi",
        ),
        ("none", {"clip": 2}, "this model has no position scheme in self-attention"),
        ("rnn-nmt", {"temperature": "log"}, "this model has the architecture rnn-nmt"),
        ("relative", {"interpolate": 2}, "no position scheme of self-attention can be interpolated"),
        ("relative", {"interpolate": 2}, "; leave it out; sinusoids"),  # by whatever option it was given
    ],
)
def test_what_means_nothing_is_refused_by_name(name, change, shown):
    with pytest.raises(UserError) as caught:
        changed(name, change)
    assert shown in caught.value.line()


@pytest.mark.parametrize("change", ["yarn", "temperature"])
def test_without_trained_lengths(change):
    with pytest.raises(UserError, match=f"decode.positions.{change} needs the lengths of the training sentences"):
        changed("rope", CHANGES[change], trained=None)


def test_a_temperature_computes_the_same_in_blocks(monkeypatch):
    """Blocks of queries, with tables and vectors that they would otherwise compute for all queries at once."""
    from posnmt.model.kernels import block_weights, choose

    for name in ("alibi", "relative", "rope-relative-cope", "rope"):
        for change in ({"temperature": "log"}, {"clip": 3} if name in ("alibi", "rope") else {}):
            model, source, target = changed(name, change), tokens(2, 11), tokens(2, 13, seed=1)
            want = model(source, None, target)
            with monkeypatch.context() as patch:
                patch.setattr(choose, "SMALL", 0)
                patch.setattr(block_weights, "MAX_BLOCK_WEIGHTS", 1)
                patch.setattr(block_weights, "FEW", 4)
                patch.setattr(choose, "BLOCK", 1)
                torch.testing.assert_close(model(source, None, target), want, rtol=0, atol=1e-9)


def test_subjects_are_there():
    assert sum(len(served(name)) for name in MODELS) > 100
    assert {change for name in MODELS for change in served(name)} == {*CHANGES}
    assert isinstance(join([], 1)[0], LayerPositions)
    assert subject(MODELS["rope"]).is_transformer
