"""What posnmt learns from each update, under several settings and seeds: dev perplexity by updates, greedy dev BLEU.

    python benchmarks/learning.py CONFIG --out FOLDER [--variants learning.yaml] [--only NAME ...] [--seeds 1 2 3]
                                  [--updates 1000] [--every 250] [--set KEY=VALUE ...]
    python benchmarks/learning.py --table FOLDER

CONFIG is trained by `posnmt train` for so many updates under each named variant of `learning.yaml`. Each training
leaves FOLDER/NAME/SEED.json, and is not repeated where that exists; nothing is timed, so that several may run at once.
`--table` prints the mean and the standard deviation over the seeds, and BLEU at the end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from posnmt.run.resolve import load
from posnmt.training.evaluate import bleu
from posnmt_position.processor import processor

POSNMT = Path(sys.executable).with_name("posnmt")
COMMON = (
    "train.minutes=null", "train.epochs=null", "train.average=1", "train.dev_bleu=false", "train.log_every=50",
    "model.embedding_init=scaled-normal",
    "train.optimizer=adam", "train.learning_rate=1e-3", "train.schedule={type: inverse-square-root, cooldown: 0}",
)  # fmt: skip
"""What no variant says: budgets in updates, and the training that the peers are given as well."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, metavar="FOLDER")
    parser.add_argument("--variants", type=Path, default=Path(__file__).with_suffix(".yaml"))
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    arguments = parser.parse_args()
    if arguments.table is not None:
        print("\n".join(table(arguments.table)))
        return
    if arguments.config is None or arguments.out is None:
        parser.error("name a CONFIG and a folder for the results with --out, or --table FOLDER")
    variants: dict[str, list[str]] = yaml.safe_load(arguments.variants.read_text(encoding="utf-8"))
    if unknown := set(arguments.only or ()) - set(variants):
        parser.error(f"{arguments.variants} has no {', '.join(sorted(unknown))}; it has {', '.join(variants)}")
    ends = [f"train.steps={arguments.updates}", f"train.evaluate_every={arguments.every}"]
    for seed in arguments.seeds:
        for name in arguments.only or variants:
            settings = [*COMMON, *ends, f"train.seed={seed}", *arguments.settings, *variants[name]]
            measure(arguments.config, settings, arguments.out / name / f"{seed}.json")


def measure(config: Path, settings: list[str], result: Path) -> None:
    """Train, translate dev, and write what came out, unless that is there already."""
    if result.exists():
        return
    result.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=result.parent) as folder, result.with_suffix(".log").open("w") as log:
        run = Path(folder) / "run"
        options = [each for setting in settings for each in ("--set", setting)]
        subprocess.run([POSNMT, "train", config, "--out", run, *options], stdout=log, stderr=log, check=True)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        dev = [line for line in lines if line["kind"] == "dev"]
        data = load(config, settings).data
        assert data.dev is not None
        assert data.dev.source is not None
        assert data.dev.target is not None
        with (Path(data.root) / data.dev.source).open("rb") as source:
            translate = [POSNMT, "translate", run, "--beam", "1"]
            outputs = subprocess.run(translate, stdin=source, stdout=subprocess.PIPE, stderr=log, check=True).stdout
    references = (Path(data.root) / data.dev.target).read_text(encoding="utf-8").split("\n")[:-1]
    write(result, dev, outputs.decode().split("\n")[:-1], references, settings)


def write(
    result: Path, dev: list[dict[str, Any]], outputs: list[str], references: list[str], settings: list[str]
) -> None:
    """Write a result: perplexity by updates, and BLEU without a tokeniser of its own."""
    content = {
        "settings": [setting for setting in settings if not setting.startswith("data.")],  # which are paths
        "processor": processor(),
        "updates": [line["step"] for line in dev],
        "perplexity": [round(line["perplexity"], 4) for line in dev],
        **bleu(outputs, references, "none"),
    }
    result.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The results in a folder, by name, in the order of the seeds."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*/*.json")):
        found.setdefault(path.parent.name, []).append(json.loads(path.read_text(encoding="utf-8")))
    return found


def table(folder: Path) -> list[str]:
    """The lines of a Markdown table."""
    found = results(folder)
    updates = sorted({update for each in found.values() for result in each for update in result["updates"]})
    lines = [
        f"| | seeds |{''.join(f' {update:,} |' for update in updates)} BLEU |",
        "|---|---|---|" + "---|" * len(updates),
    ]
    for name, each in found.items():
        cells = []
        for update in updates:
            cells.append(spread([r["perplexity"][r["updates"].index(update)] for r in each if update in r["updates"]]))
        lines.append(
            f"| {name} | {len(each)} | {' | '.join([*cells, spread([r['bleu'] for r in each if 'bleu' in r])])} |"
        )
    return lines


def spread(values: list[float]) -> str:
    """Mean and standard deviation."""
    if not values:
        return ""
    return f"{statistics.mean(values):.2f}" + (f" ± {statistics.stdev(values):.2f}" if values[1:] else "")


if __name__ == "__main__":
    main()
