"""Train a configuration on a store that was prepared elsewhere, without its text: the same training on another machine.

    python benchmarks/gpu_curve.py CONFIG --store FOLDER --out RUN [--set KEY=VALUE ...]

`posnmt train` finds a store by its text, which a machine that is lent for minutes need not have. The batches are those
of the first machine, so curves of the two can be laid on each other.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from unittest.mock import patch

from posnmt.base.progress import Display
from posnmt.data.store import Store
from posnmt.run.resolve import load
from posnmt.training.train import train


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    arguments = parser.parse_args()
    with patch("posnmt.training.train.prepared", lambda *_, **__: Store.open(arguments.store)), Display() as display:
        train(load(arguments.config, arguments.settings), arguments.out, display=display)


if __name__ == "__main__":
    main()
