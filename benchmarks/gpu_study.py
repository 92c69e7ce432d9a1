"""A study on a GPU that is lent for minutes: many small trainings share it, and the published copy is what comes back.

    python benchmarks/gpu_study.py pack --study DIR --out FILE.tar.xz
    python benchmarks/gpu_study.py run FILE.tar.xz --study DIR --out FOLDER [--seconds 570] [--per-gpu 15] \\
        [--first PATTERN ...] [--weights PATTERN]

`pack`, here: the finished texts and stores of a study, without what trainings do not read, and what it has adopted from
a published copy, which is not made again. `run`, there: train, translate and score as much as the time allows, in the
order of the patterns of `--first`, then all else; write FOLDER/copy.tar, as `posnmt study publish` makes it, and models
that `--weights` names. A later call goes on. Here, `posnmt study run --adopt COPY` takes over trainings, translations
and losses, and analyses them.

Steps are forked from a process that has loaded PyTorch, since loading it takes longer than many translations.
If there is NVIDIA's service for several processes (MPS), start it before, with `nvidia-cuda-mps-control -d`: without it
a GPU computes for one process at a time. POSNMT_KERNELS=never saves the time that our kernels take to compile.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import pickle
import shutil
import signal
import sys
import tarfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from posnmt.base.files import read_json
from posnmt.data.store import Store
from posnmt.evaluation.analyse import scoring
from posnmt.study import study
from posnmt.study.copied_losses import FOLDER as ADOPTED
from posnmt.study.plan import KINDS, Plan
from posnmt.study.publish import publish
from posnmt.study.steps import store_of
from posnmt.study.workflow import executors, runner
from posnmt.study.workflow.execute import main as run_step
from posnmt.study.workflow.folder import LOG, STUDY, alteration
from posnmt.study.workflow.graph import HASHES, Graph, Step

TRAINED, LEFT_OUT = "train.arrow", ("dropped.tsv",)
"""The file of a store that trainings read, and those that they do not. Nor do they read the texts that it is of."""
MADE = ("train", "translate", "likelihood")
"""Kinds of steps that are run there."""
KEPT = 40
"""Seconds of each call that are left for writing the copy."""


def main() -> int:
    """Pack, or run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("--study", type=Path, required=True)
    packing.add_argument("--out", type=Path, required=True)
    running = commands.add_parser("run")
    running.add_argument("packed", type=Path)
    running.add_argument("--study", type=Path, required=True)
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--seconds", type=float, default=570.0, help="for all of it (%(default)s)")
    running.add_argument("--scoring", type=float, default=60.0, help="of these, to score; 0: only train (%(default)s)")
    running.add_argument("--per-gpu", type=int, default=15, help="steps that share the GPU (%(default)s)")
    running.add_argument("--first", nargs="*", default=[], help="patterns of steps, in the order to run them in")
    running.add_argument("--weights", default="", help="pattern of trainings whose models come back")
    arguments = parser.parse_args()
    if arguments.command == "pack":
        pack(arguments.study, arguments.out)
        return 0
    began = time.monotonic()
    unpack(arguments.packed, arguments.study)
    os.environ["OMP_NUM_THREADS"] = "1"
    load()
    run(arguments, began)
    return 0


def pack(folder: Path, out: Path) -> None:
    """Write the finished texts and stores of a study, and what it has without weights, as a tar file."""
    study_plan = study.load_plan(folder)
    graph = Graph(study_plan.steps.values(), KINDS)
    read = {need for step in graph.steps.values() if step.kind != "prepare" for need in step.needs.values()}
    bulky = {graph.steps[name].needs["train"] for name in read if graph.steps[name].kind == "prepare"}
    out.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(out, "w:xz", preset=6) as tar:
        for name in (study.REQUEST, STUDY, HASHES):
            if (folder / name).exists():
                tar.add(folder / name, arcname=name)
        finished = {graph.folder(folder, name): name for name in study.finished(graph, folder)}  # some share a folder
        places = {
            place: name
            for place, name in finished.items()
            if graph.steps[name].kind not in MADE or not any(place.rglob("*.safetensors"))
        }
        trainings = [step for step in graph.steps.values() if step.kind == "train"]
        left = [step for step in trainings if graph.folder(folder, step.name) not in places]
        stores = {graph.folder(folder, need) for step in left for need in step.needs.values()}
        if (folder / ADOPTED).exists():
            tar.add(folder / ADOPTED, arcname=ADOPTED)
        for place, name in places.items():
            for path in sorted(place.rglob("*")):
                text = name in bulky and path.suffix != ".json"
                unread = path.name in LEFT_OUT or (path.name == TRAINED and place not in stores)
                if path.is_file() and not text and not unread:
                    tar.add(path, arcname=path.relative_to(folder))
    print(f"{out}: {out.stat().st_size / 2**20:.1f} MiB")


def unpack(packed: Path, folder: Path) -> None:
    """Restore a study; corpora and texts that are not read are replaced by files of zeros of their size."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="data")
    for name, (size, changed, _) in (read_json(folder / HASHES) or {}).items():
        if not Path(name).exists():  # its hash is known by size and time, so nothing reads it
            stand_in(Path(name), size, changed)
    for done in folder.glob("steps/*/*/done.json"):
        for name, facts in (read_json(done) or {})["files"].items():
            if (path := done.parent / name).exists():
                os.utime(path, ns=(facts["mtime_ns"], facts["mtime_ns"]))  # a tar file rounds it
            else:
                stand_in(path, facts["size"], facts["mtime_ns"])


def stand_in(path: Path, size: int, changed: int) -> None:
    """A file of zeros with the size and the time of another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    os.utime(path, ns=(changed, changed))


def load() -> None:
    """Import what steps import, but do not touch the GPU: a process that has cannot fork others that use it."""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    import lightning_fabric  # noqa: F401
    import numpy  # noqa: F401
    import sacrebleu  # noqa: F401
    import torch

    import posnmt.evaluation.analyse.likelihood
    import posnmt.study.trainings
    import posnmt.training.train
    import posnmt.translate.command  # noqa: F401

    torch.set_num_threads(1)


class Forked:
    """A step in a child of this process, as `subprocess.Popen` has it."""

    def __init__(self, work: Callable[[], int], log: Path, environment: Mapping[str, str]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._status: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        status = 1
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.environ.update(environment)
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def poll(self) -> int | None:
        """None while it runs, then its exit status."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status


def forks() -> bool:
    """Whether a forked process can use the GPU, if there is one."""
    import torch

    child = Forked(
        lambda: int(bool(gpus()) and not torch.ones(1, device="cuda").isfinite().all()), Path(os.devnull), {}
    )
    while child.poll() is None:
        time.sleep(0.02)
    return child.poll() == 0


def launch(words: list[str], folder: Path, cores: int, environment: Mapping[str, str]) -> Forked:
    """As `executors.launch`, without a new interpreter."""
    out, key = words[-2:]
    return Forked(lambda: run_step(Path(out), key), folder / LOG, environment)


EXPECTED = scoring.Scoring._expected


def expected(self: Any, group: Sequence[Any], test: Any, say: Callable[[str], None], processes: int) -> Any:
    """As `Scoring._expected`, with the models shared out to several processes."""
    shares = [group[first::processes] for first in range(min(processes, len(group)))]
    folder = Path(os.environ["SCORED"])
    folder.mkdir(parents=True, exist_ok=True)

    def one(number: int) -> int:
        found = EXPECTED(self, shares[number], test, say)
        (folder / f"{os.getppid()}-{number}").write_bytes(pickle.dumps(found))
        return 0

    children = [Forked(lambda number=number: one(number), folder / "log", {}) for number in range(len(shares))]
    while any(child.poll() is None for child in children):
        time.sleep(0.02)
    if faults := [child.poll() for child in children if child.poll()]:
        raise RuntimeError(f"scoring ended with {faults}; see {folder / 'log'}")
    files = [folder / f"{os.getpid()}-{number}" for number in range(len(shares))]
    parts = [pickle.loads(path.read_bytes()) for path in files]  # noqa: S301 - our own, of a moment ago
    return {
        name: [parts[place % len(shares)][name][place // len(shares)] for place in range(len(group))]
        for name in parts[0]
    }


def run(arguments: argparse.Namespace, began: float) -> None:
    """Train and translate until the time for scoring, score, and write the copy."""
    out: Path = arguments.study
    study_plan = study.load_plan(out)
    per_gpu = arguments.per_gpu
    where = executors.Where("local", None, per_gpu)
    os.environ["SCORED"] = str(out / "scored")
    texts = {name for name, step in study_plan.steps.items() if step.kind not in MADE}

    def trusted(folder: Path, thorough: bool) -> str | None:  # what was left out is not read
        return alteration(folder, thorough) if folder.parent.name in MADE else None

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} {line}", flush=True)

    def scored(self: Any, group: Any, test: Any, progress: Any) -> Any:
        return expected(self, group, test, progress, per_gpu)

    if not forks():
        sys.exit("a forked process cannot use the GPU: something touched it before")
    with (
        patch.object(executors, "launch", launch),
        patch.object(runner, "gpus", gpus),
        patch.object(runner, "available_cores", lambda: max(per_gpu, os.cpu_count() or 1)),
        patch.object(runner, "alteration", trusted),
        patch("posnmt.study.workflow.status.alteration", trusted),
        patch.object(scoring.Scoring, "_expected", scored),
        patch("posnmt.training.train.prepared", lambda config, *_, **__: Store.open(store_of(Path(config.data.store)))),
    ):
        until = began + arguments.seconds - arguments.scoring - KEPT
        try:
            runner.run(Graph(ordered(study_plan, arguments.first), KINDS), out, where, say, until=until)
        except KeyboardInterrupt:
            say("the time for training is over")
        if not arguments.scoring:
            return
        graph, _ = study.with_analyses(study_plan, out)
        steps = [step for step in graph.steps.values() if step.kind == "likelihood"]
        needed = texts | {need for step in steps for need in step.needs.values()}
        steps += [graph.steps[name] for name in needed]
        try:
            once = executors.Where("local", None, 1)
            runner.run(Graph(steps, KINDS), out, once, say, until=began + arguments.seconds - KEPT)
        except KeyboardInterrupt:
            say("the time for scoring is over")
        write(study_plan, out, arguments.out, arguments.weights)
        say("written")


def gpus() -> list[str]:
    """The first GPU, if there is one, without asking PyTorch, which would touch it."""
    return ["0"] if shutil.which("nvidia-smi") else []


def ordered(study_plan: Plan, first: Sequence[str]) -> list[Step]:
    """Texts, trainings and translations: those of the first pattern first, seed by seed, then those of the second."""

    def rank(step: Step) -> int:
        return next((place for place, pattern in enumerate(first) if fnmatch.fnmatchcase(step.name, pattern)), 99)

    steps = (step for step in study_plan.steps.values() if step.kind != "speed")
    return sorted(study.seed_by_seed(study_plan, steps), key=rank)


def write(study_plan: Plan, out: Path, to: Path, weights: str) -> None:
    """Write the published copy as a tar file, and the models that a pattern names, with the logs of failed steps."""
    to.mkdir(parents=True, exist_ok=True)
    graph = Graph(study_plan.steps.values(), KINDS)
    copy = out.with_name(f"{out.name}-copy")
    publish(study_plan, out, copy)
    with tarfile.open(to / "copy.tar", "w") as tar:
        tar.add(copy, arcname="copy")
    with tarfile.open(to / "failed.tar", "w") as tar:
        for path in out.glob("steps/*/*/failed.json"):
            for each in (path, path.with_name(LOG)):
                tar.add(each, arcname=each.relative_to(out))
    for name in (name for name in study.finished(graph, out) if fnmatch.fnmatchcase(name, weights)):
        model = graph.folder(out, name) / "run" / "model.safetensors"
        shutil.copyfile(model, to / f"{name.replace('/', '.').replace('+', '-')}.safetensors")


if __name__ == "__main__":
    sys.exit(main())
