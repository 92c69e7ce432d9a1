"""What settings of search leave open follows the device: the precision of products, and the size of batches."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from posnmt.config.schema import Decode
from posnmt.translate import device
from posnmt.translate.device import BATCH, LARGEST, batch_size, fitting, in_bf16, in_tf32
from posnmt.translate.requests import Part, Request, Search
from posnmt.translate.subwords import Searcher
from posnmt.translate.translator import Translator
from tests.support.tiny import build

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def test_batches_follow_the_memory_of_a_gpu_between_two_limits(monkeypatch):
    gib = 2**30
    assert [fitting(size * gib) for size in (1, 4, 24, 80)] == [BATCH, BATCH, 24 * 1024, LARGEST]
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda given: SimpleNamespace(total_memory=16 * gib if given == GPU else 0)
    )
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


def test_tf32_ends_with_the_last_block_that_asks_for_it():
    before = torch.get_float32_matmul_precision()
    first, second = in_tf32(), in_tf32()
    for enter in (first.__enter__, second.__enter__):
        enter()
        assert torch.get_float32_matmul_precision() == "high"
    first.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == "high"
    second.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == before
    with pytest.raises(KeyError), in_tf32():
        raise KeyError
    assert torch.get_float32_matmul_precision() == before


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
