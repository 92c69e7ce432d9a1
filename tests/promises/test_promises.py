"""A sample of the promises that programs of this folder count."""

from __future__ import annotations

import os

import pytest

from tests.promises.commands import LIGHT
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
