"""The model card of an exported run."""

import json
import shutil

from posnmt.deploy.card import card, dev_figures
from posnmt.deploy.folder import Manifest, describe
from posnmt.model.weights import save_model
from posnmt.run.run import Run
from tests.support.untrained import LEARNED


def test_a_table_has_room_for_what_the_card_says():
    """Beside the symbol that ends a source and the one that begins a target."""
    run = Run.open(LEARNED)
    text = card(run, Manifest(kind="huggingface", limits={"source": 31, "target": None}, **describe(run, "model")))
    assert "| longest source | 30 subwords |" in text
    assert "| longest target | no limit |" in text


def test_the_figures_of_an_average_are_those_of_its_evaluation(tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(LEARNED, folder)
    run = Run.open(folder)
    save_model(run.model("model"), run.weights("average"), {})
    lines = [{"kind": "dev", "bleu": 1.0}, {"kind": "average", "bleu": 2.0}, {"kind": "dev", "bleu": 3.0}]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert dev_figures(run, "average")["bleu"] == 2.0
    assert dev_figures(run, "model") == dev_figures(Run.open(LEARNED), "model")
