"""Charts by position: similarity of positions, trained vectors, and the effect of moved words elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posnmt.evaluation.report.charts import Chart, Panel
from posnmt.evaluation.show.sections import SIDES, Group, Section, Shown, Side, curve, marks, on, within
from posnmt.metrics.measure import Measure
from posnmt.translate.values import Similarity, VectorNorms

COSINE = Measure("Cosine", "1: the same direction", 2)
CHANGE = Measure("Change", "of the vector, by its length", 3)
NORM = Measure("Norm", "length of the vectors", 2)
SHARE = Measure("Share of training", "sentences with a word there, %", 1, neutral=0)


def similarity(shown: Sequence[Shown]) -> Section:
    """The cosine of each two positions, and its mean by distance within the trained length and beyond it."""
    groups = []
    for side in SIDES:
        having = [(each, alike) for each in shown if (alike := each.stack(side).similarity) is not None]
        if having:
            charts = [_by_distance(having, side), *(_cosines(each, alike, side) for each, alike in having)]
            groups.append(Group(f"Similarity of positions, {side}", charts))
    sentences = [
        "The cosine of the vectors of two positions at the input of the first layer. Where schemes add the same vector"
        " to every word, it is that of these vectors, without the word."
    ]
    for each, side in [(each, side) for each in shown for side in SIDES]:
        alike = each.stack(side).similarity
        if alike is not None and alike.words:
            sentences.append(
                f"{each.name}, {side}: what the first layer reads depends on the words before, so the cosine is that of"
                f" a text of one word repeated, the mean over the words {' '.join(alike.words)}."
            )
    return Section("similarity", "Similarity of positions", list(dict.fromkeys(sentences)), groups)


def moved(shown: Sequence[Shown]) -> Section:
    """The change at other words when two neighbours are exchanged."""
    having = {side: [each for each in shown if each.stack(side).moved is not None] for side in SIDES}
    charts = [_moved(each, side) for side, each in having.items() if each]
    return Section(
        "moved",
        "Moved words",
        [
            "Two neighbouring words are exchanged, and the input of the first layer is compared, position by position."
            " At 0 and 1 are the words themselves; elsewhere the words are the same, and only what a recurrence has"
            " read differs. The mean over every exchange of different neighbours in all lines.",
            "Papers: the disturbance of Chen K. et al. 2019a, Figures 3 to 5, who swap words of the source and measure"
            " BLEU; here it is measured inside the model. posnmt condition swap and posnmt analyse --swapped make"
            " their figures.",
        ],
        [Group("Change by an exchange of words", charts)],
    )


def vectors(shown: Sequence[Shown]) -> Section:
    """The lengths of trained vectors, and the share of training sentences with a word there."""
    groups = []
    for each in shown:
        charts = [
            _norms(each, of_vectors, side, number)
            for side in SIDES
            for number, of_vectors in enumerate(each.stack(side).vectors)
        ]
        if charts:
            groups.append(Group(each.name, charts))
    sources = {each.share_from: None for each in shown if any(each.stack(side).vectors for side in SIDES)}
    return Section(
        "vectors",
        "Trained vectors of positions and distances",
        [
            "How long each vector is, and the share of training sentences that have a word at this position, or two at"
            " this distance. A vector that no sentence touches is as it was at the start (weight decay aside). The"
            " first and the last distance also serve all that are farther.",
            *sources,
        ],
        groups,
    )


def _cosines(shown: Shown, alike: Similarity, side: Side) -> Chart:
    places = range(len(alike.cosine))
    rows = [curve(str(place + 1), place, row) for place, row in enumerate(alike.cosine)]
    return Chart(
        f"similarity-{side}-{shown.number + 1}",
        f"{shown.name}: similarity of positions, {side}",
        "position",
        [str(place + 1) for place in places],
        [Panel(COSINE, rows)],
        kind="heat",
        training=marks(places, [shown.stack(side).trained]),
        trained="positions",
        squared=True,
    )


def _by_distance(having: Sequence[tuple[Shown, Similarity]], side: Side) -> Chart:
    """The mean cosine at each distance, for positions in training and for positions beyond."""
    length = max(len(alike.cosine) for _, alike in having)
    distances = list(range(length))
    inside, beyond = [], []
    for each, alike in having:
        trained, count = each.stack(side).trained, len(alike.cosine)
        end = count if trained is None else min(trained.longest, count)
        inside.append(curve(each.name, each.number, on(distances, *_diagonals(alike.cosine[:end, :end]))))
        beyond.append(curve(each.name, each.number, on(distances, *_diagonals(alike.cosine[end:, end:]))))
    panels = [Panel(COSINE, inside, "Cosine of positions in training")]
    if any(value is not None for each in beyond for value in each.values):
        panels.append(Panel(COSINE_BEYOND, beyond, "Cosine of positions beyond training"))
    return Chart(
        f"similarity-{side}", f"Similarity by distance of positions, {side}", "distance of two positions",
        [str(distance) for distance in distances], panels,
    )  # fmt: skip


COSINE_BEYOND = Measure("Cosine beyond", COSINE.better, COSINE.decimals)


def _diagonals(cosine: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Distances from 0, and the mean of each diagonal."""
    count = len(cosine)
    return np.arange(count), np.array([np.diagonal(cosine, distance).mean() for distance in range(count)])


def _moved(having: Sequence[Shown], side: Side) -> Chart:
    every = {place for each in having if (of := each.stack(side).moved) for place in of.distances.tolist()}
    distances = within(every, max(each.positions.length for each in having))
    curves = [
        curve(each.name, each.number, on(distances, of.distances, of.change))
        for each in having
        if (of := each.stack(side).moved)
    ]
    return Chart(
        f"moved-{side}",
        f"Change by an exchange of words, {side}",
        "position minus that of the first exchanged word",
        [str(distance) for distance in distances],
        [Panel(CHANGE, curves)],
        training=marks(distances, [each.stack(side).trained for each in having]),
        trained="distances",
    )


def _norms(shown: Shown, of: VectorNorms, side: Side, number: int) -> Chart:
    places, norms, share = of.places, of.norms, of.share
    if of.kind == "position":
        drawn = places < shown.positions.length
        places, norms, share = places[drawn] + 1, norms[:, drawn], share[drawn]
    names = [f"layer {layer + 1}" for layer in range(len(norms))] if of.kind == "distance" else ["vectors"]
    curves = [curve(name, layer, each) for layer, (name, each) in enumerate(zip(names, norms, strict=True))]
    panels = [Panel(NORM, curves)]
    if not np.isnan(share).all():
        panels.append(Panel(SHARE, [curve("training", -1, 100 * share)]))
    seen = marks((places - 1 if of.kind == "position" else places).tolist(), [shown.stack(side).trained])
    if seen and side == "decoder" and of.kind == "distance":
        seen = ["unseen" if place > 0 else mark for place, mark in zip(places, seen, strict=True)]
    return Chart(
        f"vectors-{side}-{shown.number + 1}-{number + 1}",
        f"{shown.name}: vectors on {of.name}, {side}",
        "position" if of.kind == "position" else "distance in subwords, key minus query",
        [str(place) for place in places],
        panels,
        training=seen,
        trained=f"{of.kind}s",
    )
