"""`posnmt analyse`: any systems' translations against references, overall and by source length.

Everything is read and checked, then measured, then drawn, and only then written. Sentences are measured one by one
(`Measured`); a bin, or any other set of sentences, is a choice of rows.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posnmt import __version__
from posnmt.analyse.bins import (
    DEFAULT_WIDTH,
    Bin,
    TrainedLengths,
    bin_numbers,
    bins_from_edges,
    bins_of_width,
    mark,
)
from posnmt.analyse.length import CountLengths, length_measures, length_unit, trained_lengths
from posnmt.analyse.metrics import METRICS, Scorer
from posnmt.data.corpus import Findings, TextFile, read_lines
from posnmt.errors import UserError, raise_all

if TYPE_CHECKING:
    import numpy as np

FORMAT = "posnmt analysis 1"
# From so many final full stops set off by a blank on, text counts as tokenised; sacreBLEU's own threshold.
MANY_TOKENISED = 100


@dataclass(frozen=True)
class Text:
    """One of the aligned text files: its lines, and the system that it is the output of, if it is one."""

    file: TextFile
    lines: list[str]
    system: str | None = None


@dataclass(frozen=True)
class Measured:
    """One system, sentence by sentence.

    Attributes:
        scorers: metric → what makes a score of its statistics.
        statistics: metric → additive statistics `[N, K]` (see `posnmt.analyse.metrics`).
        output_lengths, reference_lengths: `[N]`, in one unit.
    """

    text: Text
    scorers: dict[str, Scorer]
    statistics: dict[str, np.ndarray]
    output_lengths: np.ndarray
    reference_lengths: np.ndarray

    def measures(self, rows: np.ndarray) -> dict[str, float | None]:
        """Every measure over the sentences with these indices `[n]`; None where it is not defined."""
        scores = {name: scorer.score(self.statistics[name][rows]) for name, scorer in self.scorers.items()}
        return scores | length_measures(self.output_lengths[rows], self.reference_lengths[rows])


def parse_outputs(pairs: Sequence[str]) -> dict[str, Path]:
    """`NAME=FILE` as on the command line, one for each system, in order.

    Raises:
        UserError: a pair without name or file, an unprintable name, or one name twice; all at once.
    """
    outputs: dict[str, Path] = {}
    faults = []
    for pair in pairs:
        name, sign, path = pair.partition("=")
        name = name.strip()
        if not (name and sign and path) or not name.isprintable():
            faults.append(UserError(f"an output is written NAME=FILE; got {pair!r}", "--output"))
        elif name in outputs:
            faults.append(UserError(f"two outputs are called {name!r}", "--output", "give each system its own name"))
        else:
            outputs[name] = Path(path)
    raise_all(faults)
    return outputs


def analyse(
    source: Path,
    reference: Path,
    outputs: dict[str, Path],
    *,
    unit: str = "words",
    subword_model: Path | None = None,
    target_subword_model: Path | None = None,
    bin_width: int | None = None,
    bin_edges: list[int] | None = None,
    max_trained_length: int | None = None,
    min_trained_length: int | None = None,
    trained_on: Path | None = None,
    metrics: Sequence[str] = METRICS,
    bleu_tokenizer: str = "13a",
    out: Path,
    say: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Measure systems overall and by source length; write `results.json`, `scores.csv`, figures and `report.html`.

    Args:
        source, reference: one sentence a line, line by line the translation of each other.
        outputs: system name → its translation of `source`, line by line.
        unit: `words`, `subwords` or `characters`; of bins and of length differences alike.
        subword_model: SentencePiece model for `subwords`; for the target too, unless `target_subword_model` is given.
        bin_width: width of the bins (10 if neither this nor `bin_edges` is given).
        bin_edges: instead, the first length of each bin but the first.
        max_trained_length, min_trained_length: longest and shortest source in training, in the unit.
        trained_on: instead, the source text of the training; its lengths are counted.
        metrics: which of `bleu`, `chrf`, `ter`; TER may take long on very long lines.
        bleu_tokenizer: sacreBLEU's tokeniser for BLEU.
        out: the folder to write to, made if it is not there.
        say: called with a line of progress before each step that may take long.

    Returns:
        What `results.json` holds; `docs/analyse.md` names the fields.

    Raises:
        UserError: whatever is wrong with the options or the files; nothing is written then.
    """
    import numpy as np

    _check_options(outputs, max_trained_length, min_trained_length, trained_on, bin_width, bin_edges, out)
    count_source = length_unit(unit, subword_model)
    count_target = length_unit(unit, target_subword_model or subword_model)
    models = {"subword model": subword_model, "target subword model": target_subword_model}
    say("reading the texts")
    findings = Findings(accept=("empty", "crlf"))
    texts = _read_aligned(source, reference, outputs, findings)
    trained = TrainedLengths(min_trained_length, max_trained_length)
    training_text = None if trained_on is None else TextFile("trained on", trained_on)
    if training_text is not None:
        say("counting the lengths in the training text")
        trained = _trained_lengths(training_text, count_source, findings)
    if bin_edges is not None:
        bins = bins_from_edges(bin_edges)
    else:
        bins = bins_of_width(DEFAULT_WIDTH if bin_width is None else bin_width, trained)

    say("measuring")
    systems = _measure(texts, count_target, metrics, bleu_tokenizer, say)
    inputs = [_input(text.file, text.system, len(text.lines)) for text in texts]
    if training_text is not None:
        inputs.append(_input(training_text, lines=findings.lines[training_text]))
    inputs += [_input(TextFile(role, path)) for role, path in models.items() if path is not None]
    results = {
        "format": FORMAT,
        "versions": _versions(unit),
        "settings": {"unit": unit, "metrics": list(systems[0].scorers), "bleu_tokenizer": bleu_tokenizer},
        "inputs": inputs,
        "training": None if trained == TrainedLengths() else asdict(trained),
        "signatures": {name: scorer.signature for name, scorer in systems[0].scorers.items()},
        **_by_length(systems, np.array(count_source(texts[0].lines)), bins, trained),
        "warnings": _warnings(texts, findings),
    }
    say("drawing")
    _write(results, out)
    return results


def _check_options(
    outputs: dict[str, Path],
    longest: int | None,
    shortest: int | None,
    trained_on: Path | None,
    bin_width: int | None,
    bin_edges: list[int] | None,
    out: Path,
) -> None:
    """Raise every fault of the options that shows without reading a file."""
    faults = []
    if not outputs:
        faults.append(UserError("there is no output to analyse", "--output", "give at least one NAME=FILE"))
    if trained_on is not None and (longest is not None or shortest is not None):
        faults.append(
            UserError(
                "the trained lengths are given twice", "--trained-on", "give a training text or lengths, not both"
            )
        )
    for limit in (longest, shortest):
        if limit is not None and limit < 1:
            faults.append(UserError(f"a trained length is at least 1; got {limit}"))
    if longest is not None and shortest is not None and shortest > longest:
        faults.append(UserError(f"the shortest trained length, {shortest}, is above the longest, {longest}"))
    if bin_width is not None and bin_edges is not None:
        faults.append(UserError("bins are given twice", "--bin-edges", "give a width or edges, not both"))
    if out.exists() and not out.is_dir():
        faults.append(UserError("the place for the results is a file, not a folder", out, "name a folder"))
    raise_all(faults)


def _read_aligned(source: Path, reference: Path, outputs: dict[str, Path], findings: Findings) -> list[Text]:
    """Source, reference and outputs, in this order, all with the same number of lines; every fault at once."""
    wanted: list[tuple[TextFile, str | None]] = [
        (TextFile("source", source), None),
        (TextFile("reference", reference), None),
        *((TextFile(f"output {name}", path), name) for name, path in outputs.items()),
    ]
    texts = [Text(file, list(read_lines(file, findings)), system) for file, system in wanted]
    counts = [len(text.lines) for text in texts]
    if len(set(counts)) > 1:
        findings.misaligned([text.file for text in texts], counts)
    findings.raise_all()
    return texts


def _trained_lengths(file: TextFile, count: CountLengths, findings: Findings) -> TrainedLengths:
    """The lengths in a training text, which is read line by line, however large."""
    trained = trained_lengths(read_lines(file, findings), count)
    findings.raise_all()
    if trained == TrainedLengths():
        raise UserError("the training text has only empty lines", file.path, "give the source text of training")
    return trained


def _measure(
    texts: list[Text], count: CountLengths, metrics: Sequence[str], bleu_tokenizer: str, say: Callable[[str], None]
) -> list[Measured]:
    """Every output's statistics and lengths, sentence by sentence."""
    import numpy as np

    _, reference, *outputs = texts
    scorers = {name: Scorer(name, reference.lines, bleu_tokenizer) for name in dict.fromkeys(metrics)}
    reference_lengths = np.array(count(reference.lines))
    systems = []
    for text in outputs:
        statistics = {}
        for name, scorer in scorers.items():
            say(f"{name} of {text.system}")
            statistics[name] = scorer.statistics(text.lines)
        systems.append(Measured(text, scorers, statistics, np.array(count(text.lines)), reference_lengths))
    return systems


def _by_length(
    systems: list[Measured], source_lengths: np.ndarray, bins: list[Bin], trained: TrainedLengths
) -> dict[str, Any]:
    """The bins with their sentences counted, and each system measured overall and in every bin."""
    import numpy as np

    numbers = bin_numbers(source_lengths, bins)
    rows = [np.flatnonzero(numbers == number) for number in range(len(bins))]
    return {
        "bins": [
            {"label": each.label, **asdict(each), "n": len(chosen), "training": mark(each, trained)}
            for each, chosen in zip(bins, rows, strict=True)
        ],
        "systems": [
            {
                "name": system.text.system,
                "empty_lines": sum(not line.strip() for line in system.text.lines),
                "overall": {"n": len(numbers), **system.measures(np.arange(len(numbers)))},
                "bins": [{"n": len(chosen), **system.measures(chosen)} for chosen in rows],
            }
            for system in systems
        ],
    }


def _warnings(texts: list[Text], findings: Findings) -> list[str]:
    """What a reader should know before trusting the figures."""
    warnings = []
    for text in texts:
        role, count = text.file.role, len(text.lines)
        if empty := findings.count(text.file, "empty"):
            warnings.append(f"{role}: {empty} of {count} lines are empty; they are kept and count.")
        if crlf := findings.count(text.file, "crlf"):
            warnings.append(f"{role}: {crlf} of {count} lines ended in CRLF; the CR was removed.")
        if text.system and sum(line.endswith(" .") for line in text.lines) >= MANY_TOKENISED:
            warnings.append(f"{role}: looks tokenised; scores of tokenised text do not compare with published ones.")
    for number, text in enumerate(texts):
        for other in texts[:number]:
            if text.lines == other.lines:
                warnings.append(f"{text.file.role}: the same text as {other.file.role}.")
    return warnings


def _input(file: TextFile, system: str | None = None, lines: int | None = None) -> dict[str, Any]:
    """What is recorded of an input file."""
    with file.path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    role = file.role if system is None else "output"
    return {"role": role, "system": system, "path": str(file.path), "sha256": digest, "lines": lines}


def _versions(unit: str) -> dict[str, str]:
    """Versions of everything that the figures depend on."""
    packages = ["sacrebleu", "numpy", "matplotlib", *(["sentencepiece"] if unit == "subwords" else [])]
    return {
        "posnmt": __version__,
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def _table(results: dict[str, Any]) -> str:
    """All figures as CSV: a row for each system and bin, `all` for the whole; full precision, nothing where null."""
    from posnmt.report.figures import measures_of

    measures = measures_of(results)
    whole = {"label": "all", "first": None, "last": None, "training": None}
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["system", "bin", "first", "last", "training", "n", *measures])
    for system in results["systems"]:
        values = [system["overall"], *system["bins"]]
        for each, scores in zip([whole, *results["bins"]], values, strict=True):
            about = [each[key] for key in ("label", "first", "last", "training")]
            table.writerow([system["name"], *about, scores["n"], *(scores[name] for name in measures)])
    return text.getvalue()


def _write(results: dict[str, Any], out: Path) -> None:
    """Draw everything, then write the files."""
    from posnmt.report.figures import draw
    from posnmt.report.page import render

    drawings = draw(results)
    files = {
        "results.json": json.dumps(results, ensure_ascii=False, indent=2, allow_nan=False) + "\n",
        "scores.csv": _table(results),
        "report.html": render(results, drawings),
    }
    pages = {name: text.encode("utf-8") for name, text in files.items()}
    for name, drawing in drawings.items():
        pages[f"figures/{name}.svg"] = drawing.svg.encode("utf-8")
        pages[f"figures/{name}.pdf"] = drawing.pdf
    try:
        (out / "figures").mkdir(parents=True, exist_ok=True)
        for name, content in pages.items():
            (out / name).write_bytes(content)
    except OSError as error:
        raise UserError(f"the results cannot be written: {error.strerror}", out, "choose another --out") from None
