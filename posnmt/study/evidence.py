"""The data behind a study's verdicts: the counts of every output of an analysis, and the training behind each output.

Legend: N sentences, M outputs, K statistics of all measures side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from posnmt.evaluation.analyse.additive import Additive
from posnmt.metrics.neural.metric import NeuralMetric
from posnmt.study.measures import NEAR_LONGEST

COUNTS = "counts.npz"
OUTPUTS = "outputs.json"
# The last columns of every table: sentences, output length, reference length.
LENGTH_COLUMNS = 3
NEAR = 0.1
"""A length is near the longest trained target if it differs from it by at most this share of it."""
Variant = tuple[str, str]


@dataclass(frozen=True)
class Output:
    """One translation of the test text, and the training that it comes from.

    Attributes:
        name: in the analysis.
        system, training, seed: identify the training.
        share: of the source words that were swapped, from 0 to 1.
        trained_lengths: shortest and longest source in training, in subwords; None: unknown.
        parameters: number of parameters of the model.
        training_speed, decoding_speed: source tokens per second; None: not measured.
        longest_target: in training, in subwords; None: unknown.
    """

    name: str
    system: str
    training: str
    seed: int
    share: float
    trained_lengths: list[int] | None
    parameters: int | None
    training_speed: float | None
    decoding_speed: float | None
    longest_target: int | None = None


class NearLongest(Additive):
    """Counts of sentences, of outputs near the longest trained length, and of references near it."""

    def measure(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """The share of outputs near the longest trained length minus that of references: sums `[..., 3]` → `[...]`."""
        return {NEAR_LONGEST: super().measure(sums)["length_difference"]}


@dataclass(frozen=True)
class Evidence:
    """The counts of an analysis.

    Attributes:
        counts: `[N, M, K]` integers, in the narrowest type that holds them; with scores of neural metrics, float64.
        columns: as in `Additive`.
        source_lengths: `[N]` in subwords.
        outputs: the M outputs.
        documents: `[N]` the number of the document of each sentence, from 0; None: not known.
    """

    counts: np.ndarray
    columns: dict[str, slice]
    source_lengths: np.ndarray
    outputs: list[Output]
    documents: np.ndarray | None = None

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of all measures that the counts allow."""
        return (*Additive(self.counts, self.columns).measures, NEAR_LONGEST)

    def places(self, variant: Variant, share: float) -> dict[int, int]:
        """Seed -> index of the output of a system and training, with a share of swapped words."""
        return {
            output.seed: place
            for place, output in enumerate(self.outputs)
            if (output.system, output.training, output.share) == (*variant, share)
        }

    def table(self, measure: str, sentences: np.ndarray, places: list[int]) -> Additive:
        """The statistics of one measure for some sentences and outputs.

        Args:
            measure: one of `measures`.
            sentences: `[n]` indices.
            places: indices of the outputs.
        """
        if measure == NEAR_LONGEST:
            return self._near_longest(sentences, places)
        total = self.counts.shape[-1]
        own = range(total)[self.columns[measure]] if measure in self.columns else range(0)
        lengths = range(total - LENGTH_COLUMNS, total)
        rows = self.counts[np.ix_(sentences, np.array(places), np.array([*own, *lengths]))].astype(float)
        return Additive(rows, {measure: slice(0, len(own))} if own else {})

    def _near_longest(self, sentences: np.ndarray, places: list[int]) -> Additive:
        """The table of `NearLongest` (N19, Figure 5), for outputs whose longest trained target is known."""
        lengths = self.counts[np.ix_(sentences, np.array(places))][..., -2:].astype(int)
        longest = np.array([self.outputs[place].longest_target for place in places])[:, None]
        near = np.abs(lengths - longest) <= NEAR * longest
        return NearLongest(np.concatenate([np.ones_like(lengths[..., :1]), near], axis=-1).astype(float), {})


def save(
    folder: Path, additive: Additive, source_lengths: np.ndarray, outputs: Iterable[Mapping[str, Any]],
    documents: np.ndarray | None = None,
) -> None:  # fmt: skip
    """Write `counts.npz` and `outputs.json`.

    Args:
        folder: of the analysis.
        additive: N sentences of M outputs.
        source_lengths: `[N]` in subwords.
        outputs: for each of the M outputs, in order, the attributes of `Output`; other keys are ignored.
        documents: `[N]`, as in `Evidence`.
    """
    records = [Output(**{field.name: each[field.name] for field in fields(Output)}) for each in outputs]
    if len(records) != additive.rows.shape[1]:
        raise ValueError(f"{len(records)} outputs are named, and {additive.rows.shape[1]} were counted")
    counts = _stored(additive)
    known: dict[str, Any] = {} if documents is None else {"documents": documents}
    np.savez_compressed(
        folder / COUNTS,
        counts=counts,
        metrics=np.array(list(additive.columns), dtype=str),
        columns=np.array([(each.start, each.stop) for each in additive.columns.values()], int).reshape(-1, 2),
        source_lengths=np.asarray(source_lengths),
        **known,
    )
    listed = json.dumps([asdict(output) for output in records], indent=1, ensure_ascii=False)
    (folder / OUTPUTS).write_text(listed + "\n", encoding="utf-8")


def _stored(additive: Additive) -> np.ndarray:
    """The table in the type in which it is stored.

    Raises:
        ValueError: a count is no integer of 0 or more.
    """
    scored = [name for name in additive.columns if isinstance(additive.metric(name), NeuralMetric)]
    columns = [column for name in scored for column in range(*additive.columns[name].indices(additive.rows.shape[-1]))]
    counted = np.delete(additive.rows, columns, axis=-1)
    counts = counted.astype(np.min_scalar_type(int(counted.max(initial=0))))
    if not np.array_equal(counts, counted):
        raise ValueError("counts must be integers of 0 or more")
    return additive.rows if scored else counts


def load(folder: Path) -> Evidence:
    """Read the counts and the outputs of an analysis from the folder into which `save` wrote them."""
    with np.load(folder / COUNTS, allow_pickle=False) as stored:
        edges = zip(stored["metrics"].tolist(), stored["columns"].tolist(), strict=True)
        columns = {metric: slice(first, last) for metric, (first, last) in edges}
        counts, lengths = stored["counts"], stored["source_lengths"]
        documents = stored["documents"] if "documents" in stored.files else None
    listed = json.loads((folder / OUTPUTS).read_text(encoding="utf-8"))
    return Evidence(counts, columns, lengths, [Output(**each) for each in listed], documents)
