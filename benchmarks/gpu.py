"""One staged command for a machine with an NVIDIA GPU: what works there, and how fast. Experimental: never run on one.

    python benchmarks/gpu.py --out FILE.json [--limit 570] [--stages NAME ...]     (`make gpu`)
    python benchmarks/gpu.py --out FILE.json --tiny        that it runs, without a GPU

Runs with the Python, PyTorch and Triton that are there: put the repository, and folders with packages that are
missing, on PYTHONPATH. Each stage (benchmarks/gpu_stages.py) is a process with a time limit of its own. FILE.json is
written after each stage, and has what a stage found before it failed or was cut off; FILE.json.d has their logs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

# Stage -> its time limit in seconds, in the order in which they run: first whether it works, then how fast it is.
STAGES = {
    "environment": 40, "tests": 110, "gradients": 60, "run": 110, "training": 90, "graphs": 70, "attention": 70,
    "sanitizer": 40,
}  # fmt: skip
SLOWER = 5
"""Of a stage's limit, with tiny sizes: a busy CPU interprets the kernels."""
HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run the stages; return how many did not end well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=570.0, help="seconds for all stages (%(default)s)")
    parser.add_argument("--stages", nargs="+", choices=list(STAGES), default=list(STAGES))
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, on a CPU")
    arguments = parser.parse_args()
    logs = arguments.out.with_name(arguments.out.name + ".d")
    logs.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + arguments.limit
    found: dict[str, dict[str, Any]] = {name: {"state": "not started"} for name in arguments.stages}
    write(arguments.out, found)
    for name in arguments.stages:
        left = end - time.monotonic()
        if left < 2:
            break
        found[name] = {"state": "running"}
        write(arguments.out, found)
        found[name] = stage(name, logs, min(left, STAGES[name] * (SLOWER if arguments.tiny else 1)), arguments.tiny)
        write(arguments.out, found)
        print(f"{name}: {found[name]['state']} ({found[name]['seconds']:.0f} s)", flush=True)
    return sum(each["state"] != "done" for each in found.values())


def stage(name: str, logs: Path, limit: float, tiny: bool) -> dict[str, Any]:
    """Run one stage; its state, its seconds and the lines that it wrote."""
    lines, work = logs / f"{name}.jsonl", logs / f"{name}.work"
    lines.unlink(missing_ok=True)
    words = [sys.executable, str(HERE / "gpu_stages.py"), name, "--lines", str(lines), "--work", str(work)]
    root = str(HERE.parent)
    places = filter(None, [root, f"{root}/position", os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    began = time.monotonic()
    with (logs / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*words, *(["--tiny"] if tiny else [])], stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env=environment, cwd=root,
        )  # fmt: skip
        try:
            status = process.wait(limit)
            state = "done" if status == 0 else f"failed with status {status}"
        except subprocess.TimeoutExpired:
            state = f"cut off after {limit:.0f} s"
        finally:  # whatever it started ends with it, also if this process is asked to stop
            kill(process)
    result: dict[str, Any] = {"state": state, "seconds": time.monotonic() - began, "lines": read(lines)}
    if state != "done":
        result["log"] = (logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-3000:]
    return result


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read(lines: Path) -> list[Any]:
    """The whole lines of a stage; one that was being written when it was cut off is left out."""
    if not lines.exists():
        return []
    return [json.loads(line) for line in lines.read_text(encoding="utf-8").split("\n")[:-1]]


def write(out: Path, found: dict[str, dict[str, Any]]) -> None:
    """Write the results, all or nothing."""
    partial = out.with_name(out.name + ".partial")
    partial.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, out)


if __name__ == "__main__":
    sys.exit(main())
