"""A signal that finds a child of the harness before it is a command ends this child alone."""

import os
import signal
from pathlib import Path

import pytest

from tests.promises.commands import COMMANDS, Child, copied

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="commands are copies of this process")


def test_a_signal_right_after_the_fork(tmp_path: Path) -> None:
    here, ends = os.getpid(), []
    for _ in range(20):
        with copied(tmp_path, "early") as folder:
            child = Child(folder, COMMANDS["condition swap"])
            os.kill(child.id, signal.SIGINT)
            ends.append(child.end())
    assert os.getpid() == here
    assert set(ends) <= {-signal.SIGINT, 130}
