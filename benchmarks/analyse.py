"""`posnmt analyse` at full size, and compare-mt 0.2.10 beside it on the same files: seconds and peak memory.

    python benchmarks/analyse.py ENVIRONMENT [--text FILE ...] [--sentences 30000] [--systems 6] [--samples 10000]

Outputs are made from a reference text by formula: words changed, left out, moved, and some lines cut short; the text is
that of the files, one sentence a line, repeated until there are enough, or random words. Runs, each of them a process
of its own:

1. `posnmt analyse` with its default metrics, BLEU, chrF and TER: all bins, intervals and the three tests with all
   samples.
2. The same with BLEU alone.
3. compare-mt with BLEU overall and by length, and its paired bootstrap, from the virtual environment ENVIRONMENT, which
   is made when missing. It resamples in Python, half the sentences a sample, so it is run with 0 and with PEER samples
   and its time for all samples is reckoned from the two as a straight line.

Seconds are given by the clock and of processors (user and system, all processes of a run): other work on the machine
lengthens the first much more than the second, and its load before each run is printed too. Ratios are of the second.
At the end TER alone, ours and sacreBLEU's own, in turn on some of the lines and on lines of 4 sentences joined, and
whether they are equal.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Iterator
from importlib.metadata import version
from itertools import chain, cycle, islice
from pathlib import Path

# six is compare-mt's too, but its package does not say so.
PEER_PACKAGES = ("compare-mt==0.2.10", "six")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path, help="compare-mt's own virtual environment; made when missing")
    parser.add_argument("--text", type=Path, nargs="+", help="reference texts, joined; default: random words")
    parser.add_argument("--sentences", type=int, default=30_000)
    parser.add_argument("--systems", type=int, default=6)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument(
        "--peer-samples", type=int, default=30, help="of compare-mt; its figure fails with few (%(default)s)"
    )
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    peer = peer_program(arguments.environment)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        outputs = make_texts(folder, arguments)
        print(f"{arguments.sentences} sentences, {arguments.systems} systems, {arguments.samples} samples, "
              f"{arguments.processes} processes; posnmt {version('posnmt')}, numpy {version('numpy')}, "
              f"Python {platform.python_version()}, {platform.machine()}")  # fmt: skip
        ours = [
            sys.executable, "-m", "posnmt", "analyse",
            "--source", folder / "source", "--reference", folder / "reference",
            *(part for output in outputs for part in ("--output", f"{output.stem}={output}")),
            "--samples", str(arguments.samples), "--processes", str(arguments.processes), "--out", folder / "report",
        ]  # fmt: skip
        default = run("posnmt analyse, bleu, chrf and ter", ours)
        alone = run("posnmt analyse, bleu", [*ours, "--metrics=bleu"])
        theirs = [
            run(f"compare-mt, bleu, {samples} samples", peer_command(peer, folder, outputs, samples))
            for samples in (0, arguments.peer_samples)
        ]
        reckoned = theirs[0] + (theirs[1] - theirs[0]) / arguments.peer_samples * arguments.samples
        print(f"compare-mt, bleu, {arguments.samples} samples, reckoned: {reckoned:.0f} s of processors")
        print(f"compare-mt by posnmt, bleu: {reckoned / alone:.0f}; with no samples on its side: "
              f"{theirs[0] / alone:.2f}; by posnmt with chrF and TER too: {reckoned / default:.0f}")  # fmt: skip
        for joined, count in ((1, 1000), (4, 60)):
            compare_ter(*(joined_lines(path, joined)[:count] for path in (outputs[-1], folder / "reference")), joined)


def peer_program(environment: Path) -> Path:
    """compare-mt's program; its environment is made when it is missing."""
    program = environment.absolute() / "bin" / "compare-mt"
    if not program.exists():
        venv.create(environment, with_pip=True)
        subprocess.run([environment / "bin" / "python", "-m", "pip", "install", "-qq", *PEER_PACKAGES], check=True)
    return program


def peer_command(program: Path, folder: Path, outputs: list[Path], samples: int) -> list[object]:
    """compare-mt with its scores and its buckets by length, and nothing else."""
    return [
        program, folder / "reference", *outputs, "--compare_scores", f"score_type=bleu,bootstrap={samples}",
        "--compare_sentence_buckets", "bucket_type=length,statistic_type=score,score_measure=bleu",
        "--compare_word_accuracies", "--compare_src_word_accuracies", "--compare_ngrams", "--compare_sentence_examples",
        "--output_directory", folder / "peer",
    ]  # fmt: skip


def make_texts(folder: Path, arguments: argparse.Namespace) -> list[Path]:
    """Source, reference and outputs; the source is the reference, since only its lengths count here."""
    lines = list(islice(sentences(arguments.text), arguments.sentences))
    for name in ("source", "reference"):
        write_lines(folder / name, lines)
    outputs = []
    for system in range(arguments.systems):
        draw = random.Random(system)
        outputs.append(folder / f"system{system}.txt")
        write_lines(outputs[-1], [" ".join(worse(line.split(), 0.15 + 0.01 * system, draw)) for line in lines])
    return outputs


def sentences(texts: list[Path] | None) -> Iterator[str]:
    """The lines of texts over and over, or random sentences without end, 5 to 60 words of a Zipf-like vocabulary."""
    if texts is not None:
        every = [text.read_text(encoding="utf-8").removesuffix("\n").split("\n") for text in texts]
        yield from cycle(chain.from_iterable(every))
    draw = random.Random(0)
    while True:
        length = min(60, 5 + int(draw.expovariate(1 / 18)))
        yield " ".join(f"word{int(draw.paretovariate(0.7)) % 30_000}" for _ in range(length)) + "."


def worse(words: list[str], share: float, draw: random.Random) -> list[str]:
    """The words with a share of them changed, some left out, a few moved together, and one line in ten cut short."""
    kept = [draw.choice(words) if draw.random() < share else word for word in words if draw.random() > share / 3]
    if len(kept) > 8 and draw.random() < 0.4:
        first = draw.randrange(len(kept) - 3)
        moved, kept[first : first + 3] = kept[first : first + 3], []
        place = draw.randrange(len(kept))
        kept[place:place] = moved
    return kept[: len(kept) * 2 // 3] if draw.random() < 0.1 else kept


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def joined_lines(path: Path, joined: int) -> list[str]:
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [" ".join(lines[first : first + joined]) for first in range(0, len(lines), joined)]


def compare_ter(outputs: list[str], references: list[str], joined: int) -> None:
    """Print the milliseconds a line of TER's statistics."""
    from sacrebleu.metrics import TER

    from posnmt.metrics.ter import ter_statistics

    started = time.process_time()
    ours = ter_statistics(outputs, references).tolist()
    between = time.process_time()
    theirs = TER(references=[references])._extract_corpus_statistics(outputs, None)
    spent = [1000 * seconds / len(outputs) for seconds in (between - started, time.process_time() - between)]
    print(f"TER, {len(outputs)} lines of {joined} sentences: {spent[0]:.3f} ms a line, sacreBLEU {spent[1]:.2f}, "
          f"ratio {spent[1] / spent[0]:.0f}, {'equal' if ours == theirs else 'NOT EQUAL'}")  # fmt: skip


def run(title: str, command: list[object]) -> float:
    """Run a command; print its seconds and the memory of all its processes at its highest; return processor seconds."""
    load, started, used = os.getloadavg()[0], time.monotonic(), processor_seconds()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak = Peak(process.pid)
    _, errors = process.communicate()
    seconds, used = time.monotonic() - started, processor_seconds() - used
    if process.returncode:
        sys.exit(f"error: {title} failed:\n{errors.decode()}")
    print(f"{title}: {seconds:.1f} s, {used:.1f} s of processors, {peak.stop() / 2**20:.0f} MiB (load {load:.1f})",
          flush=True)  # fmt: skip
    return used


def processor_seconds() -> float:
    """Of all processes that were started here and have ended, with theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Peak(threading.Thread):
    """Watches the memory of a process and its children (Linux): proportional set size, summed, every 0.2 seconds."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.highest, self.done = pid, 0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self.done.wait(0.2):
            self.highest = max(self.highest, sum(memory(pid) for pid in family(self.pid)))

    def stop(self) -> int:
        self.done.set()
        self.join()
        return self.highest


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = [
            int(child)
            for path in Path(f"/proc/{pid}/task").iterdir()
            for child in (path / "children").read_text().split()
        ]
    except OSError:  # it has ended
        return []
    return [pid, *(each for child in children for each in family(child))]


def memory(pid: int) -> int:
    """Bytes of a process; memory shared with others is shared out."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
