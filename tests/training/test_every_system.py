"""Every named system end to end: trained in the chip's precision, learning, stored, loaded, translating, scoring."""

from __future__ import annotations

import json
import math

import pytest
import torch

from posnmt.config.schema import Decode
from posnmt.config.systems import RECOMMENDED, SYSTEMS
from posnmt.run.resolve import load
from posnmt.run.run import Run
from posnmt.training.train import train
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator
from tests.support import corpus

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def config_path(tmp_path_factory):
    """A head is 8 wide and there are 4, so that every split of heads and features works."""
    model = {"d_model": 32, "heads": 4, "feed_forward": 32, "dropout": 0.1}
    return corpus.make(tmp_path_factory.mktemp("corpus"), pairs=60, model=model)


def first_of_each_kind():
    """One system of each architecture, and those to begin with: the others differ in what test_draws.py draws."""
    kinds = {SYSTEMS[name].model.get("architecture", "transformer"): name for name in reversed(SYSTEMS)}
    return {*kinds.values(), *RECOMMENDED}


@pytest.mark.parametrize(
    "system",
    [pytest.param(name, marks=[] if name in first_of_each_kind() else pytest.mark.slow) for name in SYSTEMS],
)
def test_a_system_trains_translates_and_scores(system, config_path, tmp_path):
    settings = ["train.steps=12", "train.evaluate_every=12", "train.average=1", f"model.system={system}"]
    settings += ["train.schedule={type: constant, warmup: 0}", "train.learning_rate=0.01"]
    settings += ["train.dev_bleu=false", "train.best_by=perplexity"]
    if SYSTEMS[system].subword:  # eflomal, which it would need otherwise, is not installed everywhere
        (tmp_path / "lexicon").write_text("▁a\t▁a\t0.9\n", encoding="utf-8")
        settings += [f"subword.pairs.lexicon={tmp_path / 'lexicon'}"]
    run = train(load(config_path, settings), tmp_path / "run")
    written = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in written if line["kind"] == "train"]
    assert len(losses) == 6
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < losses[0] - 0.4, "it does not learn"

    loaded = Run.open(tmp_path / "run")
    assert loaded.config.model.system == system
    translator = Translator.load([loaded], device=CPU)
    lines = (config_path.parent / "corpus" / "test.source").read_text().splitlines()[:3]
    for beam in (1, 3):
        search = Search(Decode(beam=beam, max_ratio=0.5, max_extra=2))
        alone = [translator.translate(numbered([line]), search)[0].hypotheses[0] for line in lines]
        together = [found.hypotheses[0] for found in translator.translate(numbered(lines), search)]
        for one, other in zip(alone, together, strict=True):  # float32 here; float64 in test_search.py
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)
    texts = translator.translate(numbered(lines), search)
    scores = translator.score_lines(lines, [found.text for found in texts])
    assert all(math.isfinite(score) and score < 0 for score in scores)
