"""The detector of omitted sentences: a logistic regression on `Evidence`, fitted on made deletions.

`benchmarks/completeness.py fit` prints the coefficients below, and `docs/completeness.md` says what they detect. The
threshold between languages with blanks between words was chosen on judged outputs, in German and English; the other one
gives 2 % false alarms on made deletions, where the first would give up to 48 % in Japanese.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from posnmt.evaluation.analyse.completeness.evidence import Evidence


@dataclass(frozen=True)
class Detector:
    """A fitted detector.

    Attributes:
        intercept: of the log-odds that a sentence is omitted.
        weights: of the features, in the order of `FEATURES`.
        threshold: log-odds above which it counts as omitted.
    """

    intercept: float
    weights: tuple[float, ...]
    threshold: float

    def margins(self, evidence: Evidence) -> np.ndarray:
        """`[K]` log-odds minus the threshold: a sentence counts as omitted above 0."""
        return self.intercept + evidence.features @ np.array(self.weights) - self.threshold


_COEFFICIENTS = -3.08, (-9.269, -2.746, 0.095, -2.322)
DETECTORS = {
    ("lexicon", True): Detector(*_COEFFICIENTS, threshold=-2.532),
    ("lexicon", False): Detector(*_COEFFICIENTS, threshold=-0.032),
}
"""What the words are aligned by, and whether both languages have blanks between words → the detector."""
