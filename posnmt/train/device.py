"""Where a run computes, and how wide: Lightning Fabric on a CPU, a GPU, or what torchrun started."""

from __future__ import annotations

import logging
import os
from typing import Literal

import torch
from lightning_fabric import Fabric

from posnmt.config import Train
from posnmt.model.packed import multiplies_bf16


def make_fabric(train: Train) -> Fabric:
    """Fabric for this process: one device, or its share of torchrun's processes (LOCAL_WORLD_SIZE a node)."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # the run itself says precision and device
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    nodes = int(os.environ.get("WORLD_SIZE", "1")) // local
    accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    parallel = local * nodes > 1
    fabric = Fabric(
        accelerator=accelerator,
        devices=local,
        num_nodes=nodes,
        strategy="ddp" if parallel else "auto",
        precision=precision(train, accelerator),
    )
    fabric.launch()
    return fabric


def precision(train: Train, accelerator: str) -> Literal["bf16-mixed", "32-true", "64-true"]:
    """Fabric's name for the configured precision; auto is bf16 where the chip multiplies it in hardware."""
    if train.precision == "fp64":
        return "64-true"
    if train.precision == "fp32":
        return "32-true"
    if train.precision == "auto" and not _has_bf16(accelerator):
        return "32-true"
    return "bf16-mixed"


def _has_bf16(accelerator: str) -> bool:
    if accelerator == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return multiplies_bf16()
