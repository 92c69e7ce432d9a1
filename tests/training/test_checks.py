"""What a training checks before its first update: dev BLEU, the store, lengths, the memory of the largest batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.torch_version import TorchVersion

from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.data.batch import BatchPlan
from posnmt.data.prepare import prepare
from posnmt.run.resolve import load
from posnmt.run.run import Run
from posnmt.training import train as scroll
from posnmt.training.build import Training, batch_plan, build, training_pairs
from posnmt.training.checks import (
    LargestBatch,
    check_all,
    check_bleu,
    largest_batch,
    moments_to_come,
    refuse_too_long,
)
from posnmt.training.device import make_fabric
from posnmt.training.speed import measure
from posnmt.training.train import train, update
from tests.support import commands, corpus
from tests.support.training_case import assert_same, weights


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return corpus.make(tmp_path_factory.mktemp("corpus"), pairs=60)


def refused(config, out):
    """The fault with which a training ends before it has a run folder."""
    with pytest.raises(UserError) as raised:
        train(config, out)
    assert not (out / "metrics.jsonl").exists()
    return str(raised.value)


def test_a_tokeniser_that_is_missing_ends_the_run_at_once(path, tmp_path, monkeypatch):
    """Where the import of MeCab fails, sacreBLEU has None in its place."""
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    fault = refused(load(path, ["train.dev_bleu=true", "train.bleu_tokenizer=ja-mecab"]), tmp_path / "run")
    assert "BLEU on dev cannot be computed with the tokeniser ja-mecab" in fault
    assert "posnmt[ja]" in fault


@pytest.mark.parametrize("tokenizer", ["13a", "char", "zh", "none", "intl", "ja-mecab"])
def test_tokenisers_that_are_installed(tokenizer):
    check_bleu(tokenizer)


def test_a_damaged_store_ends_the_run(path, tmp_path):
    config = load(path, [f"data.store={tmp_path}"])
    place = prepare(config).folder / "train.arrow"
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 1
    place.write_bytes(content)
    assert "train.arrow is not what was written" in refused(config, tmp_path / "run")


def test_the_largest_batch_is_that_with_the_most_padded_tokens(path):
    config = load(path)
    pairs = training_pairs(config.train, prepare(config))
    plan = batch_plan(config, pairs)
    numbers, tokens = largest_batch(plan)
    shapes = []
    for each in plan.epoch(0):
        sides = zip(*(pairs.pair(int(number)) for number in each), strict=True)
        shapes.append(sum(len(each) * (max(map(len, side)) + 1) for side in sides))
    assert tokens == max(shapes)
    assert any(np.array_equal(numbers, each) for each in plan.epoch(0))


@pytest.mark.parametrize(("size", "longest"), [(1, 33), (2, 62), (7, 62)])
def test_no_batch_that_is_drawn_can_be_larger_than_the_largest(size, longest):
    """The longest source and the longest target, which are of two pairs, may be drawn together; or the longest pair."""
    sides = [np.array([each, *[1] * 500, other], np.int32) for each, other in ((30, 1), (1, 30))]
    pairs = SimpleNamespace(source_lengths=sides[0], target_lengths=sides[1])
    numbers, tokens = largest_batch(BatchPlan(pairs, size, "sentences", seed=1, with_replacement=True))
    assert len(numbers) == size
    assert tokens == size * longest == size * sum(int(side[numbers].max()) + 1 for side in sides)


def test_batches_are_drawn_where_the_configuration_says_so(path):
    settings = ["train.with_replacement=true", "train.batch_unit=sentences", "train.batch=7"]
    config = load(path, settings)
    pairs = training_pairs(config.train, prepare(config))
    assert len(pairs) % 7
    assert {len(batch) for batch in batch_plan(config, pairs).epoch(0)} == {7}


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000 bytes"),
        MemoryError(),
    ],
)
def test_a_batch_that_is_too_large_ends_the_run(error, path, tmp_path, monkeypatch):
    def rehearse(self, numbers):
        raise error

    monkeypatch.setattr(Training, "rehearse", rehearse)
    fault = refused(load(path), tmp_path / "run")
    assert "the memory is too small for the largest batch" in fault
    assert "lower train.batch (now 250 tokens)" in fault


def test_a_model_without_compiled_layers_is_refused(path, tmp_path):
    fault = refused(load(path, ["model.system=sru", "train.compile=true"]), tmp_path / "run")
    assert "sru has no layers that torch.compile translates" in fault
    assert "train.compile" in fault


def test_an_older_pytorch_does_not_compile(path, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.8.0"))
    fault = refused(load(path, ["train.compile=true"]), tmp_path / "run")
    assert "translates these layers from PyTorch 2.13 on, and this is 2.8.0" in fault
    assert "train.compile" in fault


def test_an_error_that_is_not_of_memory_is_kept(path, tmp_path, monkeypatch):
    def rehearse(self, numbers):
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(Training, "rehearse", rehearse)
    with pytest.raises(RuntimeError, match="shapes differ"):
        train(load(path), tmp_path / "run")


def test_trying_a_batch_changes_nothing(path, tmp_path, monkeypatch):
    """The losses are those of a run that tried none; the gradient that is tried is that of an update."""
    config = load(path)
    tried = train(config, tmp_path / "tried")
    monkeypatch.setattr(scroll, "try_largest_batch", lambda t: LargestBatch(1, 2, None))
    alone = train(config, tmp_path / "alone")
    assert_same(weights(tried.folder), weights(alone.folder))


def test_prepare_checks_all_of_it(path, tmp_path):
    out, err = commands.run("prepare", path, "--check", "--set", "train.batch=5")
    assert "the largest batch fits: 1 pair," in err
    place = Path(out.strip()) / "train.arrow"
    sound = place.read_bytes()
    place.write_bytes(sound[:1000] + bytes([sound[1000] ^ 1]) + sound[1001:])
    [fault] = commands.refused("prepare", path, "--check", "--set", "train.batch=5")
    assert fault.startswith("error: the store is damaged: ")
    assert str(place) in fault or "train.arrow is not what was written" in fault
    place.write_bytes(sound)


FEW_POSITIONS = [
    "model.system=null",
    *(
        f"model.{side}={{layers: 1, position: [{{scheme: randomised, positions: 9}}]}}"
        for side in ("encoder", "decoder")
    ),
]
"""Changes after which there are longer sentences than positions to draw from."""


def test_sentences_without_positions_are_refused_wherever_a_batch_is_tried(path, tmp_path):
    config = load(path, FEW_POSITIONS)
    store = prepare(config)
    fault = refused(config, tmp_path / "run")
    assert "and this model has positions for 9 tokens" in fault
    assert "raise the option positions of randomised, lower data.max_length" in fault
    for check in (lambda: check_all(config, store, Display(quiet=True)), lambda: measure(config, store, 0.0)):
        with pytest.raises(UserError) as raised:
            check()
        assert str(raised.value) == fault
    learned = refused(load(path, ["model.system=learned", "model.max_length=5"]), tmp_path / "run")
    assert "raise model.max_length, lower data.max_length" in learned


def test_dev_sentences_need_the_positions_of_inference(path):
    """Without a limit where those of training have one."""
    config = load(path, [*FEW_POSITIONS, "data.max_length=8"])
    store = prepare(config)
    assert store.split("dev").source_lengths.max() > 8
    t = build(config, store, make_fabric(config.train))
    refuse_too_long(t)
    assert t.model.training
    t.close()


def test_a_dev_sentence_is_not_advised_to_lower_the_length_of_training(path, tmp_path):
    fault = refused(load(path, ["model.system=learned", "model.max_length=9", "data.max_length=8"]), tmp_path / "run")
    assert "a dev " in fault
    assert "; raise model.max_length, shorten the sentence or remove the pair, or use a system without a limit" in fault


def test_the_memory_of_the_largest_batch_is_printed_and_recorded(path, tmp_path):
    _, err = commands.run("train", path, "--out", tmp_path / "run", "--set", "train.steps=1", "--verbose")
    tried = Run.open(tmp_path / "run").record["largest_batch"]
    assert f"the largest batch fits: {tried['pairs']} pairs, {tried['padded_tokens']} padded tokens, " in err
    assert f"{tried['bytes'] / 2**30:.2f} GiB" in err
    assert tried["bytes"] > 50 * 2**20, "of a process with PyTorch"


def test_the_moments_are_counted_until_the_optimizer_has_them(path):
    config = load(path)
    t = build(config, prepare(config), make_fabric(config.train))
    weights_of = sum(weight.numel() * 4 for weight in t.model.parameters())
    assert moments_to_come(t) == 2 * weights_of
    update(t, 1e-3, [largest_batch(t.plan)[0]])
    assert moments_to_come(t) == 0
    t.close()


PEAKS = """
import torch
from posnmt.training.checks import peak_memory
for size in (50_000_000, 5):
    print(peak_memory(torch.device("cpu"), lambda: torch.ones(size).sum()))
"""


def test_the_peak_is_that_of_the_work():
    """In a process of its own: one that has freed much may have kept it, and then takes no more from the system."""
    done = subprocess.run([sys.executable, "-c", PEAKS], capture_output=True, text=True, check=True)
    much, little = map(int, done.stdout.split())
    assert much - little > 150_000_000
