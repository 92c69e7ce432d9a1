"""What the command line sets in the environment before PyTorch is loaded."""

from __future__ import annotations

import os

from click.testing import CliRunner

from posnmt.base.parallel.cores import ENVIRONMENT
from posnmt.cli.main import main


def test_the_environment_is_set_and_what_the_user_set_stays(monkeypatch):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", "0")
    assert CliRunner().invoke(main, ["systems", "transformer"]).exit_code == 0
    assert os.environ["THP_MEM_ALLOC_ENABLE"] == "0"
    assert os.environ["OMP_WAIT_POLICY"] == "passive"
