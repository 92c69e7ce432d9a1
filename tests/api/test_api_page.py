"""docs/api.md: every example runs, in order, in one folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import posnmt

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.mark.slow
def test_examples_run(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(trained / "first", "runs/mine")
    for name, split in (("train", "train"), ("test", "test")):
        for suffix, side in (("en", "source"), ("de", "target")):
            shutil.copy(trained / "corpus" / f"{split}.{side}", f"{name}.{suffix}")
    text = PAGE.read_text(encoding="utf-8")
    blocks = [(match.start(), match[1]) for match in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)]
    assert len(blocks) == 9
    names = {"__name__": "__main__"}
    for start, block in blocks:
        line = text[:start].count("\n") + 1
        exec(compile("\n" * line + block, str(PAGE), "exec"), names)
    assert (tmp_path / "report" / "report.html").exists()
    printed = capsys.readouterr().out
    assert "torch.Size([2, 7, 32]) torch.Size([2, 7, 32])" in printed


def test_the_page_names_what_is_public():
    text = PAGE.read_text(encoding="utf-8")
    for name in posnmt.__all__:
        documented = {"__version__", "Analysis", "AttentionMap", "Attentions", "DistanceBias", "Encoding", "Figure"}
        documented |= {"Hypothesis", "Positions", "Run", "TrainedModel"}  # types of what is returned
        assert name in documented or re.search(rf"posnmt[. ]{name}|import {name}", text), name


def test_settings_that_the_page_names_exist():
    from posnmt.api.analyse import _RESAMPLING, _SETTINGS

    after = PAGE.read_text(encoding="utf-8").split("[`posnmt analyse`](commands.md#posnmt-analyse):")[1]
    listed = after.split("\n\n")[0]
    assert set(re.findall("`([a-z_]+)`", listed)) <= {*_RESAMPLING, *_SETTINGS}


@pytest.mark.parametrize("scheme", ["rope", "t5-bias", "alibi", "fire"])
def test_the_example_module_is_our_attention(scheme):
    """The page's SelfAttention with our weights has the output of `posnmt.model.attention.SelfAttention`."""
    import torch

    from posnmt.model.attention import SelfAttention
    from posnmt.position import Span

    text = PAGE.read_text(encoding="utf-8")
    [block] = [
        block for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if "class SelfAttention" in block
    ]
    names: dict = {}
    exec(block, names)
    theirs = names["SelfAttention"](32, 4, scheme)
    ours = SelfAttention(32, 4, 0.0, causal=False)
    theirs.project.load_state_dict(ours.project.state_dict())
    theirs.output.load_state_dict(ours.output.state_dict())
    x = torch.randn(2, 7, 32)
    torch.testing.assert_close(theirs(x), ours(x, theirs.view, Span(0, 7, x.device), None), rtol=0, atol=1e-5)
    theirs(x).sum().backward()
    assert all(weight.grad is not None for weight in theirs.parameters())
