"""COMET and MetricX as they are published, with tiny random models: `posnmt metrics install` makes their environment.

The packages take 1.4 GB; POSNMT_NEURAL_CACHE names a folder in which they stay for the next time.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import posnmt
from posnmt.base.errors import UserError
from posnmt.base.progress import Display
from posnmt.metrics.neural.environment import Environment
from posnmt.metrics.neural.metric import NEURAL, PACKAGES
from tests.support.commands import refused, run

TINY = Path(__file__).parents[1] / "support" / "tiny_neural.py"
SOURCE = ["the dog sees the cat", "a small house by the lake", "the cat", "one two three", "ten " * 60]
REFERENCE = ["der Hund sieht die Katze", "ein kleines Haus am See", "die Katze", "eins zwei drei", "zehn " * 60]
OUTPUT = ["der Hund sieht eine Katze", "ein Haus am See", "", "drei zwei eins", "zehn " * 60]
KINDS = {"comet": ("comet", "xcomet"), "comet-qe": ("kiwi", "xcomet"), "metricx": ("metricx",)}
"""Metric → tiny models that it takes."""
PREDICT = """
import json, sys
from comet.models import load_from_checkpoint
request = json.load(open(sys.argv[1]))
model = load_from_checkpoint(request["checkpoint"], local_files_only=True)
scores = model.predict(request["samples"], batch_size=3, gpus=0, progress_bar=False, num_workers=0).scores
def longest(sample):
    inputs = model.prepare_for_inference([sample])
    masks = [value for part in (inputs if isinstance(inputs, tuple) else [inputs]) for name, value in part.items()
             if name.endswith("attention_mask")]
    return max(int(mask.sum()) for mask in masks)

full = model.encoder.max_positions - (0 if "input_segments" in model.hparams else 2)
json.dump([scores, sum(longest(sample) >= full for sample in request["samples"])], open(sys.argv[2], "w"))
"""
"""COMET's own way from a checkpoint to scores; and the number of sentences of which a part fills the model's input."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with tiny models, which the environment of the metrics has made."""
    with pytest.MonkeyPatch.context() as patch:
        kept = os.environ.get("POSNMT_NEURAL_CACHE")
        patch.setenv("POSNMT_CACHE", kept or str(tmp_path_factory.mktemp("cache")))
        try:
            Environment(PACKAGES).make(sys.executable, None, NEURAL["comet"].pythons, Display(quiet=True))
        except UserError as error:
            pytest.skip(f"the packages of COMET cannot be installed here: {error}")
        models = tmp_path_factory.mktemp("tiny")
        call = [Environment(PACKAGES).python, "-I", TINY, models]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        yield models


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """The options of an analysis of one output."""
    monkeypatch.chdir(tmp_path)
    for name, lines in {"source": SOURCE, "reference": REFERENCE, "output": OUTPUT}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ["--source", "source", "--reference", "reference", "--output", "mine=output", "--samples", "0"]


def analysed(metric):
    """The score of each sentence of the output, and the results of the analysis."""
    analysis = posnmt.analyse(SOURCE, REFERENCE, {"mine": OUTPUT}, metrics=metric, samples=0, metric_batch=2)
    additive = analysis.measured.additive
    return additive.rows[:, 0, additive.columns[metric].start].tolist(), analysis.results


@pytest.mark.parametrize(
    ("metric", "model"), [(metric, model) for metric in ("comet", "comet-qe") for model in KINDS[metric]]
)
def test_scores_are_those_of_comet_itself(tiny, texts, metric, model):
    run("metrics", "install", metric, "--model", tiny / model)
    values, results = analysed(metric)
    names = ("src", "mt", "ref") if metric == "comet" else ("src", "mt")
    samples = [dict(zip(names, row, strict=False)) for row in zip(SOURCE, OUTPUT, REFERENCE, strict=True)]
    request = {"checkpoint": str(tiny / model / "checkpoints" / "model.ckpt"), "samples": samples}
    Path("request").write_text(json.dumps(request))
    subprocess.run([Environment(PACKAGES).python, "-c", PREDICT, "request", "scores"], check=True, capture_output=True)
    scores, full = json.loads(Path("scores").read_text())
    assert len(set(scores)) > 3
    assert values == pytest.approx(scores, abs=1e-5)
    assert results["systems"][0]["overall"][metric] == pytest.approx(sum(scores) / len(scores), abs=1e-5)
    assert full
    cut = f"mine: {metric} read only the beginning of {full} sentences: they are too long for it."
    assert cut in results["warnings"]
    assert "unbabel-comet:2.2.7" in results["signatures"][metric]


def test_metricx_is_the_logit_of_its_first_step(tiny, texts):
    """Against plain calls of mT5's parts; the published class gave the same."""
    run("metrics", "install", "metricx", "--model", tiny / "metricx")
    values, results = analysed("metricx")
    plain = """
import json, sys, torch
from transformers import AutoTokenizer, MT5ForConditionalGeneration
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = MT5ForConditionalGeneration.from_pretrained(sys.argv[1]).eval()
scores = []
for source, output, reference in json.load(open("rows")):
    ids = tokenizer(f"source: {source} candidate: {output} reference: {reference}").input_ids[:-1]
    read = model.encoder(torch.tensor([ids])).last_hidden_state
    state = model.decoder(torch.tensor([[0]]), encoder_hidden_states=read).last_hidden_state
    if model.config.tie_word_embeddings:
        state = state * model.model_dim**-0.5
    scores.append(min(25.0, max(0.0, float(state[0, 0] @ model.lm_head.weight[250089]))))
json.dump(scores, open("scores", "w"))
"""
    Path("rows").write_text(json.dumps(list(zip(SOURCE, OUTPUT, REFERENCE, strict=True))))
    call = [Environment(PACKAGES).python, "-c", plain, tiny / "metricx"]
    subprocess.run(call, check=True, capture_output=True)
    scores = json.loads(Path("scores").read_text())
    assert len(set(scores)) > 3
    assert values == pytest.approx(scores, abs=1e-4)
    assert results["systems"][0]["overall"]["metricx"] == pytest.approx(sum(scores) / len(scores), abs=1e-4)


@pytest.mark.parametrize(
    ("metric", "model", "what"),
    [
        ("comet", "kiwi", "kiwi reads no reference: it is for comet-qe"),
        ("comet-qe", "comet", "comet needs a reference: it is for comet"),
        ("comet", "encoder", "has no hparams.yaml, so it is no model of COMET"),
        ("metricx", "metricx-23-qe", "is of MetricX-23"),
    ],
)
def test_a_model_of_another_kind_is_refused(tiny, texts, metric, model, what):
    (line,) = refused("metrics", "install", metric, "--model", tiny / model)
    assert what in line
    assert f"name a model of {metric}" in line


def test_a_folder_has_the_models_of_the_hub(tiny, texts):
    """By the last parts of their names there; COMET's encoder too."""
    hparams = tiny / "comet" / "hparams.yaml"
    text = hparams.read_text()
    hparams.write_text(text.replace(str(tiny / "encoder"), "somebody/encoder"))
    try:
        out, _ = run("metrics", "install", "comet", "--model", "Somebody/comet", "--from", tiny)
        assert "|model:Somebody/comet|" in out
        run("analyse", *texts, "--metrics", "comet", "--out", "all")
        (line,) = refused("metrics", "install", "comet", "--model", "Somebody/other", "--from", tiny)
        assert "the model Somebody/other is not here: it is neither in" in line
        assert "`hf download Somebody/other --local-dir FOLDER/other`" in line
    finally:
        hparams.write_text(text)
