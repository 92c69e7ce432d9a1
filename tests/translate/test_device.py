"""What settings of search leave open follows the device: the precision of products, and the size of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import permutations, product
from types import SimpleNamespace

import pytest
import torch

from posnmt.config.schema import Decode, Train
from posnmt.training.device import make_fabric
from posnmt.translate import device
from posnmt.translate.device import (
    BATCH,
    FP32,
    LARGEST,
    TF32,
    batch_size,
    fitting,
    free_memory,
    in_bf16,
    in_fp32,
    in_tf32,
)
from posnmt.translate.requests import Part, Request, Search
from posnmt.translate.subwords import Searcher, force_subwords
from posnmt.translate.translator import Translator
from tests.support.tiny import build

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def test_batches_follow_the_free_memory_of_a_gpu_between_two_limits(monkeypatch):
    gib = 2**30
    sizes = (0, 1, 4, 23, 24, 31, 63, 64, 80)
    found = [BATCH, BATCH, BATCH, *[16 * 1024] * 3, 32 * 1024, LARGEST, LARGEST]
    assert [fitting(size * gib) for size in sizes] == found
    # a training has 9 GiB of 40, and PyTorch keeps 3 more for new tensors; another process has 10
    memory = {"mem_get_info": (18 * gib, 40 * gib), "memory_reserved": 12 * gib, "memory_allocated": 9 * gib}
    for name, value in memory.items():
        monkeypatch.setattr(torch.cuda, name, lambda given, value=value: value if given == GPU else 0)
    assert free_memory(GPU) == 21 * gib
    assert batch_size(Decode(), GPU) == 16 * 1024
    assert batch_size(Decode(), CPU) == BATCH == 4096
    assert batch_size(Decode(batch=7), GPU) == batch_size(Decode(batch=7), CPU) == 7


@pytest.mark.parametrize("beam", [1, 4])
def test_the_size_is_that_of_the_batches_of_search(beam):
    parts, asked = [Part([5] * 15, Request("", n)) for n in range(600)], Search(Decode(beam=beam))
    searcher = Searcher([build()], CPU, SimpleNamespace(count=1))
    assert {len(batch) for batch in searcher._batches(parts, asked)} >= {4096 // 16 // beam}
    assert max(map(len, searcher._batches(parts, asked))) == 4096 // 16 // beam


@pytest.mark.parametrize(
    ("asked", "kind", "has", "narrow"),
    [
        ("auto", "cpu", True, False),
        ("auto", "cuda", True, True),
        ("auto", "cuda", False, False),
        ("fp32", "cuda", True, False),
        ("bf16", "cpu", True, True),
        ("bf16", "cpu", False, False),
        ("bf16", "cuda", True, True),
    ],
)
def test_auto_is_bf16_on_a_gpu_that_has_it(asked, kind, has, narrow, monkeypatch):
    monkeypatch.setattr(device, "has_bf16", lambda given: has)
    assert in_bf16(asked, torch.device(kind)) is narrow


def precision() -> tuple[str, bool]:
    """Of products on a GPU: of matrices, and whether recurrent layers of cuDNN may use TF32."""
    return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32


@pytest.fixture(params=[("highest", True), ("highest", False), ("high", False)])
def before(request: pytest.FixtureRequest) -> Iterator[tuple[str, bool]]:
    """What a process has before any block: what PyTorch begins with, and others."""
    kept = precision()
    torch.set_float32_matmul_precision(request.param[0])
    torch.backends.cudnn.allow_tf32 = request.param[1]
    yield request.param
    torch.set_float32_matmul_precision(kept[0])
    torch.backends.cudnn.allow_tf32 = kept[1]


def test_products_are_in_tf32_while_a_block_asks_for_it_and_none_for_fp32(before: tuple[str, bool]) -> None:
    """Blocks of several threads open and close in any order."""
    for kinds in product((in_tf32, in_fp32), repeat=3):
        for ending in permutations(range(3)):
            blocks = {number: kind(GPU) for number, kind in enumerate(kinds)}
            for number, block in blocks.items():
                block.__enter__()
                assert precision() == (FP32 if in_fp32 in kinds[: number + 1] else TF32)
            left = dict(enumerate(kinds))
            for number in ending:
                blocks[number].__exit__(None, None, None)
                del left[number]
                assert precision() == (before if not left else FP32 if in_fp32 in left.values() else TF32)


@pytest.mark.parametrize("block", [in_tf32, in_fp32])
def test_the_precision_is_put_back_after_an_error_and_a_cpu_leaves_it_alone(
    block: Callable[[torch.device], AbstractContextManager[None]], before: tuple[str, bool]
) -> None:
    with pytest.raises(KeyError), block(GPU):
        raise KeyError
    assert precision() == before
    with block(CPU):
        assert precision() == before


def test_a_training_computes_in_fp32(before: tuple[str, bool]) -> None:
    make_fabric(Train(steps=1, precision="fp32"))
    assert precision() == FP32 == ("highest", False)


@pytest.mark.skipif(torch.__version__ < "2.9", reason="PyTorch has one interface for it")
def test_no_setting_of_a_precision_is_one_that_pytorch_refuses_to_read(before: tuple[str, bool]) -> None:
    """PyTorch has two interfaces for it, and reading by the older one fails where the newer one has set one part."""
    with in_tf32(GPU):
        assert (torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.rnn.fp32_precision) == ("tf32", "tf32")
        assert torch.backends.cuda.matmul.allow_tf32
    with in_fp32(GPU):
        assert "tf32" not in (torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.rnn.fp32_precision)
        assert not torch.backends.cuda.matmul.allow_tf32


def test_on_a_cpu_nothing_is_in_tf32():
    with Translator([build()], None, CPU, "auto").computing():
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_translates_in_bf16_or_in_tf32_as_asked():
    translators = {asked: Translator([build().float()], None, None, asked) for asked in ("auto", "fp32")}
    with translators["auto"].computing():
        assert torch.is_autocast_enabled("cuda") == device.has_bf16(translators["auto"].device)
    with translators["fp32"].computing():
        assert not torch.is_autocast_enabled("cuda")
        assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_scores_states_and_attention_are_in_fp32_while_translations_are_in_tf32() -> None:
    check_exact(Translator([build().float()], None, None, "fp32"))


def check_exact(translator: Translator) -> None:
    """The precision of each forward pass of a translator's model that is not one of search."""
    [model], seen = translator.models, list[tuple[str, bool]]()
    model.encoder[0].register_forward_pre_hook(lambda *_: seen.append(precision()))
    sources, targets, text = [[5, 6, 7]], [[8, 9]], translator.text
    side = SimpleNamespace(encode=lambda lines: sources)
    translator.text = SimpleNamespace(source=side, target=side)  # type: ignore[assignment]
    with translator.computing():
        translator.score(sources, targets)
        force_subwords(model, sources, targets, 100, translator.device)
        translator.encode(["a"])
        translator.attend("a", "b")
        assert seen == [FP32] * 4
        assert precision() == TF32
    translator.text = text
