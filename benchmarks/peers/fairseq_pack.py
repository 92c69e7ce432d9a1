"""fairseq for a GPU machine without a registry, as one folder to carry there.

    python benchmarks/peers/fairseq_pack.py --python PYTHON --out .gpu/fairseq

PYTHON is an interpreter of the version that is there, such as python3.12. Carried is what a machine with torch, NumPy 2
and sacreBLEU lacks, in the versions of constraints-fairseq.txt: fairseq, hydra-core and omegaconf, which hold its
configurations, antlr4-python3-runtime, which hydra-core parses them with, and bitarray, which its data sets import.
fairseq's C++ parts are built for PYTHON and NumPy 2; its examples and their data are left out, and so is what needs
torch's headers (Levenshtein and BASE layers), whose sources are not published. There, put the folder on PYTHONPATH and
start fairseq's commands with `speed_launch.py`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

CONSTRAINTS = Path(__file__).with_name("constraints-fairseq.txt")
CARRIED = ("fairseq", "hydra-core", "omegaconf", "antlr4-python3-runtime", "bitarray")
BUILDERS = ("setuptools", "wheel")
FOR_NUMPY_2 = ("Cython==3.3.1", "numpy==2.5.2")
PIP = "pip==24.0"
"""The last one that takes omegaconf 2.0.6, whose metadata are not valid."""
LEFT_OUT = ("bin", "fairseq/examples")


def main() -> None:
    """Build and install what is carried into the folder, and say its size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="interpreter of the version that is there")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    pins = pinned(CONSTRAINTS.read_text(encoding="utf-8"))
    packages = [pins[name] for name in CARRIED]
    install(packages, [pins[name] for name in BUILDERS], arguments.python, arguments.out)
    size = sum(path.stat().st_size for path in arguments.out.rglob("*") if path.is_file())
    print(f"{' '.join(packages)}: {size / 2**20:.1f} MiB in {arguments.out}")


def pinned(text: str) -> dict[str, str]:
    """`name==version` by name, of the lines of a constraints file."""
    return {line.partition("==")[0]: line for line in text.splitlines() if not line.startswith("#")}


def install(packages: list[str], builders: list[str], python: Path, out: Path) -> None:
    """Build packages with an interpreter and install them into a new folder.

    Raises:
        subprocess.CalledProcessError: pip failed; its message is on standard error.
    """
    if out.exists():
        shutil.rmtree(out)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, PIP, *builders, *FOR_NUMPY_2], check=True)
        subprocess.run(
            [*pip, "--no-build-isolation", "--no-cache-dir", "--no-compile", f"--target={out}", *packages],
            check=True,
            env=os.environ | {"LDFLAGS": "-s"},  # without what only debuggers read: a third of the size
        )
    for each in LEFT_OUT:
        shutil.rmtree(out / each)


if __name__ == "__main__":
    main()
