"""Every named system trained alike on short artificial sentences, and its BLEU on longer ones.

    python benchmarks/lengths.py --out FOLDER [--systems relative rnn ...] [--steps 800] [--seed 1]

Makes the artificial language pair (sentences of up to 14 words to train on, up to 42 to test on) and for each system a
run of configs/artificial.yaml. A run that is there is not made again, so the command can be stopped and given again;
the table holds what there is. It shows that a system learns and what becomes of it beyond the training length on this
pair with one seed: not which one is better elsewhere.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from posnmt.base.progress import Display
from posnmt.config.schema import Decode
from posnmt.config.systems import SYSTEMS
from posnmt.corpora.artificial.pairs import command as artificial
from posnmt.evaluation.analyse.bins import bins_from_edges
from posnmt.run.resolve import load
from posnmt.run.run import Run
from posnmt.training.evaluate import bleu
from posnmt.training.train import train
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator

CONFIG = Path(__file__).parent.parent / "configs" / "artificial.yaml"
EDGES = [15, 20, 30]


def main() -> None:
    """Train what is missing, translate the test set, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=SYSTEMS, metavar="ID")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    corpus = arguments.out / "corpus"
    if not corpus.exists():
        artificial(corpus, max_length=14, test_max_length=42, seed=1)
    os.environ["POSNMT_DATA"] = str(arguments.out.resolve())
    sources, references = ((corpus / f"test.{side}").read_text().splitlines() for side in ("source", "target"))
    bins = bins_from_edges(EDGES)
    rows = [[number for number, line in enumerate(sources) if _within(each, len(line.split()))] for each in bins]
    print("| system | parameters | updates a second | " + " | ".join(f"{each.label} words" for each in bins) + " |")
    print("|---" * (len(bins) + 3) + "|", flush=True)
    with Display() as display:
        for system in arguments.systems:
            folder = arguments.out / f"{system}-{arguments.steps}-{arguments.seed}"
            settings = [f"train.steps={arguments.steps}", f"train.seed={arguments.seed}", f"model.system={system}"]
            stores = f"data.store={arguments.out.resolve() / 'stores'}"
            if not (folder / "test.output").exists():
                train(load(CONFIG, [*settings, stores]), folder, (folder / "record.json").exists(), display)
                found = Translator.load([Run.open(folder)]).translate(
                    numbered(sources), Search(Decode(beam=1, max_ratio=3.0))
                )
                (folder / "test.output").write_text("".join(f"{each.text}\n" for each in found))
            record, outputs = Run.open(folder).record, (folder / "test.output").read_text().splitlines()
            scores = [
                bleu([outputs[row] for row in chosen], [references[row] for row in chosen], "13a")["bleu"]
                for chosen in rows
            ]
            speed = record["steps"] / record["seconds"]
            figures = " | ".join(f"{score:.1f}" for score in scores)
            print(f"| {system} | {record['parameters']:,} | {speed:.1f} | {figures} |", flush=True)


def _within(each: object, length: int) -> bool:
    """Whether a length is in a bin."""
    return each.first <= length and (each.last is None or length <= each.last)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
