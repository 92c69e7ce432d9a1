"""Checkpoints: written atomically, verified before a run is resumed from one, and pruned.

`checkpoints/step-N` holds `model.safetensors`, `optimizer.safetensors`, `state.json`, and `SHA256SUMS` over all three,
in the format of `sha256sum`. Such a folder gets its name when all of it is on the disk, and does not change afterwards,
except that the optimizer's file is removed from older ones. A second checkpoint of one step is `step-N-2`. The files do
not depend on the number of processes or on sharding.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import Optimizer

from posnmt.base.errors import UserError
from posnmt.base.files import sha256_of
from posnmt.base.output import PARTIAL, creating
from posnmt.model.slices import full_tensor, slice_like
from posnmt.model.weights import load_model, save_model, write_tensors
from posnmt.run.run import checkpoints_in, step_and_version

MODEL, OPTIMIZER, STATE, SUMS = "model.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"

COMPLETE = 2
"""Number of checkpoints that keep the optimizer's state: the newest, and one as a fallback."""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run.

    Attributes:
        folder: their folder.
        averaged: number of evaluated checkpoints to keep for averaging.
    """

    folder: Path
    averaged: int

    def commit(
        self, model: nn.Module, moments: dict[str, Tensor], state: dict[str, Any], about: dict[str, Any]
    ) -> Path:
        """Write a new checkpoint; existing ones are not changed.

        Args:
            moments: result of `optimizer_tensors`.
            state: the run's state, for JSON; `state["step"]` is N, and so is `state["evaluated"]` if dev was evaluated.
            about: metadata for the header of the weights file.
        """
        name = f"step-{state['step']:08d}"
        existing = [step_and_version(place) for place in checkpoints_in(self.folder)]
        versions = [version for step, version in existing if step == state["step"]]
        if versions:
            name += f"-{max(versions) + 1}"
        self.folder.mkdir(parents=True, exist_ok=True)
        with creating(self.folder / name) as building:
            save_model(model, building / MODEL, about)
            write_tensors(moments, building / OPTIMIZER)
            (building / STATE).write_text(json.dumps(state, indent=1), encoding="utf-8")
            sums = "".join(f"{sha256_of(building / each)}  {each}\n" for each in (MODEL, OPTIMIZER, STATE))
            (building / SUMS).write_text(sums, encoding="utf-8")
        return self.folder / name

    def prune(self) -> None:
        """Remove all but the newest complete checkpoints and the weights for the average."""
        places = checkpoints_in(self.folder)
        states, averaged = places[-COMPLETE:], self.to_average()
        for place in places:
            if place not in states and place not in averaged:
                os.replace(place, self.folder / f".{place.name}{PARTIAL}")
            elif place not in states:
                (place / OPTIMIZER).unlink(missing_ok=True)
        for partial in self.folder.glob(f".step-*{PARTIAL}"):
            shutil.rmtree(partial)

    def to_average(self) -> list[Path]:
        """The newest evaluated checkpoints, one for each step, oldest first."""
        by_step = {step_and_version(place)[0]: place for place in checkpoints_in(self.folder) if evaluated(place)}
        return list(by_step.values())[-self.averaged :]

    def sound_to_average(self, say: Callable[[str], None]) -> list[Path]:
        """The checkpoints of `to_average` with undamaged weights; damaged ones are reported."""
        faults = {place: damage(place, complete=False) for place in self.to_average()}
        for place, fault in faults.items():
            if fault is not None:
                say(f"warning: checkpoint {place.name} is damaged ({fault}) and left out of the average")
        return [place for place, fault in faults.items() if fault is None]

    def undamaged(self, say: Callable[[str], None]) -> Path | None:
        """The newest undamaged checkpoint; None if the run has no checkpoints.

        Damaged checkpoints that are newer are reported and renamed to `NAME.damaged`.

        Raises:
            UserError: every checkpoint is damaged.
        """
        faults: dict[Path, str] = {}
        for place in reversed(checkpoints_in(self.folder)):
            fault = damage(place, complete=True)
            if fault is None:
                for other, reason in faults.items():
                    say(f"warning: checkpoint {other.name} is damaged ({reason}); resuming from {place.name}")
                    os.replace(other, other.with_name(f"{other.name}.damaged"))
                return place
            faults[place] = fault
        if faults:
            named = "; ".join(f"{place.name}: {fault}" for place, fault in faults.items())
            raise UserError(
                f"no undamaged checkpoint is left to resume from: {named}", self.folder,
                "restore one from a copy, or start a new run with another --out",
            )  # fmt: skip
        return None


def evaluated(place: Path) -> bool:
    """Whether dev was evaluated at a checkpoint."""
    try:
        state = read_state(place)
    except (OSError, ValueError):
        return False
    return bool(state["evaluated"] == state["step"])


def read_state(place: Path) -> dict[str, Any]:
    """The run's state at a checkpoint.

    Raises:
        OSError, ValueError: the file is missing, or is not JSON.
    """
    try:
        state = json.loads((place / STATE).read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(state, dict) or not all(isinstance(state.get(name), int) for name in ("step", "evaluated")):
        raise ValueError(f"{STATE} is not the state of a run")
    return state


def damage(place: Path, complete: bool) -> str | None:
    """What is damaged in the files of a checkpoint; None if nothing is.

    Args:
        complete: whether the optimizer's state must exist, which older checkpoints lack.
    """
    names = [MODEL, STATE] + [OPTIMIZER] * complete
    missing = [name for name in names if not (place / name).exists()]
    if missing:
        return f"it has no {missing[0]}"
    try:
        read_state(place)
        lines = (place / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        return str(error)
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    changed = [name for name in names if sums.get(name) != sha256_of(place / name)]
    return f"{changed[0]} is not what was written" if changed else None


def load_checkpoint(place: Path, model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Restore model and optimizer from a checkpoint; return the run's state."""
    load_model(model, place / MODEL)
    _restore_optimizer(load_file(place / OPTIMIZER), model, optimizer)
    return read_state(place)


def optimizer_tensors(model: nn.Module, optimizer: Optimizer, keep: bool) -> dict[str, Tensor]:
    """The optimizer's moments and step counts under `parameter/moment` names, unsharded and on the CPU.

    Args:
        keep: whether to return them in this process; every process must call this, since gathering is collective.
    """
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    tensors = {}
    for parameter, moments in optimizer.state.items():
        for key, value in moments.items():
            tensor = full_tensor(value.detach())
            if keep:
                tensors[f"{names[parameter]}/{key}"] = tensor.cpu().contiguous()
    return tensors


def _restore_optimizer(tensors: dict[str, Tensor], model: nn.Module, optimizer: Optimizer) -> None:
    """Load the state of an optimiser from the tensors of `optimizer_tensors`."""
    optimizer.state.clear()  # before the first update there are none; in place, since Muon shares it with its AdamW
    parameters = dict(model.named_parameters())
    for name, tensor in tensors.items():
        parameter_name, key = name.rsplit("/", 1)
        parameter = parameters[parameter_name]
        single = key == "step"  # a scalar, which is not sharded
        optimizer.state[parameter][key] = tensor.to(parameter.device) if single else slice_like(tensor, parameter)
