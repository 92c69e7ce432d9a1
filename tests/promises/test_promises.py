"""A sample of the promises that programs of this folder count."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.promises.commands import LIGHT
from tests.promises.limits import LIMITS, NAMES
from tests.promises.signals import disturbances
from tests.promises.together import pairs

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="commands are copies of this process")


def test_signals_at_random_moments():
    counts = disturbances(LIGHT, times=4, seed=1)
    assert counts.total() == 4 * len(LIGHT)
    assert len({state for _, _, state in counts}) > 1


def test_two_processes_at_a_time():
    counts = pairs(LIGHT, times=2)
    assert counts.total() == 2 * len(LIGHT)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the address space is read from /proc")
@pytest.mark.parametrize("name", NAMES)
def test_too_little_memory(name):
    """In a process without the threads of PyTorch, which forks cannot have."""
    command = [sys.executable, "-m", "tests.promises.limits", name]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    complete = done.stdout.split("[")[1].split("]")[0].split(", ")
    assert 0 < len(complete) < len(LIMITS), "some limits are too small, and others are not"
