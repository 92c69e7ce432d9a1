"""What fairseq and Hugging Face's Marian learn from each update, beside posnmt: dev perplexity by updates, greedy BLEU.

    python benchmarks/peers/quality.py --corpus CORPUS --environments FOLDER --out FOLDER [--peers fairseq huggingface]
                                       [--seeds 1 2 3] [--updates 1000] [--every 250] [--set KEY=VALUE ...]

CORPUS is the tokenised Tanaka corpus, or another with `--set data.train.target=train.de` and the like. All have the
same pairs, subwords, model (post-norm, sinusoids, one matrix for all embeddings), dropouts, label smoothing and size of
batches, and but for posnmt's variants the same optimizer and rates; a seed draws the weights, the batches and what is
dropped. Weights begin as each toolkit has them. Each training leaves OUT/NAME/SEED.json, as `benchmarks/learning.py`
does, which this runs for posnmt, and is not repeated where that exists. Nothing is timed, so that several may run at
once: `quality_table.py` takes the time of an update from `train_speed.py`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from speed_data import SOURCE, TARGET, UNKNOWN, write_data
from speed_environment import prepare_environment
from speed_peers import CONFIG, PEERS, launcher
from speed_trainer import Job, TrainingFailed, run

from posnmt.data.prepare import prepare
from posnmt.run.resolve import load

LEARNING = Path(__file__).parents[1] / "learning.py"
sys.path.append(str(LEARNING.parent))
from learning import write  # noqa: E402

WARMUP = 300
FAIRSEQ_DEV = re.compile(r'"valid_ppl": "(?P<perplexity>[\d.]+)".*"valid_num_updates": "(?P<step>\d+)"')
MARIAN_DEV = re.compile(r"updates (?P<step>\d+), dev perplexity (?P<perplexity>[\d.]+)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--peers", nargs="*", choices=["fairseq", "huggingface"], default=["fairseq", "huggingface"])
    parser.add_argument("--variants", nargs="*", default=["shipped"], help="of posnmt, from learning.yaml")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--batch", type=int, default=1024, help="padded tokens on either side (%(default)s)")
    parser.add_argument("--size", choices=["small", "base"], default="small")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings", help="of all")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    common = [
        f"data.root={arguments.corpus.absolute()}", f"data.store={arguments.out.absolute()}/stores",
        f"model.size={arguments.size}", f"train.batch={arguments.batch}", f"train.schedule.warmup={WARMUP}",
        *arguments.settings,
    ]  # fmt: skip
    for seed in arguments.seeds:
        for peer in arguments.peers:
            measure(arguments, common, peer, seed)
        if arguments.variants:
            command: list[str | Path] = [sys.executable, LEARNING, CONFIG, "--out", arguments.out, "--seeds", str(seed)]
            command += ["--updates", str(arguments.updates), "--every", str(arguments.every)]
            command += ["--only", *arguments.variants, *(f"--set={setting}" for setting in common)]
            subprocess.run(command, check=True)


def measure(arguments: argparse.Namespace, common: list[str], peer: str, seed: int) -> None:
    """Train a peer, let it translate dev, and write what came out, unless that is there already."""
    result = arguments.out / peer / f"{seed}.json"
    if result.exists():
        return
    environment = arguments.environments / peer
    prepare_environment(environment, f"constraints-{peer}.txt")
    result.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=result.parent) as place:
        folder, config = Path(place).absolute(), load(CONFIG, [*common, f"train.seed={seed}"])
        job = Job(
            "transformer", arguments.size, arguments.updates, arguments.batch, arguments.corpus, folder, folder,
            environment, seed=seed, warmup=WARMUP, evaluate_every=arguments.every,
        )  # fmt: skip
        write_data(config, job.updates, folder)
        setup = PEERS[peer].setup
        if setup is not None:
            run(setup(job), folder / "setup.log")
        text = run(PEERS[peer].command(job), result.with_suffix(".log"))
        found = (FAIRSEQ_DEV if peer == "fairseq" else MARIAN_DEV).finditer(text)
        dev = [{"step": int(each["step"]), "perplexity": float(each["perplexity"])} for each in found]
        if not dev:
            raise TrainingFailed(f"no perplexity in {result.with_suffix('.log')}")
        numbers = fairseq_outputs(job) if peer == "fairseq" else marian_outputs(job)
        store = prepare(config)
        write(result, dev, store.text.target.decode(numbers), store.split("dev").target_texts, job_settings(job))


def job_settings(job: Job) -> list[str]:
    """What a result says of its training."""
    return [f"{name}={getattr(job, name)}" for name in ("size", "updates", "batch", "seed", "warmup")]


def marian_outputs(job: Job) -> list[list[int]]:
    """The greedy translations that `speed_huggingface.py` wrote, as numbers of subwords."""
    return [json.loads(line) for line in (job.folder / "outputs.jsonl").read_text(encoding="utf-8").splitlines()]


def fairseq_outputs(job: Job, subset: str = "valid") -> list[list[int]]:
    """Greedy translations of dev, or of another text, by fairseq's own command, as numbers of subwords."""
    text = run(
        [
            *launcher(job, "fairseq-generate"), job.data / "fairseq", "--path", job.folder / "model/checkpoint_last.pt",
            "--source-lang", SOURCE, "--target-lang", TARGET, "--gen-subset", subset, "--beam", "1",
            "--max-len-a", "2", "--max-len-b", "50", *([] if job.on_gpu else ["--cpu"]),
        ],
        job.folder / "generate.log",
    )  # fmt: skip
    vocabulary: dict[str, Any] = json.loads((job.data / "vocabulary.json").read_text(encoding="utf-8"))
    lines = {int(each[1]): each[2] for each in re.finditer(r"^H-(\d+)\t[^\t]*\t(.*)$", text, re.MULTILINE)}
    rows = [lines[number].split() for number in range(len(lines))]
    return [[vocabulary.get(piece, vocabulary[UNKNOWN]) for piece in row] for row in rows]


if __name__ == "__main__":
    main()
