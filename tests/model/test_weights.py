"""Files of weights: what safetensors reads, the same bytes each time."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from posnmt.model.weights import read_tensors, save_tensors, write_tensors

TYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
]  # fmt: skip
TENSORS = {str(kind): (torch.arange(-3, 3).reshape(2, 3) * 0.7).to(kind) for kind in TYPES} | {
    "scalar": torch.tensor(0.1),
    "empty": torch.zeros(3, 0),
    "sprache/ü": torch.tensor([float("nan"), float("-inf"), -0.0]),
}
ABOUT = {f"key {number}": str(number) for number in range(20)}


def test_safetensors_reads_what_is_written(tmp_path: Path) -> None:
    write_tensors(TENSORS, tmp_path / "ours", ABOUT)
    read = load_file(tmp_path / "ours")
    assert set(read) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert (read[name].dtype, read[name].shape) == (tensor.dtype, tensor.shape)
        assert (
            read[name].numpy(force=True).tobytes() == tensor.numpy(force=True).tobytes()
            if (tensor.dtype != torch.bfloat16)
            else torch.equal(read[name], tensor)
        )
    with safe_open(tmp_path / "ours", framework="pt") as file:
        assert file.metadata() == ABOUT
    write_tensors({}, tmp_path / "none")
    assert load_file(tmp_path / "none") == {}


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    write_tensors(TENSORS, tmp_path / "one", ABOUT)
    write_tensors(dict(reversed(TENSORS.items())), tmp_path / "two", dict(reversed(ABOUT.items())))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    # With one key of metadata and one type of a size, the files of the library are always the same.
    some = {name: TENSORS[name] for name in ("torch.int64", "torch.float32", "torch.bfloat16", "scalar", "empty")}
    write_tensors(some, tmp_path / "one", {"key": "value"})
    save_file(some, tmp_path / "theirs", {"key": "value"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_others_may_read_weights_as_the_umask_says(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        save_tensors(TENSORS, tmp_path / "weights", {"key": [1]})
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "weights").stat().st_mode) == 0o644
    assert read_tensors(tmp_path / "weights")[1] == {"key": [1]}


def test_a_full_disk_is_said() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(OSError, match="No space left"):
        write_tensors(TENSORS, Path("/dev/full"))
