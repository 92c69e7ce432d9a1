"""What the benchmarks for a GPU count, keep and write, without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from posnmt.training.loss import TrainingLoss
from tests.support.sources import SOURCES

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


def lengths(source: list[int], target: list[int]) -> Any:
    """A split of pairs with these lengths, end symbols included."""
    return SimpleNamespace(source_lengths=np.array(source) - 1, target_lengths=np.array(target) - 1)


def test_products_are_those_that_pytorch_counts() -> None:
    """Of rows without padding; PyTorch counts the keys right of a query as well."""
    from gpu_stages import model_of
    from gpu_step import products

    model = model_of("transformer", "tiny", 304)
    rows, source, target, d, layers = 3, 12, 9, 64, 2
    words = [torch.randint(4, 300, (rows, length)) for length in (source, target)]
    with FlopCounterMode(display=False) as counted:
        loss, _ = TrainingLoss(model, 0.1)(words[0], torch.full((rows,), source), words[1], words[1])
        loss.backward()
    unseen = target * target - target * (target + 1) // 2
    found = products(model, lengths([source] * rows, [target] * rows), np.arange(rows), padded=False)
    assert found == counted.get_total_flops() - 6 * 2 * d * layers * rows * unseen


def test_padding_counts_if_it_is_asked_for_but_is_never_projected_to_the_vocabulary() -> None:
    from gpu_stages import model_of
    from gpu_step import products

    model = model_of("transformer", "tiny", 304)
    split, whole = lengths([12, 7], [9, 5]), lengths([12, 12], [9, 9])
    every = np.arange(2)
    padding = 6 * 4 * model.output.weight.numel()
    assert products(model, split, every, padded=True) == products(model, whole, every, padded=False) - padding
    each = sum(products(model, split, every[row : row + 1], padded=False) for row in range(2))
    assert products(model, split, every, padded=False) == each


def test_a_synthetic_store_has_pairs_of_the_lengths_that_it_says(tmp_path: Path) -> None:
    from gpu_step import synthetic_store

    [split] = synthetic_store(tmp_path / "train.arrow", 500, 300).trained()
    assert len(split) == 500
    for sides in (split.source_lengths, split.target_lengths):
        assert sides.min() >= 10
        assert 20 < np.median(sides) < 30
        assert sides.max() <= 60
    pair = split.pair(499)
    assert [len(side) for side in pair] == [split.source_lengths[499], split.target_lengths[499]]
    assert all(side.min() >= 4 and side.max() < 300 for side in pair)


def test_packed_caches_are_whole_at_another_place(tmp_path: Path) -> None:
    """Triton's lists of files have whole paths, which are those of the new place."""
    from gpu_cache import GROUP, kernels, pack, unpack

    kernel = tmp_path / "one" / "triton" / "KEY"
    kernel.mkdir(parents=True)
    for name in ("forward.cubin", "forward.json", "forward.ptx", f"{GROUP}forward.json"):
        (kernel / name).write_text(name)
    (tmp_path / "one" / "inductor" / "ab").mkdir(parents=True)
    (tmp_path / "one" / "inductor" / "ab" / "code.py").write_text("code")
    for name in ("packed.tar.xz", "packed.tar.gz"):
        pack(tmp_path / "one", tmp_path / name)
        unpack(tmp_path / name, place := tmp_path / f"from {name}")
        files = json.loads((place / "triton" / "KEY" / f"{GROUP}forward.json").read_text())["child_paths"]
        assert {Path(path).read_text() for path in files.values()} == {"forward.cubin", "forward.json"}
        assert all(Path(path) == place / "triton" / "KEY" / name for name, path in files.items())
        assert (place / "inductor" / "ab" / "code.py").read_text() == "code"
        assert not list(place.rglob("*.ptx"))
        assert kernels(place) == 1


@pytest.mark.parametrize("several", [[], ["-n", "2"]])
def test_each_test_has_a_line_with_its_outcome(several: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_these.py").write_text(
        "import pytest\n\ndef test_well():\n    pass\n\ndef test_badly():\n    assert 1 == 2\n\n"
        "@pytest.mark.skip(reason='not now')\ndef test_never():\n    pass\n\n"
        "@pytest.fixture\ndef broken():\n    raise OSError('full')\n\ndef test_without(broken):\n    pass\n"
    )
    outcomes = tmp_path / "outcomes"
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "gpu_outcomes", *several, "test_these.py"]
    places = os.pathsep.join([str(BENCHMARKS), SOURCES])
    environment = {**os.environ, "PYTHONPATH": places, "OUTCOMES": str(outcomes)}
    environment.pop("PYTEST_XDIST_WORKER", None)  # of this test
    subprocess.run(words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    written = [json.loads(line) for line in outcomes.read_text().splitlines()]
    assert len(written) == 4
    lines = {line["test"].partition("::")[2]: line for line in written}
    found = {name: line["outcome"] for name, line in lines.items()}
    assert found == {"test_well": "passed", "test_badly": "failed", "test_never": "skipped", "test_without": "failed"}
    assert "1 == 2" in lines["test_badly"]["why"]
    assert "full" in lines["test_without"]["why"]
    assert "not now" in lines["test_never"]["why"]


@pytest.mark.parametrize(("compiling", "made"), [((), 8), ((1, 2), 8), ((1, 2, 7, 10), 14), (tuple(range(99)), 60)])
def test_nothing_is_timed_until_four_updates_in_a_row_compiled_no_graph(compiling: tuple[int, ...], made: int) -> None:
    from gpu_step import warm
    from torch._dynamo.utils import counters

    class Compiling:
        """Counts a graph as PyTorch does, in the updates that compile one."""

        number = 0

        def advance(self) -> None:
            self.number += 1
            counters["stats"]["unique_graphs"] += self.number in compiling

    before = counters["stats"]["unique_graphs"]
    updates = Compiling()
    assert warm(updates) == updates.number == made  # type: ignore[arg-type]
    assert counters["stats"]["unique_graphs"] == before + sum(each <= made for each in compiling if each)
    counters["stats"]["unique_graphs"] = before
