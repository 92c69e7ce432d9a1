"""What a finished run says of itself where it learned too little."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from posnmt.base.progress import Display
from posnmt.data.batch import Cursor
from posnmt.data.prepare import dropped, prepare
from posnmt.data.subword import EOS
from posnmt.run.resolve import load
from posnmt.training.doubts import doubts, unigram_perplexity
from posnmt.training.evaluate import bleu
from posnmt.training.progress import Progress
from posnmt.training.train import train
from tests.support import corpus


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return corpus.make(tmp_path_factory.mktemp("corpus"), pairs=60)


def test_the_perplexity_of_words_by_their_frequency(path):
    store = prepare(load(path))
    train_pairs, dev = store.split("train"), store.split("dev")
    size = store.text.target.size
    words = {
        split: [[*split.pair(index)[1].tolist(), EOS] for index in range(len(split))] for split in (train_pairs, dev)
    }
    counts = Counter(word for line in words[train_pairs] for word in line)
    total = counts.total() + size
    logs = [math.log((counts[word] + 1) / total) for line in words[dev] for word in line]
    assert unigram_perplexity(train_pairs, dev, size) == pytest.approx(math.exp(-sum(logs) / len(logs)))


def test_each_doubt_has_its_sign(path):
    config = load(path, ["train.schedule={type: constant, warmup: 10}"])
    store = prepare(config)
    unigram = unigram_perplexity(store.split("train"), store.split("dev"), store.text.target.size)
    whole = Progress(step=10, cursor=Cursor(epoch=1))
    assert (
        doubts(config, whole, {"perplexity": 0.89 * unigram}, store, 12) == doubts(config, whole, {}, store, 12) == []
    )
    [sentence] = doubts(config, whole, {"perplexity": 0.91 * unigram}, store, 12)
    assert "the model has learned next to nothing" in sentence
    [sentence] = doubts(config, Progress(step=9, cursor=Cursor(epoch=1)), {}, store, 12)
    assert "after 9 updates, inside the warm-up of 10" in sentence
    [sentence] = doubts(config, Progress(step=10, cursor=Cursor(batch=3), seconds=1200), {}, store, 12)
    assert sentence.endswith(
        "after 10 updates, 25% of a pass; train for longer: at the pace of this run, a pass takes 1 h 20 min"
    )
    share = load(path, ["train.schedule={type: constant, warmup: 0.5}"])
    assert doubts(share, whole, {}, store, 12) == []


@pytest.mark.parametrize(
    ("changes", "chosen", "remedy"),
    [
        ([], (), "train for longer, or with train.learning_rate and train.schedule.warmup left out"),
        ([], {"train.learning_rate": 2e-3}, "train for longer, or with train.schedule.warmup left out"),
        ([], ("train.learning_rate", "train.schedule.warmup"), "train for longer"),
        (["noam"], (), "train for longer, or with train.learning_rate: 1.0, which is noam's factor"),
        (["noam", "train.learning_rate=2"], (), "train for longer"),
    ],
)
def test_the_advice_is_not_to_leave_out_what_was_left_out(path, changes, chosen, remedy):
    schedule = f"train.schedule={{type: {'noam' if changes else 'constant'}, warmup: 10}}"
    config = load(path, [schedule, *changes[1:]])
    store, whole = prepare(config), Progress(step=10, cursor=Cursor(epoch=1))
    [sentence] = doubts(config, whole, {"perplexity": 1e6}, store, 12, chosen)
    assert sentence.endswith(f"learned next to nothing; {remedy}")


def test_the_advice_is_not_to_leave_out_a_warm_up_that_follows_the_clock(path):
    config = load(path, ["train.minutes=5", "train.schedule={type: constant, warmup: null}"])
    [sentence] = doubts(config, Progress(step=10, cursor=Cursor(epoch=1)), {"perplexity": 1e6}, prepare(config), 12)
    assert sentence.endswith("learned next to nothing; train for longer, or with train.learning_rate left out")


def test_a_run_whose_translations_are_no_better_than_their_sources_says_so(path):
    config = load(path)
    store = prepare(config)
    dev, whole = store.split("dev"), Progress(step=10, cursor=Cursor(epoch=2))
    sources = store.text.source.decode([dev.pair(number)[0].tolist() for number in range(len(dev))])
    copied = bleu(sources, dev.target_texts, config.train.bleu_tokenizer)["bleu"]
    assert doubts(config, whole, {"perplexity": 1.0, "bleu": copied + 0.1}, store, 12) == []
    [sentence] = doubts(config, whole, {"perplexity": 1.0, "bleu": copied}, store, 12)
    assert f"the source lines as they are would have {copied:.1f}" in sentence
    assert "after 2 passes" in sentence


def test_training_reports_its_doubts_and_what_was_dropped(path, tmp_path):
    messages: list[str] = []
    display = Display(quiet=True)
    display.say = messages.append  # type: ignore[method-assign]
    config = load(path, ["train.steps=1", "train.dev_bleu=false", "data.max_length=6"])
    train(config, tmp_path / "run", display=display)
    [lost] = dropped(prepare(config))
    assert lost in messages
    assert lost.startswith("train: ")
    assert "too long" in lost
    assert any("learned next to nothing" in message for message in messages)
    assert dropped(prepare(load(path))) == []
