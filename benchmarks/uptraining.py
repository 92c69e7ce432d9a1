"""How much of the length problem a short further training mends, with other positions, and with which rate.

    python benchmarks/uptraining.py --out FOLDER [--steps 800] [--more 80] [--seed 1] [--only NAME ...]

Makes the artificial language pair with a small dictionary (3 to 10 words in training, up to 30 in the test set), trains
a model with sinusoids on it (`--steps` updates), and continues from it (`--more` updates each): with other positions on
the same text, with sinusoids and relative positions on text with joined pairs, and with several rates on text with
longer sentences. All trainings have the same batches, and those that continue have the same updates, so the load of the
machine does not matter. A run that is there is not made again, so the command can be stopped and given again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from posnmt.base.progress import Display
from posnmt.config.schema import Decode
from posnmt.corpora.artificial.pairs import command as artificial
from posnmt.evaluation.analyse.bins import bins_from_edges
from posnmt.run.run import Run
from posnmt.training.choose import Written, for_training
from posnmt.training.evaluate import bleu
from posnmt.training.train import train
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator

EDGES = [11, 15, 20]
MODEL = {
    "d_model": 64,
    "feed_forward": 128,
    "heads": 4,
    "dropout": 0.1,
    "encoder": {"layers": 2},
    "decoder": {"layers": 2},
}
FOUND = {"batch": 1024, "dev_bleu": False, "best_by": "perplexity", "average": 1}
CONTINUED: dict[str, dict[str, Any]] = {
    "transformer": {},
    "relative": {"model": {"system": "relative"}},
    "rope": {"model": {"system": "rope"}},
    "alibi-asymmetric": {"model": {"system": "alibi-asymmetric"}},
    "transformer, joined pairs": {"train": {"concatenate": 1.0}},
    "relative, joined pairs": {"model": {"system": "relative"}, "train": {"concatenate": 1.0}},
}
"""Name -> settings of a training that continues."""
LEXICON = 100
"""Stems of the dictionary."""
RATES = [2e-3, 1e-3, 5e-4, 2e-4]
"""Peak rates that are tried; 2e-3 is that of a new training."""


def main() -> None:
    """Train what is missing, translate the test set, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--more", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=CONTINUED, metavar="NAME", help="these, and no rates")
    arguments = parser.parse_args()
    short, other = arguments.out / "corpus", arguments.out / "other"
    if not short.exists():
        artificial(short, train=20_000, test=300, max_length=10, test_max_length=30, lexicon=LEXICON, seed=1)
    if not other.exists():  # longer sentences
        artificial(
            other, train=5_000, test=300, min_length=8, max_length=18, test_max_length=18, lexicon=LEXICON, seed=1
        )
    base = {"model": {"system": "transformer", **MODEL}, "subword": {"vocabulary": 300}}
    with Display() as display:

        def run(name: str, corpus: Path, steps: int, tree: dict[str, Any]) -> Run:
            """A training of so many updates."""
            folder = arguments.out / f"{name.replace(', ', '-').replace(' ', '-')}-{steps}-{arguments.seed}"
            files = {
                split: {side: str((corpus / f"{split}.{side}").resolve()) for side in ("source", "target")}
                for split in ("train", "dev")
            }
            settings = {**FOUND, "steps": steps, "seed": arguments.seed, **tree.get("train", {})}
            data = {**files, "store": str((arguments.out / "stores").resolve())}
            if not (folder / "model.safetensors").exists():
                written = Written.from_settings({**tree, "data": data, "train": settings})
                completed = for_training(written, display.say)
                train(completed.config, folder, (folder / "config.yaml").exists(), display, completed.record)
            return Run.open(folder)

        start = run("start", short, arguments.steps, base)
        init = {"init": str(start.folder.resolve())}
        print(f"| {arguments.more} more updates | rate | " + " | ".join(_labels()) + " |", flush=True)
        print("|---" * (len(_labels()) + 2) + "|")
        print(f"| none | | {_by_length(start, short)} |", flush=True)
        for name in arguments.only or CONTINUED:
            tree = CONTINUED[name]
            more = run(name, short, arguments.more, {**tree, "train": {**tree.get("train", {}), **init}})
            print(f"| {name} | {more.config.train.learning_rate:g} | {_by_length(more, short)} |", flush=True)
        if arguments.only:
            return
        print("\n| rate, other text | dev perplexity | BLEU, other test | BLEU, first test up to 10 words |")
        print("|---|---|---|---|")
        print(f"| none | | {_whole(start, other)} | {_by_length(start, short).split(' | ')[0]} |", flush=True)
        for rate in RATES:
            more = run(f"rate {rate:g}", other, arguments.more, {"train": {**init, "learning_rate": rate}})
            figures = f"{_whole(more, other)} | {_by_length(more, short).split(' | ')[0]}"
            print(f"| {rate:g} | {_perplexity(more):.2f} | {figures} |", flush=True)


def _labels() -> list[str]:
    return [f"{each.label} words" for each in bins_from_edges(EDGES)]


def _translated(run: Run, corpus: Path) -> tuple[list[str], list[str], list[str]]:
    """Sources, references and translations of a test set."""
    sources, references = (
        (corpus / f"test.{side}").read_text(encoding="utf-8").splitlines() for side in ("source", "target")
    )
    path = run.folder / f"{corpus.name}.output"
    if not path.exists():
        found = Translator.load([run]).translate(numbered(sources), Search(Decode(beam=1, max_ratio=3.0)))
        path.write_text("".join(f"{each.text}\n" for each in found))
    return sources, references, path.read_text().splitlines()


def _by_length(run: Run, corpus: Path) -> str:
    """BLEU by source length, as cells of a table."""
    sources, references, outputs = _translated(run, corpus)
    scores = []
    for each in bins_from_edges(EDGES):
        rows = [
            row
            for row, line in enumerate(sources)
            if each.first <= len(line.split()) and (each.last is None or len(line.split()) <= each.last)
        ]
        scores.append(bleu([outputs[row] for row in rows], [references[row] for row in rows], "13a")["bleu"])
    return " | ".join(f"{score:.1f}" for score in scores)


def _whole(run: Run, corpus: Path) -> str:
    """BLEU of a test set."""
    _, references, outputs = _translated(run, corpus)
    return f"{bleu(outputs, references, '13a')['bleu']:.1f}"


def _perplexity(run: Run) -> float:
    """The last dev perplexity of a run."""
    import json

    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    return float(next(line["perplexity"] for line in reversed(lines) if line["kind"] == "dev"))


if __name__ == "__main__":
    main()
