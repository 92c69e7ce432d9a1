"""Every setting of training reaches the update: one step against AdamW written out; and runs end where they must."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from posnmt.base.interrupt import StopSignal
from posnmt.config.schema import Train
from posnmt.data.batch import BatchPlan, Cursor, collate
from posnmt.data.prepare import prepare
from posnmt.data.subword import PAD
from posnmt.model.registry import build_model
from posnmt.run.resolve import load
from posnmt.run.run import checkpoints_in
from posnmt.training import build, keep
from posnmt.training.doubts import doubts
from posnmt.training.gradients import InParts
from posnmt.training.progress import Progress
from posnmt.training.stop import agreed, why_counted, why_stop
from posnmt.training.train import train
from tests.support import corpus

# A large epsilon, so that an update depends on the size of its gradient, which Adam hides otherwise.
BASE = ["train.precision=fp64", "model.dropout=0", "train.steps=1", "train.log_every=1", "train.adam_epsilon=0.1"]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return corpus.make(tmp_path_factory.mktemp("corpus"), pairs=60)


def metrics(run, kind="train"):
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def first_batch(config):
    """The first batch of a run, and a model with the weights that it starts from."""
    store = prepare(config)
    how = config.train
    plan = BatchPlan(
        store.split("train"), how.batch, how.batch_unit, how.seed, how.sort_by, with_replacement=how.with_replacement
    )
    [numbers], _ = plan.take(Cursor(), 1)
    batch = collate([store.split("train").pair(int(number)) for number in numbers])
    torch.manual_seed(config.train.seed)
    torch.set_default_dtype(torch.float64)
    try:
        return batch, build_model(config.model, store.text.source.size, store.text.target.size)
    finally:
        torch.set_default_dtype(torch.float32)


def losses(model, batch, smoothing):
    """`-(1-e) log p(y) - e/V sum_v log p(v)` and `-log p(y)`, a mean over tokens, token by token."""
    logits = model.project(model(batch.source, batch.source_lengths, batch.target_in))
    smoothed, plain, count = 0.0, 0.0, 0
    for row, words in zip(logits, batch.target_out, strict=True):
        for scores, word in zip(row, words, strict=True):
            if word != PAD:
                log_p = scores - scores.exp().sum().log()
                smoothed = smoothed - (1 - smoothing) * log_p[word] - smoothing / len(log_p) * log_p.sum()
                plain, count = plain - log_p[word].item(), count + 1
    return smoothed / count, plain / count, count


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["train.clip=0.01"],
        ["train.clip=null"],
        ["train.weight_decay=0.3"],
        ["train.adam_betas=[0.5,0.7]", "train.weight_decay=0.1"],
        ["train.adam_epsilon=0.01"],
        ["train.label_smoothing=0"],
        ["train.label_smoothing=0.4"],
        ["train.batch=25", "train.batch_unit=sentences"],
        ["train.batch=25", "train.batch_unit=sentences", "train.with_replacement=true"],
    ],
    ids=lambda settings: " ".join(settings).replace("train.", "") or "default",
)
def test_one_update_is_adamw_written_out(path, tmp_path, settings):
    config = load(path, [*BASE, *settings])
    run = train(config, tmp_path / "run")
    batch, model = first_batch(config)
    loss, likelihood, tokens = losses(model, batch, config.train.label_smoothing)
    loss.backward()
    parameters = dict(model.named_parameters())
    norm = math.sqrt(sum(each.grad.square().sum().item() for each in parameters.values() if each.grad is not None))
    shrink = min(1.0, config.train.clip / (norm + 1e-6)) if config.train.clip is not None else 1.0
    rate = metrics(run)[0]["learning_rate"]
    (beta, gamma), decay = config.train.adam_betas, config.train.weight_decay
    after = load_file(checkpoints_in(run.folder / "checkpoints")[-1] / "model.safetensors")
    assert after.keys() == parameters.keys()
    for name, weight in parameters.items():
        gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad * shrink
        mean, square = (1 - beta) * gradient / (1 - beta), (1 - gamma) * gradient**2 / (1 - gamma)
        wanted = weight * (1 - rate * decay) - rate * mean / (square.sqrt() + config.train.adam_epsilon)
        torch.testing.assert_close(after[name], wanted.detach(), rtol=0, atol=1e-9, msg=name)

    [line] = metrics(run)
    assert line["loss"] == pytest.approx(loss.item(), rel=1e-6)
    assert line["perplexity"] == pytest.approx(math.exp(likelihood), rel=1e-6)
    assert line["target_tokens"] == tokens
    source = int(batch.source_lengths.sum())
    assert source != tokens
    assert line["source_tokens_per_second"] / line["target_tokens_per_second"] == pytest.approx(source / tokens)


def test_second_update_has_the_moments_of_the_first(path, tmp_path):
    """The betas alone are seen from the second update on."""
    ends = [
        "train.steps=2",
        "train.batch=60",
        "train.batch_unit=sentences",
        "train.average=2",
        "train.evaluate_every=1",
    ]
    config = load(path, [*BASE, *ends, "train.adam_betas=[0.5,0.7]", "train.clip=null", "train.dev_bleu=false"])
    run = train(config, tmp_path / "run")
    batch, model = first_batch(config)  # the one batch of the corpus, in both updates
    moments = {name: (0.0, 0.0) for name, _ in model.named_parameters()}
    for step, line in enumerate(metrics(run), 1):
        loss, _, _ = losses(model, batch, config.train.label_smoothing)
        model.zero_grad()
        loss.backward()
        for name, weight in model.named_parameters():
            gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
            mean, square = moments[name]
            moments[name] = mean, square = 0.5 * mean + 0.5 * gradient, 0.7 * square + 0.3 * gradient**2
            root = (square / (1 - 0.7**step)).sqrt()
            weight.data -= line["learning_rate"] * mean / (1 - 0.5**step) / (root + config.train.adam_epsilon)
    after = load_file(checkpoints_in(run.folder / "checkpoints")[-1] / "model.safetensors")
    for name, weight in model.named_parameters():
        torch.testing.assert_close(after[name], weight.detach(), rtol=0, atol=1e-9, msg=name)


def test_plateau_lowers_the_logged_rate(path, tmp_path):
    """No dev figure is better than the first where nothing is learned."""
    schedule = ["type=plateau", "warmup=0", "patience=2", "decay=0.5"]
    settings = [f"train.schedule.{each}" for each in schedule]
    ends = ["train.steps=7", "train.evaluate_every=1", "train.log_every=1", "train.dev_bleu=false"]
    run = train(load(path, [*settings, *ends, "train.learning_rate=1e-30"]), tmp_path / "run")
    shares = [line["learning_rate"] / 1e-30 for line in metrics(run)]
    assert shares == pytest.approx([1] * 3 + [0.5] * 2 + [0.25] * 2)


def test_dropout_differs_from_step_to_step(path, tmp_path, monkeypatch):
    """With one batch and no learning, losses differ by their dropout alone; test_sharding has that of processes."""
    seeds, add = [], InParts.add

    def spied(self, batch, scale, seed, last):
        seeds.extend([seed] if seed[1] else [])  # step 0 tries the largest batch
        return add(self, batch, scale, seed, last)

    monkeypatch.setattr(InParts, "add", spied)
    ends = ["train.steps=3", "train.log_every=1", "train.batch=60", "train.batch_unit=sentences", "train.accumulate=2"]
    config = load(path, [*ends, "train.learning_rate=1e-30", "model.dropout=0.3", "train.dev_bleu=false"])
    run = train(config, tmp_path / "run")
    assert seeds == [(config.train.seed, step, 0, index) for step in (1, 2, 3) for index in (0, 1)]
    assert len({line["loss"] for line in metrics(run)}) == 3


def test_best_is_kept_when_later_weights_are_worse(path, tmp_path, monkeypatch):
    """A rate that grows without end: the weights get worse after a while, and their mean with them."""
    doubted = []
    monkeypatch.setattr(keep, "doubts", lambda *of_run: doubted.append(of_run[2]) or doubts(*of_run))
    ends = ["train.steps=40", "train.evaluate_every=4", "train.average=10", "train.dev_bleu=false"]
    schedule = ["train.schedule.type=constant", "train.schedule.warmup=40", "train.learning_rate=4", "train.clip=null"]
    config = load(path, [*ends, *schedule, "train.best_by=perplexity", "train.precision=fp32"])
    run = train(config, tmp_path / "run")
    perplexities = {line["step"]: line["perplexity"] for line in metrics(run, "dev")}
    best = min(perplexities, key=perplexities.get)
    assert best < 40, "the weights do get worse"
    assert run.record["best_step"] == best
    of_best = load_file(run.folder / "checkpoints" / f"step-{best:08}" / "model.safetensors")
    [average] = metrics(run, "average")
    assert average["perplexity"] > perplexities[best]
    assert run.record["model"] == "best"
    assert [each["perplexity"] for each in doubted] == [pytest.approx(perplexities[best])]
    for name in ("best", "model"):
        kept = load_file(run.weights(name))
        assert all(torch.equal(kept[key], of_best[key]) for key in of_best), name


def test_the_average_is_used_where_it_is_better(path, tmp_path):
    """Weights that jump about a good place, as a high constant rate makes them, have a better mean."""
    ends = ["train.steps=40", "train.evaluate_every=4", "train.average=6", "train.dev_bleu=false", "train.batch=40"]
    rate = ["train.schedule.type=constant", "train.schedule.warmup=1", "train.learning_rate=0.1"]
    start = ["model.init=xavier", "train.sort_by=target"]
    config = load(path, [*ends, *rate, *start, "train.best_by=perplexity", "train.precision=fp32", "train.clip=null"])
    run = train(config, tmp_path / "run")
    [average] = metrics(run, "average")
    better = average["perplexity"] < min(line["perplexity"] for line in metrics(run, "dev"))
    assert run.record["model"] == ("average" if better else "best")
    assert better, "another rate is needed for this test to say anything"
    model, mean = (load_file(run.weights(name)) for name in ("model", "average"))
    assert all(torch.equal(model[key], mean[key]) for key in mean)


def test_each_limit_ends_a_run_where_it_says():
    stop = StopSignal()
    cases = [
        ({"steps": 5}, Progress(step=4), Progress(step=5)),
        ({"epochs": 2}, Progress(cursor=Cursor(1, 9)), Progress(cursor=Cursor(2, 0))),
        ({"minutes": 1.5}, Progress(seconds=89.9), Progress(seconds=90.0)),
        ({"steps": 99, "patience": 3}, Progress(waited=2), Progress(waited=3)),
    ]
    for settings, before, after in cases:
        limits = Train(**settings)
        assert why_stop(limits, before, stop) == "", settings
        assert why_stop(limits, after, stop) != "", settings


class Processes(SimpleNamespace):
    """One of two processes, of which the other has a reason of its own."""

    def __init__(self, device: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(world_size=2, device=torch.device(device), asked=0)

        def gather(reasons: list[str], mine: str) -> None:
            self.asked += 1
            reasons[:] = [mine, other]

        monkeypatch.setattr(torch.distributed, "all_gather_object", gather)


def test_processes_on_gpus_agree_to_stop_at_every_twentieth_update_or_by_what_they_count(monkeypatch):
    gpus = Processes("cuda", "interrupted", monkeypatch)
    assert [step for step in range(1, 61) if agreed(gpus, "", "", step)] == [20, 40, 60]
    assert gpus.asked == 3
    assert not agreed(gpus, "interrupted", "", 19)  # the other process would not know
    assert agreed(gpus, "interrupted", "19 steps", 19) == "19 steps"
    cpus = Processes("cpu", "interrupted", monkeypatch)
    assert [step for step in range(1, 6) if agreed(cpus, "", "", step)] == [1, 2, 3, 4, 5]
    assert agreed(SimpleNamespace(world_size=1), "1 minutes", "", 7) == "1 minutes"


def test_what_is_counted_is_a_reason_in_every_process():
    at_the_end = Progress(step=5, seconds=90.0)
    assert why_counted(Train(steps=5, minutes=1.5), at_the_end) == "5 steps"
    assert why_counted(Train(steps=6, minutes=1.5), at_the_end) == ""
    assert why_stop(Train(steps=6, minutes=1.5), at_the_end, StopSignal()) == "1.5 minutes"


def test_a_run_of_two_epochs_makes_each_batch_twice(path, tmp_path):
    config = load(path, ["train.steps=null", "train.epochs=2", "train.dev_bleu=false", "train.batch=100"])
    run = train(config, tmp_path / "run")
    plan = BatchPlan(prepare(config).split("train"), 100, "tokens", config.train.seed, config.train.sort_by)
    assert run.record["steps"] == len(plan.epoch(0)) + len(plan.epoch(1)) > 4
    assert run.record["stopped"] == "2 epochs"


@pytest.mark.parametrize("sort_by", ["source", "target"])
def test_pairs_are_sorted_by_the_side_that_is_asked_for(path, tmp_path, monkeypatch, sort_by):
    plans = []

    class Noted(BatchPlan):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            plans.append(self)

    monkeypatch.setattr(build, "BatchPlan", Noted)
    settings = [] if sort_by == "source" else ["train.sort_by=target"]
    train(load(path, [*BASE, "train.dev_bleu=false", *settings]), tmp_path / "run")
    assert [plan.sort_by for plan in plans] == [sort_by]
