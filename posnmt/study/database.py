"""All figures of a study in one SQLite file, for pandas, DuckDB or Python's sqlite3.

The table `results` has a row for each run, condition, bin and measure; `runs` has a row for each training, finished or
not.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError, existing_file
from posnmt.base.output import replacing

FILE = "results.sqlite"
PUBLISHED = "results.csv.xz"  # the table `results` in copies for others
# Column -> its type and what it holds.
RESULTS = {
    "recipe": ("TEXT", "name of the recipe"),
    "scale": ("TEXT", "smoke, small or paper"),
    "run": ("TEXT", "key of the training's step; the same in `runs`"),
    "system": ("TEXT", "as the recipe calls it"),
    "seed": ("INTEGER", "of the training"),
    "training_condition": ("TEXT", "how the training text was made, as the recipe calls it"),
    "test_condition": ("TEXT", "the analysis; of decoding_speed the test, as the recipe calls them"),
    "swapped": ("REAL", "share of the words of the source that were swapped: 0 to 1"),
    "unit": (
        "TEXT",
        "what the bin counts: the unit of source lengths, or `tenths` or `words` for places in a sentence",
    ),
    "bin": ("TEXT", "label of a bin of source lengths, or of a place in a sentence; `all`: the whole test"),
    "first": ("INTEGER", "least source length of the bin; null: of all, or a place"),
    "last": ("INTEGER", "greatest source length of the bin; null likewise, or the bin is open"),
    "n": ("INTEGER", "sentences in the bin; for places the words there"),
    "measure": (
        "TEXT",
        "bleu, chrf, ter, length_ratio, precision, recall, decoding_speed (source tokens a second) ...",
    ),
    "value": ("REAL", "null where there is nothing to measure"),
    "low": ("REAL", "lower end of the 95 % interval over sentences; null without one"),
    "high": ("REAL", "its upper end"),
}
RUNS = {
    "run": ("TEXT", "key of the training's step"),
    "recipe": ("TEXT", "name of the recipe"),
    "scale": ("TEXT", "smoke, small or paper"),
    "system": ("TEXT", "as the recipe calls it"),
    "seed": ("INTEGER", "of the training"),
    "training_condition": ("TEXT", "how the training text was made"),
    "state": ("TEXT", "done, or why it is not: failed, blocked, altered, waiting, running"),
    "error": ("TEXT", "what went wrong, and what to do about it"),
    "parameters": ("INTEGER", "of the model"),
    "seconds": ("REAL", "of training"),
    "training_speed": ("REAL", "source tokens a second"),
    "updates": ("INTEGER", "of the weights"),
    "shortest": ("INTEGER", "source length in training"),
    "longest": ("INTEGER", "source length in training"),
    "config": ("TEXT", "SHA-256 of the run's config.yaml"),
    "posnmt": ("TEXT", "version that trained it"),
}
TABLES = {"results": RESULTS, "runs": RUNS}
Row = Mapping[str, Any]


def write(out: Path, recipe: str, scale: str, runs: Iterable[Mapping[str, Any]], analyses: Mapping[str, Path]) -> Path:
    """Write or replace the file of a study; return its path.
    Args:
        out: the study's folder.
        recipe, scale: what was run.
        runs: for each training `run` (the key of its step), `system`, `training`, `seed`, `state`, `error`,
            `parameters`, `seconds`, `training_speed`, `updates`, `source_lengths` ([shortest, longest] or None),
            `decoding_speed` (test -> source tokens a second), and `config` and `posnmt` where they are known.
        analyses: name -> folder with results.json (docs/files.md) and outputs.json.
