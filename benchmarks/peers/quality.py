"""Dev perplexity of posnmt in both precisions and of Hugging Face's Marian after the same updates on the same batches.

    python benchmarks/peers/quality.py --corpus CORPUS --environments FOLDER --out FILE.json [--seeds 1 2 3]
                                       [--updates 150]

CORPUS is the tokenised Tanaka corpus. The three have the same model (post-norm, sinusoids, one matrix for all
embeddings), dropouts, label smoothing, optimizer and rates; a seed draws the weights, the batches and what is dropped.
Weights begin as each toolkit has them. FILE.json gets the figures as they come. What is timed elsewhere is not timed
here, so that several may run at once.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path

from speed_data import write_data, write_lines
from speed_environment import prepare_environment
from speed_peers import CONFIG, PEERS
from speed_trainer import Job, TrainingFailed, run

from posnmt.config import load
from posnmt.data.prepare import prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--batch", type=int, default=4096)
    arguments = parser.parse_args()
    environment = arguments.environments / "huggingface"
    prepare_environment(environment, "constraints-huggingface.txt")
    found: dict[str, list[float]] = {}
    for seed in arguments.seeds:
        folder = arguments.out.with_suffix("") / str(seed)
        folder.mkdir(parents=True, exist_ok=True)
        settings = [
            f"data.root={arguments.corpus.absolute()}", f"data.store={folder.parent.absolute()}/stores",
            "train.minutes=null", f"train.steps={arguments.updates}", f"train.evaluate_every={arguments.updates}",
            f"train.batch={arguments.batch}", f"train.seed={seed}", "train.average=1", "train.dev_bleu=false",
        ]  # fmt: skip
        for precision in ("fp32", "bf16"):
            perplexity = ours(folder, [*settings, f"train.precision={precision}"], precision)
            found.setdefault(f"posnmt, {precision}", []).append(perplexity)
        write_data(load(CONFIG, settings), arguments.updates, folder)
        dev = prepare(load(CONFIG, settings)).split("dev")
        pairs = [[side.tolist() for side in dev.pair(index)] for index in range(len(dev))]
        write_lines(folder / "dev.jsonl", [json.dumps(pairs[start : start + 64]) for start in range(0, len(pairs), 64)])
        job = Job(
            "transformer", "small", arguments.updates, arguments.batch, arguments.corpus, folder, folder, environment
        )
        found.setdefault("Marian in transformers, fp32", []).append(theirs(job, seed))
        arguments.out.write_text(json.dumps({"seeds": arguments.seeds, "perplexity": found}, indent=1) + "\n")
    for name, values in found.items():
        spread = (
            f"{statistics.mean(values):.2f}, standard deviation {statistics.stdev(values) if values[1:] else 0:.2f}"
        )
        print(f"{name}: dev perplexity {spread} ({', '.join(f'{value:.2f}' for value in values)})")


def ours(folder: Path, settings: list[str], precision: str) -> float:
    """posnmt's own command, and the dev perplexity that it writes down last."""
    place = folder / f"run-{precision}"
    command = [Path(sys.executable).with_name("posnmt"), "train", CONFIG, "--out", place]
    run([*command, *(each for setting in settings for each in ("--set", setting))], folder / f"{precision}.log")
    lines = map(json.loads, (place / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return float([line["perplexity"] for line in lines if line["kind"] == "dev"][-1])


def theirs(job: Job, seed: int) -> float:
    """The peer's training loop, and the dev perplexity that it prints."""
    text = run([*PEERS["huggingface"].command(job), job.data / "dev.jsonl", str(seed)], job.folder / "huggingface.log")
    figure = re.search(r"dev perplexity ([\d.]+)", text)
    if figure is None:
        raise TrainingFailed(f"no perplexity in {job.folder}/huggingface.log")
    return float(figure[1])


if __name__ == "__main__":
    main()
