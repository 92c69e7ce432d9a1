"""Dev figures: BLEU is that of what `translate` writes, perplexity is by its definition, and dev chooses the best."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from sacrebleu.metrics import BLEU
from torch.overrides import TorchFunctionMode

from posnmt.config.schema import Sampling, Train
from posnmt.data.batch import BatchPlan, collate
from posnmt.data.prepare import prepare
from posnmt.data.store import Store
from posnmt.run.resolve import load
from posnmt.run.run import Run
from posnmt.training import evaluate as evaluating
from posnmt.training.evaluate import evaluate, greedy, selection_score
from posnmt.training.loss import TrainingLoss
from posnmt.training.train import train
from posnmt.translate.requests import Search, numbered
from posnmt.translate.translator import Translator
from tests.support.corpus import make

# Signs that Moses separates, so that words with and without its tokenisation differ.
SOURCES = [f"the cat, no. {number}, sees (at {number}:00) the dog's house!" for number in range(12)]
TARGETS = [f'die Katze, Nr. {number}, sieht "um {number}:00 Uhr" das Haus (vom Hund)!' for number in range(12)]
REFERENCES = [line if number % 3 else f"Wo ist (heute) {line}?" for number, line in enumerate(TARGETS)]


def dev_lines(run: Run) -> list[dict[str, Any]]:
    lines = map(json.loads, (run.folder / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == "dev"]


def learned(folder: Path, **settings: Any) -> tuple[Run, Store]:
    """A run that learns a dozen sentences by heart; every third dev reference is another one."""
    for name, lines in (("train.source", SOURCES), ("train.target", TARGETS), ("dev.target", REFERENCES)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    corpora = {name: {"source": "train.source", "target": f"{name}.target"} for name in ("train", "dev")}
    path = make(
        folder,
        data={**corpora, "tokenise": "moses"},
        model={"system": "transformer", "d_model": 32, "feed_forward": 64, "dropout": 0.0},
        train={
            "batch": 4000, "learning_rate": 1e-2, "average": 1, "precision": "fp32",
            "schedule": {"type": "constant", "warmup": 5}, **settings,
        },
        decode={"max_ratio": 3.0},
        subword={"vocabulary": 120},
    )  # fmt: skip
    config = load(path)
    return train(config, folder / "run"), prepare(config)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Store]:
    return learned(
        tmp_path_factory.mktemp("evaluate"), steps=40, evaluate_every=40, dev_bleu=True, bleu_tokenizer="none"
    )


def translations(run: Run) -> list[str]:
    decode = run.config.decode.model_copy(update={"beam": 1})
    found = Translator.load([run], device=torch.device("cpu")).translate(numbered(SOURCES), Search(decode))
    return [translation.text for translation in found]


def bleu(outputs: list[str], tokenizer: str) -> float:
    return BLEU(tokenize=tokenizer, force=True).corpus_score(outputs, [REFERENCES]).score


def test_dev_bleu_is_that_of_the_translations(trained: tuple[Run, Store]) -> None:
    """Without a tokeniser of BLEU's own, which would hide whether Moses' tokenisation was undone."""
    run, store = trained
    [line] = dev_lines(run)
    outputs = translations(run)
    assert line["bleu"] == pytest.approx(bleu(outputs, "none"))
    assert "tok:none|" in line["signature"]
    assert 1 < line["bleu"] < 99, "a score that says nothing"
    in_words = bleu([store.text.target.words.split(each) for each in outputs], "none")
    assert line["bleu"] > in_words + 1, "here, the tokenisation of the output does not matter"


@pytest.mark.parametrize("tokenizer", ["char", "13a"])
def test_dev_bleu_is_by_the_tokenizer_that_is_asked_for(trained: tuple[Run, Store], tokenizer: str) -> None:
    run, store = trained
    settings = run.config.train.model_copy(update={"bleu_tokenizer": tokenizer})
    config = run.config.model_copy(update={"train": settings})
    figures = evaluate(
        TrainingLoss(run.model(), 0.1), store.split("dev"), store.text, config, Fabric(accelerator="cpu")
    )
    assert figures["bleu"] == pytest.approx(bleu(translations(run), tokenizer))
    assert figures["bleu"] != pytest.approx(dev_lines(run)[0]["bleu"])
    assert f"tok:{tokenizer}|" in figures["signature"]


def test_perplexity_is_that_of_the_references(trained: tuple[Run, Store]) -> None:
    """exp of the mean negative log-likelihood of a target subword, eos included, without label smoothing."""
    run, store = trained
    [line] = dev_lines(run)
    scores = Translator.load([run], device=torch.device("cpu")).score_lines(SOURCES, REFERENCES)
    subwords = sum(len(ids) + 1 for ids in store.text.target.encode(REFERENCES))
    assert line["perplexity"] == pytest.approx(math.exp(-sum(scores) / subwords), rel=1e-4)


def test_perplexity_is_infinite_where_the_model_overflows(trained: tuple[Run, Store]) -> None:
    run, store = trained
    model = run.model()
    with torch.no_grad():
        model.output.weight.fill_(3e38)
    config = run.config.model_copy(update={"train": run.config.train.model_copy(update={"dev_bleu": False})})
    loss = TrainingLoss(model, 0.1)
    assert evaluate(loss, store.split("dev"), store.text, config, Fabric())["perplexity"] == math.inf


def test_the_device_is_read_once_however_many_batches_dev_has(
    trained: tuple[Run, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the perplexity is that of the likelihoods of batches, each read and added in float64."""
    run, store = trained
    loss, dev = TrainingLoss(run.model(), 0.1).eval(), store.split("dev")
    config = run.config.model_copy(update={"train": run.config.train.model_copy(update={"dev_bleu": False})})

    class Reads(TorchFunctionMode):
        count = 0

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.count += function in (torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.cpu, torch.Tensor.__bool__)
            return function(*args, **(kwargs or {}))

    for size in (64, 8192):
        monkeypatch.setattr(evaluating, "BATCH", size)
        batches = [collate([*map(dev.pair, each.tolist())]) for each in BatchPlan(dev, size, "tokens", 0).epoch(0)]
        assert (len(batches) > 4) is (size == 64)
        with Reads() as reads:
            figures = evaluate(loss, dev, store.text, config, Fabric(accelerator="cpu"))
        assert reads.count == 1
        with torch.inference_mode():
            total = sum(loss(*batch.tensors)[1].item() for batch in batches)
        assert figures["perplexity"] == math.exp(total / sum(batch.tokens for batch in batches))


def test_the_best_by_perplexity_has_the_lowest(tmp_path: Path) -> None:
    """Learning the text by heart, dev perplexity falls and rises again, while BLEU does not fall."""
    run, store = learned(tmp_path, steps=60, evaluate_every=6, best_by="perplexity", label_smoothing=0.0)
    perplexities = {line["step"]: line["perplexity"] for line in dev_lines(run)}
    best = min(perplexities, key=perplexities.__getitem__)
    assert run.record["best_step"] == best
    assert 6 < best < 60, f"the case says less than it should: {perplexities}"
    figures = evaluate(
        TrainingLoss(run.model(), 0.1), store.split("dev"), store.text, run.config, Fabric(accelerator="cpu")
    )
    assert figures["perplexity"] == pytest.approx(perplexities[best], rel=1e-5)


def test_selection_score() -> None:
    settings = Train(steps=1)
    good, bad = {"bleu": 10.0, "perplexity": 9.0}, {"bleu": 9.0, "perplexity": 5.0}
    by_bleu, by_perplexity = (settings.model_copy(update={"best_by": by}) for by in ("bleu", "perplexity"))
    assert selection_score(good, by_bleu) > selection_score(bad, by_bleu)
    assert selection_score(good, by_perplexity) < selection_score(bad, by_perplexity)
    assert selection_score({**bad, "bleu": 10.0}, by_bleu) > selection_score(good, by_bleu), "of equal BLEU"
    # without BLEU, perplexity decides
    assert selection_score({"perplexity": 9.0}, by_bleu) < selection_score({"perplexity": 5.0}, by_bleu)


def test_a_coverage_penalty_is_not_for_dev(tmp_path):
    """It ranks what a beam has found, and models without layers of attention train with it too."""
    config = make(
        tmp_path,
        model={"system": "rnn-nmt"},
        train={"steps": 2, "evaluate_every": 2, "dev_bleu": True},
        decode={"coverage_penalty": 0.5},
    )
    train(load(config), tmp_path / "run")
    assert "bleu" in dev_lines(Run.open(tmp_path / "run"))[-1]


def test_dev_is_searched_where_translations_are_drawn(trained: tuple[Run, Store]) -> None:
    run, store = trained
    model, dev, cpu = run.model(), store.split("dev"), torch.device("cpu")
    sources = [dev.pair(number)[0].tolist() for number in range(len(dev))]
    drawing = run.config.decode.model_copy(update={"sampling": Sampling(temperature=3.0)})
    with torch.inference_mode():
        assert greedy(model, sources, drawing, cpu) == greedy(model, sources, run.config.decode, cpu)
