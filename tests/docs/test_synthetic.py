"""The commands of docs/synthetic.md, run as they stand there on tiny text, with trainings of four updates."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from posnmt.corpora.artificial.pairs import command
from posnmt.data.subword import UNK
from posnmt.run.run import Run
from tests.support.documents import ROOT

TINY = "--set train.steps=4 --set model.size=tiny --set subword.vocabulary=150 --set train.batch=300"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the page begins with."""
    folder = tmp_path_factory.mktemp("synthetic")
    for name, seed in (("one", 1), ("two", 2)):
        command(folder / name, train=120, dev=20, test=20, min_length=3, max_length=6, test_max_length=6, seed=seed)
    files = {
        "train.en": "one/train.source", "train.de": "one/train.target", "dev.en": "one/dev.source",
        "dev.de": "one/dev.target", "test.en": "one/test.source", "mono.de": "two/dev.target",
        "train.en-de.en": "one/train.source", "train.en-de.de": "one/train.target",
        "train.en-fr.en": "two/train.source", "train.en-fr.fr": "two/train.target",
    }  # fmt: skip
    for name, origin in files.items():
        (folder / name).write_bytes((folder / origin).read_bytes())
    return folder


def section(title):
    """The shell commands of a section, with trainings of a few updates."""
    text = (ROOT / "docs" / "synthetic.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```bash\n(.*?)```", text.split(f"\n## {title}")[1].split("\n## ")[0], re.DOTALL)
    tiny, count = re.subn(r"--minutes \d+", TINY, block)
    assert count == block.count("posnmt train")
    return tiny


def run(folder, title):
    start = f'set -e; posnmt() {{ "{sys.executable}" -m posnmt "$@"; }}\n'
    done = subprocess.run(["bash", "-c", start + section(title)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_several_target_languages(folder):
    run(folder, "One model")
    assert len((folder / "test.fr").read_text().splitlines()) == 20
    subwords = Run.open(folder / "runs" / "many").text().source.subwords
    [german, *_], [french, *_] = rows = [subwords.split([f"<2{code}> mo", f"<2{code}> ka"]) for code in ("de", "fr")]
    assert len(german) <= 6
    assert german != french
    for mark, lines in zip(("▁<2de>", "▁<2fr>"), rows, strict=True):
        assert all("".join(line).startswith(f"{mark}▁") for line in lines)
        ids = subwords.encode([mark.replace("▁", "")])[0]
        assert UNK not in ids


@pytest.mark.slow
def test_a_shallow_decoder(folder):
    run(folder, "A shallow decoder")
    teacher, student = (Run.open(folder / "runs" / name) for name in ("teacher", "student"))
    assert (teacher.config.model.decoder.layers, student.config.model.decoder.layers) == (2, 1)
    assert student.config.data.train.target == "distilled.de"


@pytest.mark.slow
def test_back_translated_text(folder):
    run(folder, "Back-translated text")
    sources, targets = ((folder / name).read_text().splitlines() for name in ("mixed.en", "mixed.de"))
    assert len(sources) == len(targets) == 140
    assert [line.startswith("<BT> ") for line in sources] == [False] * 120 + [True] * 20
    assert (folder / "runs" / "mixed" / "model.safetensors").exists()
