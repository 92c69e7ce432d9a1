"""Checkpoints: weights in safetensors, no pickle; written whole or not at all; and their average.

A checkpoint folder `checkpoints/step-N` holds `model.safetensors`, and the newest also what a resumed run needs:
`optimizer.safetensors` and `state.json`, the last file written, which makes the folder valid. The files are the same
however many processes made them, and whether or not each had only a slice of the model.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from posnmt.errors import UserError
from posnmt.train.sharding import slice_like, whole


def save_model(model: nn.Module, path: Path, about: dict[str, Any]) -> None:
    """Write the weights of a model, shared matrices once, with facts about them in the file's header."""
    named = {name: parameter.detach().cpu().contiguous() for name, parameter in model.named_parameters()}
    save_tensors(named, path, about)


def save_tensors(tensors: dict[str, Tensor], path: Path, about: dict[str, Any]) -> None:
    """Write tensors to a safetensors file, in place only when complete."""
    partial = path.with_name(path.name + ".partial")
    save_file(tensors, partial, metadata={key: json.dumps(value) for key, value in about.items()})
    os.replace(partial, path)


def load_model(model: nn.Module, path: Path) -> dict[str, Any]:
    """Read the weights of a model, or of this process's slice of it, from a file, and the facts in its header.

    Raises:
        UserError: no such file, not safetensors, or weights of another model (names or shapes differ).
    """
    if not path.exists():
        raise UserError("no such checkpoint", path, "train the model first, or name another checkpoint")
    try:
        tensors = load_file(path)
        with safe_open(path, framework="pt") as file:
            about = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
    except (SafetensorError, json.JSONDecodeError) as error:
        raise UserError(f"not a readable safetensors file: {error}", path, "copy it again from where it came") from None
    wanted = dict(model.named_parameters())
    faults = [f"{name} is missing" for name in wanted if name not in tensors]
    faults += [f"{name} is not in this model" for name in tensors if name not in wanted]
    faults += [
        f"{name} is {list(tensors[name].shape)}, not {list(parameter.shape)}"
        for name, parameter in wanted.items()
        if name in tensors and tensors[name].shape != parameter.shape
    ]
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise UserError(
            f"the checkpoint was made with another config: {'; '.join(faults[:3])}{more}", path,
            "use the config.yaml that was written with it",
        )  # fmt: skip
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(slice_like(tensors[name], parameter))
    return about


def save_checkpoint(
    folder: Path, model: nn.Module, moments: dict[str, Tensor], state: dict[str, Any], about: dict[str, Any], keep: int
) -> Path:
    """Write `folder/step-N`; keep the newest `keep` checkpoints, and of the older ones the weights alone.

    Args:
        moments: the optimizer's, of `optimizer_tensors`, whole and on the CPU.
        state: the run's state, JSON; `state["step"]` is N.
    """
    place = folder / f"step-{state['step']:08d}"
    building = folder / f".{place.name}.partial"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    save_model(model, building / "model.safetensors", about)
    save_file(moments, building / "optimizer.safetensors")
    (building / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")
    shutil.rmtree(place, ignore_errors=True)
    os.replace(building, place)
    for older in checkpoints(folder)[:-1]:
        (older / "optimizer.safetensors").unlink(missing_ok=True)
    for oldest in checkpoints(folder)[:-keep]:
        shutil.rmtree(oldest)
    return place


def checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    found = [path for path in folder.glob("step-*") if re.fullmatch(r"step-\d+", path.name)]
    return sorted(path for path in found if (path / "state.json").exists())


def load_checkpoint(place: Path, model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    """Put model and optimizer back to where a checkpoint was written; its state."""
    load_model(model, place / "model.safetensors")
    if not (place / "optimizer.safetensors").exists():
        raise UserError("this checkpoint has no optimizer state, so training cannot go on from it", place)
    _restore_optimizer(load_file(place / "optimizer.safetensors"), model, optimizer)
    state: dict[str, Any] = json.loads((place / "state.json").read_text(encoding="utf-8"))
    return state


def average(places: list[Path]) -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, summed in float64."""
    total: dict[str, Tensor] = {}
    for place in places:
        for name, tensor in load_file(place / "model.safetensors").items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    kinds = load_file(places[0] / "model.safetensors")
    return {name: (value / len(places)).to(kinds[name].dtype) for name, value in total.items()}


def optimizer_tensors(model: nn.Module, optimizer: Optimizer, keep: bool) -> dict[str, Tensor]:
    """Adam's moments and step counts under `parameter/moment` names, whole and on the CPU.

    Args:
        keep: whether this process wants them; each must ask, for where moments are shared out all take part.
    """
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    found = {}
    for parameter, moments in optimizer.state.items():
        for key, value in moments.items():
            tensor = whole(value.detach())
            if keep:
                found[f"{names[parameter]}/{key}"] = tensor.cpu().contiguous()
    return found


def _restore_optimizer(tensors: dict[str, Tensor], model: nn.Module, optimizer: Optimizer) -> None:
    """The transpose of `optimizer_tensors`."""
    parameters = dict(model.named_parameters())
    for name, tensor in tensors.items():
        parameter_name, key = name.rsplit("/", 1)
        parameter = parameters[parameter_name]
        single = key == "step"  # a number, of which every process has all
        optimizer.state[parameter][key] = tensor.to(parameter.device) if single else slice_like(tensor, parameter)
