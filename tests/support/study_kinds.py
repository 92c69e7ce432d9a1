"""Small kinds of steps for the tests of the runner; a module, so that the steps' processes can import it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

from posnmt.base.errors import UserError
from posnmt.base.interrupt import Interrupted, StopSignal
from posnmt.study.workflow.kind import Context, Kind


def write(context: Context) -> None:
    """The text of its settings, its inputs and its files, one after the other; and a line in a list of all starts."""
    _count(context, "written")
    time.sleep(context.settings.get("seconds", 0))
    parts = [context.settings["text"]]
    parts += [(folder / "text").read_text() for _, folder in sorted(context.inputs.items())]
    parts += [path.read_text() for _, path in sorted(context.files.items())]
    (context.folder / "text").write_text("".join(parts))


def pieces(context: Context) -> None:
    """Some pieces of work, each saved; it goes on after those that are there, and hears that it is to stop.

    After each it waits as long as the file `hold` exists, so that a test decides when it may end.
    """
    _count(context, "begun")
    with StopSignal() as stop:
        for number in range(context.settings["pieces"]):
            piece = context.folder / f"{number}.piece"
            if not piece.exists():
                piece.write_text(str(number))
                _count(context, "piece")
            context.say(f"piece {number}")
            while Path(context.settings["hold"]).exists() and not stop.heard:
                time.sleep(0.02)
            if stop.heard:
                raise Interrupted("the pieces are saved")


def company(context: Context) -> None:
    """It ends when so many such steps have begun."""
    _count(context, "begun")
    while Path(context.settings["list"]).read_text().count("begun") < context.settings["company"]:
        time.sleep(0.02)
    _count(context, "ended")


def fail(context: Context) -> None:
    """In the way that is asked for, unless the file that mends it is there."""
    if not Path(context.settings["mended"]).exists():
        how = context.settings["how"]
        if how == "mistake":
            raise UserError("the text is empty", "some.txt:3", "put something in")
        if how == "fault":
            print("before the fault")
            raise ZeroDivisionError("of ours")
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(7)
    (context.folder / "text").write_text("mended")


def fill(context: Context) -> None:
    """More bytes than there is room for."""
    (context.folder / "large").write_bytes(bytes(context.settings["bytes"]))


def full(context: Context) -> None:
    """What the system says when nothing more can be written."""
    with Path("/dev/full").open("wb", buffering=0) as device:
        device.write(b"x")


def ranks(context: Context) -> None:
    """The processes that torchrun started meet; each writes its number, and what all numbers add up to."""
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    total = torch.tensor([distributed.get_rank()])
    distributed.all_reduce(total)
    rank, world = distributed.get_rank(), distributed.get_world_size()
    (context.folder / f"rank-{rank}").write_text(f"{world} {total.item()}")
    distributed.barrier()
    distributed.destroy_process_group()


def given(context: Context) -> None:
    """What its process was given."""
    names = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
    (context.folder / "text").write_text(" ".join(os.environ.get(name, "-") for name in names))


def changes_input(context: Context) -> None:
    """A step during which somebody edits its file."""
    for path in context.files.values():
        path.write_text("edited")


def link(context: Context) -> None:
    """A folder in its folder, and a name that is not ASCII."""
    (context.folder / "déjà" / "vu").mkdir(parents=True)
    (context.folder / "déjà" / "vu" / "a b").write_text("x")
    shutil.copyfile(context.folder / "déjà" / "vu" / "a b", context.folder / "copy")


def _count(context: Context, what: str) -> None:
    """Add a line to the list outside of the study by which the tests know what was really done."""
    with Path(context.settings["list"]).open("a") as file:
        file.write(f"{what} {context.settings.get('text', '')}\n")


KINDS = {
    name: Kind(run, 1)
    for name, run in {
        "write": write, "pieces": pieces, "company": company, "fail": fail, "fill": fill, "full": full,
        "ranks": ranks, "given": given,
        "changes-input": changes_input, "link": link,
    }.items()
}  # fmt: skip
KINDS["on-gpu"] = Kind(given, 1, uses_gpu=True)
NEWER = {**KINDS, "write": Kind(write, 2)}
