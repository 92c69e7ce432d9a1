"""`posnmt translate` and `posnmt score`: from files or standard input to lines, in order."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from posnmt.base.errors import UserError
from posnmt.base.files import sha256_of
from posnmt.base.progress import Display
from posnmt.base.version import __version__
from posnmt.config.schema import Decode, Positions
from posnmt.data.alignment import pharaoh
from posnmt.data.corpus import Findings, TextFile, document_of, open_text, read_lines
from posnmt.data.lines import arriving_lines, portions
from posnmt.data.marks import mark_for
from posnmt.data.text import SideText, TextPipeline
from posnmt.run.run import Run
from posnmt.translate.options import SPEED_ALONE, refuse_unserved, with_options
from posnmt.translate.output import Output, PartialOutput, Record, is_stream, opened
from posnmt.translate.repetition import REPEATS
from posnmt.translate.several import why_in_parts
from posnmt.translate.terms import Terms
from posnmt.translate.together import in_blocks
from posnmt.translate.translations import Translation, refuse_too_many
from posnmt.translate.translator import Translator

DIGITS = 16
"""Of digests, in a record."""


@dataclass(frozen=True)
class Work:
    """The amount and duration of a translation.

    Attributes:
        lines: lines translated.
        source_subwords: of these lines.
        seconds: from text to text, without the loading of the model.
    """

    lines: int
    source_subwords: int
    seconds: float


class Engine(Protocol):
    """What translates text: `Translator`, or another program behind the same methods.

    Attributes:
        name: of the program, with its version.
        text: the text pipeline.
        several: the share of training sources with several sentences; None: not known.
        serves: the settings of search that it takes, and of `ASKED` what may be asked of it; it refuses all others.
    """

    name: str
    text: TextPipeline

    several: Sequence[float] | None
    serves: frozenset[str]

    @property
    def aligns(self) -> bool:
        """Whether it can align translations."""
        ...

    @property
    def notes(self) -> list[str]:
        """Notes for the user on how the translation was computed."""
        ...

    def translate(
        self,
        lines: Sequence[str],
        decode: Decode,
        nbest: int = 1,
        first_line: int = 1,
        name: str = "input",
        scored: bool = True,
        prefixes: Sequence[str] = (),
        terms: Terms | None = None,
        aligned: bool = False,
        documents: Sequence[str | None] = (),
    ) -> list[Translation]:
        """Translate lines; one result for each, in order. See `Translator.translate`."""
        ...


class Chosen(NamedTuple):
    """What is to translate.

    Attributes:
        decode: settings of search.
        load: loads the engine.
        model: what identifies the model, as JSON has it.
        marks: the marks of target languages in its training text.
        target: the one of several target languages; None: the model's.
    """

    decode: Decode
    load: Callable[[], Engine]
    model: Callable[[], dict[str, Any]]
    marks: Callable[[], Iterable[str]]
    target: str | None = None

    def to(self, language: str | None) -> Chosen:
        """The same for one of several target languages, whose mark is put before each line; None: as it is.

        Raises:
            UserError: the model has no mark for it.
        """
        if language is None:
            return self
        mark = mark_for(language, self.marks())

        def load() -> Engine:
            engine = self.load()
            engine.text = engine.text.marked(mark)
            return engine

        return self._replace(load=load, target=language)


def choose_runs(
    folders: Sequence[Path], checkpoint: str, search: dict[str, Any], asked: Collection[str] = ()
) -> Chosen:
    """One run, or an ensemble of several, for PyTorch; see `posnmt.translate.engines.choose`."""
    runs = [Run.open(folder) for folder in folders]
    decode = with_options(runs[0].config.decode, search)
    refuse_unserved("PyTorch here", Translator.serves, decode, asked)

    def load() -> Translator:
        return Translator.load(
            runs, checkpoint, decode.positions, precision=decode.precision, cuda_graphs=decode.cuda_graphs
        )

    def model() -> dict[str, Any]:
        return {"models": [fingerprint(run, checkpoint) for run in runs]}

    return Chosen(decode, load, model, lambda: runs[0].marks)


def translate_file(
    folders: Sequence[Path],
    source: Path | None,
    output: Path | None,
    nbest: int,
    form: str,
    checkpoint: str,
    search: dict[str, Any],
    resume: bool = False,
    prefix: Path | None = None,
    terms: Path | None = None,
    to: str | None = None,
    alignments: bool = False,
    documents: Path | None = None,
) -> Work:
    """Translate a file or standard input, portion by portion.

    Args:
        folders: one run, or the runs of an ensemble.
        source, output: files; None: standard input or output.
        nbest: translations of each line.
        form: `text` or `jsonl`.
        checkpoint: see `Run.weights`.
        search: settings of `decode` that override the run's; `positions` as a whole.
        resume: go on with an output that was begun; see `posnmt.translate.output.opened`.
        prefix: a file with the beginning of each translation, a line for each line of `source`.
        terms: a file of source terms and target terms; see `posnmt.translate.terms`.
        to: the target language, of a model for several.
        alignments: whether the words of translations are linked to those of their lines.
        documents: a file with the document of each line, for `decode.join`.

    Raises:
        UserError: see `translate_lines`, and no run folder, or one without a mark for the language.
    """
    chosen = choose_runs(folders, checkpoint, search).to(to)
    return translate_lines(chosen, source, output, nbest, form, resume, prefix, terms, alignments, documents)


def fingerprint(run: Run, checkpoint: str) -> str:
    """A hash that is equal for runs that translate alike: of the weights, what they are of, and the text pipeline."""
    model = json.dumps(run.config.model.model_dump(mode="json"), sort_keys=True)
    parts = (sha256_of(run.weights(checkpoint)), model, run.text_hash())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]


def translate_lines(
    chosen: Chosen,
    source: Path | None,
    output: Path | None,
    nbest: int,
    form: str,
    resume: bool = False,
    prefix: Path | None = None,
    terms: Path | None = None,
    alignments: bool = False,
    documents: Path | None = None,
) -> Work:
    """Translate a file or standard input with an engine, portion by portion.

    Args:
        chosen: the engine, loaded when the text has been checked; what identifies its model is asked for where an
            output may be resumed.

    The other arguments are those of `translate_file`.

    Raises:
        UserError: faulty text (a file is checked completely before anything is translated), nbest above the beam, a
            line too long for a finite position table, or an output that cannot be written or resumed.
    """
    decode = chosen.decode
    refuse_too_many(nbest, decode)
    findings = Findings(accept=("empty", "crlf"), stop=True)
    file = TextFile("input", source or Path("standard input"))
    streamed = source is None or is_stream(source)
    digest, total = (None, None) if streamed else _checked(file)
    if documents is not None and decode.join == 1:
        raise UserError("documents matter to lines that are translated together", "--documents", "add --join")
    prefixes = _beside(prefix, "prefix", "the beginnings of translations belong", file, total)
    of_lines = [document_of(line) for line in _beside(documents, "documents", "document ids belong", file, total)]
    glossary = None if terms is None else Terms.read(terms)
    translator = chosen.load()

    def settings() -> dict[str, Any]:
        search = decode.model_dump(exclude=SPEED_ALONE) | {"nbest": nbest, "format": form}
        texts = {
            "input": digest,
            "prefix": prefixes and _digest(prefixes),
            "terms": glossary and glossary.digest[:DIGITS],
        }
        if of_lines:
            texts["documents"] = _digest([each or "" for each in of_lines])
        if translator.text.source.mark:
            texts["mark"] = translator.text.source.mark
        if alignments:
            texts["alignments"] = "by attention"
        return {"posnmt": __version__, "engine": translator.name, **texts, **chosen.model(), **search}

    subwords, started = 0, time.monotonic()
    with Display() as display, opened(output, settings, resume) as out, _kept(out, not streamed, display):
        record = out.record
        if total is not None and resume:
            display.say(f"resuming after {record.lines:,} of {total:,} lines")
        groups = _groups(file, streamed, findings, record.lines)
        if decode.join > 1:
            groups = in_blocks(groups, of_lines, decode.join, record.lines)
        for group in groups:
            scored = form == "jsonl" or nbest > 1
            here = slice(record.lines, record.lines + len(group))
            first = record.lines + 1
            translations = translator.translate(
                group,
                decode,
                nbest,
                first,
                str(file.path),
                scored,
                prefixes[here],
                glossary,
                alignments,
                of_lines[here],
            )
            target = translator.text.target
            written: list[str] = []
            for number, (line, translation) in enumerate(zip(group, translations, strict=True), first):
                missing = None if glossary is None else translation.missing(line, glossary)
                written += _shown(number, line, translation, nbest, form, target, missing)
                if missing:
                    record.missing_terms.add(number)
                if translation.at_limit:
                    record.at_limit.add(number)
                if translation.too_long:
                    record.split.add(number)
                if translation.in_sentences:
                    record.in_sentences.add(number)
                if translation.omitted:
                    record.omitted.add(number)
                if translation.mended:
                    record.mended.add(number)
                if translation.fell_apart:
                    record.fell_apart.add(number)
                if any(translation.repetitive[:1]):
                    record.repetitive.add(number)
                if translation.unknown:
                    record.unknown.add(number)
                if translation.differing:
                    record.differing.add(number)
                if translation.passed:
                    record.passed.add(number)
            out.add("".join(written), len(group))
            subwords += sum(len(translation.source) for translation in translations)
            if total is not None:
                display.show("translating", record.lines / total, f"{record.lines:,} of {total:,} lines")
        for sentence in [*_notes(translator, findings, file, record, decode), *_warnings(record, decode)]:
            display.say(sentence)
    return Work(record.lines, subwords, time.monotonic() - started)


def _checked(file: TextFile) -> tuple[str, int]:
    """The SHA-256 of the lines of a file, abbreviated, and their number.

    Raises:
        UserError: a fault in the text.
    """
    digest, total = hashlib.sha256(), 0
    for line in read_lines(file, Findings(accept=("empty", "crlf"), stop=True)):
        digest.update(f"{line}\n".encode())
        total += 1
    return digest.hexdigest()[:DIGITS], total


def _beside(path: Path | None, role: str, belong: str, source: TextFile, lines: int | None) -> list[str]:
    """The lines of a file that has one for each line of `source`.

    Args:
        path: of the file; None: there is none.
        role, belong: what it has, for messages.
        lines: of the source; None: not known.

    Raises:
        UserError: a fault in the text, a source that is a pipe, or one with another number of lines.
    """
    if path is None:
        return []
    if lines is None:
        raise UserError(f"{belong} to the lines of a file", "--input", "name a file")
    findings = Findings(accept=("empty", "crlf"), stop=True)
    file = TextFile(role, path)
    beside = list(read_lines(file, findings))
    if len(beside) != lines:
        findings.misaligned([source, file], [lines, len(beside)])
    return beside


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def _groups(file: TextFile, streamed: bool, findings: Findings, done: int) -> Iterator[list[str]]:
    """The lines of a file after the first ones, or those of a pipe as they arrive, in portions."""
    if not streamed:
        lines = read_lines(file, findings)
        yield from portions(islice(lines, done, None), done)
    elif file.path.exists():
        with open_text(file) as stream:
            yield from arriving_lines(stream, file, findings)
    else:
        yield from arriving_lines(sys.stdin.buffer, file, findings)


@contextmanager
def _kept(out: Output, whole: bool, display: Display) -> Iterator[None]:
    """Say what is kept where a translation into a file ends early; a whole file can be resumed, a pipe cannot."""
    try:
        yield
    except BaseException:
        if isinstance(out, PartialOutput) and out.record.lines:
            what = f"the translations of the first {out.record.lines:,} lines are kept in {out.folder}"
            display.say(f"note: {what}" + "; --resume goes on from there" * whole)
        raise


def _notes(translator: Engine, findings: Findings, file: TextFile, record: Record, decode: Decode) -> Iterator[str]:
    """How the text was read and translated."""
    for note in translator.notes:
        yield f"note: {note}"
    empty, crlf = findings.count(file, "empty"), findings.count(file, "crlf")
    if empty:
        yield f"note: {empty:,} empty lines are left empty"
    if record.passed.count:
        yield f"note: {record.passed.count:,} lines without words are passed on as they are (lines {record.passed})"
    if record.in_sentences.count and decode.split == "as-trained":
        count, why = f"{record.in_sentences.count:,} of {record.lines:,}", why_in_parts(translator.several)
        yield f"note: {count} lines {why}; see --split (lines {record.in_sentences})"
    if record.mended.count:
        yield (
            f"note: {record.mended.count:,} of {record.lines:,} lines were translated again a sentence at a time, as a"
            f" sentence was left out; see --complete (lines {record.mended})"
        )
    if crlf:
        yield f"note: {crlf:,} lines end in CRLF; the carriage return is removed"


def _warnings(record: Record, decode: Decode) -> Iterator[str]:
    """Lines whose translations are doubtful."""
    if record.split.count:
        yield (
            f"warning: {record.split.count:,} of {record.lines:,} lines were too long for one piece and were translated"
            f" in parts, cut at ends of sentences, clauses or words; see --split (lines {record.split})"
        )
    if record.at_limit.count:
        yield (
            f"warning: {record.at_limit.count:,} of {record.lines:,} lines reached the output limit of"
            f" {decode.max_ratio:g} x source + {decode.max_extra} subwords; see --max-ratio and --max-extra"
            f" (lines {record.at_limit})"
        )
    if record.omitted.count:
        yield (
            f"warning: {record.omitted.count:,} of {record.lines:,} translations leave out sentences of their lines;"
            f" --format jsonl names them, and see --complete and --split (lines {record.omitted})"
        )
    if record.fell_apart.count:
        yield (
            f"warning: {record.fell_apart.count:,} of {record.lines:,} lines were translated each alone, as the"
            f" translation of them together reached the output limit; see --join (lines {record.fell_apart})"
        )
    if record.missing_terms.count:
        yield (
            f"warning: {record.missing_terms.count:,} of {record.lines:,} translations lack a term of --terms: the"
            f" vocabulary lacks its characters, or it was cut; see docs/translate.md (lines {record.missing_terms})"
        )
    if record.unknown.count:
        carried = (
            "" if decode.protect == "off" else "; words with them are carried over as they are where they stand alone"
        )
        yield (
            f"warning: {record.unknown.count:,} of {record.lines:,} lines have characters that the vocabulary lacks"
            f"{carried}; --format jsonl names them (lines {record.unknown})"
        )
    if record.differing.count:
        yield (
            f"warning: {record.differing.count:,} of {record.lines:,} translations have other placeholders, mark-up,"
            f" addresses or paths than their lines; --format jsonl names them (lines {record.differing})"
        )
    if record.repetitive.count:
        yield (
            f"warning: {record.repetitive.count:,} of {record.lines:,} translations repeat a group of subwords"
            f" {REPEATS} times in a row or more, as the source does not (lines {record.repetitive})"
        )


def score_files(
    folder: Path,
    source: Path,
    target: Path,
    checkpoint: str,
    positions: dict[str, Any] | None = None,
    to: str | None = None,
) -> None:
    """Print the log-probability of each pair of lines.

    Args:
        positions: changes of positions, in place of those of the run's configuration.
        to: the target language, of a model for several.

    Raises:
        UserError: faulty text, different line counts, a line too long for a finite position table, or no mark for the
            language.
    """
    run = Run.open(folder)
    mark = "" if to is None else mark_for(to, run.marks)
    findings = Findings(accept=("empty", "crlf"))
    files = [TextFile("source", source), TextFile("target", target)]
    sources, targets = (list(read_lines(file, findings)) for file in files)
    if len(sources) != len(targets):
        findings.misaligned(files, [len(sources), len(targets)])
    findings.raise_all()
    chosen = None if positions is None else Positions.model_validate(positions)
    translator = Translator.load([run], checkpoint, chosen)
    translator.text = translator.text.marked(mark)
    for value in translator.score(sources, targets, names=(str(source), str(target))):
        print(f"{value:.6f}")


def _shown(
    number: int, line: str, translation: Translation, nbest: int, form: str, target: SideText, missing: list[str] | None
) -> Iterator[str]:
    """The output lines of one input line.

    Args:
        target: the text pipeline of translations.
        missing: the terms that the translation lacks; None: without a glossary.
    """
    if form == "jsonl":
        row = {
            "line": number,
            "source": line,
            **facts(line, translation),
            "hypotheses": hypothesis_records(translation, target),
        }
        if (of_line := source_words(translation)) is not None:
            row["source_words"] = of_line
        yield json.dumps(row if missing is None else {**row, "missing_terms": missing}, ensure_ascii=False) + "\n"
    elif nbest == 1:
        yield "\t".join([translation.text, *_pharaoh(translation, 0, target)]) + "\n"
    else:
        scores = [f"{each.score:.6f}" for each in translation.hypotheses] or [""]
        for place, (score, text) in enumerate(zip(scores, translation.texts, strict=True)):
            yield "\t".join([str(number), score, text, *_pharaoh(translation, place, target)]) + "\n"


def _pharaoh(translation: Translation, place: int, target: SideText) -> list[str]:
    """The links of a hypothesis, as `0-0 1-2`, empty for an empty line; none where it is not aligned."""
    if translation.aligned is None:
        return []
    if not translation.hypotheses:
        return [""]
    return [pharaoh(translation.aligned.links(place, translation.spans(place, target)))]


def facts(line: str, translation: Translation) -> dict[str, Any]:
    """What is to know of a line beside its hypotheses, as JSON has it."""
    return {
        **{name: list(getattr(translation, name)) for name in ("unknown", "protected", "differing")},
        "in_sentences": translation.in_sentences,
        "omitted": [{"text": line[start:end], "start": start, "end": end} for start, end in translation.omitted],
        "mended": translation.mended,
    }


def source_words(translation: Translation) -> list[dict[str, Any]] | None:
    """The words of a line as JSON has them; None: it is not aligned."""
    if translation.aligned is None:
        return None
    return [{"text": word.text, "start": word.start, "end": word.end} for word in translation.aligned.words]


def hypothesis_records(translation: Translation, target: SideText) -> list[dict[str, Any]]:
    """The hypotheses of a line as JSON has them; `target` is the text pipeline of translations."""
    pieces = target.subwords.pieces
    records: list[dict[str, Any]] = []
    for place, (text, hypothesis, repetitive) in enumerate(
        zip(translation.texts, translation.hypotheses, translation.repetitive, strict=False)
    ):
        in_order = translation.words(place, target)
        record = {
            "text": text,
            "log_probability": hypothesis.log_probability,
            "score": hypothesis.score,
            "ended": hypothesis.ended,
            "repetitive": repetitive,
            "subwords": [pieces[token] for token in hypothesis.tokens],
            "words": [asdict(word) for word in in_order],
            "parts": translation.parts,
        }
        if translation.joined > 1:
            record["joined"] = translation.joined
        if translation.aligned is not None:
            record["alignment"] = translation.aligned.links(place, in_order)
        records.append(record)
    return records
