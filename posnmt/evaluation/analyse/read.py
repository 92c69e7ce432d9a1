"""The first step of an analysis: read and check all texts, and choose the units that are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from posnmt.base.errors import UserError, quoted, raise_all
from posnmt.data.corpus import Findings, TextFile, document_of, read_lines
from posnmt.data.length_unit import CountLengths, length_unit
from posnmt.evaluation.analyse.bins import Bin, TrainedLengths, bins_of
from posnmt.evaluation.analyse.completeness.requested import cut_paragraphs
from posnmt.evaluation.analyse.inputs import Text, input_record, name_fault, read_aligned
from posnmt.evaluation.analyse.length import trained_lengths
from posnmt.evaluation.analyse.neural import faults_of as neural_faults
from posnmt.evaluation.analyse.neural import neural
from posnmt.evaluation.analyse.seeds import seed_groups, systems_of
from posnmt.evaluation.analyse.seen import Seen, Watch, seen_in_store
from posnmt.evaluation.analyse.sentence_scores import ReadScores, Scores, faults_of, read_scores
from posnmt.evaluation.analyse.settings import Settings, with_run
from posnmt.evaluation.analyse.swap import Swapped
from posnmt.evaluation.analyse.swap import faults_of as swap_faults
from posnmt.evaluation.analyse.units import Units, choose_units
from posnmt.evaluation.analyse.words import word_frequencies
from posnmt.metrics.metric import References, of_sentences, padded

Say = Callable[[str], None]


@dataclass(frozen=True)
class Files:
    """The files of an analysis, aligned line by line.

    Attributes:
        source: one sentence per line.
        references: of its translations by people; at least one.
        outputs: system name → its translation; NAME:SEED for several seeds of a system.
        swapped: (system name, share of swapped words) → its translation of the source with that share swapped.
        scores: metric → output → file of sentence scores by another program, one number a line.
    """

    source: Path
    references: list[Path]
    outputs: dict[str, Path]
    swapped: Swapped = field(default_factory=dict)
    scores: Scores = field(default_factory=dict)

    def faults(self, settings: Settings) -> list[UserError]:
        """All faults that can be detected without reading a file, also of the settings."""
        faults = []
        if not self.references:
            faults.append(UserError("there is no reference to compare with", "--reference", "give at least one file"))
        if not self.outputs:
            faults.append(UserError("there is no output to analyse", "--output", "give at least one NAME=FILE"))
        faults += settings.faults()
        faults += [fault for name in self.outputs if (fault := name_fault(name)) is not None]
        if settings.realign and (self.swapped or self.scores):
            option = "--swapped" if self.swapped else "--scores"
            what = "paragraphs cannot be cut where there are texts or scores of whole lines"
            faults.append(UserError(what, option, "leave it out, or leave --realign out"))
        faults += self._unscorable(settings)
        if settings.baseline is not None and settings.baseline not in (
            systems := systems_of(list(self.outputs), seed_groups(list(self.outputs)))
        ):
            what = f"no system is called {quoted(settings.baseline)}"
            faults.append(UserError(what, "--baseline", f"choose from {', '.join(systems)}"))
        todo = f"choose from {', '.join(self.outputs)}"
        faults += [
            UserError(f"no output is called {quoted(name)}, of which there are labels", "--judged", todo)
            for name in settings.judged
            if name not in self.outputs
        ]
        labels = [*self.outputs, *(f"{system}:{share:g}" for system, share in self.swapped)]
        faults += swap_faults(self.swapped, list(self.outputs))
        faults += faults_of(self.scores, labels, settings.lower_is_better)
        return faults + [
            UserError(
                f"two outputs are called {name!r}, one of them swapped",
                "--swapped",
                f"call the output {name} otherwise",
            )
            for name, times in Counter(labels).items()
            if times > 1
        ]

    def _unscorable(self, settings: Settings) -> list[UserError]:
        """Faults of files beside metrics that are computed: scores of the same name, and outputs without a source."""
        twice = {name.lower() for name in settings.metrics} & {name.lower() for name in self.scores}
        todo = "leave it out of --metrics, or give the scores another name"
        faults = [UserError(f"{name} is computed here, and its scores are given", "--scores", todo) for name in twice]
        if self.swapped and not neural_faults(settings.metrics) and (names := neural(settings.metrics)):
            what = f"{', '.join(names)} would need the swapped sources, which an analysis does not read"
            faults.append(UserError(what, "--swapped", "leave it out, or leave the metric out"))
        return faults


@dataclass(frozen=True)
class Read:
    """The texts of an analysis of N sentences.

    Attributes:
        given: source, references and outputs as they are in the files.
        texts: source, first reference of each line, and outputs, those of swapped sources last; cut into sentences if
            that is asked for.
        references: of each line.
        places: the number of each line in its paragraph, from 0, if paragraphs were cut; else None.
        documents: `[N]` the number of the document, or else of the paragraph, of each line; None: neither is known.
        groups: system → its outputs, for systems with several seeds.
        systems: system → indices of its outputs.
        elsewhere: metric → its sentence scores from files.
        units: what is counted.
        count_target: counts the lengths of outputs and references.
        source_lengths: `[N]`.
        bins: of source lengths.
        trained: the source lengths in training.
        seen: the sentences that occur in training texts.
        frequencies: of words in the text of `word_frequencies`; None: there is none.
        inputs: records of the files.
        findings: of reading them.
    """

    given: list[Text]
    texts: list[Text]
    references: References
    places: list[int] | None
    documents: np.ndarray | None
    groups: dict[str, list[str]]
    systems: dict[str, list[int]]
    elsewhere: dict[str, ReadScores]
    units: Units
    count_target: CountLengths
    source_lengths: np.ndarray
    bins: list[Bin]
    trained: TrainedLengths
    seen: list[Seen]
    frequencies: Counter[str] | None
    inputs: list[dict[str, Any]]
    findings: Findings


def read(files: Files, settings: Settings, say: Say) -> Read:
    """Read and check all files.

    Raises:
        UserError: the settings or the files have faults; all at once.
    """
    raise_all(files.faults(settings))
    settings = with_run(settings, say)
    groups = seed_groups(list(files.outputs))
    say("reading the texts")
    findings = Findings(accept=("empty", "crlf"))
    every = read_aligned(files.source, files.references, files.outputs, files.swapped, findings)
    inputs = [input_record(text.file, text, digests=findings.digests) for text in every]
    after = 1 + len(files.references)
    references = of_sentences([text.lines for text in every[1:after]])
    every[1] = replace(every[1], lines=[of_line[0] for of_line in references])
    given, places = every, None
    documents = None if settings.documents is None else _documents(settings.documents, every[0], findings, inputs)
    if settings.realign:
        say("cutting paragraphs into sentences")
        every, places = cut_paragraphs(every, settings)
        references = of_sentences([text.lines for text in every[1:after]])
        paragraphs = np.cumsum(np.array(places) == 0) - 1
        documents = paragraphs if documents is None else documents[paragraphs]
    texts = [*every[:2], *every[after:]]
    elsewhere = read_scores(files.scores, texts[2:], settings.lower_is_better)
    inputs += [
        input_record(file, lines=len(texts[0].lines), system=text.system, digests=each.digests)
        for each in elsewhere.values()
        for file, text in zip(each.files, texts[2:], strict=True)
    ]
    units = choose_units(
        every, settings.metrics, settings.unit, settings.bleu_tokenizer, settings.target_language,
        fewer=sum(len(of_line) < len(files.references) for of_line in references),
    )  # fmt: skip
    for reason in units.reasons:
        say(reason)
    target_model = settings.target_subword_model or settings.subword_model
    count_source = length_unit(units.source, settings.subword_model)
    count_target = length_unit(units.target, target_model, "target")
    trained, seen = _training(settings, texts[0], references, count_source, findings, inputs, say)
    inputs += [input_record(TextFile(role, path)) for role, path in _models(settings)]
    frequencies = _frequencies(settings.word_frequencies, units.bleu_tokenizer, findings, inputs, say)
    lengths = np.array(count_source(texts[0].lines))
    bins = bins_of(lengths, trained, units.source == "characters", settings.bin_width, settings.bin_edges)
    return Read(
        given, texts, references, places, documents, groups, systems_of(list(files.outputs), groups), elsewhere, units,
        count_target, lengths, bins, trained, seen, frequencies, inputs, findings,
    )  # fmt: skip


def _documents(path: Path, source: Text, findings: Findings, inputs: list[dict[str, Any]]) -> np.ndarray:
    """`[N]` the number of the document of each line of the source; the record of the file is added.

    Raises:
        UserError: the file cannot be read, has another number of lines or a single id, or has a line without an id.
    """
    file = TextFile("documents", path)
    ids = [document_of(line) for line in read_lines(file, findings)]
    if len(ids) != len(source.lines):
        findings.misaligned([source.file, file], [len(source.lines), len(ids)])
    findings.raise_all()
    if None in ids:
        what, todo = "the line has no document id", "write one id on each line"
        raise UserError(what, f"{path}:{ids.index(None) + 1}", todo)
    if len(set(ids)) == 1:
        what, todo = "all lines have the same document id", "write the id before the first space, one for each document"
        raise UserError(what, path, todo)
    inputs.append(input_record(file, lines=len(ids), digests=findings.digests))
    return np.unique(np.array(ids), return_inverse=True)[1]


def _frequencies(
    path: Path | None, tokenizer: str, findings: Findings, inputs: list[dict[str, Any]], say: Say
) -> Counter[str] | None:
    """How often each word is in a text, if there is one; the record of its file is added.

    Raises:
        UserError: the file cannot be read, or has no words.
    """
    if path is None:
        return None
    say("counting the words of the training text")
    file = TextFile("word frequencies", path)
    counted = word_frequencies(read_lines(file, findings), tokenizer)
    findings.raise_all()
    if not counted:
        raise UserError("the text has no words", path, "give a text in the target language, such as that of training")
    inputs.append(input_record(file, lines=findings.lines[file], digests=findings.digests))
    return counted


def _training(
    settings: Settings,
    source: Text,
    references: References,
    count: CountLengths,
    findings: Findings,
    inputs: list[dict[str, Any]],
    say: Say,
) -> tuple[TrainedLengths, list[Seen]]:
    """The lengths in training, and the sentences that occur there; the record of a training text is added."""
    trained = TrainedLengths(settings.min_trained_length, settings.max_trained_length)
    if settings.trained_lengths:
        trained = TrainedLengths.of_trainings(settings.trained_lengths)
    seen = []
    if settings.trained_on is not None:
        say("counting the lengths in the training text")
        file = TextFile("trained on", settings.trained_on)
        watch = Watch(source.lines, str(settings.trained_on))
        trained = trained_lengths(watch.passing(read_lines(file, findings)), count)
        findings.raise_all()
        if trained == TrainedLengths():
            raise UserError("the training text has only empty lines", file.path, "give the source text of training")
        seen.append(watch.seen)
        inputs.append(input_record(file, lines=findings.lines[file], digests=findings.digests))
    if settings.trained_store is not None:
        say("looking for the sentences in the training text")
        seen.append(seen_in_store(settings.trained_store, source.lines, padded(references)))
    return trained, seen


def _models(settings: Settings) -> Sequence[tuple[str, Path]]:
    """The files of subword models, with their roles in the results."""
    models = {
        "subword model": (settings.subword_model, "source"),
        "target subword model": (settings.target_subword_model, "target"),
    }
    return [
        (role, model / f"{side}.model" if model.is_dir() else model)
        for role, (model, side) in models.items()
        if model is not None
    ]
