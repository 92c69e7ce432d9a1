"""One staged command for a machine with an NVIDIA GPU: what works there, and how fast.

    python benchmarks/gpu.py --out FILE.json [--limit 480] [--stages NAME ...]     (`make gpu`)
    python benchmarks/gpu.py --out FILE.json --tiny        that it runs, without a GPU

Runs with the Python, PyTorch and Triton that are there: put folders with packages that are missing on PYTHONPATH. Each
stage (benchmarks/gpu_stages.py) is a process with a time limit of its own. Those that find whether it works run at the
same time; then those that find how fast it is, one after the other. FILE.json is written as lines come in, and has what
a stage found before it failed or was cut off; FILE.json.d has the logs. `--caches` reads what gpu_kernels.py compiled,
or what an earlier run compiled and wrote with `--keep`.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_cache import kernels, pack, unpack, variables

# Stage -> its time limit in seconds. First whether it works, then how fast it is.
TOGETHER = {
    "environment": 60, "tests": 165, "gradients": 120, "run": 165, "compiled": 165, "agreement": 120, "sanitizer": 120,
}  # fmt: skip
ALONE = {"ceilings": 15, "step": 150, "profile": 35, "graphs": 60, "attention": 50}
LIMITS = TOGETHER | ALONE
SLOWER = 5
"""Of a stage's limit, with tiny sizes: a busy CPU interprets the kernels."""
SHOWN = 300
"""Characters of a line that are printed; the file has all."""
ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Stage:
    """A stage that was started.

    Attributes:
        began, limit: in seconds.
        lines: that it wrote; `read` says how many characters of its file they are.
        state: running, done, failed or cut off.
    """

    name: str
    process: subprocess.Popen[bytes]
    folder: Path
    limit: float
    began: float = field(default_factory=time.monotonic)
    lines: list[Any] = field(default_factory=list)
    read: int = 0
    state: str = "running"

    def look(self) -> bool:
        """Read new whole lines, print them, and see whether it has ended; whether there is anything new."""
        status, late = self.process.poll(), time.monotonic() - self.began > self.limit
        if status is None and late:
            self.state = f"cut off after {self.limit:.0f} s"
        elif status is not None:
            self.state = "done" if status == 0 else f"failed with status {status}"
        if self.state != "running":
            end(self.process)
        path = self.folder / f"{self.name}.jsonl"
        text = path.read_text(encoding="utf-8")[self.read :] if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        self.read += len(whole)
        for line in whole.splitlines():
            self.lines.append(json.loads(line))
            print(f"{self.name} {line[:SHOWN]}", flush=True)
        return bool(whole) or self.state != "running"

    @property
    def found(self) -> dict[str, Any]:
        """The entry of the file of results."""
        result = {"state": self.state, "seconds": time.monotonic() - self.began, "lines": self.lines}
        if self.state not in ("running", "done"):
            result["log"] = (self.folder / f"{self.name}.log").read_text(encoding="utf-8", errors="replace")[-3000:]
        return result


def main() -> int:
    """Run the stages; return how many did not end well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=480.0, help="seconds for all stages (%(default)g)")
    parser.add_argument("--stages", nargs="+", choices=list(LIMITS), default=list(LIMITS))
    parser.add_argument("--caches", nargs="+", type=Path, default=[], help="files of compiled kernels")
    parser.add_argument("--keep", type=Path, help="where to write what was compiled, for --caches of a later run")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, on a CPU")
    arguments = parser.parse_args()
    last = time.monotonic() + arguments.limit
    logs = arguments.out.with_name(arguments.out.name + ".d").resolve()
    caches = logs / "caches"
    caches.mkdir(parents=True, exist_ok=True)
    for packed in arguments.caches:
        unpack(packed, caches)
    found: dict[str, dict[str, Any]] = {name: {"state": "not started"} for name in arguments.stages}
    write(arguments.out, found)
    before = kernels(caches)
    together = [name for name in arguments.stages if name in TOGETHER]
    for group in filter(None, [together, *([name] for name in arguments.stages if name in ALONE)]):
        if last - time.monotonic() > 2:
            run(group, logs, last, arguments, found)
    if arguments.keep is not None:
        pack(caches, arguments.keep)
    print(f"kernels in Triton's cache: {before} at the beginning, {kernels(caches)} at the end")
    return sum(each["state"] != "done" for each in found.values())


def run(names: list[str], logs: Path, last: float, arguments: argparse.Namespace, found: dict[str, Any]) -> None:
    """Run stages at once until each has ended or its time is over, and write what they find as they find it."""
    slower = SLOWER if arguments.tiny else 1
    stages = [
        Stage(name, start(name, logs, arguments.tiny), logs, min(last - time.monotonic(), LIMITS[name] * slower))
        for name in names
    ]
    try:
        while any(stage.state == "running" for stage in stages):
            time.sleep(0.25)
            changed = [stage for stage in stages if stage.state == "running" and stage.look()]
            for stage in changed:
                found[stage.name] = stage.found
                if stage.state != "running":
                    print(f"{stage.name}: {stage.state} ({found[stage.name]['seconds']:.0f} s)", flush=True)
            if changed:
                write(arguments.out, found)
    finally:  # whatever they started ends with them, also if this process is asked to stop
        for stage in stages:
            if stage.state == "running":
                end(stage.process)


def start(name: str, logs: Path, tiny: bool) -> subprocess.Popen[bytes]:
    """Start the process of a stage."""
    lines = logs / f"{name}.jsonl"
    lines.unlink(missing_ok=True)
    words = [sys.executable, str(ROOT / "benchmarks" / "gpu_stages.py"), name, "--lines", str(lines)]
    words += ["--work", str(logs / f"{name}.work"), *(["--tiny"] if tiny else [])]
    places = filter(None, [str(ROOT), f"{ROOT}/position", os.environ.get("PYTHONPATH")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), **variables(logs / "caches")}
    if name in TOGETHER:
        environment["OMP_NUM_THREADS"] = "2"
    with (logs / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=environment, cwd=ROOT
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def write(out: Path, found: dict[str, dict[str, Any]]) -> None:
    """Write the results, all or nothing."""
    partial = out.with_name(out.name + ".partial")
    partial.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, out)


if __name__ == "__main__":
    sys.exit(main())
