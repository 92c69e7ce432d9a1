"""The pictures of the pages: position schemes as the code computes them, and values of a published study.

python -m docs.scripts.pictures    # writes docs/pictures/*.svg
"""

from __future__ import annotations

import csv
import lzma
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from posnmt.api.figures import figures
from posnmt.evaluation.report.bands import banded
from posnmt.evaluation.report.charts import Chart, Curve, Panel, curve_through
from posnmt.evaluation.report.figures import Style, draw
from posnmt.metrics.measure import Measure
from posnmt.position import Span, Stack, create, join

DOCS = Path(__file__).parents[1]
STACK = Stack(d_model=64, heads=8, layers=1, causal=False, max_length=512)
CPU = torch.device("cpu")
DISTANCE = "distance from query to key, in words"


def main() -> None:
    """Write every picture."""
    for name, picture in PICTURES.items():
        (DOCS / "pictures" / f"{name}.svg").write_text(picture(), encoding="utf-8")


def sinusoids() -> str:
    """What `sinusoidal` adds to the word embeddings of a sentence."""
    words = 40
    added, _ = create("sinusoidal", STACK).embed(torch.zeros(1, words, STACK.d_model), Span(0, words, CPU), None)
    features = {str(feature): row for feature, row in enumerate(added[0].T.tolist())}
    measure = Measure("Added", "added to a feature (row) of the word at a position (column)", 0)
    return drawn(table("Sinusoids", "position of the word", range(words), measure, features, "heat"), 4.5)


def clipping() -> str:
    """Which vector `relative` takes for each pair of words, with a clipping distance of 4."""
    words, distance = 12, 4
    scheme = create("relative", STACK, distance=distance, values=False)
    view = join([scheme], layers=1)[0]
    with torch.no_grad():  # each vector holds its own number, and a query of one reads it
        scheme.layers[0].keys.zero_()
        scheme.layers[0].keys[:, 0] = torch.arange(-distance, distance + 1.0)
    q = torch.zeros(1, STACK.heads, words, STACK.d_head)
    q[..., 0] = 1
    number = view.logits(q, q, Span(0, words, CPU))[0, 0].detach()
    rows = {str(query): row for query, row in enumerate(number.tolist())}
    measure = Measure("Distance", "clipped distance from a query (row) to a key (column)", 0)
    return drawn(replace(table("Clipping", "key", range(words), measure, rows, "heat"), squared=True), 3.6)


def alibi() -> str:
    """The bias of every other head of `alibi` by distance."""
    reach = 30
    heads = {f"head {head + 1}": _bias("alibi", reach)[head] for head in (0, 1, 2, 3, 5)}
    return drawn(_biased("ALiBi's bias by distance", range(-reach, reach + 1), heads, -16))


def biases() -> str:
    """One head of several biases: how fast they fall."""
    reach = 60
    rows = {name: _bias(name, reach)[1][reach:] for name in ("alibi", "kerple", "sandwich")}
    shifted = {name: [value - row[0] for value in row] for name, row in rows.items()}
    return drawn(_biased("Biases by distance", range(reach + 1), shifted, -20))


def _biased(title: str, places: range, rows: Mapping[str, Sequence[float]], lowest: int) -> Chart:
    """Biases by distance, as far as they are above the end of the axis."""
    shown = {name: [value if value >= lowest else None for value in row] for name, row in rows.items()}
    made = table(title, DISTANCE, places, Measure("Bias", "added to the logit", 0), shown)
    return replace(made, limits=(lowest, 0.3))


def _bias(name: str, reach: int) -> list[list[float]]:
    """[H][2 x reach + 1] the bias of a scheme at the distances -reach .. reach."""
    with torch.random.fork_rng():
        torch.manual_seed(1)  # kerple draws its parameters
        view = create(name, STACK).layer(0)
    return view.by_offset(Span(0, reach + 1, CPU)).detach().tolist()


def rope() -> str:
    """The product of a query and a key with equal features, by distance, after the rotation of `rope`."""
    reach, stack = 60, Stack(d_model=64, heads=1, layers=1, causal=False, max_length=512)
    span = Span(0, 2 * reach + 1, CPU)
    ones = torch.full((1, 1, 2 * reach + 1, stack.d_head), stack.d_head**-0.5)
    q, k = create("rope", stack).layer(0).rotate(ones, ones, span)
    product = (q @ k.transpose(-1, -2))[0, 0, reach].tolist()  # the word in the middle
    measure = Measure("Product", "of query and key", 2)
    return drawn(table("RoPE's product by distance", DISTANCE, range(-reach, reach + 1), measure, {"rope": product}))


def table(
    title: str,
    axis: str,
    places: range,
    measure: Measure,
    rows: Mapping[str, Sequence[float | None]],
    kind: Literal["lines", "heat"] = "lines",
) -> Chart:
    """A chart of a row of values for each name; lines have every tenth place as a label."""
    curves = [Curve(name, number, row, [None] * len(row)) for number, (name, row) in enumerate(rows.items())]
    labels = [str(place).replace("-", "−") if kind == "heat" or place % 10 == 0 else "" for place in places]
    at = list(map(float, places)) if kind == "lines" else None
    return Chart("picture", title, axis, labels, [Panel(measure, curves)], kind, at)


def drawn(chart: Chart, width: float = 5.0) -> str:
    """The SVG of a chart."""
    return draw([chart], Style(width))[chart.name].svg


def second_sentence() -> str:
    """Output length beside the reference, by source length, of lines of one and of two captions."""
    ratio = Measure("Length ratio", "output by reference, 1 is best", 3, neutral=1)
    curves = [
        curve_through(name, number, [(values(*of, each, "length_ratio"), None) for each in SENTENCE_BINS])
        for number, (of, name) in enumerate(SENTENCE_CURVES.items())
    ]
    chart = Chart(
        "second-sentence", "Output length by source length", "source length in subwords", SENTENCE_BINS,
        [Panel(ratio, curves)], training=["seen", "seen", "unseen"], unreached="over 28 subwords",
    )  # fmt: skip
    return drawn(banded(chart, "sd"), 6.0)


SENTENCE_BINS = ("11-21", "22-28", "29-40")
"""Source lengths in subwords; the last is longer than any source in training."""

SENTENCE_CURVES = {
    ("relative", "all", "single"): "relative vectors, one sentence",
    ("transformer", "all", "single"): "sinusoids, one sentence",
    ("relative", "all", "joined"): "relative vectors, two",
    ("transformer", "all", "joined"): "sinusoids, two",
    ("relative", "joined", "joined"): "relative, two, trained on two",
}
"""System, training and test of the study schemes-small -> its name in the picture."""


def values(system: str, training: str, test: str, bin_name: str, measure: str) -> list[float]:
    """A measure in a bin of each seed in docs/results/schemes-small."""
    with lzma.open(DOCS / "results" / "schemes-small" / "results.csv.xz", "rt", encoding="utf-8", newline="") as file:
        wanted = (system, training, test, "subwords", bin_name, measure)
        of = ("system", "training_condition", "test_condition", "unit", "bin", "measure")
        return [float(row["value"]) for row in csv.DictReader(file) if tuple(row[name] for name in of) == wanted]


def likelihood() -> str:
    """The loss of two systems by target position in natural long sentences, as `posnmt figure` draws it."""
    table = DOCS / "results" / "likelihood" / "long.csv"
    [figure] = figures(table, "position", width=6.0)
    return figure.drawing.svg


def long_sentences() -> str:
    """What 16 systems lose and leave out beyond the lengths of training, as `posnmt figure --kind beyond` draws it."""
    [figure] = figures(DOCS / "results" / "natural-small", "beyond", width=6.5)
    return figure.drawing.svg


DECIDED = {"1a": "supported", "9": "undecided", "3": "contradicted"}
"""Claim of the study schemes, that one system is better than another -> its verdict."""


def verdicts() -> str:
    """The differences that decide three claims of a published study, with their intervals."""
    page = (DOCS / "results" / "verdicts_anew.md").read_text(encoding="utf-8")
    rows = page.split("<!-- begin schemes -->")[1].split("<!-- end schemes -->")[0].replace("\N{MINUS SIGN}", "-")
    found = []
    for claim, verdict in DECIDED.items():
        [row] = [line for line in rows.splitlines() if re.match(rf"\| {claim}\b", line)]
        _, _, _, _, _, word, decided, *_ = row.split("|")
        if verdict not in word:
            raise ValueError(f"claim {claim} of schemes is {word.strip()}")
        found.append([float(each) for each in re.findall(r"[+-]\d+\.\d+", decided)])
    curve = Curve("", 0, [value for value, *_ in found], [ends for _, *ends in found])
    measure = Measure("Difference in BLEU", "with its 95 % interval", 1, signed=True, neutral=0)
    panel = Panel(measure, [curve], title="claim: the difference is higher than 0")
    labels = [f"claim {claim}: {verdict}" for claim, verdict in DECIDED.items()]
    chart = Chart("picture", "Difference in BLEU with its 95 % interval", "", labels, [panel], "whiskers")
    return drawn(chart, 5.0)


PICTURES: dict[str, Callable[[], str]] = {
    "sinusoids": sinusoids,
    "clipping": clipping,
    "alibi": alibi,
    "biases": biases,
    "rope": rope,
    "second-sentence": second_sentence,
    "likelihood": likelihood,
    "long-sentences": long_sentences,
    "verdicts": verdicts,
}

if __name__ == "__main__":
    main()
