"""A neural metric of somebody else, whose program is plain Python and needs one package, which lies in a folder.

Its score is the share of an output's words that are in the reference. The file `mode` of its model says how it fails.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from posnmt.base import plugins
from tests.support.plugin import install

PACKAGE = """
def share(words, others):
    return sum(word in others for word in words) / max(1, len(words))
"""
PROGRAM = """
import math, os, signal, sys
from pathlib import Path

import tinyscore

PACKAGES = ("tinyscore",)


def find(model, get, reference):
    folder = get(model)
    if not Path(folder, "mode").exists():
        raise ValueError(f"{model} has no mode")
    return {"model": folder}


def load(paths, reference):
    mode = Path(paths["model"], "mode").read_text()
    calls = []

    def score(sentences):
        print("not a report")
        calls.append(len(sentences))
        if "COUNTED" in os.environ:
            with open(os.environ["COUNTED"], "a") as file:
                file.write(f"{len(sentences)}\\n")
        last = mode.partition(" ")[2] == "" or len(calls) > int(mode.partition(" ")[2])
        if last and mode.startswith("crash"):
            print("first line", "second line", "third line", "", sep="\\n", file=sys.stderr, flush=True)
            os._exit(3)
        if last and mode.startswith("raise"):
            raise KeyError("a name")
        if last and mode.startswith("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        if last and mode.startswith("memory"):
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        if mode == "fewer":
            sentences = sentences[1:]
        scores = []
        for each in sentences:
            words, others = each["hypothesis"].split(), each["reference"].split()
            scores.append((tinyscore.share(words, others), len(words) > 9))
        if mode == "nan":
            scores[-1] = (math.nan, False)
        if mode == "infinite":
            scores[-1] = (math.inf, False)
        return scores

    return score
"""
METRIC = """
from pathlib import Path

from posnmt.metrics.neural.metric import NeuralMetric

HERE = Path(__file__).parent
OVERLAP = NeuralMetric("Overlap", decimals=3, program=HERE / "program.py", packages=HERE / "packages.txt")
OLD = NeuralMetric("Old", program=HERE / "program.py", packages=HERE / "other.txt", pythons=("2.7",))
"""


def expected(output: str, reference: str) -> float:
    """The score of a sentence."""
    words = output.split()
    return sum(word in reference.split() for word in words) / max(1, len(words))


def wheel(folder: Path, version: str = "1.0") -> None:
    """Write the wheel of the package that the program needs."""
    info = f"tinyscore-{version}.dist-info"
    files = {
        "tinyscore.py": PACKAGE,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tinyscore\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"tinyscore-{version}-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))


def model(folder: Path, mode: str = "") -> Path:
    """Write a model, in a folder named after its mode."""
    path = folder / (mode.replace(" ", "-") or "good")
    path.mkdir(parents=True, exist_ok=True)
    (path / "mode").write_text(mode)
    return path


def package(folder: Path) -> None:
    """Install the package with the metric, `overlap`, into `folder`, and write its wheel to `folder/from`."""
    parts = {"overlap_metric.py": METRIC, "program.py": PROGRAM}
    install(folder, "overlap", "1.0", {"posnmt.metrics": {"overlap": "overlap_metric:OVERLAP"}}, parts)
    (folder / "packages.txt").write_text("# one package\ntinyscore==1.0\n")
    (folder / "other.txt").write_text("tinyscore==2.0\n")
    (folder / "from").mkdir(exist_ok=True)
    wheel(folder / "from")


@contextmanager
def offered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the package, so that this process knows it."""
    package(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(plugins, "_loaded", {})
    yield folder
