"""`posnmt.testing.check_scheme`: every registered scheme passes, and schemes that are wrong in one place do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import posnmt_position.testing
from position.tests.outside_scheme import Nearness, Outside
from posnmt.base import plugins
from posnmt.config.schema import SchemeChoice
from posnmt.model.base import stacks
from posnmt.model.positions import SCHEMES, check, scheme_class
from posnmt.testing import check_scheme
from tests.support.tiny import settings


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_a_registered_scheme(name):
    """One layer each: test_every_model in test_seam.py has several."""
    check_scheme(scheme_class(name), layers=1)


def test_a_scheme_from_outside_the_package():
    check_scheme(Outside)
    check_scheme(Outside, {"rate": 0.25}, d_model=24, heads=3, layers=1)


@pytest.mark.parametrize(("number", "name"), [(1, "Gaussian"), (2, "Forgetting")])
def test_the_schemes_in_contributing_md(number, name):
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    parts = text.split("## A position scheme, whole")[1].split("\n## ")[0].split("```python\n")
    assert len(parts) == 3
    names = {"__name__": name.lower()}
    exec(compile(parts[number].split("```")[0], f"{name.lower()}.py", "exec", dont_inherit=True), names)
    check_scheme(names[name], layers=1)


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
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setitem(SCHEMES, "outside", Outside)
    assert scheme_class("outside") is Outside
    assert plugins.origin("scheme", "outside").target == f"{Outside.__module__}:Outside"
    assert scheme_class("rope").__name__ == "Rope"
    assert plugins.origin("scheme", "rope") is None
    assert settings(encoder={}, decoder={"position": [{"scheme": "outside", "rate": 0.1}]}).decoder.layers == 2
    faults = check([SchemeChoice(scheme="outside")], stacks(settings())["encoder.position"])
    assert faults == [(0, "outside forgets what comes late, so it cannot serve the encoder")]


def broken(**methods):
    """`Outside` with other methods of its own, and of its view those whose names begin with `view_`."""
    of_view = {name.removeprefix("view_"): each for name, each in methods.items() if name.startswith("view_")}
    view = type("View", (Nearness,), of_view)
    return type("Broken", (Outside,), {"view": view, **{n: e for n, e in methods.items() if not n.startswith("view_")}})


def adds_nothing(self, x, span, carry):
    return x, carry


def serves_encoders(cls, stack, settings, others=()):
    return ["looks right"] if stack.causal else []


def counts_from_the_piece(self, q, k, span):
    offsets = torch.arange(k.shape[-2]) - torch.arange(q.shape[-2])[:, None]
    return (-self.slope * offsets.abs()).to(q.dtype)


def test_what_is_broken_in_blocks_does_not_pass():
    kind = broken(refuses=classmethod(serves_encoders), embed=adds_nothing, view_logits=counts_from_the_piece)
    posnmt_position.testing.check_scheme(kind)  # no attention of plain PyTorch is computed in blocks
    with pytest.raises(AssertionError, match=r"^Broken in the encoder: .* in blocks of queries is not the whole"):
        check_scheme(kind)
