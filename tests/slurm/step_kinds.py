"""Kinds of steps for a study on the cluster; small, so that the tests are about the jobs."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.study.workflow.graph import Graph, Step
from posnmt.study.workflow.kind import Context, Kind


def add(context: Context) -> None:
    """Write the sum of the numbers that it is given and those of the steps it needs."""
    told = [int((folder / "number").read_text()) for folder in context.inputs.values()]
    time.sleep(context.settings.get("seconds", 0))
    (context.folder / "number").write_text(str(sum(told) + context.settings["number"]))


def refuse(context: Context) -> None:
    """A mistake of the user's."""
    raise UserError("the number is odd", None, "give an even one")


def meet(context: Context) -> None:
    """Write how many processes met, the sum of their ranks and the GPUs of the first."""
    import torch

    torch.distributed.init_process_group("gloo")
    rank = torch.tensor([torch.distributed.get_rank()])
    torch.distributed.all_reduce(rank)
    if torch.distributed.get_rank() == 0:
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
        (context.folder / "met").write_text(f"{torch.distributed.get_world_size()} {rank.item()} {gpus}")
    torch.distributed.destroy_process_group()


def endure(context: Context) -> None:
    """Never end in the first attempt; what counts is that a second one is made, and knows of the first."""
    attempts = context.folder / "attempts"
    with attempts.open("a") as out:
        out.write("begun\n")
    if attempts.read_text().count("begun") == 1:
        time.sleep(600)


KINDS = {
    "add": Kind(run=add, version=1),
    "refuse": Kind(run=refuse, version=1),
    "meet": Kind(run=meet, version=1),
    "endure": Kind(run=endure, version=1),
}


# Studies of one step that the tests have a process of its own run, to end it, or to do something to the job meanwhile.
STUDIES = {
    "slow": Graph([Step("slow", "add", {"number": 7, "seconds": 12})], "tests.slurm.step_kinds:KINDS"),
    "endure": Graph([Step("endure", "endure", {})], "tests.slurm.step_kinds:KINDS"),
}


if __name__ == "__main__":
    from posnmt.study.workflow.executors import Where
    from posnmt.study.workflow.runner import run

    sys.exit(1 if run(STUDIES[sys.argv[1]], Path(sys.argv[2]), Where("slurm")).failed else 0)
