"""Build the common workspace: the folder in which the `console` blocks of the pages run (console.py).

    python docs/scripts/workspace.py FOLDER

It contains text of the artificial language pair, a configuration, two trained runs with equal updates and seed, their
translations of the test, and a document of each kind that the pages translate. Everything is made by posnmt's own
commands with fixed seeds. On two cores that other programs used as well, it took seven minutes, nearly all of them for
the two trainings, which run side by side; each computes for less than four.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

CORPUS = "condition artificial --out corpus --train 20000 --test 300 --max-length 14 --test-max-length 42 --seed 1"
LONG = 60
"""Lines of long.en, each longer than any training line."""

RUNS = {"mine": "relative", "other": "transformer"}
"""The name of each run, and its system."""

FILES = {
    "mine.yaml": """\
# A small translator of the artificial pair: two minutes on one core.
data:
  train: {source: train.en, target: train.de}
  dev: {source: dev.en, target: dev.de}
  store: stores
subword: {type: bpe, vocabulary: 1000}
model:
  system: relative
  d_model: 128
  dropout: 0.1
  feed_forward: 512
  heads: 4
  encoder: {layers: 2}
  decoder: {layers: 2}
train:
  steps: 560
  seed: 1
  batch: 1024
  learning_rate: 2e-3
  schedule: {warmup: 84, cooldown: 0.2}
  evaluate_every: 187
  average: 1
decode: {max_ratio: 3.0}
""",
    "page.html": """\
<!DOCTYPE html>
<html lang="en">
<head><title>lo dumo dufo</title></head>
<body>
<h1>Rela tuzu un zufi</h1>
<p>lo dumo pa <b>fisi</b> un zufi zova lo gubi</p>
<p>los tere zufi tuzu lo dumo <img src="rope.png" alt="un zufi"></p>
<pre>posnmt --version</pre>
</body>
</html>
""",
    "messages.po": """\
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: de\\n"

#: window.c:12
msgid "lo dumo tuzu un zufi"
msgstr ""

#: window.c:27
msgid "Rela dufo"
msgstr "Yinoma huyelan"

#: window.c:31
msgid "los dumo fu tuzu lo gubi"
msgstr ""
""",
    "terms.tsv": "migo\thakish\npasu\twujum\n",
}


def main(folder: Path) -> None:
    """Build the workspace in a new folder."""
    folder.mkdir(parents=True)
    texts(folder)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    posnmt(folder, {"prepare": "prepare mine.yaml"})
    trainings = {
        name: f"train mine.yaml --set model.system={system} --out runs/{name}" for name, system in RUNS.items()
    }
    posnmt(folder, {f"train-{name}": command for name, command in trainings.items()})
    posnmt(folder, {f"translate-{name}": f"translate runs/{name} --input test.en --output {name}.de" for name in RUNS})


def texts(folder: Path) -> None:
    """The corpus under the names that the pages use."""
    posnmt(folder, {"corpus": CORPUS})
    corpus = folder / "corpus"
    for side, language in (("source", "en"), ("target", "de")):
        for name in ("train", "dev", "test"):
            (corpus / f"{name}.{side}").rename(folder / f"{name}.{language}")
        lines = (corpus / f"test-long.{side}").read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / f"long.{language}").write_text("".join(lines[:LONG]), encoding="utf-8")
    (corpus / "lexicon.tsv").rename(folder / "lexicon.tsv")
    shutil.rmtree(corpus)


def posnmt(folder: Path, commands: Mapping[str, str]) -> None:
    """Run commands of posnmt side by side, each with one thread: the number of threads changes the last bits.

    Args:
        folder: where they run.
        commands: name → command; what a command prints is in logs/NAME.log.
    """
    begun = time.monotonic()
    (folder / "logs").mkdir(exist_ok=True)
    started = {}
    for name, command in commands.items():
        print(f"posnmt {command}", flush=True)
        line = [sys.executable, "-m", "posnmt", *command.split()]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with (folder / "logs" / f"{name}.log").open("w") as log:
            started[name] = subprocess.Popen(
                line, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
    if failed := [name for name, process in started.items() if process.wait()]:
        sys.exit((folder / "logs" / f"{failed[0]}.log").read_text(encoding="utf-8"))
    print(f"({time.monotonic() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/scripts/workspace.py FOLDER")
    main(Path(sys.argv[1]))
