"""What the verdicts of a study are computed from: the counts of every output of an analysis, and what made each output.

Legend: N sentences, M outputs, K statistics of all measures side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posnmt.analyse.additive import Additive

if TYPE_CHECKING:
    import numpy as np

COUNTS = "counts.npz"
OUTPUTS = "outputs.json"
# Sentences, output length, reference length: the last columns of every table, whatever was measured.
LENGTH_COLUMNS = 3
Variant = tuple[str, str]


@dataclass(frozen=True)
class Output:
    """One translation of the test text, and the training that it comes from.

    Attributes:
        name: in the analysis.
        system, training, seed: which training.
        share: of the source's words that were swapped.
        trained_lengths: shortest and longest source in training, in subwords; None: not known.
        parameters: of the model.
        training_speed, decoding_speed: source tokens a second; None: not measured.
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


@dataclass(frozen=True)
class Evidence:
    """The counts of an analysis.

    Attributes:
        counts: `[N, M, K]` whole numbers, in the narrowest type that holds them.
        columns: as those of `Additive`.
        source_lengths: `[N]` in subwords.
        outputs: M.
    """

    counts: np.ndarray
    columns: dict[str, slice]
    source_lengths: np.ndarray
    outputs: list[Output]

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of all measures that can be taken."""
        return Additive(self.counts, self.columns).measures

    def places(self, variant: Variant, share: float) -> dict[int, int]:
        """Seed -> the place among the outputs, of a system after a training, with that share of words swapped."""
        return {
            output.seed: place
            for place, output in enumerate(self.outputs)
            if (output.system, output.training, output.share) == (*variant, share)
        }

    def table(self, measure: str, sentences: np.ndarray, places: list[int]) -> Additive:
        """What one measure needs of some sentences and outputs, to be summed.

        Args:
            measure: one of `measures`.
            sentences: `[n]` their numbers.
            places: of the outputs.
        """
        import numpy as np

        total = self.counts.shape[-1]
        wanted = range(total)[self.columns[measure]] if measure in self.columns else range(0)
        lengths = range(total - LENGTH_COLUMNS, total)
        rows = self.counts[np.ix_(sentences, np.array(places), np.array([*wanted, *lengths]))].astype(float)
        return Additive(rows, {measure: slice(0, len(wanted))} if wanted else {})


def save(folder: Path, additive: Additive, source_lengths: np.ndarray, outputs: Iterable[Mapping[str, Any]]) -> None:
    """Write `counts.npz` and `outputs.json`.

    Args:
        folder: of the analysis.
        additive: N sentences of M outputs.
        source_lengths: `[N]` in subwords.
        outputs: of each of the M, in order, the attributes of `Output`; what else there is stays out.
    """
    import numpy as np

    records = [Output(**{field.name: each[field.name] for field in fields(Output)}) for each in outputs]
    if len(records) != additive.rows.shape[1]:
        raise ValueError(f"{len(records)} outputs are named, and {additive.rows.shape[1]} were counted")
    counts = additive.rows.astype(np.min_scalar_type(int(additive.rows.max(initial=0))))
    if not np.array_equal(counts, additive.rows):
        raise ValueError("counts are whole numbers from 0")
    np.savez_compressed(
        folder / COUNTS,
        counts=counts,
        metrics=np.array(list(additive.columns), dtype=str),
        columns=np.array([(each.start, each.stop) for each in additive.columns.values()], int).reshape(-1, 2),
        source_lengths=np.asarray(source_lengths),
    )
    listed = json.dumps([asdict(output) for output in records], indent=1, ensure_ascii=False)
    (folder / OUTPUTS).write_text(listed + "\n", encoding="utf-8")


def load(folder: Path) -> Evidence:
    """Read what `save` wrote."""
    import numpy as np

    with np.load(folder / COUNTS, allow_pickle=False) as stored:
        edges = zip(stored["metrics"].tolist(), stored["columns"].tolist(), strict=True)
        columns = {metric: slice(first, last) for metric, (first, last) in edges}
        counts, lengths = stored["counts"], stored["source_lengths"]
    listed = json.loads((folder / OUTPUTS).read_text(encoding="utf-8"))
    return Evidence(counts, columns, lengths, [Output(**each) for each in listed])
