"""Decoding speed of every named system on a CPU: posnmt's own search and CTranslate2, greedy and beam search.

    python benchmarks/decoding.py [--repeats 3] [--size small] [--systems rr ...] [--beams 1 4] [--out FILE.json]
    python benchmarks/decoding.py --table FILE.json

Models are new, and no output ends by itself: every system writes 14 subwords for each of 240 sources, so systems and
programs do the same work. Each turn loads a model of its own, and only search is timed, from subwords to subwords. The
programs compute in float32, CTranslate2 also in int8, posnmt also in bf16 if the processor has instructions for it. The
rows take turns, and CTranslate2 with `transformer` in float32 has one before each system: a ratio is taken within one
such round. A whole command with real text is what benchmarks/peers/decode_speed.py measures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from posnmt.base.parallel.cores import ENVIRONMENT

os.environ.update({**ENVIRONMENT, **os.environ})  # as the command line does: before PyTorch is loaded

import ctranslate2
import torch
from schemes import VOCABULARY, endless, search_seconds

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode
from posnmt.config.systems import SYSTEMS
from posnmt.data.subword import BOS, EOS, PAD, UNK
from posnmt.data.text import TextPipeline
from posnmt.deploy.ctranslate2 import write
from posnmt.deploy.engines.ctranslate2 import CTranslate2Engine
from posnmt.translate.device import in_bf16
from posnmt_position.processor import processor

SENTENCES, WRITTEN = 240, 14
SOURCES = [[(place * 13 + row) % 7000 + 4 for place in range(8 + row % 9)] for row in range(SENTENCES)]
SHARED = [system for system in SYSTEMS if system != "shared-private"]
"""All systems but one whose projection cannot be the source embedding, as those of the others are here."""


def text() -> TextPipeline:
    """What CTranslate2 needs to know of a text pipeline: the entries of its vocabulary."""
    pieces = [f"w{number}" for number in range(VOCABULARY)]
    for number, name in ((PAD, "<pad>"), (UNK, "<unk>"), (BOS, "<s>"), (EOS, "</s>")):
        pieces[number] = name
    side = SimpleNamespace(subwords=SimpleNamespace(pieces=pieces))
    return cast(TextPipeline, SimpleNamespace(source=side, target=side))


def by_ctranslate2(folder: Path, precision: str, beam: int) -> float:
    """Seconds of CTranslate2's search, by posnmt's engine for it."""
    engine = CTranslate2Engine(folder, text(), precision=precision)
    began = time.perf_counter()
    found = engine._search(SOURCES, [WRITTEN] * SENTENCES, Decode(beam=beam))
    seconds = time.perf_counter() - began
    assert all(len(tokens) == WRITTEN for hypotheses in found for tokens in hypotheses)
    return seconds


def measured(system: str, size: str, beam: int, folder: Path | None) -> Iterator[tuple[str, float]]:
    """The seconds of each way to decode a system; without a folder CTranslate2 cannot express it."""
    for precision in ("fp32", "bf16") if in_bf16("bf16", torch.device("cpu")) else ("fp32",):
        yield f"posnmt {precision}", search_seconds(system, size, precision, beam, SOURCES, WRITTEN)
    if folder is not None:
        for precision in ("fp32", "int8"):
            yield f"CTranslate2 {precision}", by_ctranslate2(folder, precision, beam)


def converted(systems: list[str], size: str, work: Path) -> dict[str, Path | str]:
    """The folder of each system's model for CTranslate2, or why it cannot have one."""
    folders: dict[str, Path | str] = {}
    for system in systems:
        model = endless(system, size)
        try:
            write(model, text(), work / system, 64)
            folders[system] = work / system
        except UserError as error:
            folders[system] = error.line()
    return folders


def table(report: dict[str, Any]) -> Iterator[str]:
    """Markdown tables of medians, one for each beam; ratios and their ranges are those of the rounds."""
    for beam in report["beams"]:
        rows = [row for row in report["rows"] if row["beam"] == beam]
        columns = [*dict.fromkeys(name for row in rows for name in row["seconds"])]
        title = "greedy search" if beam == 1 else f"beam {beam}"
        yield f"\n{title}: sentences a second (medians of {report['repeats']} rounds)\n"
        yield f"| system | {' | '.join(columns)} | posnmt fp32 / CTranslate2 fp32 | / that of transformer |"
        yield "|---" * (len(columns) + 3) + "|"
        for system in report["systems"]:
            own = [row for row in rows if row["system"] == system]
            cells = [speed([row["seconds"].get(name) for row in own]) for name in columns]
            both = [row["seconds"] for row in own if "CTranslate2 fp32" in row["seconds"]]
            beside = [seconds["CTranslate2 fp32"] / seconds["posnmt fp32"] for seconds in both]
            base = [row["base"] / row["seconds"]["posnmt fp32"] for row in own]
            yield f"| {' | '.join([f'`{system}`', *cells, spread(beside), spread(base)])} |"


def speed(seconds: list[float | None]) -> str:
    """The median of sentences a second; nothing if it was not measured."""
    known = [SENTENCES / each for each in seconds if each is not None]
    return f"{statistics.median(known):,.0f}" if known else ""


def spread(ratios: list[float]) -> str:
    """A median with its range; nothing if there is no ratio."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})" if ratios else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--size", default="small", choices=["small", "base", "big"])
    parser.add_argument("--systems", nargs="*", default=SHARED, choices=SHARED, metavar="ID")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--out", type=Path, help="JSON file for everything measured")
    parser.add_argument(
        "--table", type=Path, metavar="FILE.json", help="print the tables of a file, and measure nothing"
    )
    arguments = parser.parse_args()
    if arguments.table is not None:
        print("\n".join(table(json.loads(arguments.table.read_text(encoding="utf-8")))))
        return
    systems = ["transformer", *(system for system in arguments.systems if system != "transformer")]
    report: dict[str, Any] = {
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "versions": {
            "torch": torch.__version__, "ctranslate2": ctranslate2.__version__, "python": platform.python_version()
        },
        "size": arguments.size, "sentences": SENTENCES, "written": WRITTEN,
        "repeats": arguments.repeats, "beams": arguments.beams, "systems": systems, "rows": [],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as work:
        folders = converted(systems, arguments.size, Path(work))
        report["not in CTranslate2"] = {name: why for name, why in folders.items() if isinstance(why, str)}
        base = folders["transformer"]
        assert isinstance(base, Path)
        for repeat in range(-1, arguments.repeats):  # the first turn warms up and does not count
            for system in systems if repeat >= 0 else ["transformer"]:
                folder = folders[system]
                print(f"turn {repeat + 1} of {arguments.repeats}: {system}", flush=True)
                for beam in arguments.beams:
                    first = by_ctranslate2(base, "fp32", beam)
                    own = folder if isinstance(folder, Path) else None
                    seconds = dict(measured(system, arguments.size, beam, own))
                    if repeat >= 0:
                        row = {"system": system, "beam": beam, "turn": repeat, "base": first, "seconds": seconds}
                        report["rows"].append(row)
            if arguments.out is not None:
                arguments.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(report)))


if __name__ == "__main__":
    main()
