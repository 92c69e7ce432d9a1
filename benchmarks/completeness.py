"""Fit and validate the detector of omitted sentences, and draw sentences for judges.

    python benchmarks/completeness.py fit --data ../shared/data
    python benchmarks/completeness.py draw --pair test.en test.de en-de OUTPUT OUTPUT --out judge.tsv --key key.json
    python benchmarks/completeness.py judged --key key.json --labels first.tsv second.tsv

`fit` makes deletions: of paragraphs of 1 to 5 sentences it removes the translations of some, also joins sentences, and
fits the coefficients on some documents and language pairs, the threshold on other documents; the rest tests them. Each
paragraph is examined with a lexicon of the others. `docs/metrics.md` has the results.

`draw` takes whole lines of outputs at random, and flagged sentences of others, and writes them without the names of
systems: a row for each sentence to be judged. The key has the systems, and how likely each sentence was drawn.
A judge's file has the columns item, sentence and omitted (1 or 0); `judged` compares it with the detector.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from judgements import read as read_judgements
from judgements import table

from posnmt.evaluation.analyse.completeness.evidence import DETECTORS, FEATURES, Evidence, evidence
from posnmt.evaluation.analyse.completeness.labels import agreement, weighted_mean
from posnmt.evaluation.analyse.completeness.lexicon import learn
from posnmt.evaluation.analyse.completeness.measure import completeness
from posnmt.evaluation.analyse.completeness.words import Line, function_words, split

FOLDS = 4
MOST = 500
"""Paragraphs of each corpus and part."""
FALSE_ALARMS = 0.02
SPACELESS = ("ja", "zh")
FITTED = ("kyoto en-ja", "kyoto ja-en", "news de-en", "news en-de", "ntrex en-de", "ntrex de-en", "ntrex en-ja",
          "ntrex ja-en", "captions en-de", "captions de-en")  # fmt: skip
HELD_OUT = ("ntrex en-zh", "ntrex zh-en", "ntrex de-zh", "ntrex ja-de")
"""Language pairs that neither coefficients nor threshold have seen."""

Unit = tuple[str, str]
"""A line of a corpus and its translation, which are deleted as a whole."""


@dataclass(frozen=True)
class Case:
    """A paragraph with its translation, in which sentences may be missing.

    Attributes:
        paragraph: its number; the lexicon that examines it has not read it.
        source, translation, reference: its texts.
        omitted: whether each sentence of the source is missing.
    """

    paragraph: int
    source: Line
    translation: Line
    reference: Line
    omitted: list[bool]


def read(path: Path) -> list[str]:
    """The lines of a file, as the corpora's README asks for."""
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
            return file.read().rstrip("\n").split("\n")
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def corpus(data: Path, name: str, part: int) -> tuple[list[Unit], list[str]]:
    """The lines of one of three parts of a corpus, and the document of each: 0 to fit, 1 to choose the threshold."""
    kind, pair = name.split()
    source, target = pair.split("-")
    if kind == "captions":
        stem = data / "ende_multi30k" / ("dev", "test2018_flickr", "test2017_flickr")[part]
        texts = [read(stem.with_name(f"{stem.name}.{language}")) for language in (source, target)]
        return list(zip(*texts, strict=True)), [""] * len(texts[0])
    if kind == "news":
        stem = data / "deen_wmt_news" / "sets" / ("newstest2015", "newstest2016", "newstest2017")[part]
        texts = [read(stem.with_name(f"{stem.name}.{language}")) for language in (source, target)]
        return list(zip(*texts, strict=True)), [""] * len(texts[0])
    if kind == "kyoto":
        folder = data / "enja_kyoto"
        sets = ("test", "dev")
        texts = [[line for each in sets for line in read(folder / f"{each}.{side}")] for side in (source, target)]
        documents = ["-".join(line.split("\t")[:2]) for each in sets for line in read(folder / f"{each}.ids")]
        articles = [name.split("-")[0] for name in documents]
    else:
        folder = data / "multi_ntrex_flores"
        texts = [read(folder / f"ntrex.{side}") for side in (source, target)]
        documents = articles = read(folder / "ntrex.docids")
    order = {each: number for number, each in enumerate(dict.fromkeys(articles))}
    thirds = [order[each] % 3 for each in articles]
    if name in HELD_OUT:
        thirds = [part] * len(thirds)
    return (
        [unit for unit, third in zip(zip(*texts, strict=True), thirds, strict=True) if third == part],
        [each for each, third in zip(documents, thirds, strict=True) if third == part],
    )


def paragraphs(units: Sequence[Unit], documents: Sequence[str], generator: random.Random) -> Iterator[list[Unit]]:
    """Runs of 1 to 5 lines of a document."""
    at = 0
    while at < len(units):
        count = generator.randint(1, 5)
        while at + count > len(units) or len(set(documents[at : at + count])) > 1:
            count -= 1
        yield list(units[at : at + count])
        at += count


def joined(texts: Sequence[str], language: str) -> str:
    """Sentences as one line."""
    return ("" if language in SPACELESS else " ").join(texts)


def cases(paragraph: Sequence[Unit], number: int, pair: str, generator: random.Random) -> Iterator[Case]:
    """A paragraph whole and with deletions, each also with sentences joined; none if its sentences are not clear."""
    source_language, target_language = pair.split("-")
    sources, targets = [list(texts) for texts in zip(*paragraph, strict=True)]
    source = split(joined(sources, source_language), source_language)
    gap = 0 if source_language in SPACELESS else 1
    limits = np.cumsum([len(each) + gap for each in sources])
    begins = np.cumsum([0, *map(len, source.sentences)])[:-1]
    if not set(limits[:-1]) <= set(begins) or not source.sentences:
        return
    owner = np.searchsorted(limits, begins, side="right")
    reference = split(joined(targets, target_language), target_language)
    for deleted in (False, True):
        kept = list(range(len(targets)))
        for _ in range(generator.choice([1, 1, 2]) if deleted else 0):
            if kept:
                kept.remove(generator.choice(kept))
        texts = [targets[each] for each in kept]
        if texts and generator.random() < 0.25:  # sentences joined, or one more, without a loss
            place = generator.randrange(len(texts))
            texts[place] = texts[place].rstrip(" .!?。！？") + ("、" if target_language in SPACELESS else ",")
        translation = split(joined(texts, target_language), target_language)
        yield Case(number, source, translation, reference, [each not in kept for each in owner])


def made(data: Path, name: str, part: int) -> list[Case]:
    """All cases of a part of a corpus."""
    generator = random.Random(f"{name} {part}")
    units, documents = corpus(data, name, part)
    chosen = list(paragraphs(units, documents, generator))[:MOST]
    return [case for number, each in enumerate(chosen) for case in cases(each, number, name.split()[1], generator)]


def examined(many: Sequence[Case]) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of all sentences of the cases, with lexicons that have not read their paragraphs."""
    common = function_words(case.source.forms for case in many)
    expansion = sum(len(case.reference.forms) for case in many) / sum(len(case.source.forms) for case in many)
    features, labels = [], []
    for fold in range(FOLDS):
        pairs = {case.paragraph: (case.source.forms, case.reference.forms) for case in many}
        lexicon = learn(pair for number, pair in pairs.items() if number % FOLDS != fold)
        own = [case for case in many if case.paragraph % FOLDS == fold]
        content = [np.array([form not in common for form in case.source.forms]) for case in own]
        tables: Callable[[int], np.ndarray] = lambda number, own=own, lexicon=lexicon: lexicon.table(  # noqa: E731
            own[number].source.forms, own[number].translation.forms
        )
        of_fold: Evidence = evidence(
            [case.source for case in own], [case.translation for case in own], content, tables, expansion
        )
        features.append(of_fold.features)
        labels += [each for case in own for each in case.omitted]
    return np.concatenate(features), np.array(labels)


def fitted(features: np.ndarray, labels: np.ndarray, ridge: float = 1.0) -> np.ndarray:
    """The coefficients of a logistic regression, intercept first, by Newton's method with a small ridge."""
    columns = np.column_stack([np.ones(len(features)), features])
    weights = np.zeros(columns.shape[1])
    for _ in range(50):
        shares = 1 / (1 + np.exp(-columns @ weights))
        slope = columns.T @ (labels - shares) - ridge * weights
        curvature = (columns * (shares * (1 - shares))[:, None]).T @ columns + ridge * np.eye(len(weights))
        weights = weights + np.linalg.solve(curvature, slope)
    return weights


def logits(weights: np.ndarray, features: np.ndarray) -> np.ndarray:
    """The log-odds that a sentence is omitted."""
    return weights[0] + features @ weights[1:]


def area(scores: np.ndarray, labels: np.ndarray) -> float:
    """The area under the ROC curve: how often an omitted sentence has the higher score; equal ones count half."""
    ordered = np.sort(scores[~labels])
    below = np.searchsorted(ordered, scores[labels], "left") + np.searchsorted(ordered, scores[labels], "right")
    return float(below.mean() / 2 / len(ordered))


def fit(data: Path) -> None:
    """Fit the coefficients, and print the figures of every pair by the product's thresholds.

    What 2 % false alarms on made deletions would give is printed beside.
    """
    of_part = [[examined(made(data, name, part)) for name in FITTED] for part in range(3)]
    weights = fitted(*map(np.concatenate, zip(*of_part[0], strict=True)))
    features, labels = map(np.concatenate, zip(*of_part[1], strict=True))
    threshold = float(np.quantile(logits(weights, features)[~labels], 1 - FALSE_ALARMS))
    print(json.dumps({"features": FEATURES, "weights": weights.round(3).tolist(), "2 %": round(threshold, 3)}))
    tests = [*zip(FITTED, of_part[2], strict=True), *((name, examined(made(data, name, 2))) for name in HELD_OUT)]
    print("| pair | sentences | deleted | AUC | sensitivity | false alarms |\n|---|---|---|---|---|---|")
    for name, (features, labels) in tests:
        scores = logits(weights, features)
        blanks = not set(SPACELESS) & set(name.split()[1].split("-"))
        flagged = scores > DETECTORS[blanks].threshold
        print(
            f"| {name} | {len(labels):,} | {labels.sum():,} | {area(scores, labels):.3f}"
            f" | {flagged[labels].mean():.3f} | {flagged[~labels].mean():.3f} |"
        )


def draw(
    pairs: Sequence[Sequence[str]], lines: int, flagged: int, out: Path, key: Path, seed: int, but: Sequence[Path]
) -> None:
    """Draw whole lines at random, and flagged sentences beside them.

    Args:
        pairs: source, reference, languages, and outputs.
        lines: so many are drawn on average.
        flagged: the same of flagged sentences.
        but: keys of what was drawn before; these lines of these outputs are left out.
    """
    generator = random.Random(seed)
    known = {
        (item["output"], item["line"] - 1)
        for path in but
        for item in json.loads(path.read_text(encoding="utf-8"))["items"]
    }
    drawn, population = [], []
    for source, reference, languages, *outputs in pairs:
        texts = [read(Path(path)) for path in (source, reference, *outputs)]
        codes = languages.split("-")
        complete = completeness(texts[0], texts[1], dict(zip(outputs, texts[2:], strict=True)), (codes[0], codes[1]))
        for column, output in enumerate(outputs):
            at = 0
            for number, line in enumerate(complete.sources):
                flags = complete.omitted[at : at + len(line.sentences), column].tolist()
                at += len(flags)
                if (output, number) in known:
                    continue
                population.append((output, number, line.sentences, texts[2 + column][number], flags))
    whole = lines / len(population)
    beside = flagged / sum(sum(flags) for *_, flags in population)
    for output, number, sentences, text, flags in population:
        every = generator.random() < whole
        chosen = [place for place, flag in enumerate(flags) if every or (flag and generator.random() < beside)]
        if chosen:
            shares = [1 - (1 - whole) * (1 - beside * flag) for flag in flags]
            drawn.append(
                (output, number, sentences, text, {place + 1: (shares[place], flags[place]) for place in chosen})
            )
    generator.shuffle(drawn)
    rows, records = ["item\tsentence\tsource\toutput"], []
    for item, (output, number, sentences, text, chosen) in enumerate(drawn, start=1):
        numbered = " ".join(f"[{place}] {each.strip()}" for place, each in enumerate(sentences, start=1))
        rows += [f"{item}\t{place}\t{numbered}\t{text}" for place in chosen]
        drawn_sentences = [{"sentence": place, "probability": share, "flagged": flag}
                           for place, (share, flag) in chosen.items()]  # fmt: skip
        records.append({"item": item, "output": output, "line": number + 1, "sentences": drawn_sentences})
    out.write_text("\n".join(rows) + "\n", encoding="utf-8")
    flags = [flag for *_, each in population for flag in each]
    facts = {"sentences": len(flags), "flagged": sum(flags), "items": records}
    key.write_text(as_lines(facts), encoding="utf-8")
    print(f"{len(rows) - 1} sentences in {len(drawn)} lines, of {len(flags):,} sentences with {sum(flags):,} flagged")


def as_lines(facts: dict) -> str:
    """JSON with an item on each line."""
    items = ",\n".join(json.dumps(each) for each in facts["items"])
    head = json.dumps({name: value for name, value in facts.items() if name != "items"})
    return f'{head[:-1]}, "items": [\n{items}\n]}}\n'


def judged(key: Path, labels: Sequence[Path]) -> None:
    """Print how the detector does by each judge, the rate that each corrects, and the agreement of two judges."""
    drawn = read_judgements(key, labels)
    print(table(drawn, drawn.flagged))
    for name, (omitted, known) in drawn.opinions.items():
        difference = (omitted - drawn.flagged)[known].astype(float)
        correction = weighted_mean(difference, drawn.weights[known], drawn.items[known])
        low, high = (drawn.automatic + each for each in correction["interval"] or [float("nan")] * 2)
        rate = drawn.automatic + correction["value"]
        print(f"{name}: rate {rate:.4f} ({low:.4f} to {high:.4f}) instead of {drawn.automatic:.4f}")
    for second in drawn.labels[1:]:
        print("agreement", agreement(drawn.labels[0], second))


def main() -> None:
    """Run a command."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = options.add_subparsers(required=True, dest="command")
    commands.add_parser("fit").add_argument("--data", type=Path, default=Path("../shared/data"))
    drawing = commands.add_parser("draw")
    drawing.add_argument(
        "--pair", nargs="+", action="append", required=True, help="source, reference, languages, outputs"
    )
    drawing.add_argument("--lines", type=int, default=110)
    drawing.add_argument("--flagged", type=int, default=100)
    drawing.add_argument("--seed", type=int, default=48)
    drawing.add_argument("--but", type=Path, nargs="*", default=[], help="keys of earlier draws")
    drawing.add_argument("--out", type=Path, required=True)
    comparing = commands.add_parser("judged")
    comparing.add_argument("--labels", type=Path, nargs="+", required=True)
    for command in (drawing, comparing):
        command.add_argument("--key", type=Path, required=True)
    given = options.parse_args()
    if given.command == "draw":
        draw(given.pair, given.lines, given.flagged, given.out, given.key, given.seed, given.but)
    elif given.command == "judged":
        judged(given.key, given.labels)
    elif given.command == "fit":
        fit(given.data)


if __name__ == "__main__":
    main()
