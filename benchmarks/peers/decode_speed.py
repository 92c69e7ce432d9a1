"""Decoding speed on this machine's CPU: posnmt's command line and CTranslate2, in turn, with the same weights.

    python benchmarks/peers/decode_speed.py RUN --text FILE --environment ENVIRONMENT [--reference FILE]
        [--posnmt="OPTIONS" ...] [--sentences N] [--rounds 5] [--beams 1 4] [--threads N] [--batches N ...] [--out FILE]

RUN is a run folder that to_ctranslate2.py can convert; it is converted, and the outputs of both are compared first.
CTranslate2 has a row for each compute type of this processor, as N workers of one thread and as one worker of N
threads, each with the fastest of a few batch sizes, and of its own choice of instructions and AVX-512, tried once.
posnmt has a row for each --posnmt, with these options after `posnmt translate RUN`. Each translation is a process of
its own, and rows take turns: a ratio is taken within a round. README_decoding.md says what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import torch
from decode_once import read_lines, use_environment

from posnmt.base.errors import UserError, existing_file
from posnmt.run.run import Run
from posnmt_position.processor import processor

HERE = Path(__file__).parent
COMPUTE_TYPES = ("float32", "int8", "bfloat16", "int8_bfloat16")
BATCHES = (256, 512, 1024, 2048, 4096)
CHECKED = 500


@dataclass
class Row:
    """One way to translate, and what was measured of it.

    Attributes:
        name: what the table calls it.
        job: of decode_once.py, without its files.
        seconds: of search, text to text, a round each.
        whole: seconds from starting the process to its end.
        lines: the last output.
    """

    name: str
    job: dict[str, Any]
    seconds: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def main() -> None:
    arguments = parse_arguments()
    try:
        with tempfile.TemporaryDirectory() as folder:
            benchmark(arguments, Path(folder))
    except UserError as error:
        sys.exit(f"error: {error.line()}")


def parse_arguments() -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run folder")
    parser.add_argument("--text", type=Path, required=True, help="source text, one sentence a line")
    parser.add_argument("--environment", type=Path, required=True, help="folder with CTranslate2; made when missing")
    parser.add_argument("--reference", type=Path, help="translations of the text, for BLEU")
    parser.add_argument("--posnmt", action="append", metavar="OPTIONS", help='a row: --posnmt="--batch 8192"')
    parser.add_argument("--sentences", type=int, help="lines that are translated; the text is repeated if it has fewer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--threads", type=int, default=cores, help="of CTranslate2 (%(default)s, the cores it may use)")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="tried, in source subwords %(default)s")
    parser.add_argument("--out", type=Path, help="JSON file for everything measured")
    return parser.parse_args()


def benchmark(arguments: argparse.Namespace, folder: Path) -> None:
    """Measure every row in turn and print a table for each beam."""
    source, references = repeated(arguments.text, arguments.sentences), None
    if arguments.reference is not None:
        references = repeated(arguments.reference, arguments.sentences)
        if len(read_lines(arguments.reference)) != len(read_lines(arguments.text)):
            raise UserError("not as many lines as the text", arguments.reference, "name the text's own translations")
    run = Run.open(arguments.run)
    use_environment(arguments.environment)
    text = folder / "source"
    text.write_text("".join(f"{line}\n" for line in source), encoding="utf-8", newline="\n")
    report = header(arguments, len(source))
    print(json.dumps(report, indent=1, ensure_ascii=False), flush=True)
    call = [sys.executable, HERE / "to_ctranslate2.py", arguments.run, folder / "model"]
    options = ["--environment", arguments.environment, "--check", text, "--sentences", str(CHECKED)]
    if status := subprocess.run([*call, *options], check=False).returncode:
        sys.exit(status)  # it has said why
    report["beams"] = {}
    for beam in arguments.beams:
        peers, tried = peer_rows(arguments, run, folder, beam)
        rows = [*peers, *posnmt_rows(arguments, folder, beam)]
        for _ in range(arguments.rounds):
            for row in rows:
                measure(row, folder)
        table = figures(rows, peers, run, references)
        print_table(f"beam {beam}" if beam > 1 else "greedy", table)
        raw = [{"name": row.name, "job": row.job, "seconds": row.seconds, "whole": row.whole} for row in rows]
        report["beams"][beam] = {"tried": tried, "raw": raw, "table": table}
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def repeated(path: Path, count: int | None) -> list[str]:
    """A text's lines, or `count` of them; the text over and over where it has fewer."""
    lines = read_lines(existing_file(path, "text"))
    return lines if count is None else list(islice(cycle(lines), count))


def header(arguments: argparse.Namespace, sentences: int) -> dict[str, Any]:
    """What was measured with what."""
    import ctranslate2

    variables = ("OMP_NUM_THREADS", "THP_MEM_ALLOC_ENABLE", "CT2_USE_MKL", "CT2_FORCE_CPU_ISA")
    packages = ("posnmt", "torch", "sentencepiece", "numpy", "sacrebleu")
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": {name: version(name) for name in packages}
        | {"ctranslate2": ctranslate2.__version__, "python": platform.python_version()},
        "environment": {name: os.environ[name] for name in variables if name in os.environ},
        "compute_types": sorted(ctranslate2.get_supported_compute_types("cpu")),
        "run": str(arguments.run),
        "text": arguments.text.name,
        "sentences": sentences,
        "rounds": arguments.rounds,
        "load": os.getloadavg()[0],
    }


def peer_rows(arguments: argparse.Namespace, run: Run, folder: Path, beam: int) -> tuple[list[Row], dict[str, float]]:
    """CTranslate2's rows, each with its fastest settings; and the seconds of all that were tried."""
    import ctranslate2

    supported = ctranslate2.get_supported_compute_types("cpu")
    instructions = [None, "AVX512"] if torch.backends.cpu.get_cpu_capability() == "AVX512" else [None]
    layouts = dict.fromkeys([(arguments.threads, 1), (1, arguments.threads)])
    rows: list[Row] = []
    tried: dict[str, float] = {}
    for compute_type in (each for each in COMPUTE_TYPES if each in supported):
        for workers, threads in layouts:
            trials = []
            for batch, isa in product(arguments.batches, instructions):
                peer = {
                    "environment": str(arguments.environment),
                    "model": str(folder / "model"),
                    "text": str(run.folder / "text"),
                    "source": str(folder / "source"),
                    "output": str(folder / "output"),
                    "decode": run.config.decode.model_dump() | {"beam": beam},
                    "batch": batch,
                    "instructions": isa,
                    "compute_type": compute_type,
                    "inter_threads": workers,
                    "intra_threads": threads,
                }
                settings = f"{workers} x {threads}, batch {batch}" + (f", {isa}" if isa else "")
                trials.append(Row(f"CTranslate2 {compute_type}, {settings}", {"peer": peer}))
                measure(trials[-1], folder)
            best = min(trials, key=lambda row: row.seconds[0])
            rows.append(Row(best.name, best.job))
            tried |= {row.name: row.seconds[0] for row in trials}
    return rows, tried


def posnmt_rows(arguments: argparse.Namespace, folder: Path, beam: int) -> list[Row]:
    """posnmt's rows, one for each set of options."""
    command = ["translate", str(arguments.run), "--input", str(folder / "source"), "--output", str(folder / "output")]
    return [
        Row(" ".join(["posnmt", options]).rstrip(), {"command": [*command, "--beam", str(beam), *shlex.split(options)]})
        for options in arguments.posnmt or [""]
    ]


def measure(row: Row, folder: Path) -> None:
    """Translate once, in a new process.

    Raises:
        UserError: it failed.
    """
    result = folder / "result"
    job = json.dumps({**row.job, "result": str(result)})
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, HERE / "decode_once.py", job], stderr=subprocess.PIPE, text=True, check=False
    )
    row.whole.append(time.monotonic() - started)
    if done.returncode:
        sys.stderr.write(done.stderr)
        raise UserError("a translation failed", row.name, "see the message above")
    row.seconds.append(json.loads(result.read_text(encoding="utf-8")))
    row.lines = read_lines(folder / "output")


def figures(rows: list[Row], peers: list[Row], run: Run, references: list[str] | None) -> list[dict[str, Any]]:
    """A table's figures; ratios are to CTranslate2's fastest float32 row and to its fastest row."""
    import sacrebleu

    target = run.text().target
    floats = [row for row in peers if row.job["peer"]["compute_type"] == "float32"]
    plain, best = (min(group, key=lambda row: statistics.median(row.seconds)) for group in (floats, peers))
    bleu = sacrebleu.BLEU(tokenize=run.config.train.bleu_tokenizer, force=True)
    return [
        {
            "row": row.name,
            "sentences_per_second": spread([len(row.lines) / seconds for seconds in row.seconds]),
            "to_float32": spread([base / own for base, own in zip(plain.seconds, row.seconds, strict=True)]),
            "to_best": spread([base / own for base, own in zip(best.seconds, row.seconds, strict=True)]),
            "whole_seconds": spread(row.whole),
            "subwords": statistics.mean(map(len, target.encode(row.lines))),
            "same_as_float32": sum(map(str.__eq__, row.lines, plain.lines)) / len(row.lines),
            "bleu": None if references is None else bleu.corpus_score(row.lines, [references]).score,
        }
        for row in rows
    ]


def spread(values: list[float]) -> dict[str, float]:
    """Median and range."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def print_table(title: str, table: list[dict[str, Any]]) -> None:
    """Print figures as a Markdown table."""
    print(f"\n{title}: medians, and the range over the rounds; ratios of speed to CTranslate2 within a round\n")
    print("| | sentences/s | to float32 | to its best | whole command, s | subwords out | same as float32 | BLEU |")
    print("|---|---|---|---|---|---|---|---|")
    for row in table:
        cells = [
            row["row"],
            shown(row["sentences_per_second"], 0),
            shown(row["to_float32"], 2),
            shown(row["to_best"], 2),
            shown(row["whole_seconds"], 1),
            f"{row['subwords']:.1f}",
            f"{row['same_as_float32']:.1%}",
            "" if row["bleu"] is None else f"{row['bleu']:.2f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def shown(value: dict[str, float], digits: int) -> str:
    """A median with its range."""
    return f"{value['median']:,.{digits}f} ({value['least']:,.{digits}f}-{value['most']:,.{digits}f})"


if __name__ == "__main__":
    main()
