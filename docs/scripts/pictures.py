"""The pictures of the pages: position schemes as the code computes them, and values of a published study.

python -m docs.scripts.pictures    # writes docs/pictures/*.svg
"""

from __future__ import annotations

import csv
import lzma
from collections.abc import Callable
from pathlib import Path

import torch

from docs.scripts.svg import Axes, document, label, matrix
from posnmt.api.figures import figures
from posnmt.evaluation.report.bands import banded
from posnmt.evaluation.report.charts import Chart, Panel, curve_through
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
    words, cell = 40, 7
    span = Span(0, words, CPU)
    added, _ = create("sinusoidal", STACK).embed(torch.zeros(1, words, STACK.d_model), span, None)
    rows = added[0].T.tolist()  # a row for each feature, a column for each word
    body = matrix(rows, 56, 16, cell)
    right, bottom = 56 + words * cell, 16 + STACK.d_model * cell
    body += [label(56 + (word + 0.5) * cell, bottom + 16, str(word), "middle") for word in range(0, words, 10)]
    body += [label(50, 16 + (feature + 0.5) * cell + 4, str(feature), "end") for feature in range(0, STACK.d_model, 10)]
    body += [
        label((56 + right) / 2, bottom + 34, "position of the word", "middle"),
        label(16, 240, "feature", "middle", turn=True),
    ]
    body += matrix([[(20 - level) / 20] for level in range(41)], right + 24, 16, 7)
    body += [label(right + 38, 16 + 7 * level + 8, words_) for level, words_ in ((0, "1"), (20, "0"), (40, "-1"))]
    return document(right + 90, bottom + 46, "Sinusoidal positions of 40 words, 64 features", body)


def clipping() -> str:
    """Which vector `relative` takes for each pair of words, with a clipping distance of 4."""
    words, distance, cell = 12, 4, 26
    scheme = create("relative", STACK, distance=distance, values=False)
    view = join([scheme], layers=1)[0]
    with torch.no_grad():  # each vector holds its own number, and a query of one reads it
        scheme.layers[0].keys.zero_()
        scheme.layers[0].keys[:, 0] = torch.arange(-distance, distance + 1.0)
    q = torch.zeros(1, STACK.heads, words, STACK.d_head)
    q[..., 0] = 1
    number = view.logits(q, q, Span(0, words, CPU))[0, 0].detach()
    body = matrix((number / distance / 1.3).tolist(), 56, 40, cell)
    for i, row in enumerate(number.tolist()):
        body += [
            label(56 + (j + 0.5) * cell, 40 + (i + 0.5) * cell + 4, f"{value:g}", "middle")
            for j, value in enumerate(row)
        ]
    side = words * cell
    body += [
        label(56 + side / 2, 28, "key (the word that is attended to)", "middle"),
        label(40, 40 + side / 2, "query", "middle", turn=True),
    ]
    return document(side + 76, side + 56, "Clipped distance from query to key", body)


def alibi() -> str:
    """The bias of every head of `alibi` by distance."""
    reach = 30
    axes = Axes(
        "ALiBi's bias by distance", DISTANCE, "added to the logit", (-reach, reach), (-16, 0),
        ticks(-reach, reach, 10), ticks(-16, 0, 4),
    )  # fmt: skip
    table = _bias("alibi", reach)
    for head in (0, 1, 2, 3, 5):
        points = [(d, max(-16.0, value)) for d, value in zip(range(-reach, reach + 1), table[head], strict=True)]
        axes.curve(f"head {head + 1}", points)
    return axes.document()


def biases() -> str:
    """One head of several biases: how fast they fall."""
    reach = 60
    axes = Axes(
        "Biases by distance", DISTANCE, "added to the logit", (0, reach), (-20, 0),
        ticks(0, reach, 10), ticks(-20, 0, 4),
    )  # fmt: skip
    for name in ("alibi", "kerple", "sandwich"):
        row = _bias(name, reach)[1][reach:]
        axes.curve(name, [(d, max(-20.0, value - row[0])) for d, value in enumerate(row)])
    return axes.document()


def ticks(first: int, last: int, step: int) -> list[tuple[float, str]]:
    """Whole numbers on an axis."""
    return [(each, str(each)) for each in range(first, last + 1, step)]


def _bias(name: str, reach: int) -> list[list[float]]:
    """[H][2 x reach + 1] the bias of a scheme at the distances -reach .. reach."""
    with torch.random.fork_rng():
        torch.manual_seed(1)  # kerple draws its parameters
        view = create(name, STACK).layer(0)
    return view.by_offset(Span(0, reach + 1, CPU)).detach().tolist()


def rope() -> str:
    """The product of a query and a key with equal features, by distance, after the rotation of `rope`."""
    reach, stack = 60, Stack(d_model=64, heads=1, layers=1, causal=False, max_length=512)
    axes = Axes(
        "RoPE's product by distance", DISTANCE, "product", (-reach, reach), (0, 1),
        ticks(-reach, reach, 20), [(each / 4, f"{each / 4:g}") for each in range(5)],
    )  # fmt: skip
    span = Span(0, 2 * reach + 1, CPU)
    ones = torch.full((1, 1, 2 * reach + 1, stack.d_head), stack.d_head**-0.5)
    q, k = create("rope", stack).layer(0).rotate(ones, ones, span)
    product = (q @ k.transpose(-1, -2))[0, 0, reach].tolist()  # the word in the middle
    axes.curve("", [(d, value) for d, value in zip(range(-reach, reach + 1), product, strict=True)])
    axes.names = []
    return axes.document()


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
    return draw([banded(chart, "sd")], Style(width=6.0))["second-sentence"].svg


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


PICTURES: dict[str, Callable[[], str]] = {
    "sinusoids": sinusoids,
    "clipping": clipping,
    "alibi": alibi,
    "biases": biases,
    "rope": rope,
    "second-sentence": second_sentence,
    "likelihood": likelihood,
}

if __name__ == "__main__":
    main()
