"""`posnmt analyse`: evaluate translations of any systems, with confidence intervals and significance tests.

All files are read and checked, then counted sentence by sentence, then measured, then compared. The measures of a
length bin or of a resample are functions of a sum over sentences (`additive`). `posnmt.evaluation.report.write` writes
the files.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from posnmt.base.version import __version__, version_of
from posnmt.evaluation.analyse.additive import Additive
from posnmt.evaluation.analyse.bins import TrainedLengths, bin_numbers
from posnmt.evaluation.analyse.citation import citation
from posnmt.evaluation.analyse.completeness.measure import Completeness
from posnmt.evaluation.analyse.completeness.requested import measured_completeness
from posnmt.evaluation.analyse.extract import count_all
from posnmt.evaluation.analyse.inputs import Text, warnings_of
from posnmt.evaluation.analyse.intervals import LEVEL
from posnmt.evaluation.analyse.length import length_distribution
from posnmt.evaluation.analyse.length_bands import FEWEST_DOCUMENTS
from posnmt.evaluation.analyse.measure import measure
from posnmt.evaluation.analyse.neural import neural, neural_scores
from posnmt.evaluation.analyse.places import by_place
from posnmt.evaluation.analyse.positions import places, position_curves
from posnmt.evaluation.analyse.read import Files, Read, Say, read
from posnmt.evaluation.analyse.seeds import seed_results
from posnmt.evaluation.analyse.sentence_scores import Scores
from posnmt.evaluation.analyse.settings import DEFAULT, Settings
from posnmt.evaluation.analyse.suspicions import warnings as suspicions
from posnmt.evaluation.analyse.swap import Swapped
from posnmt.evaluation.analyse.verdict import verdict
from posnmt.evaluation.analyse.words import count_words, word_results
from posnmt.metrics.buckets import Buckets
from posnmt.metrics.edit_rate import ter_search_limits
from posnmt.metrics.metric import Counting

FORMAT = "posnmt analysis 1"


@dataclass(frozen=True)
class Analysis:
    """The result of an analysis, for `posnmt.evaluation.report.write.write` and further use.

    Attributes:
        results: all figures, as in `results.json`; `docs/files.md` describes the fields.
        texts: source, first reference and outputs; outputs of swapped sources come last.
        source_lengths: `[N]` of the sentences, in the unit of the analysis.
        trained: the source lengths in training.
        additive: the statistics of the outputs, in the order of `texts`.
        completeness: of the outputs; None: not measured.
    """

    results: dict[str, Any]
    texts: list[Text]
    source_lengths: np.ndarray
    trained: TrainedLengths
    additive: Additive
    completeness: Completeness | None = None


def analyse(
    source: Path,
    reference: Path | Sequence[Path],
    outputs: dict[str, Path],
    settings: Settings = DEFAULT,
    swapped: Swapped | None = None,
    say: Callable[[str], None] = lambda message: None,
    scores: Scores | None = None,
) -> Analysis:
    """Measure systems overall and by source length; nothing is written.

    Args:
        source, reference: texts that are aligned line by line, one sentence per line. With several references, metrics
            use all of them, and lengths are compared with the first one of each line. An empty line in one of several
            references is none.
        outputs: system name → its translation of `source`, line by line; NAME:SEED for several seeds of a system.
        settings: of the analysis.
        swapped: (system name, share of swapped words) → its translation of the source with that share swapped.
        say: called with a progress line before each long step.
        scores: metric → output → file of sentence scores by another program, one number a line.

    Raises:
        UserError: the settings or the files have faults; all at once.
    """
    references = [Path(reference)] if isinstance(reference, str | Path) else [Path(each) for each in reference]
    texts = read(Files(source, references, outputs, swapped or {}, scores or {}), settings, say)
    say("measuring")
    counts = count(texts, settings, say)
    if settings.resampling.samples:
        say(f"resampling {settings.resampling.samples:,} times")
    measured = measure(
        texts.texts[2:], counts.additive, texts.source_lengths, texts.bins, texts.trained, settings.resampling,
        texts.systems,
    )  # fmt: skip
    return compare(texts, counts, measured, settings, say)


@dataclass(frozen=True)
class Counts:
    """The counts of N sentences.

    Attributes:
        positions: those by position, for each output.
        signatures: metric → its signature.
        neural_warnings: about the scores of neural metrics.
        additive: the statistics of all outputs.
        reference_lengths: `[N]` of the first references.
        output_lengths: `[N]` of each output.
        complete: the completeness of the outputs; None: not measured.
        words: kind → counts of words in buckets, of the outputs for the source itself.
    """

    positions: list[np.ndarray]
    signatures: dict[str, str]
    neural_warnings: list[str]
    additive: Additive
    reference_lengths: np.ndarray
    output_lengths: list[np.ndarray]
    complete: Completeness | None
    words: dict[str, Buckets] = field(default_factory=dict)


def count(read: Read, settings: Settings, say: Say) -> Counts:
    """The second step: count every sentence of every output. Records of further files are added to `read.inputs`."""
    counts = _count_metrics(read, settings, say)
    say("counting words by frequency")
    words = count_words(read.texts[: 2 + _shown(read)], read.units.bleu_tokenizer, read.frequencies)
    return replace(counts, words=words)


def _count_metrics(read: Read, settings: Settings, say: Say) -> Counts:
    """All counts but those of words. The statistics of the metrics are freed when they are in one table."""
    counting = Counting(read.units.bleu_tokenizer, read.units.ter_characters, {*map(len, read.references)} or {1})
    lines = [text.lines for text in read.texts]
    others = neural(settings.metrics)
    names = [name for name in settings.metrics if name not in others]
    counted = count_all(read.references, lines[2:], names, counting, settings.processes)
    scored = neural_scores(read.texts, read.references, list(others), settings.metric_batch, say)
    reference_lengths, *output_lengths = (np.array(read.count_target(each)) for each in lines[1:])
    computed = {**counted.statistics, **scored.statistics}
    statistics = {name: computed[name] for name in settings.metrics}
    statistics |= {metric: each.statistics for metric, each in read.elsewhere.items()}
    complete = None
    if settings.completeness:
        say("looking for omitted sentences")
        complete, read_too = measured_completeness(read.texts, settings, _shown(read))
        statistics |= complete.statistics
        read.inputs.extend(read_too)
    elsewhere = {name: each.metric for name, each in read.elsewhere.items()}
    additive = Additive.of(statistics, output_lengths, reference_lengths, elsewhere, read.documents)
    signatures = counted.signatures | scored.signatures
    return Counts(counted.positions, signatures, scored.warnings, additive, reference_lengths, output_lengths, complete)


def compare(read: Read, counts: Counts, measured: dict[str, Any], settings: Settings, say: Say) -> Analysis:
    """The last step: compare the systems, and put all results together, as `results.json` has them.

    Args:
        read, counts, measured: of the other steps.
        settings: of the analysis.
        say: called with the warnings.
    """
    units, trained, additive, complete = read.units, read.trained, counts.additive, counts.complete
    signatures, resampling = counts.signatures, settings.resampling
    ter_search = ter_search_limits() if "ter" in signatures else None
    misfits = suspicions(read.given)
    warnings = _warnings(read, counts, settings, misfits, None if ter_search is None else ter_search["band"])
    for sentence in warnings:
        say(f"warning: {sentence}")
    say("comparing the systems")
    numbers = bin_numbers(read.source_lengths, read.bins)
    outputs = read.texts[2 : 2 + _shown(read)]
    results = {
        "format": FORMAT,
        "versions": _versions(units.source),
        "settings": {
            "unit": units.source, "target_unit": units.target, "metrics": additive.tested,
            "scores": {
                metric: {"higher_is_better": each.metric.higher, "decimals": each.metric.decimals}
                for metric, each in read.elsewhere.items()
            },
            "bleu_tokenizer": units.bleu_tokenizer, "target_language": settings.target_language,
            "reasons": units.reasons, "baseline": settings.baseline,
            "interval": LEVEL, "drawn": _drawn(read, settings), **asdict(resampling),
        },
        "inputs": read.inputs,
        "training": _training_facts(trained),
        "seen_in_training": [asdict(text) for text in read.seen],
        "verdict": verdict(
            additive, read.systems, read.source_lengths, trained, units.source, resampling, read.bins,
            settings.baseline,
        ),
        "signatures": {
            **signatures,
            **{
                name: f"mean of sentence scores from files; {each.metric.better}"
                for name, each in read.elsewhere.items()
            },
            **(complete.signatures if complete else {}),
        },
        "ter_search": ter_search,
        **measured,
        "seeds": seed_results(
            read.groups, measured["systems"], {name: additive.metric(name) for name in additive.tested},
            resampling.correction,
        ),
        "length_distributions": [
            length_distribution(
                counts.output_lengths[: len(outputs)], counts.reference_lengths, np.flatnonzero(numbers == number)
            )
            for number in range(len(read.bins))
        ],
        "positions": {
            "tokenizer": units.bleu_tokenizer,
            "places": places(),
            "systems": [
                {"name": text.system, **position_curves(each)}
                for text, each in zip(outputs, counts.positions, strict=False)
            ],
        },
        "places": None
        if read.places is None
        else by_place(additive, read.places, _names(outputs), resampling.samples, resampling.seed),
        "words": {
            "frequencies": None if settings.word_frequencies is None else str(settings.word_frequencies),
            "tokenizer": units.bleu_tokenizer,
            **word_results(counts.words, _names(outputs), read.systems, resampling, read.documents),
        },
        "completeness": complete.results if complete else None,
        "warnings": warnings,
        "misfits": misfits,
    }  # fmt: skip
    results["citation"] = citation(results)
    return Analysis(results, read.texts, read.source_lengths, trained, additive, complete)


def _shown(read: Read) -> int:
    """The number of outputs for the source itself; outputs for swapped sources follow them."""
    return sum(map(len, read.systems.values()))


def _names(outputs: Sequence[Text]) -> list[str]:
    return [str(text.system) for text in outputs]


def _warnings(
    read: Read, counts: Counts, settings: Settings, misfits: Sequence[str], ter_band: int | None
) -> list[str]:
    """Warnings about the texts, the units that are counted, and the findings."""
    return [
        *(sentence for text in read.seen for sentence in text.warnings),
        *misfits,
        *read.units.warnings,
        *counts.neural_warnings,
        *(counts.complete.warnings if counts.complete else []),
        *settings.resampling.warnings(_shown(read)),
        *_few_documents(read.documents),
        *warnings_of(read.given, read.findings, ter_band, read.units.ter_characters),
    ]


def _drawn(read: Read, settings: Settings) -> str:
    if read.documents is None:
        return "sentences"
    return "paragraphs" if settings.documents is None else "documents"


def _few_documents(documents: np.ndarray | None) -> list[str]:
    """A warning about intervals over few documents."""
    if documents is None or (count := len(np.unique(documents))) >= FEWEST_DOCUMENTS:
        return []
    return [
        f"Intervals and tests draw {count} documents, and may be wrong with fewer than {FEWEST_DOCUMENTS};"
        " lengths are not compared."
    ]


def _training_facts(trained: TrainedLengths) -> dict[str, Any] | None:
    """The trained lengths as `results.json` has them; None if they are unknown."""
    if trained == TrainedLengths():
        return None
    facts = {"shortest": trained.shortest, "longest": trained.longest}
    return {**facts, "each": [[one.shortest, one.longest] for one in trained.each]} if trained.each else facts


def _versions(unit: str) -> dict[str, str]:
    """Versions of the software that the figures depend on."""
    packages = ["sacrebleu", "numpy", "matplotlib", *(["sentencepiece"] if unit == "subwords" else [])]
    return {
        "posnmt": __version__,
        "Python": platform.python_version(),
        **{package: version_of(package) for package in packages},
    }
