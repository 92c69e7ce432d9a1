"""Completeness of translations: sentence ends, aligned source words and omitted sentences, overall and by place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from posnmt.base.progress import Work
from posnmt.base.version import __version__
from posnmt.config.writing import EXAMPLES, isolated, writing
from posnmt.evaluation.analyse.completeness.counts import mcnemar, rate_of
from posnmt.evaluation.analyse.completeness.evidence import DETECTORS, FEATURES, evidence
from posnmt.evaluation.analyse.completeness.labels import Labels, corrected
from posnmt.evaluation.analyse.completeness.lexicon import aligned
from posnmt.evaluation.analyse.completeness.words import FUNCTION_SHARE, LETTERS, Line, function_words, split, words
from posnmt.evaluation.analyse.measures import COMPLETENESS

MANY = 0.01
"""The rate of omitted sentences above which there is a warning."""
LAST_PLACE = 5
"""Sentences with this number in their line, or a higher one, count as one place."""
WORST = 10
"""Number of lines of each output that are listed."""
UNKNOWN = "en"
"""The language whose sentence rules are used if the language is not known; sentencex does the same."""


@dataclass(frozen=True)
class Completeness:
    """The completeness of M outputs with K sentences in N source lines.

    Attributes:
        statistics: measure → for each output `[N, 2]`, whose sums are numerator and denominator of a ratio.
        signatures: of its metrics.
        results: as in `results.json`.
        warnings: about outputs that omit many sentences.
        sources: the lines of the source.
        omitted: `[K, M]` whether a sentence counts as omitted.
    """

    statistics: dict[str, list[np.ndarray]]
    signatures: dict[str, str]
    results: dict[str, Any]
    warnings: list[str]
    sources: list[Line]
    omitted: np.ndarray


def completeness(
    source: Sequence[str],
    reference: Sequence[str],
    outputs: dict[str, Sequence[str]],
    languages: tuple[str | None, str | None],
    further: Iterable[tuple[str, str]] = (),
    read: Callable[[str, np.ndarray], Labels | None] = lambda name, sizes: None,
    shown: int | None = None,
) -> Completeness:
    """Measure the completeness of outputs.

    Args:
        source, reference: N lines.
        outputs: name → N lines.
        languages: codes of the source and target language, whose rules determine sentence ends; None: unknown.
        further: more aligned lines, for the lexicon.
        read: returns the labels of an output, from its name and the number of sentences of each source line, `[N]`.
        shown: number of outputs in the results; default: all. The others have only statistics.
    """
    here, there = (code or UNKNOWN for code in languages)
    sources = [split(line, here) for line in source]
    references = [split(line, there) for line in reference]
    texts = [[split(line, there) for line in lines] for lines in outputs.values()]
    forms = (([word.form for word in words(one)], [word.form for word in words(other)]) for one, other in further)
    aligned_lines, strengths_of = aligned(sources, references, texts, forms)
    content, expansion = _content(sources), _word_count(references) / max(1, _word_count(sources))
    sizes = _sentence_counts(sources)
    lines = np.repeat(np.arange(len(sources)), sizes)
    numbers = np.concatenate([np.zeros(0, int), *map(np.arange, sizes)])
    contents = np.array([np.count_nonzero(each) for each in content], dtype=float)
    blanks = not any(writing(lines[:EXAMPLES]).counts_characters for lines in (source, reference))
    detector = DETECTORS[blanks]
    statistics: dict[str, list[np.ndarray]] = {name: [] for name in COMPLETENESS}
    margins = np.zeros((len(lines), len(texts)))
    with Work("looking for omitted sentences", "outputs", len(texts)) as work:
        for column, (text, strengths) in enumerate(zip(texts, strengths_of, strict=True)):
            of_text = evidence(sources, text, content, strengths, expansion)
            margins[:, column] = detector.margins(of_text)
            lost = np.bincount(lines, margins[:, column] > 0, minlength=len(sources))
            ratios = {
                "aligned_source_words": (100 * of_text.linked, contents),
                "omitted_sentences": (100 * lost, sizes),
                "sentence_ends": (_sentence_counts(text), sizes),
            }
            for name, parts in ratios.items():
                statistics[name].append(np.stack(parts, axis=1).astype(float))
            work.add(1)
    omitted = margins > 0
    names = list(outputs)[:shown]
    labels = {name: each for name in names if (each := read(name, sizes)) is not None}
    systems = [
        _system(name, margins[:, column], lines, numbers, sizes, labels.get(name)) for column, name in enumerate(names)
    ]
    results = {
        "alignment": "lexicon",
        "aligned_lines": aligned_lines,
        "languages": {"source": languages[0], "target": languages[1]},
        "detector": {"features": list(FEATURES), **asdict(detector)},
        "source_sentences": len(lines),
        "systems": systems,
        "mcnemar": _mcnemar(omitted, names),
    }  # fmt: skip
    how = f"words:{LETTERS} letters|function words:{FUNCTION_SHARE:.0%}|alignment:lexicon|version:posnmt-{__version__}"
    signatures = dict.fromkeys(("aligned_source_words", "omitted_sentences"), how)
    return Completeness(statistics, signatures, results, _warnings(systems), sources, omitted)


def _content(sources: Sequence[Line]) -> list[np.ndarray]:
    """For each line, which of its words are content words."""
    common = function_words(line.forms for line in sources)
    return [np.array([form not in common for form in line.forms], dtype=bool) for line in sources]


def _word_count(lines: Sequence[Line]) -> int:
    return sum(len(line.forms) for line in lines)


def _sentence_counts(lines: Sequence[Line]) -> np.ndarray:
    return np.array([len(line.sentences) for line in lines], dtype=int)


def _system(
    name: str, margins: np.ndarray, lines: np.ndarray, numbers: np.ndarray, sizes: np.ndarray, labels: Labels | None
) -> dict[str, Any]:
    """The results of one output.

    Args:
        name: of the output.
        margins: `[K]` of the detector; a sentence above 0 counts as omitted.
        lines, numbers: `[K]` the line of each sentence, and its number in it.
        sizes: `[N]` sentences of each line.
        labels: human labels of it.
    """
    omitted = margins > 0
    return {
        "name": name,
        **rate_of(omitted, lines),
        "places": _places(omitted, lines, numbers, sizes),
        "worst": _worst(margins, lines, numbers),
        "hand": None if labels is None else corrected(labels, omitted, lines, numbers),
    }


def _mcnemar(omitted: np.ndarray, names: Sequence[str]) -> list[dict[str, Any]]:
    """McNemar's test of every pair of outputs with sentences `[K, M]` that are omitted."""
    keys = ("system", "other", "omitted_by_system_only", "omitted_by_other_only", "p")
    return [
        dict(zip(keys, (names[one], names[other], *mcnemar(omitted[:, one], omitted[:, other])), strict=True))
        for one, other in combinations(range(len(names)), 2)
    ]


def _places(omitted: np.ndarray, lines: np.ndarray, numbers: np.ndarray, sizes: np.ndarray) -> list[dict[str, Any]]:
    """The rate at each place of a sentence in its line, and at the last place, in lines with several sentences."""
    several = sizes[lines] > 1
    place = numbers.clip(max=LAST_PLACE - 1)
    chosen = {f"{n + 1}{'-' if n + 1 == LAST_PLACE else ''}": several & (place == n) for n in range(LAST_PLACE)}
    chosen["last"] = several & (numbers == sizes[lines] - 1)
    return [{"place": name, **rate_of(omitted[rows], lines[rows])} for name, rows in chosen.items() if rows.any()]


def _worst(margins: np.ndarray, lines: np.ndarray, numbers: np.ndarray) -> list[dict[str, Any]]:
    """The lines with most omitted sentences, the surest first: numbers of the line and of these sentences."""
    lost = np.flatnonzero(margins > 0)
    by_line: dict[int, list[int]] = {}
    for each in lost.tolist():
        by_line.setdefault(int(lines[each]), []).append(each)
    ranked = sorted(by_line.values(), key=lambda each: (-len(each), -float(margins[each].sum())))
    return [
        {"line": int(lines[each[0]]) + 1, "sentences": [int(numbers[one]) + 1 for one in each]}
        for each in ranked[:WORST]
    ]


def _warnings(systems: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for each output that omits more than `MANY` of the source sentences."""
    return [
        f"output {isolated(system['name'])}: {system['omitted']:,} of {system['sentences']:,} source sentences"
        f" ({100 * system['rate']:.1f} %) have no counterpart in it."
        for system in systems
        if system["rate"] is not None and system["rate"] > MANY
    ]
