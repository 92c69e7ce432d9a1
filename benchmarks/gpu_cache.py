"""What was compiled for a GPU, as one file: the caches of Triton and of PyTorch's compiler, for the next machine.

What was compiled is found by its source and by the versions that compiled it; what others compiled is not used.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

VARIABLES = {"triton": "TRITON_CACHE_DIR", "inductor": "TORCHINDUCTOR_CACHE_DIR"}
"""Folder of a file of caches -> the environment variable that names it to the program whose cache it is."""

GROUP = "__grp__"
"""Begins the name of a file that lists, for a kernel of Triton's cache, its files with their whole paths."""

LEFT_OUT = (".source", ".ttir", ".ttgir", ".llir", ".ptx", ".lock")
"""Endings of files that are not needed to run a kernel."""

KEY = "triton_key"
"""The file of Triton's cache with the key of the Triton that compiled it."""


def variables(folder: Path) -> dict[str, str]:
    """The environment that makes the caches in a folder be used."""
    return {variable: str(folder / name) for name, variable in VARIABLES.items()}


def pack(folder: Path, out: Path) -> None:
    """Write the caches in a folder, without what is not needed, as a compressed file by the ending of its name."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(out, "w:xz" if out.suffix == ".xz" else "w:gz") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix not in LEFT_OUT and not path.name.startswith(GROUP):
                tar.add(path, arcname=path.relative_to(folder))


def unpack(packed: Path, folder: Path) -> None:
    """Make the caches of a packed file, with the lists of Triton's files, which have the place of each."""
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="data")
    for path in folder.glob("triton/*/*.json"):
        files = {each.name: str(each) for each in path.parent.iterdir() if each.stem == path.stem}
        path.with_name(GROUP + path.name).write_text(json.dumps({"child_paths": files}), encoding="utf-8")


def kernels(folder: Path) -> int:
    """How many kernels Triton's cache in a folder has."""
    return len(list(folder.glob("triton/*/*.cubin")))
