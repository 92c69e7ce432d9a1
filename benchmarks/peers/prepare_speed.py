"""Preparing a corpus: posnmt, SentencePiece alone, fairseq and OpenNMT-py, in turn.

    python benchmarks/peers/prepare_speed.py --corpus CORPUS --environments FOLDER --out FILE.json

CORPUS holds `train.SOURCE` and `train.TARGET` (`--languages en ja`), repeated `--times` over. FOLDER has the peers'
virtual environments; one that is missing is made. Each command is a process of its own on the same cores. The steps of
the peers are timed one by one and added up: README_prepare.md says which. With `--pairs 100000 1000000` posnmt alone
prepares the corpus repeated to so many pairs: whether time is linear in the pairs, and memory flat.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from prepare_run import Cost, run
from speed_environment import prepare_environment

from posnmt.config.schema import Subword
from posnmt_position.processor import processor

HERE = Path(__file__).parent
PEERS = {"fairseq": "fairseq", "opennmt": "OpenNMT-py"}
# The rows of the table: what a user has to run to come from text to what training reads.
OURS, OURS_MOSES = "posnmt prepare", "posnmt prepare, Moses"
ROWS = {
    OURS: ["posnmt"],
    OURS_MOSES: ["posnmt moses"],
    "SentencePiece, learning and encoding": ["learn", "encode"],
    "SentencePiece, fairseq-preprocess": ["learn", "encode", "fairseq"],
    "SentencePiece, onmt_build_vocab": ["learn", "opennmt"],
}


def main() -> None:
    arguments = parse_arguments()
    work = arguments.out.with_suffix("").absolute()
    work.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    os.environ |= {name: str(arguments.cores) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    environments = {name: arguments.environments / name for name in (() if arguments.pairs else arguments.peers)}
    for name, folder in environments.items():
        prepare_environment(folder, f"constraints-{name}.txt")
    print(f"{processor()}, {arguments.cores} cores, Python {platform.python_version()}, {versions(environments)}")
    if arguments.pairs:
        found: list[dict[str, Any]] = scale(arguments, work)
    else:
        found = turns(arguments, work, environments)
    content = {"settings": {name: str(value) for name, value in vars(arguments).items()}, "measured": found}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8", newline="\n")
    shutil.rmtree(work)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with train.SOURCE and train.TARGET")
    parser.add_argument("--languages", nargs=2, default=["en", "ja"], metavar=("SOURCE", "TARGET"))
    parser.add_argument("--environments", type=Path, required=True, help="folder of the peers' virtual environments")
    parser.add_argument(
        "--out", type=Path, required=True, help="new JSON file; its name without ending is a work folder"
    )
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="default: all", metavar="NAME")
    parser.add_argument("--times", type=int, default=4, help="how often the corpus is repeated (%(default)s)")
    parser.add_argument("--pairs", type=int, nargs="+", help="posnmt alone, with so many pairs", metavar="N")
    parser.add_argument("--moses", action="store_true", help="with --pairs: with Moses tokenisation")
    parser.add_argument("--rounds", type=int, default=5, help="turns (%(default)s)")
    parser.add_argument("--vocabulary", type=int, default=8000, help="%(default)s")
    parser.add_argument("--cores", type=int, default=2, help="%(default)s")
    arguments = parser.parse_args()
    if arguments.out.exists():
        parser.error(f"{arguments.out} exists; name another file with --out")
    for language in arguments.languages:
        if not (arguments.corpus / f"train.{language}").is_file():
            parser.error(f"{arguments.corpus}/train.{language} does not exist; name its folder with --corpus")
    return arguments


def turns(arguments: argparse.Namespace, work: Path, environments: dict[str, Path]) -> list[dict[str, Any]]:
    """All commands, one after the other, turn after turn; prints the table."""
    pairs = repeat(arguments, work, arguments.times * count_lines(arguments.corpus / f"train.{arguments.languages[0]}"))
    steps = commands(arguments, work, environments)
    found = []
    for number in range(1, arguments.rounds + 1):
        costs = {name: measure(name, command, work) for name, command in steps.items()}
        rows = {
            row: sum(costs[step].seconds for step in of_row)
            for row, of_row in ROWS.items()
            if all(step in costs for step in of_row)
        }
        found.append({"steps": {name: cost._asdict() for name, cost in costs.items()}, "rows": rows})
        say(f"turn {number}: " + ", ".join(f"{row} {pairs / seconds:,.0f} pairs/s" for row, seconds in rows.items()))
    print(f"{pairs:,} pairs, {arguments.vocabulary:,} BPE entries: medians of {arguments.rounds} turns (range)")
    print(f"{'':38}{'pairs/s':>10}{'MiB':>8}   {OURS + ' / it':22}   {OURS_MOSES} / it")
    for row in found[0]["rows"]:
        memory = max(each["steps"][step]["memory"] for each in found for step in ROWS[row])
        rate = statistics.median(pairs / each["rows"][row] for each in found)
        ratios = "   ".join(f"{ratio(found, ours, row):22}" for ours in (OURS, OURS_MOSES))
        print(f"{row:38}{rate:10,.0f}{memory:8,.0f}   {ratios}".rstrip())
    return found


def scale(arguments: argparse.Namespace, work: Path) -> list[dict[str, Any]]:
    """posnmt with more and more pairs; prints a line for each."""
    found = []
    step = "posnmt moses" if arguments.moses else "posnmt"
    print(f"{step}, {arguments.vocabulary:,} BPE entries, learned from {Subword().sample:,} pairs at most")
    print(f"{'pairs':>12}{'seconds':>10}{'of processors':>15}{'pairs/s':>10}{'MiB at most':>13}")
    for number in arguments.pairs:
        pairs = repeat(arguments, work, number)
        cost = measure(step, commands(arguments, work, {})[step], work)
        rate = pairs / cost.seconds
        print(f"{pairs:12,}{cost.seconds:10.1f}{cost.processors:15.1f}{rate:10,.0f}{cost.memory:13,.0f}", flush=True)
        found.append({"pairs": pairs, **cost._asdict()})
    return found


def commands(arguments: argparse.Namespace, work: Path, environments: dict[str, Path]) -> dict[str, list[str | Path]]:
    """What is timed, by name."""
    source, target = arguments.languages
    texts = [work / f"train.{language}" for language in (source, target)]
    pieces = [work / f"pieces.{language}" for language in (source, target)]
    cores, prefix = str(arguments.cores), work / "subwords"
    own = [sys.executable, HERE / "prepare_sentencepiece.py"]
    found: dict[str, list[str | Path]] = {}
    for step, tokenise in (("posnmt", "none"), ("posnmt moses", "moses")):
        config = write(work / f"{tokenise}.yaml", our_settings(arguments, tokenise))
        found[step] = [Path(sys.prefix) / "bin" / "posnmt", "prepare", config, "--out", work / "stores"]
    size, sample = str(arguments.vocabulary), str(Subword().sample)
    found["learn"] = [*own, "learn", *texts, prefix, size, sample, cores]
    found["encode"] = [*own, "encode", *texts, prefix, *pieces, cores]
    if "fairseq" in environments:
        found["fairseq"] = [
            environments["fairseq"].absolute() / "bin" / "python", HERE / "speed_launch.py", "fairseq-preprocess",
            "--source-lang", source, "--target-lang", target, "--trainpref", work / "pieces",
            "--destdir", work / "binary", "--joined-dictionary", "--workers", cores,
        ]  # fmt: skip
    if "opennmt" in environments:
        settings = {
            "data": {"corpus": {"path_src": str(texts[0]), "path_tgt": str(texts[1]), "transforms": ["sentencepiece"]}},
            "src_subword_model": f"{prefix}.model", "tgt_subword_model": f"{prefix}.model", "overwrite": True,
            "save_data": str(work / "opennmt"), "share_vocab": True, "src_vocab": str(work / "opennmt" / "vocabulary"),
        }  # fmt: skip
        program = environments["opennmt"].absolute() / "bin" / "onmt_build_vocab"
        config = write(work / "opennmt.yaml", settings)
        found["opennmt"] = [program, "-config", config, "-n_sample", "-1", "-num_threads", cores]
    return found


def our_settings(arguments: argparse.Namespace, tokenise: str) -> dict[str, Any]:
    """posnmt's configuration."""
    source, target = arguments.languages
    languages = {"source_language": source, "target_language": target}
    train = {"source": f"train.{source}", "target": f"train.{target}"}
    return {
        "data": {"root": ".", "train": train, "tokenise": tokenise, "max_length": None} | languages,
        "subword": {"vocabulary": arguments.vocabulary},
        "train": {"steps": 1},
    }


def measure(step: str, command: list[str | Path], work: Path) -> Cost:
    """One run, with nothing there from an earlier one."""
    for folder in ("stores", "binary", "opennmt"):
        shutil.rmtree(work / folder, ignore_errors=True)
    log = work / f"{step}.log"
    try:
        return run(command, log)
    except subprocess.CalledProcessError as error:
        last = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-1]
        sys.exit(f"error: {step} ended with status {error.returncode}: {last} (all of it: {log})")


def repeat(arguments: argparse.Namespace, work: Path, pairs: int) -> int:
    """Write the corpus into the work folder, over and over until there are so many pairs; how many there are."""
    for language in arguments.languages:
        lines = (arguments.corpus / f"train.{language}").read_bytes().removesuffix(b"\n").split(b"\n")
        with (work / f"train.{language}").open("wb") as file:
            file.writelines(line + b"\n" for line in islice(cycle(lines), pairs))
    return pairs


def count_lines(path: Path) -> int:
    """The lines of a file."""
    with path.open("rb") as file:
        return sum(1 for _ in file)


def ratio(found: list[dict[str, Any]], ours: str, row: str) -> str:
    """How many times as fast we are within a turn: `median (lowest-highest)`."""
    ratios = [each["rows"][row] / each["rows"][ours] for each in found]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def versions(environments: dict[str, Path]) -> str:
    """The versions of what is measured."""
    found = [f"posnmt {version('posnmt')}", f"SentencePiece {version('sentencepiece')}"]
    for name, folder in environments.items():
        code = f"from importlib.metadata import version; print(version({PEERS[name]!r}))"
        command = [folder.absolute() / "bin" / "python", "-c", code]
        number = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        found.append(f"{PEERS[name]} {number}")
    return ", ".join(found)


def write(path: Path, content: dict[str, Any]) -> Path:
    """A configuration as JSON, which is YAML."""
    path.write_text(json.dumps(content, indent=1), encoding="utf-8", newline="\n")
    return path


def say(line: str) -> None:
    """A line about how far the benchmark is, on standard error."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
