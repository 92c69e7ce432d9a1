"""`posnmt analyse`: evaluate translations of any systems, with confidence intervals and significance tests.

All files are read and checked, then counted sentence by sentence, then measured, then compared. The measures of a
length bin or of a resample are functions of a sum over sentences (`additive`). `posnmt.evaluation.report.write` writes
the files.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posnmt.base.version import __version__, version_of
from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.bins import TrainedLengths, bin_numbers
from posnmt.evaluation.analyse.citation import citation
from posnmt.evaluation.analyse.completeness.measure import Completeness
from posnmt.evaluation.analyse.completeness.requested import measured_completeness
from posnmt.evaluation.analyse.extract import Counted, count_all
from posnmt.evaluation.analyse.inputs import Text, warnings_of
from posnmt.evaluation.analyse.intervals import LEVEL
from posnmt.evaluation.analyse.length import length_distribution
from posnmt.evaluation.analyse.length_bands import FEWEST_DOCUMENTS
from posnmt.evaluation.analyse.measure import measure
from posnmt.evaluation.analyse.neural import NeuralScores, neural, neural_scores
from posnmt.evaluation.analyse.places import by_place
from posnmt.evaluation.analyse.positions import places, position_curves
from posnmt.evaluation.analyse.read import Files, Read, Say, read
from posnmt.evaluation.analyse.seeds import seed_results
from posnmt.evaluation.analyse.sentence_scores import Scores
from posnmt.evaluation.analyse.settings import DEFAULT, Settings
from posnmt.evaluation.analyse.suspicions import warnings as suspicions
from posnmt.evaluation.analyse.swap import Swapped
from posnmt.evaluation.analyse.verdict import verdict
from posnmt.evaluation.analyse.words import count_words, word_results
from posnmt.metrics.buckets import Buckets
from posnmt.metrics.edit_rate import ter_search_limits
from posnmt.metrics.metric import Counting

FORMAT = "posnmt analysis 1"


@dataclass(frozen=True)
class Analysis:
    """The result of an analysis, for `posnmt.evaluation.report.write.write` and further use.

    Attributes:
        results: all figures, as in `results.json`; `docs/files.md` describes the fields.
