"""Tables of the pages of results: from the published studies, and from the tables of likelihood by position."""

from __future__ import annotations

import csv
import functools
import lzma
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

RESULTS = Path(__file__).parents[1] / "results"

Head = tuple[str, ...]
Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class Scores:
    """A table of means with standard deviations over seeds; a row is a system with a training condition.

    Attributes:
        study: folder of the published study.
        measure: its name there.
        columns: heading, test condition and bin of source lengths in subwords.
        rows: label, system and training condition. Figures of a label in italics are never the best.
        about: headings of the cells between the label and the figures.
        cells: these cells of each row.
        marks_best: whether the highest mean of each column is in bold.
    """

    study: str
    measure: str
    columns: tuple[tuple[str, str, str], ...]
    rows: tuple[tuple[str, str, str], ...]
    about: tuple[str, ...] = ()
    cells: tuple[tuple[str, ...], ...] = ()
    marks_best: bool = True

    def __call__(self) -> tuple[Head, Rows]:
        """Compute the heading and the rows."""
        means: list[list[str]] = []
        texts: list[list[str]] = []
        for _, system, training in self.rows:
            values = [self._values(system, training, test, bin_) for _, test, bin_ in self.columns]
            means.append([f"{mean(each):.1f}" for each in values])
            texts.append([f"{mean(each):.1f} ± {stdev(each):.1f}" for each in values])
        ranked = [each for each, (label, *_) in zip(means, self.rows, strict=True) if not label.startswith("*")]
        best = [max(column, key=float) for column in zip(*ranked, strict=True)]
        rows = []
        for number, (label, *_) in enumerate(self.rows):
            bold = self.marks_best and not label.startswith("*")
            of_row = zip(texts[number], means[number], best, strict=True)
            figures = [f"**{text}**" if bold and of == top else text for text, of, top in of_row]
            rows.append((label, *(self.cells[number] if self.cells else ()), *figures))
        return ("", *self.about, *(heading for heading, *_ in self.columns)), rows

    def _values(self, system: str, training: str, test: str, bin_: str) -> list[float]:
        return measured(self.study)[system, training, test, "subwords", bin_, self.measure]


@functools.cache
def measured(study: str) -> dict[tuple[str, ...], list[float]]:
    """Read the figures of a published study on sources without swapped words.

    Returns:
        System, training condition, test condition, unit, bin and measure → a figure for each seed.
    """
    found: dict[tuple[str, ...], list[float]] = {}
    names = ("system", "training_condition", "test_condition", "unit", "bin", "measure")
    with lzma.open(RESULTS / study / "results.csv.xz", "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["value"] and float(row["swapped"] or 0) == 0:
                found.setdefault(tuple(row[name] for name in names), []).append(float(row["value"]))
    return found


SCHEMES = Scores(
    "schemes-small",
    "bleu",
    (
        ("single captions", "single", "all"),
        ("two captions, 11-21", "joined", "11-21"),
        *((bin_, "joined", bin_) for bin_ in ("22-28", "29-40", "41-")),
    ),
    (
        ("No positions", "none", "all"),
        ("Sinusoids", "transformer", "all"),
        ("Learned", "learned", "all"),
        ("SHAPE, shifts up to 56", "shape", "all"),
        ("Recurrent heads (`mpr-head`)", "mpr-head", "all"),
        ("LSTM", "lstm", "all"),
        ("Relative, clipped at 4", "relative", "all"),
        ("Relative sinusoidal, clipped at 4", "relative-sinusoidal", "all"),
        ("GRU and relative (`rr`)", "rr", "all"),
        ("RoPE", "rope", "all"),
        ("CoPE, 9 positions", "cope", "all"),
        ("ALiBi, asymmetric", "alibi", "all"),
        ("T5's biases, 16 buckets to 14", "t5-bias", "all"),
        ("KERPLE", "kerple", "all"),
        ("FIRE", "fire", "all"),
        ("*Sinusoids, joined pairs in training too*", "transformer", "joined"),
        ("*Relative, joined pairs in training too*", "relative", "joined"),
    ),
)

ROPE = Scores(
    "schemes-small",
    "bleu",
    (
        ("single captions", "single", "all"),
        ("two captions, all", "joined", "all"),
        *((bin_, "joined", bin_) for bin_ in ("11-21", "22-28", "29-40", "41-")),
    ),
    (
        ("as it is", "rope", "all"),
        ("`--positions interpolate=2`", "rope-interpolated", "all"),
        ("`--positions yarn=2`", "rope-yarn", "all"),
        ("`--positions clip=14`", "rope-clipped", "all"),
        ("`--positions clip=14,group=4`", "rope-grouped", "all"),
        ("`--split auto`: longer lines in parts", "rope-parts", "all"),
        ("`--split sentences`: a sentence at a time", "rope-sentences", "all"),
    ),
)

ENJA = Scores(
    "schemes-enja-small",
    "bleu",
    (
        ("single sentences", "single", "all"),
        ("two sentences, 11-18", "joined", "11-18"),
        *((bin_, "joined", bin_) for bin_ in ("19-22", "23-26")),
    ),
    (
        ("No positions", "none", "all"),
        ("Sinusoids", "transformer", "all"),
        ("Learned", "learned", "all"),
        ("SHAPE, shifts up to 36", "shape", "all"),
        ("Recurrent heads (`mpr-head`)", "mpr-head", "all"),
        ("Relative, clipped at 3", "relative", "all"),
        ("Relative sinusoidal, clipped at 3", "relative-sinusoidal", "all"),
        ("LSTM", "lstm", "all"),
        ("GRU and relative (`rr`)", "rr", "all"),
        ("ALiBi, asymmetric", "alibi", "all"),
        ("T5's biases, 16 buckets to 9", "t5-bias", "all"),
        ("FIRE", "fire", "all"),
        ("KERPLE", "kerple", "all"),
        ("CoPE, 6 positions", "cope", "all"),
        ("RoPE", "rope", "all"),
        ("*Sinusoids, joined pairs in training too*", "transformer", "joined"),
        ("*Relative, joined pairs in training too*", "relative", "joined"),
        ("*RoPE, `--positions interpolate=2`*", "rope-interpolated", "all"),
        ("*RoPE, `--positions yarn=2`*", "rope-yarn", "all"),
        ("*RoPE, `--positions clip=9`*", "rope-clipped", "all"),
        ("*RoPE, `--positions clip=9,group=4`*", "rope-grouped", "all"),
        ("*RoPE, `--split auto`*", "rope-parts", "all"),
        ("*RoPE, `--split sentences`*", "rope-sentences", "all"),
    ),
)

_CAPS, _DISTANCES = (18, 28), (2, 4, 8, 16)
CLIPPING = Scores(
    "clip-by-cap-small",
    "bleu",
    (
        ("one caption, up to 18", "single", "0-18"),
        ("one, 19-28", "single", "19-28"),
        ("two captions, 19-28", "joined", "19-28"),
        ("two, 29 and more", "joined", "29-"),
    ),
    tuple(
        row
        for cap in _CAPS
        for row in (
            ("Absolute", "transformer", f"all@cap={cap}"),
            *((f"Relative, distance {each}", f"relative@clip={each}", f"all@cap={cap}") for each in _DISTANCES),
        )
    ),
    ("cap", "distance / cap"),
    tuple(
        cells for cap in _CAPS for cells in ((str(cap), ""), *((str(cap), f"{each / cap:.2f}") for each in _DISTANCES))
    ),
    marks_best=False,
)

ROSENDAHL = Scores(
    "rosendahl2019-small",
    "multi-bleu",
    tuple((bin_, "concat_seq", bin_) for bin_ in ("11-21", "22-28", "29-40", "41-")),
    (
        ("Absolute", "transformer", "cap100"),
        ("Relative", "relative", "cap100"),
        ("Relative sinusoidal", "relative-sinusoidal", "cap100"),
        ("Relative, keys only", "relative-key", "cap100"),
        ("Relative and absolute", "relative+absolute", "cap100"),
        ("Absolute, lower cap", "transformer", "cap75"),
        ("Relative, lower cap", "relative", "cap75"),
    ),
    ("seeds",),
    (("5",), ("5",), ("3",), ("3",), ("3",), ("5",), ("5",)),
)

CHEN = Scores(
    "chen2019b-small",
    "multi-bleu",
    (("BLEU", "words", "all"),),
    (
        ("Transformer (base)", "transformer", "all"),
        ("+RPEHead", "rpe-head", "all"),
        ("+MPRHead", "mpr-head", "all"),
        ("Transformer without positions in the decoder", "transformer-no-decoder", "all"),
        ("Transformer without positions in the encoder", "transformer-no-encoder", "all"),
        ("+RPEHead without recurrence and positions in the decoder", "rpe-head-no-decoder", "all"),
        ("+RPEHead without recurrence and positions in the encoder", "rpe-head-no-encoder", "all"),
        ("+MPRHead without recurrence and positions in the decoder", "mpr-head-no-decoder", "all"),
        ("+MPRHead without recurrence and positions in the encoder", "mpr-head-no-encoder", "all"),
        ("+MPRHead without any", "mpr-head-no-both", "all"),
    ),
    ("seeds", "published (newstest2014)"),
    (
        ("5", "27.25"),
        ("5", "28.11"),
        ("5", "28.35"),
        ("2", "26.73"),
        ("2", "10.71"),
        ("2", "27.54"),
        ("2", "11.16"),
        ("2", "27.74"),
        ("2", "10.89"),
        ("2", "10.43"),
    ),
)

SAME_LENGTH = {
    "Sinusoids": ("transformer", "all"),
    "Relative, clipped at 4": ("relative", "all"),
    "GRU and relative (`rr`)": ("rr", "all"),
    "RoPE": ("rope", "all"),
    "Relative, joined pairs in training too": ("relative", "joined"),
}
"""Row of the table of lines of 11 to 21 subwords → system and training of `schemes`."""


def _sentences() -> tuple[Head, Rows]:
    """BLEU and output length of lines of one and of two sentences with equally many subwords."""
    of_study = measured("schemes-small")
    rows = []
    for label, of in SAME_LENGTH.items():
        cells = [
            f"{mean(of_study[*of, test, 'subwords', '11-21', measure]):.{decimals}f}"
            for measure, decimals in (("bleu", 1), ("length_ratio", 2))
            for test in ("single", "joined")
        ]
        rows.append((label, *cells))
    return ("11 to 21 subwords", "BLEU, one sentence", "BLEU, two sentences", "length, one", "length, two"), rows


# likelihood by position

BASE, OTHER = "transformer", "relative"
DESIGNS = {
    "D1": ("all", "**D1**: beyond − dense"),
    "D1 by sentence": ("all", "the same by sentence"),
    "D1 sparse": ("all", "sparse − dense"),
    "D1 without unusual lengths": ("all", "D1 without unusual lengths"),
    "D1 without the worst 5 %": ("all", "D1 without the worst 5 %"),
    "D5": ("all", "D5: D1 with covariates"),
    "D2": ("all", "**D2**: after a long − after a short sentence"),
    "D3 source +40": ("short", "D3: source positions from 40"),
    "D3 target +40": ("short", "D3: target positions from 40"),
    "D3 both +40": ("short", "D3: both from 40"),
}
"""Design → its test, and what the page calls it."""
ENDS = {"none": "from 0", "source +40": "source from 40", "target +40": "target from 40", "both +40": "both from 40"}
BEFORE, AT_END = "p of the end before it", "-ln p of the end at the end"


def figures(test: str, axis: str) -> dict[str, dict[str, dict[str, str]]]:
    """Read the rows of an axis of a test: bin → system → row."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    with (RESULTS / "likelihood" / f"{test}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["axis"] == axis:
                found.setdefault(row["bin"], {})[row["system"]] = row
    return found


def _signed(value: str) -> str:
    return f"{float(value):+.3f}".replace("-", "−")


def _difference(row: dict[str, str] | None) -> str:
    """A difference with its interval; in parentheses where it decides nothing, empty where there is none."""
    if row is None or not row["low"]:
        return ""
    text = f"{_signed(row['Delta'])} ({_signed(row['low'])} to {_signed(row['high'])})"
    return text if row["status"] == "decided" else f"({text})"


def _by_position() -> tuple[Head, Rows]:
    """Differences by target position in both kinds of sentences."""
    short, long = (figures(test, "target position") for test in ("short", "long"))
    rows = []
    for place in sorted({*short, *long}, key=lambda name: [int(each) for each in name.split("-")]):
        cells = []
        for of_test in (short, long):
            row = of_test.get(place, {}).get(OTHER)
            cells += [_difference(row), f"{int(row['sentences']):,}" if row else ""]
        rows.append((place.replace("-", "–"), *cells))
    heads = ("Δ, sentences of at most 22 words", "sentences", "Δ, sentences of 26 to 80 words", "sentences")
    return ("target position", *heads), rows


def _zones() -> tuple[Head, Rows]:
    """Differences by zone, under sources within and beyond the lengths that training reaches."""
    of_both = figures("all", "zone, source")
    rows = []
    for zone, of_zone in figures("all", "zone").items():
        parts = [of_both.get(f"{zone}, source {side}", {}).get(OTHER) for side in ("within", "beyond")]
        rows.append((zone, *map(_difference, [of_zone[OTHER], *parts])))
    return ("zone of the target position", "Δ, all sources", "Δ, sources within", "Δ, sources beyond"), rows


def _designs() -> tuple[Head, Rows]:
    """Every design: what each system loses, and the difference."""
    rows = []
    for design, (test, label) in DESIGNS.items():
        of_systems = figures(test, "design")[design]
        row = of_systems[OTHER]
        counts = (f"{int(row['sentences']):,}", row["documents"], f"{float(row['G*']):.0f}")
        rows.append((label, _signed(of_systems[BASE]["L"]), _signed(row["L"]), _difference(row), *counts))
    return ("design", f"`{BASE}`", f"`{OTHER}`", "Δ", "sentences", "documents", "G*"), rows


def _ends() -> tuple[Head, Rows]:
    """The end symbol with shifted positions."""
    before, at_end = figures("short", BEFORE), figures("short", AT_END)
    rows = []
    for shift, label in ENDS.items():
        cells = [f"{float(before[f'shift {shift}'][name]['L']):.4f}" for name in (BASE, OTHER)]
        cells += [f"{float(at_end[f'shift {shift}'][name]['L']):.3f}" for name in (BASE, OTHER)]
        rows.append((label, *cells))
    heads = (f"mean p of the end symbol before the end, `{BASE}`", f"`{OTHER}`")
    return ("positions", *heads, f"−ln p at the end, `{BASE}`", f"`{OTHER}`"), rows


TABLES: dict[str, Callable[[], tuple[Head, Rows]]] = {
    "scores of schemes": SCHEMES,
    "scores of RoPE": ROPE,
    "scores of schemes in Japanese": ENJA,
    "scores by clipping": CLIPPING,
    "scores of Rosendahl": ROSENDAHL,
    "scores of recurrent heads": CHEN,
    "scores by sentences": _sentences,
    "losses by position": _by_position,
    "losses by zone": _zones,
    "losses by design": _designs,
    "end symbols": _ends,
}
"""Name of a generated part → its table."""
