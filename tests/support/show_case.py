"""Two tiny trained runs whose position parts together have every section of the page of `posnmt show`."""

from __future__ import annotations

import json

from posnmt.run.resolve import load
from posnmt.training.train import train
from tests.support import corpus

RUNS = {
    "counting": {
        "encoder": [{"scheme": "sinusoidal"}, {"scheme": "reordering"}],
        "decoder": [{"scheme": "cope"}, {"scheme": "learned"}],
    },
    "recurrent": {
        "encoder": [{"scheme": "recurrent"}, {"scheme": "alibi"}],
        "decoder": [{"scheme": "relative", "distance": 3}],
    },
}


def trained_runs(folder):
    """The runs, by name, in a folder with their corpus in `corpus` and their stores in `stores`."""
    config = corpus.make(folder, pairs=60, train={"steps": 4, "evaluate_every": 4})
    for name, sides in RUNS.items():
        stacks = {side: {"layers": 1, "position": schemes} for side, schemes in sides.items()}
        overrides = [f"model.{key}={json.dumps(value)}" for key, value in {"system": None, **stacks}.items()]
        train(load(config, overrides), folder / name)
    return folder
