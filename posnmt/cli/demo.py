"""A demonstration on the built-in language pair: train on short sentences, and translate longer ones.

Two systems, one with absolute and one with relative positions, make the same number of updates on sentences of at most
14 words, and then translate sentences up to three times as long. A slow or busy machine takes more time and gets the
same result.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from posnmt.base.files import read_json
from posnmt.base.output import as_json, changing, existing
from posnmt.base.progress import Display
from posnmt.corpora.artificial.pairs import command as artificial
from posnmt.corpora.conditions.files import MANIFEST
from posnmt.evaluation.analyse.analyse import analyse
from posnmt.evaluation.analyse.length_effects import D1, LengthEffects
from posnmt.evaluation.analyse.likelihood import named
from posnmt.evaluation.analyse.losses import PLAIN
from posnmt.evaluation.analyse.scoring import Model, Scoring, Test, undefined
from posnmt.evaluation.analyse.settings import Settings
from posnmt.evaluation.analyse.verdict import CHANCE
from posnmt.evaluation.report.likelihood import LikelihoodReport, likelihood_report
from posnmt.evaluation.report.write import write
from posnmt.run.resolve import from_tree
from posnmt.run.run import Run, refuse_existing
from posnmt.training.train import train
from posnmt.translate.command import translate_file
from posnmt.translate.output import clear
from posnmt.translate.source import Files

SYSTEMS: dict[str, list[dict[str, Any]]] = {
    "absolute": [{"scheme": "sinusoidal"}],
    # the clipping distance must be well below the training lengths: vectors of unseen distances stay untrained
    "relative": [{"scheme": "relative", "distance": 4}],
}
ASKED = "demo.json"
"""In the folder: which demonstration it is of."""

LONGEST = 14
LONGEST_TEST = 42
TEST = 600
"""Test sentences."""
SENTENCE = "lo dumo tuzu un zufi"
"""The woman sees a rope."""
SHOWN = 240
"""Characters of a sample: a translation that repeats a word to its limit is cut."""


def demo(out: Path, updates: int, seed: int, display: Display) -> Path:
    """Generate a corpus, train both systems, translate, analyse, and say what was found and what to do next.

    What an earlier process has completed in the folder is not done again.

    Args:
        out: a new folder, or that of the same demonstration.
        updates: number of updates of each training.
        seed: seed of the corpus and of both trainings.

    Returns:
        The report's path.

    Raises:
        UserError: the folder has something else.
    """
    asked = {"updates": updates, "seed": seed}
    if read_json(out / ASKED) != asked:
        refuse_existing(out, "the folder", "choose another --out")
        with changing(out) as changes:
            changes.path(ASKED).write_bytes(as_json(asked))
    corpus = out / "corpus"
    if not existing(corpus, [MANIFEST]):
        display.say(f"making the artificial language pair in {corpus}")
        artificial(corpus, test=TEST, max_length=LONGEST, test_max_length=LONGEST_TEST, seed=seed)
    source, reference = corpus / "test.source", corpus / "test.target"
    runs: dict[str, Run] = {}
    outputs: dict[str, Path] = {}
    for name, position in SYSTEMS.items():
        display.say(f"training the {name} system: {updates:,} updates")
        config = from_tree(_config(corpus, out / "stores", position, updates, seed))
        begun = (out / name / "config.yaml").exists()
        runs[name] = train(config, out / name, begun, display)
        outputs[name] = out / f"test.{name}"
        if outputs[name].exists():
            clear(outputs[name])
        else:
            display.say(f"translating sentences of up to {LONGEST_TEST} words")
            translate_file(runs[name].folder, Files(source, outputs[name]), {"beam": 1})
    longest = runs["relative"].record["training_lengths"]["source"]["longest"]
    model = runs["relative"].folder / "text" / "source.model"
    settings = Settings(unit="subwords", subword_model=model, bin_width=5, max_trained_length=longest)
    analysis = analyse(source, reference, outputs, settings, say=display.say)
    by_position = _by_position(list(runs.values()), source, reference, display)
    display.say("drawing")
    write(analysis, out / "report", likelihood=by_position)
    texts = {"source": source, "reference": reference, **outputs}
    for line in (
        f"\nAfter {updates:,} updates each:",
        *findings(analysis.results["verdict"]["groups"], by_position.effects),
        *samples({name: _lines(file) for name, file in texts.items()}),
        *following(out),
    ):
        display.say(line)
    return out / "report" / "report.html"


def findings(groups: Sequence[Mapping[str, Any]], effects: LengthEffects) -> Iterator[str]:
    """What was found, in sentences: BLEU by source length, and how the losses of references grow beyond training.

    Systems are compared on longer sentences alone: on those of trained length they are near each other, and whether
    they differ by more than chance has changed from run to run.

    Args:
        groups: of the verdict of an analysis.
        effects: of two systems.
    """
    for group in groups:
        longer = group["name"] == "longer"
        what = "longer than any of training" if longer else "as long as those of training"
        place = f"{group['sentences']:,} sentences {what} ({group['shortest']} to {group['longest']} subwords)"
        scores = " and ".join(f"{name} {score:.3g}" for name, score in group["scores"].items())
        apart = any(p < CHANCE for p in (group["p"] or {}).values())
        better = f"; {group['best'][0]} is better by more than chance." if apart else "; that may be chance."
        yield f"- BLEU on {place}: {scores}{better if longer else '.'}"
    contrast = effects.designs[D1].differences[effects.systems[1]] if D1 in effects.designs else None
    ends = contrast.interval() if contrast and contrast.sign else None
    if contrast and ends:
        less, more = effects.systems if contrast.sign > 0 else effects.systems[::-1]
        low, high = sorted(map(abs, ends))
        yield (
            "- Loss on the next subword of the reference, given a correct prefix: from positions that many training"
            f" sentences reach to positions that hardly any reaches, {more}'s grows by {abs(contrast.value):.2f} nats"
            f" more than {less}'s (95 % {low:.2f} to {high:.2f})."
        )


def samples(texts: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The first test sentence of trained length, of up to twice and of up to three times that length, and its outputs.

    Args:
        texts: name → N lines, the source first.
    """
    source = next(iter(texts.values()))
    lengths = [len(line.split()) for line in source]
    width = max(map(len, texts))
    yield "\nThree sentences of the test:"
    for times in range(1, LONGEST_TEST // LONGEST + 1):
        fits = range((times - 1) * LONGEST + 1, times * LONGEST + 1)
        first = next((number for number, length in enumerate(lengths) if length in fits), None)
        if first is not None:
            yield f"\n  {'words':{width}}  {lengths[first]}"
            for name, lines in texts.items():
                yield f"  {name:{width}}  {textwrap.shorten(lines[first], SHOWN, placeholder=' …')}"


def following(out: Path) -> Iterator[str]:
    """What to do next: commands for these systems, and for two files of the reader's own."""
    run, words = (shlex.quote(str(each)) for each in (out / "relative", out / "corpus" / "lexicon.tsv"))
    yield "\nNext:"
    yield f"  Translate a sentence of your own in the invented language (its words are in {words}):"
    yield f'    echo "{SENTENCE}" | posnmt translate {run}'
    yield "  Train on two files of your own, where line n of one is the translation of line n of the other:"
    yield "    posnmt train --source train.en --target train.de --minutes 40 --out runs/mine"
    yield "    posnmt translate runs/mine --input new.en --output new.de"
    yield "  Compare the two systems on them, with several seeds:"
    yield "    posnmt compare train.en train.de --systems transformer,relative --out compared"
    yield "\nThe report of this demo:"


def _by_position(runs: Sequence[Run], source: Path, reference: Path, display: Display) -> LikelihoodReport:
    """The likelihood of the references by position; the first run is the baseline."""
    scoring = Scoring([Model(named(run), run) for run in runs], Test(_lines(source), _lines(reference)))
    scoring.score(display.say)
    return likelihood_report(scoring.losses[PLAIN][0], notes=[*scoring.notes, *undefined(scoring.losses)])


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def _config(corpus: Path, stores: Path, position: list[dict[str, Any]], updates: int, seed: int) -> dict[str, Any]:
    """The configuration of one of the two systems; other settings have their defaults."""
    files = {
        split: {side: str(corpus.resolve() / f"{split}.{side}") for side in ("source", "target")}
        for split in ("train", "dev")
    }
    return {
        "data": {**files, "store": str(stores.resolve())},
        "subword": {"type": "bpe", "vocabulary": 1000},
        "model": {
            "d_model": 128, "feed_forward": 512, "heads": 4, "tie_embeddings": "all",
            "embedding_init": "small-normal",
            "encoder": {"layers": 2, "position": position}, "decoder": {"layers": 2, "position": position},
        },
        "train": {
            "steps": updates, "seed": seed, "batch": 1024, "optimizer": "muon", "muon_every": 4,
            "learning_rate": 2e-3, "schedule": {"warmup": updates * 3 // 20, "cooldown": 0.2},
            "evaluate_every": -(-updates // 3), "average": 1,
        },
        "decode": {"max_ratio": 3.0},
    }  # fmt: skip
