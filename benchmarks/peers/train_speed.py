"""Training speed of posnmt and of other toolkits on this machine's CPU: one small model, one corpus, in turn.

    python benchmarks/peers/train_speed.py --corpus CORPUS --environments FOLDER --out FILE.json

CORPUS holds `train.en` and `train.ja` of the tokenised Tanaka corpus. Each peer trains with its own command in its own
virtual environment under FOLDER, which is made where it is missing. posnmt and the peers take turns, a short training
of each after another; a ratio is taken within a turn. FILE.json gets the raw figures after every turn, and the logs lie
beside it, in the folder of the same name without the ending. README.md says what is counted and why.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from speed_data import write_data
from speed_environment import prepare_environment
from speed_peers import CONFIG, PEERS, posnmt, posnmt_settings
from speed_table import ACCOUNTING, table
from speed_trainer import REPORT, Job, Trainer, TrainingFailed, run, speed

from posnmt.base.errors import UserError
from posnmt.config.schema import Train
from posnmt.config.systems import SYSTEMS
from posnmt.run.resolve import load
from posnmt.training.device import precision
from posnmt_position.processor import processor

PRECISIONS = ("auto", "fp32")
OURS = tuple(posnmt(precision) for precision in PRECISIONS)
# What changes how memory is got, how threads wait, and which instructions are used: nobody is given any of these; what
# the caller has set, all have.
RUNTIME = (
    "THP_MEM_ALLOC_ENABLE", "LD_PRELOAD", "MALLOC_CONF", "GLIBC_TUNABLES", "OMP_WAIT_POLICY", "KMP_BLOCKTIME",
    "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS",
)  # fmt: skip


def main() -> None:
    arguments = parse_arguments()
    try:
        Benchmark(arguments).measure()
    except UserError as error:
        sys.exit("\n".join(f"error: {line}" for line in error.lines))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with train.en and train.ja, tokenised")
    parser.add_argument("--environments", type=Path, required=True, help="folder of the peers' virtual environments")
    parser.add_argument("--out", type=Path, required=True, help="new JSON file for the raw figures")
    parser.add_argument("--systems", nargs="+", default=["transformer"], choices=SYSTEMS, metavar="ID")
    parser.add_argument("--size", choices=["small", "base"], default="small")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="default: all", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5, help="turns (%(default)s)")
    parser.add_argument("--updates", type=int, default=60, help="of each training (%(default)s)")
    parser.add_argument("--left-out", type=int, default=10, help="first updates that do not count (%(default)s)")
    parser.add_argument("--batch", type=int, default=4096, help="padded tokens on either side (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="%(default)s")
    arguments = parser.parse_args()
    for name in ("updates", "left_out"):
        if getattr(arguments, name) % REPORT:
            parser.error(f"--{name.replace('_', '-')} must be a multiple of {REPORT}: the logs report that often")
    if arguments.left_out >= arguments.updates:
        parser.error("--left-out must be smaller than --updates: nothing would be left to measure")
    if arguments.out.exists():
        parser.error(f"{arguments.out} exists; name another file with --out")
    for language in ("en", "ja"):
        if not (arguments.corpus / f"train.{language}").is_file():
            parser.error(f"{arguments.corpus}/train.{language} does not exist; name the corpus's folder with --corpus")
    return arguments


class Benchmark:
    """The turns, and what came out of them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.work = arguments.out.with_suffix("")
        self.data = self.work / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        os.environ |= {name: str(arguments.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        self.trainers: dict[str, Trainer] = {trainer.name: trainer for trainer in OURS}
        self.failed: dict[str, str] = {}
        self.versions = {"posnmt": versions(Path(sys.executable), "posnmt")}
        self.turns: list[list[dict[str, Any]]] = []

    def measure(self) -> None:
        """Prepare everything, take the turns, and print the tables."""
        first = self.job(self.arguments.systems[0], "", self.work)
        config = load(CONFIG, posnmt_settings(first, PRECISIONS[0]))
        write_data(config, self.arguments.updates, self.data)
        for name in self.arguments.peers:
            self.install(name)
        for number in range(1, self.arguments.rounds + 1):
            self.turns.append([])
            for system in self.arguments.systems:
                for trainer in self.trainers.values():
                    if trainer in OURS or system in trainer.systems:
                        self.train(system, trainer, number)
            text = json.dumps(self.content(), indent=1) + "\n"
            self.arguments.out.write_text(text, encoding="utf-8", newline="\n")
        self.print_tables()

    def job(self, system: str, environment: str, folder: Path) -> Job:
        """A training of a system in a peer's environment, with a folder to write to."""
        arguments = self.arguments
        place = arguments.environments / environment if environment else Path(sys.prefix)
        return Job(
            system, arguments.size, arguments.updates, arguments.batch, arguments.corpus, self.data, folder, place
        )

    def install(self, name: str) -> None:
        """Make a peer's environment where it is missing, and let it prepare the data."""
        trainer, job = PEERS[name], self.job("transformer", name, self.work)
        say(f"{trainer.name}: environment {job.environment}")
        try:
            prepare_environment(job.environment, f"constraints-{name}.txt")
            if trainer.setup is not None:
                run(trainer.setup(job), self.work / f"setup.{name}.log")
        except subprocess.CalledProcessError as error:
            self.fail(trainer, f"cannot be installed: pip ended with status {error.returncode}, see above")
        except TrainingFailed as error:
            self.fail(trainer, f"cannot prepare its data: {error}")
        else:
            self.trainers[trainer.name] = trainer
            self.versions[trainer.name] = versions(job.program("python"), trainer.package)

    def train(self, system: str, trainer: Trainer, number: int) -> None:
        """One training; its speed joins the turn, or the trainer is left out of this system from now on."""
        if f"{trainer.name}, {system}" in self.failed:
            return
        log = self.work / f"turn-{number}.{system}.{trainer.name.replace(' ', '-')}.log"
        try:
            with tempfile.TemporaryDirectory(dir=self.work) as folder:
                job = self.job(system, trainer.key, Path(folder).absolute())
                reports = trainer.reports(job, run(trainer.command(job), log))
            rate, tokens = speed(reports, self.arguments.left_out)
        except TrainingFailed as error:
            self.fail(trainer, f"cannot be trained: {error}", system)
            return
        self.turns[-1].append(
            {"system": system, "trainer": trainer.name, "tokens_per_second": rate, "tokens_an_update": tokens}
            | {"reports": [report._asdict() for report in reports]}
        )
        say(f"turn {number}, {system}, {trainer.name}: {rate:,.0f} target tokens/s, {tokens:,.0f} an update")

    def fail(self, trainer: Trainer, why: str, system: str | None = None) -> None:
        """Take note that a trainer is left out, of one system or of all."""
        name = trainer.name if system is None else f"{trainer.name}, {system}"
        self.failed[name] = why
        say(f"{name}: {why}")

    def content(self) -> dict[str, Any]:
        """All that is known so far."""
        return {
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "settings": {name: str(value) for name, value in vars(self.arguments).items()},
            "processor": processor(),
            "cores": os.cpu_count(),
            "environment": {name: os.environ[name] for name in RUNTIME if name in os.environ},
            "versions": self.versions,
            "failed": self.failed,
            "turns": self.turns,
        }

    def print_tables(self) -> None:
        """Say on what it ran, and print a table for each system."""
        content, arguments = self.content(), self.arguments
        machine = f"{content['processor']}, {content['cores']} cores, {arguments.threads} threads"
        print(f"{machine}, Python {platform.python_version()}")
        for name, packages in self.versions.items():
            print(f"{name}: {', '.join(f'{package} {number}' for package, number in packages.items())}")
        print(f"posnmt auto is {precision(Train(steps=1), 'cpu')} on this processor; all others are float32.")
        print(ACCOUNTING.format(batch=arguments.batch))
        for system in arguments.systems:
            print("", *table(content, system, tuple(trainer.name for trainer in OURS)), sep="\n")
        for name, why in self.failed.items():
            print(f"{name}: {why}")


def versions(interpreter: Path, package: str) -> dict[str, str]:
    """The versions of a package and of torch in an environment."""
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    names = (package, "torch")
    found = subprocess.run([interpreter, "-c", code, *names], capture_output=True, text=True, check=True).stdout
    return dict(zip(names, found.split(), strict=True))


def say(line: str) -> None:
    """A line about how far the benchmark is, on standard error."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
