"""`posnmt.testing.check_scheme`: every registered scheme passes, and schemes that are wrong in one place do not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from posnmt.config.schema import SchemeChoice
from posnmt.model.base import stacks
from posnmt.model.positions import SCHEMES, check, scheme_class
from posnmt.testing import check_scheme
from posnmt_position.options import Options, option
from posnmt_position.seam import LayeredScheme, LayerPosition
from tiny import settings


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_a_registered_scheme(name):
    """One layer each: test_every_model in test_seam.py has several."""
    check_scheme(scheme_class(name), layers=1)


class Nearness(LayerPosition):
    """A trained number a head times the distance, and a trained vector added to what attention gives."""

    reads_keys = False

    def __init__(self, heads, width):
        super().__init__()
        self.slope, self.offset = nn.Parameter(torch.rand(heads, 1, 1)), nn.Parameter(torch.rand(width))

    def logits(self, q, k, span):
        return (-self.slope * span.offsets.abs()).to(q.dtype)

    def values(self, weights, span):
        return weights.sum(-1, keepdim=True) * self.offset


class Outside(LayeredScheme):
    """A scheme that the package does not know: a bias in each layer, and a running mean of the words."""

    view: type[LayerPosition] = Nearness

    class Settings(Options):
        rate: float = option(0.5, gt=0, lt=1)

    def __init__(self, stack, settings):
        super().__init__()
        self.rate = settings.rate
        self.layers = nn.ModuleList(self.view(stack.heads, stack.d_head) for _ in range(stack.layers))

    @classmethod
    def refuses(cls, stack, settings, others=()):
        return [] if stack.causal else ["forgets what comes late, so it cannot serve the encoder"]

    def embed(self, x, span, carry):
        kept, means = (torch.zeros_like(x[:, 0]) if carry is None else carry[0]), []
        for word in x.unbind(1):
            kept = kept.lerp(word, self.rate)
            means.append(kept)
        return x + torch.stack(means, 1), (kept,)


def test_a_scheme_from_outside_the_package():
    check_scheme(Outside)
    check_scheme(Outside, {"rate": 0.25}, d_model=24, heads=3, layers=1)


def test_the_scheme_in_contributing_md():
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = {"__name__": "gaussian"}
    exec(compile(text.split("```python\n")[1].split("```")[0], "gaussian.py", "exec", dont_inherit=True), names)
    check_scheme(names["Gaussian"])


@pytest.mark.slow
def test_one_line_is_enough_and_leaves_nothing_behind():
    code = (
        "from posnmt.testing import check_scheme; from posnmt_position.absolute import Sinusoidal as S; check_scheme(S)"
    )
    code += "; import sys; assert 'pytest' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    before = dict(SCHEMES)
    check_scheme(Outside)
    assert before == SCHEMES


def test_a_class_may_be_registered(monkeypatch):
    monkeypatch.setitem(SCHEMES, "outside", Outside)
    assert scheme_class("outside") is Outside
    assert settings(encoder={}, decoder={"position": [{"scheme": "outside", "rate": 0.1}]}).decoder.layers == 2
    faults = check([SchemeChoice(scheme="outside")], stacks(settings())["encoder"])
    assert faults == [(0, "outside forgets what comes late, so it cannot serve the encoder")]


def broken(**methods):
    """`Outside` with other methods of its own, and of its view those whose names begin with `view_`."""
    of_view = {name.removeprefix("view_"): each for name, each in methods.items() if name.startswith("view_")}
    view = type("View", (Nearness,), of_view)
    return type("Broken", (Outside,), {"view": view, **{n: e for n, e in methods.items() if not n.startswith("view_")}})


def serves_both(cls, stack, settings, others=()):
    return []


def serves_encoders(cls, stack, settings, others=()):
    return ["looks right"] if stack.causal else []


def adds_nothing(self, x, span, carry):
    return x, carry


def reads_the_future(self, x, span, carry):
    return x + x.mean(1, keepdim=True), carry


def forgets(self, x, span, carry):
    return Outside.embed(self, x, span, None)


def counts_from_the_piece(self, q, k, span):
    offsets = torch.arange(k.shape[-2]) - torch.arange(q.shape[-2])[:, None]
    return (-self.slope * offsets.abs()).to(q.dtype)


def wrong_at_length_1(self, q, k, span):
    return Nearness.logits(self, q, k, span) * (0.5 if span.length == 1 else 1)


def wrong_at_pieces(self, weights, span):
    return Nearness.values(self, weights, span) * (1 if span.start == 0 or span.length == 1 else 2)


def keeps_of_the_first_row(self, x, span, carry):
    x, (kept,) = Outside.embed(self, x, span, carry)
    return x, (kept[:1].expand_as(kept),)


def ends_with_an_error(self, q, k, span):
    return Nearness.logits(self, q, k, span).view(q.shape[1], 9, 9)


def reads_all_keys(self, x, span, carry):
    return x + x.mean(1, keepdim=True), None


def dead_parameter(self, stack, settings):
    Outside.__init__(self, stack, settings)
    self.unused = nn.Parameter(torch.ones(3))


def unstored(self, stack, settings):
    Outside.__init__(self, stack, settings)
    self.rate = 0.2 + 0.6 * torch.rand(()).item()


def divides(self, factor):
    self.rate /= factor
    return True


def pretends(self, factor):
    return True


def squeezes(self, factor):
    self.rate = 0.5 / factor
    return False


def looks_at_keys(self, q, k, span):
    return Nearness.logits(self, q, k, span) + k.sum(-1)[..., None, :]


BROKEN = {
    "reads words to the right": broken(embed=reads_the_future),
    "pieces of a target": [
        broken(embed=forgets),
        broken(view_logits=counts_from_the_piece),
        broken(view_logits=wrong_at_length_1),
        broken(view_values=wrong_at_pieces),
    ],
    "depends on the padding": broken(refuses=classmethod(serves_both), embed=reads_all_keys),
    "selected in mid-search|pieces of a target": broken(embed=keeps_of_the_first_row),
    "in the decoder: the check 'causality' ended with UserError: .* raised RuntimeError": broken(
        view_logits=ends_with_an_error
    ),
    "no gradient reaches .*unused": broken(__init__=dead_parameter),
    "not restored by its state dictionary": broken(__init__=unstored),
    "in blocks of queries is not the whole": broken(
        refuses=classmethod(serves_encoders), embed=adds_nothing, view_logits=counts_from_the_piece
    ),
    r"interpolate\(1.0\) does not undo": broken(interpolate=divides),
    r"interpolate\(2.0\) returns True, and does not change the output": broken(interpolate=pretends),
    r"interpolate\(2.0\) returns False, and changes the output": broken(interpolate=squeezes),
    "has reads_keys = False": broken(view_logits=looks_at_keys),
    "serves no stack of this size": broken(
        refuses=classmethod(lambda cls, stack, settings, others=(): ["serves nobody"])
    ),
}
"""What the sentence says → a scheme, or several, that must not pass."""


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [(what, kind) for what, kinds in BROKEN.items() for kind in (kinds if isinstance(kinds, list) else [kinds])],
)
def test_a_broken_scheme_does_not_pass(sentence, kind):
    with pytest.raises(AssertionError) as raised:
        check_scheme(kind)
    assert re.search(sentence, str(raised.value)), str(raised.value)
    assert str(raised.value).startswith("Broken ")
