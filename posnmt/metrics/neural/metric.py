"""Metrics whose sentence scores come from a program in an environment of its own: COMET, MetricX, quality estimation.

COMET: Rei et al. 2020, 2022a; CometKiwi: Rei et al. 2022b; MetricX-24: Juraska et al. 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from posnmt.metrics.metric import Metric


@dataclass(frozen=True, kw_only=True)
class NeuralMetric(Metric):
    """A metric that a program scores. The score of several sentences is their mean.

    Attributes:
        program: a Python file that finds a model, loads it and scores with it; CONTRIBUTING.md describes it.
        packages: a requirements file with the exact versions of all packages that the program needs.
        model: that is installed by default: its id on the hub, or a path.
        reads_reference: whether the program reads a reference beside the source and the output.
        pythons: the versions of Python that have these packages, such as `3.11`; empty: any.
    """

    program: Path
    packages: Path
    model: str = ""
    reads_reference: bool = True
    pythons: Sequence[str] = ()


PROGRAMS = Path(__file__).parent / "programs"
PACKAGES = PROGRAMS / "packages.txt"
PYTHONS = ("3.11", "3.12")
"""NumPy 1, which COMET needs, has no wheels for later ones."""

NEURAL: dict[str, NeuralMetric] = {
    "comet": NeuralMetric(
        "COMET", decimals=4, by_sentence=True,
        program=PROGRAMS / "comet.py", packages=PACKAGES, pythons=PYTHONS, model="Unbabel/wmt22-comet-da",
    ),
    "comet-qe": NeuralMetric(
        "COMET without reference", decimals=4, by_sentence=True, reads_reference=False,
        program=PROGRAMS / "comet.py", packages=PACKAGES, pythons=PYTHONS, model="Unbabel/wmt22-cometkiwi-da",
    ),
    "metricx": NeuralMetric(
        "MetricX", decimals=2, higher=False, by_sentence=True,
        program=PROGRAMS / "metricx.py", packages=PACKAGES, pythons=PYTHONS,
        model="google/metricx-24-hybrid-large-v2p6",
    ),
}  # fmt: skip
"""Those of posnmt, by name."""
