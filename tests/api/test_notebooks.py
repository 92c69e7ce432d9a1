"""The notebooks run from top to bottom in a fresh kernel, as they are but for fewer updates.

WMT's outputs may not be stored here, so that notebook reads a file of WMT's form with sentences of the artificial pair.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from posnmt.corpora.artificial.pairs import generate
from tests.support.sources import SOURCES

FOLDER = Path(__file__).parents[2] / "notebooks"
UPDATES = {"train_and_look": 700, "add_a_scheme": 400}

pytestmark = pytest.mark.slow


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]) -> list[str]:
    """Execute a notebook in `folder`; what its cells printed."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    for old, new in changes.items():
        [cell] = [each for each in notebook.cells if old in each.source]
        cell.source = cell.source.replace(old, new)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any({"image/png", "image/svg+xml"} & set(output.get("data", {})) for output in outputs)
    return [output["text"] for output in outputs if output.output_type == "stream" and output.name == "stdout"]


@pytest.mark.parametrize("name", UPDATES)
def test_training(name, tmp_path, monkeypatch):
    printed = run(name, tmp_path, monkeypatch, {f"UPDATES = {UPDATES[name]}": "UPDATES = 20"})
    assert "BLEU" in printed[-1]
    assert len(list(tmp_path.glob("runs/*/model.safetensors"))) == 2


def test_analyse_wmt_outputs(tmp_path, monkeypatch):
    write_stand_in(tmp_path / "sacrebleu")
    monkeypatch.setenv("SACREBLEU", str(tmp_path / "sacrebleu"))
    printed = run("analyse_wmt_outputs", tmp_path, monkeypatch, {})
    assert printed[0] == "60 sentences, 6 systems\n"
    assert "BLEU" in printed[1]
    assert (tmp_path / "wmt21" / "report.html").exists()


def write_stand_in(cache: Path) -> None:
    """A file of the form of WMT 2021 where sacreBLEU expects that of en-de: six systems, each with more words lost."""
    from sacrebleu.dataset import DATASETS

    pairs = list(generate(60, 4, 40, seed=1))
    documents = []
    for number, pair in enumerate(pairs):
        texts = {"src": ("", pair.source), "ref": ('translator="A"', pair.target)}
        words = pair.target.split()
        lost = {f"S{share}": " ".join(words[: len(words) * share // 10]) for share in range(5, 11)}
        texts |= {f"hyp {system}": (f'system="{system}"', text) for system, text in lost.items()}
        inside = "".join(
            f'<{kind.split()[0]} lang="{"en" if kind == "src" else "de"}" {attribute}><p>'
            f'<seg id="1">{escape(text)}</seg></p></{kind.split()[0]}>'
            for kind, (attribute, text) in texts.items()
        )
        documents.append(f'<doc origlang="en" id="d{number}">{inside}</doc>')
    wmt = DATASETS["wmt21/systems"]
    raw = cache / "wmt21" / "systems" / "raw"
    file = raw / wmt.langpairs["en-de"][0]
    file.parent.mkdir(parents=True)
    (raw / wmt._get_tarball_filename(wmt.data[0])).write_text("fetched and unpacked already")
    file.write_text(f'<dataset id="stand-in">{"".join(documents)}</dataset>', encoding="utf-8")
