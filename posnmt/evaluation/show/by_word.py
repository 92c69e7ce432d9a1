"""Charts with the words of a sentence: attention by head, tokens that are counted, and penalties."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from posnmt.evaluation.report.charts import Chart, Panel
from posnmt.evaluation.show.sections import SIDES, Group, Section, Sentence, Shown, curve
from posnmt.metrics.measure import Measure
from posnmt.translate.values import AttentionMap

KINDS = {"encoder": "encoder", "decoder": "decoder", "cross": "target to source"}
PENALTY = Measure("Penalty", "mean over features", 2)


def attention(shown: Sequence[Shown]) -> Section:
    """All heads on each sentence, a chart for each layer; the first charts are opened."""
    groups: list[Group] = []
    for each in shown:
        for sentence in each.sentences:
            for kind, words in KINDS.items():
                of_kind: AttentionMap = getattr(sentence.attention, kind)
                charts = _maps(each, sentence, kind, words, of_kind, of_kind.weights, "words", "attention")
                groups.append(Group(f"{each.name}: {words}{_of(sentence, each)}", charts, opened=not groups))
    return Section(
        "words",
        "Attention with words",
        [
            "From each subword (row) to each subword (column), one panel a head. <s> begins what the decoder reads,"
            " </s> ends what the encoder reads. A grey cell is hidden from its row: by the causal mask or by a scheme."
        ],
        groups,
    )


def counted(shown: Sequence[Shown]) -> list[Group]:
    """The tokens that a scheme counts, on each sentence."""
    groups = []
    for each in shown:
        for sentence in each.sentences:
            for side in SIDES:
                of_side: AttentionMap = getattr(sentence.attention, side)
                if of_side.counted is not None:
                    charts = _maps(
                        each, sentence, side, side, of_side, of_side.counted, "counted-words", "tokens counted"
                    )
                    title = f"{each.name}: tokens counted with words, {side}{_of(sentence, each)}"
                    groups.append(Group(title, charts, opened=False))
    return groups


def penalties(shown: Sequence[Shown]) -> Section:
    """The penalties by which reordering embeddings weaken the position of each word."""
    groups = []
    for each in shown:
        charts = []
        for sentence in each.sentences:
            for side in SIDES:
                of_side: AttentionMap = getattr(sentence.attention, side)
                if of_side.penalties is not None:
                    charts.append(_penalties(each, sentence, side, of_side.queries, of_side.penalties))
        if charts:
            groups.append(Group(each.name, charts))
    return Section(
        "penalties",
        "Penalties of reordering embeddings",
        [
            "What is left of the position of a word in each layer, the mean of the penalty vector over its features: 1"
            " leaves its sinusoids as they are, 0 removes them.",
            "Papers: these are the penalties of Chen K. et al. 2019a, equations 6 and 7. The paper draws how they are"
            " computed (Figure 1), and none of their values.",
        ],
        groups,
    )


def _maps(
    shown: Shown,
    sentence: Sentence,
    kind: str,
    words: str,
    of_kind: AttentionMap,
    values: NDArray[np.float32],
    stem: str,
    what: str,
) -> list[Chart]:
    """A chart for each layer, with a panel for each head, of values [L,H,Tq,Tk]."""
    charts = []
    for layer, heads in enumerate(np.where(of_kind.seen, values, np.nan)):
        if np.isnan(heads).all():
            continue  # no scheme of this layer has any
        panels = [
            Panel(
                Measure(f"Head {head + 1}", what, 2),
                [curve(word, row, cells) for row, (word, cells) in enumerate(zip(of_kind.queries, each, strict=True))],
                f"head {head + 1}",
            )
            for head, each in enumerate(heads)
        ]
        charts.append(
            Chart(
                f"{stem}-{shown.number + 1}-line-{sentence.line}-{kind}-layer-{layer + 1}",
                f"{shown.name}: {what}, {words}, layer {layer + 1}{_of(sentence, shown)}",
                "subword attended to" if what == "attention" else "key",
                of_kind.keys,
                panels,
                kind="heat",
            )
        )
    return charts


def _penalties(shown: Shown, sentence: Sentence, side: str, words: list[str], values: NDArray[np.float32]) -> Chart:
    """A row for each layer, a column for each word, of penalties [L,T,d]."""
    trained = shown.stack("encoder" if side == "encoder" else "decoder").trained
    marks = (
        None if trained is None else ["seen" if place < trained.longest else "unseen" for place in range(len(words))]
    )
    rows = [curve(f"layer {layer + 1}", layer, each) for layer, each in enumerate(values.mean(axis=-1))]
    return Chart(
        f"penalties-{shown.number + 1}-line-{sentence.line}-{side}",
        f"{shown.name}: penalties, {side}{_of(sentence, shown)}",
        "subword",
        words,
        [Panel(PENALTY, rows)],
        kind="heat",
        training=marks,
        trained="positions",
    )


def _of(sentence: Sentence, shown: Shown) -> str:
    """The number of the sentence for a title, if there are several."""
    return f", line {sentence.line}" if len(shown.sentences) > 1 else ""
