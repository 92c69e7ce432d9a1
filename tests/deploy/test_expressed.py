"""What CTranslate2 can express of a stack's positions, and what it computes; every model of `tiny` is in one list."""

from __future__ import annotations

import random
import re
from types import SimpleNamespace

import pytest
import torch

from posnmt.base.errors import UserError
from posnmt.config.schema import Decode, SchemeChoice
from posnmt.deploy.ctranslate2 import write
from posnmt.deploy.engines.ctranslate2 import CTranslate2Engine
from posnmt.deploy.positions import by_bucket, express
from posnmt.model.positions import build
from posnmt.translate.subwords import score_subwords
from posnmt_position.bias import bucket
from posnmt_position.seam import Stack
from tests.support import tiny

pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed (extra ctranslate2)")

SIZE = 64

EXPRESSED = {
    **dict.fromkeys(["transformer", "shape", "cape", "randomised", "pre-reordering"], (SIZE, SIZE)),
    **dict.fromkeys(["alibi", "alibi-asymmetric", "kerple", "kerple-alone", "kerple-power"], (SIZE, SIZE)),
    **dict.fromkeys(["sandwich", "sandwich-alone"], (SIZE, SIZE)),
    **dict.fromkeys(["relative", "relative-key", "relative-sinusoidal", "relative-sinusoidal-head"], (None, None)),
    **dict.fromkeys(["relative-near", "relative-encoder", "rope", "t5-bias", "t5-bias-near"], (None, None)),
    **dict.fromkeys(["directional-alone", "none"], (None, None)),
    "learned": (1024, 1024),
    "transformer-without-encoder": (None, SIZE),
}
"""Model → its limits with tables of `SIZE` entries."""

REFUSED = {
    "computes embeddings from other words": [
        "rnn", "rnn-layers", "rnn-sru", "rr", "lstm", "lstm-full", "lstm-wide", "rnmt-cascade", "rpe-head",
        "rpe-head-full", "mpr-head", "mpr-head-sru", "mpr-head-lstm", "mpr-head-printed", "recurrent-heads-alone",
        "pre-norm",
    ],
    "changes the input of sub-layers or heads": [
        "additional-pe", "additional-alone", "re-encoder", "re-decoder", "re-both", "re-both-without-decoder",
        "reordering-alone",
    ],
    "changes queries and keys in another way than RoPE": ["xpos", "xpos-alone", "transformer-xl", "xl-relative"],
    "adds terms to attention that depend on more than the distance": [
        "cope", "cope-near", "rope-relative-cope", "fox-alone",
    ],
    "a bias must be the same in every layer, and depend on the distance alone": ["fire", "fire-shared"],
    "which can have one kind of position information": ["relative+absolute", "disan"],
    "has no architecture": [
        "sru", "sru-forward", "pre-norm-sru", "rnn-nmt", "rnnsearch+distortion", "rnnsearch-source",
        "rnnsearch-target", "rnnsearch-none", "convs2s", "convs2s-widths", "dtmt", "dtmt-without-norm", "biarn",
        "biarn-gate", "shared-private", "shared-private-uneven",
    ],
    "DeepNorm": ["deepnorm"],
    "is in some of the layers only": ["by-layer"],
    "in attention to the source, which has no positions there": [
        "cross-relative", "cross-rope-fire", "cross-by-layer",
    ],
}  # fmt: skip
"""Part of the reason → models."""

OTHERS = {
    "rope and a bias": tiny.both({"scheme": "rope", "base": 50.0}, {"scheme": "t5-bias", "buckets": 8, "distance": 9}),
    "biases": tiny.both({"scheme": "t5-bias"}, {"scheme": "kerple"}),
    "a bias and a mask": tiny.encoder({"scheme": "t5-bias", "distance": 9}, {"scheme": "directional"}),
    "tables": tiny.both({"scheme": "sinusoidal"}, {"scheme": "learned"}),
    "one side each": {**tiny.encoder({"scheme": "rope"}), "decoder": {"position": [{"scheme": "learned"}]}},
    "pre-norm": {"system": "relative", "norm": "pre", "norm_epsilon": 1e-2},
    "another epsilon": {"system": "transformer", "norm_epsilon": 1e-2},
    "not scaled": {"system": "transformer", "scale_embeddings": False},
    "a source that begins": {"system": "relative", "source_begin": True},
    "a source that begins and does not end": {"system": "rope", "source_begin": True, "source_end": False},
    "tied": {"system": "rope", "tie_embeddings": "all"},
    "target tied": {"system": "learned", "max_length": SIZE, "tie_embeddings": "target"},
    "uneven": {"system": "alibi", "heads": 2, "encoder": {"layers": 1}, "decoder": {"layers": 3}},
}


class Words:
    """The part of a text pipeline that an engine needs for subwords: their names."""

    def __init__(self, sizes=(tiny.VOCABULARY, tiny.VOCABULARY)):
        names = [
            ["<pad>", "<unk>", "<s>", "</s>", *(f"{side}{i}" for i in range(4, n))]
            for side, n in zip("st", sizes, strict=True)
        ]
        self.source, self.target = (Side(each) for each in names)


class Side:
    def __init__(self, pieces):
        self.subwords = type("Pieces", (), {"pieces": pieces})


def difference(model, folder, limits=None, size=SIZE, sizes=(tiny.VOCABULARY, tiny.VOCABULARY)):
    """The largest difference of the log-probability of a pair in both programs, and the limits."""
    text = Words(sizes)
    longest = write(model, text, folder, size)
    engine = CTranslate2Engine(folder, text, longest)
    draw = random.Random(1)
    sources = [[draw.randrange(4, sizes[0]) for _ in range(n)] for n in (1, 2, 5, 9, 20, 60)]
    targets = [[draw.randrange(4, sizes[1]) for _ in range(n)] for n in (3, 1, 9, 4, 60, 21)]
    ours = score_subwords([model], sources, targets, 100, torch.device("cpu"))
    theirs = engine.score(sources, targets, 100)
    return max(abs(one - other) for one, other in zip(ours, theirs, strict=True)), longest


def test_every_model_is_in_one_of_the_lists():
    refused = [name for names in REFUSED.values() for name in names]
    assert sorted([*EXPRESSED, *refused]) == sorted(tiny.MODELS)


@pytest.mark.parametrize("name", EXPRESSED)
def test_ctranslate2_computes_the_same(name, tmp_path):
    largest, limits = difference(tiny.build(**tiny.MODELS[name]).float(), tmp_path)
    assert limits == EXPRESSED[name]
    assert largest < 1e-4


@pytest.mark.parametrize("name", OTHERS)
def test_parts_and_settings_join(name, tmp_path):
    assert difference(tiny.build(**OTHERS[name]).float(), tmp_path)[0] < 1e-4


def test_a_finite_table_has_a_place_for_the_begin_symbol(tmp_path):
    model = tiny.build(system="learned", max_length=62, source_begin=True).float()
    largest, limits = difference(model, tmp_path)
    assert largest < 1e-4
    assert limits == (61, 62)


@pytest.mark.parametrize(("reason", "name"), [(reason, name) for reason, names in REFUSED.items() for name in names])
def test_what_it_cannot_express_is_refused_with_the_reason(reason, name, tmp_path):
    with pytest.raises(UserError, match=re.escape(reason)):
        write(tiny.build(**tiny.MODELS[name]), Words(), tmp_path, SIZE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["transformer", "rope", "randomised"])
def test_interpolated_positions_are_those_of_the_model(name, tmp_path):
    model = tiny.build(**tiny.MODELS[name]).float()
    model.interpolate(2.5)
    assert difference(model, tmp_path)[0] < 1e-4


def test_the_vocabularies_of_both_sides_may_differ(tmp_path):
    from posnmt.model.registry import build_model

    sizes = (9, 30)
    model = build_model(tiny.settings(system="relative"), *sizes).eval()
    assert difference(model, tmp_path, sizes=sizes)[0] < 1e-4


@pytest.mark.parametrize("causal", [False, True])
def test_each_distance_has_the_row_of_its_bucket(causal):
    """T5's own function, written for posnmt's t5-bias, finds in the table the value that the bias has there."""
    stack = Stack(16, 4, 2, causal, 100)
    view = build(SchemeChoice(scheme="t5-bias", buckets=8, distance=11), stack).layer(0)
    table = by_bucket([view], 4, 11, causal)
    offsets = torch.arange(-40, 1 if causal else 41)
    rows = [bucket(int(offset), len(table), len(table), causal) for offset in offsets]
    torch.testing.assert_close(table[rows].T, view.of_offsets(offsets))


def test_a_bias_that_depends_on_the_sentence_is_not_one_by_distance():
    stack = Stack(16, 4, 2, False, 100)
    view = build(SchemeChoice(scheme="fire", threshold=5), stack).layer(0)
    assert by_bucket([view], 4, 63, False) is None


def test_the_table_of_a_scheme_without_an_end_has_the_size_that_is_asked_for():
    stack = Stack(16, 4, 2, False, 100)
    scheme = build(SchemeChoice(scheme="sinusoidal"), stack)
    for size in (7, 300):
        positions = express(["sinusoidal"], [scheme], 2, 4, "encoder", size)
        assert (positions.table.shape, positions.limit) == ((size, 16), size)


def test_a_model_leaves_pytorch_its_threads(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        difference(tiny.build(system="relative").float(), tmp_path / "model")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_few_lines_are_divided_among_the_workers(tmp_path):
    text, asked = Words(), []
    engine = CTranslate2Engine(tmp_path, text, write(tiny.build(system="relative").float(), text, tmp_path, SIZE))
    search = engine._translator.translate_batch

    def noted(rows, **options):
        asked.append(options["max_batch_size"])
        return search(rows, **options)

    engine._workers, engine._translator = 2, SimpleNamespace(translate_batch=noted)
    engine._search([[5] * 89] * 10, [3] * 10, Decode(beam=1))
    assert asked == [450]  # half of the 900 tokens, with eos
