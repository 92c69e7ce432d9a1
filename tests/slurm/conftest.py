"""What the tests on the cluster share: an executor, or the reason why there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import submitit

from tests.slurm.cluster import MARK
from tests.support.sources import SOURCES


@pytest.fixture
def cluster_folder():
    """The folder of the test cluster that runs. No other cluster is ever sent jobs, though SLURM_CONF names one."""
    conf = Path(os.environ.get("SLURM_CONF", ""))
    if not (conf.parent / MARK).exists():
        pytest.skip("the test cluster does not run: make test-slurm")
    return conf.parent


@pytest.fixture
def executor(cluster_folder, tmp_path, monkeypatch):
    """submitit's executor with little to ask for, whose jobs can import from tests."""
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    made = submitit.SlurmExecutor(tmp_path / "jobs")
    made.update_parameters(time=5, mem="500MB")
    return made
