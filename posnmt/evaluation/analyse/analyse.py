"""`posnmt analyse`: evaluate translations of any systems, with confidence intervals and significance tests.

All files are read and checked, then counted sentence by sentence, then measured. The measures of a length bin or of a
resample are functions of a sum over sentences (`additive`). `posnmt.evaluation.report.write` writes the files.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posnmt.base.errors import UserError, quoted, raise_all
from posnmt.base.version import __version__
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.data.length_unit import CountLengths, length_unit
from posnmt.evaluation.analyse.additive import NEUTRAL, Additive
from posnmt.evaluation.analyse.bins import (
    DEFAULT_CHARACTERS,
    DEFAULT_WIDTH,
    TrainedLengths,
    bin_numbers,
    bins_from_edges,
    bins_of_width,
    usual_bins,
)
from posnmt.evaluation.analyse.completeness.measure import Completeness
from posnmt.evaluation.analyse.completeness.requested import cut_paragraphs, measured_completeness
from posnmt.evaluation.analyse.extract import Counted, count_all
from posnmt.evaluation.analyse.inputs import Text, input_record, name_fault, read_aligned, warnings_of
from posnmt.evaluation.analyse.intervals import LEVEL
from posnmt.evaluation.analyse.length import length_distribution, trained_lengths
from posnmt.evaluation.analyse.measure import measure
from posnmt.evaluation.analyse.places import by_place
from posnmt.evaluation.analyse.positions import places, position_curves
from posnmt.evaluation.analyse.seeds import seed_groups, seed_results, systems_of
from posnmt.evaluation.analyse.seen import Watch, seen_in_store
from posnmt.evaluation.analyse.sentence_scores import Scores, faults_of, read_scores
from posnmt.evaluation.analyse.settings import DEFAULT, Settings
from posnmt.evaluation.analyse.suspicions import warnings as suspicions
from posnmt.evaluation.analyse.swap import Swapped
from posnmt.evaluation.analyse.swap import faults_of as swap_faults
from posnmt.evaluation.analyse.units import choose_units
from posnmt.evaluation.analyse.verdict import verdict
from posnmt.metrics.registry import filled, ter_search_limits, without_gaps

if TYPE_CHECKING:
    import numpy as np

FORMAT = "posnmt analysis 1"


@dataclass(frozen=True)
class Analysis:
    """The result of an analysis, for `posnmt.evaluation.report.write.write` and further use.

    Attributes:
        results: all figures, as in `results.json`; `docs/analyse.md` describes the fields.
        texts: source, first reference and outputs; outputs of swapped sources last.
        source_lengths: `[N]` of the sentences, in the unit.
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
        source, reference: texts that are aligned line by line, one sentence per line. With several references, the
            metrics count all of them, lengths are compared with the first one of each line. An empty line in one of
            several is no reference.
        outputs: system name → its translation of `source`, line by line; NAME:SEED for several seeds of a system.
        settings: of the analysis.
        swapped: (system name, share of swapped words) → its translation of the source with that share swapped.
        say: called with a progress line before each long step.
        scores: metric → output → file of its sentence scores, one number a line, from a program of their own.

    Raises:
        UserError: the settings or the files have faults; all at once.
    """
    import numpy as np

    references = [Path(reference)] if isinstance(reference, str | Path) else [Path(each) for each in reference]
    alone = UserError("there is no reference to compare with", "--reference", "give at least one file")
    nothing = UserError("there is no output to analyse", "--output", "give at least one NAME=FILE")
    labels = [*outputs, *(f"{system}:{share:g}" for system, share in swapped or {})]
    wrong = [fault for name in outputs if (fault := name_fault(name)) is not None]
    if settings.realign and (swapped or scores):
        option = "--swapped" if swapped else "--scores"
        what = "paragraphs cannot be cut where there are texts or scores of whole lines"
        wrong.append(UserError(what, option, "leave it out, or leave --realign out"))
    wrong += [
        UserError(
            f"no output is called {quoted(name)}, of which there are labels",
            "--judged",
            f"choose from {', '.join(outputs)}",
        )
        for name in settings.judged
        if name not in outputs
    ]
    wrong += swap_faults(swapped or {}, list(outputs))
    wrong += faults_of(scores or {}, labels, settings.lower_is_better)
    wrong += [
        UserError(
            f"two outputs are called {each!r}, one of them swapped", "--swapped", f"call the output {each} otherwise"
        )
        for each, times in Counter(labels).items()
        if times > 1
    ]
    raise_all([*([] if references else [alone]), *([] if outputs else [nothing]), *settings.faults(), *wrong])
    resampling = settings.resampling
    groups = seed_groups(list(outputs))
    source_model, target_model = settings.subword_model, settings.target_subword_model or settings.subword_model
    models = {
        "subword model": _model_file(source_model, "source"),
        "target subword model": _model_file(settings.target_subword_model, "target"),
    }
    say("reading the texts")
    findings = Findings(accept=("empty", "crlf"))
    every = read_aligned(source, references, outputs, swapped or {}, findings)
    inputs = [input_record(text.file, text, digests=findings.digests) for text in every]
    first, further = without_gaps([text.lines for text in every[1 : 1 + len(references)]])
    every[1] = replace(every[1], lines=first)
    given, numbers_of_sentences = every, None
    if settings.realign:
        say("cutting paragraphs into sentences")
        every, numbers_of_sentences = cut_paragraphs(every, settings)
        first, further = without_gaps([text.lines for text in every[1 : 1 + len(references)]])
    texts = [*every[:2], *every[1 + len(references) :]]
    elsewhere = read_scores(scores or {}, texts[2:])
    inputs += [
        input_record(file, lines=len(texts[0].lines), system=text.system, digests=read.digests)
        for read in elsewhere.values()
        for file, text in zip(read.files, texts[2:], strict=True)
    ]
    fewer = sum(None in of_line for of_line in zip(*further, strict=True))
    units = choose_units(
        every, settings.metrics, settings.unit, settings.bleu_tokenizer, settings.target_language, fewer
    )
    for reason in units.reasons:
        say(reason)
    count_source = length_unit(units.source, source_model)
    count_target = length_unit(units.target, target_model, "target")
    trained = TrainedLengths(settings.min_trained_length, settings.max_trained_length)
    if settings.trained_lengths:
        trained = TrainedLengths.of_trainings(settings.trained_lengths)
    seen = []
    if settings.trained_on is not None:
        say("counting the lengths in the training text")
        training_text, watch = (
            TextFile("trained on", settings.trained_on),
            Watch(texts[0].lines, str(settings.trained_on)),
        )
        trained = _trained_lengths(training_text, count_source, findings, watch)
        seen.append(watch.seen)
        lines_read = findings.lines[training_text]
        inputs.append(input_record(training_text, lines=lines_read, digests=findings.digests))
    if settings.trained_store is not None:
        say("looking for the sentences in the training text")
        seen.append(seen_in_store(settings.trained_store, every[0].lines, [first, *filled(first, further)]))
    inputs += [input_record(TextFile(role, path)) for role, path in models.items() if path is not None]
    lines = [text.lines for text in texts]
    source_lengths = np.array(count_source(lines[0]))
    if settings.bin_edges is not None:
        bins = bins_from_edges(settings.bin_edges)
    elif settings.bin_width is not None:
        bins = bins_of_width(settings.bin_width, trained)
    else:
        width = DEFAULT_CHARACTERS if units.source == "characters" else DEFAULT_WIDTH
        bins = usual_bins(width, trained, int(source_lengths.max(initial=0)))

    say("measuring")
    counted = count_all(
        first, further, lines[2:], settings.metrics,
        units.bleu_tokenizer, units.ter_characters, settings.processes, say,
    )  # fmt: skip
    reference_lengths, *output_lengths = (np.array(count_target(each)) for each in lines[1:])
    numbers = bin_numbers(source_lengths, bins)
    statistics = {**counted.statistics, **{metric: read.statistics for metric, read in elsewhere.items()}}
    complete = None
    if settings.completeness:
        say("looking for omitted sentences")
        complete, read_too = measured_completeness(texts, settings, len(outputs))
        statistics |= complete.statistics
        inputs += read_too
    tested = [metric for metric in statistics if metric not in NEUTRAL]
    lower = tuple(settings.lower_is_better)
    additive = Additive.of(statistics, output_lengths, reference_lengths, lower)
    if resampling.samples:
        say(f"resampling {resampling.samples:,} times")
    systems = systems_of(list(outputs), groups)
    measured = measure(texts[2:], additive, source_lengths, bins, trained, resampling, systems)
    ter_search = ter_search_limits() if "ter" in counted.signatures else None
    rows = [np.flatnonzero(numbers == number) for number in range(len(bins))]
    warnings = [
        *(sentence for text in seen for sentence in text.warnings),
        *suspicions(given),
        *units.warnings,
        *(complete.warnings if complete else []),
        *resampling.warnings(len(outputs)),
        *warnings_of(given, findings, None if ter_search is None else ter_search["band"], units.ter_characters),
    ]
    for sentence in warnings:
        say(f"warning: {sentence}")
    say("comparing the systems")
    results = {
        "format": FORMAT,
        "versions": _versions(units.source),
        "settings": {
            "unit": units.source, "target_unit": units.target, "metrics": tested,
            "scores": {
                metric: {"higher_is_better": metric not in lower, "decimals": read.decimals}
                for metric, read in elsewhere.items()
            },
            "bleu_tokenizer": units.bleu_tokenizer, "target_language": settings.target_language,
            "reasons": units.reasons,
            "interval": LEVEL, **asdict(resampling),
        },
        "inputs": inputs,
        "training": _training_facts(trained),
        "seen_in_training": [asdict(text) for text in seen],
        "verdict": verdict(additive, systems, source_lengths, trained, units.source, resampling),
        "signatures": {
            **counted.signatures,
            **{
                metric: f"mean of sentence scores from files; {'lower' if metric in lower else 'higher'} is better"
                for metric in elsewhere
            },
            **(complete.signatures if complete else {}),
        },
        "ter_search": ter_search,
        **measured,
        "seeds": seed_results(groups, measured["systems"], tested, resampling.correction, lower),
        "length_distributions": [
            length_distribution(output_lengths[: len(outputs)], reference_lengths, chosen) for chosen in rows
        ],
        "positions": _positions(counted, texts[2:], units.bleu_tokenizer),
        "places": None
        if numbers_of_sentences is None
        else by_place(additive, numbers_of_sentences, list(outputs), resampling.samples, resampling.seed),
        "completeness": complete.results if complete else None,
        "warnings": warnings,
    }  # fmt: skip
    return Analysis(results, texts, source_lengths, trained, additive, complete)


def _model_file(model: Path | None, side: str) -> Path | None:
    """The file of a subword model, which the results record."""
    return model / f"{side}.model" if model is not None and model.is_dir() else model


def _training_facts(trained: TrainedLengths) -> dict[str, Any] | None:
    """The trained lengths as `results.json` has them; None if they are unknown."""
    if trained == TrainedLengths():
        return None
    facts = {"shortest": trained.shortest, "longest": trained.longest}
    return {**facts, "each": [[one.shortest, one.longest] for one in trained.each]} if trained.each else facts


def _trained_lengths(file: TextFile, count: CountLengths, findings: Findings, watch: Watch) -> TrainedLengths:
    """The shortest and longest line of a training text, which is never held in memory as a whole."""
    trained = trained_lengths(watch.passing(read_lines(file, findings)), count)
    findings.raise_all()
    if trained == TrainedLengths():
        raise UserError("the training text has only empty lines", file.path, "give the source text of training")
    return trained


def _positions(counted: Counted, texts: list[Text], bleu_tokenizer: str) -> dict[str, Any]:
    """BLEU by position in the sentence, for every output of the unswapped source."""
    curves = [
        {"name": text.system, **position_curves(counts)}
        for text, counts in zip(texts, counted.positions, strict=True)
        if not text.share
    ]
    return {"tokenizer": bleu_tokenizer, "places": places(), "systems": curves}


def _versions(unit: str) -> dict[str, str]:
    """Versions of the software that the figures depend on."""
    packages = ["sacrebleu", "numpy", "matplotlib", *(["sentencepiece"] if unit == "subwords" else [])]
    return {
        "posnmt": __version__,
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
