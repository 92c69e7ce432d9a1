"""A study of toy texts to report on, and a reader of its page."""

import json
import math
import random
from html.parser import HTMLParser

import yaml

from posnmt.evaluation.analyse.measure import Resampling
from posnmt.study.claims import Claim, Comparison
from posnmt.study.estimate import Estimate
from posnmt.study.measured import StudyResults
from posnmt.study.recipe import Recipe
from posnmt.study.verdict import Decision, Verdict, corrected
from tests.support.report_case import report_of, without_figures

RECIPE = """
recipe: toy
title: Positions & <lengths>
paper: A. Uthor. 2019. A 100 % made-up paper. Venue.
notes: [The corpus of the paper is not ours.]
pair: {source: en, target: de}
scales:
  smoke: {seeds: 2, artificial: {train: 100, dev: 10, test: 60}, config: {}}
systems:
  transformer: {system: transformer, label: Transformer}
  relative: {system: relative, label: "+Relative_PE & <more>"}
  rnn: {system: rnn, label: RNN}
  rr: {system: rr, label: RR (big), scales: [paper]}
trainings:
  all: {}
  short: {label: Short, part: {of: 3, take: 1}}
tests:
  test: {corpus: test}
  swapped: {corpus: test, swap: [0.2]}
runs:
  - {systems: [transformer, relative, rnn, rr], trainings: [all], tests: [test, swapped]}
  - {systems: [transformer], trainings: [short], tests: [test]}
analyses:
  test: {title: Test set, test: test, trainings: [all]}
  by-part: {title: By part, test: test, trainings: [short]}
  swapped: {title: Swapped, test: swapped, trainings: [all]}
tables:
  - table: 1
    caption: All systems
    rows: [transformer, relative, rnn, rr]
    cited: {"GNMT & al. (2016)": [26.3, null, null, "N/A", null]}
    groups: {Base: 0, Big: 3}
    marks: [{baseline: transformer, analysis: test, test: sign_test}]
    columns:
      - {title: BLEU, analysis: test, published: [27.24, 27.1, "28.03++", 29.11]}
      - {title: BLEU Ja, published: [38.44, null, 39.17, 40.34]}
      - {title: Training, measure: training_speed, published: [9910, 4418, 8605, null]}
      - {title: Parameters, measure: parameters, published: [97.35, 97.6, 97.42, 272.8], published_unit: 1000000}
      - {title: Decoding, measure: decoding_speed, analysis: test}
  - table: 2
    caption: By length, the same bins
    kind: by-length
    analysis: test
    measures: [bleu, ter]
    rows: [transformer, relative, rr]
    published_columns: [0-4 BLEU, 0-4 TER, 5-9 BLEU, 5-9 TER, 10- BLEU, 10- TER]
    published_n: {0-4: 14641, 5-9: 11024, 10-: 40}
    published: [[31.7, 57.9, 32.0, 57.3, 21.5, 69.3], [31.8, 58.1, 32.2, 57.1, 29.3, 62.7], [1, 2, 3, 4, 5, 6.5]]
  - table: 3
    caption: By length, bins of the paper's own
    kind: by-length
    analysis: test
    rows: [transformer, relative]
    published_columns: ["0-25 BLEU", "26- BLEU"]
    published_n: {0-25: 14641}
    published: [[31.7, 32.0], [31.8, null]]
  - table: 4
    caption: Who is better
    kind: significance
    analysis: test
    rows: [transformer, relative, rr]
    published: [[null, "<<", "<"], [null, null, "~"], [null, null, null]]
  - {table: 5, caption: Parts, kind: parts, rows: [short], published: [[1, 24, "1,878,354", "29,841,533"]]}
  - {table: 6, caption: Corpora, kind: corpora, rows: [train, nothing],
     published_columns: [Pairs, Pairs Ja], published: [["3,661,035 (4,468,840)", 1166725], [3000, 1790]]}
  - {table: 7, caption: Of another pair, kind: significance, rows: [transformer, relative],
     published: [[null, ">>"], ["<<", null]]}
  - {table: 8, caption: Short, kind: by-length, analysis: by-part, rows: [transformer]}
figures:
  - {figure: 1, caption: By length, panels: [{analysis: test}, {analysis: by-part, title: Short}], published: It falls.}
  - {figure: 2, caption: Lengths, kind: length-distribution,
     panels: [{analysis: test, lengths: [5, 9]}, {analysis: test, lengths: [7, 9]}]}
  - {figure: 3, caption: Swapped, kind: swap, panels: [{analysis: swapped, systems: [transformer, relative]}]}
  - {figure: 4, caption: Width, kind: sweep, axis: d, lines: {A: {transformer: 64, relative: 128}, B: {rnn: 96}},
     panels: [{analysis: test}]}
  - {figure: 5, caption: Corpora, kind: corpus-lengths}
"""
SYSTEMS = {"transformer": 0.5, "relative": 0.05}


def compared(**options):
    of, than = {"system": "relative"}, {"system": "transformer"}
    return Comparison.model_validate({"analysis": "test", "of": of, "is": "higher", "than": than, **options})


def made_recipe(changes=()):
    tree = yaml.safe_load(RECIPE)
    for key, value in changes:
        tree[key] = value
    return Recipe.model_validate(tree)


def write_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def worsened(lines, share, seed):
    """The lines with that share of their words changed."""
    chance = random.Random(seed)
    return [" ".join("x" if chance.random() < share else word for word in line.split()) for line in lines]


def made_analysis(folder, outputs, swapped, source, reference):
    """An analysis as a step of a study leaves it; `outputs`: (label, system, training, seed, lines)."""
    folder.mkdir(parents=True)
    seeds = len({seed for *_, seed, _ in outputs})
    listed, files = [], {}
    for label, system, training, seed, lines in outputs:
        name = f"{label}:{seed}" if seeds > 1 else label
        files[name] = write_lines(folder / f"{system}-{seed}.txt", lines)
        listed.append({"name": name, "system": system, "training": training, "seed": seed, "share": 0})
    others = {}
    if swapped:
        for label, system, training, seed, lines in outputs:
            name = f"{label}:{seed}" if seeds > 1 else label
            others[name, 0.2] = write_lines(folder / f"{system}-{seed}-swapped.txt", worsened(lines, 0.3, seed))
            listed.append({"name": name, "system": system, "training": training, "seed": seed, "share": 0.2})
    with without_figures():
        report_of(
            source, reference, files, swapped=others, bin_edges=[5, 10], max_trained_length=9,
            resampling=Resampling(samples=100, correction="none"), out=folder,
        )  # fmt: skip
    (folder / "outputs.json").write_text(json.dumps(listed))


def made_runs(recipe, seeds, changes=()):
    """What is known of every training; `changes`: (system, seed) -> facts."""
    runs = []
    for number, (system, training) in enumerate(recipe.variants("smoke")):
        for seed in range(1, seeds + 1):
            facts = {
                "system": system, "training": training, "seed": seed, "state": "done", "error": None,
                "parameters": 97_350_000 + number, "training_speed": 1000.0 / (number + 1) + seed,
                "decoding_speed": {"test": 50.0 + number, "swapped": 40.0}, "seconds": 3700.0, "updates": 2500,
                "source_lengths": [1, 9], "longest_pair": 11, "run": f"{system}/{training}/{seed}",
            }  # fmt: skip
            runs.append({**facts, **dict(changes).get((system, seed), {})})
    return runs


FAILED = {"state": "failed", "error": "the loss is not a number", "parameters": None, "training_speed": None,
          "decoding_speed": {}, "seconds": None, "updates": None, "source_lengths": None,
          "longest_pair": None}  # fmt: skip


def made_study(folder, seeds=2, recipe=None, failed=(("rnn", 1), ("rnn", 2))):
    recipe = recipe or made_recipe()
    folder.mkdir(exist_ok=True)
    words = [f"w{number}" for number in range(30)]
    chance = random.Random(3)
    reference = [" ".join(chance.choices(words, k=2 + number % 12)) for number in range(60)]
    source = write_lines(folder / "source", [line.upper() for line in reference])
    target = write_lines(folder / "target", reference)
    outputs = [
        (recipe.systems[system].label, system, "all", seed, worsened(reference, share, 10 * seed))
        for system, share in SYSTEMS.items()
        for seed in range(1, seeds + 1)
    ]  # fmt: skip
    for name in ("test", "swapped"):
        made_analysis(folder / "steps" / name, outputs, name == "swapped", source, target)
    comparison = {"analysis": "test", "of": {"system": "relative"}, "is": "higher", "than": {"system": "transformer"}}
    effect = {"of": 28.22, "than": 27.24, "sentences": 3003}
    claims = [Claim.model_validate({"claim": number, "says": f"says <b>{number}</b>", "published": "27.24 & more",
                                    "test": comparison, "published_effect": effect}) for number in (1, 2)]  # fmt: skip
    return StudyResults(
        recipe=recipe,
        scale="smoke",
        runs=made_runs(recipe, seeds, [(each, FAILED) for each in failed]),
        analyses={name: folder / "steps" / name for name in ("test", "swapped")},
        missing={"by-part": "none of its translations was made"},
        corpora={"train": {"pairs": 3661035, "source_tokens": 9, "target_tokens": 12,
                           "lengths": {"source": {"3": 1, "14": 3, "55": 4}}}},
        parts={"short": {"pairs": 40, "source": {"shortest": 1, "longest": 9, "tokens": 400}}},
        verdicts=corrected([
            Verdict(claims[0], [
                Decision(compared(), "it is", "supported", "60 sentences", 3.14159, -1.2, 5.0, 9.0, primary=True,
                         p=0.012, welch=Estimate(3.0, 1.0, math.inf), systems=4),
                Decision(compared(relative=True), "its share is", "supported", "by a share", -0.0553, -0.07, -0.04),
            ]),
            Verdict(claims[1], [Decision(compared(), "it is", "undecided", "one seed")]),
        ]),
        versions={"posnmt": "0.1"},
        speeds={
            ("transformer", "all"): {"training_speed": [100.0, 200.0]},
            ("relative", "all"): {"training_speed": [40.0, 92.0]},
        },
    )  # fmt: skip


class Page(HTMLParser):
    """The tables of a page as rows of texts, and what else the tests ask of it."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.texts, self.links, self.open = {}, [], [], []
        self._row = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "table":
            self.tables[attrs["data-name"]] = self._table = []
        elif tag == "tr":
            self._row = []
            self._table.append(self._row)
        elif tag in ("td", "th") and self._row is not None:
            self._row.append([attrs.get("class", ""), ""])
        elif tag == "a":
            self.links.append(attrs["href"])
        if tag not in ("br", "link", "meta", "path", "use", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag
        self._row = None if tag == "tr" else self._row

    def handle_data(self, data):
        self.texts.append(data)
        if self._row:
            self._row[-1][1] = " ".join([*self._row[-1][1].split(), *data.split()])

    def row(self, table, label):
        """The cells of the row with this label, without it."""
        (found,) = [row for row in self.tables[table] if row[0][1] == label]
        return [text for _, text in found[1:]]
