"""`posnmt translate` and `posnmt score`: from files or standard input to lines, in order."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

from posnmt.config.schema import Decode
from posnmt.data.arriving import arriving_lines
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.data.text import TextPipeline
from posnmt.errors import UserError
from posnmt.files import replacing
from posnmt.progress import Display
from posnmt.run import Run
from posnmt.translate.translator import WINDOW, Translation, Translator, windows


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
    """What translates text: `Translator`, or another program behind the same methods."""

    text: TextPipeline

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
    ) -> list[Translation]:
        """Translate lines; one result for each, in order. See `Translator.translate`."""
        ...


def refuse_output(output: Path | None, inputs: Sequence[Path | None], force: bool) -> None:
    """Refuse to write over a file.

    Args:
        output: where translations go; a pipe or a device is written to.
        inputs: files that are read; `output` is none of them, with `force` either.
        force: whether another file may be replaced.

    Raises:
        UserError: the output exists.
    """
    if output is None or not output.is_file():
        return
    if any(each is not None and each.exists() and output.samefile(each) for each in inputs):
        raise UserError("the output would replace the input", output, "choose another --output")
    if not force:
        raise UserError("the output exists and is not overwritten", output, "choose another --output, or add --force")


def translate_file(
    folders: Sequence[Path],
    source: Path | None,
    output: Path | None,
    nbest: int,
    form: str,
    checkpoint: str,
    search: dict[str, Any],
    interpolate: float | None = None,
) -> Work:
    """Translate a file or standard input, window by window.

    Args:
        folders: one run, or the runs of an ensemble.
        source, output: files; None: standard input or output.
        nbest: translations of each line.
        form: `text` or `jsonl`.
        checkpoint: see `Run.weights`.
        search: settings of `decode` that override the run's.
        interpolate: divisor of positions; see `Scheme.interpolate`.

    Raises:
        UserError: see `translate_lines`, and no run folder.
    """
    runs = [Run.open(folder) for folder in folders]
    decode = Decode.model_validate({**runs[0].config.decode.model_dump(), **search})

    def load() -> Translator:
        return Translator.load(
            runs, checkpoint, interpolate, precision=decode.precision, cuda_graphs=decode.cuda_graphs
        )

    return translate_lines(load, decode, source, output, nbest, form)


def translate_lines(
    load: Callable[[], Engine], decode: Decode, source: Path | None, output: Path | None, nbest: int, form: str
) -> Work:
    """Translate a file or standard input with an engine, window by window.

    Args:
        load: gives the engine; called when the text has been checked.
        decode: settings of search.

    The other arguments are those of `translate_file`.

    Raises:
        UserError: faulty text (a file is checked completely before anything is translated), nbest above the beam, or a
            line too long for a finite position table.
    """
    if nbest > decode.beam:
        raise UserError(
            f"--nbest {nbest} asks for more translations than the beam of {decode.beam} keeps", None, "raise --beam"
        )
    findings = Findings(accept=("empty", "crlf"), stop=True)
    file = TextFile("input", source or Path("standard input"))
    total = sum(1 for _ in read_lines(file, findings)) if source is not None else None
    findings = Findings(accept=("empty", "crlf"), stop=True)
    groups = (
        arriving_lines(sys.stdin.buffer, file, findings, WINDOW)
        if source is None
        else windows(read_lines(file, findings))
    )
    translator = load()
    pieces = translator.text.target.subwords.pieces
    done = at_limit = subwords = 0
    started = time.monotonic()
    with Display() as display, _output(output) as stream:
        for window in groups:
            scored = form == "jsonl" or nbest > 1
            translations = translator.translate(window, decode, nbest, done + 1, str(file.path), scored)
            for number, (line, translation) in enumerate(zip(window, translations, strict=True), start=done + 1):
                stream.writelines(_shown(number, line, translation, nbest, form, pieces))
            if source is None:
                stream.flush()  # somebody may wait for these lines before writing the next ones
            done += len(window)
            at_limit += sum(translation.at_limit for translation in translations)
            subwords += sum(translation.source_length for translation in translations)
            if total is not None:
                display.show("translating", done / total, f"{done:,} of {total:,} lines")
        for note in translator.notes:
            display.say(f"note: {note}")
        empty, crlf = findings.count(file, "empty"), findings.count(file, "crlf")
        if empty:
            display.say(f"note: {empty:,} empty lines are left empty")
        if crlf:
            display.say(f"note: {crlf:,} lines end in CRLF; the carriage return is removed")
        if at_limit:
            display.say(
                f"warning: {at_limit:,} of {done:,} lines reached the output limit of"
                f" {decode.max_ratio:g} x source + {decode.max_extra} subwords; see --max-ratio and --max-extra"
            )
    return Work(done, subwords, time.monotonic() - started)


def score_files(folder: Path, source: Path, target: Path, checkpoint: str, interpolate: float | None) -> None:
    """Print the log-probability of each pair of lines.

    Raises:
        UserError: faulty text, different line counts, or a line too long for a finite position table.
    """
    run = Run.open(folder)
    findings = Findings(accept=("empty", "crlf"))
    files = [TextFile("source", source), TextFile("target", target)]
    sources, targets = (list(read_lines(file, findings)) for file in files)
    if len(sources) != len(targets):
        findings.misaligned(files, [len(sources), len(targets)])
    findings.raise_all()
    translator = Translator.load([run], checkpoint, interpolate)
    for value in translator.score(sources, targets, names=(str(source), str(target))):
        print(f"{value:.6f}")


def _shown(number: int, line: str, translation: Translation, nbest: int, form: str, pieces: list[str]) -> Iterator[str]:
    """The output lines of one input line; `pieces` are the target subwords by id."""
    if form == "jsonl":
        hypotheses = hypothesis_records(translation, pieces)
        yield json.dumps({"line": number, "source": line, "hypotheses": hypotheses}, ensure_ascii=False) + "\n"
    elif nbest == 1:
        yield translation.text + "\n"
    else:
        for text, hypothesis in zip(translation.texts, translation.hypotheses, strict=False):
            yield f"{number}\t{hypothesis.score:.6f}\t{text}\n"


def hypothesis_records(translation: Translation, pieces: list[str]) -> list[dict[str, Any]]:
    """The hypotheses of a line as JSON has them; `pieces` are the target subwords by id."""
    return [
        {
            "text": text,
            "log_probability": hypothesis.log_probability,
            "score": hypothesis.score,
            "ended": hypothesis.ended,
            "subwords": [pieces[token] for token in hypothesis.tokens],
        }
        for text, hypothesis in zip(translation.texts, translation.hypotheses, strict=False)
    ]


@contextmanager
def _output(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that is replaced atomically."""
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield sys.stdout
        sys.stdout.flush()
        return
    if path.is_dir() or not path.parent.is_dir():
        raise UserError(
            "the output cannot be written: not a file in an existing folder", path, "choose another --output"
        )
    if path.exists() and not path.is_file():  # a device or a pipe
        with path.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        return
    with (
        replacing(path.resolve(), durable=False) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as stream,
    ):
        yield stream
