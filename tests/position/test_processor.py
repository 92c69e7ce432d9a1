"""Processors with and without bfloat16: each sees, in a child process, what the other does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from posnmt_position.processor import multiplies_bf16

AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}

WITHOUT = """
import torch
from tests.support import tiny
from posnmt.config.schema import Train
from posnmt_position.processor import multiplies_bf16
from posnmt.training.device import precision
from posnmt.translate.translator import Translator

assert not multiplies_bf16()
assert precision(Train(steps=1), "cpu") == "32-true"
for name in SYSTEMS:
    model = tiny.build(**tiny.MODELS[name]).float().train()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model.project(model(tiny.tokens(3, 5), None, tiny.tokens(3, 4, seed=1))).float().logsumexp(-1).sum()
    loss.backward()
    assert all(each.grad is None or each.grad.isfinite().all() for each in model.parameters()), name
translator = Translator([tiny.build(system="lstm").float()], text=None, precision="bf16")
assert translator.models[0].output.dtype == torch.float32
assert "no bf16 instructions" in translator.notes[0]
"""


def run(script: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, cwd=Path(__file__).parents[2],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_processor_without_bf16_trains_and_translates_in_bf16():
    """AVX2 has no bfloat16 at all: oneDNN refuses LSTMs and packed weights, which are computed in float32 there."""
    run(
        WITHOUT.replace("SYSTEMS", "('transformer', 'lstm', 'rnn', 'sru', 'rnn-nmt', 'rnmt-cascade', 'mpr-head')"),
        **AVX2,
    )


@pytest.mark.skipif(multiplies_bf16(), reason="this processor multiplies bfloat16 itself")
@pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN cannot emulate bfloat16 on this processor"
)
def test_a_processor_that_emulates_bf16_sees_what_one_with_it_does():
    script = WITHOUT.split("translator =")[0].replace("assert not multiplies_bf16()", "")
    script = script.replace("assert precision", "assert not precision").replace("SYSTEMS", "('lstm', 'rnn-nmt')")
    script = script.replace(
        "from posnmt_position.processor import multiplies_bf16", "import posnmt_position.processor", 1
    )
    patch = "import torch\ntorch.cpu.get_capabilities = lambda: {'avx512_bf16': True}\n"
    run(script.replace("import torch\n", patch, 1))
