"""Parameter counts: those of N19's Table 2, to the last digit."""

from __future__ import annotations

import pytest

from posnmt.model.registry import count_parameters
from posnmt.model.transformer import Transformer
from posnmt.run.resolve import from_tree
from tests.support.tiny import both, build, settings

PUBLISHED = {
    ("transformer", 16_004): 68_736_644,
    ("transformer", 40_004): 105_624_644,
    ("relative", 16_004): 68_787_332,
    ("relative", 40_004): 105_675_332,
    ("rnn", 16_004): 67_684_484,
    ("rnn", 40_004): 104_572_484,
    ("rr", 16_004): 67_730_948,
    ("rr", 40_004): 104_618_948,
    ("rnn-nmt", 16_004): 70_521_476,
    ("rnn-nmt", 40_004): 107_409_476,
}


@pytest.mark.parametrize(("system", "vocabulary"), PUBLISHED)
def test_counts_of_neishi_and_yoshinaga_table_2(system, vocabulary):
    tree = {"data": {"train": {"source": "a", "target": "b"}}, "model": {"system": system}}
    model = from_tree({**tree, "train": {"steps": 1, "dev_bleu": False}}).model
    assert count_parameters(model, vocabulary, vocabulary) == PUBLISHED[system, vocabulary]


def test_what_each_scheme_adds():
    none = count_parameters(settings(), 20, 20)
    assert count_parameters(settings(**both({"scheme": "sinusoidal"})), 20, 20) == none
    # 2 + 2 layers, keys and values, 2k+1 vectors of the width of a head (4)
    assert count_parameters(settings(**both({"scheme": "relative", "distance": 3})), 20, 20) == none + 4 * 2 * 7 * 4
    assert count_parameters(settings(**both({"scheme": "relative", "values": False})), 20, 20) == none + 4 * 33 * 4
    assert count_parameters(settings(**both({"scheme": "learned"}), max_length=50), 20, 20) == none + 2 * 50 * 16


@pytest.mark.parametrize(
    ("width", "cells", "percent"), [(None, 512, {3.0, 3.9}), ("full", 1024, {5.6, 7.3}), (1024, 2048, {16.9, 21.9})]
)
def test_what_readings_of_the_lstms_of_rosendahl_add(width, cells, percent):
    """R19 section 3.3: 20 % more parameters; docs/readings.md compares three readings. `cells` of both directions."""
    wide = {} if width is None else {"width": width}
    scheme = {"scheme": "recurrent", "cell": "lstm", **wide}
    model = {"encoder": {"position": [{**scheme, "bidirectional": True}]}, "decoder": {"position": [scheme]}}
    tree = {"data": {"train": {"source": "a", "target": "b"}}, "train": {"steps": 1, "dev_bleu": False}}

    def lstm(read, written):  # four gates, two biases
        return 4 * (written * (read + written) + 2 * written)

    forward = cells // 2 if width == 1024 else 512
    added = 2 * lstm(512, cells // 2) + lstm(512, forward)
    added += sum(states * 512 + 512 for states in (cells, forward) if states != 512)
    shares = set()
    for vocabulary in (32_004, 50_004):
        plain = count_parameters(from_tree(tree).model, vocabulary, vocabulary)
        assert count_parameters(from_tree({**tree, "model": model}).model, vocabulary, vocabulary) == plain + added
        shares.add(round(100 * added / plain, 1))
    assert shares == percent


def test_what_a_bidirectional_gru_of_full_width_adds():
    """N19's published code, `bi_directional: true`: two GRUs of d and a linear map 2d -> d, for one GRU of d."""
    one, both_ways = (
        count_parameters(settings(encoder={"position": [{"scheme": "recurrent", **options}]}), 20, 20)
        for options in ({}, {"bidirectional": True, "width": "full"})
    )
    assert both_ways == one + 3 * (2 * 16 * 16 + 2 * 16) + 2 * 16 * 16 + 16


@pytest.mark.parametrize(("tie", "saved"), [("none", 0), ("target", 1), ("all", 2)])
def test_tied_matrices_count_once(tie, saved):
    free = count_parameters(settings(), 20, 20)
    assert count_parameters(settings(tie_embeddings=tie), 20, 20) == free - saved * 20 * 16
    model = Transformer(settings(tie_embeddings=tie), 20, 20)
    assert (model.output.weight is model.target.table.weight) == (tie != "none")
    assert (model.source.table is model.target.table) == (tie == "all")


def test_counting_allocates_nothing_and_agrees_with_a_built_model():
    model = build(**both({"scheme": "relative"}))
    assert count_parameters(model.config, 13, 13) == sum(weight.numel() for weight in model.parameters())
