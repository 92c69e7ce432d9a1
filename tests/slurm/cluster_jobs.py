"""What the tests have the cluster do; a module, so that jobs can import it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import submitit


def stay(seconds: float) -> tuple[float, float]:
    """Take so long; from when to when it ran, in seconds of the clock."""
    start = time.time()
    time.sleep(seconds)
    return start, time.time()


def everything_read(path: Path) -> str:
    """Fail as user code does."""
    return path.read_text()


def gpus() -> str | None:
    """Which GPUs it was given."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def end_hard() -> None:
    """End without a word, as when the memory is full."""
    os.kill(os.getpid(), 9)


def sum_of_ranks(processes: int) -> str:
    """Have torchrun start so many processes on this node, which meet those of the other nodes; what they print."""
    job = submitit.JobEnvironment()
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    command += [f"--nnodes={job.num_nodes}", f"--node-rank={job.node}"]
    # The port belongs to the job, so that jobs that share a node do not meet.
    command += [f"--master-addr={job.hostnames[0]}", f"--master-port={20000 + int(job.job_id) % 10000}"]
    done = subprocess.run([*command, __file__], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


class Counted(submitit.helpers.Checkpointable):
    """Works in pieces, and goes on where it was when it is started again; how often it was, and what it did."""

    def __init__(self, pieces: int, begun: Path) -> None:
        self.pieces, self.begun, self.done, self.starts = pieces, begun, 0, 0

    def __call__(self) -> tuple[int, int]:
        self.starts += 1
        self.begun.touch()
        while self.done < self.pieces:
            time.sleep(0.1)
            # The first attempt never ends by itself: it must be interrupted.
            if self.starts > 1 or self.done < self.pieces // 2:
                self.done += 1
        return self.starts, self.done


def reduce() -> None:
    """A process of torchrun: add the ranks of all of them."""
    import torch

    torch.distributed.init_process_group("gloo")
    rank = torch.tensor([torch.distributed.get_rank()])
    torch.distributed.all_reduce(rank)
    print(f"{torch.distributed.get_world_size()} processes, ranks add up to {rank.item()}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    reduce()
