"""Fit the detector of omissions, and test it on others: benchmarks/notes/length.md has the results.

python benchmarks/omissions.py --fit RUN SOURCE TARGET --judged NAME RUN SOURCE OUTPUT --key key.json --labels FILE …
python benchmarks/omissions.py --read en-de=whole.jsonl --read en-de=mended.jsonl
python benchmarks/omissions.py --single REFERENCE BEFORE AFTER

`--fit` makes deletions: consecutive lines are joined by three. A translation is the reference, or the outputs of the
run for the three lines alone. From each one sentence is deleted, the first, second and third in turn.

`--judged` examines outputs that judges have read (`benchmarks/completeness.py draw`): NAME is that of an output in
the key, and RUN scores it as if it had written it. Printed for models that have learned so many sentences together,
whose sentences are left out by G alone, and for those that have not.

For each threshold of G a row has what it finds in both: the share of intact lines with an alarm, of deletions found,
and by the first judge sensitivity and specificity.

`--single` compares two outputs of the same single sentences by BLEU: their difference with the 90 % interval of the
paired bootstrap, which lies within ± 0.3 if they are equal by two one-sided tests at 5 %.

`--read` counts what translations leave out, of what `posnmt translate --format jsonl` wrote: sentences
that a translation has fewer than its line, and those that the detector reports.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from judgements import Judgements, table
from judgements import read as read_judgements
from numpy.typing import NDArray

from posnmt.config.writing import writing
from posnmt.evaluation.analyse.intervals import percentile_interval
from posnmt.evaluation.analyse.resample import bootstrap_sums
from posnmt.metrics.metric import Counting
from posnmt.metrics.registry import METRICS
from posnmt.run.run import Run
from posnmt.translate.omissions import EXPLAINED, SUSPICIOUS, Pair, examine, intervals, left_out
from posnmt.translate.options import with_options
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator

LINES = 1500
"""Lines of a text that are used, at most."""

MARGIN = 0.3
"""BLEU within which two outputs of single sentences count as equal."""

SAMPLES = 1000
"""Of the bootstrap."""

SENTENCES = 600
"""Of these, sentences that are used, at most: 200 joined lines."""

THRESHOLDS = (0.4, 0.5, 0.55, 0.6, EXPLAINED, 0.7, 0.75, 0.8, 0.9, 1.0, 1.2)
"""Of G, that are compared."""


@dataclass(frozen=True)
class Sample:
    """The signs of the sentences of joined lines.

    Attributes:
        name: of the run and the kind of translation.
        signs: [N,3] G, S and A of each sentence; A is 1 without alignments.
        missing: [N] whether it was deleted.
        line: [N] the number of its line; intact lines and those with a deletion are different ones.
    """

    name: str
    signs: NDArray[np.float64]
    missing: NDArray[np.bool_]
    line: NDArray[np.int64]


def samples(run: Path, source: Path, target: Path) -> list[Sample]:
    """The signs of the references and of the run's own translations of a text."""
    opened = Run.open(run)
    translator = Translator.load([opened])
    lines = [path.read_text(encoding="utf-8").removesuffix("\n").split("\n")[:LINES] for path in (source, target)]
    pairs = [(one.strip(), other.strip()) for one, other in zip(*lines, strict=True) if one.strip() and other.strip()]
    language = translator.text.source.words.language
    alone = [(one, other) for one, other in pairs if _is_sentence(one, language)]
    alone = alone[: min(SENTENCES, len(alone) // 3 * 3)]
    sources = [one for one, _ in alone]
    decode = with_options(opened.config.decode, {"split": "off", "complete": "off"})
    own = [each.text for each in translator.translate(numbered(sources), Search(decode, scored=False))]
    kinds = {"references": [other for _, other in alone], "outputs": own}
    return [_sample(translator, f"{run.name}, {kind}", sources, texts) for kind, texts in kinds.items()]


def _is_sentence(line: str, language: str) -> bool:
    """Whether a line is one sentence that ends as one."""
    return len(intervals(line, language)) == 1 and line[-1] in ".!?。！？"


def _sample(translator: Translator, name: str, sources: list[str], texts: list[str]) -> Sample:
    text = translator.text
    between, apart = ("" if writing(each).counts_characters else " " for each in (texts, sources))
    pairs: list[Pair] = []
    missing: list[bool] = []
    for first in range(0, len(sources), 3):
        line = apart.join(sources[first : first + 3])
        where = intervals(line, text.source.words.language)
        if len(where) != 3:  # some end without a stop
            continue
        for deleted in (None, len(pairs) // 2 % 3):
            written = [each for place, each in enumerate(texts[first : first + 3]) if place != deleted]
            output = between.join(written)
            fewer = max(0, 3 - len(intervals(output, text.target.words.language)))
            [ids], [tokens] = text.source.encode([line]), text.target.encode([output])
            pairs.append(Pair(line, ids, where, tokens, fewer))
            missing += [place == deleted for place in range(3)]
    links = partial(translator.links, batch=4096) if translator.aligns else None
    score = translator.score
    found = zip(pairs, examine(pairs, text.source, score, links, everything=True), strict=True)
    signs = [(each, pair.fewer > 0) for pair, of_pair in found for each in of_pair]
    values = [[each.explained, lacks, 1.0 if each.aligned is None else each.aligned] for each, lacks in signs if each]
    return Sample(name, np.array(values, float), np.array(missing), np.arange(len(signs)) // 3)


def report(sample: Sample) -> str:
    """A row of the table: alarms on intact lines, deletions found, AUC of each sign."""
    alarm = _alarms(sample, EXPLAINED)
    lines = np.unique(sample.line)
    deleted = np.array([sample.missing[sample.line == number].any() for number in lines])
    any_alarm = np.array([alarm[sample.line == number].any() for number in lines])
    shares = any_alarm[~deleted].mean(), alarm[sample.missing].mean(), any_alarm[deleted].mean()
    aucs = [auc(sign * sample.signs[:, place], sample.missing) for place, sign in enumerate((-1, 1, -1))]
    figures = [f"{(~deleted).sum()}", *(f"{100 * share:.1f} %" for share in shares), *(f"{each:.2f}" for each in aucs)]
    return f"| {sample.name} | {' | '.join(figures)} |"


def _alarms(sample: Sample, threshold: float) -> NDArray[np.bool_]:
    """[N] the sentences that count as left out."""
    suspicious = (sample.signs[:, 1] > 0) | (sample.signs[:, 2] < SUSPICIOUS)
    return np.asarray(suspicious & (sample.signs[:, 0] < threshold))


def compared(fitted: Sequence[Sample], drawn: Judgements | None, explained: NDArray[np.float64]) -> str:
    """A row for each threshold.

    Args:
        explained: [k] G of each judged sentence; NaN: of another output, infinite: not suspicious.
    """
    rows = []
    for threshold in THRESHOLDS:
        cells = [f"{threshold:g}"]
        alarms = [(each, _alarms(each, threshold)) for each in fitted]
        if alarms:
            intact = [~np.isin(each.line, each.line[each.missing]) for each, _ in alarms]
            lines = [
                len(np.unique(each.line[alarm & kept])) / len(np.unique(each.line[kept]))
                for (each, alarm), kept in zip(alarms, intact, strict=True)
            ]
            cells += [f"{np.mean(lines):.3f}", f"{np.mean([alarm[each.missing].mean() for each, alarm in alarms]):.3f}"]
        if drawn is not None:
            known = ~np.isnan(explained)
            flags, hand, weights = explained[known] < threshold, drawn.labels[0][known] > 0, drawn.weights[known]
            cells += [
                f"{np.average(flag[chosen], weights=weights[chosen]):.3f}"
                for flag, chosen in ((flags, hand), (~flags, ~hand))
            ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def read(file: Path, source: str, target: str) -> str:
    """A row of the table: what the translations of a file leave out."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    texts = [row["hypotheses"][0]["text"] if row["hypotheses"] else "" for row in rows]
    wanted = [len(intervals(row["source"], source)) for row in rows]
    written = [len(intervals(text, target)) for text in texts]
    fewer = sum(max(0, one - other) for one, other in zip(wanted, written, strict=True))
    reported = sum(len(row["omitted"]) for row in rows)
    shares = [f"{count} ({100 * count / sum(wanted):.1f} %)" for count in (fewer, reported)]
    means = [f"{sum(len(text.split()) for text in texts) / len(texts):.1f}", f"{sum(written) / len(texts):.2f}"]
    figures = [f"{len(rows)}", f"{sum(wanted)}", *shares, f"{sum(row['mended'] for row in rows)}", *means]
    return f"| {file.stem} | {' | '.join(figures)} |"


def judged(outputs: Sequence[Sequence[str]], drawn: Judgements) -> NDArray[np.float64]:
    """Print how the detector does on sentences that judges have read; outputs: name in the key, run, source, texts.

    Returns:
        as the last argument of `compared`.
    """
    chosen = np.isin(drawn.outputs, [name for name, *_ in outputs])
    flags = {learned: np.zeros(len(chosen), bool) for learned in (True, False)}
    explained = np.full(len(chosen), np.nan)
    for name, run, *files in outputs:
        translator = Translator.load([Run.open(Path(run))])
        text = translator.text
        lines = [Path(each).read_text(encoding="utf-8").removesuffix("\n").split("\n") for each in files]
        rows = [row for row, output in enumerate(drawn.outputs) if output == name]
        numbers = sorted({drawn.places[row][0] for row in rows})
        pairs = []
        for number in numbers:
            source, output = (each[number - 1] for each in lines)
            where = intervals(source, text.source.words.language)
            fewer = max(0, len(where) - len(intervals(output, text.target.words.language)))
            [ids], [tokens] = text.source.encode([source]), text.target.encode([output])
            pairs.append(Pair(source, ids, where, tokens, fewer))
        links = partial(translator.links, batch=4096) if translator.aligns else None
        score = translator.score
        signs = dict(zip(numbers, zip(pairs, examine(pairs, text.source, score, links), strict=True), strict=True))
        for row in rows:
            number, sentence = drawn.places[row]
            pair, of_pair = signs[number]
            sign = of_pair[sentence - 1]
            explained[row] = np.inf if sign is None else sign.explained
            for learned, of_kind in flags.items():
                of_kind[row] = sentence - 1 in left_out(of_pair, pair.fewer, learned)
    for learned, of_kind in flags.items():
        print(f"\n{'so many sentences learned together' if learned else 'not learned'}\n")
        print(table(drawn, of_kind, chosen))
    return explained


def equality(reference: Sequence[str], outputs: Sequence[Sequence[str]]) -> tuple[float, tuple[float, float]]:
    """BLEU of the second output minus that of the first, and the 90 % interval of the paired bootstrap."""
    counter = METRICS["bleu"].counter([[line] for line in reference], Counting())
    rows = np.stack([counter(list(each)) for each in outputs], axis=1)
    [difference] = np.diff(METRICS["bleu"].score(rows.sum(0)))
    sums = np.concatenate([*bootstrap_sums(rows, np.zeros(len(rows), int), 1, SAMPLES, seed=1)])[:, 0]
    low, high = percentile_interval(np.diff(METRICS["bleu"].score(sums))[:, 0], 0.90)
    return float(difference), (float(low), float(high))


def auc(values: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """The probability that a positive has a higher value than a negative, ties counted half."""
    ones, zeros = values[positive][:, None], values[~positive][None]
    return float(((ones > zeros) + 0.5 * (ones == zeros)).mean())


def main() -> None:
    """Fit and test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    texts = {"nargs": 3, "type": Path, "action": "append", "default": [], "metavar": ("RUN", "SOURCE", "TARGET")}
    parser.add_argument("--fit", **texts)
    parser.add_argument("--read", action="append", default=[], metavar="SOURCE-TARGET=FILE")
    parser.add_argument("--judged", nargs=4, action="append", default=[], metavar=("NAME", "RUN", "SOURCE", "OUTPUT"))
    heads = ("REFERENCE", "OUTPUT", "OUTPUT")
    parser.add_argument("--single", nargs=3, type=Path, action="append", default=[], metavar=heads)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--labels", type=Path, nargs="+")
    given = parser.parse_args()
    for files in given.single:
        reference, *outputs = (each.read_text(encoding="utf-8").removesuffix("\n").split("\n") for each in files)
        difference, (low, high) = equality(reference, outputs)
        equal = "equal" if low > -MARGIN and high < MARGIN else "not shown to be equal"
        print(f"BLEU {difference:+.2f}, 90 % {low:+.2f} to {high:+.2f}: {equal} within {MARGIN}")
    drawn = read_judgements(given.key, given.labels) if given.judged else None
    explained = judged(given.judged, drawn) if drawn is not None else np.zeros(0)
    if given.read:
        heads = "lines", "sentences", "fewer sentences", "reported", "mended lines", "mean words", "mean sentences"
        print(f"| translations | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
        for each in given.read:
            languages, _, file = each.partition("=")
            print(read(Path(file), *languages.split("-")))
    fitted = [one for each in given.fit for one in samples(*each)]
    if fitted:
        heads = "lines", "intact, with an alarm", "deletions found", "their lines, with an alarm", "AUC of G", "S", "A"
        print(f"\n| run and translations | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
        print("\n".join(map(report, fitted)))
    if fitted or drawn is not None:
        heads = ["intact lines with an alarm", "deletions found"] * bool(fitted)
        heads += ["sensitivity", "specificity"] * (drawn is not None)
        print(
            f"\n| G below | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}\n{compared(fitted, drawn, explained)}"
        )


if __name__ == "__main__":
    main()
