"""Whether a model has learned lines of several sentences, and what follows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import yaml

import posnmt
from posnmt.config.schema import Decode, Split
from posnmt.data.text import TextPipeline
from posnmt.run.run import Run
from posnmt.translate.several import LEARNED, LINES, MOST, as_trained, most_learned, most_together, sentences_per_line
from posnmt.translate.translator import least_several
from tests.support import corpus
from tests.support.commands import run

ONE, TWO, THREE = "Uns mebu zabi.", "Uns mebu zabi. Un gubi tido.", "Uns mebu zabi. Un gubi tido. Uns mebu zabi."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A text of 40 pairs: 10 sources and 5 targets have two sentences or more, 2 sources have three."""
    folder = tmp_path_factory.mktemp("several")
    path = corpus.make(folder, pairs=60)
    sources, targets = [THREE] * 2 + [TWO] * 8 + [ONE] * 30, [TWO] * 5 + [ONE] * 35
    for side, lines in (("source", sources), ("target", targets)):
        (folder / "corpus" / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))
    tree = yaml.safe_load(path.read_text())
    tree["subword"] = {"vocabulary": 45}
    tree["train"] |= {"steps": 1, "dev_bleu": False, "average": 1}
    path.write_text(yaml.safe_dump(tree))
    return folder


def train(folder, name, *options):
    """The run of a training of one update."""
    run("train", folder / "config.yaml", "--out", folder / name, *options)
    return Run.open(folder / name)


RECORDED = {"source": [1.0, 0.25, 0.05], "target": [1.0, 0.125]}


def test_training_records_how_many_lines_have_so_many_sentences(folder):
    trained = train(folder, "alone")
    assert trained.sentences_per_line == trained.record["sentences_per_line"] == RECORDED
    assert least_several([trained]) == posnmt.load(trained)._searching.several == [1.0, 0.25, 0.05]


def test_joined_pairs_count_as_what_a_model_learns(folder):
    """Every joined pair has several sentences; lines in a context are separate lines, as they are in translation."""
    joined = train(folder, "joined", "--set", "train.concatenate=1").sentences_per_line
    assert joined["source"][:2] == [1.0, (10 + 40) / 80]
    assert joined["target"][:2] == [1.0, (5 + 40) / 80]
    (folder / "ids").write_text("book\n" * 40)
    ids = ("--set", f"data.train.documents={folder / 'ids'}", "--set", "train.context=2")
    assert train(folder, "context", *ids).sentences_per_line == RECORDED


def test_a_large_text_is_judged_by_lines_from_all_of_it(folder):
    """Evenly spaced, the first and the last included."""
    text = TextPipeline.load(Run.open(folder / "alone").folder / "text") if (folder / "alone").exists() else None
    text = text or train(folder, "alone").text()
    [one], [two] = text.source.encode([ONE]), text.source.encode([TWO])
    seen: list[int] = []

    def pair(index):
        seen.append(index)
        row = np.array(two if index >= 3 * LINES // 2 else one)
        return row, row

    pairs = SimpleNamespace(source_lengths=np.zeros(3 * LINES), pair=pair)
    for shares in sentences_per_line(pairs, text).values():
        assert shares == pytest.approx([1.0, 0.5], abs=2 / LINES)
    assert (len(seen), seen[0], seen[-1]) == (LINES, 0, 3 * LINES - 1)


def test_an_ensemble_has_learned_what_each_of_its_models_has(folder):
    one, other = train(folder, "one"), train(folder, "other", "--set", "train.concatenate=1")
    assert least_several([other, one]) == [1.0, 0.25, 0.05]
    record = other.record
    other.write_record({**record, "sentences_per_line": {"source": [1.0, 0.2], "target": [1.0]}})
    assert least_several([other, one]) == least_several([one, other]) == [1.0, 0.2]
    del record["sentences_per_line"]
    other.write_record(record)
    assert (least_several([other]), least_several([one, other])) == (None, None)


@pytest.mark.parametrize(
    ("shares", "most"),
    [
        (None, 1),
        ([1.0], 1),
        ([1.0, LEARNED - 1e-6], 1),
        ([1.0, LEARNED], 2),
        ([1.0, 0.5, LEARNED, LEARNED - 1e-6, 0.01], 3),
        ([0.98, 0.9, 0.8, 0.7], 4),
    ],
)
def test_a_model_has_learned_as_many_sentences_as_enough_of_its_training_lines_have(shares, most):
    assert most_learned(shares) == most
    for split in get_args(Split):
        assert most_together(Decode(split=split), shares) == (most if split == "as-trained" else 1)


def test_sentences_are_counted_up_to_a_limit(folder):
    """By an independent count, of lines of 1 to more sentences than are counted."""
    text = Run.open(folder / "alone").text() if (folder / "alone").exists() else train(folder, "alone").text()
    counts = [1, 2, 2, 7, MOST - 1, MOST, MOST + 1, MOST + 3]
    rows = [np.array(row) for row in text.source.encode([" ".join([ONE] * count) for count in counts])]
    pairs = SimpleNamespace(source_lengths=np.zeros(len(rows)), pair=lambda index: (rows[index], rows[0]))
    found = sentences_per_line(pairs, text)
    assert found["target"] == [1.0]
    assert found["source"] == [sum(count >= k for count in counts) / len(counts) for k in range(1, MOST + 1)]


@pytest.mark.parametrize(
    ("settings", "split", "complete"),
    [
        ({}, "sentences", "mend"),
        ({"join": 2}, "huge", "mend"),
        ({"split": "off"}, "off", "warn"),
        ({"split": "auto"}, "auto", "mend"),
        ({"split": "off", "complete": "mend"}, "off", "mend"),
        ({"complete": "off"}, "sentences", "off"),
    ],
)
def test_what_suits_the_training_is_chosen_unless_the_user_decides(settings, split, complete):
    chosen = as_trained(Decode(**settings))
    assert (chosen.split, chosen.complete) == (split, complete)
    assert (Decode().split, Decode().complete) == ("as-trained", "as-trained")
