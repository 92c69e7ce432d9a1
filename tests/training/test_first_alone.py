"""The first process may prepare for longer than the processes wait for each other otherwise.

This file is also what torchrun starts.
"""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from posnmt.training.device import first_alone

LIMIT = timedelta(seconds=3)
"""Of usual operations; the first process works for longer."""


@pytest.mark.slow
def test_the_others_wait_for_longer_than_the_limit_of_other_operations(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    ready, waited = (float((tmp_path / name).read_text()) for name in ("0", "1"))
    assert waited >= ready


def test_one_process_does_not_wait() -> None:
    with first_alone(_fabric(1)):
        pass


def _fabric(processes: int) -> Any:
    """What `first_alone` reads of Fabric."""
    return SimpleNamespace(world_size=processes)


def work(folder: Path) -> None:
    """One of two processes; the first takes longer than usual operations may."""
    torch.distributed.init_process_group("gloo", timeout=LIMIT)
    rank = torch.distributed.get_rank()
    with first_alone(_fabric(2)):
        if rank == 0:
            time.sleep(2 * LIMIT.total_seconds())
            (folder / "0").write_text(str(time.time()))
    if rank == 1:
        (folder / "1").write_text(str(time.time()))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    work(Path(sys.argv[1]))
