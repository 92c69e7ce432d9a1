"""Whether a model has learned lines of several sentences, and what follows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import yaml

import corpus
import posnmt
from commands import run
from posnmt.cli.group import COMPLETE, SPLIT
from posnmt.config.schema import Complete, Decode, Split
from posnmt.data.text import TextPipeline
from posnmt.run.run import Run
from posnmt.translate.several import LEARNED, LINES, as_trained, has_learned, share_of_several
from posnmt.translate.translator import least_several

ONE, TWO = "Uns mebu zabi.", "Uns mebu zabi. Un gubi tido."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A text of 40 pairs: 10 sources and 5 targets have two sentences."""
    folder = tmp_path_factory.mktemp("several")
    path = corpus.make(folder, pairs=60)
    sources, targets = [TWO] * 10 + [ONE] * 30, [TWO] * 5 + [ONE] * 35
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


def test_training_records_the_share_of_lines_with_several_sentences(folder):
    trained = train(folder, "alone")
    assert trained.several_sentences == {"source": 0.25, "target": 0.125}
    assert trained.record["several_sentences"] == {"source": 0.25, "target": 0.125}
    assert least_several([trained]) == posnmt.load(trained)._searching.several == 0.25


def test_joined_pairs_count_as_what_a_model_learns(folder):
    """Every joined pair has several sentences; lines in a context are separate lines, as they are in translation."""
    joined = train(folder, "joined", "--set", "train.concatenate=1").several_sentences
    assert joined == {"source": (10 + 40) / 80, "target": (5 + 40) / 80}
    (folder / "ids").write_text("book\n" * 40)
    ids = ("--set", f"data.train.documents={folder / 'ids'}", "--set", "train.context=2")
    assert train(folder, "context", *ids).several_sentences == {"source": 0.25, "target": 0.125}


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
    assert share_of_several(pairs, text) == pytest.approx({"source": 0.5, "target": 0.5}, abs=2 / LINES)
    assert (len(seen), seen[0], seen[-1]) == (LINES, 0, 3 * LINES - 1)


def test_an_ensemble_has_learned_what_each_of_its_models_has(folder):
    one, other = train(folder, "one"), train(folder, "other", "--set", "train.concatenate=1")
    assert least_several([other, one]) == 0.25
    record = other.record
    del record["several_sentences"]
    other.write_record(record)
    assert (least_several([other]), least_several([one, other])) == (None, None)


@pytest.mark.parametrize(
    ("share", "settings", "split", "complete"),
    [
        (None, {}, "sentences", "mend"),
        (0.0, {}, "sentences", "mend"),
        (LEARNED - 1e-6, {}, "sentences", "mend"),
        (LEARNED, {}, "huge", "warn"),
        (0.0, {"join": 2}, "huge", "mend"),
        (1.0, {"join": 2}, "huge", "warn"),
        (0.0, {"split": "off"}, "off", "warn"),
        (0.0, {"split": "auto"}, "auto", "mend"),
        (1.0, {"split": "sentences", "complete": "mend"}, "sentences", "mend"),
        (0.0, {"complete": "off"}, "sentences", "off"),
    ],
)
def test_what_suits_the_training_is_chosen_unless_the_user_decides(share, settings, split, complete):
    chosen = as_trained(Decode(**settings), share)
    assert (chosen.split, chosen.complete) == (split, complete)
    assert has_learned(share) is (share is not None and share >= 0.1)


def test_options_are_those_of_the_settings():
    assert (get_args(Split), get_args(Complete)) == (SPLIT, COMPLETE)
    assert (Decode().split, Decode().complete) == ("as-trained", "as-trained")
