"""Two trained runs with one vocabulary, and text for them."""

from __future__ import annotations

import pytest

from posnmt.run.resolve import load
from posnmt.training.train import train
from tests.support import corpus


@pytest.fixture(scope="package")
def trained(tmp_path_factory):
    """A folder with the runs `first` and `second`, with relative vectors, and the corpus in `corpus`."""
    folder = tmp_path_factory.mktemp("api")
    config = corpus.memorised(folder)
    for seed, name in enumerate(("first", "second"), start=1):
        train(load(config, [f"train.seed={seed}"]), folder / name)
    return folder
