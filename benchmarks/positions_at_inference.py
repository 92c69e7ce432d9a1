"""What changes of positions at inference do to BLEU by length: test sentences as they are, and several joined.

    python benchmarks/positions_at_inference.py RUN [RUN ...] --source F --target F --out FOLDER \
        [--lines 500] [--joined 1 2 3 4]

Greedy search. A table for each run, with a row for each change that its positions have, and the mean length of the
sources in subwords; translations stay in FOLDER, and those that are there are not made again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode, Positions
from posnmt.corpora.conditions.join import join
from posnmt.corpora.conditions.text import InputText
from posnmt.data.corpus import TextFile
from posnmt.run.run import Run
from posnmt.training.evaluate import bleu
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator

CHANGES: dict[str, dict[str, Any]] = {
    "none": {},
    "interpolate=2": {"interpolate": 2},
    "ntk=2": {"ntk": 2},
    "ntk=4": {"ntk": 4},
    "yarn=2": {"yarn": 2},
    "clip=8": {"clip": 8},
    "clip=12": {"clip": 12},
    "clip=8,group=4": {"clip": 8, "group": 4},
    "temperature=log": {"temperature": "log"},
    "clip=12,temperature=log": {"clip": 12, "temperature": "log"},
}


def main() -> None:
    """Translate what is missing, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--joined", type=int, nargs="+", default=[1, 2, 3, 4])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    sides = [
        path.read_text(encoding="utf-8").split("\n")[: arguments.lines] for path in (arguments.source, arguments.target)
    ]
    texts = {count: joined(sides, count, arguments.out) for count in arguments.joined}
    signatures = set()
    for folder in arguments.runs:
        run = Run.open(folder)
        encode = run.text().source.encode
        means = [sum(map(len, encode(texts[count][0]))) / len(texts[count][0]) for count in texts]
        print(f"\n{folder}: {run.record['steps']:,} updates, trained on {run.training_lengths}")
        print("| change | " + " | ".join(f"{count} joined" for count in texts) + " |")
        print("|---" * (len(texts) + 1) + "|")
        print("| mean subwords of a source | " + " | ".join(f"{mean:.0f}" for mean in means) + " |")
        print("| lines | " + " | ".join(str(len(sources)) for sources, _ in texts.values()) + " |")
        for name, change in CHANGES.items():
            scores = []
            try:
                for count, (sources, references) in texts.items():
                    found = translated(
                        run, Positions(**change), sources, arguments.out / f"{folder.name}-{name}-{count}"
                    )
                    figures = bleu(found, references, "13a")
                    signatures.add(figures["signature"])
                    scores.append(f"{figures['bleu']:.1f}")
            except UserError:
                continue  # the positions of this run do not have this change
            print(f"| `{name}` | " + " | ".join(scores) + " |", flush=True)
    print("\nBLEU " + ", ".join(sorted(signatures)))


def joined(sides: Sequence[Sequence[str]], count: int, folder: Path) -> list[list[str]]:
    """Source and target with so many consecutive lines as one: `posnmt condition join --rest drop`."""
    if count == 1:
        return [list(lines) for lines in sides]
    place = folder / f"joined-{count}"
    if not place.exists():
        files = {side: TextFile(side, folder / f"first.{side}") for side in ("source", "target")}
        for file, lines in zip(files.values(), sides, strict=True):
            file.path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        join(place, InputText(files), count, drop_rest=True)
    return [(place / f"joined.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in ("source", "target")]


def translated(run: Run, positions: Positions, sources: Sequence[str], path: Path) -> list[str]:
    """The translations of some sources, from a file if they are there."""
    if not path.exists():
        found = Translator.load([run], positions=positions).translate(numbered(sources), Search(Decode(beam=1)))
        path.write_text("".join(f"{each.text}\n" for each in found), encoding="utf-8")
    return path.read_text(encoding="utf-8").split("\n")[:-1]


if __name__ == "__main__":
    main()
